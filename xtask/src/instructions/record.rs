//! The recorded values, and what they were recorded with.
use super::Counts;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The key under which the machine's architecture stands.
const MACHINE: &str = "machine";

/// Counts of one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// On what machine and with which tools they were counted.
    pub with: BTreeMap<String, String>,
    /// The counts.
    pub instructions: Counts,
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| format!("{}: {e}; cargo xtask instructions --accept writes it", file.display()))?;
        Self::parse(&text).map_err(|wrong| format!("{}: {wrong}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let object = |key: &str| value.get(key).and_then(Value::as_object).ok_or(format!("no object `{key}`"));
        let mut record = Self { with: BTreeMap::new(), instructions: Counts::new() };
        for (name, text) in object("with")? {
            let text = text.as_str().ok_or(format!("`with.{name}` is not text"))?;
            record.with.insert(name.clone(), text.to_owned());
        }
        for (name, count) in object("instructions")? {
            let count = count.as_u64().filter(|count| *count < 1 << 48);
            let count = count.ok_or(format!("`instructions.{name}` is not a number of instructions"))?;
            record.instructions.insert(name.clone(), count);
        }
        Ok(record)
    }

    /// Writes it.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        std::fs::write(file, self.text()).map_err(|e| format!("{} cannot be written: {e}", file.display()))
    }

    fn text(&self) -> String {
        format!("{:#}\n", json!({ "with": self.with, "instructions": self.instructions }))
    }

    /// Another architecture has other instructions.
    ///
    /// # Errors
    /// A sentence that says what to do then.
    pub fn check_machine(&self, now: &Self) -> Result<(), String> {
        let (then, now) = (self.with.get(MACHINE), now.with.get(MACHINE));
        if then == now {
            return Ok(());
        }
        let unknown = "unknown".to_owned();
        let (then, now) = (then.unwrap_or(&unknown), now.unwrap_or(&unknown));
        Err(format!("the record is of {then} and cannot be compared on {now}; keep one of your own with --record FILE"))
    }

    /// Which tools differ: their names, those of this record, and those of now. The counts are compared all the same, for
    /// most compilers agree far better than within the margin.
    pub fn differences<'a>(&'a self, now: &'a Self) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        let differing = self.with.iter().filter_map(|(what, then)| Some((what, then, now.with.get(what)?)));
        differing.filter(|(_, then, now)| then != now).map(|(what, then, now)| (&**what, &**then, &**now))
    }
}

/// This machine and its tools.
///
/// # Errors
/// A sentence that names a tool that cannot be run.
pub fn tools() -> Result<BTreeMap<String, String>, String> {
    let rustc = version("rustc", "it comes with Rust")?;
    let valgrind = version("valgrind", "install it, as with `apt-get install valgrind`")?;
    let machine = std::env::consts::ARCH.to_owned();
    Ok([("rustc", rustc), ("valgrind", valgrind), (MACHINE, machine)]
        .map(|(what, text)| (what.to_owned(), text))
        .into())
}

fn version(tool: &str, hint: &str) -> Result<String, String> {
    let output = Command::new(tool).arg("--version").output();
    let output = output.map_err(|e| format!("{tool} cannot be run: {e}; {hint}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(said.trim_start_matches(tool).trim_start_matches([' ', '-']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(machine: &str, rustc: &str) -> Record {
        let with = [(MACHINE, machine), ("rustc", rustc)].map(|(what, text)| (what.to_owned(), text.to_owned()));
        Record { with: with.into(), instructions: [("1350/data".to_owned(), 1_470)].into() }
    }

    #[test]
    fn a_record_reads_back() {
        let record = record("x86_64", "1.95.0");
        assert_eq!(Record::parse(&record.text()), Ok(record));
    }

    #[test]
    fn what_is_no_record_is_refused_with_what_is_wrong() {
        for (text, wrong) in [
            ("", "EOF"),
            ("{}", "no object `with`"),
            (r#"{"with":{"rustc":1},"instructions":{}}"#, "`with.rustc` is not text"),
            (r#"{"with":{},"instructions":[]}"#, "no object `instructions`"),
            (r#"{"with":{},"instructions":{"x":-1}}"#, "`instructions.x` is not a number"),
            (r#"{"with":{},"instructions":{"x":18446744073709551615}}"#, "`instructions.x` is not a number"),
        ] {
            let said = Record::parse(text).unwrap_err();
            assert!(said.contains(wrong), "{text}: {said}");
        }
    }

    #[test]
    fn another_architecture_is_refused_and_another_compiler_is_told() {
        let then = record("x86_64", "1.95.0");
        assert!(then.check_machine(&record("aarch64", "1.95.0")).unwrap_err().contains("--record FILE"));
        let now = record("x86_64", "1.96.0");
        assert_eq!(then.check_machine(&now), Ok(()));
        assert_eq!(then.differences(&now).collect::<Vec<_>>(), [("rustc", "1.95.0", "1.96.0")]);
    }
}

//! `cargo xtask trace`: the numbered rules of the protocol pages against the code. `//= R12` stands where a rule is kept,
//! `//= R12 test` in a test that tries it.
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask trace [RULE]

Lists the rules of docs/protocols/*.md (written there as **R12**) that no code cites with `//= R12`, or that no test
cites with `//= R12 test`, and citations of rules that do not exist. Fails if there are any.

With a rule, such as R12: prints where it is stated, kept and tried.
";

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let word = words.into_iter().next();
    let wanted = word.as_ref().and_then(|word| id(word.to_str()?));
    if let (Some(word), None) = (&word, &wanted) {
        print!("{HELP}");
        let asked = word == "--help" || word == "-h";
        return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    match trace(&root()) {
        Ok(rules) => wanted.map_or_else(|| report(&rules), |id| show(&rules, &id)),
        Err(error) => {
            eprintln!("trace: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// What was found of one rule: the places, as `file:line`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rule {
    stated: Vec<String>,
    kept: Vec<String>,
    tried: Vec<String>,
}

impl Rule {
    fn lacks(&self) -> Option<&'static str> {
        match (self.stated.len(), self.kept.is_empty(), self.tried.is_empty()) {
            (0, ..) => Some("is cited but not stated"),
            (2.., ..) => Some("is stated twice"),
            (_, true, true) => Some("has no code and no test"),
            (_, true, false) => Some("has no code"),
            (_, false, true) => Some("has no test"),
            (_, false, false) => None,
        }
    }
}

/// Letters, number and small letter of a rule's id.
type Id = (String, u32, String);
type Rules = BTreeMap<Id, Rule>;

fn show(rules: &Rules, id: &Id) -> ExitCode {
    let Some(rule) = rules.get(id) else {
        eprintln!("trace: no page of docs/protocols states {}{}{}", id.0, id.1, id.2);
        return ExitCode::FAILURE;
    };
    for (verb, places) in [("stated", &rule.stated), ("kept", &rule.kept), ("tried", &rule.tried)] {
        places.iter().for_each(|place| println!("{verb:<6} {place}"));
    }
    ExitCode::SUCCESS
}

fn report(rules: &Rules) -> ExitCode {
    let mut open = 0;
    for ((letters, number, tail), rule) in rules {
        if let Some(lack) = rule.lacks() {
            open += 1;
            let places: Vec<_> = [&rule.stated, &rule.kept, &rule.tried].into_iter().flatten().cloned().collect();
            println!("{letters}{number}{tail} {lack}: {}", places.join(", "));
        }
    }
    println!("trace: {} rules, {open} open", rules.len());
    if open == 0 && !rules.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trace(root: &Path) -> io::Result<Rules> {
    let mut rules = Rules::new();
    each_file(&root.join("docs/protocols"), "md", &mut |path, text| read_page(&mut rules, &name(root, path), text))?;
    for folder in ["crates", "protocols", "xtask"] {
        each_file(&root.join(folder), "rs", &mut |path, text| read_code(&mut rules, &name(root, path), text))?;
    }
    Ok(rules)
}

/// A file, as seen from the workspace.
pub fn name(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Shows every file below a folder that has this extension, in the order of their names.
pub fn each_file(folder: &Path, extension: &str, see: &mut impl FnMut(&Path, &str)) -> io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                each_file(&path, extension, see)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            see(&path, &std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// A rule is stated where a list item, a heading or a paragraph begins with its id in bold.
fn read_page(rules: &mut Rules, file: &str, text: &str) {
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_start_matches(['#', '-', ' ']);
        let bold = line.strip_prefix("**").and_then(|rest| rest.split_once("**"));
        if let Some(id) = bold.and_then(|(bold, _)| id(bold)) {
            rules.entry(id).or_default().stated.push(format!("{file}:{number}"));
        }
    }
}

fn read_code(rules: &mut Rules, file: &str, text: &str) {
    for (line, number) in text.lines().zip(1..) {
        let Some(citation) = line.trim().strip_prefix("//= ") else { continue };
        let mut words = citation.split_whitespace();
        let Some(id) = words.next().and_then(id) else { continue };
        let rule = rules.entry(id).or_default();
        let place = format!("{file}:{number}");
        if words.next() == Some("test") { rule.tried.push(place) } else { rule.kept.push(place) }
    }
}

/// Capital letters, a number, perhaps a small letter: `R12`, `SF4`, `TO1p`.
fn id(text: &str) -> Option<Id> {
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    let (letters, rest) = text.split_at(digits);
    let tail = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, tail) = rest.split_at(tail);
    let fits = letters.chars().all(|c| c.is_ascii_uppercase()) && tail.chars().all(|c| c.is_ascii_lowercase());
    (fits && !letters.is_empty() && tail.len() <= 1).then_some(())?;
    Some((letters.to_owned(), number.parse().ok()?, tail.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(page: &str, code: &str) -> Vec<(String, Option<&'static str>)> {
        let mut rules = Rules::new();
        read_page(&mut rules, "page.md", page);
        read_code(&mut rules, "code.rs", code);
        rules.into_iter().map(|((l, n, t), rule)| (format!("{l}{n}{t}"), rule.lacks())).collect()
    }

    #[test]
    fn rules_without_code_or_test_are_found() {
        let page =
            "# Page\n- **R1** one, see **R2** too\n- **R2** two\n### **R10** ten\n\nR3 is not bold\n- **R4** four";
        let code = "  //= R1\n //= R1 test\n//= R10 test\n//= R2\n//= R99\n// R4";
        let expected = [
            ("R1", None),
            ("R2", Some("has no test")),
            ("R4", Some("has no code and no test")),
            ("R10", Some("has no code")),
            ("R99", Some("is cited but not stated")),
        ];
        assert_eq!(rules(page, code), expected.map(|(id, lack)| (id.to_owned(), lack)));
    }

    #[test]
    fn a_rule_stated_twice_is_open() {
        assert_eq!(rules("- **R1** a\n- **R1** b", "//= R1\n//= R1 test"), [("R1".into(), Some("is stated twice"))]);
    }
}

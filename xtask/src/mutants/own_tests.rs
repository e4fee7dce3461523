//! The tests of a protocol's own crate, with one of its rules broken in all that they make.
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Tests that may notice a broken rule.
#[derive(Clone, Copy, Debug)]
pub struct OwnTests {
    /// Whose.
    pub package: &'static str,
    /// Only those in this module.
    pub within: &'static str,
    /// What tells them which rule is broken.
    pub variable: &'static str,
}

/// A test that failed.
#[derive(Debug)]
pub struct Failed {
    /// Its whole name.
    pub test: String,
    /// The promise that it found broken.
    pub promise: &'static str,
}

/// A package's tests, built.
#[derive(Clone, Debug)]
struct Program {
    file: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
}

impl OwnTests {
    /// The test of this name if it fails with this rule broken, or any of them: best one that says which promise is broken.
    pub fn failed(&self, mutant: &str, test: Option<&str>) -> Option<Failed> {
        let program = self.program()?;
        let mut command = Command::new(program.file);
        command.current_dir(program.directory).env(self.variable, mutant);
        command.args(test.map_or_else(|| vec![self.within], |test| vec![test, "--exact"]));
        let output = command.output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = |line: &str| Some(line.trim().strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
        let failed: Vec<String> = text.lines().filter_map(line).collect();
        let judged = failed.iter().find_map(|test| Some((test, promise(&text, test)?)));
        let (test, promise) = judged.or_else(|| Some((failed.first()?, "scenario")))?;
        Some(Failed { test: test.clone(), promise })
    }

    /// Its program; built once, for cargo takes longer than the tests.
    fn program(&self) -> Option<Program> {
        static BUILT: Mutex<BTreeMap<&str, Option<Program>>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        built.entry(self.package).or_insert_with(|| build(self.package)).clone()
    }
}

fn build(package: &str) -> Option<Program> {
    let mut cargo = consort_cargo::cargo();
    cargo.args(["test", "--quiet", "--no-run", "--package", package, "--features", "mutants", "--lib"]);
    let output = cargo.arg("--message-format=json-render-diagnostics").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().filter_map(|line| serde_json::from_str(line).ok()).find_map(|message: Value| {
        let directory = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
        Some(Program { file: message.get("executable")?.as_str()?.into(), directory })
    });
    if found.is_none() {
        eprintln!("mutants: the tests of {package} cannot be built: {}", String::from_utf8_lossy(&output.stderr));
    }
    found
}

/// What the judges call the promise that a test found broken: the word before the colon.
fn promise(output: &str, test: &str) -> Option<&'static str> {
    let block = output.split("---- ").find(|block| block.starts_with(&format!("{test} ")))?;
    let said = block.lines().skip_while(|line| !line.contains("panicked at")).nth(1)?;
    let said = said.rsplit_once("failed: ").map_or(said, |(_, said)| said);
    PROMISES.iter().copied().find(|name| said.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
}

/// The promises of `protocols/paxos/src/tests`, and of those of many rings.
const PROMISES: [&str; 29] = [
    "agreement",
    "ballots",
    "compatible",
    "credit",
    "history",
    "kept first",
    "lease",
    "liveness",
    "memory",
    "names",
    "no gap",
    "one log",
    "one order",
    "one value",
    "one value for a ballot",
    "order",
    "own messages",
    "payloads",
    "primary",
    "promises",
    "quorum",
    "refusal",
    "replay",
    "ring",
    "sender's order",
    "sequence",
    "undisturbed",
    "views",
    "window",
];

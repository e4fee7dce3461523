//! The tests of a protocol's own crate, with one of its rules broken in all that they make.
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

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
#[derive(Debug)]
struct Program {
    file: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
}

impl OwnTests {
    /// The test of this name if it fails with this rule broken, or any of them: best one that says which promise is broken.
    pub fn failed(&self, mutant: &str, test: Option<&str>) -> Option<Failed> {
        let program = PROGRAMS.get()?.get(self.package)?;
        let mut command = Command::new(&program.file);
        command.current_dir(&program.directory).env(self.variable, mutant);
        command.args(test.map_or_else(|| vec![self.within], |test| vec![test, "--exact"]));
        let text = printed(&mut command)?;
        let line = |line: &str| Some(line.trim().strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
        let failed: Vec<String> = text.lines().filter_map(line).collect();
        let judged = failed.iter().find_map(|test| Some((test, promise(&text, test)?)));
        let (test, promise) = judged.or_else(|| Some((failed.first()?, "scenario")))?;
        Some(Failed { test: test.clone(), promise })
    }
}

/// A broken rule may make a test run forever. What takes longer has noticed nothing.
const LONGEST: Duration = Duration::from_secs(120);

/// What a command prints until it ends. One that does not end is killed, and has printed nothing.
fn printed(command: &mut Command) -> Option<String> {
    let mut file = tempfile::tempfile().ok()?;
    // Tests that shrink what they found panic thousands of times: each backtrace takes longer than the test.
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(file.try_clone().ok()?).spawn().ok()?;
    let begun = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if begun.elapsed() > LONGEST {
            child.kill().ok()?;
            child.wait().ok()?;
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// What was built.
static PROGRAMS: OnceLock<BTreeMap<String, Program>> = OnceLock::new();

/// Builds the tests of these packages in one go, so that what they share is compiled once.
pub fn build(packages: &BTreeSet<&str>) {
    let mut cargo = consort_cargo::cargo();
    cargo.args(["test", "--quiet", "--no-run", "--lib", "--message-format=json-render-diagnostics"]);
    for package in packages {
        cargo.args(["--package", package, "--features", &format!("{package}/mutants")]);
    }
    let built = match cargo.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            text.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect()
        }
        Err(error) => {
            eprintln!("mutants: cargo cannot be run: {error}");
            BTreeMap::new()
        }
    };
    for package in packages.iter().filter(|package| !built.contains_key(**package)) {
        eprintln!("mutants: the tests of {package} cannot be built");
    }
    let _ = PROGRAMS.set(built);
}

/// A package and its program, if this is what cargo says of one.
fn program(message: &Value) -> Option<(String, Program)> {
    let directory = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    let package = message.get("target")?.get("name")?.as_str()?.replace('_', "-");
    Some((package, Program { file: message.get("executable")?.as_str()?.into(), directory }))
}

/// What the judges call the promise that a test found broken: the word before the colon.
fn promise(output: &str, test: &str) -> Option<&'static str> {
    let block = output.split("---- ").find(|block| block.starts_with(&format!("{test} ")))?;
    let said = block.lines().skip_while(|line| !line.contains("panicked at")).nth(1)?;
    let said = said.rsplit_once("failed: ").map_or(said, |(_, said)| said);
    PROMISES.iter().copied().find(|name| said.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
}

/// The promises of `protocols/paxos/src/tests`, and of those of many rings.
const PROMISES: [&str; 51] = [
    "agreement",
    "assertion",
    "ballots",
    "CA",
    "compatible",
    "credit",
    "D1",
    "D3",
    "filtering",
    "groups",
    "history",
    "joins",
    "kept first",
    "lease",
    "liveness",
    "memory",
    "names",
    "no gap",
    "offers",
    "one log",
    "one order",
    "one value",
    "one value for a ballot",
    "order",
    "own messages",
    "payloads",
    "PR",
    "primary",
    "promises",
    "quorum",
    "refusal",
    "replay",
    "ring",
    "SD",
    "sender's order",
    "sequence",
    "SF1",
    "SF2",
    "SF3",
    "TO1",
    "TO2",
    "TO3",
    "undisturbed",
    "views",
    "VS",
    "W1",
    "W2",
    "W3",
    "W4",
    "W5",
    "window",
];

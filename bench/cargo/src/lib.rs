//! Programs and libraries of the workspace, built where they are wanted; a crate of its own, so that whoever builds a daemon
//! need not be built with one.
#![allow(clippy::disallowed_methods, reason = "processes are started here")]

use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// With these, crates are built as `cargo test --workspace` builds them, whose artefacts serve again.
const AS_TESTED: &[&str] = &[
    "--workspace",
    "--features",
    "consort/tokio,consort/serde,consort/tracing,consort-replica/serde,consort-daemon/zookeeper",
];

/// Builds a package's program with this profile and returns its file.
///
/// # Errors
/// If cargo cannot be run, or fails; then it has said why.
pub fn program(package: &str, profile: &str) -> io::Result<PathBuf> {
    executable(&build(&["--package", package], profile)?, package)
}

/// The program `consort`, built as the running test is: most often it is there already.
///
/// # Errors
/// As [`program`].
pub fn program_for_tests() -> io::Result<PathBuf> {
    let messages = build(&[AS_TESTED, &["--bin", "consort"]].concat(), &profile_of_test()?)?;
    executable(&messages, "consort-cli")
}

/// A package's library with this file name, built as the running test is.
///
/// # Errors
/// As [`program`].
pub fn library_for_tests(package: &str, file: &str) -> io::Result<PathBuf> {
    let messages = build(&[AS_TESTED, &["--lib"]].concat(), &profile_of_test()?)?;
    let files = messages.iter().filter_map(|message| message.get("filenames")?.as_array()).flatten();
    let mut paths = files.filter_map(|path| path.as_str().map(PathBuf::from));
    paths.find(|path| path.file_name().is_some_and(|name| name == file)).ok_or_else(|| lacks(package, file))
}

/// The last program that cargo says it has built.
fn executable(messages: &[Value], package: &str) -> io::Result<PathBuf> {
    let file = |message: &Value| Some(PathBuf::from(message.get("executable")?.as_str()?));
    messages.iter().filter_map(file).next_back().ok_or_else(|| lacks(package, "program"))
}

/// The profile with which the running test was built.
fn profile_of_test() -> io::Result<String> {
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).and_then(|directory| directory.file_name()?.to_str());
    Ok(profile.filter(|profile| *profile != "debug").unwrap_or("dev").to_owned())
}

/// Cargo, as if it was not started by a program that cargo runs: what that was told of its own package would have build
/// scripts run again that look at it (that of `ring` does), and all that follows compiled again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_of_a_package = |name: &str| {
        let begins = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CFG_"].iter().any(|prefix| name.starts_with(prefix));
        begins || name == "OUT_DIR"
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_a_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds what these words select; what cargo says of each part.
fn build(selection: &[&str], profile: &str) -> io::Result<Vec<Value>> {
    let mut command = cargo();
    command.args(["build", "--profile", profile, "--message-format=json-render-diagnostics"]).args(selection);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("cargo build ended with {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn lacks(package: &str, what: &str) -> io::Error {
    io::Error::other(format!("the package {package} has built no {what}"))
}

//! Programs and libraries of the workspace, built where they are wanted.
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds a package's program with this profile and returns its file.
///
/// # Errors
/// If cargo cannot be run, or fails; then it has said why.
pub fn program(package: &str, profile: &str) -> io::Result<PathBuf> {
    let executable = |message: &Value| Some(PathBuf::from(message.get("executable")?.as_str()?));
    build(package, profile)?.iter().filter_map(executable).next_back().ok_or_else(|| lacks(package, "program"))
}

/// The program `consort`, built as the running test is: most often it is there already.
///
/// # Errors
/// As [`program`].
pub fn program_for_tests() -> io::Result<PathBuf> {
    program("consort-cli", &profile_of_test()?)
}

/// A package's library with this file name, built as the running test is.
///
/// # Errors
/// As [`program`].
pub fn library_for_tests(package: &str, file: &str) -> io::Result<PathBuf> {
    let messages = build(package, &profile_of_test()?)?;
    let files = messages.iter().filter_map(|message| message.get("filenames")?.as_array()).flatten();
    let mut paths = files.filter_map(|path| path.as_str().map(PathBuf::from));
    paths.find(|path| path.file_name().is_some_and(|name| name == file)).ok_or_else(|| lacks(package, file))
}

/// The profile with which the running test was built.
fn profile_of_test() -> io::Result<String> {
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).and_then(|directory| directory.file_name()?.to_str());
    Ok(profile.filter(|profile| *profile != "debug").unwrap_or("dev").to_owned())
}

/// Builds a package; what cargo says of each of its parts.
fn build(package: &str, profile: &str) -> io::Result<Vec<Value>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", profile, "--package", package, "--message-format=json-render-diagnostics"]);
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

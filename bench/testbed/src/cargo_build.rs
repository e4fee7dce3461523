//! Programs of the workspace, built where they are wanted.
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds a package's program with this profile and returns its file.
///
/// # Errors
/// If cargo cannot be run, or fails; then it has said why.
pub fn program(package: &str, profile: &str) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", profile, "--package", package, "--message-format=json-render-diagnostics"]);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let output = command.stderr(Stdio::inherit()).output()?;
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    };
    let built = String::from_utf8_lossy(&output.stdout).lines().filter_map(executable).next_back();
    let refused = || io::Error::other(format!("cargo build ended with {}", output.status));
    built.filter(|_| output.status.success()).ok_or_else(refused)
}

/// The program `consort`, built as the running test is: most often it is there already.
///
/// # Errors
/// As [`program`].
pub fn program_for_tests() -> io::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).and_then(|directory| directory.file_name()?.to_str());
    program("consort-cli", profile.filter(|profile| *profile != "debug").unwrap_or("dev"))
}

//! Programs of the workspace.
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
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let output = command.stderr(Stdio::inherit()).output()?;
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    };
    let built = String::from_utf8_lossy(&output.stdout).lines().filter_map(executable).next_back();
    let refused = || io::Error::other(format!("cargo build ended with {}", output.status));
    built.filter(|_| output.status.success()).ok_or_else(refused)
}

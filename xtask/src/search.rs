//! `cargo xtask search`: the exhaustive search, which is a program of its own because it builds the ring with its inside open.
use std::ffi::OsString;
use std::process::{Command, ExitCode};

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["run", "--profile", "tools", "--quiet", "--package", "consort-ring-model", "--"];
    match Command::new(cargo).args(arguments).args(words).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("search: cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}

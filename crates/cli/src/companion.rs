//! Commands that are programs of their own: started where they are installed, beside this one or in PATH.
use crate::failure::{Failure, Outcome, Trying};
use consort_testbed::installed;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A command's name, its program, and the folder that it is built from.
const COMPANIONS: [(&str, &str, &str); 3] = [
    ("top", "consort-top", "crates/top"),
    ("bench", "consort-bench", "bench/bench"),
    ("lab", "consort-papers", "bench/papers"),
];

/// Becomes the program of a command; returns only why it cannot. `None` if no other program has this command.
pub fn start(command: &str, words: &[OsString]) -> Option<Failure> {
    let (_, program, folder) = COMPANIONS.iter().find(|(name, ..)| *name == command)?;
    let found = match installed(program) {
        Ok(Some(found)) => found,
        Ok(None) => {
            return Some(Failure::new(format!(
                "`consort {command}` is a program of its own, `{program}`, which is neither beside this one nor in PATH; in \
                 the sources of Consort, cargo install --locked --path {folder} installs it"
            )));
        }
        Err(failure) => return Some(failure),
    };
    let error = Command::new(&found).args(words).exec();
    let outcome: Outcome = Err(error).trying(|| format!("cannot run {}", found.display()));
    outcome.err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_commands_are_none_of_these() {
        assert!(start("daemon", &[]).is_none() && start("", &[]).is_none());
    }
}

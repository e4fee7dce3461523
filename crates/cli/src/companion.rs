//! Commands that are programs of their own: started where they are installed, beside this one or in PATH.
use crate::failure::{Failure, Outcome, Trying};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command's name, its program, and the folder that it is built from.
pub const COMPANIONS: [(&str, &str, &str); 2] =
    [("bench", "consort-bench", "bench/bench"), ("lab", "consort-papers", "bench/papers")];

/// Becomes the program of a command; returns only why it cannot. `None` if no other program has this command.
pub fn start(command: &str, words: &[OsString]) -> Option<Failure> {
    let (_, program, folder) = COMPANIONS.iter().find(|(name, ..)| *name == command)?;
    let this = std::env::current_exe().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(found) = find(program, this.parent(), &path) else {
        return Some(Failure::new(format!(
            "`consort {command}` is a program of its own, `{program}`, which is neither beside {} nor in PATH; in the \
             sources of Consort, cargo install --locked --path {folder} installs it",
            this.display()
        )));
    };
    let error = Command::new(&found).args(words).exec();
    let outcome: Outcome = Err(error).trying(|| format!("cannot run {}", found.display()));
    outcome.err()
}

fn find(program: &str, beside: Option<&Path>, path: &OsString) -> Option<PathBuf> {
    let directories = beside.map(Path::to_owned).into_iter().chain(std::env::split_paths(path));
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_is_looked_for_beside_this_one_first() {
        let [beside, path] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let found = || find("consort-bench", Some(beside.path()), &path.path().into());
        assert_eq!(found(), None);
        fs::write(path.path().join("consort-bench"), "").unwrap();
        assert_eq!(found(), Some(path.path().join("consort-bench")));
        fs::create_dir(beside.path().join("consort-bench")).unwrap();
        assert_eq!(found(), Some(path.path().join("consort-bench")), "a directory is no program");
        fs::remove_dir(beside.path().join("consort-bench")).unwrap();
        fs::write(beside.path().join("consort-bench"), "").unwrap();
        assert_eq!(found(), Some(beside.path().join("consort-bench")));
    }

    #[test]
    fn other_commands_are_none_of_these() {
        assert!(start("daemon", &[]).is_none() && start("", &[]).is_none());
    }
}

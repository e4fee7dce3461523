//! `consort keygen`: a new key for a cluster.
use crate::args::Args;
use crate::failure::{Failure, Outcome, heard_or_not};
use consort_daemon::security;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// What `consort keygen --help` prints.
pub const HELP: &str = "\
Usage: consort keygen FILE

Writes a new key for a cluster into FILE, which only its owner can read. A file
that exists is left alone.

Give the file to every node of the cluster, and to nobody else: whoever has it
belongs to the cluster. Name it in the settings, or by --key:

  [security]
  key = \"/etc/consort/key\"

`consort key --help` tells how to change a key while messages flow.
";

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let path = read(words)?;
    security::generate(&path)?;
    let name = path.display();
    let mut out = io::stdout();
    heard_or_not(writeln!(out, "wrote a new key to {name}; give it to all nodes of the cluster, and to nobody else"))
}

fn read(words: Vec<OsString>) -> Outcome<PathBuf> {
    match Args::each(words, HELP, |_, _| Ok(false))?.as_slice() {
        [path] => Ok(path.into()),
        [] => Err(Failure::usage("name the file for the key: consort keygen /etc/consort/key")),
        [..] => Err(Failure::usage("a key goes into one file; name one, and copy it to all nodes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_named() {
        let problem = |words: &[&str]| read(words.iter().map(OsString::from).collect()).unwrap_err().message;
        assert!(problem(&[]).contains("consort keygen /etc/consort/key"));
        assert!(problem(&["one", "two"]).contains("name one"));
        assert!(problem(&["--force", "one"]).contains("no such option"));
        assert_eq!(read(vec!["one".into()]).unwrap(), PathBuf::from("one"));
    }
}

//! The state that a replica's directory has, read without the replica.
use crate::checkpoint::{self, Head};
use crate::lasting;
use crate::machine::{Position, StateMachine};
use crate::options::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

/// How often a directory is looked at again whose replica has written newer checkpoints meanwhile, and removed those that were
/// seen.
const TRIES: usize = 5;

/// What was read of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedState {
    /// How many commands are in the state.
    pub position: Position,
    /// Newer checkpoints that are not in it, each with the reason: for example damaged ones.
    pub unused: Vec<String>,
}

/// The machine takes the state of the newest checkpoint in a replica's directory that is whole, whatever kind of order the
/// replica had; `None` if there is no checkpoint. What came behind it is not in it: a replica on an order that lasts, or one that
/// is durable, has that in a log. The directory is only read, and a replica may be using it.
///
/// For a program whose daemons lost their order for good, or that has a backup: it begins another history by ordinary
/// commands, made from this state. A history itself never goes on in another order, because the first one may come back.
///
/// # Errors
/// [`Error::Checkpoints`]: the directory cannot be read, or no checkpoint in it can be used. The machine may have taken a part
/// of one.
pub fn read_checkpoint<M: StateMachine>(directory: &Path, machine: &mut M) -> Result<Option<SavedState>, Error> {
    let failed = |why: String| Error::Checkpoints { directory: directory.to_owned(), why };
    let mut tries = 0;
    loop {
        let mut found = Vec::new();
        let position = newest(directory, machine, &mut found).map_err(|error| failed(error.to_string()))?;
        tries += 1;
        if tries < TRIES && found.iter().any(|(kind, _)| *kind == ErrorKind::NotFound) {
            continue;
        }
        let unused: Vec<_> = found.into_iter().map(|(_, why)| why).collect();
        return match (position, unused.is_empty()) {
            (Some(position), _) => Ok(Some(SavedState { position, unused })),
            (None, true) => Ok(None),
            (None, false) => Err(failed(unused.join("; "))),
        };
    }
}

fn newest<M: StateMachine>(
    directory: &Path,
    machine: &mut M,
    unused: &mut Vec<(ErrorKind, String)>,
) -> io::Result<Option<Position>> {
    match checkpoint::load::<_, lasting::Head>(directory, machine, &mut |kind, why| unused.push((kind, why))) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            unused.clear();
            let head = checkpoint::load::<_, Head>(directory, machine, &mut |kind, why| unused.push((kind, why)))?;
            Ok(head.map(|head| Position(head.line.end.position)))
        }
        read => Ok(read?.map(|head| Position(head.progress.applied))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};

    struct Nothing;

    impl StateMachine for Nothing {
        type Snapshot = ();

        fn apply(&mut self, _at: Position, _command: &[u8]) -> Vec<u8> {
            Vec::new()
        }

        fn snapshot(&self) {}

        fn write((): (), _out: &mut dyn Write) -> io::Result<()> {
            Ok(())
        }

        fn restore(&mut self, _state: &mut dyn Read) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_checkpoint(directory.path(), &mut Nothing).unwrap(), None);
        fs::write(directory.path().join("checkpoint-2"), "CONSREP2").unwrap();
        let error = read_checkpoint(directory.path(), &mut Nothing).unwrap_err().to_string();
        assert!(error.contains("checkpoint-2 is not used: "), "{error}");
        let error = read_checkpoint(&directory.path().join("none"), &mut Nothing).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
    }
}

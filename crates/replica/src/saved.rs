//! The state that a replica's directory has, read without the replica.
use crate::checkpoint::{self, Head};
use crate::lasting;
use crate::machine::{Position, StateMachine};
use crate::options::Error;
use std::io::ErrorKind;
use std::path::Path;

/// The machine takes the state of the newest checkpoint in a replica's directory that is whole, whatever kind of order the
/// replica had. Returns how many commands are in that state, or `None` if there is no such checkpoint. What came behind it is
/// not in it. The directory is only read, and a replica may be using it.
///
/// For a program whose daemons lost their order for good, or that has a backup: it begins another history by ordinary
/// commands, made from this state. A history itself never goes on in another order, because the first one may come back.
///
/// # Errors
/// [`Error::Checkpoints`]: the directory cannot be read, or the machine takes none of the checkpoints that are whole. It may
/// have taken a part of one.
pub fn read_checkpoint<M: StateMachine>(directory: &Path, machine: &mut M) -> Result<Option<Position>, Error> {
    let of_log = checkpoint::load::<_, lasting::Head>(directory, machine);
    let found = match of_log {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            checkpoint::load::<_, Head>(directory, machine).map(|head| head.map(|head| head.line.end.position))
        }
        of_log => of_log.map(|head| head.map(|head| head.progress.applied)),
    };
    found
        .map(|applied| applied.map(Position))
        .map_err(|error| Error::Checkpoints { directory: directory.to_owned(), why: error.to_string() })
}

//! How a directory of records is kept: a small file beside the segments says it.
use super::{Unusable, replace};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

const NAME: &str = "kept";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Where an engine's records are kept, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records {
    /// The directory; it is made where it does not exist.
    pub directory: PathBuf,
    /// What they outlast.
    pub keep: Keep,
    /// With more bytes than that in its segments the directory is refused: it cannot be right.
    pub most: u64,
}

/// What records outlast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The process. If the machine stops before the daemon does, they count as lost.
    UntilReboot,
    /// A crash of the machine: those that were to be synced.
    Synced,
}

impl Keep {
    /// The setting that asks for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UntilReboot => "async",
            Self::Synced => "sync",
        }
    }
}

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nothing stands here yet, or all that does counts.
    Counts,
    /// What was synced counts: the machine stopped before the daemon did.
    Crashed,
    /// The machine stopped before the daemon did.
    Forgotten,
    /// It was kept otherwise.
    Other(&'static str),
}

impl Owner {
    /// What the last incarnation has left.
    pub fn last(options: &Records) -> Result<Self, Unusable> {
        let path = options.directory.join(NAME);
        match fs::read_to_string(&path) {
            Ok(text) => read(&text, options.keep, &boot())
                .ok_or_else(|| Unusable::Damaged(path, format!("it holds {text:?}, which no daemon writes"))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Counts),
            Err(error) => Err(error.into()),
        }
    }

    /// From here on the records are this incarnation's.
    pub fn claim(options: &Records) -> io::Result<()> {
        replace(&options.directory, NAME, &format!("{} {}\n", options.keep.name(), boot()))
    }

    /// The daemon stops, and everything is synced.
    pub fn leave(options: &Records) -> io::Result<()> {
        replace(&options.directory, NAME, &format!("{} clean\n", options.keep.name()))
    }
}

/// Names the time since the machine started.
fn boot() -> String {
    let id = fs::read_to_string(BOOT).unwrap_or_default();
    if id.trim().is_empty() { "unknown".into() } else { id.trim().into() }
}

fn read(text: &str, keep: Keep, boot: &str) -> Option<Owner> {
    let mut words = text.split_whitespace();
    let (was, then) = (words.next()?, words.next().filter(|_| words.next().is_none())?);
    let was = [Keep::UntilReboot, Keep::Synced].into_iter().find(|keep| keep.name() == was)?;
    Some(match was {
        _ if was != keep => Owner::Other(was.name()),
        _ if then == "clean" || then == boot => Owner::Counts,
        Keep::UntilReboot => Owner::Forgotten,
        Keep::Synced => Owner::Crashed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_were_not_synced_count_until_the_machine_stops_before_the_daemon() {
        let read = |text: &str, keep| super::read(text, keep, "b1");
        assert_eq!(read("async b1\n", Keep::UntilReboot), Some(Owner::Counts), "the process was killed");
        assert_eq!(read("async b0\n", Keep::UntilReboot), Some(Owner::Forgotten), "the machine stopped");
        assert_eq!(read("async clean\n", Keep::UntilReboot), Some(Owner::Counts), "the daemon stopped before");
        assert_eq!(read("sync b0\n", Keep::Synced), Some(Owner::Crashed));
        assert_eq!(read("sync b1\n", Keep::Synced), Some(Owner::Counts));
        assert_eq!(read("sync b1\n", Keep::UntilReboot), Some(Owner::Other("sync")));
        assert_eq!(read("async clean\n", Keep::Synced), Some(Owner::Other("async")));
        for wrong in ["", "async", "sync a b", "soup b1"] {
            assert_eq!(read(wrong, Keep::Synced), None, "{wrong:?}");
        }
    }
}

//! Why a directory of records cannot be used, and what to do about it.
use std::io;
use std::path::PathBuf;

/// Why a journal could not be opened, or its files not be adopted.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The records cannot be right.
    #[error(
        "the records in {} cannot be right: {what}; if a majority of the nodes still has its own, move these away, all \
         files of the directory together, and start again: this node then learns from the others what they held",
        path.display()
    )]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The records are kept in another way than is asked for now.
    #[error(
        "the records in {} were kept with storage = \"{was}\", and \"{now}\" is asked for; set it back, or have one node \
         after the other give up its votes, each once the one before votes again",
        path.display()
    )]
    Kept {
        /// The directory.
        path: PathBuf,
        /// How they were kept.
        was: &'static str,
        /// What is asked for.
        now: &'static str,
    },
    /// The records are those of another node, or of another cluster.
    #[error(
        "the records in {} belong to node {node} of cluster `{cluster}`, and this daemon is node {me} of cluster \
         `{my_cluster}`; give this daemon its own directory with --state-dir, and put these back where they belong",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Whose node they are.
        node: u16,
        /// The name of that node's cluster.
        cluster: String,
        /// The node that was to use them.
        me: u16,
        /// The name of its cluster.
        my_cluster: String,
    },
    /// The records do not say whose they are.
    #[error(
        "the records in {} do not say to which node they belong, because an earlier version wrote them or their file \
         `identity` is gone; run the version that wrote them, or put that file back",
        path.display()
    )]
    Unnamed {
        /// The directory.
        path: PathBuf,
    },
    /// The records cannot be read or written.
    #[error("cannot use the records in {}: {source}{}", path.display(), room_hint(source).unwrap_or_default())]
    Records {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// What to do where a disk takes nothing more, as the end of a sentence that begins with `; `; none for another error.
pub fn room_hint(source: &io::Error) -> Option<&'static str> {
    match source.kind() {
        io::ErrorKind::StorageFull => Some("; free some space and start again"),
        io::ErrorKind::QuotaExceeded => Some("; raise the quota and start again"),
        _ => None,
    }
}

//! Whose records a directory holds, and how they are kept: a small file beside the segments says it.
//!
//! ```text
//! consort records 1
//! cluster prod
//! node 2
//! storage sync
//! boot 3a9f...            which start of the machine wrote it; `clean` after a stop of the daemon
//! id 51c0...              drawn when the directory was made; the file beside the directory names it, too
//! files 1042.1764.. ...   this very file and the mark, by which a copy of them is noticed
//! copied 0                the incarnation that found them to be a copy; 0 for none
//! ```
use super::{Unusable, mark, replace};
use consort_types::Incarnation;
use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

pub(super) const NAME: &str = "identity";
/// What earlier versions wrote instead, which named no owner.
const EARLIER: &str = "kept";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const DRAW: &str = "/proc/sys/kernel/random/uuid";
const HEAD: &str = "consort records 1";
const CLEAN: &str = "clean";
/// In the file where the kernel does not name it. It equals nothing, not even itself.
const UNKNOWN: &str = "unknown";
/// A file that is longer was written by no daemon.
const LONGEST: u64 = 1 << 12;

/// Where records are kept, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records {
    /// The directory; it is made where it does not exist.
    pub directory: PathBuf,
    /// What they outlast.
    pub keep: Keep,
    /// With more bytes than that in its segments the directory is refused: it cannot be right.
    pub most: u64,
    /// The name of the cluster that they belong to.
    pub cluster: String,
    /// The node that they belong to.
    pub node: u16,
    /// The incarnation of the node that opens them now.
    pub incarnation: Incarnation,
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

/// What the last incarnation has left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing yet, or all that is there counts.
    Counts,
    /// What was synced counts: the machine stopped before the daemon did.
    Crashed,
    /// The machine stopped before the daemon did, and nothing was synced.
    Forgotten,
}

/// What the file says, after the checks of whose records these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    id: String,
    /// The incarnation that found the directory to be a copy; 0 for none.
    pub copied: Incarnation,
}

/// The lines of the file.
#[derive(Debug, PartialEq, Eq)]
struct Lines {
    cluster: String,
    node: u16,
    keep: Keep,
    boot: String,
    id: String,
    files: String,
    copied: Incarnation,
}

impl Lines {
    /// What the file says, and about the file; none where there is no file.
    fn of(options: &Records) -> Result<Option<(Self, Metadata)>, Unusable> {
        let path = options.directory.join(NAME);
        let Some((text, about)) = read(&path)? else { return Ok(None) };
        let Some(lines) = parse(&text) else {
            return Err(Unusable::Damaged(path, format!("it holds {text:?}, which no daemon of this version writes")));
        };
        if (&lines.cluster, lines.node) != (&options.cluster, options.node) {
            return Err(Unusable::Foreign { cluster: lines.cluster, node: lines.node });
        }
        Ok(Some((lines, about)))
    }
}

impl Owner {
    /// Looks whose records these are. Nothing is changed.
    ///
    /// # Errors
    /// Records of another node or cluster, kept in another way, or by a version that named no owner.
    pub fn last(options: &Records, has_segments: bool) -> Result<(Self, Left), Unusable> {
        let Some((lines, about)) = Lines::of(options)? else {
            if has_segments || options.directory.join(EARLIER).exists() {
                return Err(Unusable::Unnamed);
            }
            return Ok((Self { id: draw(), copied: Incarnation(0) }, Left::Counts));
        };
        if lines.keep != options.keep {
            return Err(Unusable::Kept(lines.keep.name()));
        }
        let mut owner = Self { id: lines.id, copied: lines.copied };
        let left = left(lines.keep, &lines.boot, &boot());
        if left != Left::Forgotten && owner.is_copy(options, &lines.files, &about)? {
            owner.copied = options.incarnation;
        }
        Ok((owner, left))
    }

    /// Whether these are other files than a daemon of this node wrote last.
    fn is_copy(&self, options: &Records, files: &str, about: &Metadata) -> Result<bool, Unusable> {
        //= X36
        let path = options.directory.join(mark::NAME);
        let mark = match fs::metadata(&path) {
            Ok(mark) => mark,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Unusable::Damaged(path, "it is missing, so that nothing says what was synced".into()));
            }
            Err(error) => return Err(error.into()),
        };
        if files != names(about, &mark) {
            return Ok(true);
        }
        // A directory that was moved away and back has its own files, but another took its position meanwhile.
        Ok(match read(&beside(&options.directory))? {
            Some((text, _)) => text.trim() != self.id,
            None => true,
        })
    }

    /// From now on the records are this incarnation's.
    pub fn claim(&self, options: &Records) -> io::Result<()> {
        self.name_beside(&options.directory)?;
        self.write(options, &boot().unwrap_or(UNKNOWN.into()))
    }

    /// Notes beside the directory that this one is in use.
    fn name_beside(&self, directory: &Path) -> io::Result<()> {
        let beside = beside(directory);
        let name = beside.file_name().and_then(|name| name.to_str()).ok_or(ErrorKind::InvalidFilename)?;
        replace(beside.parent().unwrap_or(Path::new(".")), name, |_| Ok(format!("{}\n", self.id)))
    }

    /// The daemon stops, and everything is synced.
    pub fn leave(&self, options: &Records) -> io::Result<()> {
        self.write(options, CLEAN)
    }

    fn write(&self, options: &Records, boot: &str) -> io::Result<()> {
        let mark = fs::metadata(options.directory.join(mark::NAME))?;
        replace(&options.directory, NAME, |file| {
            let (keep, Records { cluster, node, .. }) = (options.keep.name(), options);
            let (id, files, copied) = (&self.id, names(&file.metadata()?, &mark), self.copied.0);
            Ok(format!(
                "{HEAD}\ncluster {cluster}\nnode {node}\nstorage {keep}\nboot {boot}\nid {id}\nfiles {files}\ncopied {copied}\n"
            ))
        })
    }
}

/// Whether the files are a copy, which an operator may say is the newest that this node has. Where `really` is true, that is
/// written down. How they are kept stays as it is, and when the machine started that wrote them.
///
/// # Errors
/// Those of the disk, and a directory that is not this node's or names no owner.
pub fn adopt(options: &Records, really: bool) -> Result<bool, crate::OpenError> {
    //= X36
    let adopt = || {
        let (lines, about) = Lines::of(options)?.ok_or(Unusable::Unnamed)?;
        let options = Records { keep: lines.keep, ..options.clone() };
        let owner = Owner { id: lines.id, copied: Incarnation(0) };
        let is_copy = lines.copied.0 > 0 || owner.is_copy(&options, &lines.files, &about)?;
        if is_copy && really {
            owner.name_beside(&options.directory)?;
            owner.write(&options, &lines.boot)?;
        }
        Ok(is_copy)
    };
    adopt().map_err(|wrong| super::unusable(options, wrong))
}

/// The file beside a directory that names the directory which is in use.
fn beside(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push("-id");
    name.into()
}

fn read(path: &Path) -> io::Result<Option<(String, Metadata)>> {
    use std::io::Read as _;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (about, mut bytes) = (file.metadata()?, Vec::new());
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), about)))
}

/// Names two files so that copies of them have other names: by number and birth, where the file system knows it.
fn names(file: &Metadata, mark: &Metadata) -> String {
    let mut text = String::new();
    for about in [file, mark] {
        let born = about.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let gap = if text.is_empty() { "" } else { " " };
        let _never_fails = write!(text, "{gap}{}.{}", about.ino(), born.as_nanos());
    }
    text
}

/// Names the time since the machine started, where the kernel does.
fn boot() -> Option<String> {
    fs::read_to_string(BOOT).ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// A name that no other directory has.
fn draw() -> String {
    fs::read_to_string(DRAW).map_or_else(|_| UNKNOWN.to_owned(), |id| id.trim().to_owned())
}

fn left(keep: Keep, then: &str, now: &Option<String>) -> Left {
    match keep {
        _ if then == CLEAN || now.as_deref() == Some(then) => Left::Counts,
        Keep::UntilReboot => Left::Forgotten,
        Keep::Synced => Left::Crashed,
    }
}

fn parse(text: &str) -> Option<Lines> {
    let mut lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?.lines();
    let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ').map(str::to_owned);
    let (cluster, node, keep) = (value("cluster")?, value("node")?.parse().ok()?, value("storage")?);
    let keep = [Keep::UntilReboot, Keep::Synced].into_iter().find(|known| known.name() == keep)?;
    let (boot, id, files, copied) = (value("boot")?, value("id")?, value("files")?, value("copied")?);
    let all = Lines { cluster, node, keep, boot, id, files, copied: Incarnation(copied.parse().ok()?) };
    lines.next().is_none().then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsynced_records_count_until_the_machine_stops_first() {
        let left = |then, keep| super::left(keep, then, &Some("b1".to_owned()));
        assert_eq!(left("b1", Keep::UntilReboot), Left::Counts, "the process was killed");
        assert_eq!(left("b0", Keep::UntilReboot), Left::Forgotten, "the machine stopped");
        assert_eq!(left(CLEAN, Keep::UntilReboot), Left::Counts, "the daemon stopped before");
        assert_eq!((left("b0", Keep::Synced), left("b1", Keep::Synced)), (Left::Crashed, Left::Counts));
    }

    #[test]
    fn a_start_of_the_machine_without_a_name_equals_no_other() {
        let unnamed = |then, keep| super::left(keep, then, &None);
        assert_eq!(unnamed(UNKNOWN, Keep::UntilReboot), Left::Forgotten, "the page cache may be lost");
        assert_eq!(unnamed(UNKNOWN, Keep::Synced), Left::Crashed);
        assert_eq!(left(Keep::UntilReboot, UNKNOWN, &Some("b1".to_owned())), Left::Forgotten);
        assert_eq!(unnamed(CLEAN, Keep::UntilReboot), Left::Counts, "the daemon had stopped before");
    }

    #[test]
    fn lines_are_read_back_and_others_are_refused() {
        let text = "consort records 1\ncluster c\nnode 2\nstorage sync\nboot b\nid i\nfiles 1.2 3.4\ncopied 7\n";
        let lines = parse(text).unwrap();
        assert_eq!((&lines.cluster[..], lines.node, &lines.files[..]), ("c", 2, "1.2 3.4"));
        assert_eq!((lines.keep, lines.copied), (Keep::Synced, Incarnation(7)));
        for wrong in ["", "soup\n", "sync b1\n", &text.replace("records 1", "records 2"), &format!("{text}more 1\n")] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
        for line in text.lines() {
            assert_eq!(parse(&text.replace(&format!("{line}\n"), "")), None, "without {line}");
        }
    }
}

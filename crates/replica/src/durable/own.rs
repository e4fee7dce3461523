//! The log of one durable copy: its engine, and the journal on its disk.
use super::disk::Disk;
use super::engine::{Effect, Engine, Settings};
use crate::options::{Error, Options};
use bytes::Bytes;
use consort::GroupName;
use consort_journal::{Journal, JournalWriter, Keep, OpenError, Records};
use consort_types::{Incarnation, Ticket};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The journal's directory in that of the copy.
const JOURNAL: &str = "log";
/// What lasts for this time is named: a disk that answers nothing, and what commands wait for.
const PATIENCE: Duration = Duration::from_secs(1);
/// A copy whose disk owes this number of bytes ends, because the other copies can go on without it for as long as they like.
const UNWRITTEN_MAX: usize = 256 << 20;

/// An engine and its journal.
pub(crate) struct OwnLog {
    pub engine: Engine,
    journal: JournalWriter,
    began: Instant,
    /// The last entry that was committed, and since when commands wait.
    waits: Option<(u64, Instant)>,
    /// Records that wait for the disk, each with its number and its bytes, and the bytes of all.
    unwritten: VecDeque<(u64, usize)>,
    unwritten_bytes: usize,
    /// Why the disk takes nothing, as was logged.
    trouble: Option<String>,
}

/// What a copy is to be, as its server says.
pub(crate) struct Wanted<'a> {
    pub group: &'a GroupName,
    pub directory: &'a Path,
    pub options: &'a Options,
    /// The number of its daemon's node: its own where nothing else says which copy it is.
    pub node: u16,
    pub label: String,
    pub address: String,
    /// The last entry that the newest checkpoint has, and the history that it is of; nothing without one.
    pub state: Option<(u64, u64)>,
}

impl OwnLog {
    /// Opens the journal, or makes it.
    ///
    /// # Errors
    /// [`Error::Checkpoints`]: the directory is another's, damaged, or of another store; or no number says which copy it is.
    pub fn open(wanted: Wanted<'_>, wake: impl Fn() + Send + Sync + 'static) -> Result<Self, Error> {
        let failed = |why: String| Error::Checkpoints { directory: wanted.directory.to_owned(), why };
        let (journal, mut disk, count, copy) = open(&wanted).map_err(failed)?;
        let copies = wanted.options.copies;
        if !(1..=copies).contains(&copy) {
            return Err(failed(format!(
                "this server would be copy {copy}, because its daemon is node {copy}, and there are {copies} copies; say which \
                 one it is: --copy NUMBER"
            )));
        }
        let known = &mut disk.known;
        if known.history != 0 && known.copies != copies {
            let was = known.copies;
            return Err(failed(format!(
                "the store has {was} copies, as its first servers said, and not {copies}; give {was}"
            )));
        }
        let (applied, history) = wanted.state.unwrap_or_default();
        if known.history == 0 {
            // The log is lost, and a checkpoint is left.
            known.history = history;
        }
        if history != 0 && known.history != history {
            return Err(failed(format!(
                "a checkpoint is of the store {history:016x}, and the log of the store {:016x}: files of two directories were \
                 put together; give back the whole directory, or an empty one",
                known.history
            )));
        }
        let settings = Settings {
            copies,
            copy,
            token: crate::line::random(),
            forces: wanted.options.force,
            address: wanted.address,
            label: wanted.label,
            log_bytes: wanted.options.log_bytes,
        };
        let copied = journal.copied().0;
        if copied != 0 && copied != disk.known.copied {
            tracing::warn!(
                "{} was copied or put back from a backup: copy {copy} counts as one that lost its directory until it \
                 has taken what the others have",
                wanted.directory.display()
            );
        }
        let engine = Engine::new(settings, disk, count, applied, copied);
        let started = journal.start(move || {
            wake();
            Ok(())
        });
        let journal = started.map_err(|error| Error::directory(wanted.directory, &error))?;
        Ok(Self {
            engine,
            journal,
            began: Instant::now(),
            waits: None,
            unwritten: VecDeque::new(),
            unwritten_bytes: 0,
            trouble: None,
        })
    }

    /// What the journal has synced since.
    ///
    /// # Errors
    /// The disk takes nothing any more, or owes too much.
    pub fn take_written(&mut self) -> io::Result<bool> {
        let mut last = None;
        while let Some(ticket) = self.journal.next_done()? {
            last = Some(ticket.0);
        }
        while let Some((_, bytes)) = self.unwritten.front().filter(|(number, _)| Some(*number) <= last) {
            self.unwritten_bytes -= bytes;
            self.unwritten.pop_front();
        }
        if self.unwritten_bytes > UNWRITTEN_MAX {
            let why = self.trouble.as_deref().unwrap_or("it is too slow");
            let text =
                format!("{} MiB wait for the disk: {why}; start this server again once it writes", UNWRITTEN_MAX >> 20);
            return Err(io::Error::other(text));
        }
        last.into_iter().for_each(|last| self.engine.on_written(last));
        Ok(last.is_some())
    }

    /// The next effect that is not one of the journal.
    pub fn next_effect(&mut self) -> Option<Effect> {
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Write { number, record } => self.write(number, record),
                Effect::Trim { up_to } => self.journal.trim(Ticket(up_to)),
                effect => return Some(effect),
            }
        }
        None
    }

    fn write(&mut self, number: u64, record: Bytes) {
        let (now, bytes) = (self.now(), record.len());
        self.unwritten.push_back((number, bytes));
        self.unwritten_bytes += bytes;
        self.journal.write(now, Ticket(number), record, true);
    }

    fn now(&self) -> consort_types::Instant {
        consort_types::Instant::ZERO + self.began.elapsed()
    }

    /// Logs that the disk takes nothing, and that it takes all again. Commands go on as long as a majority of the others
    /// writes.
    pub fn watch_disk(&mut self, group: &GroupName) {
        let hangs = self.journal.waits_since().is_some_and(|since| self.now().since(since) >= PATIENCE);
        let why = match self.journal.refusal() {
            Some(why) => Some(why.to_string()),
            None => hangs.then(|| "it hangs or is overloaded".to_owned()),
        };
        match (&why, &self.trouble) {
            (Some(why), None) => {
                let directory = self.journal.path().display();
                tracing::warn!(
                    "group {group}: the disk of {directory} takes nothing: {why}; this copy counts for nothing now"
                );
            }
            (None, Some(_)) => tracing::info!("group {group}: the disk takes records again"),
            _ => {}
        }
        self.trouble = why;
    }

    /// Why commands wait, in words, if they do for long: a meeting of the copies takes some milliseconds.
    pub fn waits_for(&mut self, now: Instant) -> Option<String> {
        let committed = self.engine.committed();
        let why = self.engine.waits_for().or_else(|| self.uncommitted())?;
        let since = match self.waits {
            Some((at, since)) if at == committed => since,
            _ => now,
        };
        self.waits = Some((committed, since));
        (now.saturating_duration_since(since) >= PATIENCE).then_some(why)
    }

    /// Why entries are not committed.
    fn uncommitted(&mut self) -> Option<String> {
        let Some(ahead) = self.engine.ahead() else {
            self.waits = None;
            return None;
        };
        if let Some(why) = &self.trouble {
            return Some(format!(
                "a majority of the copies has yet to write; the disk of this one takes nothing: {why}"
            ));
        }
        let ahead: Vec<_> = ahead.iter().map(ToString::to_string).collect();
        let who = if ahead.is_empty() { "no copy".to_owned() } else { format!("only copy {}", ahead.join(", ")) };
        Some(format!("{who} has written the last commands to its disk, and a majority must"))
    }
}

/// Opens the journal of the copy that the directory names, or else of that which is wanted; and reads it.
fn open(wanted: &Wanted<'_>) -> Result<(Journal, Disk, u64, u16), String> {
    let takes = wanted.options.copy;
    let copy = takes.unwrap_or(wanted.node);
    let group = wanted.group.to_string();
    let read = |mut journal: Journal, copy: u16| -> Result<_, String> {
        let found = journal.take_records();
        let count = found.len() as u64;
        let disk = Disk::read(found).map_err(|error| format!("a record of its log is damaged: {error}"))?;
        Ok((journal, disk, count, copy))
    };
    let opened = |copy: u16| {
        let journal = Journal::open(&records(wanted, copy)).map_err(|error| unusable(wanted, &error))?;
        read(journal, copy)
    };
    let other = match Journal::open(&records(wanted, copy)) {
        Ok(journal) => return read(journal, copy),
        Err(OpenError::Foreign { node, cluster, .. }) if cluster == group => node,
        Err(OpenError::Foreign { cluster, .. }) => {
            return Err(format!(
                "it has the state of group {cluster}, and this is a replica of group {group}; give it a directory of its \
                 group, or an empty one"
            ));
        }
        Err(error) => return Err(unusable(wanted, &error)),
    };
    let found = opened(other)?;
    if found.1.known.history == 0 && found.1.known.promised == 0 {
        // A start with a wrong number came to nothing: it is as if the directory were empty.
        drop(found);
        forget(&wanted.directory.join(JOURNAL)).map_err(|error| error.to_string())?;
        return opened(copy);
    }
    if takes.is_none() {
        return Ok(found);
    }
    Err(format!(
        "it is the directory of copy {other}, and this server is to be copy {copy}; give it an empty directory, or have it be \
         copy {other}"
    ))
}

/// Removes a journal that has nothing.
fn forget(journal: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(journal)?;
    match std::fs::remove_file(journal.with_file_name(format!("{JOURNAL}-id"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Why a journal cannot be used, with the remedy for a server.
fn unusable(wanted: &Wanted<'_>, error: &OpenError) -> String {
    match error {
        OpenError::Damaged { path, what } => format!(
            "{} is damaged: {what}. If a majority of the other copies has its directories, move {} away and start this server \
             again, so that it takes the state from them",
            path.display(),
            wanted.directory.display()
        ),
        error => error.to_string(),
    }
}

fn records(wanted: &Wanted<'_>, copy: u16) -> Records {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Records {
        directory: wanted.directory.join(JOURNAL),
        keep: Keep::Synced,
        most: u64::MAX,
        cluster: wanted.group.to_string(),
        node: copy,
        incarnation: Incarnation(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)),
    }
}

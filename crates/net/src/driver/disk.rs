//! What the driver says of the disk that keeps records: that it takes nothing, or that it hangs.
use super::Driver;
use super::log::LOOK;
use consort_journal::JournalWriter;
use consort_node::Engine;
use consort_types::Instant;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// A disk takes some milliseconds for a sync. With a write that waits longer than this it hangs.
const HANGS: Duration = Duration::from_secs(1);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct DiskWatch {
    look_at: Instant,
    said: Option<DiskTrouble>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DiskTrouble {
    /// It refuses writes: what the kernel says, and what helps.
    Refuses { why: String, remedy: &'static str },
    /// A write is under way for too long.
    Hangs,
}

impl DiskTrouble {
    fn of(writer: &JournalWriter, waited: Duration) -> Option<Self> {
        match writer.refusal() {
            Some(error) => Some(Self::Refuses { why: error.to_string(), remedy: remedy(error) }),
            None => (waited >= HANGS).then_some(Self::Hangs),
        }
    }

    fn text(&self, writer: &JournalWriter, waited: Duration) -> String {
        let (path, seconds) = (writer.path().display(), waited.as_secs());
        match self {
            Self::Refuses { why, remedy } => {
                format!("{path} takes nothing for {seconds} s: {why}; this node votes for nothing meanwhile; {remedy}")
            }
            Self::Hangs => format!(
                "a write to {path} has waited for {seconds} s: the disk hangs or is overloaded, and this node votes for \
                 nothing meanwhile; the kernel's log says more"
            ),
        }
    }
}

/// What to do about a refusal; once it is done the writer goes on by itself.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull => "free some space, and it goes on",
        ErrorKind::QuotaExceeded => "raise the quota, and it goes on",
        ErrorKind::FileTooLarge => "raise the limit of the size of files (`ulimit -f`, LimitFSIZE) and restart it",
        _ => "raise the limit of open files (`ulimit -n`, LimitNOFILE), or end some clients, and it goes on",
    }
}

impl<E: Engine> Driver<E> {
    /// To be called when timers are looked at: no timer is set for it.
    pub(super) fn look_at_disk(&mut self) {
        if self.now < self.disk.look_at {
            return;
        }
        self.disk.look_at = self.now + LOOK;
        let Some(writer) = &self.records else { return };
        let waited = self.disk_wait();
        let trouble = DiskTrouble::of(writer, waited);
        let (is_new, is_over) = (trouble != self.disk.said, trouble.is_none() && self.disk.said.is_some());
        match &trouble {
            Some(trouble) if is_new => tracing::warn!("{}", trouble.text(writer, waited)),
            None if is_over => tracing::info!(path = %writer.path().display(), "the disk takes records again"),
            _ => {}
        }
        let shown = trouble.is_some() || is_over;
        self.disk.said = trouble;
        if shown {
            self.note_facts();
        }
    }

    /// How long the oldest write has waited by now.
    fn disk_wait(&self) -> Duration {
        let since = self.records.as_ref().and_then(JournalWriter::waits_since);
        since.map_or(Duration::ZERO, |since| self.now.since(since))
    }

    /// What `status` says of it.
    pub(super) fn disk_facts(&self) -> Vec<(String, String)> {
        let Some(writer) = &self.records else { return Vec::new() };
        let waited = self.disk_wait();
        let refuses = u8::from(writer.refusal().is_some());
        let mut facts = vec![
            ("disk_wait_ms".to_owned(), waited.as_millis().to_string()),
            ("disk_refuses".to_owned(), refuses.to_string()),
        ];
        facts.extend(self.disk.said.as_ref().map(|trouble| ("disk".to_owned(), trouble.text(writer, waited))));
        facts
    }
}

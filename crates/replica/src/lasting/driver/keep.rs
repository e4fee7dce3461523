//! Checkpoints of what was consumed: when they are due, and how they are acknowledged.
use super::{Driver, Source, Stage};
use crate::checkpoint;
use crate::lasting::head::Head;
use crate::lasting::keeping::Kept;
use crate::lasting::transfer;
use crate::machine::StateMachine;
use crate::options::Error;
use consort::{Client, Copies, GroupName, Position, WaitCause};
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long it waits behind one that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// What was kept, and what is to be.
pub(in crate::lasting) struct Keeping {
    /// Names the order.
    pub order: u64,
    kept: Kept,
    serial: u64,
    since: Instant,
    saving: Option<(Head, JoinHandle<io::Result<()>>)>,
    /// The last one failed: when the next is tried.
    failed: Option<(Instant, String)>,
    /// A restore failed in part: nothing of the machine may be kept.
    pub spoilt: bool,
    /// The log begins there, and the state ends before.
    pub lacks_from: u64,
    pub fetch_at: Instant,
    /// Since when the state is further than the log.
    pub beyond_since: Option<Instant>,
    warned: bool,
    /// The log was full: nothing is sent until it has room, or until then.
    full_until: Option<Instant>,
}

impl Keeping {
    /// Nothing was kept, or what these checkpoints on disk have.
    pub fn new(kept: Vec<u64>, order: u64, serial: u64) -> Self {
        Self {
            order,
            kept: Kept::new(kept),
            serial,
            since: Instant::now(),
            saving: None,
            failed: None,
            spoilt: false,
            lacks_from: 0,
            fetch_at: Instant::now(),
            beyond_since: None,
            warned: false,
            full_until: None,
        }
    }

    /// Whether what is sent would wait for room in the log.
    pub const fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    /// The first position that the older of two checkpoints lacks; 1 where there are fewer.
    pub fn declared(&self) -> u64 {
        self.kept.declared()
    }

    pub const fn applied(&mut self, len: usize) {
        self.kept.applied(len);
    }

    /// An acknowledgement that was under way may be lost with its daemon.
    pub const fn asks_again(&mut self) {
        self.kept.asks_again();
    }

    pub fn declare_stands(&mut self) {
        self.kept.is_acknowledged();
    }

    /// Another's checkpoint is on disk, and is the state.
    pub fn came(&mut self, head: &Head) {
        self.serial = self.serial.max(head.serial);
        self.note(head);
    }

    fn note(&mut self, head: &Head) {
        self.kept.note(head.progress.next.position);
        self.since = Instant::now();
    }

    /// A program that knows nothing of logs uses the group, too.
    pub fn warn_of_stranger(&mut self, group: &GroupName, who: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!("{who} takes part in group {group} without a directory: its commands do not count here");
        }
    }

    /// Whether another checkpoint is due.
    fn is_due(&self, now: Instant, every: u64, copies: Option<&Copies>, next: u64) -> bool {
        let is_failed = self.failed.as_ref().is_some_and(|(again, _)| now < *again);
        let age = now.saturating_duration_since(self.since);
        !self.spoilt && !is_failed && self.kept.is_due(age, every, copies, next)
    }
}

impl<M: StateMachine> Driver<M> {
    /// Makes a checkpoint if it is time, in a thread, and acknowledges what is kept.
    pub(super) fn keep(&mut self, now: Instant) {
        if self.keeping.saving.as_ref().is_some_and(|(_, saving)| saving.is_finished()) {
            self.collect(now);
        }
        self.give_way(now);
        self.declare();
        let every = self.parts.options.checkpoint_every;
        let next = self.parts.engine.progress().next.position;
        // It need not serve: if the log is full, its opening waits for checkpoints.
        let takes = self.reads || matches!(self.parts.source, Source::Own(_)) && self.parts.engine.serves();
        let consumes = matches!(self.stage, Stage::Consumes(_)) && takes;
        if !consumes || self.keeping.saving.is_some() {
            return;
        }
        self.move_on(next);
        if self.keeping.is_due(now, every, self.copies.as_ref(), next) {
            self.save();
        }
    }

    /// Others fill the log: a mark shows how far it is, so that the next checkpoint is behind it. Where the log is full marks
    /// wait, too: then reading from there once more shows it.
    fn move_on(&mut self, next: u64) {
        //= RS11
        let Some(copies) = &self.copies else { return };
        let is_behind = copies.last.0 > next && self.keeping.kept.is_pressed(Some(copies), 1);
        if is_behind && copies.held >= copies.budget {
            self.copies = None;
            self.outbox.clear();
            self.parts.engine.on_lost();
            return self.consume();
        }
        if is_behind && self.readers.is_empty() && self.outbox.is_empty() {
            let mark = self.parts.engine.send_mark();
            self.readers.insert(mark, Vec::new());
            let _ = self.act();
        }
    }

    /// If the log is full, what was sent waits in the connection, and acknowledgements would wait behind it for ever: on the
    /// next connection nothing is sent before there is room.
    fn give_way(&mut self, now: Instant) {
        //= RS11
        let has_room = self.copies.as_ref().is_some_and(|copies| copies.held < copies.budget);
        self.keeping.full_until = self.keeping.full_until.filter(|until| now < *until && !has_room);
        let waits = matches!(self.parts.link.seen().and_then(Client::wait_cause), Some(WaitCause::Retention));
        if waits && matches!(self.stage, Stage::Consumes(_)) {
            self.keeping.full_until = Some(now + AGAIN);
            self.copies = None;
            let why = "the log is full, and checkpoints are acknowledged before anything else".to_owned();
            self.lose(&consort::Error::ConnectionLost { why, unknown_fate: 1..1 });
        }
    }

    fn save(&mut self) {
        let head = self.head();
        let machine = self.parts.shared.machine.read().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, directory) = (machine.snapshot(), self.parts.checkpoints.directory().to_owned());
        drop(machine);
        let (head_kept, remote) = (head.clone(), self.parts.shared_directory.clone());
        let shared = Arc::clone(&self.parts.shared);
        let saving = thread::spawn(move || {
            let saved = checkpoint::save::<M>(&directory, &head_kept, snapshot, &shared.written);
            if let (Ok(file), Some(remote)) = (&saved, remote)
                && let Err(error) = transfer::share(&remote, file, &head_kept)
            {
                tracing::warn!("a checkpoint cannot be copied to {}: {error}", remote.display());
            }
            shared.wake();
            saved.map(drop)
        });
        self.keeping.saving = Some((head, saving));
    }

    fn head(&mut self) -> Head {
        self.keeping.serial += 1;
        Head { order: self.keeping.order, serial: self.keeping.serial, progress: self.parts.engine.progress().clone() }
    }

    fn collect(&mut self, now: Instant) {
        let Some((head, saving)) = self.keeping.saving.take() else { return };
        let failed = match saving.join() {
            Ok(Ok(())) => {
                self.keeping.failed = None;
                return self.keeping.note(&head);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its thread panicked".to_owned(),
        };
        if self.keeping.failed.as_ref().is_none_or(|(_, before)| *before != failed) {
            let directory = self.parts.checkpoints.directory().display();
            tracing::warn!(
                "a checkpoint cannot be written to {directory}: {failed}; nothing is lost, and it is tried again, but the log \
                 cannot release what this copy lacks"
            );
        }
        self.keeping.failed = Some((now + AGAIN, failed));
    }

    /// Acknowledges what the older checkpoint has.
    fn declare(&mut self) {
        let Stage::Consumes(bound) = &self.stage else { return };
        let Some(from) = self.keeping.kept.to_acknowledge() else { return };
        if let Source::Own(own) = &mut self.parts.source {
            self.keeping.kept.acknowledges(from);
            self.keeping.kept.is_acknowledged();
            return own.engine.on_kept(from);
        }
        let (seat, epoch, order) = (bound.seat.clone(), bound.epoch, self.keeping.order);
        let Some(client) = self.parts.link.client() else { return };
        if let Err(error) = client.declare_bound(&seat, epoch, order, Position(from)) {
            return self.lose(&error);
        }
        self.keeping.kept.acknowledges(from);
    }

    /// All that was applied is on disk when the replica ends; false if it was never bound, and has nothing to keep.
    pub(super) fn keep_last(&mut self) -> Result<bool, Error> {
        self.collect(Instant::now());
        let next = self.parts.engine.progress().next.position;
        let is_kept = self.keeping.kept.newest().is_some_and(|last| last >= next);
        if self.keeping.spoilt || is_kept || !matches!(self.stage, Stage::Consumes(_)) {
            return Ok(is_kept && !self.keeping.spoilt);
        }
        let head = self.head();
        let machine = self.parts.shared.machine.read().unwrap_or_else(PoisonError::into_inner);
        let snapshot = machine.snapshot();
        drop(machine);
        let directory = self.parts.checkpoints.directory();
        let saved = checkpoint::save::<M>(directory, &head, snapshot, &self.parts.shared.written);
        saved.map(|_| true).map_err(|error| Error::directory(directory, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lasting::keeping::{BYTES, EVERY};
    use consort::Holder;

    const EVERY_COMMANDS: u64 = 1_000;

    fn keeping(kept: &[u64]) -> Keeping {
        Keeping::new(kept.to_vec(), 9, 1)
    }

    /// A log of 1,000 messages that holds so much of its budget of 1,600 bytes.
    fn copies(held: u64) -> Copies {
        let (lasts, order, first, last, budget) = (true, 9, Position(1), Position(1_000), 1_600);
        let group = GroupName::new("g").unwrap();
        Copies { lasts, order, first, last, held, budget, ..Copies::unsupported(Holder::of_group(&group, 1)) }
    }

    #[test]
    fn the_older_of_two_checkpoints_is_acknowledged() {
        //= RS10 test
        assert_eq!([keeping(&[]), keeping(&[70]), keeping(&[70, 90])].map(|keeping| keeping.declared()), [1, 1, 70]);
        let mut keeping = keeping(&[70, 90]);
        keeping.note(&Head { order: 9, serial: 3, progress: progress(120) });
        assert_eq!(keeping.declared(), 90);
    }

    #[test]
    fn a_second_checkpoint_of_one_state_is_due_if_the_log_is_half_full() {
        //= RS10 test
        let (keeping, now) = (keeping(&[70, 90]), Instant::now());
        let is_due = |held| keeping.is_due(now, EVERY_COMMANDS, Some(&copies(held)), 90);
        assert!(!is_due(700) && is_due(900), "there is no news, but a full log waits for the older one");
        let one = self::keeping(&[90]);
        assert!(one.is_due(now, EVERY_COMMANDS, None, 90), "one file may be unreadable");
    }

    #[test]
    fn a_checkpoint_is_due_by_commands_bytes_time_and_the_logs_share() {
        //= RS11 test
        let mut keeping = keeping(&[70, 90]);
        let now = Instant::now();
        assert!(!keeping.is_due(now, EVERY_COMMANDS, Some(&copies(50)), 91));
        assert!(keeping.is_due(now, EVERY_COMMANDS, Some(&copies(150)), 91), "a sixteenth is held for this copy");
        assert!(keeping.is_due(now + EVERY, EVERY_COMMANDS, None, 91));
        assert!(!keeping.is_due(now + EVERY, EVERY_COMMANDS, None, 90), "nothing was consumed since");
        keeping.applied(BYTES as usize);
        assert!(keeping.is_due(now, EVERY_COMMANDS, None, 91));
        keeping.note(&Head { order: 9, serial: 3, progress: progress(91) });
        let now = Instant::now();
        (0..EVERY_COMMANDS).for_each(|_| keeping.applied(1));
        assert!(keeping.is_due(now, EVERY_COMMANDS, None, 92));
        keeping.failed = Some((now + AGAIN, "no space".into()));
        assert!(
            !keeping.is_due(now, EVERY_COMMANDS, None, 92) && keeping.is_due(now + AGAIN, EVERY_COMMANDS, None, 92)
        );
    }

    fn progress(next: u64) -> crate::lasting::engine::Progress {
        crate::lasting::engine::Progress { next: consort::Place::at(next), ..Default::default() }
    }
}

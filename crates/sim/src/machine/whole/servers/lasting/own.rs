//! The log that durable copies keep: the engine of the product, a journal on the server's disk, and what the product's driver
//! does with both.
use super::super::ServerTouch;
use super::super::directory::{Checkpoint, Directory};
use super::{Beginning, End, Process, Settings, Stage};
use bytes::Bytes;
use consort_replica::simulated::Frame;
use consort_replica::simulated::durable::{self, Disk, Effect, Engine};
use consort_session::{ChangeCause, DaemonEvent, Message};
use consort_types::{Duration, Holder, Instant, Rng, Service};
use std::collections::VecDeque;

/// How long the disk takes for a record, and how long where it hangs.
const SYNCS: Duration = Duration::from_millis(3);
const HANGS: Duration = Duration::from_millis(400);
/// It hangs for one record in this number.
const HANGS_ONCE_IN: u64 = 300;
/// A file has this number of records, and is removed as a whole.
const RECORDS: usize = 8;
/// Bytes of the log that a server keeps for others.
const LOG_BYTES: [usize; 3] = [64 << 20, 20_000, 0];

/// An engine and its journal.
#[derive(Debug)]
pub(super) struct OwnLog {
    engine: Engine,
    /// What the disk owes, and when it has done it.
    unwritten: VecDeque<(Work, Instant)>,
    /// The number of the first record in the directory.
    first: u64,
}

/// What a disk is asked for, in this order.
#[derive(Debug)]
enum Work {
    /// The record of this number.
    Write(u64, Bytes),
    /// No record is needed up to this one.
    Trim(u64),
}

impl OwnLog {
    pub fn open(
        settings: &Settings,
        directory: &mut Directory,
        newest: Option<&Checkpoint>,
        beginning: &Beginning,
        touch: &ServerTouch,
    ) -> Self {
        let records: Vec<_> = directory.journal.iter().cloned().collect();
        let count = records.len() as u64;
        let mut disk = Disk::read(records).unwrap_or_else(|error| unreachable!("{error}"));
        if disk.known.history == 0 {
            disk.known.history = newest.map_or(0, |newest| newest.order);
        }
        let copied = directory.copied(beginning.start);
        let settings = durable::Settings {
            copies: settings.copies,
            copy: settings.server + 1,
            token: u128::from(beginning.start),
            forces: false,
            address: settings.server.to_string(),
            label: format!("s{}", settings.server),
            log_bytes: LOG_BYTES[beginning.start as usize % LOG_BYTES.len()],
        };
        let applied = newest.map_or(0, |newest| newest.progress.next.position.saturating_sub(1));
        let engine = Engine::new(settings, disk, count, applied, copied);
        let engine = touch.durable.as_ref().map_or_else(|| engine.clone(), |touch| touch(engine.clone()));
        Self { engine, unwritten: VecDeque::new(), first: 1 }
    }

    fn write(&mut self, number: u64, record: Bytes, now: Instant) {
        let drawn = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let most = if drawn.is_multiple_of(HANGS_ONCE_IN) { HANGS } else { SYNCS };
        let takes = Duration::from_nanos(drawn % most.as_nanos() as u64);
        self.ask(Work::Write(number, record), now, takes);
    }

    fn ask(&mut self, work: Work, now: Instant, takes: Duration) {
        let before = self.unwritten.back().map_or(now, |(_, done)| *done);
        self.unwritten.push_back((work, now.max(before) + takes));
    }

    /// What the disk has by now.
    fn take_written(&mut self, now: Instant, directory: &mut Directory) {
        let mut last = None;
        while self.unwritten.front().is_some_and(|(_, done)| *done <= now)
            && let Some((work, _)) = self.unwritten.pop_front()
        {
            last = self.work(work, directory).or(last);
        }
        last.into_iter().for_each(|last| self.engine.on_written(last));
    }

    fn work(&mut self, work: Work, directory: &mut Directory) -> Option<u64> {
        match work {
            Work::Write(number, record) => {
                directory.journal.push_back(record);
                Some(number)
            }
            Work::Trim(up_to) => {
                self.trim(up_to, directory);
                None
            }
        }
    }

    /// Files of which no record is needed any more are removed.
    fn trim(&mut self, up_to: u64, directory: &mut Directory) {
        let needless = ((up_to + 1).saturating_sub(self.first) as usize).min(directory.journal.len());
        let gone = needless / RECORDS * RECORDS;
        directory.journal.drain(..gone);
        self.first += gone as u64;
    }

    /// Of what the disk owes it may have some, but none without those before.
    pub fn crash(&mut self, directory: &mut Directory, rng: &mut Rng) {
        self.unwritten.truncate(rng.below(self.unwritten.len() as u64 + 1) as usize);
        self.stop(directory);
    }

    /// All is on disk when it stops.
    pub fn stop(&mut self, directory: &mut Directory) {
        for (work, _) in std::mem::take(&mut self.unwritten) {
            self.work(work, directory);
        }
    }

    /// The servers that may have a checkpoint for it.
    pub fn donors(&self) -> Vec<u16> {
        self.engine.donors().iter().filter_map(|address| address.parse().ok()).collect()
    }

    pub fn on_kept(&mut self, from: u64) {
        self.engine.on_kept(from);
    }

    pub fn on_checkpoint(&mut self, applied: u64) {
        self.engine.on_checkpoint(applied);
    }

    pub const fn applied(&self) -> u64 {
        self.engine.applied()
    }

    pub fn on_lost(&mut self) {
        self.engine.on_lost();
    }
}

impl Process {
    /// Takes part in the group; the view that follows begins a meeting of the copies.
    pub(super) fn join(&mut self, message_max: usize) {
        let Some(own) = &mut self.own else { return };
        if matches!(self.stage, Stage::Asks) {
            let seat = Holder::of_group(&self.settings.group, self.settings.server + 1);
            self.stage = Stage::Consumes { seat, epoch: 0 };
        }
        own.engine.on_connected(message_max);
    }

    pub(super) fn take_written(&mut self, now: Instant, directory: &mut Directory) {
        if let Some(own) = &mut self.own {
            own.take_written(now, directory);
            self.act_for_own_log(now);
        }
    }

    /// Events of the group.
    pub(super) fn on_own_event(&mut self, event: &DaemonEvent) {
        let Some(own) = &mut self.own else { return };
        match event {
            DaemonEvent::GroupView(view) if view.cause != ChangeCause::Primary => {
                own.engine.on_membership(view.id.view.number, view.id.change);
            }
            DaemonEvent::GroupSignal(_) => own.engine.on_signal(),
            DaemonEvent::Message(message) => self.on_word(message),
            _ => {}
        }
    }

    fn on_word(&mut self, message: &Message) {
        let Some(own) = &mut self.own else { return };
        let bytes = Bytes::copy_from_slice(message.payload());
        match Frame::decode(&bytes) {
            Ok(Frame::Said(said)) => own.engine.on_said(*said),
            Ok(Frame::Open { .. } | Frame::Numbered { .. }) => own.engine.on_entry(bytes),
            Ok(frame @ Frame::Mark { .. }) if self.engine.is_own_mark(&frame) => {
                let _counts = own.engine.on_behind(bytes);
            }
            _ => {}
        }
    }

    /// Does what the engine of the own log asks for.
    pub(super) fn act_for_own_log(&mut self, now: Instant) {
        while let Some(own) = &mut self.own
            && let Some(effect) = own.engine.next_effect()
        {
            match effect {
                Effect::Say(said) => self.outbox.push_back(Frame::Said(Box::new(said))),
                Effect::Counts(true) => {
                    if let Some((_, history, _)) = own.engine.in_force() {
                        self.order = history;
                    }
                    self.engine.on_connected();
                }
                Effect::Counts(false) => {
                    self.engine.on_lost();
                    self.outbox.retain(|frame| matches!(frame, Frame::Said(_)));
                }
                Effect::Take { frame, at, next } => {
                    if let Stage::Lacks { seat, epoch, .. } = self.stage.clone() {
                        self.stage = Stage::Consumes { seat, epoch };
                    }
                    let frame = Frame::decode(&frame).unwrap_or_else(|error| unreachable!("{error}"));
                    self.engine.on_frame(frame, at, next);
                    self.act();
                }
                Effect::Lacks { from } => self.lack(from, now),
                Effect::End(why) => self.end = Some(End::Directory(why)),
                Effect::Write { number, record } => own.write(number, record, now),
                Effect::Trim { up_to } => own.ask(Work::Trim(up_to), now, Duration::ZERO),
            }
        }
        self.act();
    }

    /// What an own log says is safe once disks have it; a reader is to know that no copy has gone elsewhere.
    pub(super) const fn service_of(&self, frame: &Frame) -> Service {
        let is_safe = self.own.is_none() || matches!(frame, Frame::Mark { .. });
        if is_safe { Service::Safe } else { Service::Agreed }
    }
}

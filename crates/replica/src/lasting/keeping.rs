//! What a copy keeps, what it has acknowledged of that, and when the next checkpoint is due.
use crate::checkpoint;
use consort::Copies;
use std::time::Duration;

/// A checkpoint is due behind this number of bytes of commands.
pub const BYTES: u64 = 16 << 20;
/// What a command takes of the log besides its bytes.
const COMMAND: u64 = 128;
/// And after this time, if anything was consumed.
pub const EVERY: Duration = Duration::from_secs(300);

/// The checkpoints of one copy.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The positions behind those on disk, oldest first: two at most.
    positions: Vec<u64>,
    /// What was acknowledged last, and is in the log.
    acknowledged: u64,
    asked: Option<u64>,
    /// What was consumed since the newest one.
    bytes: u64,
    commands: u64,
}

impl Kept {
    /// Nothing was kept, or what these checkpoints on disk have.
    pub fn new(positions: Vec<u64>) -> Self {
        let mut kept = Self { positions, acknowledged: 0, asked: None, bytes: 0, commands: 0 };
        kept.acknowledged = kept.declared();
        kept
    }

    /// The first position that the older of two checkpoints lacks; 1 where there are fewer.
    pub fn declared(&self) -> u64 {
        //= RS10
        match self.positions[..] {
            [older, _] => older,
            _ => 1,
        }
    }

    /// The position behind the newest one.
    pub fn newest(&self) -> Option<u64> {
        self.positions.last().copied()
    }

    /// A command of this length was applied.
    pub const fn applied(&mut self, len: usize) {
        self.bytes += len as u64 + COMMAND;
        self.commands += 1;
    }

    /// An acknowledgement that was under way may be lost with its daemon.
    pub const fn asks_again(&mut self) {
        self.asked = None;
    }

    /// What is to be acknowledged now, if it is more than before.
    pub fn to_acknowledge(&self) -> Option<u64> {
        let from = self.declared();
        (from > self.acknowledged && self.asked != Some(from)).then_some(from)
    }

    /// An acknowledgement is under way.
    pub const fn acknowledges(&mut self, from: u64) {
        self.asked = Some(from);
    }

    /// What was acknowledged last is in the log.
    pub fn is_acknowledged(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.acknowledged = asked;
        }
    }

    /// Another one is on disk, and ends before this position.
    pub fn note(&mut self, position: u64) {
        self.positions.push(position);
        if self.positions.len() > checkpoint::KEPT {
            self.positions.remove(0);
        }
        (self.bytes, self.commands) = (0, 0);
    }

    /// Whether the log holds more for this copy than it should, as a share of its budget.
    pub fn is_pressed(&self, copies: Option<&Copies>, sixteenths: u64) -> bool {
        //= RS11
        let Some(copies) = copies.filter(|copies| copies.budget > 0 && copies.last.0 > 0) else { return false };
        let all = (copies.last.0 + 1).saturating_sub(copies.first.0).max(1);
        let behind = (copies.last.0 + 1).saturating_sub(self.acknowledged.max(copies.first.0));
        let held = u128::from(copies.held) * u128::from(behind) / u128::from(all);
        held * 16 >= u128::from(copies.budget) * u128::from(sixteenths)
    }

    /// Whether another checkpoint is due: `next` is the position that the state lacks, `age` the time since the newest one.
    pub fn is_due(&self, age: Duration, every: u64, copies: Option<&Copies>, next: u64) -> bool {
        let news = self.newest().is_none_or(|last| last < next);
        let is_many = self.bytes >= BYTES || self.commands >= every;
        let is_pressed = |sixteenths| self.is_pressed(copies, sixteenths);
        //= RS10
        let needs_second = self.positions.len() < checkpoint::KEPT || is_pressed(8) && self.declared() < next;
        needs_second || news && (is_many || age >= EVERY || is_pressed(1))
    }
}

//! Candidates: the election of `consort-leader`, with a clock of its own that errs as far as the candidates agreed that clocks
//! may.
use crate::trace::{LedRecord, LedStep};
use consort_leader::{CandidateId, Command, Effect, Election, Notice, Timing};
use consort_types::{Instant, Rng};
use std::rc::Rc;

/// Makes what is tried of an election that is as it ships.
pub type ElectionTouch = Rc<dyn Fn(Election) -> Election>;

const MILLION: i128 = 1_000_000;

/// One of them.
pub(super) struct Candidate {
    number: u16,
    election: Election,
    touch: Option<ElectionTouch>,
    timing: Timing,
    /// By how many millionths its clock runs fast, and what that shows at first.
    rate: i128,
    offset: u64,
    incarnations: u8,
    /// It does nothing until then.
    pub paused: Option<Instant>,
    /// Its lease as it was seen last.
    seen: Option<(u128, Instant)>,
    /// The message that it received last.
    serial: u64,
    /// What is to be told.
    pub steps: Vec<LedRecord>,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate").field("election", &self.election).finish_non_exhaustive()
    }
}

impl Candidate {
    /// One of a group that agreed on this.
    pub fn new(number: u16, timing: Timing, drift_ppm: u32, rng: &mut Rng, touch: Option<ElectionTouch>) -> Self {
        let most = u64::from(drift_ppm);
        let rate = match rng.below(3) {
            0 => most as i128,
            1 => -(most as i128),
            _ => i128::from(rng.below(2 * most + 1)) - most as i128,
        };
        let mut candidate = Self {
            number,
            election: Election::new(CandidateId([0; 16]), timing),
            touch,
            timing,
            rate,
            offset: rng.below(1 << 40),
            incarnations: 0,
            paused: None,
            seen: None,
            serial: 0,
            steps: Vec::new(),
        };
        candidate.begin(Instant::ZERO);
        candidate
    }

    /// It starts, or starts anew under another name.
    fn begin(&mut self, now: Instant) {
        self.incarnations += 1;
        let mut name = [self.incarnations; 16];
        name[0] = self.number as u8;
        let election = Election::new(CandidateId(name), self.timing);
        self.election = match &self.touch {
            Some(touch) => touch(election),
            None => election,
        };
        let now = self.clock(now);
        self.election.stand(now);
    }

    fn clock(&self, now: Instant) -> Instant {
        Instant(self.offset + (i128::from(now.0) * (MILLION + self.rate) / MILLION) as u64)
    }

    /// When its clock shows that, in true time.
    fn when(&self, shown: Instant) -> Instant {
        let since = i128::from(shown.0) - i128::from(self.offset);
        Instant((since * MILLION / (MILLION + self.rate)).max(0) as u64 + 2)
    }

    /// How long a lease lasts in true time, on a clock that is as slow as this one.
    fn lease(&self) -> u64 {
        let nanos = self.timing.lease().as_nanos() as i128;
        (nanos * MILLION / (MILLION + self.rate)) as u64 + 1_000
    }

    fn tell(&mut self, step: LedRecord) {
        self.steps.push(LedRecord { candidate: self.number, ..step });
    }

    /// What has changed of its lease.
    fn look(&mut self, now: Instant) {
        let lease = self.election.lease().map(|(fence, until)| (u128::from(fence), self.when(until)));
        if lease != self.seen {
            let step = match lease {
                Some((fence, until)) => {
                    let (serial, lease) = (self.serial, self.lease());
                    LedRecord { serial, fence, until, lease, ..LedRecord::of(LedStep::Leads) }
                }
                None => LedRecord::of(LedStep::Stops),
            };
            self.seen = lease;
            self.tell(step);
        }
        let acts = self.election.leads(self.clock(now)).map(u128::from);
        if let Some(fence) = acts.filter(|_| self.seen.is_none_or(|(_, until)| now > until)) {
            self.tell(LedRecord { fence, ..LedRecord::of(LedStep::Acts) });
        }
    }

    /// Something happens; returns what it has to send for that.
    pub fn elect(&mut self, now: Instant, happens: impl FnOnce(&mut Election, Instant)) -> Vec<Command> {
        let clock = self.clock(now);
        happens(&mut self.election, clock);
        let mut sends = Vec::new();
        while let Some(effect) = self.election.poll_effect() {
            match effect {
                Effect::Send(command) => sends.push(command),
                Effect::Tell(
                    Notice::Elected { .. } | Notice::Lost { .. } | Notice::Leader { .. } | Notice::NoLeader,
                ) => {}
            }
        }
        self.look(now);
        for command in &sends {
            self.tell(LedRecord { serial: command.serial, ..LedRecord::of(LedStep::Sent) });
        }
        sends
    }

    /// It has lost its connection.
    pub fn lose(&mut self) {
        self.tell(LedRecord::of(LedStep::Hole));
    }

    /// It ends, and comes back under another name.
    pub fn restart(&mut self, now: Instant) {
        self.begin(now);
        self.look(now);
    }

    /// Whether it has a lease.
    pub const fn leads(&self) -> bool {
        self.seen.is_some()
    }

    /// It receives a message: if it is its own, a lease may rest on that.
    pub fn receive(&mut self, command: &Command) {
        if command.candidate == self.election.candidate() {
            self.serial = command.serial;
        }
    }
}

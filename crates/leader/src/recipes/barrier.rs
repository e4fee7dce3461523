//! A barrier: nobody goes on before all have arrived.
use super::bytes::{Reader, Writer};
use super::desk::Recipe;
use super::served::Served;
use crate::{CandidateId, Error, Fence, LeadershipOptions};
use consort::{Address, GroupName};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const PARTIES_MAX: u64 = 4_096;

/// A barrier for so many parties; each calls [`Barrier::wait`] once a round.
///
/// ```no_run
/// use consort::GroupName;
/// use consort_leader::{Barrier, LeadershipOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let group = GroupName::new("steps")?;
/// let mut barrier = Barrier::join(&["10.0.0.1:4840".parse()?], &group, 3, LeadershipOptions::default())?;
/// let round = barrier.wait(None)?;
/// println!("all three are here, round {}", round.number);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Barrier {
    served: Served<Arrivals>,
}

/// A round that all parties have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Counted from 1. It goes on as long as one member remembers it.
    pub number: u64,
    /// Where the barrier opened: the same for all parties, and greater than that of each round before.
    pub fence: Fence,
}

/// What a party knows, and what the desk knows of the parties.
#[derive(Debug)]
pub struct Arrivals {
    me: CandidateId,
    parties: usize,
    waits: u64,
    waiting: Option<u64>,
    opened: Option<Round>,
    last: u64,
    changes: VecDeque<Vec<u8>>,
    arrived: BTreeMap<CandidateId, u64>,
    round: u64,
}

impl Barrier {
    /// Joins a barrier's group. All must name as many parties.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for less than 1 or more than 4,096 parties; as [`crate::Leadership::join`].
    pub fn join(
        addresses: &[Address],
        group: &GroupName,
        parties: usize,
        options: LeadershipOptions,
    ) -> Result<Self, Error> {
        let given = parties as u64;
        if !(1..=PARTIES_MAX).contains(&given) {
            return Err(Error::OutOfRange { what: "the number of parties", given, least: 1, most: PARTIES_MAX });
        }
        let served = Served::start(addresses, group, options, |me| Arrivals::new(me, parties))?;
        Ok(Self { served })
    }

    /// Arrives, and waits until as many as there are parties have arrived.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: it has not arrived then, unless the barrier opens at that moment; [`Error::Gone`] and whatever
    /// ended the session.
    pub fn wait(&mut self, within: impl Into<Option<Duration>>) -> Result<Round, Error> {
        let within = within.into();
        self.served.with(Arrivals::arrive);
        let opened = self.served.wait(within, Arrivals::poll_opened)?;
        opened
            .or_else(|| self.served.with(Arrivals::withdraw))
            .ok_or(Error::TimedOut { within: within.unwrap_or_default() })
    }
}

impl Arrivals {
    pub(crate) const fn new(me: CandidateId, parties: usize) -> Self {
        Self {
            me,
            parties,
            waits: 0,
            waiting: None,
            opened: None,
            last: 0,
            changes: VecDeque::new(),
            arrived: BTreeMap::new(),
            round: 0,
        }
    }

    pub(crate) fn arrive(&mut self) {
        self.waits += 1;
        self.waiting = Some(self.waits);
        self.changes.push_back(Writer::kind(1).u64(self.waits).u64(self.last).0);
    }

    pub(crate) const fn poll_opened(&mut self) -> Option<Round> {
        self.opened.take()
    }

    fn withdraw(&mut self) -> Option<Round> {
        if let Some(wait) = self.waiting.take() {
            self.changes.push_back(Writer::kind(2).u64(wait).0);
        }
        self.opened.take()
    }

    fn take_change(&mut self, member: CandidateId, change: &[u8]) -> Option<()> {
        let mut reader = Reader(change);
        match (reader.kind()?, reader.u64()?) {
            (1, wait) => {
                self.round = self.round.max(reader.u64()?);
                self.arrived.insert(member, wait);
            }
            (2, wait) if self.arrived.get(&member) == Some(&wait) => drop(self.arrived.remove(&member)),
            _ => {}
        }
        Some(())
    }

    fn take_opened(&mut self, fence: Fence, decision: &[u8]) -> Option<()> {
        let mut reader = Reader(decision);
        let number = reader.u64()?;
        let parties = reader.all(|reader| Some((reader.candidate()?, reader.u64()?)))?;
        self.last = self.last.max(number);
        if parties.iter().any(|(party, wait)| *party == self.me && Some(*wait) == self.waiting) {
            (self.opened, self.waiting) = (Some(Round { number, fence }), None);
        }
        Some(())
    }
}

impl Recipe for Arrivals {
    fn report(&mut self) -> Vec<u8> {
        self.changes.clear();
        match self.waiting {
            Some(wait) => Writer::kind(1).u64(wait).u64(self.last).0,
            None => Writer::kind(3).u64(0).0,
        }
    }

    fn poll_change(&mut self) -> Option<Vec<u8>> {
        self.changes.pop_front()
    }

    fn handle_decision(&mut self, place: Fence, decision: &[u8]) {
        // What cannot be read is of another release.
        let _ = self.take_opened(place, decision);
    }

    fn clear(&mut self) {
        self.arrived.clear();
        self.round = self.last;
    }

    fn handle_report(&mut self, member: CandidateId, report: &[u8]) {
        self.arrived.remove(&member);
        let _ = self.take_change(member, report);
    }

    fn handle_change(&mut self, member: CandidateId, change: &[u8]) {
        let _ = self.take_change(member, change);
    }

    fn handle_gone(&mut self, member: CandidateId) {
        self.arrived.remove(&member);
    }

    fn poll_decision(&mut self, _: bool) -> Option<Vec<u8>> {
        if self.arrived.len() < self.parties {
            return None;
        }
        self.round = self.round.max(self.last) + 1;
        let parties: Vec<_> = self.arrived.iter().take(self.parties).map(|(party, wait)| (*party, *wait)).collect();
        let mut out = Writer::default().u64(self.round);
        for (party, wait) in parties {
            self.arrived.remove(&party);
            out = out.candidate(party).u64(wait);
        }
        Some(out.0)
    }
}

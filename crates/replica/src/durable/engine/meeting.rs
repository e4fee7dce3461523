//! Which log counts, and in which term: concluded from hellos and promises.
use super::parts::Taking;
use super::{Effect, Engine, INDEX_MAX, RUNS_MAX, Settings, Then, broken};
use crate::durable::disk::{Known, Record};
use crate::durable::log::Extent;
use crate::durable::said::{Hello, MeetingId, Said};
use std::collections::{BTreeMap, BTreeSet};

/// Copies that are in the group together.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    pub id: MeetingId,
    /// What comes may lack something that others receive.
    pub is_closing: bool,
    /// In the order in which they came.
    pub hellos: Vec<Hello>,
    pub stage: Stage,
    /// A copy whose hello does not count, and why.
    pub odd: Option<String>,
    /// Copies that have another store's directory.
    strangers: BTreeSet<u16>,
}

/// How far the copies have come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Too few have spoken.
    Gathers,
    /// It is clear which log is to count.
    Decided(Decision, BTreeSet<u16>),
    /// It counts.
    InForce(Force),
}

/// Which log is to count in which term.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub term: u64,
    history: u64,
    /// The copy that has the log, and how far the log goes.
    pub donor: u16,
    pub line: Extent,
    /// Not only a majority: every copy is to promise the term.
    needs_every: bool,
}

/// A term in force.
#[derive(Clone, Debug)]
pub(super) struct Force {
    pub decision: Decision,
    /// The index of the last entry, which need not be here yet.
    pub end: u64,
    /// Up to where each copy has the log on disk in this term.
    pub synced: BTreeMap<u16, u64>,
    pub taking: Taking,
}

impl Force {
    pub const fn history(&self) -> u64 {
        self.decision.history
    }
}

impl Meeting {
    pub const fn new(id: MeetingId) -> Self {
        Self { id, is_closing: false, hellos: Vec::new(), stage: Stage::Gathers, odd: None, strangers: BTreeSet::new() }
    }

    /// Whether a copy lacks a directory that it had. Where a history has begun, every copy had promised a term before.
    fn has_lost(&self, hello: &Hello) -> bool {
        let began = self.hellos.iter().any(|other| other.history != 0);
        !hello.remembers && (hello.lost || began && hello.promised == 0)
    }

    pub fn hello_of(&self, copy: u16) -> Option<&Hello> {
        self.hellos.iter().find(|hello| hello.copy == copy)
    }

    /// Why nothing is committed, in words.
    pub fn waits_for(&self, settings: &Settings) -> Option<String> {
        match &self.stage {
            Stage::Gathers => Some(self.odd.clone().unwrap_or_else(|| self.lacks(settings.copies))),
            Stage::Decided(decision, promised) => {
                let silent = self.hellos.iter().map(|hello| hello.copy).filter(|copy| !promised.contains(copy));
                Some(format!("{} to write term {}", list(silent), decision.term))
            }
            Stage::InForce(force) => match &force.taking {
                Taking::Whole => None,
                Taking::Lacks => Some("it lacks what the log does not have any more".to_owned()),
                Taking::Unheard | Taking::Parts(_) => {
                    Some(format!("it takes the log from copy {}", force.decision.donor))
                }
            },
        }
    }

    fn lacks(&self, copies: u16) -> String {
        let here: BTreeSet<_> = self.hellos.iter().map(|hello| hello.copy).collect();
        let missing: Vec<_> = (1..=copies).filter(|copy| !here.contains(copy)).collect();
        let empty: Vec<_> = self.hellos.iter().filter(|hello| !hello.knows()).map(|hello| hello.copy).collect();
        if missing.is_empty() {
            return format!(
                "{} not the directory any more that a majority needs; give them back, or start a server with --force to go \
                 on with what the others have, in which case acknowledged writes may be lost",
                have(empty)
            );
        }
        let empty = if empty.is_empty() { String::new() } else { format!(" ({} an empty directory)", have(empty)) };
        format!(
            "{} not here, and a majority of {copies} copies that keep their state must be, or all{empty}",
            are(missing)
        )
    }
}

impl Engine {
    /// Says what its records come to. It counts once its promise is synced, which is written behind them.
    pub(super) fn say_hello(&mut self) {
        let Some(meeting) = self.meeting.as_ref().map(|meeting| meeting.id) else { return };
        let Settings { copies, copy, token, forces, address, label, .. } = self.settings.clone();
        let Known { history, promised, term, remembers, lost, .. } = self.disk.known;
        let remembers = remembers || broken!(self, EmptyRemembers);
        let extent = self.disk.log.extent(self.applied, RUNS_MAX);
        self.say(Said::Hello(Hello {
            meeting,
            copy,
            copies,
            token,
            history,
            promised,
            term,
            remembers,
            lost,
            forces,
            extent,
            address,
            label,
        }));
    }

    pub(super) fn on_hello(&mut self, hello: Hello) {
        let is_now = |meeting: &&mut super::Meeting| !meeting.is_closing && meeting.id == hello.meeting;
        if self.meeting.as_mut().filter(is_now).is_none()
            || hello.extent.end.max(hello.promised) > INDEX_MAX
            || !self.fits(&hello)
        {
            return;
        }
        let Some(meeting) = &mut self.meeting else { return };
        let is_own = hello.token == self.settings.token;
        match &meeting.stage {
            Stage::Gathers => {
                meeting.hellos.push(hello);
                self.decide();
            }
            Stage::Decided(decision, _) => {
                let term = decision.term;
                meeting.hellos.push(hello);
                if is_own {
                    self.promise(term);
                }
            }
            Stage::InForce(_) => {
                meeting.hellos.push(hello);
                if is_own {
                    self.begin_to_take();
                }
            }
        }
    }

    /// Whether a hello is of a copy of this store, and of none that is here already.
    fn fits(&mut self, hello: &Hello) -> bool {
        let (known, copies) = (self.disk.known, self.settings.copies);
        let Some(meeting) = &mut self.meeting else { return false };
        if hello.copies != copies {
            let (theirs, label) = (hello.copies, &hello.label);
            meeting.odd =
                Some(format!("{label} has {theirs} copies, and this server {copies}; give all the same --copies"));
            if known.history == 0 && hello.history != 0 {
                self.end(format!(
                    "the store has {theirs} copies, as its first servers said, and not {copies}; give that number"
                ));
            }
            return false;
        }
        if hello.history != 0 && known.history != 0 && hello.history != known.history {
            let of = format!(
                "{} has the directory of the store {:016x}, and this server that of the store {:016x}; give each server the \
                 directory of its store, or an empty one",
                hello.label, hello.history, known.history
            );
            meeting.strangers.insert(hello.copy);
            let ends = 2 * meeting.strangers.len() > usize::from(copies);
            meeting.odd = Some(of.clone());
            if ends {
                self.end(of);
            }
            return false;
        }
        let Some(at) = meeting.hellos.iter().position(|other| other.copy == hello.copy) else { return true };
        let rank = |hello: &Hello| (hello.remembers, hello.term, hello.extent.end);
        let wins = rank(hello) > rank(&meeting.hellos[at]);
        let (loser, winner) = if wins { (&meeting.hellos[at], hello) } else { (hello, &meeting.hellos[at]) };
        if loser.token == self.settings.token && winner.token != loser.token {
            let why = format!(
                "copy {} of this store is another server, {}; give this one another number with --copy",
                winner.copy, winner.label
            );
            self.end(why);
        } else if wins && matches!(meeting.stage, Stage::Gathers) {
            meeting.hellos[at] = hello.clone();
            self.decide();
        }
        false
    }

    /// Concludes which log counts, once enough copies have spoken.
    fn decide(&mut self) {
        let founds = broken!(self, OneFounds);
        let longest = broken!(self, LongestCounts);
        let Some(meeting) = &self.meeting else { return };
        let remember: Vec<_> = meeting.hellos.iter().filter(|hello| hello.remembers).collect();
        let know = self.is_majority(meeting.hellos.iter().filter(|hello| hello.knows()).count());
        let is_every = meeting.hellos.len() == usize::from(self.settings.copies);
        //= RS21
        let is_majority = know && !remember.is_empty();
        //= RS24
        let forces = meeting.hellos.iter().any(|hello| hello.forces);
        let none_lost = !meeting.hellos.iter().any(|hello| meeting.has_lost(hello));
        let may_go_on = know || none_lost || forces || broken!(self, LostFounds);
        let alone = founds && remember.is_empty() && !meeting.hellos.is_empty();
        if !(is_majority || is_every && may_go_on || alone) {
            return;
        }
        let all = remember.is_empty() || forces && !is_majority;
        let known: Vec<_> = if all { meeting.hellos.iter().collect() } else { remember };
        //= RS22
        let rank = |hello: &Hello| if longest { (0, hello.extent.end) } else { (hello.term, hello.extent.end) };
        let Some(first) = known.first().copied() else { return };
        let donor = known.iter().fold(first, |best, hello| if rank(hello) > rank(best) { hello } else { best });
        let promised = meeting.hellos.iter().map(|hello| hello.promised).max().unwrap_or(0);
        let history = if donor.history == 0 { donor.token as u64 | 1 } else { donor.history };
        let decision = Decision {
            term: promised.saturating_add(1),
            history,
            donor: donor.copy,
            line: donor.extent.clone(),
            needs_every: !is_majority && !alone,
        };
        let has_spoken = meeting.hello_of(self.settings.copy).is_some_and(|own| own.token == self.settings.token);
        let term = decision.term;
        if let Some(meeting) = &mut self.meeting {
            meeting.stage = Stage::Decided(decision, BTreeSet::new());
        }
        if has_spoken {
            self.promise(term);
        }
    }

    fn promise(&mut self, term: u64) {
        let Some(id) = self.meeting.as_ref().map(|meeting| meeting.id).filter(|_| self.disk.known.promised < term)
        else {
            return;
        };
        if broken!(self, TermUnkept) {
            self.say(Said::Promised { meeting: id, term, copy: self.settings.copy });
            return;
        }
        let began = self.meeting.iter().flat_map(|meeting| &meeting.hellos).any(|hello| hello.history != 0);
        let known = &mut self.disk.known;
        if began && !known.remembers && known.promised == 0 && !known.lost {
            //= RS24
            known.lost = true;
            self.write_state();
        }
        self.disk.known.promised = term;
        self.write(&Record::Promise { term }, Then::Promised { meeting: id, term });
    }

    pub(super) fn on_promised(&mut self, id: MeetingId, term: u64, copy: u16) {
        let copies = usize::from(self.settings.copies);
        let alone = broken!(self, OneFounds);
        let is_here = |meeting: &&mut Meeting| meeting.id == id && meeting.hello_of(copy).is_some();
        let Some(meeting) = self.meeting.as_mut().filter(is_here) else { return };
        let Stage::Decided(decision, promised) = &mut meeting.stage else { return };
        if decision.term != term {
            return;
        }
        promised.insert(copy);
        //= RS22
        let counts = |copy: &&u16| meeting.hellos.iter().any(|hello| hello.copy == **copy && hello.knows());
        let counted = promised.iter().filter(counts).count();
        let nothing_known = alone && meeting.hellos.iter().all(|hello| !hello.remembers);
        let enough = if decision.needs_every { promised.len() == copies } else { 2 * counted > copies };
        if !enough && !nothing_known {
            return;
        }
        let decision = decision.clone();
        let (end, synced, taking) = (decision.line.end, BTreeMap::new(), Taking::Unheard);
        let counts = !meeting.is_closing;
        meeting.stage = Stage::InForce(Force { decision, end, synced, taking });
        if counts {
            self.effects.push_back(Effect::Counts(true));
        }
        self.begin_to_take();
    }
}

/// "copy 2 has", "copies 2 and 3 have".
fn have(copies: Vec<u16>) -> String {
    let verb = if copies.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", list(copies))
}

fn are(copies: Vec<u16>) -> String {
    let verb = if copies.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", list(copies))
}

fn list(copies: impl IntoIterator<Item = u16>) -> String {
    let all: Vec<_> = copies.into_iter().map(|copy| copy.to_string()).collect();
    match &all[..] {
        [] => "every copy".to_owned(),
        [one] => format!("copy {one}"),
        [first @ .., last] => format!("copies {} and {last}", first.join(", ")),
    }
}

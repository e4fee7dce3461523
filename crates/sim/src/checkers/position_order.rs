//! RP: what is read by position is the order. Each place holds one message, the same for all that read it or are given it as
//! members. A reading begins where it was asked to, is told all from there on, each once, and knows what it is not told: what
//! is refused or called lost is retained no more, and a refusal names the oldest position there is. In the end all that is
//! known to stand in the order was told to those that read on.
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Occurrence, ReadingRecord, ReadingStep, TraceEvent};
use consort_session::Place;
use std::collections::{BTreeMap, BTreeSet};

/// A reading that has begun.
#[derive(Clone, Debug)]
struct Told {
    reader: Process,
    from: Place,
    /// All before it was told, or called lost.
    next: Place,
    places: BTreeSet<Place>,
    lost: Vec<(u64, u64)>,
    caught_up: bool,
}

/// A client's.
#[derive(Clone, Debug, Default)]
struct Client {
    /// What it has asked for and was not answered, and the oldest position there was then.
    asked: Option<(Place, u64)>,
    open: Option<Told>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PositionOrder {
    order: Option<u64>,
    /// What stands where.
    known: BTreeMap<Place, u64>,
    clients: BTreeMap<Process, Client>,
    over: Vec<Told>,
}

impl Checker for PositionOrder {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "RP", name: "reading by position" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Reading(record) => self.on_step(event.process, record),
            Occurrence::Crash | Occurrence::Left => {
                self.on_end_of_incarnation(event.process.incarnation());
                Ok(())
            }
            Occurrence::Quiet => self.in_the_end(),
            _ => Ok(()),
        }
    }
}

impl PositionOrder {
    fn on_step(&mut self, process: Process, record: &ReadingRecord) -> Verdict {
        let ReadingRecord { step, at, to, sum, oldest, retained } = *record;
        let client = self.clients.entry(process).or_default();
        match step {
            ReadingStep::Placed => self.stands(at, sum),
            ReadingStep::Asked => {
                client.asked = Some((at, retained));
                Ok(())
            }
            ReadingStep::Began => self.on_began(process, record),
            ReadingStep::Message => {
                self.stands(at, sum)?;
                self.told(process, at)
            }
            ReadingStep::CaughtUp => self.on_caught_up(process, to),
            ReadingStep::Lost => self.on_lost(process, (at.position, to), retained),
            ReadingStep::Trimmed => match client.asked.take() {
                Some((asked, before)) => refused_rightly(asked, oldest, before, retained),
                None => Err("is refused what it has not asked for".into()),
            },
            ReadingStep::BeyondEnd => match client.asked.take() {
                Some((asked, _)) if asked.position > to + 1 => Ok(()),
                _ => Err(format!("is told that its place is beyond the end, which is {to}")),
            },
            ReadingStep::Ended => {
                self.over.extend(client.open.take());
                Ok(())
            }
        }
    }

    /// One message stands at a place.
    fn stands(&mut self, at: Place, sum: u64) -> Verdict {
        match self.known.insert(at, sum) {
            Some(known) if known != sum => Err(format!("is given a message at {at} where another stands elsewhere")),
            _ => Ok(()),
        }
    }

    fn on_began(&mut self, process: Process, record: &ReadingRecord) -> Verdict {
        let ReadingRecord { at, sum: order, oldest, retained, .. } = *record;
        let client = self.clients.entry(process).or_default();
        let Some((asked, _)) = client.asked.take() else { return Err("reads what it has not asked for".into()) };
        if client.open.is_some() {
            return Err("reads twice at once".into());
        }
        if asked.position > 0 && at != asked {
            return Err(format!("reads from {at} on, and has asked for {asked}"));
        }
        if at.position < oldest || asked.position == 0 && at.position > oldest {
            return Err(format!("reads from {at} on, where the oldest there is is {oldest}"));
        }
        if oldest > retained {
            return Err(format!("is told that {oldest} is the oldest, where {retained} is retained"));
        }
        if *self.order.get_or_insert(order) != order {
            return Err("reads another order".into());
        }
        let (places, lost, caught_up) = (BTreeSet::new(), Vec::new(), false);
        client.open = Some(Told { reader: process, from: at, next: at, places, lost, caught_up });
        Ok(())
    }

    fn open(&mut self, process: Process) -> Result<&mut Told, String> {
        let open = self.clients.get_mut(&process).and_then(|client| client.open.as_mut());
        open.ok_or_else(|| "is told of a reading that it does not have".into())
    }

    fn told(&mut self, process: Process, at: Place) -> Verdict {
        let next = self.open(process)?.next;
        if at < next {
            return Err(format!("reads {at} once more"));
        }
        self.nothing_between(next, at)?;
        let told = self.open(process)?;
        told.places.insert(at);
        told.next = Place { index: at.index + 1, ..at };
        Ok(())
    }

    /// What is skipped without a word.
    fn nothing_between(&self, from: Place, to: Place) -> Verdict {
        match self.known.range(from..to).next() {
            Some((skipped, _)) => Err(format!("is not told what stands at {skipped}, and reads on at {to}")),
            None => Ok(()),
        }
    }

    fn on_caught_up(&mut self, process: Process, position: u64) -> Verdict {
        let end = Place::at(position + 1);
        let told = self.open(process)?;
        if std::mem::replace(&mut told.caught_up, true) {
            return Err("has caught up twice".into());
        }
        let next = std::mem::replace(&mut told.next, end);
        if next > end {
            return Err(format!("has caught up with {position}, and has read on to {next}"));
        }
        self.nothing_between(next, end)
    }

    fn on_lost(&mut self, process: Process, (from, to): (u64, u64), retained: u64) -> Verdict {
        let told = self.open(process)?;
        let next = told.next;
        told.next = Place::at(to + 1);
        told.lost.push((from, to));
        if Place::at(from) < Place::at(next.position) {
            return Err(format!("is told that {from} is lost, and has read on to {next}"));
        }
        if to >= retained {
            return Err(format!("is told that {from} to {to} are lost, where {retained} is retained"));
        }
        self.nothing_between(next, Place::at(from))
    }

    fn on_end_of_incarnation(&mut self, incarnation: ProcessIncarnation) {
        for (_, client) in self.clients.iter_mut().filter(|(process, _)| process.incarnation() == incarnation) {
            self.over.extend(std::mem::take(client).open);
        }
    }

    /// By now all is known that any reader ought to have been told.
    fn in_the_end(&self) -> Verdict {
        let last = self.known.keys().next_back().copied().unwrap_or_default();
        // What is beyond the end is waited for.
        let owed = |asked: &Place| asked.position <= last.position;
        for (process, client) in &self.clients {
            if let Some((asked, _)) = client.asked.filter(|(asked, _)| owed(asked)) {
                return Err(format!("{process} has asked for {asked} and is not answered"));
            }
        }
        let open = self.clients.values().filter_map(|client| client.open.as_ref());
        let behind = |told: &&Told| told.next <= last && self.known.range(told.next..).next().is_some();
        if let Some(told) = open.clone().find(behind) {
            return Err(format!(
                "{} has read up to {}, where the last message stands at {last}",
                told.reader, told.next
            ));
        }
        self.over.iter().chain(open).try_for_each(|told| self.complete(told))
    }

    fn complete(&self, told: &Told) -> Verdict {
        let lost = |at: &Place| told.lost.iter().any(|(from, to)| (*from..=*to).contains(&at.position));
        let mut known = self.known.range(told.from..told.next).map(|(at, _)| at);
        match known.find(|at| !told.places.contains(at) && !lost(at)) {
            Some(at) => Err(format!("{} was not told what stands at {at}, and read on", told.reader)),
            None => Ok(()),
        }
    }
}

/// What was asked for is not retained, and the oldest position that is named was the oldest when that was said.
fn refused_rightly(asked: Place, oldest: u64, before: u64, now: u64) -> Verdict {
    if asked.position >= oldest {
        return Err(format!("is refused {asked}, though {oldest} is said to be retained"));
    }
    if !(before..=now).contains(&oldest) {
        return Err(format!("is told that {oldest} is the oldest, which was {before} before and is {now} now"));
    }
    Ok(())
}

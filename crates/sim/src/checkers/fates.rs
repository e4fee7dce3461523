//! PF: what a session is told of its sends is true, and stays so. What it took as ordered is never forgotten while enough
//! daemons remember (E08): a producer that is opened later knows of it. No send has two fates. No number is settled for two
//! sends. In the end all sends have their fate, where a view counts.
use super::history::History;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::Process;
use crate::trace::{NumberedRecord, NumberedStep, Occurrence, TraceEvent};
use std::collections::BTreeMap;

/// What became of a session's send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendFate {
    /// Under which number it went last, unless it was not ordered under it.
    Pending(Option<u64>),
    Ordered,
    Refused,
    Forgotten,
}

/// What a connection has under way.
#[derive(Clone, Debug, Default)]
struct UnderWay {
    /// How often the producer had been forgotten when it was opened here.
    era: u64,
    /// Up to which number all was told as ordered when it was last asked for.
    floor: u64,
    /// By number: which send, and whether it is the session's.
    sent: BTreeMap<u64, (u64, bool)>,
    last: u64,
}

#[derive(Debug, Default)]
struct SeenProducer {
    sends: BTreeMap<u64, SendFate>,
    /// The last attempt of each: what became of one before it says nothing any more.
    attempts: BTreeMap<u64, u64>,
    connections: BTreeMap<Process, UnderWay>,
    /// How often it was forgotten.
    era: u64,
    /// Up to which number all was told as ordered.
    told: u64,
    /// Which send each number that was settled is.
    settled: BTreeMap<u64, u64>,
    /// How often memory had lapsed when it was opened first, or first since it was forgotten.
    opened: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Fates {
    history: History,
    producers: BTreeMap<u16, SeenProducer>,
}

impl Checker for Fates {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "PF", name: "fates of sends" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.history.see(event);
        match &event.what {
            Occurrence::Numbered(step) => self.on_step(event, step),
            Occurrence::Quiet => self.in_the_end(),
            _ => Ok(()),
        }
    }
}

impl Fates {
    pub(super) fn new(nodes: u16, promised: PromisedOrder) -> Self {
        Self { history: History::new(nodes, promised), producers: BTreeMap::new() }
    }

    fn on_step(&mut self, event: &TraceEvent, step: &NumberedRecord) -> Verdict {
        let NumberedRecord { send, attempt, number, flag, .. } = *step;
        if matches!(step.step, NumberedStep::Given | NumberedStep::Table) {
            return Ok(());
        }
        let lapses = self.history.lapses();
        let seen = self.producers.entry(step.producer).or_default();
        let process = event.process;
        match step.step {
            NumberedStep::Made => drop(seen.sends.insert(send, SendFate::Pending(None))),
            NumberedStep::Asked => {
                let floor = seen.told;
                seen.connections.entry(process).or_default().floor = floor;
            }
            NumberedStep::Opened if flag => return seen.on_forgotten(process, lapses),
            NumberedStep::Opened => return seen.on_opened(process, number, lapses),
            NumberedStep::Sent => {
                let under_way = seen.connections.entry(process).or_default();
                under_way.sent.insert(number, (send, !flag));
                under_way.last = number;
                if !flag {
                    seen.sends.insert(send, SendFate::Pending(Some(number)));
                    seen.attempts.insert(send, attempt);
                }
            }
            NumberedStep::Settled => return seen.on_settled(process, number),
            NumberedStep::Refused => return seen.on_refused(process, step),
            NumberedStep::Given | NumberedStep::Table => {}
        }
        Ok(())
    }

    fn in_the_end(&self) -> Verdict {
        if !self.history.counts_in_the_end() {
            return Ok(());
        }
        for (producer, seen) in &self.producers {
            if let Some((send, fate)) = seen.sends.iter().find(|(_, fate)| matches!(fate, SendFate::Pending(_))) {
                return Err(format!("producer {producer} was not told what became of its send {send}, {fate:?}"));
            }
        }
        Ok(())
    }
}

impl SeenProducer {
    /// It begins anew; nobody knows of what was under way.
    fn on_forgotten(&mut self, process: Process, lapses: u64) -> Verdict {
        let again = self.era > 0 && self.told == 0;
        if !again && lapses <= self.opened.unwrap_or(0) {
            return Err("is told that its producer is forgotten, where enough daemons remembered all the time".into());
        }
        for fate in self.sends.values_mut() {
            if let SendFate::Pending(Some(_)) = fate {
                *fate = SendFate::Forgotten;
            }
        }
        (self.era, self.told, self.opened) = (self.era + 1, 0, Some(lapses));
        self.settled.clear();
        let under_way = UnderWay { era: self.era, ..UnderWay::default() };
        self.connections.insert(process, under_way);
        Ok(())
    }

    fn on_opened(&mut self, process: Process, last: u64, lapses: u64) -> Verdict {
        let under_way = self.connections.entry(process).or_default();
        if last < under_way.floor {
            let floor = under_way.floor;
            return Err(format!("is told that its last message is {last}, where {floor} had been told as ordered"));
        }
        *under_way = UnderWay { era: self.era, last, ..UnderWay::default() };
        self.opened.get_or_insert(lapses);
        self.told = self.told.max(last);
        for (send, fate) in &mut self.sends {
            match *fate {
                SendFate::Pending(Some(number)) if number <= last => {
                    *fate = SendFate::Ordered;
                    one_for_a_number(&mut self.settled, number, *send)?;
                }
                SendFate::Pending(_) => *fate = SendFate::Pending(None),
                _ => {}
            }
        }
        Ok(())
    }

    fn on_settled(&mut self, process: Process, number: u64) -> Verdict {
        let Some(under_way) = self.connections.get_mut(&process).filter(|there| there.era == self.era) else {
            return Ok(());
        };
        if number > under_way.last {
            return Err(format!("is told that {number} is ordered, and has sent up to {}", under_way.last));
        }
        let rest = under_way.sent.split_off(&(number + 1));
        let settled = std::mem::replace(&mut under_way.sent, rest);
        self.told = self.told.max(number);
        for (number, (send, own)) in settled {
            one_for_a_number(&mut self.settled, number, send)?;
            let fate = self.sends.get_mut(&send).filter(|_| own);
            match fate {
                // Another connection was told already.
                Some(SendFate::Ordered) | None => {}
                Some(fate @ SendFate::Pending(_)) => *fate = SendFate::Ordered,
                Some(fate) => return Err(format!("is told that send {send} is ordered, which was {fate:?}")),
            }
        }
        Ok(())
    }

    fn on_refused(&mut self, process: Process, step: &NumberedRecord) -> Verdict {
        let NumberedRecord { send, attempt, number, flag: is_final, at: left, .. } = *step;
        self.connections.entry(process).or_default().sent.remove(&number);
        let is_last = left == 0 && self.attempts.get(&send) == Some(&attempt);
        match self.sends.get_mut(&send).filter(|_| is_last) {
            Some(SendFate::Ordered) => Err(format!("is refused send {send}, which was told as ordered")),
            Some(fate @ SendFate::Pending(_)) => {
                *fate = if is_final { SendFate::Refused } else { SendFate::Pending(None) };
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn one_for_a_number(settled: &mut BTreeMap<u64, u64>, number: u64, send: u64) -> Verdict {
    match settled.insert(number, send) {
        Some(other) if other != send => Err(format!("number {number} is told as ordered for sends {other} and {send}")),
        _ => Ok(()),
    }
}

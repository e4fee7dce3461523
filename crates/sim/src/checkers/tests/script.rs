//! Traces written by hand, a line for each event:
//!
//! ```text
//! n0 starts                        n0 joins           (into a view that is under way)
//! n0 installs 5 of n0 n1 pending   n0 closes 5 with n0
//! n0 sends 1 safe                  n1 delivers n0#1 at 7
//! n0 calls 5 primary               n0 groups 5.1 [again] of n0 n1
//! n1 crashes                       n1 leaves, n1 left
//! calm                             n0 gauge store_packets 9
//! n0 offers 3 loosely              n0 confirms 3 changed, n0 revokes 3
//! n0 is told of closing            (the group `all`)
//! n0 is given n1#3                 (beside the workload, to the group `all`; `by name`: to itself)
//! n1 speaks 3 to n0                (beside the workload, to that one by its name)
//! n0 reads message 7.1 sum 9       (a step of a reading, its place, and more by name: `to`, `sum`, `oldest`, `retained`)
//! n0 numbers sent send 1 as 2 so   (a step under a producer; more by name: `try`, `view`, `at`, `sum`; `so`: its flag)
//! n0 guest closes 5 with n0        (any of these, of another client of n0, which takes no part)
//! n0 guest stands in 5 of n0 n1    (and now it does)
//! quiet                            at 9000         (what follows comes after so many nanoseconds, else one apart)
//! ```
//! `n0.2` is n0's second incarnation. What moved together is what the last `closes` said, unless `with` says otherwise.
//! A view's name is its number and the first of its members.
use crate::checkers::{Bounds, judge};
use crate::machine::private;
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::trace::{
    DeliveryRecord, DeliverySender, Grouped, InstallRecord, NumberedRecord, NumberedStep, Occurrence, OfferRecord,
    ReadingRecord, ReadingStep, SaidMessage, Submitted, Trace, TraceEvent,
};
use consort_session::Place;
use consort_types::{Class, Instant, MemberId, MessageId, NodeId, Position, Service, ViewId};
use std::collections::BTreeMap;

/// What the checkers say of a script: the ids of broken promises, each once, ascending.
pub(super) fn broken(script: &str) -> Vec<&'static str> {
    broken_with(script, Bounds::default())
}

pub(super) fn broken_with(script: &str, bounds: Bounds) -> Vec<&'static str> {
    let mut ids: Vec<_> = judge(&trace(script), bounds).iter().map(|violation| violation.rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Two nodes, alone and then together in view 5.
pub(super) const PAIR: &str = "
    n0 starts
    n0 installs 1 of n0
    n1 starts
    n1 installs 1 of n1
    n0 closes 1 with n0
    n0 installs 5 of n0 n1 pending
    n1 closes 1 with n1
    n1 installs 5 of n0 n1 pending
";

pub(super) fn pair(more: &str) -> Vec<&'static str> {
    broken(&format!("{PAIR}{more}"))
}

#[derive(Default)]
struct Reader {
    views: BTreeMap<Process, ViewId>,
    together: BTreeMap<Process, Vec<ProcessIncarnation>>,
    sent: BTreeMap<Mark, Service>,
}

fn trace(script: &str) -> Trace {
    let mut reader = Reader::default();
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut at = 0;
    let event = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["at", now] = words[..] {
            at = now.parse().unwrap_or_else(|_| panic!("cannot read `{line}`"));
            return None;
        }
        at += 1;
        let (process, what) = reader.read(&words).unwrap_or_else(|| panic!("cannot read `{line}`"));
        Some(TraceEvent { at: Instant(at), process, what })
    };
    Trace { events: lines.filter_map(event).collect() }
}

impl Reader {
    fn read(&mut self, words: &[&str]) -> Option<(Process, Occurrence)> {
        match words {
            ["calm"] => return Some((Process::WORLD, Occurrence::Calm)),
            ["quiet"] => return Some((Process::WORLD, Occurrence::Quiet)),
            _ => {}
        }
        let process = Process::of(incarnation(words[0])?, 0);
        let what = match words[1..] {
            ["starts"] => Occurrence::Start { late: false },
            ["joins"] => Occurrence::Start { late: true },
            ["crashes"] => Occurrence::Crash,
            ["leaves"] => Occurrence::Leave,
            ["left"] => Occurrence::Left,
            ["waits"] => Occurrence::Wait,
            ["spins"] => Occurrence::Spins,
            ["calls", number, "primary"] => Occurrence::Primary(self.named(process, number.parse().ok()?)),
            ["gauge", name, value] => Occurrence::Gauge { name: name.to_owned().into(), value: value.parse().ok()? },
            ["stable", up_to, "without", ref nodes @ ..] => Occurrence::Stable {
                stream: Default::default(),
                up_to: Position(up_to.parse().ok()?),
                missing: nodes.iter().filter_map(|node| Some(incarnation(node)?.node)).collect(),
            },
            ["installs", number, "of", ref rest @ ..] => self.install(process, number.parse().ok()?, rest)?,
            ["closes", number, "with", ref rest @ ..] => self.close(process, number.parse().ok()?, rest)?,
            ["groups", name, "of", ref rest @ ..] => self.group(process, name, rest)?,
            ["groups", name, "again", "of", ref rest @ ..] => match self.group(process, name, rest)? {
                Occurrence::Group(told) => Occurrence::Group(Box::new(Grouped { again: true, ..*told })),
                what => what,
            },
            ["is", "given", name, ref rest @ ..] => {
                let (from, count) = name.split_once('#')?;
                let (from, count) = (Process::of(incarnation(from)?, 0), count.parse().ok()?);
                let to = if rest == ["by", "name"] { private(process) } else { "all".into() };
                Occurrence::Side(Box::new(SaidMessage { from, count, groups: vec![to.into()] }))
            }
            ["numbers", step, ref rest @ ..] => Occurrence::Numbered(numbers(step, rest)?),
            ["reads", step, at, ref rest @ ..] => Occurrence::Reading(reads(step, at, rest)?),
            ["is", "told", "of", "closing"] => Occurrence::Signal("all".into()),
            ["speaks", count, "to", name] => {
                let to = private(Process::of(incarnation(name)?, 0)).into();
                Occurrence::Spoke(Box::new(SaidMessage { from: process, count: count.parse().ok()?, groups: vec![to] }))
            }
            ["guest", "stands", "in", number, "of", ref rest @ ..] => {
                let view = self.install(process, number.parse().ok()?, rest)?;
                return Some((Process { client: 1, ..process }, view));
            }
            ["guest", ref rest @ ..] => {
                let guest = Process { client: 1, ..process };
                let what = match self.read(&[&words[..1], rest].concat())?.1 {
                    Occurrence::View(view) => Occurrence::Network(view),
                    Occurrence::Group(told) => {
                        Occurrence::Group(Box::new(Grouped { members: vec![guest], together: vec![guest], ..*told }))
                    }
                    what => what,
                };
                return Some((guest, what));
            }
            ["offers", offer, ref rest @ ..] => {
                let offer = offer.parse().ok()?;
                Occurrence::Offer(OfferRecord { offer, sum: offer, strict: !rest.contains(&"loosely") })
            }
            ["revokes", offer] => Occurrence::Revoke(offer.parse().ok()?),
            ["confirms", offer, ref rest @ ..] => {
                let offer = offer.parse().ok()?;
                Occurrence::Confirm { offer, sum: offer + rest.len() as u64 }
            }
            ["sends", count, ref rest @ ..] => self.send(process, count.parse().ok()?, rest),
            ["delivers", name, ref rest @ ..] => self.deliver(name, rest)?,
            _ => return None,
        };
        Some((process, what))
    }

    fn named(&self, process: Process, number: u64) -> ViewId {
        let named = |id: &&ViewId| id.number == number;
        let known = self.views.get(&process).filter(named).or_else(|| self.views.values().find(named));
        known.copied().unwrap_or(ViewId { number, ..ViewId::default() })
    }

    fn install(&mut self, process: Process, number: u64, rest: &[&str]) -> Option<Occurrence> {
        let mut parts = rest.splitn(2, |word| *word == "with");
        let members: Vec<_> = parts.next()?.iter().filter_map(|word| incarnation(word)).collect();
        let known = self.together.remove(&process).unwrap_or_else(|| vec![process.incarnation()]);
        let together = parts.next().map_or(known, |with| with.iter().filter_map(|word| incarnation(word)).collect());
        let first = members.first()?;
        let representative = MemberId::new(first.node.0, u64::from(first.count) + 1);
        let id = ViewId { number, representative };
        self.views.insert(process, id);
        let pending = rest.contains(&"pending");
        Some(Occurrence::View(Box::new(InstallRecord { id, transitional: false, members, together, pending })))
    }

    fn close(&mut self, process: Process, number: u64, rest: &[&str]) -> Option<Occurrence> {
        let members = rest.iter().map(|word| incarnation(word)).collect::<Option<Vec<_>>>()?;
        self.together.insert(process, members.clone());
        let id = self.named(process, number);
        let together = members.clone();
        Some(Occurrence::View(Box::new(InstallRecord { id, transitional: true, members, together, pending: false })))
    }

    fn group(&self, process: Process, name: &str, rest: &[&str]) -> Option<Occurrence> {
        let (number, change) = name.split_once('.')?;
        let primary = rest.last() == Some(&"primary");
        let rest = &rest[..rest.len() - usize::from(primary)];
        let members = rest.iter().map(|word| Some(Process::of(incarnation(word)?, 0))).collect::<Option<_>>()?;
        let id = self.named(process, number.parse().ok()?);
        let members: Vec<_> = members;
        let (group, change, together) = ("all".into(), change.parse().ok()?, vec![process]);
        Some(Occurrence::Group(Box::new(Grouped {
            group,
            id,
            change,
            primary,
            members,
            together,
            ..Grouped::default()
        })))
    }

    fn send(&mut self, origin: Process, count: u64, rest: &[&str]) -> Occurrence {
        let service = if rest.contains(&"safe") { Service::Safe } else { Service::Agreed };
        self.sent.insert(Mark { origin, count }, service);
        Occurrence::Submit(Submitted {
            count,
            id: Some(MessageId(count)),
            class: Some(Class::Client),
            service,
            len: 20,
        })
    }

    /// The sender's own delivery carries the id it was given.
    fn deliver(&self, name: &str, rest: &[&str]) -> Option<Occurrence> {
        let (origin, count) = name.split_once('#')?;
        let mark = Mark { origin: Process::of(incarnation(origin)?, 0), count: count.parse().ok()? };
        let at = rest.iter().position(|word| *word == "at");
        let without = rest.iter().position(|word| *word == "without");
        let own = rest.contains(&"back").then_some(MessageId(mark.count));
        Some(Occurrence::Deliver(DeliveryRecord {
            mark: Some(mark),
            intact: !rest.contains(&"changed"),
            sender: Some(DeliverySender {
                node: mark.origin.node,
                incarnation: Some(mark.origin.incarnation),
                client: None,
            }),
            position: at.and_then(|at| Some(Position(rest.get(at + 1)?.parse().ok()?))),
            service: self.sent.get(&mark).copied().unwrap_or_default(),
            own,
            len: 20,
            missing: without.and_then(|at| Some(vec![incarnation(rest.get(at + 1)?)?.node])).unwrap_or_default(),
            ..DeliveryRecord::default()
        }))
    }
}

/// What is not named is 0; an attempt is named as its send.
fn numbers(step: &str, rest: &[&str]) -> Option<NumberedRecord> {
    let named = |name: &str| {
        let at = rest.iter().position(|word| *word == name)?;
        rest.get(at + 1)?.parse().ok()
    };
    let (send, number) = (named("send").unwrap_or(0), named("as").unwrap_or(0));
    Some(NumberedRecord {
        send,
        attempt: named("try").unwrap_or(send),
        number,
        flag: rest.last() == Some(&"so"),
        view: named("view").unwrap_or(0),
        at: named("at").unwrap_or(0),
        sum: named("sum").unwrap_or(0),
        ..NumberedRecord::of(NumberedStep::named(step)?)
    })
}

/// What is not named is 0; the sum of a message is its place.
fn reads(step: &str, at: &str, rest: &[&str]) -> Option<ReadingRecord> {
    let named = |name: &str| {
        let at = rest.iter().position(|word| *word == name)?;
        rest.get(at + 1)?.parse().ok()
    };
    let at: Place = at.parse().ok()?;
    let (oldest, retained) = (named("oldest").unwrap_or(1), named("retained").unwrap_or(1));
    let (to, sum) = (named("to").unwrap_or(0), named("sum").unwrap_or(at.position * 8 + u64::from(at.index)));
    Some(ReadingRecord { step: ReadingStep::named(step)?, at, to, sum, oldest, retained })
}

fn incarnation(word: &str) -> Option<ProcessIncarnation> {
    let word = word.strip_prefix('n')?;
    let (node, count) = word.split_once('.').unwrap_or((word, "1"));
    Some(ProcessIncarnation { node: NodeId(node.parse().ok()?), count: count.parse::<u16>().ok()?.checked_sub(1)? })
}

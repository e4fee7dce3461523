//! AV: availability. Members that hear each other both ways are in one view and are given what they send within a bounded
//! time, whatever is wrong elsewhere and however long that lasts. Judged where nothing changes on the network and its hosts.
//! Whom a member has kept out since before, for longer than it does at first, it may keep out until that time is over.
use super::process_views::Stands;
use super::{Calmness, Checker, ConstantSpan, Core, PromiseRule, Verdict};
use crate::fault::NodeSet;
use crate::message::{HEADER, Process, ProcessIncarnation};
use crate::trace::{Occurrence, PerProcess, TraceEvent};
use consort_types::{Duration, Instant, NodeId};
use std::collections::BTreeMap;

/// The gauge that tells whom a node keeps out, as a set of nodes.
pub(crate) const KEPT_OUT: &str = "kept_out";
/// Who is kept out for the first time is let in after so long. Each standstill that is allowed has room for that.
const FIRST_TERM: Duration = Duration::from_secs(1);
/// In this part of a standstill what went wrong before is noticed, and has somebody kept out.
const NOTICED: u32 = 4;

/// What a process has sent and is to be given.
#[derive(Clone, Debug, Default)]
struct OwnMessages {
    sent: u64,
    delivered: u64,
    /// When it was given anything last, or sent what it waits for.
    moved: Instant,
}

impl OwnMessages {
    fn send(&mut self, count: u64, at: Instant) {
        if self.sent <= self.delivered {
            (self.delivered, self.moved) = (count - 1, at);
        }
        self.sent = count;
    }
}

/// See the module. When that is so, and how long may pass, is said before the run.
#[derive(Debug)]
pub(super) struct Availability {
    /// The last first.
    spans: Vec<ConstantSpan>,
    /// Until it is broken; once is enough.
    standstill: Option<Duration>,
    stands: Stands,
    own: PerProcess<OwnMessages>,
    /// When the members of each of the span's cores were in one view last.
    together: Vec<Instant>,
    /// Whom incarnations keep out, and since when.
    kept_out: BTreeMap<(ProcessIncarnation, NodeId), Instant>,
}

impl Checker for Availability {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "AV", name: "availability" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.stands.see(event);
        match &event.what {
            // Shorter ones have no name to know them by.
            Occurrence::Submit(sent) if sent.len >= HEADER as u64 => {
                self.own.of(event.process).send(sent.count, event.at);
            }
            Occurrence::Deliver(delivered) => {
                let own = self.own.of(event.process);
                own.moved = event.at;
                if let Some(mark) = delivered.mark.filter(|mark| mark.origin == event.process) {
                    own.delivered = mark.count;
                }
            }
            Occurrence::Crash | Occurrence::Left => {
                self.keep_out(event.process.incarnation(), NodeSet::default(), event.at)
            }
            Occurrence::Gauge { name, value } => {
                if name == KEPT_OUT {
                    self.keep_out(event.process.incarnation(), NodeSet(*value), event.at);
                }
                return self.look(event.process, event.at);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Availability {
    pub(super) fn new(expected: &Calmness) -> Self {
        Self {
            spans: expected.spans.iter().rev().cloned().collect(),
            standstill: expected.standstill,
            stands: Stands::default(),
            own: PerProcess::default(),
            together: Vec::new(),
            kept_out: BTreeMap::new(),
        }
    }

    /// A node keeps these out now.
    fn keep_out(&mut self, incarnation: ProcessIncarnation, nodes: NodeSet, at: Instant) {
        self.kept_out.retain(|(by, node), _| *by != incarnation || nodes.contains(*node));
        for node in nodes.nodes() {
            self.kept_out.entry((incarnation, node)).or_insert(at);
        }
    }

    /// Whether some of these keep others out, and have done so since this time at the latest.
    fn are_kept_apart(&self, core: NodeSet, since: Instant) -> bool {
        let mut terms = self.kept_out.iter();
        terms.any(|((by, node), began)| core.contains(by.node) && core.contains(*node) && *began <= since)
    }

    /// Nodes are looked at from time to time.
    fn look(&mut self, process: Process, at: Instant) -> Verdict {
        while self.spans.last().is_some_and(|span| span.until <= at) {
            self.spans.pop();
            self.together.clear();
        }
        let (Some(span), Some(standstill)) = (self.spans.last().filter(|span| span.from <= at), self.standstill) else {
            return Ok(());
        };
        let Some(place) = span.cores.iter().position(|core| core.nodes.contains(process.node)) else { return Ok(()) };
        self.together.resize(span.cores.len(), span.from);
        let Core { nodes, united } = span.cores[place];
        if !united || self.are_together(nodes) {
            self.together[place] = at;
        } else if self.are_kept_apart(nodes, span.from + standstill / NOTICED) {
            // The first term is in the standstill; longer ones are not.
            let first = Instant(at.0.saturating_sub(FIRST_TERM.as_nanos() as u64));
            self.together[place] = self.together[place].max(first);
        }
        let since = self.together[place];
        let idle = self.waits_longest(process).map(|(process, moved)| (process, moved.max(span.from)));
        let broken = match idle {
            _ if at.since(since) > standstill => {
                Some(format!("{process} and those it hears both ways were in one view at {since} ms last"))
            }
            Some((process, moved)) if at.since(moved) > standstill => {
                Some(format!("{process}, which has sent, was given nothing since {moved} ms"))
            }
            _ => None,
        };
        let Some(how) = broken else { return Ok(()) };
        self.standstill = None;
        Err(format!("{how}, though nothing has changed since {} ms", span.from))
    }

    /// Whether all of these that are in any view are in the same.
    fn are_together(&self, core: NodeSet) -> bool {
        let mut views =
            self.stands.live().filter(|(process, stand)| core.contains(process.node) && stand.id().is_some());
        let first = views.next().and_then(|(_, stand)| stand.id());
        views.all(|(_, stand)| stand.closing.is_none() && stand.id() == first)
    }

    /// Of the processes of an incarnation that wait for what they have sent, the one that was given nothing for the
    /// longest time.
    fn waits_longest(&self, process: Process) -> Option<(Process, Instant)> {
        let live = self.stands.of_incarnation(process.incarnation()).filter(|(_, stand)| stand.is_live());
        let waiting = live.filter_map(|(process, _)| {
            let own = self.own.get(process).filter(|own| own.sent > own.delivered)?;
            Some((process, own.moved))
        });
        waiting.min_by_key(|(_, moved)| *moved)
    }
}

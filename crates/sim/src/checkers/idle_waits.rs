//! IW: waits in an idle run are short. A lone message, sent while nothing else is under way, comes back to its sender within a
//! bounded time; and a counter that must go on while nothing is said does so.
use super::process_views::{Stand, Stands};
use super::{Checker, PromiseRule, Verdict};
use crate::message::{HEADER, Mark, Process};
use crate::trace::{Occurrence, PerProcess, Submitted, TraceEvent};
use consort_types::{Duration, Instant, Service};

/// How long waits are in a run in which nothing but what the bounds allow for goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleWaits {
    /// Before this nodes look for each other, and nothing is judged.
    pub from: Instant,
    /// Of a lone message up to agreed.
    pub agreed: Duration,
    /// Of a lone safe message.
    pub safe: Duration,
    /// A counter of every node in a view of several, and how long it may stand still while nothing is under way.
    pub counter: Option<(&'static str, Duration)>,
}

/// Longer messages take more than one packet.
const SHORT: u64 = 400;

#[derive(Clone, Copy, Debug)]
struct LoneMessage {
    mark: Mark,
    sent: Instant,
    within: Duration,
}

#[derive(Clone, Debug, Default)]
struct SeenCounter {
    value: u64,
    moved: Instant,
}

/// See the module. How long waits may be is said before the run.
#[derive(Debug)]
pub(super) struct Idle {
    waits: Option<IdleWaits>,
    stands: Stands,
    /// Messages that were sent and have not come back.
    under_way: u64,
    /// Since when there are some.
    since: Instant,
    /// Until when messages may be under way that are not counted.
    unclear: Instant,
    lone: Option<LoneMessage>,
    counters: PerProcess<SeenCounter>,
}

impl Checker for Idle {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "IW", name: "short waits" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let Some(waits) = self.waits.clone() else { return Ok(()) };
        let (process, at) = (event.process, event.at);
        self.stands.see(event);
        match &event.what {
            Occurrence::Submit(sent) => self.on_submit(&waits, process, sent, at),
            Occurrence::Deliver(delivered) if delivered.mark.is_none_or(|mark| mark.origin == process) => {
                self.on_own(delivered.mark, process, at)
            }
            Occurrence::Spoke(_) => {
                self.on_uncounted(&waits, at);
                Ok(())
            }
            // What closes a view waits for more than the token.
            Occurrence::View(_) | Occurrence::Crash | Occurrence::Leave | Occurrence::Left => {
                self.lone = None;
                self.counters.of(process).moved = at;
                Ok(())
            }
            Occurrence::Gauge { name, value } => {
                self.on_gauge(&waits, process, name, *value, at)?;
                self.is_due(at)
            }
            _ => Ok(()),
        }
    }
}

impl Idle {
    pub(super) fn new(waits: Option<IdleWaits>) -> Self {
        Self {
            waits,
            stands: Stands::default(),
            under_way: 0,
            since: Instant::ZERO,
            unclear: Instant::ZERO,
            lone: None,
            counters: PerProcess::default(),
        }
    }

    fn on_submit(&mut self, waits: &IdleWaits, process: Process, sent: &Submitted, at: Instant) -> Verdict {
        let receives = self.stands.get(process).is_some_and(Stand::is_live);
        if sent.len < HEADER as u64 || !receives {
            self.on_uncounted(waits, at);
            return Ok(());
        }
        let stands = self.stands.share_a_view();
        let is_lone = self.under_way == 0 && at >= self.unclear.max(waits.from) && stands && sent.len <= SHORT;
        let within = if sent.service == Service::Safe { waits.safe } else { waits.agreed };
        let mark = Mark { origin: process, count: sent.count };
        self.lone = is_lone.then_some(LoneMessage { mark, sent: at, within });
        if self.under_way == 0 {
            self.since = at;
        }
        self.under_way += 1;
        Ok(())
    }

    /// A message that nobody tells the end of is under way.
    fn on_uncounted(&mut self, waits: &IdleWaits, at: Instant) {
        (self.unclear, self.lone) = (self.unclear.max(at + waits.agreed.max(waits.safe)), None);
    }

    fn on_own(&mut self, mark: Option<Mark>, process: Process, at: Instant) -> Verdict {
        let Some(mark) = mark else { return Ok(()) };
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            // What was sent meanwhile and is not counted may take as long.
            self.unclear = self.unclear.max(at + at.since(self.since));
        }
        let lone = self.lone.take_if(|lone| lone.mark == mark);
        lone.map_or(Ok(()), |lone| lone.judge(at)).map_err(|how| format!("{process}: {how}"))
    }

    fn is_due(&mut self, at: Instant) -> Verdict {
        let late = self.lone.take_if(|lone| at.since(lone.sent) > lone.within);
        late.map_or(Ok(()), |lone| lone.judge(at))
    }

    fn on_gauge(&mut self, waits: &IdleWaits, process: Process, name: &str, value: u64, at: Instant) -> Verdict {
        let Some((_, most)) = waits.counter.filter(|(counter, _)| *counter == name) else { return Ok(()) };
        let view = self.stands.get(process).and_then(|stand| stand.regular.as_ref());
        let is_alone = view.is_none_or(|view| view.members.len() < 2);
        let seen = self.counters.of(process);
        if value != seen.value || is_alone || self.under_way > 0 || at < self.unclear {
            *seen = SeenCounter { value, moved: at };
        }
        let since = at.since(seen.moved);
        if since <= most {
            return Ok(());
        }
        seen.moved = at;
        Err(format!("{name} is {value} for {since:?}, though nothing is wrong"))
    }
}

impl LoneMessage {
    fn judge(&self, at: Instant) -> Verdict {
        let Self { mark, sent, within } = self;
        let took = at.since(*sent);
        if took <= *within {
            return Ok(());
        }
        Err(format!("{mark}, alone under way, is not back after {took:?}, {within:?} allowed"))
    }
}

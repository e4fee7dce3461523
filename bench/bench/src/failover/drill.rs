//! What is done to the daemons, and when their clients are told.
use super::report::{Change, Figures, Pause};
use super::{PAUSE, Plan, Victim};
use crate::clock;
use crate::failure::{Failure, Outcome};
use consort::{Event, Service, ViewId, ViewKind};
use consort_testbed::{Audience, Heard, Stalls, Task, Testbed, Told, Visitor};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long after a pause views are counted: longer than a ring takes to be formed anew.
const AFTERMATH: u64 = 500 * MS;
/// By then messages must be ordered again.
const PATIENCE: u64 = 15_000 * MS;
/// The bytes of a message.
const SIZE: usize = 100;
const MS: u64 = 1_000_000;

/// Daemons, and a client at each of those that run.
pub struct Drill {
    testbed: Testbed,
    audience: Audience,
    stalls: Stalls,
    plan: Plan,
}

impl Drill {
    /// Starts everything and waits until all are in one view.
    pub fn start(plan: Plan) -> Outcome<Self> {
        let testbed = Testbed::start(plan.nodes, &["--protocol".into(), plan.protocol.name().into()])?;
        let mut drill = Self { testbed, audience: Audience::default(), stalls: Stalls::watch(), plan };
        (1..=plan.nodes).try_for_each(|node| drill.observe(node))?;
        drill.audience.await_view(&mut drill.testbed, &mut drop)?;
        Ok(drill)
    }

    /// Does everything once, to the node whose turn it is.
    pub fn run(&mut self, run: u32, figures: &mut Figures) -> Outcome {
        let node = ((run - 1) % u32::from(self.plan.nodes)) as u16 + 1;
        self.settle(run)?;
        figures.crash.push(self.crash(node)?);
        figures.restart.push(self.restart(node)?);
        self.settle(run)?;
        figures.leave.push(self.leave(node)?);
        self.testbed.see_off()?;
        figures.restart.push(self.restart(node)?);
        self.settle(run)?;
        figures.pauses.push(self.pause(node)?);
        Ok(())
    }

    /// Kills the coordinator; returns when each survivor's client received a message again that was sent afterwards, and
    /// when each was told the view of the survivors. Then it is started again.
    pub fn kill_coordinator(&mut self, run: u32) -> Outcome<(Change, Change)> {
        self.settle(run)?;
        let node = self.testbed.coordinator()?;
        self.audience.retire(node);
        let at = self.testbed.kill(node)?;
        let orders = self.await_orders(node, at)?;
        let told = self.change(node, at)?;
        self.restart(node)?;
        Ok((orders, told))
    }

    /// Until all that are left have received a message that was sent after this time.
    fn await_orders(&mut self, node: u16, since: u64) -> Outcome<Change> {
        let seats = (1..=self.plan.nodes).filter_map(|node| Some((self.audience.number_at(node)?, node)));
        let mut waiting: BTreeMap<u64, u16> = seats.collect();
        let deadline = clock::now_ns() + PATIENCE;
        while let Some(told) = self.audience.listen(&mut self.testbed, deadline)? {
            let is_new = matches!(&told.heard, Heard::Event(Event::Message(it)) if sent_at(it.payload()) > since);
            let by = if is_new { waiting.remove(&told.by) } else { None };
            if let (Some(by), true) = (by, waiting.is_empty()) {
                let (ms, stall_ms) = (told.at.saturating_sub(since) as f64 / MS as f64, in_ms(self.stalls.longest()));
                return Ok(Change { node, by, ms, stall_ms, why: "messages are ordered again".into() });
            }
        }
        Err(Failure::new(format!("no orders at {} nodes long after the coordinator was killed", waiting.len())))
    }

    /// Ends the daemons in good order.
    pub fn stop(self) {
        drop(self.audience);
        self.testbed.stop();
    }

    fn crash(&mut self, node: u16) -> Outcome<Change> {
        self.audience.retire(node);
        let at = self.testbed.kill(node)?;
        self.change(node, at)
    }

    fn leave(&mut self, node: u16) -> Outcome<Change> {
        self.audience.retire(node);
        let at = self.testbed.dismiss(node)?;
        self.change(node, at)
    }

    fn restart(&mut self, node: u16) -> Outcome<Change> {
        let at = self.testbed.revive(node)?;
        self.observe(node)?;
        self.change(node, at)
    }

    /// What views a pause brings about.
    fn pause(&mut self, node: u16) -> Outcome<Pause> {
        let mut views: BTreeMap<ViewId, String> = BTreeMap::new();
        let mut count = |told: Told| {
            if let Heard::Event(Event::View(view)) = told.heard
                && view.kind == ViewKind::Regular
            {
                views.entry(view.id).or_insert(view.cause);
            }
        };
        self.stalls.longest();
        let ms = in_ms(self.testbed.pause(node, PAUSE)?);
        self.audience.listen_until(&mut self.testbed, clock::now_ns() + AFTERMATH, &mut count)?;
        self.audience.await_view(&mut self.testbed, &mut count)?;
        let stall_ms = in_ms(self.stalls.longest());
        Ok(Pause { node, ms, stall_ms, changes: views.into_values().collect() })
    }

    fn change(&mut self, node: u16, since: u64) -> Outcome<Change> {
        let last = self.audience.await_view(&mut self.testbed, &mut drop)?;
        let ms = last.at.saturating_sub(since) as f64 / MS as f64;
        let stall_ms = in_ms(self.stalls.longest());
        Ok(Change { node, by: last.node, ms, stall_ms, why: last.view.cause })
    }

    /// Lets the ring run a while, not always equally long: it has rhythms of its own.
    fn settle(&mut self, run: u32) -> Outcome {
        let until = clock::now_ns() + (150 + u64::from(run) * 37 % 100) * MS;
        self.audience.listen_until(&mut self.testbed, until, &mut drop)?;
        self.stalls.longest();
        Ok(())
    }

    fn observe(&mut self, node: u16) -> Outcome {
        let visitor = Visitor::connect(self.testbed.socket_path(node), "failover")?;
        let pace = Duration::from_secs_f64(f64::from(self.plan.nodes) / self.plan.rate);
        let all = self.plan.victim == Victim::Coordinator;
        let task = Task { make: Box::new(|_| (Service::Agreed, stamped())), pace, all };
        self.audience.seat(node, visitor, task);
        Ok(())
    }
}

/// A message that says when it is sent.
fn stamped() -> Vec<u8> {
    let mut message = clock::now_ns().to_be_bytes().to_vec();
    message.resize(SIZE, b'.');
    message
}

/// When a message was sent; 0 where it does not say.
fn sent_at(message: &[u8]) -> u64 {
    message.first_chunk().map_or(0, |at| u64::from_be_bytes(*at))
}

/// Milliseconds, to the microsecond.
fn in_ms(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_when_it_was_sent() {
        let before = clock::now_ns();
        let message = stamped();
        assert!(sent_at(&message) >= before && sent_at(&message) <= clock::now_ns() && message.len() == SIZE);
        assert_eq!(sent_at(b"short"), 0);
    }
}

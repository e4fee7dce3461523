//! What is done to the daemons, and when their clients are told.
use super::report::{Change, Figures, Pause};
use super::{PAUSE, Plan};
use crate::clock;
use crate::failure::Outcome;
use consort::{Event, Service, ViewId, ViewKind};
use consort_testbed::{Audience, Heard, Stalls, Task, Testbed, Told, Visitor};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long after a pause views are counted: longer than a ring takes to be formed anew.
const AFTERMATH: u64 = 500 * MS;
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
        let visitor = Visitor::connect(self.testbed.door(node), "failover")?;
        let pace = Duration::from_secs_f64(f64::from(self.plan.nodes) / self.plan.rate);
        let task = Task { make: Box::new(|_| (Service::Agreed, vec![b'.'; SIZE])), pace, all: false };
        self.audience.seat(node, visitor, task);
        Ok(())
    }
}

/// Milliseconds, to the microsecond.
fn in_ms(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

//! Runs with a plot, for what chance meets too seldom: just these packets are lost or late, just these nodes crash. All
//! checkers judge them as they judge a seed's run.
//!
//! Nodes count from 0; a plot begins in a view of all that has come to rest, and its run goes on long after its end.
mod plato;
mod ring;
mod toto;

use crate::{Adjust, Simulated};
use consort_order::Engine;
use consort_sim::machine::Bare;
use consort_sim::message::{HEADER, Process};
use consort_sim::plan::RunPlan;
use consort_sim::world::{RunOptions as Keep, RunOutcome, SimWorld};
use consort_types::{Class, Duration, Instant, MemberId, NodeId, Service};
use consort_wire::{Packet, envelope};

pub use plato::plato;
pub use ring::ring;
pub use toto::toto;

/// A scene that can be played: its name, and what plays it.
pub type Playable<'a> = (&'static str, Box<dyn FnOnce() -> Result<RunOutcome, String> + 'a>);

/// One scene: how many nodes there are, how they are set up, and what happens.
struct Scene<E: Simulated> {
    name: &'static str,
    nodes: u16,
    adjust: fn(&mut E::Config),
    play: fn(&mut SimWorld<'_, Bare<E>>),
}

/// When the plot begins.
const BEGIN: Instant = Instant(2_000_000_000);

impl<E: Simulated> Scene<E> {
    fn plan(&self) -> RunPlan {
        RunPlan { seed: 7, ..RunPlan::lan(self.nodes) }
    }

    /// Views may change, since nodes crash.
    fn played(&self, set: Adjust<'_, E>, story: bool) -> Result<RunOutcome, String> {
        let plan = self.plan();
        let mut bounds = E::bounds(&plan, true)?;
        bounds.views.changes = None;
        self.judged(plan, Keep { bounds, story, trace: false }, set)
    }

    /// Plays it; `set` says what every node's settings are before the scene's own.
    fn judged(&self, plan: RunPlan, keep: Keep, set: Adjust<'_, E>) -> Result<RunOutcome, String> {
        let mut world = crate::bare::<E>(plan, keep, set)?;
        world.run_until(BEGIN);
        (self.play)(&mut world);
        Ok(world.run())
    }
}

/// What plots are made of.
trait Play<P> {
    /// A node says something short.
    fn say(&mut self, node: u16, service: Service);
    /// Time passes.
    fn pass(&mut self, span: Duration);
    /// Decides from now on, by sender, receiver and packet, how much later than usual a packet comes, or that it is lost.
    fn decide(&mut self, fate: impl FnMut(u16, u16, &P) -> Option<Duration> + 'static);
}

impl<E: Engine> Play<E::Packet> for SimWorld<'_, Bare<E>> {
    fn say(&mut self, node: u16, service: Service) {
        // A node that has no room for a few short messages is red anyway: liveness tells.
        let _ = self.submit(Process::new(NodeId(node), 0), Class::Client, service, HEADER + 8);
    }

    fn pass(&mut self, span: Duration) {
        self.run_until(self.now() + span);
    }

    fn decide(&mut self, mut fate: impl FnMut(u16, u16, &E::Packet) -> Option<Duration> + 'static) {
        self.fate(move |frame| {
            let identity = crate::identity(MemberId::new(frame.to.0, 1));
            let packet = envelope::open(&identity, frame.bytes.clone()).ok().map(|(_, packet)| packet);
            match packet.map(E::Packet::decode) {
                Some(Ok(packet)) => fate(frame.from.0, frame.to.0, &packet),
                _ => AT_ONCE,
            }
        });
    }
}

/// As usual.
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

const fn unless(lost: bool) -> Option<Duration> {
    if lost { None } else { AT_ONCE }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_keeps_every_promise() {
        let others = toto(&|_| {}, false).chain(plato(&|_| {}, false));
        let scenes: Vec<_> = ring(&|_| {}, false).chain(others).collect();
        assert!(scenes.len() > 20);
        for (name, play) in scenes {
            let outcome = play().unwrap();
            assert_eq!(outcome.violations, [], "{name}");
            assert!(outcome.simulated >= ms(10_000), "{name}: it ended after {:?}", outcome.simulated);
        }
    }
}

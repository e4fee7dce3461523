//! The middle part: one daemon is killed and comes back while messages flow, and what all clients saw is judged.
use super::outcome::{HandedOver, Trouble, Viewed};
use super::story::Story;
use crate::config::{Protocol, local_gateways};
use crate::failure::{Outcome, Trying};
use crate::{clock, inquiry};
use consort::{Address, Event, GroupName, Service, ViewKind};
use consort_sim::trace::Trace;
use consort_testbed::judge::{self, Notes};
use consort_testbed::{Audience, Heard, Task, Testbed, Told, Visitor};
use std::path::PathBuf;
use std::time::Duration;

const GROUP: &str = "trouble";
/// The daemon that is killed: neither the first, which tells the story, nor always the last.
const VICTIM: u16 = 2;
/// Messages a second over all clients, and their bytes.
const RATE: f64 = 2_000.0;
const SIZE: usize = 120;
/// One message in so many is to be delivered safe.
const SAFE: u64 = 4;
const MS: u64 = 1_000_000;
/// How long messages flow before the kill, while the daemon is gone, and when it is back.
const FLOW: u64 = 350 * MS;
/// Who has said nothing for so long has nothing more to say, once all is ordered.
const SILENCE: u64 = 150 * MS;
/// For so long is waited for what is still under way.
const PATIENCE: u64 = 10_000 * MS;

struct Act<'a> {
    testbed: &'a mut Testbed,
    audience: Audience,
    scene: Scene<'a>,
}

/// What is done with all that clients tell.
struct Scene<'a> {
    story: &'a Story,
    notes: Notes,
    /// The client that tells the story.
    teller: u64,
    /// When the last thing was done to a daemon; before the first nothing is told.
    since: Option<u64>,
    views: Vec<Viewed>,
    /// Telling the story failed.
    untold: Outcome,
}

/// Plays it.
pub fn play(testbed: &mut Testbed, nodes: u16, protocol: Protocol, story: &Story) -> Outcome<Trouble> {
    let group = GroupName::new(GROUP.as_bytes()).trying(|| "group".into())?;
    let mut act = Act {
        testbed,
        audience: Audience::default(),
        scene: Scene { story, notes: Notes::new(group), teller: 0, since: None, views: Vec::new(), untold: Ok(()) },
    };
    (1..=nodes).try_for_each(|node| act.seat(node, nodes))?;
    act.await_view()?;
    act.flow(FLOW)?;
    story.kill(VICTIM, RATE)?;
    let crash_ms = act.kill()?;
    act.flow(FLOW)?;
    story.revive(VICTIM, crash_ms)?;
    let restart_ms = act.revive(VICTIM, nodes)?;
    act.flow(FLOW)?;
    let handed_over = (protocol == Protocol::MultiRing).then(|| act.hand_over(nodes, restart_ms)).transpose()?;
    act.come_to_rest()?;
    let trouble = act.judge(protocol, [crash_ms, restart_ms], handed_over)?;
    story.judged(&trouble)?;
    Ok(trouble)
}

impl Act<'_> {
    fn seat(&mut self, node: u16, nodes: u16) -> Outcome {
        let visitor = Visitor::connect(self.testbed.socket_path(node), GROUP)?;
        let number = self.audience.next_number();
        let witness = self.scene.notes.welcome(number, clock::now_ns(), visitor.welcome());
        let service = |count: u64| if count.is_multiple_of(SAFE) { Service::Safe } else { Service::Agreed };
        let make = move |count| (service(count), witness.payload(count, SIZE).to_bytes().to_vec());
        let pace = Duration::from_secs_f64(f64::from(nodes) / RATE);
        self.audience.seat(node, visitor, Task { make: Box::new(make), pace, all: true });
        Ok(())
    }

    fn await_view(&mut self) -> Outcome<u64> {
        let together = self.audience.await_view(self.testbed, &mut |told| self.scene.see(told))?;
        Ok(together.at)
    }

    fn flow(&mut self, span: u64) -> Outcome {
        self.audience.listen_until(self.testbed, clock::now_ns() + span, &mut |told| self.scene.see(told))?;
        std::mem::replace(&mut self.scene.untold, Ok(()))
    }

    /// Returns how many milliseconds it took until all survivors were told.
    fn kill(&mut self) -> Outcome<f64> {
        let at = self.take_away(VICTIM)?;
        Ok(ms(self.await_view()?, at))
    }

    fn take_away(&mut self, node: u16) -> Outcome<u64> {
        self.audience.retire(node);
        let at = self.testbed.kill(node)?;
        self.scene.since = Some(at);
        Ok(at)
    }

    /// Returns how many milliseconds it took until all were told.
    fn revive(&mut self, node: u16, nodes: u16) -> Outcome<f64> {
        let at = self.testbed.revive(node)?;
        self.scene.since = Some(at);
        self.seat(node, nodes)?;
        Ok(ms(self.await_view()?, at))
    }

    /// The daemon that joins two rings is killed, and one that stood by joins them until it is back.
    fn hand_over(&mut self, nodes: u16, restart_ms: f64) -> Outcome<HandedOver> {
        let (node, standby) = local_gateways(nodes).into_inner();
        self.scene.story.hand_over(node, standby, restart_ms)?;
        let at = self.take_away(node)?;
        let mut handed_over = HandedOver { node, standby, taken_over_ms: ms(self.await_view()?, at), back_ms: 0.0 };
        self.flow(FLOW)?;
        self.scene.story.taken_over(&handed_over)?;
        handed_over.back_ms = self.revive(node, nodes)?;
        self.flow(FLOW)?;
        Ok(handed_over)
    }

    /// Nobody sends any more; all that is under way arrives.
    fn come_to_rest(&mut self) -> Outcome {
        let numbers = self.audience.numbers();
        self.audience.hush();
        let deadline = clock::now_ns() + PATIENCE;
        self.listen_while(deadline, |notes| !notes.are_hushed(&numbers))?;
        self.scene.notes.calm(clock::now_ns());
        // What does not arrive is for the checkers to tell.
        self.listen_while(deadline, |notes| !notes.are_ordered(&numbers))?;
        while let Some(told) = self.audience.listen(self.testbed, clock::now_ns() + SILENCE)? {
            self.scene.see(told);
        }
        Ok(())
    }

    fn listen_while(&mut self, deadline: u64, goes_on: impl Fn(&Notes) -> bool) -> Outcome {
        while goes_on(&self.scene.notes) {
            match self.audience.listen(self.testbed, deadline)? {
                Some(told) => self.scene.see(told),
                None => break,
            }
        }
        Ok(())
    }

    fn judge(
        mut self,
        protocol: Protocol,
        [crash_ms, restart_ms]: [f64; 2],
        handed_over: Option<HandedOver>,
    ) -> Outcome<Trouble> {
        let now = clock::now_ns();
        self.scene.notes.quiet(now);
        for card in self.testbed.cards() {
            let status = inquiry::status(&Address::Unix(card.socket.clone()))?;
            if let Some(number) = self.audience.number_at(card.node) {
                self.scene.notes.status(number, now, &status);
            }
        }
        let Scene { notes, views, .. } = self.scene;
        let (clients, sent, delivered) = (notes.clients(), notes.sent, notes.delivered);
        let trace = notes.trace();
        let violations = judge::violations(&trace, protocol);
        let trace = if violations.is_empty() { None } else { Some(keep(&trace)?) };
        let promises = judge::promises(protocol);
        Ok(Trouble {
            node: VICTIM,
            crash_ms,
            restart_ms,
            views,
            handed_over,
            clients,
            sent,
            delivered,
            promises,
            violations,
            trace,
        })
    }
}

impl Scene<'_> {
    fn see(&mut self, told: Told) {
        if let (Some(since), Heard::Event(Event::View(view))) = (self.since, &told.heard)
            && told.by == self.teller
        {
            let kind = if view.kind == ViewKind::Regular { "regular" } else { "transitional" };
            let viewed = Viewed {
                ms: ms(told.at, since),
                kind,
                view: format!("{}@{}", view.id.number, view.id.representative.node),
                members: view.members.iter().map(|member| member.node.0).collect(),
                cause: view.cause.clone(),
            };
            if self.untold.is_ok() {
                self.untold = self.story.view(&viewed);
            }
            self.views.push(viewed);
        }
        self.notes.see(told);
    }
}

fn ms(at: u64, since: u64) -> f64 {
    (at.saturating_sub(since) / 1_000) as f64 / 1_000.0
}

/// Keeps a trace that breaks a promise where it outlives this demonstration.
fn keep(trace: &Trace) -> Outcome<PathBuf> {
    let path = std::env::temp_dir().join(format!("consort-demo-{}.trace", std::process::id()));
    std::fs::write(&path, trace.to_string()).trying(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

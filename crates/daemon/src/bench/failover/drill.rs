//! What is done to the daemons, and what the clients say of it.
use super::Plan;
use super::report::{Change, Figures};
use crate::clock;
use crate::failure::{Code, Failure, Outcome};
use crate::lab::{Heard, Lab, Observer, ObserverTask, Told};
use consort::{NetworkView, ViewId, ViewKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a daemon is stopped.
pub const PAUSE: Duration = Duration::from_millis(100);
/// For how long after a pause views are counted: longer than a ring takes to be formed anew.
const AFTERMATH: u64 = 500_000_000;
/// The bytes of a message.
const SIZE: usize = 100;
/// By then a change must have come.
const PATIENCE: u64 = 15_000_000_000;
const MS: u64 = 1_000_000;

/// Daemons, and a client at each of those that run.
pub struct Drill {
    lab: Lab,
    plan: Plan,
    observers: BTreeMap<u16, Seat>,
    tell: Sender<Told>,
    told: Receiver<Told>,
    /// How many observers were started so far; each is known by its number.
    started: u64,
    /// The regular views that were heard of since this was emptied.
    views: BTreeSet<ViewId>,
}

/// The client at one daemon, and the last regular view it was told, with the time.
struct Seat {
    number: u64,
    last: Option<(u64, NetworkView)>,
    // Dropped with the seat: then it ends.
    _observer: Observer,
}

impl Drill {
    /// Starts everything and waits until all are in one view.
    pub fn start(plan: Plan) -> Outcome<Self> {
        let lab = Lab::start(plan.nodes, &[])?;
        let (tell, told) = channel();
        let mut drill = Self { lab, plan, observers: BTreeMap::new(), tell, told, started: 0, views: BTreeSet::new() };
        (1..=plan.nodes).try_for_each(|node| drill.observe(node))?;
        drill.await_view(clock::now_ns())?;
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
        self.lab.see_off()?;
        figures.restart.push(self.restart(node)?);
        self.settle(run)?;
        figures.pauses.push(self.pause(node)?);
        Ok(())
    }

    /// Ends the daemons in good order.
    pub fn stop(self) {
        drop(self.observers);
        self.lab.stop();
    }

    fn crash(&mut self, node: u16) -> Outcome<Change> {
        self.observers.remove(&node);
        let at = self.lab.kill(node)?;
        self.change(node, at)
    }

    fn leave(&mut self, node: u16) -> Outcome<Change> {
        self.observers.remove(&node);
        let at = self.lab.dismiss(node)?;
        self.change(node, at)
    }

    fn restart(&mut self, node: u16) -> Outcome<Change> {
        let at = self.lab.revive(node)?;
        self.observe(node)?;
        self.change(node, at)
    }

    /// How many views a pause brings about.
    fn pause(&mut self, node: u16) -> Outcome<usize> {
        self.views.clear();
        self.lab.pause(node, PAUSE)?;
        let until = clock::now_ns() + AFTERMATH;
        while self.listen(until)? {}
        let changes = self.views.len();
        self.await_view(clock::now_ns())?;
        Ok(changes)
    }

    fn change(&mut self, node: u16, since: u64) -> Outcome<Change> {
        let (at, by) = self.await_view(since)?;
        let why = self.observers[&by].last.as_ref().map(|(_, view)| view.cause.clone()).unwrap_or_default();
        Ok(Change { node, by, ms: at.saturating_sub(since) as f64 / MS as f64, why })
    }

    /// Lets the ring run a while, not always equally long: it has rhythms of its own.
    fn settle(&mut self, run: u32) -> Outcome {
        let until = clock::now_ns() + (150 + u64::from(run) * 37 % 100) * MS;
        while self.listen(until)? {}
        Ok(())
    }

    fn observe(&mut self, node: u16) -> Outcome {
        let clients = f64::from(self.plan.nodes);
        let task = ObserverTask {
            door: self.lab.door(node),
            group: "failover".into(),
            size: SIZE,
            pace: Duration::from_secs_f64(clients / self.plan.rate),
        };
        let number = self.started;
        self.started += 1;
        let observer = Observer::start(number, task, self.tell.clone())?;
        self.observers.insert(node, Seat { number, last: None, _observer: observer });
        Ok(())
    }

    /// Waits until all that run are told one view of just them; returns when the last was, and which. One that was told
    /// before `since` was told in time.
    fn await_view(&mut self, since: u64) -> Outcome<(u64, u16)> {
        let deadline = since.max(clock::now_ns()) + PATIENCE;
        loop {
            if let Some(found) = self.together() {
                return Ok(found);
            }
            if !self.listen(deadline)? {
                return Err(Failure::new(self.scattered()).with(Code::Timeout));
            }
        }
    }

    fn together(&self) -> Option<(u64, u16)> {
        let seen: Option<Vec<_>> =
            self.observers.iter().map(|(node, seat)| seat.last.as_ref().map(|(at, view)| (*at, *node, view))).collect();
        let seen = seen?;
        let (at, node, view) = seen.iter().max_by_key(|(at, ..)| *at)?;
        let same = seen.iter().all(|(_, _, other)| other.id == view.id);
        let just_them = view.members.iter().map(|member| member.node.0).eq(self.observers.keys().copied());
        (same && just_them).then_some((*at, *node))
    }

    fn scattered(&self) -> String {
        let seen = self.observers.iter().map(|(node, seat)| match &seat.last {
            None => format!("the client at node {node} was told no view"),
            Some((_, view)) => {
                let members: Vec<String> = view.members.iter().map(ToString::to_string).collect();
                format!("the client at node {node} was told view {} of {} ({})", view.id, members.join(" "), view.cause)
            }
        });
        format!("waited too long for one view of all that run; last:\n  {}", seen.collect::<Vec<_>>().join("\n  "))
    }

    /// Takes what comes next, if anything comes before `until`.
    fn listen(&mut self, until: u64) -> Outcome<bool> {
        loop {
            self.lab.check()?;
            let left = until.saturating_sub(clock::now_ns());
            if left == 0 {
                return Ok(false);
            }
            match self.told.recv_timeout(Duration::from_nanos(left.min(50 * MS))) {
                Ok(told) => {
                    self.take(told)?;
                    return Ok(true);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
    }

    fn take(&mut self, told: Told) -> Outcome {
        // One that is not here any more was at a daemon that was taken away.
        let Some((node, seat)) = self.observers.iter_mut().find(|(_, seat)| seat.number == told.by) else {
            return Ok(());
        };
        match told.heard {
            Heard::View(view) if view.kind == ViewKind::Regular => {
                self.views.insert(view.id);
                seat.last = Some((told.at, view));
                Ok(())
            }
            Heard::View(_) => Ok(()),
            Heard::Ended(why) => Err(Failure::new(format!("the client at node {node} lost its session: {why}"))),
        }
    }
}

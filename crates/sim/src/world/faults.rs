//! Faults that begin and end, the calm after them, and the regular look at all gauges.
use super::{SAMPLE, SimWorld, WorldEvent};
use crate::fault::{Activation, CrashTarget, Fault, Lanes, NodeSet, Said};
use crate::machine::Machine;
use crate::message::Process;
use crate::trace::Occurrence;
use crate::workload::WorkloadSender;
use consort_order::Advice;
use consort_types::{Duration, Instant, NodeId, OrderStream};
use std::borrow::Cow;

/// What engines are told.
fn advice(stream: OrderStream, said: Said, nodes: u16) -> Advice {
    match said {
        Said::Leads(node) => Advice::Leader { stream, node },
        Said::BackFrom(NodeId(first)) => {
            Advice::Order { stream, nodes: (0..nodes).rev().map(|at| NodeId((at + first + 1) % nodes)).collect() }
        }
    }
}

impl<M: Machine> SimWorld<'_, M> {
    pub(super) fn on_begin(&mut self, fault: u32) {
        let Activation { until, fault: what, .. } = self.plan.faults[fault as usize];
        self.recorder.totals.faults += 1;
        self.recorder.tell(None, '!', || what.to_string());
        self.active.push(what);
        self.apply_faults();
        self.strike(fault, what, until);
        self.schedule(until, WorldEvent::End { fault });
    }

    /// What a fault does once, when it begins.
    fn strike(&mut self, number: u32, fault: Fault, until: Instant) {
        match fault {
            Fault::Crash { node, disk, after, .. } => self.on_crash(node.0, disk, after),
            Fault::Leave { node, stays } => self.on_leave(node.0, (!stays).then_some(until)),
            Fault::Pause { node } => {
                let place = &mut self.hosts[usize::from(node.0)];
                place.free = place.free.max(until);
            }
            Fault::Stall { part } => {
                let stalled = self.hosts.iter_mut().zip(0..).filter(|(_, node)| part.contains(NodeId(*node)));
                stalled.for_each(|(place, _)| place.free = place.free.max(until));
            }
            Fault::Aimed { target: CrashTarget::Lowest(node), disk, after } => {
                let view = self.views.get(usize::from(node.0)).and_then(Option::as_ref);
                let lowest = view.and_then(|view| view.members.first()).map_or(node, |incarnation| incarnation.node);
                self.victims.push((number, lowest.0));
                self.on_crash(lowest.0, disk, after);
            }
            Fault::Clock { node, by_us } => self.incarnations.jump(node.0, by_us),
            Fault::Advice { part, stream, said } => self.advise(part, &advice(stream, said, self.plan.nodes)),
            _ => {}
        }
    }

    /// Who is down, or gets no processor now, does not hear it.
    fn advise(&mut self, part: NodeSet, advice: &Advice) {
        for host in 0..self.plan.nodes {
            let at = usize::from(host);
            let place = &self.hosts[at];
            if part.contains(NodeId(host)) && place.up && place.free <= self.recorder.now {
                self.machines[at].advise(self.clocks.read(host, self.recorder.now), advice.clone());
                self.drain(host);
                self.schedule_wake(host);
            }
        }
    }

    pub(super) fn on_end(&mut self, fault: u32) {
        let what = self.plan.faults[fault as usize].fault;
        self.recorder.tell(None, '.', || what.to_string());
        if let Some(at) = self.active.iter().position(|active| *active == what) {
            self.active.remove(at);
        }
        self.apply_faults();
        match what {
            Fault::Crash { node, stays, .. } | Fault::Leave { node, stays } => self.on_down_end(node.0, stays),
            Fault::Aimed { .. } => self.on_aimed_end(fault),
            Fault::BadDisk { node } if !self.hosts[usize::from(node.0)].up => self.on_down_end(node.0, false),
            _ => {}
        }
    }

    fn on_aimed_end(&mut self, fault: u32) {
        let Some(at) = self.victims.iter().position(|(number, _)| *number == fault) else { return };
        let (_, victim) = self.victims.swap_remove(at);
        self.on_down_end(victim, false);
    }

    /// The lowest member of a view sends something to one node alone. If that is out of turn, and a fault lies in wait for
    /// it, the receiver dies.
    pub(super) fn on_grant(&mut self, from: u16, to: NodeId) {
        let aims = |activation: &Activation| match activation.fault {
            Fault::Aimed { target: CrashTarget::Granted, disk, after } => Some((disk, after)),
            _ => None,
        };
        let now = self.recorder.now;
        let faults = self.plan.faults.iter().zip(0..);
        let mut waiting = faults.filter(|(a, number)| {
            a.from <= now && now < a.until && self.victims.iter().all(|(known, _)| known != number)
        });
        let Some((number, (disk, after))) = waiting.find_map(|(a, number)| Some((number, aims(a)?))) else { return };
        let Some(view) = &self.views[usize::from(from)] else { return };
        let nodes: Vec<_> = view.members.iter().map(|incarnation| incarnation.node).collect();
        let in_turn = nodes.len() > 2 && nodes.get(1) == Some(&to);
        if nodes.first() == Some(&NodeId(from)) && nodes.contains(&to) && !in_turn {
            self.victims.push((number, to.0));
            self.recorder.tell(Some(to), '!', || "was granted something: it crashes".into());
            self.on_crash(to.0, disk, after + 1);
        }
    }

    fn apply_faults(&mut self) {
        self.network.suffer(&self.active);
        let is_sieve =
            |fault: &&Fault| matches!(fault, Fault::KindLoss { .. } | Fault::Cut { lanes: Lanes::Unicast, .. });
        self.sieves = self.active.iter().filter(is_sieve).copied().collect();
        self.lies_in_wait =
            self.active.iter().any(|fault| matches!(fault, Fault::Aimed { target: CrashTarget::Granted, .. }));
        for (host, node) in self.hosts.iter_mut().zip(0..) {
            host.slowness = 1;
            host.squeezed = None;
            host.disk_delay = Duration::ZERO;
            host.disk_fails = false;
            for fault in &self.active {
                match *fault {
                    Fault::Slow { node: NodeId(slow), factor } if slow == node => {
                        host.slowness = host.slowness.max(factor)
                    }
                    Fault::Buffers { node: NodeId(small), bytes } if small == node => {
                        host.squeezed = Some(host.squeezed.map_or(bytes, |other| other.min(bytes)));
                    }
                    Fault::Disk { node: NodeId(slow), delay } if slow == node => host.disk_delay += delay,
                    Fault::BadDisk { node: NodeId(bad) } if bad == node => host.disk_fails = true,
                    _ => {}
                }
            }
        }
    }

    pub(super) fn on_calm(&mut self) {
        self.recorder.tell(None, '~', || "faults and senders stop".into());
        self.recorder.record(Process::WORLD, Occurrence::Calm);
        self.senders.iter_mut().for_each(WorkloadSender::calm);
    }

    pub(super) fn on_sample(&mut self) {
        self.sample();
        if self.recorder.now >= self.plan.calm {
            self.settled = self.recorder.is_settled();
        }
        self.schedule(self.recorder.now + SAMPLE, WorldEvent::Sample);
    }

    pub(super) fn sample(&mut self) {
        let Self { machines, recorder, hosts, incarnations, .. } = self;
        for (machine, node) in machines.iter().zip(0..).filter(|(_, node)| hosts[usize::from(*node)].up) {
            machine.observe(&mut |name, value| {
                if recorder.watches(name) {
                    let what = Occurrence::Gauge { name: Cow::Owned(name.to_owned()), value };
                    recorder.record(Process::of(incarnations.present(node), 0), what);
                }
            });
        }
    }
}

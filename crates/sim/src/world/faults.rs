//! Faults that begin and end, the calm after them, and the regular look at all gauges.
use super::{Happens, SAMPLE, World};
use crate::fault::{Activation, Fault};
use crate::machine::Machine;
use crate::message::Process;
use crate::trace::What;
use crate::workload::Sender;
use consort_types::{Duration, Instant, NodeId};
use std::borrow::Cow;

impl<M: Machine> World<'_, M> {
    pub(super) fn on_begin(&mut self, fault: u32) {
        let Activation { until, fault: what, .. } = self.plan.faults[fault as usize];
        self.recorder.totals.faults += 1;
        self.recorder.tell(None, '!', || what.to_string());
        self.active.push(what);
        self.apply_faults();
        self.strike(what, until);
        self.schedule(until, Happens::End { fault });
    }

    /// What a fault does once, when it begins.
    fn strike(&mut self, fault: Fault, until: Instant) {
        match fault {
            Fault::Crash { node, disk, after, .. } => self.on_crash(node.0, disk, after),
            Fault::Leave { node, .. } => self.on_leave(node.0),
            Fault::Pause { node } => {
                let place = &mut self.hosts[usize::from(node.0)];
                place.free = place.free.max(until);
            }
            Fault::Clock { node, by_us } => self.lives.jump(node.0, by_us),
            _ => {}
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
            _ => {}
        }
    }

    fn apply_faults(&mut self) {
        self.network.suffer(&self.active);
        for (host, node) in self.hosts.iter_mut().zip(0..) {
            host.slowness = 1;
            host.squeezed = None;
            host.disk_delay = Duration::ZERO;
            for fault in &self.active {
                match *fault {
                    Fault::Slow { node: NodeId(slow), factor } if slow == node => {
                        host.slowness = host.slowness.max(factor)
                    }
                    Fault::Buffers { node: NodeId(small), bytes } if small == node => {
                        host.squeezed = Some(host.squeezed.map_or(bytes, |other| other.min(bytes)));
                    }
                    Fault::Disk { node: NodeId(slow), delay } if slow == node => host.disk_delay += delay,
                    _ => {}
                }
            }
        }
    }

    pub(super) fn on_calm(&mut self) {
        self.recorder.tell(None, '~', || "faults and senders stop".into());
        self.recorder.record(Process::WORLD, What::Calm);
        self.senders.iter_mut().for_each(Sender::calm);
    }

    pub(super) fn on_sample(&mut self) {
        self.sample();
        if self.recorder.now >= self.plan.calm {
            self.settled = self.recorder.is_settled();
        }
        self.schedule(self.recorder.now + SAMPLE, Happens::Sample);
    }

    pub(super) fn sample(&mut self) {
        let Self { machines, recorder, hosts, lives, .. } = self;
        for (machine, node) in machines.iter().zip(0..).filter(|(_, node)| hosts[usize::from(*node)].up) {
            machine.observe(&mut |name, value| {
                if recorder.watches(name) {
                    let what = What::Gauge { name: Cow::Owned(name.to_owned()), value };
                    recorder.record(Process::of(lives.present(node), 0), what);
                }
            });
        }
    }
}

//! Hosts that start, crash, leave and start again.
use super::{SimWorld, WorldEvent};
use crate::fault::Disk;
use crate::machine::Machine;
use crate::message::Process;
use crate::plan::Tears;
use crate::trace::Occurrence;
use bytes::Bytes;
use consort_types::{Instant, MemberId, NodeId};

impl<M: Machine> SimWorld<'_, M> {
    /// A host starts for the first time.
    pub(super) fn on_start(&mut self, host: u16) {
        if !self.incarnations.has_begun(host) {
            let member = self.plan.members()[usize::from(host)];
            self.start(host, member);
        }
    }

    fn start(&mut self, host: u16, member: MemberId) {
        let at = usize::from(host);
        let now = self.recorder.now;
        let incarnation = self.incarnations.begin(member);
        let place = &mut self.hosts[at];
        place.up = true;
        place.free = now;
        let late = self.machines[at].is_joined_late();
        for client in 0..self.machines[at].processes() {
            self.recorder.start(Process::of(incarnation, client), late);
        }
        let records = self.incarnations.begin_records(host);
        self.machines[at].start(self.clocks.read(host, now), &records);
        self.drain(host);
        self.schedule_wake(host);
    }

    /// A host crashes, at once or in the middle of what it does next.
    pub(super) fn on_crash(&mut self, host: u16, disk: Disk, after: u8) {
        let place = &mut self.hosts[usize::from(host)];
        if after > 0 && place.up {
            place.dies_after = Some((after, disk));
        } else {
            self.crash(host, disk);
        }
    }

    /// Whether a host has just died, because what it was still to do is done.
    pub(super) fn dies(&mut self, host: u16) -> bool {
        let Some((after, disk)) = &mut self.hosts[usize::from(host)].dies_after else { return false };
        *after -= 1;
        let (dies, disk) = (*after == 0, *disk);
        if dies {
            self.crash(host, disk);
        }
        dies
    }

    fn crash(&mut self, host: u16, disk: Disk) {
        self.stop(host, &Occurrence::Crash);
        match disk {
            Disk::Kept => {}
            Disk::Lost => self.incarnations.lose_disk(host),
            Disk::Old => self.incarnations.restore_disk(host),
        }
    }

    /// A host is asked to leave; one that is paused or busy hears of it later, if it is not to be back by then.
    pub(super) fn on_leave(&mut self, host: u16, back: Option<Instant>) {
        let at = usize::from(host);
        let place = &mut self.hosts[at];
        if !place.up || place.leaves {
            return;
        }
        if place.free > self.recorder.now {
            let at = place.free;
            // Who left later than that would stay away for good.
            if back.is_none_or(|back| at < back) {
                self.schedule(at, WorldEvent::Leave { host, back });
            }
            return;
        }
        place.leaves = true;
        self.part(host, &Occurrence::Leave);
        self.machines[at].leave(self.clocks.read(host, self.recorder.now));
        self.drain(host);
        self.schedule_wake(host);
    }

    /// The processes of a host end, and what waited there is lost.
    pub(super) fn stop(&mut self, host: u16, how: &Occurrence) {
        let at = usize::from(host);
        if !self.hosts[at].up {
            return;
        }
        while let Some(act) = self.machines[at].poll_last() {
            self.act(host, act);
        }
        self.part(host, how);
        self.hosts[at].stop();
        let (whole, chance) = (self.plan.tears == Tears::Writes, &mut self.tears);
        self.incarnations.stop(host, |left| if whole { 0 } else { chance.below(left as u64 + 1) as usize });
        self.break_streams(host);
        self.views[at] = None;
        let senders = self.senders.iter_mut().filter(|sender| sender.plan.process.node.0 == host);
        senders.for_each(|sender| sender.begin_anew());
    }

    /// A machine asks to be started anew: at once, and it forgets nothing.
    pub(super) fn on_restart(&mut self, host: u16, cause: &str, records: Vec<Bytes>) {
        let incarnation = self.incarnations.present(host);
        self.recorder.tell(Some(incarnation.node), '!', || format!("it starts anew: {cause}"));
        self.stop(host, &Occurrence::Crash);
        self.incarnations.carry(host, records);
        self.schedule(self.recorder.now, WorldEvent::Again { host });
    }

    fn part(&mut self, host: u16, how: &Occurrence) {
        let incarnation = self.incarnations.present(host);
        for client in 0..self.machines[usize::from(host)].processes() {
            self.recorder.part(Process::of(incarnation, client), how.clone());
        }
    }

    /// A host has been down long enough, or has had long enough to go down.
    pub(super) fn on_down_end(&mut self, host: u16, stays: bool) {
        let at = usize::from(host);
        match self.hosts[at].dies_after {
            Some((_, disk)) => self.crash(host, disk),
            None if self.hosts[at].leaves => self.crash(host, Disk::Kept),
            None => {}
        }
        if self.hosts[at].up || stays {
            return;
        }
        let member = self.incarnations.next(self.recorder.now, NodeId(host));
        let Some(machine) = self.maker.as_ref().and_then(|maker| maker(member)) else { return };
        self.machines[at] = machine;
        self.start(host, member);
    }
}

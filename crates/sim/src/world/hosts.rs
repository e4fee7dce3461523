//! What hosts do when their time has come.
use super::{SimWorld, WorldEvent};
use crate::host::HostTask;
use crate::machine::{Machine, MachineOutput, ReceivedMessage, SubmitAnswer};
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::network::SimSocket;
use crate::plan::Tears;
use crate::trace::{DeliverySender, Occurrence, SaidMessage, Submitted};
use bytes::Bytes;
use consort_types::{Class, Duration, NodeId, Position, Service, Ticket};

/// How often in a row a machine may ask for a wake-up in the past and deliver nothing. A node alone with a long queue hands its
/// token to itself over and over, and delivers each time.
const SPINS: u32 = 1_000;
/// When the calm has lasted this long, all is on the disks that they were given before it.
const AFTER_CALM: Duration = Duration::from_millis(500);

impl<M: Machine> SimWorld<'_, M> {
    pub(super) fn on_arrive(&mut self, host: u16, socket: SimSocket, bytes: Bytes) {
        let (now, len) = (self.recorder.now, bytes.len());
        let place = &mut self.hosts[usize::from(host)];
        if !place.up {
            return;
        }
        match place.reach(now, len) {
            Some(at) if at > now => self.schedule(at, WorldEvent::Taken { host, socket, bytes }),
            Some(_) => self.on_taken(host, socket, bytes),
            None => {
                let what = || format!("{len} bytes find the interface full");
                self.recorder.tell(Some(NodeId(host)), 'x', what);
            }
        }
    }

    /// A datagram has come from the interface to its socket.
    pub(super) fn on_taken(&mut self, host: u16, socket: SimSocket, bytes: Bytes) {
        let (now, len) = (self.recorder.now, bytes.len());
        let place = &mut self.hosts[usize::from(host)];
        if !place.up {
            return;
        }
        place.rouse(now);
        if place.arrive(now, socket, bytes) {
            self.schedule_wake(host);
        } else {
            let what = || format!("{len} bytes find the {} socket full", format!("{socket:?}").to_lowercase());
            self.recorder.tell(Some(NodeId(host)), 'x', what);
        }
    }

    pub(super) fn on_tick(&mut self, sender: u16) {
        let now = self.recorder.now;
        if now >= self.plan.calm {
            return;
        }
        let state = &mut self.senders[usize::from(sender)];
        let next = state.next(now);
        let host = state.plan.process.node.0;
        if self.hosts[usize::from(host)].up {
            let more = state.tick();
            let waits = state.waits;
            self.request(host, sender, if waits { 0 } else { more });
        }
        self.schedule(next, WorldEvent::Tick { sender });
    }

    /// A record is on the disk. An incarnation that ended before that never wrote it.
    pub(super) fn on_persisted(&mut self, incarnation: ProcessIncarnation, ticket: Ticket, sync: bool) {
        if self.is_live(incarnation) {
            let host = incarnation.node.0;
            self.incarnations.wrote(host, ticket, sync || self.plan.tears != Tears::Unsynced);
            self.hosts[usize::from(host)].rouse(self.recorder.now);
            self.hosts[usize::from(host)].wrote(ticket);
            self.schedule_wake(host);
        }
    }

    pub(super) fn on_trimmed(&mut self, incarnation: ProcessIncarnation, up_to: Ticket) {
        if self.is_live(incarnation) {
            self.incarnations.trim(incarnation.node.0, up_to);
        }
    }

    fn is_live(&self, incarnation: ProcessIncarnation) -> bool {
        self.hosts[usize::from(incarnation.node.0)].up && self.incarnations.present(incarnation.node.0) == incarnation
    }

    /// The processor is free, or a timer is due: one thing is done.
    pub(super) fn on_wake(&mut self, host: u16) {
        let now = self.recorder.now;
        let place = &mut self.hosts[usize::from(host)];
        if !place.up {
            return;
        }
        if place.wake == Some(now) {
            place.wake = None;
        }
        if place.free > now {
            return self.schedule_wake(host);
        }
        place.free = now;
        let machine = &mut self.machines[usize::from(host)];
        machine.note_time(now);
        let due = machine.poll_timeout().map(|shown| self.clocks.when(host, shown));
        if place.is_due(now, due) {
            self.serve_timer(host);
        } else if let Some(task) = place.next(machine.reads_first()) {
            self.serve(host, task);
        }
        self.drain(host);
        let local = self.clocks.read(host, now);
        if self.machines[usize::from(host)].poll_timeout().is_none_or(|due| due > local) {
            self.hosts[usize::from(host)].spins = 0;
        }
        self.schedule_wake(host);
    }

    /// Sees to it that the host wakes when there is something to do and its processor is free.
    pub(super) fn schedule_wake(&mut self, host: u16) {
        let now = self.recorder.now;
        let place = &mut self.hosts[usize::from(host)];
        let timeout = || Some(self.clocks.when(host, self.machines[usize::from(host)].poll_timeout()?));
        let due = if place.has_work() { Some(now) } else { timeout() };
        let Some(due) = due.map(|due| due.max(place.free).max(now)) else { return };
        if place.up && place.wake.is_none_or(|wake| due < wake) {
            place.wake = Some(due);
            self.schedule(due, WorldEvent::Wake { host });
        }
    }

    fn serve_timer(&mut self, host: u16) {
        let place = &mut self.hosts[usize::from(host)];
        place.spend(place.model.timer);
        place.spins += 1;
        if place.spins > SPINS {
            self.recorder.record(Process::of(self.incarnations.present(host), 0), Occurrence::Spins);
        }
        self.machines[usize::from(host)].handle_timeout(self.clocks.read(host, self.recorder.now));
    }

    fn serve(&mut self, host: u16, task: HostTask) {
        let place = &mut self.hosts[usize::from(host)];
        let local = self.clocks.read(host, self.recorder.now);
        match task {
            HostTask::Persisted { ticket } => {
                self.machines[usize::from(host)].handle_persisted(local, ticket);
            }
            HostTask::Datagram { arrived, read, bytes } => {
                place.spend(place.model.receive + place.model.bytes(bytes.len()));
                if std::mem::take(&mut place.ran_over) {
                    self.machines[usize::from(host)].handle_overflow(local);
                    self.drain(host);
                }
                let machine = &mut self.machines[usize::from(host)];
                let lag = self.hosts[usize::from(host)].lag;
                let arrived = if machine.needs_arrival_times() { arrived } else { lag.arrival(read) };
                machine.handle_datagram(local, self.clocks.read(host, arrived), bytes);
            }
            HostTask::Request { sender } => {
                place.spend(place.model.message);
                self.serve_sender(sender);
            }
        }
    }

    fn serve_sender(&mut self, sender: u16) {
        let state = &mut self.senders[usize::from(sender)];
        let Some(draft) = state.draft() else { return };
        let Process { node, client, .. } = state.plan.process;
        let origin = Process::of(self.incarnations.present(node.0), client);
        let mark = Mark { origin, count: state.accepted + 1 };
        let answer = self.hand_over(mark, draft.class, draft.service, draft.len);
        let state = &mut self.senders[usize::from(sender)];
        match answer {
            SubmitAnswer::Accepted(_) => state.accept(),
            SubmitAnswer::Full => {
                state.keep(draft);
                self.recorder.wait(mark.origin);
            }
            SubmitAnswer::Leaving => state.give_up(),
            SubmitAnswer::Refused(why) => {
                state.give_up();
                self.recorder.record(mark.origin, Occurrence::Refused(why.into()));
            }
        }
    }

    pub(super) fn hand_over(&mut self, mark: Mark, class: Class, service: Service, len: usize) -> SubmitAnswer {
        let payload = self.recorder.payload(mark, len);
        let local = self.clocks.read(mark.origin.node.0, self.recorder.now);
        let machine = &mut self.machines[usize::from(mark.origin.node.0)];
        let answer = machine.submit(local, mark.origin.client, class, service, payload);
        if let SubmitAnswer::Accepted(id) = answer {
            let submitted = Submitted { count: mark.count, id, class: Some(class), service, len: len as u64 };
            self.recorder.submit(mark.origin, submitted);
        }
        answer
    }

    /// Does all that a machine asks for. Whatever it costs, the processor is busy with it from now on.
    pub(super) fn drain(&mut self, host: u16) {
        let at = usize::from(host);
        self.hosts[at].free = self.hosts[at].free.max(self.recorder.now);
        self.machines[at].note_time(self.recorder.now);
        while self.hosts[at].up
            && let Some(act) = self.machines[at].poll()
        {
            self.act(host, act);
            if self.dies(host) {
                return;
            }
        }
    }

    pub(super) fn act(&mut self, host: u16, act: MachineOutput) {
        let incarnation = self.incarnations.present(host);
        let process = |client| Process::of(incarnation, client);
        match act {
            MachineOutput::Send { to, lane, bytes } => self.send(host, to, lane, &bytes),
            MachineOutput::Deliver { client, message } => self.deliver(host, client, &message),
            MachineOutput::Offer { client, offer } => self.recorder.offer(process(client), Occurrence::Offer(offer)),
            MachineOutput::Revoke { client, offer } => self.recorder.offer(process(client), Occurrence::Revoke(offer)),
            MachineOutput::Confirm { client, offer, sum } => {
                self.recorder.offer(process(client), Occurrence::Confirm { offer, sum });
            }
            MachineOutput::View { client, view } => {
                let view = self.incarnations.view(&view);
                self.views[usize::from(host)] = Some(view.clone());
                self.recorder.view(process(client), view);
            }
            MachineOutput::Network { client, view } => {
                let view = self.incarnations.view(&view);
                self.recorder.record(process(client), Occurrence::Network(Box::new(view)));
            }
            MachineOutput::Primary { client, view } => self.recorder.primary(process(client), view),
            MachineOutput::Group { client, group } => {
                let group = group.grouped(|member| self.incarnations.of(member));
                self.recorder.group(process(client), group);
            }
            MachineOutput::Signal { client, group } => self.recorder.signal(process(client), group),
            MachineOutput::Spoke { client, count, groups } => {
                self.recorder.spoke(process(client), SaidMessage { from: process(client), count, groups });
            }
            MachineOutput::Side { client, from, count, groups } => {
                let from = Process::of(self.incarnations.of(from.0), from.1);
                self.recorder.side(process(client), SaidMessage { from, count, groups });
            }
            MachineOutput::Reading { client, read } => self.recorder.reading(process(client), read),
            MachineOutput::Numbered { client, step } => self.recorder.numbered(process(client), step),
            MachineOutput::Resumed { client, step } => self.recorder.resumed(process(client), step),
            MachineOutput::Led { client, step } => self.recorder.led(process(client), step),
            MachineOutput::Replica { client, step } => self.recorder.replica(process(client), step),
            MachineOutput::Gone { client } => self.recorder.gone(process(client)),
            MachineOutput::Ordered { client, count } => {
                self.recorder.record(process(client), Occurrence::Ordered(count))
            }
            MachineOutput::Stable { stream, up_to } => {
                let missing = self.missing(host, up_to);
                self.recorder.record(process(0), Occurrence::Stable { stream, up_to, missing });
            }
            MachineOutput::Room { client } => self.room(host, client),
            MachineOutput::Refused { client, why } => {
                self.recorder.record(process(client), Occurrence::Refused(why.into()))
            }
            MachineOutput::Persist { .. } if self.hosts[usize::from(host)].disk_fails => {
                self.recorder.tell(Some(incarnation.node), '!', || "its disk takes no record: it ends".into());
                self.stop(host, &Occurrence::Crash);
            }
            MachineOutput::Persist { ticket, record, sync } => {
                self.incarnations.write(host, ticket, record);
                let place = &mut self.hosts[usize::from(host)];
                // A slow disk is slow while its fault lasts, not for what it was given then.
                let latest = self.plan.calm.max(self.recorder.now) + AFTER_CALM;
                let done = place.write(self.plan.tears != Tears::Writes).min(latest);
                place.disk_free = done;
                self.schedule(done, WorldEvent::Persisted { incarnation, ticket, sync });
            }
            MachineOutput::Trim { up_to } => {
                let done = self.hosts[usize::from(host)].disk_free.max(self.recorder.now);
                self.schedule(done, WorldEvent::Trimmed { incarnation, up_to });
            }
            MachineOutput::Restart { cause, records } => self.on_restart(host, &cause, records),
            MachineOutput::Left => self.stop(host, &Occurrence::Left),
        }
    }

    fn deliver(&mut self, host: u16, client: u16, message: &ReceivedMessage) {
        let place = &mut self.hosts[usize::from(host)];
        place.spend(place.model.message);
        place.spins = 0;
        let safe_at = message.position.filter(|_| message.service == Service::Safe);
        let missing = safe_at.map_or(Vec::new(), |position| self.missing(host, position));
        let incarnation = self.incarnations.count(message.sender, message.incarnation);
        let sender = DeliverySender { node: message.sender, incarnation, client: message.client };
        let process = Process::of(self.incarnations.present(host), client);
        self.recorder.deliver(process, message, sender, missing);
    }

    /// Which members of the regular view that the host is in, and that are in it too, do not hold the message at a
    /// position of it.
    fn missing(&self, host: u16, position: Position) -> Vec<NodeId> {
        let Some(view) = self.views[usize::from(host)].as_ref().filter(|view| !view.transitional) else {
            return Vec::new();
        };
        let lacks = |incarnation: &&ProcessIncarnation| {
            let there = &self.machines[usize::from(incarnation.node.0)];
            self.is_live(**incarnation) && there.holds(view.id, position) == Some(false)
        };
        view.members.iter().filter(lacks).map(|incarnation| incarnation.node).collect()
    }

    fn room(&mut self, host: u16, client: Option<u16>) {
        for sender in 0..self.senders.len() {
            let state = &mut self.senders[sender];
            let process = state.plan.process;
            if state.waits && process.node.0 == host && client.is_none_or(|client| client == process.client) {
                state.waits = false;
                let owed = state.unsent();
                self.recorder.room(Process::of(self.incarnations.present(host), process.client));
                self.request(host, sender as u16, owed);
            }
        }
    }

    fn request(&mut self, host: u16, sender: u16, times: u32) {
        if times > 0 {
            self.hosts[usize::from(host)].rouse(self.recorder.now);
        }
        (0..times).for_each(|_| self.hosts[usize::from(host)].request(sender));
        self.schedule_wake(host);
    }
}

//! What hosts do when their time has come.
use super::{Happens, World};
use crate::host::Task;
use crate::machine::{Act, Answer, Machine, Received};
use crate::message::{Mark, Process};
use crate::network::Socket;
use crate::trace::{Installed, Submitted, What};
use bytes::Bytes;
use consort_types::{Class, NodeId, Position, Service, Stream, Ticket};

/// How often in a row a machine may ask for a wake-up in the past.
const SPINS: u32 = 1_000;

impl<M: Machine> World<M> {
    pub(super) fn on_start(&mut self, host: u16) {
        let at = usize::from(host);
        self.hosts[at].up = true;
        for client in 0..self.machines[at].processes() {
            self.recorder.start(Process::new(NodeId(host), client));
        }
        self.machines[at].start(self.recorder.now);
        self.drain(host);
        self.schedule_wake(host);
    }

    pub(super) fn on_arrive(&mut self, host: u16, socket: Socket, bytes: Bytes) {
        let place = &mut self.hosts[usize::from(host)];
        if !place.up {
            return;
        }
        let len = bytes.len();
        if place.arrive(self.recorder.now, socket, bytes) {
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
        self.schedule(next, Happens::Tick { sender });
    }

    pub(super) fn on_persisted(&mut self, host: u16, ticket: Ticket) {
        self.machines[usize::from(host)].handle_persisted(self.recorder.now, ticket);
        self.drain(host);
        self.schedule_wake(host);
    }

    /// The processor is free, or a timer is due: one thing is done.
    pub(super) fn on_wake(&mut self, host: u16) {
        let now = self.recorder.now;
        let place = &mut self.hosts[usize::from(host)];
        if place.wake == Some(now) {
            place.wake = None;
        }
        if place.free > now {
            return self.schedule_wake(host);
        }
        place.free = now;
        let machine = &mut self.machines[usize::from(host)];
        if machine.poll_timeout().is_some_and(|due| due <= now) {
            self.serve_timer(host);
        } else if let Some(task) = place.next(machine.reads_first()) {
            self.serve(host, task);
        }
        self.drain(host);
        if self.machines[usize::from(host)].poll_timeout().is_none_or(|due| due > now) {
            self.hosts[usize::from(host)].spins = 0;
        }
        self.schedule_wake(host);
    }

    /// Sees to it that the host wakes when there is something to do and its processor is free.
    pub(super) fn schedule_wake(&mut self, host: u16) {
        let now = self.recorder.now;
        let place = &mut self.hosts[usize::from(host)];
        let due = if place.has_work() { Some(now) } else { self.machines[usize::from(host)].poll_timeout() };
        let Some(due) = due.map(|due| due.max(place.free).max(now)) else { return };
        if place.up && place.wake.is_none_or(|wake| due < wake) {
            place.wake = Some(due);
            self.schedule(due, Happens::Wake { host });
        }
    }

    fn serve_timer(&mut self, host: u16) {
        let place = &mut self.hosts[usize::from(host)];
        place.spend(place.model.timer);
        place.spins += 1;
        if place.spins > SPINS {
            self.recorder.record(Process::new(NodeId(host), 0), What::Spins);
        }
        self.machines[usize::from(host)].handle_timeout(self.recorder.now);
    }

    fn serve(&mut self, host: u16, task: Task) {
        let place = &mut self.hosts[usize::from(host)];
        match task {
            Task::Datagram { arrived, bytes } => {
                place.spend(place.model.receive + place.model.bytes(bytes.len()));
                self.machines[usize::from(host)].handle_datagram(self.recorder.now, arrived, bytes);
            }
            Task::Request { sender } => {
                place.spend(place.model.message);
                self.serve_sender(sender);
            }
        }
    }

    fn serve_sender(&mut self, sender: u16) {
        let state = &mut self.senders[usize::from(sender)];
        let Some(draft) = state.draft() else { return };
        let mark = Mark { origin: state.plan.process, count: state.accepted + 1 };
        let answer = self.hand_over(mark, draft.class, draft.service, draft.len);
        let state = &mut self.senders[usize::from(sender)];
        match answer {
            Answer::Accepted(_) => state.accept(),
            Answer::Full => {
                state.keep(draft);
                self.recorder.wait(mark.origin);
            }
            Answer::Refused(why) => {
                state.give_up();
                self.recorder.record(mark.origin, What::Refused(why.into()));
            }
        }
    }

    pub(super) fn hand_over(&mut self, mark: Mark, class: Class, service: Service, len: usize) -> Answer {
        let payload = self.recorder.payload(mark, len);
        let machine = &mut self.machines[usize::from(mark.origin.node.0)];
        let answer = machine.submit(self.recorder.now, mark.origin.client, class, service, payload);
        if let Answer::Accepted(id) = answer {
            let submitted = Submitted { count: mark.count, id, class: Some(class), service, len: len as u64 };
            self.recorder.submit(mark.origin, submitted);
        }
        answer
    }

    /// Does all that a machine asks for. Whatever it costs, the processor is busy with it from now on.
    pub(super) fn drain(&mut self, host: u16) {
        let at = usize::from(host);
        self.hosts[at].free = self.hosts[at].free.max(self.recorder.now);
        while let Some(act) = self.machines[at].poll() {
            match act {
                Act::Send { to, lane, bytes } => self.send(host, to, lane, &bytes),
                Act::Deliver { client, message } => self.deliver(host, client, &message),
                Act::View { client, view } => self.install(host, client, view),
                Act::Stable { stream, up_to } => self.stable(host, stream, up_to),
                Act::Room { client } => self.room(host, client),
                Act::Refused { client, why } => {
                    self.recorder.record(Process::new(NodeId(host), client), What::Refused(why.into()));
                }
                Act::Persist { ticket } => {
                    let done = self.hosts[at].free + self.hosts[at].model.disk;
                    self.schedule(done, Happens::Persisted { host, ticket });
                }
            }
        }
    }

    fn deliver(&mut self, host: u16, client: u16, message: &Received) {
        let place = &mut self.hosts[usize::from(host)];
        place.spend(place.model.message);
        let safe_at = message.position.filter(|_| message.service == Service::Safe);
        let missing = safe_at.map_or(Vec::new(), |position| self.missing(host, position));
        self.recorder.deliver(Process::new(NodeId(host), client), message, missing);
    }

    fn stable(&mut self, host: u16, stream: Stream, up_to: Position) {
        let missing = self.missing(host, up_to);
        self.recorder.record(Process::new(NodeId(host), 0), What::Stable { stream, up_to, missing });
    }

    /// Which members of the host's view do not hold the message at a position.
    fn missing(&self, host: u16, position: Position) -> Vec<NodeId> {
        let holds = |node: &NodeId| {
            let at = usize::from(node.0);
            self.hosts[at].up && self.machines[at].holds(position).unwrap_or(true)
        };
        self.members[usize::from(host)].iter().filter(|node| !holds(node)).copied().collect()
    }

    fn install(&mut self, host: u16, client: u16, view: Installed) {
        let mut nodes: Vec<_> = view.members.iter().map(|member| member.node).collect();
        nodes.dedup();
        self.members[usize::from(host)] = nodes;
        self.recorder.view(Process::new(NodeId(host), client), view);
    }

    fn room(&mut self, host: u16, client: Option<u16>) {
        for sender in 0..self.senders.len() {
            let state = &mut self.senders[sender];
            let process = state.plan.process;
            if state.waits && process.node.0 == host && client.is_none_or(|client| client == process.client) {
                state.waits = false;
                let owed = state.owed();
                self.recorder.room(process);
                self.request(host, sender as u16, owed);
            }
        }
    }

    fn request(&mut self, host: u16, sender: u16, times: u32) {
        (0..times).for_each(|_| self.hosts[usize::from(host)].request(sender));
        self.schedule_wake(host);
    }
}

//! The connections of servers, as one node has them.
use super::super::{ClientSeat, MachineOutput, Whole, client_at};
use super::lasting::Ask;
use super::{Fleet, ServerDeed, Servers};
use crate::plan::RunPlan;
use crate::trace::ReplicaRecord;
use consort_order::Engine;
use consort_session::client::NotSent;
use consort_session::{DaemonEvent, Hello, RefusalCause};
use consort_types::{Duration, Instant, NodeId, OrderWait, Rng};
use std::collections::BTreeSet;

/// Between two turns, while faults come and later.
const EVERY: Duration = Duration::from_millis(10);

/// What a node has of servers.
#[derive(Debug)]
pub(in super::super) struct ServerLinks {
    servers: Servers,
    rng: Rng,
    next: Instant,
    /// Which of its clients are servers, or were.
    seats: BTreeSet<usize>,
    has_crashed: bool,
}

impl ServerLinks {
    pub fn new(plan: &RunPlan, node: NodeId, servers: Servers) -> Self {
        let rng = Rng::new(plan.seed).fork(0x5e73 ^ u64::from(node.0) << 16);
        Self { servers, rng, next: Instant(20_000_000), seats: BTreeSet::new(), has_crashed: false }
    }

    pub fn has(&self, seat: usize) -> bool {
        self.seats.contains(&seat)
    }

    /// When it has its next turn.
    pub const fn next(&self) -> Instant {
        self.next
    }

    /// The true time.
    pub fn note_time(&self, now: Instant) {
        self.servers.with(|fleet| fleet.time = now);
    }
}

impl<E: Engine> Whole<E> {
    pub(in super::super) fn pass_servers(&mut self, now: Instant) {
        let Some(links) = self.servers.as_mut().filter(|links| now >= links.next) else { return };
        links.next = now + Duration::from_nanos(links.rng.exponential(EVERY.as_nanos() as f64) as u64 + 1);
        let servers = links.servers.clone();
        self.close_left_servers(&servers);
        for at in 0..servers.with(|fleet| fleet.len()) {
            let mut told = Vec::new();
            let deed = servers.with(|fleet| fleet.turn(at, self.me, &mut told));
            self.tell_replica(told);
            match deed {
                ServerDeed::Nothing => {}
                ServerDeed::Connect => self.connect_server(&servers, at),
                ServerDeed::Go => self.go_on_with_server(&servers, at),
            }
        }
    }

    /// Whether this client is a server that reads nothing now.
    pub(in super::super) fn is_stalled_server(&self, seat: usize) -> bool {
        let Some(links) = self.servers.as_ref().filter(|links| links.has(seat)) else { return false };
        links.servers.with(|fleet| fleet.at_link(self.me, seat).is_some_and(|at| fleet.is_stalled(at)))
    }

    fn go_on_with_server(&mut self, servers: &Servers, at: usize) {
        let Some((me, seat)) = servers.with(|fleet| fleet.link(at)) else { return };
        if me == self.me {
            if !servers.with(|fleet| fleet.is_stalled(at)) {
                self.read(client_at(seat));
            }
            self.serve_server(servers, at, seat);
        }
    }

    /// Connections that their servers have left end sooner or later.
    fn close_left_servers(&mut self, servers: &Servers) {
        let Some(links) = &mut self.servers else { return };
        let left = |seat: &usize| servers.with(|fleet| fleet.at_link(self.me, *seat)).is_none();
        let left: Vec<_> = links.seats.iter().copied().filter(|seat| !self.seats[*seat].gone).filter(left).collect();
        for seat in left {
            if self.servers.as_mut().is_some_and(|links| links.rng.chance(0.3)) {
                self.seats[seat].gone = true;
                self.acts.push_back(MachineOutput::Gone { client: seat as u16 });
                self.node.close_client(self.now, client_at(seat));
            }
        }
    }

    fn connect_server(&mut self, servers: &Servers, at: usize) {
        let seat = self.seats.len();
        self.seats.push(ClientSeat::with(&self.group, &Hello { wants_views: true, ..Hello::default() }));
        self.node.open_client(self.now, client_at(seat));
        self.servers.iter_mut().for_each(|links| {
            links.seats.insert(seat);
        });
        servers.with(|fleet| fleet.set_link(at, self.me, seat));
    }

    /// A server's daemon says something to it.
    pub(in super::super) fn on_server_event(&mut self, seat: usize, event: DaemonEvent) {
        let Some(servers) = self.servers.as_ref().map(|links| links.servers.clone()) else { return };
        let Some(at) = servers.with(|fleet| fleet.at_link(self.me, seat)) else { return };
        let node = self.me.node.0;
        match event {
            DaemonEvent::Welcome(welcome) => {
                servers.with(|fleet| fleet.process(at, node, |process, here| process.on_connected(here.now, &welcome)));
            }
            DaemonEvent::Disconnect(_) => return self.lose_server(&servers, at),
            DaemonEvent::Refused { refusal, .. }
                if refusal.cause == RefusalCause::Leaving || !servers.with(|fleet| fleet.lasts()) =>
            {
                return self.lose_server(&servers, at);
            }
            DaemonEvent::Waiting(notice) if notice.cause == OrderWait::Retention => {
                let gives_way =
                    |fleet: &mut Fleet| fleet.process(at, node, |process, here| process.gives_way(here.now));
                if servers.with(gives_way) == Some(true) {
                    return self.lose_server(&servers, at);
                }
            }
            event => {
                let ended =
                    servers.with(|fleet| fleet.process(at, node, |process, here| process.on_event(event, here)));
                if let Some(Err(end)) = ended {
                    let mut told = Vec::new();
                    servers.with(|fleet| fleet.end(at, &end, &mut told));
                    return self.tell_replica(told);
                }
            }
        }
        self.serve_server(&servers, at, seat);
    }

    /// The node has closed a server's connection.
    pub(in super::super) fn on_server_closed(&mut self, seat: usize) {
        self.seats[seat].gone = true;
        let Some(servers) = self.servers.as_ref().map(|links| links.servers.clone()) else { return };
        if let Some(at) = servers.with(|fleet| fleet.at_link(self.me, seat)) {
            self.lose_server(&servers, at);
        }
    }

    fn lose_server(&mut self, servers: &Servers, at: usize) {
        servers.with(|fleet| fleet.part(at));
        self.tell_replica(servers.with(|fleet| fleet.told(at)));
    }

    /// Takes what a server asks for, as far as there is credit, and what it says of itself.
    fn serve_server(&mut self, servers: &Servers, at: usize, seat: usize) {
        let client = &mut self.seats[seat].client;
        servers.with(|fleet| {
            fleet.process(at, self.me.node.0, |process, _| {
                while let Some(ask) = process.next_ask() {
                    let group = std::slice::from_ref(process.group());
                    match ask {
                        Ask::Copies(holder) => client.ask_copies(&holder),
                        Ask::Bind(binding) => client.bind(&binding),
                        Ask::Declare(request) => client.declare(&request),
                        Ask::Read { order, from } => client.read(order, from, group),
                        // A request: what does not fit is asked for later.
                        Ask::Join => match client.join(process.group()) {
                            Ok(_) => {}
                            Err(_) => return process.ask_again(Ask::Join),
                        },
                    }
                }
                while let Some((service, to, payload)) = process.next_send() {
                    match client.multicast(service, &[to], &payload) {
                        Ok(_) => process.sent(),
                        Err(NotSent::Credit { .. }) => return,
                        Err(error) => unreachable!("a command that the limits allow: {error}"),
                    }
                }
            })
        });
        self.tell_replica(servers.with(|fleet| fleet.told(at)));
    }

    /// The node has crashed: perhaps its machine has.
    pub(in super::super) fn crash_servers(&mut self) {
        let Some(links) = self.servers.as_mut().filter(|links| !links.has_crashed) else { return };
        links.has_crashed = true;
        let servers = links.servers.clone();
        let mut told = Vec::new();
        servers.with(|fleet| {
            let everything = servers.blackout == Some(fleet.time);
            fleet.crash(self.me.node, everything, &mut told);
        });
        self.tell_replica(told);
    }

    fn tell_replica(&mut self, told: Vec<ReplicaRecord>) {
        let wrong = self.servers.as_ref().map(|links| links.servers.with(|fleet| std::mem::take(&mut fleet.wrong)));
        wrong.into_iter().flatten().for_each(|why| self.refuse(0, why));
        for step in told {
            let link = self
                .servers
                .as_ref()
                .and_then(|links| links.servers.with(|fleet| fleet.link(usize::from(step.server))));
            let client = link.filter(|(me, _)| *me == self.me).map_or(0, |(_, seat)| seat as u16);
            self.acts.push_back(MachineOutput::Replica { client, step: Box::new(step) });
        }
    }
}

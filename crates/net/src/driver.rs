//! The loop.
mod admission;
mod disk;
mod frames;
mod log;
mod networks;
mod paths;
mod scheduling;
mod sealing;
mod spooling;

use self::disk::DiskWatch;
use self::log::PeriodicLog;
use self::networks::NetworkWatch;
use self::sealing::KeyKeeping;
use crate::advisor::Advisor;
use crate::bind::{NetworkSockets, Sockets};
use crate::clients::{ClientConnections, ReadOutcome, Wrote};
use crate::clock::Clock;
use crate::counters::DriverCounters;
use crate::driver_packets::DriverPackets;
use crate::error::RunError;
use crate::idle::{Idle, Iteration, Wait};
use crate::inbox::{Inbox, ReceivedDatagram, Receivers};
use crate::links::Links;
use crate::membership::Membership;
use crate::options::Options;
use crate::outbox::{ExitSockets, Outbox};
use crate::path_mtu::PathMtus;
use crate::reload::Reload;
use crate::seals::Seals;
use crate::settings::SharedSettings;
use crate::sources::KernelDrops;
use crate::spool::Spool;
use crate::stop::Stop;
use crate::users::Users;
use crate::wake::Wake;
use consort_journal::JournalWriter;
use consort_node::{Disconnect, DisconnectReason, Effect, Engine, Lag, Lane, Node, OUTPUT_PIECES, Reading};
use consort_types::{ClientId, Instant, NodeId};
use mio::{Token, Waker};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// At most that many packets before timers and clients have their turn.
const PACKETS: u32 = 256;
/// The clock is read, and timers are looked at, once for so many packets.
const CLOCK_EVERY: u32 = 16;
/// A turn with no more packets, and no more bytes, is one of little traffic.
const LIGHT: u32 = 4;
const LIGHT_BYTES: usize = 16 << 10;
/// To no more clients something is told before a packet that may be the token.
const FEW: usize = 4;
/// At most that many reads from clients, and as many writes, in one turn.
const CLIENTS: usize = 32;
/// How long client work may last before packets have their turn again.
const CLIENT_SLICE: Duration = Duration::from_micros(200);
/// How long clients may take at the end to read what stands in their outputs.
const FAREWELL: Duration = Duration::from_millis(200);

/// The events' names; those below are the UDP sockets' places in the inbox, three of each network, those above are clients.
const TIMER: Token = Token(1_024);
const STOP: Token = Token(1_025);
const HELPERS: Token = Token(1_026);
const LINKS: Token = Token(1_027);
const RELOAD: Token = Token(1_028);
const ADVISOR: Token = Token(1_029);
const FIRST_LISTENER: usize = 1_040;
const FIRST_LINK: usize = 1 << 15;
const FIRST_CLIENT: usize = 1 << 16;

/// Drives `node` with these sockets until `stop` is set.
///
/// At the end clients get what stands in their outputs, for at most 200 ms; then everything is closed and socket files
/// are removed.
///
/// # Errors
/// [`RunError`] where going on would break a promise or is impossible. Trouble with single packets or clients is
/// counted and logged, never returned.
pub fn run<E: Engine>(sockets: Sockets, node: Node<E>, stop: Stop) -> Result<(), RunError> {
    let scheduling = scheduling::take(sockets.options.scheduling, sockets.options.idling)?;
    let (mut driver, records) = Driver::new(sockets, node, stop)?;
    driver.scheduling = scheduling;
    driver.node.note_driver(driver.own_facts());
    driver.node.start(driver.now, &records);
    driver.take_advice()?;
    while driver.turn()? {}
    // One that was asked to leave is not started again: the next incarnation knows nothing of that.
    let restart = driver.restart.take().filter(|_| !driver.leaving);
    driver.take_leave(&farewell(restart.as_ref()))?;
    restart.map_or(Ok(()), Err)
}

/// The sockets of all networks.
struct Shared {
    receivers: Receivers,
    exits: Vec<ExitSockets>,
    memberships: Vec<Membership>,
    /// A datagram to each group came back at the start.
    groups_work: bool,
}

/// The same sockets to receive from, to send by, and to keep in their groups. Where ways are not probed, a group that did
/// not work at the start is not used.
fn share(bound: Vec<NetworkSockets>, options: &Options, arrival_times: bool) -> Shared {
    let receivers = Receivers { tokens: Vec::new(), data: Vec::new(), groups: Vec::new(), arrival_times };
    let groups_work = bound.iter().all(|network| network.reach.multicast);
    let mut shared = Shared { receivers, exits: Vec::new(), memberships: Vec::new(), groups_work };
    for (NetworkSockets { token, data, group, reach, .. }, named) in bound.into_iter().zip(&options.networks) {
        let (token, data, group) = (Rc::new(token), Rc::new(data), group.map(Rc::new));
        shared.receivers.tokens.push(Rc::clone(&token));
        shared.receivers.data.push(Rc::clone(&data));
        if let Some(group) = &group {
            let (socket, data) = (Rc::clone(group), Rc::clone(&data));
            shared.memberships.push(Membership::new(named.multicast, named.interface, socket, data));
        }
        let has_group = group.is_some() && (options.probe_paths || reach.multicast);
        shared.receivers.groups.extend(group);
        shared.exits.push(ExitSockets { token, data, has_group });
    }
    shared
}

/// What clients are told at the end.
fn farewell(restart: Option<&RunError>) -> Disconnect {
    match restart {
        Some(RunError::Restart { cause, .. }) => {
            Disconnect::new(DisconnectReason::Restarting, format!("the daemon starts anew: {cause}; connect again"))
        }
        _ => Disconnect::new(DisconnectReason::Stopping, "the daemon stops"),
    }
}

struct Driver<E: Engine> {
    clock: Clock,
    /// The time that the node knows; read anew before each slice of work.
    now: Instant,
    node: Node<E>,
    inbox: Inbox,
    outbox: Outbox,
    /// Where the engine sends on them.
    links: Option<Links>,
    seals: Rc<Seals>,
    keys: KeyKeeping,
    /// How many others have proven their key, as `status` tells.
    proven: usize,
    /// Unless it is not to probe.
    path_mtus: Option<PathMtus>,
    shared: SharedSettings,
    /// The nodes that are met in some network, this one among them.
    met: Vec<NodeId>,
    memberships: Vec<Membership>,
    network_watch: NetworkWatch,
    /// How data leaves into each network, as `status` tells where there are several.
    networks: Vec<(u8, String)>,
    clients: ClientConnections,
    records: Option<JournalWriter>,
    disk: DiskWatch,
    /// Once a client needs it, and where it keeps its files.
    spool: Option<Spool>,
    spool_directory: Option<PathBuf>,
    /// What helper threads wake the loop with: there can be only one.
    waker: Arc<Waker>,
    wake: Wake,
    idle: Idle,
    lag: Lag,
    stop: Stop,
    /// What may change.
    reload: Option<Reload>,
    /// What a registry says.
    advisor: Option<Advisor>,
    /// Told to stop: the node says good-bye, and the loop ends when it has.
    leaving: bool,
    left: bool,
    /// The node is to be started anew.
    restart: Option<RunError>,
    /// The last turn took few packets.
    light: bool,
    log: PeriodicLog,
    drops: KernelDrops,
    /// What `status` tells of its scheduling class.
    scheduling: &'static str,
    counters: DriverCounters,
}

impl<E: Engine> Driver<E> {
    fn new(sockets: Sockets, node: Node<E>, stop: Stop) -> Result<(Self, Vec<bytes::Bytes>), RunError> {
        let capability = node.engine().capability();
        if capability.durable && sockets.journal.is_none() {
            return Err(RunError::NoRecords);
        }
        if capability.reliable_links && sockets.links.is_none() {
            return Err(RunError::NoLinks);
        }
        Self::assemble(sockets, node, stop, capability.needs_arrival_times).map_err(RunError::Wait)
    }

    fn assemble(
        sockets: Sockets,
        mut node: Node<E>,
        stop: Stop,
        arrival_times: bool,
    ) -> io::Result<(Self, Vec<bytes::Bytes>)> {
        let networks = sockets.network_facts();
        let Sockets { options, networks: bound, listeners, links, mut journal, carried } = sockets;
        let filters_sources = bound.iter().any(|network| network.filters_sources);
        let Shared { receivers, exits, memberships, groups_work } = share(bound, &options, arrival_times);
        let identity = *node.identity();
        let peers = options.met();
        let met: Vec<_> = peers.iter().map(|peer| peer.node).collect();
        let seals = Rc::new(Seals::new(identity, options.security, &peers)?);
        node.set_proof(seals.proof());
        node.hold_keys(seals.key_names());
        let outbox = Outbox::new(&options.networks, exits, identity, Rc::clone(&seals));
        let clock = Clock::new();
        let probing = |nodes: &[NodeId]| {
            PathMtus::new(options.me, nodes.iter().copied(), options.datagram, groups_work, clock.now())
        };
        let shared = SharedSettings::new(options.shared);
        let paths = options.probe_paths.then(|| probing(&met));
        let driver_packets = DriverPackets::new(identity, Rc::clone(&seals), met.clone());
        let inbox = Inbox::new(clock, receivers, driver_packets)?;
        let wake = Wake::new(TIMER)?;
        for (place, descriptor) in inbox.descriptors().into_iter().enumerate() {
            wake.watch(descriptor, Token(place))?;
        }
        wake.watch(stop.descriptor(), STOP)?;
        options.reload.iter().try_for_each(|reload| wake.watch(reload.descriptor(), RELOAD))?;
        options.advisor.iter().try_for_each(|advisor| wake.watch(advisor.descriptor(), ADVISOR))?;
        let found = journal.as_mut().map(|journal| journal.take_records()).filter(|found| !found.is_empty());
        let found = found.unwrap_or(carried);
        let waker = Arc::new(wake.waker(HELPERS)?);
        let to_wake = Arc::clone(&waker);
        let records = journal.map(|journal| journal.start(move || to_wake.wake())).transpose()?;
        let link = |listener| {
            Links::new(
                identity,
                Rc::clone(&seals),
                wake.registry().try_clone()?,
                listener,
                &peers,
                LINKS,
                FIRST_LINK..FIRST_CLIENT,
            )
        };
        let links = links.map(link).transpose()?;
        let users = Users::new(options.users);
        let mut clients =
            ClientConnections::new(wake.registry().try_clone()?, listeners, users, FIRST_LISTENER..FIRST_CLIENT)?;
        clients.allow_sharing(options.shared_memory);
        clients.allow(node.places());
        clients.give_hosts(options.client_host_timeout);
        let driver = Self {
            now: clock.now(),
            clock,
            node,
            inbox,
            outbox,
            links,
            seals,
            keys: KeyKeeping::new(options.key_epoch),
            proven: 0,
            path_mtus: paths,
            shared,
            met,
            memberships,
            network_watch: NetworkWatch::default(),
            networks,
            clients,
            records,
            disk: DiskWatch::default(),
            spool: None,
            spool_directory: options.spool,
            waker,
            wake,
            idle: Idle::new(options.idling),
            lag: Lag::default(),
            stop,
            reload: options.reload,
            advisor: options.advisor,
            leaving: false,
            left: false,
            restart: None,
            light: false,
            log: PeriodicLog::default(),
            drops: KernelDrops::new(filters_sources),
            scheduling: "normal",
            counters: DriverCounters::default(),
        };
        Ok((driver, found))
    }

    /// Packets, timers, clients; then rests. Returns whether to go on.
    fn turn(&mut self) -> Result<bool, RunError> {
        let mut worked = self.take_packets()?;
        if worked {
            self.note_overflow()?;
        }
        worked |= self.take_frames()?;
        worked |= self.handle_timers()?;
        self.keep_paths();
        self.keep_seals()?;
        if self.serve_clients()? {
            // What a client has sent may be due by now, and need not wait for a look at what else has come.
            worked = true;
            self.handle_timers()?;
        }
        self.flush();
        self.write_log();
        self.rest(worked)?;
        Ok(!self.left)
    }

    /// Feeds the node with packets, each from the lane it wants.
    fn take_packets(&mut self) -> Result<bool, RunError> {
        let mut bytes = 0;
        for taken in 0..PACKETS {
            if taken % CLOCK_EVERY == 0 {
                self.tick();
                self.note_lag();
                if taken > 0 && self.is_due() {
                    self.light = false;
                    return self.take_token();
                }
            }
            let first = self.node.reads_first();
            let Some(arrived) = self.inbox.next(first, &mut self.counters) else {
                self.light = taken <= LIGHT && bytes <= LIGHT_BYTES;
                if !self.has_frames() {
                    self.lag.catch_up();
                }
                return Ok(taken > 0);
            };
            bytes += arrived.bytes.len();
            self.hand_over(arrived)?;
            if self.light && taken < LIGHT && !self.inbox.holds_more() {
                self.notify_early()?;
            }
        }
        self.light = false;
        Ok(true)
    }

    fn hand_over(&mut self, arrived: ReceivedDatagram) -> Result<(), RunError> {
        self.now = self.now.max(arrived.at);
        let at = if self.inbox.knows_arrivals() { arrived.at } else { self.lag.arrival(arrived.at) };
        self.node.handle_datagram(self.now, at, arrived.bytes);
        self.drain()
    }

    /// Before a timer is looked at that has come due amid data: a token that is here comes first.
    fn take_token(&mut self) -> Result<bool, RunError> {
        if let Some(arrived) = self.inbox.next_token(&mut self.counters) {
            self.hand_over(arrived)?;
        }
        Ok(true)
    }

    /// After a pause all sockets are read before any timer is looked at.
    fn note_lag(&mut self) {
        //= M54
        if self.lag.note(self.now, self.node.poll_timeout()) {
            self.counters.pauses += 1;
            self.inbox.mark_all();
            self.links.iter_mut().for_each(Links::mark_all);
        }
    }

    /// While there is little traffic, what a packet brought is told before the kernel is asked for the next one: that is the
    /// token, most often, and who is woken by it may have this processor next. What others wait for leaves first: a client
    /// that is woken may take this processor at once.
    fn notify_early(&mut self) -> Result<(), RunError> {
        self.queue_outputs()?;
        if !(1..=FEW).contains(&self.clients.writable()) {
            return Ok(());
        }
        self.flush();
        self.tell_clients(self.now)
    }

    /// Tells the node where the kernel has dropped something since the last turn.
    fn note_overflow(&mut self) -> Result<(), RunError> {
        let before = self.counters.receive_overflow;
        self.settle_counters();
        if self.counters.receive_overflow == before {
            return Ok(());
        }
        self.log_losses(self.counters.receive_overflow - before);
        self.path_mtus.iter_mut().for_each(PathMtus::note_overflow);
        self.node.note_overflow(self.now);
        self.drain()
    }

    fn handle_timers(&mut self) -> Result<bool, RunError> {
        self.tick();
        self.note_lag();
        if !self.is_due() {
            return Ok(false);
        }
        self.node.handle_timeout(self.now);
        self.look_at_peers();
        self.look_at_networks();
        self.look_at_disk();
        self.drain()?;
        Ok(true)
    }

    fn serve_clients(&mut self) -> Result<bool, RunError> {
        self.queue_outputs()?;
        self.clients.look();
        if !self.clients.has_more() && self.clients.poll_timeout().is_none_or(|at| at > self.now) {
            return Ok(false);
        }
        let began = self.now;
        for client in self.clients.expire(self.now) {
            self.close(client)?;
        }
        for client in self.clients.accept(self.now, &mut self.counters) {
            self.open(client)?;
        }
        for client in self.clients.vanished(self.now, &mut self.counters) {
            self.close(client)?;
        }
        while let Some(client) = self.clients.next_deafened() {
            self.node.deafen_client(client);
        }
        self.hear_clients(began)?;
        self.flush();
        self.queue_outputs()?;
        self.tell_clients(self.now)?;
        Ok(true)
    }

    /// Reads from clients in turn.
    fn hear_clients(&mut self, began: Instant) -> Result<(), RunError> {
        for _ in 0..CLIENTS {
            let Some(client) = self.clients.next_readable() else { break };
            match self.clients.read(client, &mut self.counters) {
                ReadOutcome::Nothing => continue,
                ReadOutcome::Ended => self.close(client)?,
                ReadOutcome::Bytes(bytes) => {
                    if self.node.handle_client(self.now, client, bytes) == Reading::Pause {
                        self.clients.pause(client);
                    }
                    if self.clients.is_newcomer(client) && self.node.serves_client(client) {
                        self.clients.note_served(client);
                    }
                    self.drain()?;
                }
            }
            self.tick();
            if self.now.since(began) > CLIENT_SLICE {
                break;
            }
        }
        Ok(())
    }

    /// Asks once a turn who is to read something, so that a client reads of all that happened in the turn at once.
    fn queue_outputs(&mut self) -> Result<(), RunError> {
        while let Some(client) = self.node.poll_writable() {
            self.clients.queue_writing(client);
        }
        self.drain()
    }

    /// Writes to clients in turn, once each.
    fn tell_clients(&mut self, began: Instant) -> Result<(), RunError> {
        for _ in 0..self.clients.writable().min(CLIENTS) {
            let Some(client) = self.clients.next_writable() else { break };
            let mut pieces = [IoSlice::new(&[]); OUTPUT_PIECES];
            let waiting = self.node.client_outputs(client).zip(&mut pieces);
            let n = waiting.map(|(piece, slot)| *slot = IoSlice::new(piece)).count();
            match self.clients.write(client, &pieces[..n], &mut self.counters) {
                Wrote::Bytes(n) => {
                    self.node.client_written(self.now, client, n);
                    // There may be more pieces than one call takes.
                    if self.node.has_output(client) {
                        self.clients.queue_writing(client);
                    }
                    self.drain()?;
                }
                Wrote::Ended => self.close(client)?,
            }
            self.tick();
            if self.now.since(began) > CLIENT_SLICE {
                break;
            }
        }
        Ok(())
    }

    /// A connection has ended.
    fn close(&mut self, client: ClientId) -> Result<(), RunError> {
        self.node.close_client(self.now, client);
        self.drain()
    }

    /// Does what the node asks for. To be called after every input.
    fn drain(&mut self) -> Result<(), RunError> {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Send { to, lane: Lane::Reliable, datagram, .. } => self.push_frame(to, &datagram),
                Effect::Send { to, lane, network, datagram } => self.outbox.push(to, lane, network, datagram),
                Effect::Persist { ticket, record, sync } => match &mut self.records {
                    Some(writer) => writer.write(self.now, ticket, record, sync),
                    // Without a place for records nothing survives this incarnation, and nothing waits for the disk.
                    None => self.node.handle_persisted(self.now, ticket),
                },
                Effect::Trim { up_to } => self.records.iter().for_each(|writer| writer.trim(up_to)),
                Effect::PromiseKey { epoch } => self.seals.promise(epoch),
                Effect::SealWith { epoch, members } => self.adopt_key(epoch, &members),
                Effect::Left => self.left = true,
                Effect::Restart { cause, records, exceed } => {
                    tracing::warn!(cause, "starts anew");
                    self.left = true;
                    self.restart = Some(RunError::Restart { cause, records, exceed });
                }
                Effect::ReadAgain { client } => self.clients.resume(client),
                Effect::Spool { client, bytes } => self.spool(client, bytes),
                Effect::Unspool { client, .. } => self.spool.iter().for_each(|spool| spool.read(client)),
                Effect::DropSpool { client } => self.spool.iter().for_each(|spool| spool.forget(client)),
                Effect::Close { client } => self.clients.dismiss(client, self.now),
            }
        }
        if self.outbox.is_due() || self.links.as_ref().is_some_and(Links::is_due) {
            self.flush();
        }
        Ok(())
    }

    fn rest(&mut self, worked: bool) -> Result<(), RunError> {
        let busy = self.inbox.has_more() || self.has_frames() || self.clients.has_more() || self.node.has_writable();
        match self.idle.wait(self.now, Iteration { worked, busy }) {
            Wait::None => self.wake.look(),
            Wait::Yield => {
                self.counters.spins += 1;
                let began = self.now;
                std::thread::yield_now();
                self.tick();
                self.idle.yielded(self.now, self.now.since(began));
                self.wake.look()
            }
            Wait::Sleep => {
                self.counters.wakeups += 1;
                self.tick();
                let slept = self.sleep(self.next_timeout());
                self.tick();
                slept
            }
        }
        .map_err(RunError::Wait)?;
        self.see_events()
    }

    fn sleep(&mut self, until: Option<Instant>) -> io::Result<()> {
        if self.clients.begin_sleep() { self.wake.sleep(self.now, until) } else { self.wake.look() }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let paths = self.path_mtus.as_ref().map(PathMtus::poll_timeout);
        let links = self.links.as_ref().and_then(Links::poll_timeout);
        self.node
            .poll_timeout()
            .into_iter()
            .chain(self.clients.poll_timeout())
            .chain(paths)
            .chain(links)
            .chain(self.seals.poll_timeout())
            .min()
    }

    fn see_events(&mut self) -> Result<(), RunError> {
        let (mut helped, mut told, mut reloads, mut advised) = (false, false, false, false);
        for event in self.wake.events() {
            match event.token() {
                TIMER => {}
                STOP => told |= self.stop.take(),
                HELPERS => helped = true,
                RELOAD => reloads = true,
                ADVISOR => advised |= self.advisor.as_ref().is_some_and(Advisor::take),
                LINKS => self.links.iter_mut().for_each(Links::on_listener_ready),
                Token(place) if place < TIMER.0 => self.inbox.mark(place),
                Token(listener) if listener < FIRST_LINK => self.clients.on_listener_ready(listener - FIRST_LISTENER),
                Token(link) if link < FIRST_CLIENT => {
                    self.links.iter_mut().for_each(|links| links.event(self.now, event, &mut self.counters));
                }
                _ => self.clients.event(event),
            }
        }
        if told {
            self.leave()?;
        }
        if reloads {
            self.take_policy()?;
        }
        if advised {
            self.note_facts();
            self.take_advice()?;
        }
        if helped {
            self.note_spooled()?;
            self.note_written()?;
        }
        Ok(())
    }

    /// Told to stop: the node leaves in good order. Told once more: it stops as it is.
    fn leave(&mut self) -> Result<(), RunError> {
        let again = std::mem::replace(&mut self.leaving, true);
        if again && !self.left {
            tracing::warn!("ended before this node had left: the others miss it only after their timeouts");
        }
        self.left |= again;
        self.tick();
        self.node.leave(self.now);
        self.drain()
    }

    fn note_written(&mut self) -> Result<(), RunError> {
        while let Some(writer) = &mut self.records {
            let done = writer.next_done();
            let failed = |source| RunError::Persist { path: writer.path().to_owned(), source };
            let Some(ticket) = done.map_err(failed)? else { break };
            self.node.handle_persisted(self.now, ticket);
            self.drain()?;
        }
        Ok(())
    }

    /// Sends clients away and lets them read what stands in their outputs, but not for long.
    fn take_leave(mut self, farewell: &Disconnect) -> Result<(), RunError> {
        self.flush();
        self.tick();
        let until = self.now + FAREWELL;
        self.clients.close_listeners();
        self.node.send_clients_away(self.now, farewell);
        self.queue_outputs()?;
        while self.clients.count() > 0 && self.now < until {
            self.serve_clients()?;
            let until = if self.clients.has_more() { self.now } else { until };
            self.sleep(Some(until)).map_err(RunError::Wait)?;
            self.see_events()?;
            self.tick();
        }
        self.flush();
        self.write_log();
        for (name, value) in self.facts() {
            tracing::debug!(name, value, "counted");
        }
        tracing::info!("stopped");
        Ok(())
    }

    /// What there is to tell about the driver, beside what the node tells about itself.
    fn facts(&mut self) -> Vec<(String, String)> {
        self.settle_counters();
        let mut facts = Vec::new();
        self.counters.observe(&mut |name, value| facts.push((name.to_owned(), value.to_string())));
        facts
    }

    /// Brings those counters up to date that follow from others. On the group's socket the kernel counts what our filter
    /// takes away, which is one buffer for each that we sent there; what is above that was lost, or came from elsewhere.
    fn settle_counters(&mut self) {
        let (alone, group) = self.inbox.overflow();
        let dropped = alone + group.saturating_sub(self.outbox.group_buffers());
        let lost = self.drops.lost(self.now, dropped);
        self.counters.datagrams_filtered = self.counters.datagrams_filtered.max(self.drops.filtered());
        self.counters.receive_overflow = self.counters.receive_overflow.max(lost);
        self.counters.note_driver_packets(self.inbox.driver_packets());
    }

    fn is_due(&self) -> bool {
        !self.lag.is_behind() && self.node.poll_timeout().is_some_and(|at| at <= self.now)
    }

    fn tick(&mut self) {
        self.now = self.now.max(self.clock.now());
    }
}

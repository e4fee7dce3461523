//! Replicas over an order as the daemons give it, in random schedules: views that part and merge, safe messages that some
//! deliver before and others behind a signal, connections and replicas that are lost, transfers that end or do not.
//!
//! Daemons: a view is counted if a majority of nodes is in it. A message is in the view's order at once; it is delivered
//! in the regular view where all members hold it. Those that move together deliver, behind a signal, what any of them
//! holds. What was sent and not ordered is sent again by its session; here also what was, so that replicas must notice.
use crate::engine::{Base, Effect, Engine, Gift, Membership, Settings};
use crate::frame::{Frame, Peer};
use crate::line::{Line, Origin, Others, ReplicaId, Seen};
use bytes::Bytes;
use consort_types::{ClientId, MemberId, Rng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug)]
enum Event {
    Frame(Frame),
    Changed(Membership),
    Signal,
    /// A new view in which the group is the same.
    Same,
    Served(u64, Peer),
    Gift(Box<Transfer>),
}

/// What stands in a view's order.
#[derive(Clone, Debug)]
enum Item {
    /// With where it was sent, and by which start of a replica.
    Frame(Frame, usize, Origin),
    Join(Peer),
    Gone(Peer),
    /// Private: that a transfer has begun, and its end.
    /// The donor's node, the receiver, the number of its question, and the donor.
    Served(usize, Peer, u64, Peer),
    Gift(usize, Box<Transfer>),
}

#[derive(Clone, Debug, Default)]
struct View {
    number: u64,
    nodes: BTreeSet<usize>,
    order: Vec<Item>,
    /// How much of it each node holds, and has delivered.
    held: BTreeMap<usize, usize>,
    delivered: BTreeMap<usize, usize>,
}

/// A daemon's picture of the group.
#[derive(Clone, Debug, Default)]
struct Table {
    members: BTreeSet<Peer>,
    change: u64,
}

struct Client {
    node: Option<usize>,
    peer: Peer,
    engine: Engine,
    state: Vec<(Origin, u64)>,
    inbox: VecDeque<Event>,
    outbox: VecDeque<Frame>,
    /// The answered length of the history when each mark was sent.
    marks: BTreeMap<u64, usize>,
    answered: BTreeSet<u64>,
    /// What its directory has of others.
    others: Option<Others>,
}

#[derive(Clone, Debug)]
struct Transfer {
    from: ReplicaId,
    to: Peer,
    id: ReplicaId,
    gift: Gift,
    state: Vec<(Origin, u64)>,
    /// A part of it is under way.
    waits: bool,
}

pub struct World {
    rng: Rng,
    /// The share of parts of transfers that are the last.
    ends: f64,
    /// How often those are lost that do not get a transfer.
    parts: f64,
    pub log: Vec<String>,
    nodes: usize,
    views: Vec<View>,
    /// In which view each node is, and its table.
    at: Vec<usize>,
    tables: Vec<Table>,
    clients: Vec<Client>,
    transfers: Vec<Transfer>,
    history: Vec<(Origin, u64)>,
    /// So much of it was answered.
    answered: usize,
    /// How much was answered when each cut was sent, and where it stands.
    cuts: BTreeMap<(Origin, u64), (usize, Option<usize>)>,
    pub passed: usize,
    next: u64,
    /// All were up to date once.
    founded: bool,
    /// One more than founders starts then.
    later: bool,
    pub crashes: usize,
    pub served: [usize; 3],
    pub elected: usize,
    /// Who received last that it is up to date, or that others know of it.
    joined: Option<usize>,
    /// It is without the others until they have tried to connect this often.
    alone: Option<(usize, u64)>,
}

impl World {
    pub fn new(seed: u64, nodes: usize) -> Self {
        let all: BTreeSet<_> = (0..nodes).collect();
        let start = |all: &BTreeSet<usize>| all.iter().map(|node| (*node, 0)).collect::<BTreeMap<_, _>>();
        let view = View { number: 1, nodes: all.clone(), order: Vec::new(), held: start(&all), delivered: start(&all) };
        Self {
            rng: Rng::new(seed),
            ends: [0.4, 0.03][seed as usize / 2 % 2],
            parts: [0.02, 0.000_2][seed as usize / 4 % 2],
            log: Vec::new(),
            nodes,
            views: vec![view],
            at: vec![0; nodes],
            tables: vec![Table::default(); nodes],
            clients: Vec::new(),
            transfers: Vec::new(),
            history: Vec::new(),
            answered: 0,
            cuts: BTreeMap::new(),
            passed: 0,
            next: 1,
            founded: false,
            later: false,
            crashes: 0,
            served: [0; 3],
            elected: 0,
            joined: None,
            alone: None,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn start(&mut self, node: usize, founders: usize) {
        let id = u128::from(self.number());
        let settings = Settings {
            id: ReplicaId(id),
            origin: Origin(id),
            founders,
            forces: false,
            log_bytes: if self.rng.chance(0.5) { 100_000 } else { 300 },
        };
        self.clients.push(Client {
            node: None,
            peer: (MemberId::new(0, 0), ClientId(0)),
            engine: Engine::new(settings, Line::default(), Seen::default()),
            state: Vec::new(),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            marks: BTreeMap::new(),
            answered: BTreeSet::new(),
            others: None,
        });
        self.connect(self.clients.len() - 1, node);
    }

    fn connect(&mut self, client: usize, node: usize) {
        let number = self.number() as u32;
        let peer = (MemberId::new(node as u16 + 1, 1), ClientId(number));
        let own = &mut self.clients[client];
        (own.node, own.peer) = (Some(node), peer);
        own.engine.on_connected(peer);
        self.views[self.at[node]].order.push(Item::Join(peer));
        self.log.push(format!("c{client} connects to {node}"));
    }

    fn disconnect(&mut self, client: usize) {
        let Some(node) = self.clients[client].node.take() else { return };
        let peer = self.clients[client].peer;
        self.clients[client].inbox.clear();
        self.clients[client].engine.on_lost();
        self.views[self.at[node]].order.push(Item::Gone(peer));
        self.log.push(format!("c{client} loses {node}"));
        self.drain(client);
    }

    /// Its program is stopped, and started again with its directory.
    fn restart(&mut self, client: usize) {
        self.disconnect(client);
        let (origin, founders) = (Origin(u128::from(self.number())), self.nodes);
        let own = &mut self.clients[client];
        let id = own.engine.id();
        let (line, seen) = own.engine.line_of_machine();
        own.engine = Engine::new(Settings { id, origin, founders, forces: false, log_bytes: 300 }, line, seen);
        own.others.iter().for_each(|others| own.engine.recall(others.clone()));
        own.outbox.clear();
        own.marks.clear();
        own.answered.clear();
        self.transfers.retain(|transfer| transfer.from != id);
        self.log.push(format!("c{client} is started again"));
    }

    /// The daemons have forgotten what it sent, and none of that is ordered.
    fn forget(&mut self, client: usize) {
        let own = &mut self.clients[client];
        for frame in std::mem::take(&mut own.outbox) {
            match frame {
                Frame::Command { number, .. } => own.engine.resend(number),
                Frame::Cut { .. } => {}
                Frame::Hello(hello) => own.engine.on_forgotten(hello.ask),
                other => own.outbox.push_back(other),
            }
        }
        self.log.push(format!("what c{client} sent is forgotten"));
        self.drain(client);
    }

    /// New views of these sets of nodes; those of one view that stay in one set move together.
    fn repartition(&mut self, sets: &[BTreeSet<usize>]) {
        self.log.push(format!("views {sets:?}"));
        let before = self.at.clone();
        let mut again = Vec::new();
        for set in sets {
            let olds: BTreeSet<_> = set.iter().map(|node| before[*node]).collect();
            if olds.len() == 1 && 2 * set.len() > self.nodes && self.rng.chance(0.5) && self.keep_group(set) {
                continue;
            }
            for old in olds {
                let together: BTreeSet<_> = set.iter().copied().filter(|node| before[*node] == old).collect();
                let parts = together.len() < self.views[old].nodes.len();
                let until = together.iter().map(|node| self.views[old].held[node]).max().unwrap_or(0);
                again.extend(
                    self.views[old].order[until..].iter().filter(|item| together.contains(&node_of(item))).cloned(),
                );
                for node in &together {
                    if parts {
                        self.tell(*node, &Event::Signal);
                    }
                    while self.views[old].delivered[node] < until {
                        self.deliver_next(*node);
                    }
                }
            }
            let start = |set: &BTreeSet<usize>| set.iter().map(|node| (*node, 0)).collect::<BTreeMap<_, _>>();
            // Parts count by themselves: who moves from one to another may come to a lower number.
            let last = set.iter().map(|node| self.views[before[*node]].number).max().unwrap_or(0);
            let number = last + self.rng.between(1, 4);
            let view = View { number, nodes: set.clone(), order: Vec::new(), held: start(set), delivered: start(set) };
            self.views.push(view);
            self.merge(set, &before, number);
        }
        again.into_iter().for_each(|item| self.send_again(item));
    }

    /// A new view of nodes that had one before, if all members of the group are there: they get a signal and no membership.
    /// What was not ordered is sent again in the same order.
    fn keep_group(&mut self, set: &BTreeSet<usize>) -> bool {
        let old = self.at[*set.first().expect("a set has nodes")];
        let until = set.iter().map(|node| self.views[old].held[node]).max().unwrap_or(0);
        let order = &self.views[old].order;
        let joins =
            order[..until].iter().filter_map(|item| if let Item::Join(peer) = item { Some(peer) } else { None });
        let known = set.iter().flat_map(|node| self.tables[*node].members.iter());
        if !joins.chain(known).all(|peer| set.contains(&(usize::from(peer.0.node.0) - 1))) {
            return false;
        }
        let is_cut = |item: &&Item| matches!(item, Item::Frame(Frame::Cut { .. }, ..));
        let again = |item: &&Item| set.contains(&node_of(item)) && !is_cut(item);
        let order: Vec<_> = order[until..].iter().filter(again).cloned().collect();
        for node in set {
            self.tell(*node, &Event::Signal);
            while self.views[old].delivered[node] < until {
                self.deliver_next(*node);
            }
            self.tell(*node, &Event::Same);
        }
        let start = || set.iter().map(|node| (*node, 0)).collect::<BTreeMap<_, _>>();
        let number = self.views[old].number;
        self.views.push(View { number, nodes: set.clone(), order, held: start(), delivered: start() });
        set.iter().for_each(|node| self.at[*node] = self.views.len() - 1);
        self.log.push(format!("the same group in {set:?}"));
        true
    }

    /// What its daemon sent into a view that has closed without it.
    fn send_again(&mut self, item: Item) {
        match item {
            // A session orders a send once at most; that one which was not is never sent again.
            Item::Frame(Frame::Cut { .. }, ..) => {}
            Item::Frame(frame, _, origin) => {
                if let Some(client) = self.clients.iter_mut().find(|client| client.engine.origin() == origin) {
                    client.outbox.push_back(frame);
                }
            }
            // Who lags asks anew.
            Item::Served(..) | Item::Gift(..) => {}
            other => self.views[self.at[node_of(&other)]].order.push(other),
        }
    }

    /// The exchange of tables: each node's own clients.
    fn merge(&mut self, set: &BTreeSet<usize>, before: &[usize], number: u64) {
        let own = |node: &usize, table: &Table| {
            let is_own = |peer: &&Peer| usize::from(peer.0.node.0) == node + 1;
            table.members.iter().filter(is_own).copied().collect::<Vec<_>>()
        };
        let members: BTreeSet<_> = set.iter().flat_map(|node| own(node, &self.tables[*node])).collect();
        for node in set {
            let together = |peer: &&Peer| before[usize::from(peer.0.node.0) - 1] == before[*node];
            let together = members.iter().filter(together).copied().collect();
            let membership = Membership { at: (number, 0), is_new_view: true, members: members.clone(), together };
            self.tables[*node] = Table { members: members.clone(), change: 0 };
            self.at[*node] = self.views.len() - 1;
            self.tell(*node, &Event::Changed(membership));
        }
    }

    fn tell(&mut self, node: usize, event: &Event) {
        let members = self.tables[node].members.clone();
        for client in &mut self.clients {
            if client.node == Some(node) && members.contains(&client.peer) {
                client.inbox.push_back(event.clone());
            }
        }
    }

    fn tell_one(&mut self, node: usize, to: Peer, event: Event) {
        let there = |client: &&mut Client| client.node == Some(node) && client.peer == to;
        if let Some(client) = self.clients.iter_mut().find(there) {
            client.inbox.push_back(event);
        }
    }

    fn deliver_next(&mut self, node: usize) {
        let view = &mut self.views[self.at[node]];
        let next = view.delivered.get_mut(&node).unwrap();
        let item = view.order[*next].clone();
        *next += 1;
        let number = view.number;
        let table = &mut self.tables[node];
        match item {
            Item::Frame(frame, ..) => return self.tell(node, &Event::Frame(frame)),
            Item::Served(_, to, ask, from) => return self.tell_one(node, to, Event::Served(ask, from)),
            Item::Gift(_, transfer) => return self.tell_one(node, transfer.to, Event::Gift(transfer)),
            Item::Join(peer) if table.members.insert(peer) => {}
            Item::Gone(peer) if table.members.remove(&peer) => {}
            Item::Join(_) | Item::Gone(_) => return,
        }
        table.change += 1;
        let (members, at) = (table.members.clone(), (number, table.change));
        self.tell(node, &Event::Changed(Membership { at, is_new_view: false, together: members.clone(), members }));
    }

    /// Whether this node may deliver its next in the regular view.
    fn may_deliver(&self, node: usize) -> bool {
        let view = &self.views[self.at[node]];
        let next = view.delivered[&node];
        match view.order.get(next) {
            None => false,
            // Joins and leaves are agreed, all else is safe.
            Some(Item::Join(_) | Item::Gone(_)) => view.held[&node] > next,
            Some(_) => view.held.values().all(|held| *held > next),
        }
    }

    fn counts(&self, node: usize) -> bool {
        2 * self.views[self.at[node]].nodes.len() > self.nodes
    }

    /// What was sent before was mostly received: else all that replicas say to each other would wait behind commands.
    fn has_room(&self, client: usize) -> bool {
        let Some(node) = self.clients[client].node else { return self.clients[client].outbox.is_empty() };
        let view = &self.views[self.at[node]];
        let behind = view.order.len() - view.delivered.values().min().unwrap_or(&0);
        self.clients[client].outbox.is_empty() && behind < 6
    }

    fn call(&mut self, client: usize) {
        let number = self.clients[client].engine.call(Bytes::from_static(b"x"));
        self.clients[client].answered.insert(number);
        self.drain(client);
    }

    fn send_next(&mut self, client: usize) {
        let Some(node) = self.clients[client].node.filter(|node| self.counts(*node)) else { return };
        let Some(frame) = self.clients[client].outbox.pop_front() else { return };
        // Some are ordered twice, now or later: their fate was unknown, and they were sent again.
        let twice = match frame {
            Frame::Command { .. } => 0.1,
            Frame::Cut { .. } | Frame::Hello(_) => 0.0,
            _ => 0.02,
        };
        if self.rng.chance(twice) {
            self.clients[client].outbox.push_back(frame.clone());
        }
        let origin = self.clients[client].engine.origin();
        self.views[self.at[node]].order.push(Item::Frame(frame, node, origin));
    }

    fn receive_next(&mut self, client: usize) {
        let Some(event) = self.clients[client].inbox.pop_front() else { return };
        let engine = &mut self.clients[client].engine;
        match event {
            Event::Frame(frame) => {
                let is_own = |id: ReplicaId| id == engine.id();
                if matches!(frame, Frame::Ready { id, .. } | Frame::Admit { id, .. } if is_own(id)) {
                    self.joined = Some(client);
                }
                assert!(!engine.is_behind(&frame), "c{client}: nobody is forced, and no other line goes on");
                let own = if let Frame::Hello(hello) = &frame {
                    (hello.id == engine.id()).then_some(hello.ask)
                } else {
                    None
                };
                engine.on_frame(Frame::decode(&frame.encode()).unwrap());
                // The daemons may not remember that they have ordered it.
                if let Some(ask) = own.filter(|_| self.rng.chance(0.01)) {
                    engine.on_forgotten(ask);
                }
            }
            Event::Changed(membership) => engine.on_membership(membership),
            Event::Signal => engine.on_signal(),
            Event::Same => engine.on_same_group(),
            Event::Served(ask, from) => {
                engine.on_served(ask, from);
                let peer = self.clients[client].peer;
                let acknowledged = |transfer: &&mut Transfer| transfer.to == peer && transfer.gift.ask == ask;
                self.transfers.iter_mut().filter(acknowledged).for_each(|transfer| transfer.waits = false);
            }
            Event::Gift(transfer) => self.take_gift(client, *transfer),
        }
        self.drain(client);
    }

    fn drain(&mut self, client: usize) {
        while let Some(effect) = self.clients[client].engine.next_effect() {
            let own = &mut self.clients[client];
            match effect {
                Effect::Send(frame) => own.outbox.push_back(frame),
                Effect::Apply { at, entry } => {
                    own.state.push((entry.origin, entry.number));
                    assert_eq!(at.position as usize, own.state.len(), "c{client}: a place is left out or told twice");
                    match self.history.get(own.state.len() - 1) {
                        Some(there) => assert_eq!(*there, (entry.origin, entry.number), "c{client} parts at {at:?}"),
                        None => self.history.push((entry.origin, entry.number)),
                    }
                    // Whoever called is answered as soon as it is applied where it was called.
                    if own.answered.remove(&entry.number) && Some(entry.origin) == own.state.last().map(|last| last.0) {
                        self.answered = self.answered.max(own.state.len());
                    }
                }
                Effect::Passed { number } => {
                    if let Some(least) = own.marks.remove(&number) {
                        assert!(own.state.len() >= least, "c{client}: a reader goes back");
                    }
                }
                Effect::Cut { origin, number } => {
                    let len = own.state.len();
                    let (least, place) = self.cuts.get_mut(&(origin, number)).unwrap();
                    assert!(len >= *least, "c{client}: a cut goes back");
                    assert_eq!(*place.get_or_insert(len), len, "c{client}: a cut stands elsewhere");
                    self.passed += 1;
                }
                Effect::Donate { id, peer, gift } => {
                    let (from, state) = (own_id(own), own.state.clone());
                    self.log.push(format!("c{client} serves {peer:?}"));
                    self.transfers.push(Transfer { from, to: peer, id, gift: *gift, state, waits: false });
                }
                Effect::StopDonating { id } => {
                    let from = own_id(own);
                    self.transfers.retain(|transfer| transfer.from != from || transfer.id != id);
                }
                Effect::Unseen { .. } => {}
                Effect::Remember(others) => own.others = Some(others),
                Effect::Current(current) => {
                    self.elected += usize::from(current);
                    self.log.push(format!("c{client} is current: {current} at {}", own.state.len()));
                }
            }
        }
    }

    /// A donor sends more of a transfer, or its last.
    fn send_transfer(&mut self) {
        let index = self.rng.below(self.transfers.len() as u64) as usize;
        // One part is under way at a time.
        if self.transfers[index].waits {
            return;
        }
        let from = self.transfers[index].from;
        let donor = self.clients.iter().find(|client| own_id(client) == from);
        let Some(donor) = donor else { return drop(self.transfers.swap_remove(index)) };
        let Some(node) = donor.node.filter(|node| donor.outbox.is_empty() && self.counts(*node)) else { return };
        let donor = donor.peer;
        let (to, ask) = (self.transfers[index].to, self.transfers[index].gift.ask);
        let item = if self.rng.chance(self.ends) {
            Item::Gift(node, Box::new(self.transfers.swap_remove(index)))
        } else {
            self.transfers[index].waits = true;
            Item::Served(node, to, ask, donor)
        };
        self.views[self.at[node]].order.push(item);
    }

    fn take_gift(&mut self, client: usize, transfer: Transfer) {
        let own = &mut self.clients[client];
        let Transfer { gift, state, .. } = transfer;
        if !own.engine.awaits(gift.ask) {
            return;
        }
        let kind = match &gift.base {
            Base::Line(_) => 0,
            Base::Applied(_) => 1,
            Base::Snapshot { .. } => {
                assert!(!own.engine.has_parted(&gift), "no machine ever parts from the history");
                assert!(self.history.starts_with(&state));
                own.state = state;
                2
            }
        };
        self.served[kind] += 1;
        own.engine.on_gift(gift);
    }

    fn crash(&mut self, client: usize, node: usize) {
        self.disconnect(client);
        self.clients.remove(client);
        self.crashes += 1;
        self.log.push(format!("c{client} is gone for ever"));
        self.start(node, self.nodes);
    }

    fn random_sets(&mut self) -> Vec<BTreeSet<usize>> {
        let count = self.rng.between(1, 3);
        let mut sets = vec![BTreeSet::new(); count as usize];
        for node in 0..self.nodes {
            sets[self.rng.below(count) as usize].insert(node);
        }
        sets.retain(|set: &BTreeSet<usize>| !set.is_empty());
        sets
    }

    /// One step of anything. Rarely something breaks.
    pub fn step(&mut self, breaks: f64, crashes: f64) {
        if self.rng.chance(breaks) {
            let sets = self.random_sets();
            return self.repartition(&sets);
        }
        let client = self.rng.below(self.clients.len() as u64) as usize;
        let node = self.rng.below(self.nodes as u64) as usize;
        // Where none is left that remembers, a new history begins.
        self.founded |= self.clients.iter().all(|client| client.engine.is_current());
        if self.founded && std::mem::take(&mut self.later) {
            self.start(0, self.nodes);
        }
        if self.founded && self.rng.chance(breaks / 10.0) {
            return self.restart(client);
        }
        if self.rng.chance(breaks / 4.0) {
            return self.forget(client);
        }
        if self.founded && self.crashes < (self.nodes - 1) / 2 && self.rng.chance(crashes) {
            return self.crash(client, node);
        }
        match self.rng.below(100) {
            10..22 if !self.has_room(client) => {}
            0 if self.rng.chance(breaks * 20.0) => self.disconnect(client),
            1..10 if self.clients[client].node.is_none() && !self.stays_alone() => self.connect(client, node),
            10..16 => self.call(client),
            16..19 => {
                let number = self.clients[client].engine.send_mark();
                self.clients[client].marks.insert(number, self.answered);
                self.drain(client);
            }
            19..22 if self.clients[client].engine.is_current() => {
                let (origin, number) = (self.clients[client].engine.origin(), self.number());
                self.cuts.insert((origin, number), (self.answered, None));
                self.clients[client].outbox.push_back(Frame::Cut { origin, number });
            }
            22..40 => self.send_next(client),
            40..60 => self.receive_next(client),
            60..78 => {
                let view = &mut self.views[self.at[node]];
                let (held, len) = (view.held.get_mut(&node).unwrap(), view.order.len());
                *held = len.min(*held + 1);
            }
            78..95 if self.may_deliver(node) => self.deliver_next(node),
            95..100 if !self.transfers.is_empty() => self.send_transfer(),
            _ => {}
        }
    }

    /// All is whole: everything ends. True if all are up to date.
    pub fn heal(&mut self) -> bool {
        self.merge_all();
        self.connect_all();
        for steps_left in (0..40_000_u32).rev() {
            if steps_left > 20_000 {
                self.break_joiners();
            }
            if steps_left == 20_000 {
                self.alone = None;
                self.merge_all();
                self.connect_all();
            }
            self.step(0.0, 0.0);
            if self.rng.chance(0.2) && !self.transfers.is_empty() {
                self.send_transfer();
            }
        }
        let mut quiet = 0;
        while quiet < 20 {
            self.settle();
            let idle = |client: &Client| client.inbox.is_empty() && client.outbox.is_empty();
            let read = (0..self.nodes).all(|node| !self.may_deliver(node));
            let all = read && self.clients.iter().all(idle) && self.transfers.is_empty();
            quiet = if all { quiet + 1 } else { 0 };
        }
        let current = self.clients.iter().all(|client| client.engine.is_current());
        if current {
            let first = &self.clients[0].state;
            assert!(self.clients.iter().all(|client| client.state == *first), "equal places, unequal states");
            let unique: BTreeSet<_> = self.history.iter().collect();
            assert_eq!(unique.len(), self.history.len(), "a command was applied twice");
        }
        current
    }

    fn merge_all(&mut self) {
        self.repartition(&[(0..self.nodes).collect()]);
    }

    /// In a view that lasts, replicas catch up. What can break for them breaks then.
    fn break_joiners(&mut self) {
        if self.rng.chance(self.parts) {
            self.part_from_donors();
        }
        if let Some(joined) = self.joined.take()
            && self.rng.chance(0.5)
        {
            self.part_from_joined(joined);
        }
        if self.rng.chance(0.001) {
            let client = self.rng.below(self.clients.len() as u64) as usize;
            match self.rng.below(4) {
                0 => self.restart(client),
                1 => self.forget(client),
                _ => self.disconnect(client),
            }
        }
        if self.rng.chance(0.002) {
            self.merge_all();
        }
    }

    /// While the whole view goes on, connections are lost: of all but those that are sent what they lack, of one, or of most.
    fn part_from_donors(&mut self) {
        let is_served = |client: &Client| client.engine.waits_for() == "it is sent what it lacks";
        let count = self.clients.len();
        let lost: Vec<_> = match (self.clients.iter().any(is_served), self.rng.chance(0.3)) {
            (true, true) => (0..count).filter(|client| !is_served(&self.clients[*client])).collect(),
            (true, false) => vec![self.rng.below(count as u64) as usize],
            (false, _) if self.rng.chance(0.03) => (0..count).filter(|_| self.rng.chance(0.6)).collect(),
            (false, _) => Vec::new(),
        };
        lost.into_iter().for_each(|client| self.disconnect(client));
    }

    /// Most others lose their connections just after one received that it is up to date, mostly before they do. It calls.
    fn part_from_joined(&mut self, joined: usize) {
        let others = (0..self.clients.len()).filter(|client| *client != joined);
        let lost: Vec<_> = others.filter(|_| self.rng.chance(0.8)).collect();
        lost.into_iter().for_each(|client| self.disconnect(client));
        self.call(joined);
        self.alone = Some((joined, self.rng.between(1, 20)));
    }

    /// Those that lost their connections stay away for a while; then they come back where that one is not.
    fn stays_alone(&mut self) -> bool {
        let Some((joined, tries)) = self.alone.take() else { return false };
        if tries > 0 {
            self.alone = Some((joined, tries - 1));
            return true;
        }
        let Some(node) = self.clients.get(joined).and_then(|client| client.node) else { return false };
        let (one, others): (BTreeSet<_>, BTreeSet<_>) = (0..self.nodes).partition(|other| *other == node);
        let elsewhere = others.iter().copied().find(|_| self.rng.chance(0.5)).unwrap_or(self.nodes - 1);
        self.repartition(&[one, others]);
        for client in 0..self.clients.len() {
            if self.clients[client].node.is_none() {
                self.connect(client, elsewhere);
            }
        }
        true
    }

    fn connect_all(&mut self) {
        for client in 0..self.clients.len() {
            if self.clients[client].node.is_none() {
                self.connect(client, 0);
            }
        }
    }

    fn settle(&mut self) {
        for client in 0..self.clients.len() {
            self.send_next(client);
            self.receive_next(client);
        }
        for node in 0..self.nodes {
            let view = &mut self.views[self.at[node]];
            let len = view.order.len();
            view.held.insert(node, len);
            if self.may_deliver(node) {
                self.deliver_next(node);
            }
        }
        if !self.transfers.is_empty() {
            self.send_transfer();
        }
    }

    pub fn why(&self) -> String {
        self.clients.iter().map(|client| client.engine.waits_for() + "; ").collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.log.join("\n"));
        }
    }
}

fn node_of(item: &Item) -> usize {
    match item {
        Item::Frame(_, node, _) | Item::Served(node, ..) | Item::Gift(node, _) => *node,
        Item::Join(peer) | Item::Gone(peer) => usize::from(peer.0.node.0) - 1,
    }
}

fn own_id(client: &Client) -> ReplicaId {
    client.engine.id()
}

fn run(seed: u64, nodes: usize, crashes: f64) -> (World, bool) {
    let mut world = World::new(seed, nodes);
    for node in 0..nodes {
        world.start(node, nodes);
    }
    world.later = seed.is_multiple_of(3);
    for _ in 0..(seed % 7 + 1) * 400 {
        world.step(0.004, crashes);
    }
    let healed = world.heal();
    (world, healed)
}

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("CONSORT_REPLICA_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let first = std::env::var("CONSORT_REPLICA_FROM").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    first..first + count
}

fn each(crashes: f64, mut see: impl FnMut(u64, &World, bool)) {
    for seed in seeds() {
        let ran = std::panic::catch_unwind(|| run(seed, if seed.is_multiple_of(2) { 3 } else { 5 }, crashes));
        let (world, healed) = ran.unwrap_or_else(|_| panic!("seed {seed}, crashes {crashes}"));
        see(seed, &world, healed);
    }
}

#[test]
fn replicas_that_keep_their_memory_agree_and_all_catch_up() {
    let (mut served, mut elected, mut passed) = ([0; 3], 0, 0);
    each(0.0, |seed, world, healed| {
        assert!(healed, "seed {seed}: {}\n{}", world.why(), world.log.join("\n"));
        (0..3).for_each(|kind| served[kind] += world.served[kind]);
        elected += world.elected;
        passed += world.passed;
    });
    println!("served {served:?}, became current {elected}, passed cuts {passed}");
    assert!(served.iter().all(|count| *count > 0) && elected > 0 && passed > 0, "{served:?}");
}

#[test]
fn replicas_that_are_lost_for_ever_cost_no_answer_though_the_rest_may_wait() {
    let mut waiting = 0;
    each(0.001, |_, world, healed| waiting += usize::from(!healed && world.crashes > 0));
    println!("{waiting} of {} wait for replicas that are gone", seeds().end);
}

//! From settings to a node that runs.
use crate::config::{NodeAddress, Protocol, Settings};
use crate::failure::{Failure, Outcome, Trying};
use crate::runtime_dir::{self, Card, KeptSeat, RuntimeDir};
pub use crate::seat::await_addresses;
use crate::seat::take_seat;
use crate::state_lock::StateLock;
use crate::{incarnation, metrics, registry, reload, security, tls, votes};
use consort_multiring::MultiRing;
use consort_multiring_paxos::MultiRingPaxos;
use consort_net::{
    Advisor, BindError, ClientPolicy, Fanout, ListenAddress, NetworkOptions, OpenError, Options as NetOptions, Peer,
    Reload, RunError, Security, SocketRole, Sockets, Stop, TlsListen,
};
use consort_node::{Identity, Node};
use consort_paxos::Paxos;
use consort_plato::Plato;
use consort_ring::Ring;
use consort_seal::KeyRing;
use consort_tls::ServerTls;
use consort_toto::Toto;
use consort_types::{Incarnation, MemberId};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

/// A node with its identity and its sockets, about to run.
pub struct Ready {
    /// What it says of itself.
    pub card: Card,
    _seat: KeptSeat,
    _files: Option<StateLock>,
    sockets: Sockets,
    node: AnyNode,
    settings: Settings,
    reload: Reload,
    tls: Option<ServerTls>,
    advisor: Option<Advisor>,
    _registration: registry::Registration,
    _metrics: Option<metrics::Serving>,
}

/// A node with the engine that its settings name. Which one is asked once, when it starts to run: each has a loop of its own.
enum AnyNode {
    Ring(Box<Node<Ring>>),
    Toto(Box<Node<Toto>>),
    Plato(Box<Node<Plato>>),
    Paxos(Box<Node<Paxos>>),
    MultiRingPaxos(Box<Node<MultiRingPaxos>>),
    MultiRing(Box<Node<MultiRing>>),
}

/// Takes the node's place on this machine and binds: the given node, or the lowest free one that is at home here. `ask` is
/// how the metrics ask the daemon, as its client, for its status.
///
/// # Errors
/// A node that does not exist or is taken, a sibling with other settings, addresses that cannot be bound.
pub fn prepare(mut settings: Settings, node: Option<u16>, ask: metrics::Ask) -> Outcome<Ready> {
    let keys = settings.key.as_deref().map(security::load).transpose()?;
    let dir = RuntimeDir::open(&runtime_dir::runtime_directory(), &settings.cluster)?;
    if !settings.users.is_empty() {
        dir.let_others_pass()?;
    }
    let mut seat = take_seat(&dir, &mut settings, node)?;
    let files = incarnation::take_files(settings.state.as_deref(), &settings.cluster, settings.ring.me.0)?;
    let card = card(&dir, &settings);
    check_siblings(&dir, &card)?;
    seat.furnish(&card)?;
    warn_of_open_listeners(&settings);
    tell_seals(&settings, keys.as_ref());
    let policy = reload::policy(&settings)?;
    tell_rules(&policy);
    let reload = Reload::new(policy).trying(|| "cannot watch for news of rules".into())?.with_keys(keys);
    let tls = tls::server(&settings)?;
    reload.note_tls(tls.clone());
    let advisor = registry::advisor(&settings)?;
    let (sockets, node) = begin(&settings, &card, &reload, tls.as_ref(), advisor.as_ref(), None)?;
    let registration = registry::begin(&settings, advisor.as_ref())?;
    let shown = tls.as_ref().filter(|_| settings.metrics_tls);
    let metrics = settings.metrics.map(|address| tell_metrics(address, shown, &card, ask)).transpose()?;
    if let Some(spread) = &settings.spread {
        tracing::info!(address = %spread.address, "serves Spread clients");
    }
    let users = !settings.users.is_empty();
    let opened = move || if users { dir.let_others_pass() } else { Ok(()) };
    let seat = KeptSeat::keep(seat, opened).trying(|| "cannot begin a thread".into())?;
    let (_seat, _files, _registration, _metrics) = (seat, files, registration, metrics);
    Ok(Ready { card, _seat, _files, sockets, node, settings, reload, tls, advisor, _registration, _metrics })
}

impl Ready {
    /// What holds for clients, to be changed while it runs.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// Runs until told to stop.
    pub fn serve(self, stop: Stop) -> Outcome {
        let _named = tracing::info_span!("consort", cluster = %self.card.cluster, node = self.card.node).entered();
        let (mut sockets, mut node) = (self.sockets, self.node);
        loop {
            let (records, exceed) = match node.run(sockets, stop.clone()) {
                Ok(()) => break,
                Err(RunError::Restart { records, exceed, .. }) => (records, exceed),
                Err(error) => return Err(Failure::new(error.to_string())),
            };
            if !await_addresses(&self.settings, Some(self.card.node), &stop) {
                break;
            }
            let (tls, advisor) = (self.tls.as_ref(), self.advisor.as_ref());
            (sockets, node) = begin(&self.settings, &self.card, &self.reload, tls, advisor, exceed)?;
            sockets.carry(records);
        }
        tracing::info!("ended");
        Ok(())
    }
}

impl AnyNode {
    fn run(self, sockets: Sockets, stop: Stop) -> Result<(), RunError> {
        match self {
            Self::Ring(node) => consort_net::run(sockets, *node, stop),
            Self::Toto(node) => consort_net::run(sockets, *node, stop),
            Self::Plato(node) => consort_net::run(sockets, *node, stop),
            Self::Paxos(node) => consort_net::run(sockets, *node, stop),
            Self::MultiRingPaxos(node) => consort_net::run(sockets, *node, stop),
            Self::MultiRing(node) => consort_net::run(sockets, *node, stop),
        }
    }
}

/// Begins an incarnation of the node whose place is taken.
fn begin(
    settings: &Settings,
    card: &Card,
    reload: &Reload,
    tls: Option<&ServerTls>,
    advisor: Option<&Advisor>,
    exceed: Option<Incarnation>,
) -> Outcome<(Sockets, AnyNode)> {
    let incarnation = incarnation::begin(settings.state.as_deref(), &settings.cluster, card.node, exceed)?;
    let mut options = net_options(settings, card, incarnation)?;
    // Each incarnation has a salt of its own.
    let seal = |keys: KeyRing| {
        let keys = security::begin_with(keys, options.key_epoch.as_deref());
        security::salt().map(|salt| Security { keys, salt })
    };
    options.security = reload.keys().map(seal).transpose()?;
    options.tls = tls.and_then(|tls| tls_listen(settings, tls));
    options.reload = Some(reload.clone());
    options.advisor = advisor.cloned();
    let sockets = Sockets::bind(options).map_err(|error| explain(&error, settings))?;
    let node = engine_and_node(settings, incarnation, &sockets, reload)?;
    tracing::info!(node = card.node, cluster = %card.cluster, %incarnation, settings = %card.summary, "serving");
    Ok((sockets, node))
}

/// Where clients may connect by TLS, if anywhere.
fn tls_listen(settings: &Settings, tls: &ServerTls) -> Option<TlsListen> {
    let (addresses, most) = (settings.listen_tls.clone(), settings.limits.clients_most.saturating_add(64));
    (!addresses.is_empty()).then(|| TlsListen { addresses, tls: tls.clone(), most })
}

fn tell_metrics(
    address: SocketAddr,
    tls: Option<&ServerTls>,
    card: &Card,
    ask: metrics::Ask,
) -> Outcome<metrics::Serving> {
    let port = metrics::open(address, tls)?;
    let address = port.address().unwrap_or(address);
    tracing::info!(%address, encrypted = tls.is_some(), "tells metrics");
    metrics::serve(port, metrics::Daemon::new(card.socket.clone(), card.cluster.clone(), ask))
}

fn engine_and_node(
    settings: &Settings,
    incarnation: Incarnation,
    sockets: &Sockets,
    reload: &Reload,
) -> Outcome<AnyNode> {
    let receive_room = sockets.receive_room();
    let me = MemberId { node: settings.ring.me, incarnation };
    let identity = Identity { cluster: settings.cluster_id(), config: settings.hash(), me };
    let settings = &settings.for_engines();
    match settings.protocol {
        Protocol::Ring => {
            let ring = consort_ring::RingConfig { receive_room, ..settings.ring.clone() };
            let engine = Ring::new(ring, incarnation).map_err(|error| Failure::usage(error.to_string()))?;
            Ok(AnyNode::Ring(Box::new(node_of(settings, identity, engine, reload))))
        }
        Protocol::Toto => {
            let engine = Toto::new(settings.toto_config(), incarnation);
            let engine = engine.map_err(|error| Failure::usage(error.to_string()))?;
            Ok(AnyNode::Toto(Box::new(node_of(settings, identity, engine, reload))))
        }
        Protocol::Plato => {
            let engine = Plato::new(settings.plato_config(), incarnation);
            let engine = engine.map_err(|error| Failure::usage(error.to_string()))?;
            Ok(AnyNode::Plato(Box::new(node_of(settings, identity, engine, reload))))
        }
        Protocol::Paxos => {
            let config = consort_paxos::Config { copied_in: sockets.records_copied_in(), ..settings.paxos_config() };
            let engine = Paxos::new(config, incarnation);
            let engine = engine.map_err(|error| Failure::usage(error.to_string()))?;
            Ok(AnyNode::Paxos(Box::new(node_of(settings, identity, engine, reload))))
        }
        Protocol::MultiRingPaxos => {
            let engine = MultiRingPaxos::new(settings.multiring_paxos_config(), incarnation);
            let engine = engine.map_err(|error| Failure::usage(error.to_string()))?;
            Ok(AnyNode::MultiRingPaxos(Box::new(node_of(settings, identity, engine, reload))))
        }
        Protocol::MultiRing => {
            let mut config = settings.multiring_config();
            config.ring.receive_room = receive_room;
            let engine = MultiRing::new(config, incarnation);
            let engine = engine.map_err(|error| Failure::usage(error.to_string()))?;
            Ok(AnyNode::MultiRing(Box::new(node_of(settings, identity, engine, reload))))
        }
    }
}

fn node_of<E: consort_node::Engine>(settings: &Settings, identity: Identity, engine: E, reload: &Reload) -> Node<E> {
    let (bytes, keep) = settings.sessions_retain;
    let span =
        |time: std::time::Duration| consort_types::Duration::from_nanos(time.as_nanos().try_into().unwrap_or(u64::MAX));
    let node = Node::new(identity, engine, settings.limits).of_nodes(settings.nodes.len());
    let node = if settings.from_file { node.expecting_others() } else { node };
    let node = node.retaining(bytes, span(keep)).keeping_producers(span(settings.producers_for));
    let mut node = node.with_slow_rules(settings.slow_rules.clone()).with_policy(reload.now());
    node.set_streams(settings.group_streams());
    // What is kept for readers elsewhere has to come here.
    if bytes == 0 || keep.is_zero() {
        node.spare_unread();
    }
    node
}

/// How many files a daemon has open beside its clients, and some to spare.
const FILES: u64 = 64;

/// Has a write beyond the limit of the size of files fail like any other, where the kernel would end the process.
///
/// # Errors
/// Those of installing a handler.
pub fn outlive_file_limit() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).map(drop)
}

/// Each client is an open file, and many systems let a process open no more than 1,024 unless it asks for more.
pub fn open_many_files(clients: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, files = current, "no more clients than this process may open files");
    }
    if let Some(files) = maximum.filter(|files| *files < clients as u64 + FILES) {
        tracing::warn!(
            files,
            clients,
            "this process may not open a file for each client: raise its limit (`ulimit -n`, LimitNOFILE), or lower `most` below [clients]"
        );
    }
}

fn card(dir: &RuntimeDir, settings: &Settings) -> Card {
    let node = settings.ring.me.0;
    Card {
        pid: std::process::id(),
        node,
        cluster: settings.cluster.clone(),
        settings: settings.hash().to_string(),
        summary: settings.summary(),
        shared: settings.shared(),
        socket: dir.socket_file(node),
        listen: settings.listen.iter().map(ToString::to_string).collect(),
    }
}

/// Daemons of one cluster with different settings would ignore each other for ever: better not to start.
fn check_siblings(dir: &RuntimeDir, mine: &Card) -> Outcome {
    match dir.running().into_iter().find(|other| other.node != mine.node && other.settings != mine.settings) {
        None => Ok(()),
        Some(other) => Err(Failure::usage(format!(
            "node {} of cluster `{}` runs here with other settings, so the two would never talk.\n{}\
             Start all with the same options, or another cluster with --cluster NAME",
            other.node,
            mine.cluster,
            differences(&other.shared, &mine.shared)
        ))),
    }
}

/// Each setting that differs, on a line of its own.
fn differences(theirs: &[(String, String)], mine: &[(String, String)]) -> String {
    let of = |all: &[(String, String)], key: &str| {
        all.iter().find(|(name, _)| name == key).map_or_else(|| "nothing".to_owned(), |(_, value)| value.clone())
    };
    let keys: BTreeSet<&str> = theirs.iter().chain(mine).map(|(key, _)| key.as_str()).collect();
    let differ = keys.into_iter().filter(|key| of(theirs, key) != of(mine, key));
    differ.map(|key| format!("  {key}: it has {}, asked is {}\n", of(theirs, key), of(mine, key))).collect()
}

/// Whether clients may do everything.
fn tell_rules(policy: &ClientPolicy) {
    let (rules, tokens, proven) = (policy.rules.len(), policy.tokens.len(), policy.tcp_proves);
    match rules {
        0 => tracing::info!(tokens, proven, "clients may do everything: there are no rules in [[rights]]"),
        _ => tracing::info!(target: "consort::audit", rules, tokens, proven, "clients may do what rules allow"),
    }
}

/// Whether what daemons say to each other is sealed.
fn tell_seals(settings: &Settings, keys: Option<&KeyRing>) {
    match keys {
        Some(keys) => {
            let epochs: Vec<_> = keys.epochs().map(|epoch| epoch.to_string()).collect();
            tracing::info!(seals_with = %keys.sealing(), opens = epochs.join(" "), "datagrams between daemons are sealed");
        }
        None if settings.is_exposed() => tracing::warn!(
            "datagrams between daemons travel plain: whoever reaches their ports can read and forge them; `consort keygen` \
             writes a key for [security]"
        ),
        None => tracing::info!("datagrams between daemons travel plain, on this machine alone"),
    }
}

fn warn_of_open_listeners(settings: &Settings) {
    //= S42
    let spread = settings.spread.iter().map(|listener| &listener.address);
    for address in settings.listen.iter().chain(spread).filter(|address| !address.ip().is_loopback()) {
        tracing::warn!(
            "clients are served at {address}: what they say is not encrypted, and whoever reaches it may speak"
        );
    }
    if let Some(address) = settings.metrics.filter(|address| !address.ip().is_loopback() && !settings.metrics_tls) {
        tracing::warn!("metrics are told at {address}: they are not encrypted, and whoever reaches it may read them");
    }
}

fn net_options(settings: &Settings, card: &Card, incarnation: Incarnation) -> Outcome<NetOptions> {
    let mine = settings.mine()?;
    let mut options = NetOptions::new(mine.id, Vec::new(), UNUSED, mine.interface);
    options.networks = networks(settings, &mine);
    options.listeners = vec![ListenAddress::Unix(card.socket.clone())];
    options.users.clone_from(&settings.users);
    options.listeners.extend(settings.listen.iter().copied().map(ListenAddress::Tcp));
    if let Some(spread) = &settings.spread {
        options.spread_listeners.extend(spread.unix.clone().map(ListenAddress::Unix));
        options.spread_listeners.push(ListenAddress::Tcp(spread.address));
    }
    options.links = matches!(settings.protocol, Protocol::Paxos | Protocol::MultiRingPaxos);
    options.datagram = settings.ring.datagram;
    options.idling = settings.profile.waiting();
    options.scheduling = settings.scheduling;
    options.receive_buffer = settings.receive_buffer;
    options.shared_memory = settings.shared_memory;
    options.filter_sources = settings.filter_sources;
    options.client_host_timeout = settings.client_host_timeout;
    options.probe_paths = settings.probe_paths;
    options.shared = settings.shared();
    options.records = votes::records(settings, card.node, incarnation)?;
    let home = incarnation::home(settings.state.as_deref(), &settings.cluster, card.node);
    options.key_epoch = home.as_ref().map(|home| home.join(format!("node-{}.key-epoch", card.node)));
    options.spool = home.map(|home| home.join(format!("node-{}.spool", card.node)));
    Ok(options)
}

/// In place of a group where there is none.
const UNUSED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// The networks that this node stands in: that of all nodes, where the protocol has no several ones.
fn networks(settings: &Settings, mine: &NodeAddress) -> Vec<NetworkOptions> {
    let network = |number, nodes: &[NodeAddress], multicast: Option<SocketAddrV4>| NetworkOptions {
        number,
        peers: nodes.iter().map(|node| Peer { node: node.id, token: node.token, data: node.data }).collect(),
        multicast: multicast.unwrap_or(UNUSED),
        interface: nodes.iter().find(|node| node.id == mine.id).map_or(mine.interface, |node| node.interface),
        fanout: if multicast.is_some() { Fanout::Auto } else { Fanout::Unicast },
    };
    let several = settings.all_networks();
    if several.is_empty() {
        return vec![network(0, &settings.nodes, settings.multicast)];
    }
    let own = several.iter().filter(|network| network.has(mine.id));
    own.map(|own| network(own.id, &own.nodes, own.multicast)).collect()
}

/// Adds what only this program knows: where ports and paths come from.
fn explain(error: &BindError, settings: &Settings) -> Failure {
    let remedy = match error {
        BindError::InUse { role, .. } if *role != SocketRole::Clients && !settings.from_file => {
            ". Addresses follow from the cluster's name: --cluster NAME gives others"
        }
        BindError::Interface { .. } if !settings.networks.is_empty() => {
            "; name one of them by `interface` below [[network.node]], or do without: multicast = \"off\" below [[network]]"
        }
        BindError::Interface { .. } if settings.from_file => {
            "; name one of them by `interface` below the node, or do without: multicast = \"off\" at the top"
        }
        BindError::Journal(OpenError::Kept { .. } | OpenError::Damaged { .. })
            if settings.protocol == Protocol::Paxos =>
        {
            "; `consort abandon` moves a node's votes away"
        }
        BindError::PathTooLong { .. } => "; CONSORT_RUNTIME_DIR names another directory",
        _ => "",
    };
    Failure::new(format!("{error}{remedy}"))
}

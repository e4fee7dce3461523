//! Opening the sockets of a node.
use crate::error::{BindError, SocketRole, refused};
use crate::links;
use crate::listeners::Listener;
use crate::membership;
use crate::options::{Dialect, Fanout, ListenAddress, NetworkOptions, Options, Peer};
use crate::{probe, sources, sys};
use bytes::Bytes;
use consort_journal::Journal;
use consort_types::{Incarnation, NodeId};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

/// The token's buffers, in bytes: a few tokens and control packets.
const TOKEN_BUFFER: usize = 1 << 20;
/// The send buffer for data, in bytes: one visit of the token at full speed.
const SEND_BUFFER: usize = 4 << 20;
/// The bytes of an IPv4 header and a UDP header.
const HEADERS: usize = 20 + 8;

/// How data to all leaves this node, and why so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanoutChoice {
    /// Whether by multicast; by unicast to each peer else.
    pub multicast: bool,
    /// What was seen, or that it was configured so.
    pub why: String,
}

/// Every socket of a node, bound and ready to run.
///
/// With [`Fanout::Auto`] a datagram is sent to the group from the data socket at start, and must come back on the group
/// socket within 200 ms. That proves that this machine's kernel lets the group be joined on that interface, routes to it
/// there and loops back, so that daemons on this machine reach each other. Whether a switch forwards the group to other
/// machines is found while the node runs, by what the others say of the probes of path MTU discovery: a node that does not
/// get what is multicast is sent data by unicast. A node that sends by unicast still listens to the group.
#[derive(Debug)]
pub struct Sockets {
    pub(crate) options: Options,
    /// As the options name them, in the same order.
    pub(crate) networks: Vec<NetworkSockets>,
    pub(crate) listeners: Vec<(Listener, Dialect)>,
    pub(crate) links: Option<mio::net::TcpListener>,
    pub(crate) journal: Option<Journal>,
    /// What the last incarnation of this process handed over.
    pub(crate) carried: Vec<Bytes>,
}

/// Those of one network.
#[derive(Debug)]
pub(crate) struct NetworkSockets {
    pub(crate) token: Socket,
    pub(crate) data: Socket,
    pub(crate) group: Option<Socket>,
    pub(crate) reach: FanoutChoice,
    /// The kernel drops what comes from addresses that are no node's.
    pub(crate) filters_sources: bool,
}

/// A listener, where it is needed. Spread's Unix socket is in a directory that all users share: a process that has taken its
/// name disturbs only those clients that look for it there.
fn listen((address, dialect): (&ListenAddress, Dialect)) -> Option<Result<(Listener, Dialect), BindError>> {
    match Listener::open(address, dialect) {
        Ok(listener) => Some(Ok((listener, dialect))),
        Err(error) if dialect == Dialect::Spread && matches!(address, ListenAddress::Unix(_)) => {
            tracing::warn!(%error, "Spread clients are not served at this socket; those at the TCP port are");
            None
        }
        Err(error) => Some(Err(error)),
    }
}

impl Sockets {
    /// Binds everything that `options` names.
    ///
    /// # Errors
    /// [`BindError`] says which address, what is wrong with it, and what to do. Nothing stays bound.
    pub fn bind(mut options: Options) -> Result<Self, BindError> {
        check_peers(&options)?;
        let mut named = std::mem::take(&mut options.networks);
        let networks =
            named.iter_mut().map(|network| NetworkSockets::bind(&options, network)).collect::<Result<_, _>>()?;
        options.networks = named;
        let links = if options.links { options.own().map(|own| links::listen(own.token)).transpose()? } else { None };
        let native = options.listeners.iter().map(|address| (address, Dialect::Native));
        let all = native.chain(options.spread_listeners.iter().map(|address| (address, Dialect::Spread)));
        let mut listeners = all.filter_map(listen).collect::<Result<Vec<_>, _>>()?;
        if !options.users.is_empty() {
            listeners.iter_mut().try_for_each(|(listener, _)| listener.admit_all())?;
        }
        if let Some(tls) = &options.tls {
            listeners.push((Listener::open_tls(tls)?, Dialect::Native));
        }
        let journal = options.records.as_ref().map(Journal::open).transpose()?;
        let sockets = Self { options, networks, listeners, links, journal, carried: Vec::new() };
        sockets.report();
        Ok(sockets)
    }

    /// The incarnation that found the records to be a copy of what a daemon of this node wrote, so that they may be older
    /// than what it voted for since; 0 for none.
    pub fn records_copied_in(&self) -> Incarnation {
        self.journal.as_ref().map_or(Incarnation(0), Journal::copied)
    }

    /// Starts the engine with these, unless it finds records of its own: see [`RunError::Restart`](crate::RunError::Restart).
    pub fn carry(&mut self, records: Vec<Bytes>) {
        self.carried = records;
    }

    /// How many bytes of data may be on their way to this node before its kernel drops some: the receive buffer as the
    /// kernel granted it, less what the kernel needs for itself. An engine's windows should stay within it, in each network.
    pub fn receive_room(&self) -> usize {
        let datagram = self.options.datagram.get();
        let sockets = self.networks.iter().flat_map(|network| [Some(&network.data), network.group.as_ref()]);
        sockets.flatten().map(|socket| usable(socket, datagram)).min().unwrap_or(0)
    }

    /// How data to all leaves this node, in each of its networks.
    pub fn reach(&self) -> impl Iterator<Item = &FanoutChoice> {
        self.networks.iter().map(|network| &network.reach)
    }

    /// Where clients connect, those of Spread last, with the ports that the kernel chose where port 0 was asked for.
    pub fn listeners(&self) -> Vec<ListenAddress> {
        self.listeners.iter().map(|(listener, _)| listener.address()).collect()
    }

    /// How data leaves into each network, where there are several.
    pub(crate) fn network_facts(&self) -> Vec<(u8, String)> {
        let how = |(named, bound): (&NetworkOptions, &NetworkSockets)| {
            let way = match bound.reach.multicast {
                true => format!("multicast {} by {}", named.multicast, named.interface),
                false => format!("unicast: {}", bound.reach.why),
            };
            (named.number, way)
        };
        let all = self.options.networks.iter().zip(&self.networks);
        all.filter(|(named, _)| named.number > 0).map(how).collect()
    }

    fn report(&self) {
        let Options { me, receive_buffer, networks, .. } = &self.options;
        for (NetworkOptions { number, .. }, NetworkSockets { reach, .. }) in networks.iter().zip(&self.networks) {
            let network = Some(number).filter(|number| **number > 0);
            tracing::info!(node = %me, network, multicast = reach.multicast, why = %reach.why, "data to all");
        }
        let granted = self.networks.iter().map(|network| network.data.recv_buffer_size().unwrap_or(0) / 2).min();
        if let Some(granted) = granted.filter(|granted| granted < receive_buffer) {
            tracing::warn!(
                wanted = receive_buffer,
                granted,
                usable = self.receive_room(),
                "the kernel grants a smaller receive buffer than wanted; raise net.core.rmem_max, or expect losses at full speed"
            );
        }
        networks.iter().zip(&self.networks).for_each(|(named, bound)| self.report_cutting(named, bound));
    }

    /// IP cuts what does not fit one packet of the interface: dear, and one lost piece loses all.
    fn report_cutting(&self, named: &NetworkOptions, bound: &NetworkSockets) {
        let Options { me, datagram, .. } = &self.options;
        let own = named.peers.iter().find(|peer| peer.node == *me).map(|peer| peer.data.ip());
        let by_group = |address: Ipv4Addr| bound.reach.multicast && address == named.interface;
        let is_used = |address: Ipv4Addr| own == Some(address.into()) || by_group(address);
        for interface in sys::interfaces().into_iter().filter(|interface| is_used(interface.address)) {
            let Ok(mtu) = sys::mtu(bound.data.as_fd(), &interface.name) else { continue };
            if let Some(fitting) = fitting(datagram.get(), mtu) {
                tracing::warn!(
                    interface = %interface.name,
                    mtu,
                    datagram = datagram.get(),
                    fitting,
                    "datagrams do not fit one packet of the interface and are cut by IP, which costs much and loses more; set `datagram` to what fits, on all nodes, or raise the interface's MTU"
                );
            }
        }
    }
}

impl NetworkSockets {
    /// Binds those of a network; where the kernel chose ports, it learns them.
    fn bind(options: &Options, network: &mut NetworkOptions) -> Result<Self, BindError> {
        network.peers.sort_by_key(|peer| peer.node);
        let own = network.peers.iter_mut().find(|peer| peer.node == options.me);
        let own = own.ok_or(BindError::NotConfigured { me: options.me, peers: 0 })?;
        let token = unicast(SocketRole::Token, &mut own.token, TOKEN_BUFFER, TOKEN_BUFFER)?;
        let data = unicast(SocketRole::Data, &mut own.data, options.receive_buffer, SEND_BUFFER)?;
        let nodes = if options.filter_sources { sources::of(&network.peers) } else { None };
        let (group, reach) = open_group(options, network, &data, nodes.as_ref())?;
        let [first, second] = [&token, &data].map(|socket| sources::filter(socket, nodes.as_ref(), None));
        for socket in [Some(&token), Some(&data), group.as_ref()].into_iter().flatten() {
            socket.set_nonblocking(true).map_err(other("make a socket non-blocking"))?;
        }
        Ok(Self { token, data, group, reach, filters_sources: first && second })
    }
}

/// What fits one packet of an interface, in bytes of UDP payload, if a datagram of this size does not.
fn fitting(datagram: usize, mtu: usize) -> Option<usize> {
    let most = mtu.saturating_sub(HEADERS);
    (datagram > most).then_some(most)
}

fn check_peers(options: &Options) -> Result<(), BindError> {
    let mut addresses = BTreeSet::new();
    let me = options.me;
    for network in &options.networks {
        if !network.peers.iter().any(|peer| peer.node == me) {
            return Err(BindError::NotConfigured { me, peers: network.peers.len() });
        }
        let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
        for peer in &network.peers {
            check_peer(peer, &mut nodes, &mut addresses)?;
        }
    }
    if options.networks.is_empty() {
        return Err(BindError::NotConfigured { me, peers: 0 });
    }
    Ok(())
}

fn check_peer(
    peer: &Peer,
    nodes: &mut BTreeSet<NodeId>,
    addresses: &mut BTreeSet<SocketAddr>,
) -> Result<(), BindError> {
    if !nodes.insert(peer.node) {
        return Err(BindError::Twice { what: peer.node.to_string() });
    }
    for address in [peer.token, peer.data] {
        if address.port() != 0 && !addresses.insert(address) {
            return Err(BindError::Twice { what: address.to_string() });
        }
    }
    Ok(())
}

/// Binds a unicast socket; where the kernel chose the port, `address` learns it.
fn unicast(role: SocketRole, address: &mut SocketAddr, receive: usize, send: usize) -> Result<Socket, BindError> {
    let socket = udp(Domain::for_address(*address))?;
    socket.bind(&(*address).into()).map_err(|e| refused(role, *address, e))?;
    buffers(&socket, receive, send)?;
    let bound = socket.local_addr().map_err(other("read a socket's address"))?;
    *address = bound.as_socket().unwrap_or(*address);
    Ok(socket)
}

fn udp(domain: Domain) -> Result<Socket, BindError> {
    Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(other("make a UDP socket"))
}

fn buffers(socket: &Socket, receive: usize, send: usize) -> Result<(), BindError> {
    let set = |bytes, is_receive| sys::force_buffer(socket.as_fd(), bytes, is_receive);
    set(receive, true).and_then(|()| set(send, false)).map_err(other("size a socket's buffers"))?;
    sys::count_overflow(socket.as_fd()).map_err(other("count dropped datagrams"))
}

/// The group's socket if there is to be one, and how data to all leaves.
fn open_group(
    options: &Options,
    network: &NetworkOptions,
    data: &Socket,
    nodes: Option<&BTreeSet<Ipv4Addr>>,
) -> Result<(Option<Socket>, FanoutChoice), BindError> {
    if network.fanout == Fanout::Unicast {
        return Ok((None, FanoutChoice { multicast: false, why: "configured so".to_owned() }));
    }
    if !network.multicast.ip().is_multicast() {
        return Err(BindError::NotMulticast { group: network.multicast });
    }
    let usable = sys::interfaces();
    if !usable.is_empty() && !usable.iter().any(|i| i.address == network.interface) {
        return Err(interface(network, io::ErrorKind::AddrNotAvailable.into()));
    }
    let group = group_socket(options, network)?;
    let joined = membership::enter(network.multicast, network.interface, &group, data);
    let tried = match joined.map_err(|source| interface(network, source)) {
        Ok(()) => probe::multicast_works(data, network.multicast, &group),
        Err(error) if network.fanout == Fanout::Multicast => return Err(error),
        Err(error) => Err(error.to_string()),
    };
    let own = data.local_addr().ok().and_then(|address| address.as_socket_ipv4());
    sources::filter(&group, nodes, own.filter(|own| !own.ip().is_unspecified()));
    let reach = judge(network.fanout, tried)?;
    Ok((Some(group), reach))
}

fn judge(fanout: Fanout, tried: Result<(), String>) -> Result<FanoutChoice, BindError> {
    match tried {
        Ok(()) => Ok(FanoutChoice { multicast: true, why: "a datagram to the group came back".to_owned() }),
        Err(why) if fanout == Fanout::Multicast => Err(BindError::NoMulticast { why }),
        Err(why) => Ok(FanoutChoice { multicast: false, why }),
    }
}

/// The socket of the group, which it has not joined yet.
fn group_socket(options: &Options, network: &NetworkOptions) -> Result<Socket, BindError> {
    let group = network.multicast;
    let socket = udp(Domain::IPV4)?;
    // several daemons of one machine listen to the same group and port, each gets its copy
    socket.set_reuse_address(true).map_err(other("share the multicast port"))?;
    socket.bind(&group.into()).map_err(|e| refused(SocketRole::Multicast, group.into(), e))?;
    buffers(&socket, options.receive_buffer, TOKEN_BUFFER)?;
    socket.set_multicast_all_v4(false).map_err(|source| interface(network, source))?;
    Ok(socket)
}

fn interface(network: &NetworkOptions, source: io::Error) -> BindError {
    BindError::Interface { interface: network.interface, usable: sys::interfaces(), source }
}

/// How many bytes of datagrams of that length the socket's receive buffer holds, if they come one by one. Coalesced ones
/// fit better.
fn usable(socket: &Socket, datagram: usize) -> usize {
    let granted = socket.recv_buffer_size().unwrap_or(0) as u64;
    usize::try_from(granted * datagram as u64 / kernel_cost(datagram) as u64).unwrap_or(usize::MAX)
}

/// What the kernel charges to the receive buffer for one datagram, as measured on Linux 6: the bytes with their headers
/// in a power of two, and its own record; large ones in pages.
fn kernel_cost(datagram: usize) -> usize {
    const HEADERS: usize = 448;
    const RECORD: usize = 256;
    const PAGED: usize = 15_500;
    if datagram > PAGED { datagram + 1_100 } else { (datagram + HEADERS).next_power_of_two() + RECORD }
}

fn other(doing: &'static str) -> impl Fn(io::Error) -> BindError {
    move |source| BindError::Other { doing, source }
}

#[cfg(test)]
mod tests;

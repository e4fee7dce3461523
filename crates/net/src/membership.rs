//! A socket's membership in the multicast group of a network, kept while interfaces come and go.
//!
//! The kernel ties a membership to the interface that had the address when the group was joined. Where that interface is
//! made again, with the same name and address, the membership is of one that does not exist any more.
use crate::sys;
use socket2::{InterfaceIndexOrAddress, Socket};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

/// Joins the group at the interface with this address, and has `data` send to it there.
///
/// # Errors
/// The kernel's; of the kind `AddrInUse` where the socket is a member there already.
pub(crate) fn enter(group: SocketAddrV4, at: Ipv4Addr, socket: &Socket, data: &Socket) -> io::Result<()> {
    // First what has to be said again for another interface, because a member joins no second time.
    data.set_multicast_if_v4(&at)?;
    data.set_multicast_ttl_v4(1)?;
    data.set_multicast_loop_v4(true)?;
    socket.join_multicast_v4(group.ip(), &at)
}

/// The membership in the group of one network.
pub(crate) struct Membership {
    group: SocketAddrV4,
    at: Ipv4Addr,
    socket: Rc<Socket>,
    data: Rc<Socket>,
    state: State,
}

/// Whether the kernel lets the socket be a member, and of which interface it was one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Member { interface: Option<u32> },
    Out { last: Option<u32> },
}

/// What has become of it since it was looked last.
#[derive(Debug)]
pub(crate) enum Change {
    /// It was joined again.
    Joined,
    /// It cannot be, at present.
    Lost(io::Error),
}

impl Membership {
    /// Of this socket, which may have joined the group at the interface with this address; `data` sends to it.
    pub(crate) fn new(group: SocketAddrV4, at: Ipv4Addr, socket: Rc<Socket>, data: Rc<Socket>) -> Self {
        Self { group, at, socket, data, state: State::Member { interface: index(at) } }
    }

    /// Joins again where the membership is gone. To be called now and then: it costs four calls into the kernel.
    //= W16
    pub(crate) fn keep(&mut self) -> Option<Change> {
        let (was_member, last) = match self.state {
            State::Member { interface } => (true, interface),
            State::Out { last } => (false, last),
        };
        match enter(self.group, self.at, &self.socket, &self.data) {
            Ok(()) => {
                // What is left of the old interface counts against how many groups a socket may be in.
                if let Some(old) = last.filter(|old| index(self.at) != Some(*old)) {
                    let _ = self.socket.leave_multicast_v4_n(self.group.ip(), &InterfaceIndexOrAddress::Index(old));
                }
                self.state = State::Member { interface: index(self.at) };
                Some(Change::Joined)
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                self.state = State::Member { interface: last.or_else(|| index(self.at)) };
                (!was_member).then_some(Change::Joined)
            }
            Err(error) => {
                self.state = State::Out { last };
                was_member.then_some(Change::Lost(error))
            }
        }
    }

    pub(crate) const fn group(&self) -> SocketAddrV4 {
        self.group
    }

    pub(crate) const fn at(&self) -> Ipv4Addr {
        self.at
    }
}

/// The index of the interface that has an address.
fn index(address: Ipv4Addr) -> Option<u32> {
    sys::interfaces().into_iter().find(|interface| interface.address == address).map(|interface| interface.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Protocol, Type};

    #[test]
    fn a_membership_that_is_gone_is_joined_again_and_one_without_an_interface_is_told_once() {
        //= W16 test
        let open = || Rc::new(Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap());
        let (group, lo) = (SocketAddrV4::new(Ipv4Addr::new(239, 1, 2, 3), 9), Ipv4Addr::LOCALHOST);
        let (socket, data) = (open(), open());
        enter(group, lo, &socket, &data).unwrap();
        let mut kept = Membership::new(group, lo, Rc::clone(&socket), data);
        assert!((0..3).all(|_| kept.keep().is_none()), "it is a member");
        socket.leave_multicast_v4(group.ip(), &lo).unwrap();
        assert!(matches!(kept.keep(), Some(Change::Joined)));
        kept.at = Ipv4Addr::new(203, 0, 113, 7);
        assert!(matches!(kept.keep(), Some(Change::Lost(_))), "no interface has that address");
        assert!(kept.keep().is_none());
        kept.at = lo;
        assert!(matches!(kept.keep(), Some(Change::Joined)), "whether or not the old membership is still there");
    }
}

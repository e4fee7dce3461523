//! The machine's interfaces.
use super::checked;
use std::ffi::CStr;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An interface of this machine that could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The kernel's number for it: another one where an interface is made again with the same name.
    pub index: u32,
}

/// The interfaces that are up and have an IPv4 address; empty if the kernel does not tell.
pub fn interfaces() -> Vec<Interface> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a place for one pointer.
    if checked(unsafe { libc::getifaddrs(&raw mut first) }).is_err() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut entry = first;
    // SAFETY: the list that getifaddrs made is linked by `ifa_next`, ends with null, and lives until it is freed below.
    while let Some(interface) = unsafe { entry.as_ref() } {
        found.extend(usable(interface));
        entry = interface.ifa_next;
    }
    // SAFETY: `first` came from getifaddrs and is freed once; nothing refers to the list any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

fn usable(entry: &libc::ifaddrs) -> Option<Interface> {
    if entry.ifa_addr.is_null() || entry.ifa_flags & libc::IFF_UP as u32 == 0 {
        return None;
    }
    // SAFETY: the address is not null; every kind of address begins with its family.
    if i32::from(unsafe { (*entry.ifa_addr).sa_family }) != libc::AF_INET {
        return None;
    }
    // SAFETY: the family says that this is an IPv4 address; the list may not be aligned for it, so it is copied.
    let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
    // SAFETY: names of interfaces are C strings that live as long as the list.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    Some(Interface {
        name: name.to_string_lossy().into_owned(),
        address: Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)),
        // SAFETY: the name is a C string; an interface that has just vanished has index 0.
        index: unsafe { libc::if_nametoindex(entry.ifa_name) },
    })
}

/// How many bytes of one IP packet leave through an interface uncut. Any socket will do to ask.
pub(crate) fn mtu(socket: BorrowedFd<'_>, interface: &str) -> io::Result<usize> {
    // SAFETY: the request is plain data, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the name ends with a zero, and the request lives through the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) })?;
    // SAFETY: this is what the call has filled in.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn the_loopback_interface_is_found() {
        assert!(interfaces().iter().any(|i| i.address == Ipv4Addr::LOCALHOST), "{:?}", interfaces());
    }

    #[test]
    fn the_kernel_tells_how_much_an_interface_carries() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let lo = interfaces().into_iter().find(|i| i.address == Ipv4Addr::LOCALHOST).unwrap();
        let told: usize =
            std::fs::read_to_string(format!("/sys/class/net/{}/mtu", lo.name)).unwrap().trim().parse().unwrap();
        assert_eq!(mtu(socket.as_fd(), &lo.name).unwrap(), told);
        assert!(mtu(socket.as_fd(), "no such interface").is_err());
    }
}

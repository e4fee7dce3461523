//! The machine's interfaces.
use super::checked;
use crate::error::Interface;
use std::ffi::CStr;
use std::net::Ipv4Addr;

/// The interfaces that are up and have an IPv4 address; empty if the kernel does not tell.
pub(crate) fn interfaces() -> Vec<Interface> {
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found() {
        assert!(interfaces().iter().any(|i| i.address == Ipv4Addr::LOCALHOST), "{:?}", interfaces());
    }
}

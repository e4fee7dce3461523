//! A raw multicast, as it is handed to the processes that take part.
use consort_net::raw::Flood;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// What is flooded.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct FloodPlan {
    pub group: SocketAddrV4,
    pub sender: SocketAddr,
    /// Bytes of each datagram.
    pub size: usize,
    /// Whether super-packets are sent, and whether they are received.
    pub gso: bool,
    pub gro: bool,
    pub receivers: usize,
    pub limit: Duration,
    pub run: u64,
}

impl FloodPlan {
    /// In the driver's words: on the loopback interface.
    pub const fn flood(&self) -> Flood {
        Flood {
            group: self.group,
            interface: Ipv4Addr::LOCALHOST,
            sender: self.sender,
            size: self.size,
            gso: self.gso,
            gro: self.gro,
            receivers: self.receivers,
            limit: self.limit,
            run: self.run,
        }
    }
}

//! The floor: what these sockets do without any protocol, measured with the same calls.
//!
//! Each function runs one side in its own process and returns plain numbers; whoever compares a protocol with the floor
//! starts all sides, in the same run.
//!
//! *Hop*: [`measure_hops`] sends a datagram round a ring of processes, of which the others run [`pass_hops_on`]; the time
//! until it is back, through their number, is a hop: what a token needs from one node to the next at the very least, among
//! as many nodes that wait the same way.
//!
//! *Flood*: [`send_flood`] sends datagrams to a group as fast as all processes that run [`receive_flood`] take them, so
//! that none is lost for want of room.
//!
//! *Volley*: [`Volleys`] send many datagrams to one address with few calls, whoever receives them.

mod flood;
mod hop;
mod volley;

pub use flood::{Flood, Flooded, receive_flood, send_flood};
pub use hop::{HopRing, HopWait, measure_hops, pass_hops_on};
pub use volley::{Volley, Volleys};

#[cfg(test)]
mod tests;

//! The floor: what these sockets do without any protocol, measured with the same calls.
//!
//! Each function runs one side in its own process and returns plain numbers; whoever compares a protocol with the floor
//! starts both sides, in the same run.
//!
//! *Hop*: [`measure_hops`] sends a datagram to another process, which runs [`answer_hops`]; half of the time until it
//! is back is a hop, what a token needs from one node to the next at the very least.
//!
//! *Flood*: [`send_flood`] sends datagrams to a group as fast as all processes that run [`receive_flood`] take them, so
//! that none is lost for want of room.

mod flood;
mod hop;

pub use flood::{Flood, Flooded, receive_flood, send_flood};
pub use hop::{Waiting, answer_hops, measure_hops};

#[cfg(test)]
mod tests;

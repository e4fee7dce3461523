//! A network laboratory on one machine: nodes in network namespaces, each with a TAP device, and between them a switch in
//! this process that runs the simulator's own link model in real time. Kernels often lack netem; and so there is one
//! model of a bad network, in both worlds.
#![allow(clippy::disallowed_methods)] // a real clock and real threads are the point of it

mod fabric;
mod frame;
mod lab;
mod lines;
mod memory;
mod namespace;
mod options;
mod port;
mod switch;
#[cfg(test)]
mod tests;

pub use lab::{Lab, Plan};
pub use namespace::{LabError, Namespace};
pub use port::Port;
pub use switch::{Report, Switch};

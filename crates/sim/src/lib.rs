//! The simulator: virtual time, hosts, links and faults, all decided by one seed.

pub mod checkers;
pub mod digest;
pub mod fault;
mod host;
mod identify;
pub mod link;
mod lives;
pub mod machine;
pub mod message;
pub mod network;
pub mod plan;
mod recorder;
mod rest;
pub mod story;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod workload;
pub mod world;

pub use host::HostModel;

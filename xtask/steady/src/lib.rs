//! Nodes with real engines, driven by hand through steady traffic: what a token, a packet or a message costs, counted in
//! allocations by a test and in instructions by `cargo xtask instructions`. Nothing is left to chance, so that the same code
//! does the same each time.

mod metered_ring;
pub mod operations;
mod traffic;
mod world;

pub use metered_ring::MeteredRing;
pub use traffic::Traffic;
pub use world::{NODES, World};

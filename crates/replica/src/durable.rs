//! Durable copies on an order that forgets: each server keeps the log of its group on its own disk, and a command is answered
//! once a majority of them has synced it. The rules are in docs/protocols/replicas.md.
#[cfg(any(test, feature = "mutants"))]
mod broken;
mod disk;
mod engine;
mod log;
mod own;
mod said;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "mutants"))]
pub use broken::Mutant;
pub use disk::Disk;
pub use engine::{Effect, Engine, Settings};
pub(crate) use own::{OwnLog, Wanted};
pub use said::Said;

//! Durable copies on an order that forgets: each server keeps the log of its group on its own disk, and a command is answered
//! once a majority of them has synced it. The rules are in docs/protocols/replicas.md.
#[cfg(test)]
mod broken;
mod disk;
mod engine;
mod log;
mod own;
mod said;
#[cfg(test)]
mod tests;

pub(crate) use engine::Effect;
pub(crate) use own::{OwnLog, Wanted};
pub(crate) use said::Said;

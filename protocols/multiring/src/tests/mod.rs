//! Whole engines on rings of their own, judged by the promises of Extended Virtual Synchrony.
mod cluster;
mod loops;
#[cfg(feature = "mutants")]
mod mutants;
mod offers;
mod parts;
mod scenes;
mod seeds;

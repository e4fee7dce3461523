//! Tests, by theme.
mod cluster;
mod packets;
mod votes;

//! Tests of the program, as users run it: a file for each of its uses. One binary, so that what waits for daemons waits together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests run real processes")]
#![allow(clippy::duplicate_mod, reason = "each example brings along what they have in common")]

#[path = "support/cluster.rs"]
mod cluster;
mod support;
#[path = "support/zookeeper.rs"]
mod zookeeper;

mod async_client;
mod attacks;
mod command_line;
mod copies;
mod demo;
mod embedded;
mod examples;
mod kept;
mod kv;
mod leadership;
mod lists;
mod liveness;
mod log;
mod many;
mod metrics;
mod networks;
mod one_machine;
mod other_settings;
mod parted;
mod quorum;
mod reading;
mod records;
mod registry;
mod replica;
mod rights;
mod rings;
mod roaming;
mod rotation;
mod scheduling;
mod sealed;
mod sessions;
mod shared_memory;
mod slow_members;
mod spread_listener;
mod state_directory;
mod stops;
mod tls;
mod truth;
mod users;
mod wait_causes;

//! The simulator: virtual time, hosts, links and faults, all decided by one seed.

pub mod link;

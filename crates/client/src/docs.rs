//! The library in four chapters: what there is, how to send, how to receive, and what can fail.
//!
//! - [`concepts`]: daemons, clients, groups, views, places, and which client to take.
//! - [`sending`]: service levels, credit, batches, fates, values.
//! - [`receiving`]: events, group views, offers, reading by position, streams.
//! - [`failing`]: what a lost daemon, a slow program and a parted network look like.
//!
//! The modules are empty: they are pages.

#[doc = include_str!("docs/concepts.md")]
pub mod concepts {}

#[doc = include_str!("docs/sending.md")]
pub mod sending {}

#[doc = include_str!("docs/receiving.md")]
pub mod receiving {}

#[doc = include_str!("docs/failing.md")]
pub mod failing {}

//! The client library for C: what `include/consort.h` declares.
//!
//! | module | what |
//! |---|---|
//! | `codes` | the numbers that C sees |
//! | `border` | pointers in, pointers out, and no panic across |
//! | `failure`, `last` | what went wrong last on this thread, and what C may ask of it |
//! | `options`, `client`, `sending`, `receiving`, `reading` | functions on options and clients |
//! | `session` | functions on sessions over several daemons |
//! | `event`, `event_texts`, `place` | functions on events |
//!
//! `cbindgen` makes the header from these files; a test compares. What stands above a function here stands above it there.
#![allow(unsafe_code, reason = "C hands in pointers")]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![allow(non_camel_case_types, reason = "names are C's, so that one search finds both sides")]
#![allow(clippy::missing_safety_doc, reason = "the header says once for all what pointers must be")]

mod border;
mod client;
pub mod codes;
mod event;
mod event_texts;
mod failure;
mod last;
mod options;
mod place;
mod reading;
mod receiving;
mod sending;
mod session;
#[cfg(test)]
mod tests;

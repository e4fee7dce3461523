//! The client protocol, both ends, without I/O: frames, requests, events, credit.

mod limits;

pub use limits::Limits;

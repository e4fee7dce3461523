//! The client protocol, both ends, without I/O: frames, requests, events, credit.

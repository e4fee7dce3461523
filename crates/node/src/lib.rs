//! One page: session, group and engine wired together, still without I/O.

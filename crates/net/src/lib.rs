//! The real driver: clock, UDP multicast, client sockets, one event loop per node.

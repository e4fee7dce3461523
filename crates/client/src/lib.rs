//! The library programs use to talk to a Consort daemon.

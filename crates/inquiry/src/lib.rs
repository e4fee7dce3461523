//! Finding the daemons of this machine, asking them, and reading what they tell: for `consort` and `consort-top`.
//!
//! | module | what |
//! |---|---|
//! | [`connect`] | which daemon is meant |
//! | [`inquiry`] | a session that only asks: status, groups, clients |
//! | [`story`] | the last changes of the network, with their causes |

pub mod connect;
pub mod inquiry;
pub mod story;

use consort_daemon::{args, failure, peers, runtime_dir, words};

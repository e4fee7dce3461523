//! What a node's owner says of clients that do not read: the rules for groups, and what the disk has done for them.
use crate::{Bytes, ClientId, Engine, Instant, Node};
use consort_session::SlowRule;

impl<E: Engine> Node<E> {
    /// The same with what configuration says of groups: what is done about members that do not read.
    #[must_use]
    pub fn with_slow_rules(mut self, rules: Vec<SlowRule>) -> Self {
        self.clients.say_of_groups(rules);
        self
    }

    /// An [`Effect::Spool`](crate::Effect::Spool) of so many bytes is done.
    pub fn handle_spooled(&mut self, now: Instant, client: ClientId, n: usize) {
        self.notice(now);
        self.clients.spool_written(client, n);
    }

    /// An [`Effect::Unspool`](crate::Effect::Unspool) is done: these bytes were read.
    pub fn handle_unspooled(&mut self, now: Instant, client: ClientId, bytes: Bytes) {
        self.begin(now);
        self.clients.spool_read(client, bytes);
    }

    /// An [`Effect::Spool`](crate::Effect::Spool) or [`Effect::Unspool`](crate::Effect::Unspool) has failed, and why: the client is sent away.
    pub fn handle_spool_failure(&mut self, now: Instant, client: ClientId, why: &str) {
        self.begin(now);
        self.clients.spool_failed(client, why);
    }
}

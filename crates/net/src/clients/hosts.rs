//! Clients on other machines: whether these machines are there still.
//!
//! The kernel asks a machine of which nothing is heard, and gives it up (`SO_KEEPALIVE`). It does not ask while bytes are
//! under way, and goes on sending those for a quarter of an hour. `TCP_USER_TIMEOUT` would shorten that, but it also ends
//! connections to clients that are there and only do not read. So it is looked here what the kernel knows (`TCP_INFO`).
use super::{ClientConnections, ClientStream};
use crate::counters::DriverCounters;
use crate::options::CLIENT_HOST_TIMEOUT;
use consort_types::{ClientId, Instant};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

/// So often in the time that a machine may be silent it is looked.
const LOOKS: u32 = 4;
/// At most that many are looked at in one turn.
const AT_ONCE: usize = 64;

/// The clients that came over TCP.
#[derive(Debug)]
pub(super) struct ClientHosts {
    bound: Duration,
    /// Which had not answered when they were looked at last.
    all: BTreeMap<ClientId, bool>,
    /// When to look next, and behind whom.
    next: Instant,
    behind: Option<ClientId>,
}

impl Default for ClientHosts {
    fn default() -> Self {
        Self { bound: CLIENT_HOST_TIMEOUT, all: BTreeMap::new(), next: Instant::ZERO, behind: None }
    }
}

impl ClientHosts {
    pub(super) fn remove(&mut self, id: ClientId) {
        self.all.remove(&id);
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        (!self.all.is_empty()).then_some(self.next)
    }

    /// Whose turn it is. Between two looks at one client there is a while.
    fn turn(&mut self, now: Instant) -> Vec<ClientId> {
        if self.all.is_empty() || now < self.next {
            return Vec::new();
        }
        let from = self.behind.take().map_or(Bound::Unbounded, Bound::Excluded);
        let turn: Vec<_> = self.all.range((from, Bound::Unbounded)).map(|(id, _)| *id).take(AT_ONCE).collect();
        if turn.len() == AT_ONCE {
            self.behind = turn.last().copied();
        } else {
            self.next = now + self.bound / LOOKS;
        }
        turn
    }

    /// Whether a client is given up that has not answered for so long. Once is not enough: a machine that is asked after a
    /// long time has not answered yet.
    fn judge(&mut self, id: ClientId, unanswered: Option<Duration>) -> bool {
        let Some(before) = self.all.get_mut(&id) else { return false };
        let twice = std::mem::replace(before, unanswered.is_some()) && unanswered.is_some();
        let late = self.bound - self.bound / LOOKS;
        twice && unanswered.is_some_and(|silence| silence >= late)
    }
}

impl ClientConnections {
    /// Says for how long the machine of a client may answer nothing.
    pub(crate) const fn give_hosts(&mut self, bound: Duration) {
        self.hosts.bound = bound;
    }

    /// Has a new client's machine watched, if it is another one.
    pub(super) fn watch_host(&mut self, id: ClientId, stream: &ClientStream, now: Instant) {
        if !matches!(stream, ClientStream::Tcp(_)) {
            return;
        }
        if let Err(error) = stream.probe_host(self.hosts.bound) {
            tracing::warn!(client = %id, %error, "cannot have the kernel ask whether the client's machine is there");
        }
        if self.hosts.all.is_empty() {
            (self.hosts.next, self.hosts.behind) = (now + self.hosts.bound / LOOKS, None);
        }
        self.hosts.all.insert(id, false);
    }

    /// Closes the connections of those whose machines have answered nothing for too long.
    pub(crate) fn vanished(&mut self, now: Instant, counters: &mut DriverCounters) -> Vec<ClientId> {
        let mut gone = Vec::new();
        for id in self.hosts.turn(now) {
            let Some(client) = self.open.get(&id) else { continue };
            // What cannot be asked is broken; reading from it tells so.
            let unanswered = client.stream.unanswered_for().unwrap_or_default();
            if self.hosts.judge(id, unanswered) {
                let (who, silent_ms) = (client.stream.describe(), unanswered.unwrap_or_default().as_millis());
                tracing::info!(client = %id, who, silent_ms, "the client's machine does not answer");
                self.forget(id);
                gone.push(id);
            }
        }
        counters.clients_vanished += gone.len() as u64;
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Option<Duration> = Some(Duration::from_secs(5));

    fn hosts(count: u32) -> ClientHosts {
        ClientHosts { all: (1..=count).map(|n| (ClientId(n), false)).collect(), ..ClientHosts::default() }
    }

    #[test]
    fn who_is_silent_at_two_looks_and_for_long_is_given_up() {
        let mut hosts = hosts(1);
        let id = ClientId(1);
        assert!(!hosts.judge(id, SILENT), "it was asked just now, after a long time");
        assert!(!hosts.judge(id, None) && !hosts.judge(id, SILENT), "and had answered");
        assert!(hosts.judge(id, SILENT));
        let mut hosts = self::hosts(1);
        let brief = Some(Duration::from_secs(3));
        assert!((0..9).all(|_| !hosts.judge(id, brief)), "a lossy way");
        assert!(!hosts.judge(ClientId(2), SILENT), "nobody knows that one");
    }

    #[test]
    fn each_is_looked_at_once_in_a_while_however_many_there_are() {
        let (mut hosts, mut now) = (hosts(150), Instant::ZERO);
        for _ in 0..2 {
            let turns: Vec<_> = (0..4).map(|_| hosts.turn(now)).collect();
            assert_eq!(turns.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 22, 0]);
            assert!(turns.concat().iter().copied().eq((1..=150).map(ClientId)));
            assert_eq!(hosts.next_look(), Some(now + hosts.bound / LOOKS));
            now = hosts.next;
        }
        hosts.all.clear();
        assert_eq!((hosts.next_look(), hosts.turn(now).len()), (None, 0));
    }
}

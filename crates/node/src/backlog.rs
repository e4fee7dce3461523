//! How far clients are behind with reading, and how much more they can be told soon: what the ring is asked not to exceed.
//!
//! Without this a ring that orders faster than its clients read fills their outputs, and every message waits behind
//! megabytes. A client that hardly reads at all is not waited for: one of them would slow down everybody. Its output grows
//! until its own budget is used up.
use consort_types::{ClientId, Duration, Instant};
use std::collections::BTreeMap;

/// A client is behind while more than so many bytes wait for it.
const BEHIND: usize = 256 << 10;
/// With so many bytes waiting for a client that is worth waiting for, the ring is asked for as little as possible.
const FULL: usize = 768 << 10;
/// How often it is looked at.
const LOOK: Duration = Duration::from_micros(100);
/// A client that is behind and reads less than [`LEAST`] bytes in this time is not waited for.
const PERIOD: Duration = Duration::from_millis(100);
const LEAST: usize = 1 << 20;

/// The clients that are behind.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    behind: BTreeMap<ClientId, Behind>,
    looked: Instant,
    braking: bool,
}

#[derive(Debug, Default)]
struct Behind {
    waiting: usize,
    read: usize,
    /// When the present period began.
    since: Option<Instant>,
    /// It read too little in the last one.
    given_up: bool,
}

impl Backlog {
    /// So much waits for the client now.
    pub(crate) fn grew(&mut self, client: ClientId, waiting: usize) {
        if waiting > BEHIND {
            self.behind.entry(client).or_default().waiting = waiting;
        }
    }

    /// The client has taken `n` bytes; so much is left.
    pub(crate) fn read(&mut self, client: ClientId, n: usize, waiting: usize) {
        let Some(behind) = self.behind.get_mut(&client) else { return };
        behind.waiting = waiting;
        behind.read += n;
        if waiting <= BEHIND {
            self.behind.remove(&client);
        }
    }

    /// The client is no more.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.behind.remove(&client);
    }

    /// How many bytes all clients that are waited for can take soon, where that may have changed.
    pub(crate) fn look(&mut self, now: Instant) -> Option<usize> {
        if self.behind.is_empty() {
            return std::mem::take(&mut self.braking).then_some(usize::MAX);
        }
        if now < self.looked + LOOK {
            return None;
        }
        self.looked = now;
        let most = self.behind.values_mut().map(|behind| behind.look(now)).max();
        let room = most.filter(|most| *most > 0).map_or(usize::MAX, |most| FULL.saturating_sub(most));
        let was_braking = std::mem::replace(&mut self.braking, room < usize::MAX);
        (was_braking || self.braking).then_some(room)
    }

    /// How many clients are behind.
    pub(crate) fn len(&self) -> usize {
        self.behind.len()
    }
}

impl Behind {
    /// What waits for it, or nothing if it is not waited for.
    fn look(&mut self, now: Instant) -> usize {
        let since = *self.since.get_or_insert(now);
        if now.since(since) >= PERIOD {
            self.given_up = self.read < LEAST;
            (self.since, self.read) = (Some(now), 0);
        }
        if self.given_up { 0 } else { self.waiting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId(1);

    fn at(micros: u64) -> Instant {
        Instant(micros * 1_000)
    }

    #[test]
    fn room_shrinks_with_the_backlog_and_comes_back_once_it_is_read() {
        let mut backlog = Backlog::default();
        backlog.grew(CLIENT, BEHIND);
        assert_eq!((backlog.look(at(100)), backlog.len()), (None, 0));
        backlog.grew(CLIENT, BEHIND + 1);
        assert_eq!(backlog.look(at(200)), Some(FULL - BEHIND - 1));
        backlog.grew(ClientId(2), FULL + 1);
        assert_eq!(backlog.look(at(250)), None, "not looked at again so soon");
        assert_eq!(backlog.look(at(300)), Some(0));
        backlog.read(ClientId(2), FULL, 1);
        backlog.read(CLIENT, 1, BEHIND);
        assert_eq!([backlog.look(at(310)), backlog.look(at(900))], [Some(usize::MAX), None]);
    }

    #[test]
    fn who_hardly_reads_is_not_waited_for_until_it_reads_again() {
        let mut backlog = Backlog::default();
        backlog.grew(CLIENT, FULL);
        assert_eq!(backlog.look(at(100)), Some(0));
        backlog.read(CLIENT, LEAST - 1, FULL);
        assert_eq!(backlog.look(at(100_100)), Some(usize::MAX));
        assert_eq!(backlog.look(at(100_300)), None);
        backlog.read(CLIENT, LEAST, FULL);
        assert_eq!(backlog.look(at(200_200)), Some(0));
        backlog.forget(CLIENT);
        assert_eq!(backlog.look(at(200_210)), Some(usize::MAX));
    }
}

//! How far clients are behind with reading, and how much more they can be told soon: what the ring is asked not to exceed.
//!
//! Without this a ring that orders faster than its clients read fills their outputs, and every message waits behind
//! megabytes. But one client must not hold up everybody: it is waited for only while it reads at an eighth of the pace of
//! the ring or faster, and only for a backlog of the present. The output of one that is not waited for grows until its own
//! budget is used up.
use consort_types::{ClientId, Duration, Instant};
use std::collections::BTreeMap;

/// A client is behind while more than so many bytes wait for it.
const BEHIND: usize = 256 << 10;
/// With so many bytes waiting for a client that is worth waiting for, the ring is asked for as little as possible.
const FULL: usize = 768 << 10;
/// So much is no backlog of the present: it was left unread for long.
const OLD: usize = 4 * FULL;
/// How often it is looked at.
const LOOK: Duration = Duration::from_micros(100);
/// A client that is behind and reads less in this time than [`LEAST`] bytes, or than an eighth of what the ring orders, is
/// not waited for.
const PERIOD: Duration = Duration::from_millis(100);
const LEAST: usize = 1 << 20;
const SHARE: usize = 8;

/// The clients that are behind, or were a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    behind: BTreeMap<ClientId, Behind>,
    looked: Instant,
    braking: bool,
    pace: OrderingRate,
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

/// How many bytes the ring orders in a period when nobody holds it up.
#[derive(Debug, Default)]
struct OrderingRate {
    bytes: usize,
    ordered: usize,
    since: Instant,
    held_up: bool,
}

impl Backlog {
    /// So much was ordered.
    pub(crate) const fn ordered(&mut self, bytes: usize) {
        self.pace.ordered += bytes;
    }

    /// So much waits for the client now.
    pub(crate) fn grew(&mut self, client: ClientId, waiting: usize) {
        if waiting > BEHIND {
            self.behind.entry(client).or_default().waiting = waiting;
        }
    }

    /// The client has taken `n` bytes; so much is left.
    pub(crate) fn read(&mut self, client: ClientId, n: usize, waiting: usize) {
        if let Some(behind) = self.behind.get_mut(&client) {
            behind.waiting = waiting;
            behind.read += n;
        }
    }

    /// The client is no more.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.behind.remove(&client);
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.looked + LOOK
    }

    /// How many bytes all clients that are waited for can take soon, and no more than `most_room`, where that may have changed.
    pub(crate) fn look(&mut self, now: Instant, most_room: usize) -> Option<usize> {
        if !self.is_due(now) {
            return None;
        }
        self.looked = now;
        self.pace.look(now, self.braking);
        let least = LEAST.max(self.pace.bytes / SHARE);
        let most = self.behind.values_mut().map(|behind| behind.look(now, least)).max();
        self.behind.retain(|_, behind| behind.waiting > BEHIND || behind.since != Some(now));
        let room = most.filter(|most| *most > 0).map_or(usize::MAX, |most| FULL.saturating_sub(most)).min(most_room);
        let was_braking = std::mem::replace(&mut self.braking, room < usize::MAX);
        (was_braking || self.braking).then_some(room)
    }

    /// How many clients are behind.
    pub(crate) fn len(&self) -> usize {
        self.behind.values().filter(|behind| behind.waiting > BEHIND).count()
    }
}

impl Behind {
    /// What waits for it, or nothing if it is not waited for.
    fn look(&mut self, now: Instant, least: usize) -> usize {
        let since = *self.since.get_or_insert(now);
        if now.since(since) >= PERIOD {
            self.given_up = self.read < least;
            (self.since, self.read) = (Some(now), 0);
        }
        if self.given_up || self.waiting <= BEHIND || self.waiting > OLD { 0 } else { self.waiting }
    }
}

impl OrderingRate {
    /// A ring that is held up shows nothing of its pace; another one is forgotten by and by.
    fn look(&mut self, now: Instant, braking: bool) {
        self.held_up |= braking;
        let lasted = now.since(self.since);
        if lasted < PERIOD {
            return;
        }
        let periods = (lasted.as_micros() / PERIOD.as_micros()).max(1);
        let seen = self.ordered / usize::try_from(periods).unwrap_or(usize::MAX);
        let before = if self.held_up { self.bytes } else { self.bytes - self.bytes / SHARE };
        *self = Self { bytes: seen.max(before), since: now, ..Self::default() };
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
        assert_eq!((backlog.look(at(100), usize::MAX), backlog.len()), (None, 0));
        backlog.grew(CLIENT, BEHIND + 1);
        assert_eq!(backlog.look(at(200), usize::MAX), Some(FULL - BEHIND - 1));
        backlog.grew(ClientId(2), FULL + 1);
        assert_eq!(backlog.look(at(250), usize::MAX), None, "not looked at again so soon");
        assert_eq!(backlog.look(at(300), usize::MAX), Some(0));
        backlog.read(ClientId(2), FULL, 1);
        backlog.read(CLIENT, 1, BEHIND);
        assert_eq!(backlog.len(), 0);
        assert_eq!([backlog.look(at(410), usize::MAX), backlog.look(at(900), usize::MAX)], [Some(usize::MAX), None]);
    }

    #[test]
    fn who_hardly_reads_is_not_waited_for_until_it_reads_again() {
        let mut backlog = Backlog::default();
        backlog.grew(CLIENT, FULL);
        assert_eq!(backlog.look(at(100), usize::MAX), Some(0));
        backlog.read(CLIENT, LEAST - 1, FULL);
        assert_eq!(backlog.look(at(100_100), usize::MAX), Some(usize::MAX));
        assert_eq!(backlog.look(at(100_300), usize::MAX), None);
        backlog.read(CLIENT, LEAST, FULL);
        assert_eq!(backlog.look(at(200_200), usize::MAX), Some(0));
        backlog.forget(CLIENT);
        assert_eq!(backlog.look(at(200_300), usize::MAX), Some(usize::MAX));
    }

    /// What a ring that orders 100 MiB in a period if it may is told in each, while the client reads so much.
    fn rooms(backlog: &mut Backlog, from: u64, reads: usize) -> Vec<Option<usize>> {
        let mut held_up = false;
        let look = |period: u64| {
            backlog.ordered(if held_up { reads } else { 100 << 20 });
            backlog.grew(CLIENT, FULL);
            backlog.read(CLIENT, reads, BEHIND / 2);
            backlog.grew(CLIENT, FULL);
            let room = backlog.look(at(from + period * 100_000), usize::MAX);
            held_up = room == Some(0);
            room
        };
        (1..=20).map(look).collect()
    }

    #[test]
    fn who_reads_far_slower_than_the_ring_orders_is_not_waited_for_however_long_it_tries() {
        let mut backlog = Backlog::default();
        let slow = rooms(&mut backlog, 0, 2 << 20);
        assert!(slow[2..].iter().all(|room| *room != Some(0)), "{slow:?}");
        let fast = rooms(&mut backlog, 3_000_000, 20 << 20);
        assert!(fast[2..].iter().all(|room| *room == Some(0)), "{fast:?}");
    }

    #[test]
    fn what_was_left_unread_for_long_holds_nobody_up() {
        let mut backlog = Backlog::default();
        backlog.grew(CLIENT, OLD + 1);
        backlog.read(CLIENT, 10 * LEAST, OLD + 1);
        assert_eq!([backlog.look(at(100), usize::MAX), backlog.look(at(200_000), usize::MAX)], [None, None]);
        assert_eq!(backlog.len(), 1);
    }
}

//! Who of the clients waits, and what for: room in the engine, time for answers, room for a frame.
use super::Sessions;
use crate::clients::entry::ClientRecord;
use consort_types::{ClientId, Instant, OrderWait};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Clients that wait, by the numbers of their identities, which have their turns one after the other.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: BTreeMap<Option<usize>, VecDeque<ClientId>>,
    /// Whose turn was last.
    last: Option<usize>,
}

impl Turns {
    fn push(&mut self, identity: Option<usize>, client: ClientId) {
        self.waiting.entry(identity).or_default().push_back(client);
    }

    fn pop(&mut self) -> Option<ClientId> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let (next, _) = self.waiting.range(behind).next().or_else(|| self.waiting.first_key_value())?;
        self.last = *next;
        let clients = self.waiting.get_mut(&self.last)?;
        let client = clients.pop_front();
        if clients.is_empty() {
            self.waiting.remove(&self.last);
        }
        client
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

impl Sessions {
    /// Looks whether a client from which no whole frame is left has begun another, and whether there is room for it.
    pub(super) fn note_begun(&mut self, now: Instant, client: ClientId) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        match entry.session.begun() {
            Some(frame) => {
                entry.begun = true;
                entry.wants_room = !self.partial_frames.begin(now, client, frame);
            }
            None if entry.begun => {
                entry.begun = false;
                self.partial_frames.finish(client);
            }
            None => return,
        }
        self.make_room(now);
    }

    /// Has those go on for whose frames there is room again.
    pub(super) fn make_room(&mut self, now: Instant) {
        while let Some(client) = self.partial_frames.next_with_room(now) {
            if let Some(entry) = self.all.get_mut(&client) {
                entry.wants_room = false;
                self.pause(client);
            }
        }
    }

    /// Puts a client behind all others that wait for room.
    pub(crate) fn pause(&mut self, client: ClientId) {
        if self.set_paused(client) {
            self.paused.push_back(client);
        }
    }

    /// Puts a client behind all others of its identity whose questions wait for the next slice of answers.
    pub(crate) fn pause_asking(&mut self, client: ClientId) {
        if self.set_paused(client) {
            let identity = self.all.get(&client).and_then(|entry| entry.under_way.identity);
            self.asking.push(identity, client);
        }
    }

    /// Pauses a client that has sent as much as it may until then.
    pub(crate) fn pause_until(&mut self, until: Instant, client: ClientId) {
        if self.set_paused(client) {
            self.paused_until.insert((until, client));
        }
    }

    /// The same until what it needs is read here, which this keeps from being read.
    pub(crate) fn pause_unread(&mut self, until: Instant, client: ClientId, cause: Option<OrderWait>) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.unread_for = cause;
        }
        self.pause_until(until, client);
    }

    /// Pauses a client until it is taken up again.
    pub(crate) fn park(&mut self, client: ClientId) {
        self.set_paused(client);
    }

    /// Has one that was parked go on.
    pub(crate) fn unpark(&mut self, client: ClientId) {
        self.paused.push_back(client);
    }

    /// Those that may send again wait for room like others.
    pub(crate) fn end_pauses(&mut self, now: Instant) {
        while self.next_pause_end().is_some_and(|until| until <= now) {
            self.paused.extend(self.paused_until.pop_first().map(|(_, client)| client));
        }
    }

    /// When the first of them may.
    pub(crate) fn next_pause_end(&self) -> Option<Instant> {
        self.paused_until.first().map(|(until, _)| *until)
    }

    /// Whether it is one more that waits.
    fn set_paused(&mut self, client: ClientId) -> bool {
        let Some(entry) = self.all.get_mut(&client) else { return false };
        let newly = !std::mem::replace(&mut entry.paused, true);
        if newly {
            self.note(client);
        }
        newly
    }

    /// Whether somebody waits for room.
    pub(crate) fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Whether somebody's questions wait.
    pub(crate) fn has_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    /// The client that waited longest for room.
    pub(crate) fn next_paused(&mut self) -> Option<ClientId> {
        std::iter::from_fn(|| self.paused.pop_front()).find(|client| go_on(&mut self.all, *client))
    }

    /// The client whose questions waited longest, of the identity whose turn it is.
    pub(crate) fn next_asking(&mut self) -> Option<ClientId> {
        std::iter::from_fn(|| self.asking.pop()).find(|client| go_on(&mut self.all, *client))
    }
}

/// Takes a client's pause from it; false if it has gone.
fn go_on(all: &mut BTreeMap<ClientId, ClientRecord>, client: ClientId) -> bool {
    let entry = all.get_mut(&client);
    entry.map(|entry| (entry.paused, entry.unread_for) = (false, None)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_have_their_turns_however_many_of_one_wait() {
        let mut turns = Turns::default();
        (0..4).for_each(|client| turns.push(Some(1), ClientId(client)));
        turns.push(Some(2), ClientId(10));
        turns.push(None, ClientId(20));
        assert_eq!(turns.len(), 6);
        let order: Vec<_> = std::iter::from_fn(|| turns.pop()).map(|client| client.0).collect();
        assert_eq!(order, [0, 10, 20, 1, 2, 3]);
        assert!(turns.is_empty());
    }
}

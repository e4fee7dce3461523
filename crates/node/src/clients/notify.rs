//! What clients are told, and what becomes of those that do not read it.
use super::Sessions;
use crate::clients::client_session::{ClientSession, Telling};
use crate::clients::entry::ClientRecord;
use crate::mutant::mutated;
use bytes::BytesMut;
use consort_group::Numbered;
use consort_session::{Disconnect, DisconnectReason, PendingOffer, ProducerStatus, SHARED, Waits};
use consort_types::{ClientId, GroupName, Instant, OfferId, OrderWait};
use consort_wire::Bytes;

/// What looking at a client costs, counted as bytes copied.
const LOOK: usize = 16;

impl Sessions {
    pub(crate) fn tell_message(&mut self, client: ClientId, telling: &Telling<'_>) {
        self.counts.messages += telling.messages as u64;
        self.counts.message_bytes += telling.payload.len() as u64;
        let mut told = true;
        self.tell_with(client, |session| told = session.tell_message(telling));
        self.counts.untold += if told { 0 } else { telling.messages as u64 };
    }

    /// Whether a client's messages come with their position.
    pub(crate) fn wants_positions(&self, client: ClientId) -> bool {
        self.positioned.contains(&client)
    }

    /// Tells a reader a message.
    pub(crate) fn tell_read(&mut self, client: ClientId, telling: &Telling<'_>) {
        self.tell_in_turn(client, |session| session.tell_read(telling));
    }

    /// Tells a reader how its reading is.
    pub(crate) fn tell_reader(&mut self, client: ClientId, frames: &[u8]) {
        self.tell_in_turn(client, |session| session.tell(frames));
    }

    /// Tells one that is told no more than it reads: nobody waits for it, and it is not too slow.
    fn tell_in_turn(&mut self, client: ClientId, say: impl FnOnce(&mut ClientSession)) {
        //= G64
        let Some(entry) = self.all.get_mut(&client).filter(|entry| entry.session.is_open()) else { return };
        say(&mut entry.session);
        if entry.session.wakes() {
            self.writable.push_back(client);
        }
        entry.account(&mut self.outputs);
    }

    pub(crate) fn has_optimistic(&self) -> bool {
        !self.optimistic.is_empty()
    }

    pub(crate) fn is_optimistic(&self, client: ClientId) -> bool {
        self.optimistic.contains(&client)
    }

    pub(crate) fn tell_offer(&mut self, client: ClientId, now: Instant, offered: &PendingOffer) {
        self.counts.offers += 1;
        self.tell_with(client, |session| session.tell_offer(now, offered));
    }

    /// Takes an offer back from a client, if it has it.
    pub(crate) fn tell_revoke(&mut self, client: ClientId, now: Instant, offer: OfferId) {
        let mut revoked = false;
        self.tell_with(client, |session| revoked = session.tell_revoke(now, offer));
        self.counts.revokes += u64::from(revoked);
    }

    /// Tells a Spread client what was written for such.
    pub(crate) fn tell_membership(&mut self, client: ClientId, written: &Bytes) {
        self.tell_with(client, |session| session.tell_membership(written));
    }

    pub(crate) fn tell_self_leave(&mut self, client: ClientId, group: &GroupName) {
        self.tell_with(client, |session| session.tell_self_leave(group));
    }

    /// Tells a client how its producer is.
    pub(crate) fn tell_producer(&mut self, client: ClientId, status: &ProducerStatus) {
        self.tell_with(client, |session| session.tell_producer(status));
    }

    /// Tells a client that its producer is open: what it sends from here on is numbered.
    pub(crate) fn number(&mut self, client: ClientId, first: Numbered, opened: &ProducerStatus) {
        self.tell_with(client, |session| {
            session.number(first);
            session.tell_producer(opened);
        });
    }

    /// A client's multicasts are refused until its producer is opened again; it is told so once.
    pub(crate) fn end_numbering(&mut self, client: ClientId) {
        self.tell_with(client, |session| {
            if session.end_numbering() {
                session.tell_producer(&ProducerStatus::Ended);
            }
        });
    }

    pub(crate) fn tell(&mut self, client: ClientId, frames: &[u8]) {
        self.tell_with(client, |session| session.tell(frames));
    }

    /// The same for frames that other clients are told, too.
    pub(crate) fn tell_shared(&mut self, client: ClientId, frames: &Bytes) {
        self.tell_with(client, |session| session.tell_shared(frames));
    }

    /// Takes frames that clients are to share.
    pub(crate) fn keep(&self, frames: &mut BytesMut) -> Bytes {
        let kept = self.keep_all(Bytes::copy_from_slice(frames));
        frames.clear();
        kept
    }

    /// Counts frames that clients are to share, unless each copies them.
    pub(crate) fn keep_all(&self, frames: Bytes) -> Bytes {
        if frames.len() < SHARED { frames } else { self.pool.share(frames) }
    }

    /// What all that waits takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.outputs + if mutated!(self, SharedUncounted) { 0 } else { self.pool.bytes() }
    }

    /// What was done since the last call beside telling, counted as bytes copied.
    pub(crate) const fn take_work(&mut self) -> usize {
        std::mem::replace(&mut self.work, 0)
    }

    pub(super) fn tell_with(&mut self, client: ClientId, say: impl FnOnce(&mut ClientSession)) {
        let Some(entry) = self.all.get_mut(&client).filter(|entry| entry.session.is_open()) else { return };
        say(&mut entry.session);
        if entry.session.wakes() {
            self.writable.push_back(client);
        }
        entry.account(&mut self.outputs);
        //= S43
        let (waiting, messages) = (entry.session.output().len(), entry.session.messages_waiting());
        let from = entry.terms.from;
        self.backlog.grew(client, waiting);
        if let Some(most) = self.limits.spread_messages.filter(|most| messages > *most) {
            let text = format!("{messages} messages wait to be read; this daemon keeps {most} for a Spread client");
            self.end(client, &Disconnect::new(DisconnectReason::Slow, text));
        } else if waiting > from && self.on_behind(client) {
            // It was sent away for that.
        } else if self.memory() > self.limits.outputs_max {
            self.end_furthest_behind();
        }
    }

    /// All outputs together are too large: what the largest holds is given back. Those go first that were sent away for
    /// that already, and lose the frame that they had begun. Whoever has no more than its share stays.
    fn end_furthest_behind(&mut self) {
        let (memory, share) = (self.memory(), self.limits.outputs_max / self.all.len().max(1));
        self.work += self.all.len() * LOOK;
        let waiting = |entry: &ClientRecord| entry.session.output().in_memory();
        let mut largest = self.all.iter_mut().filter(|(_, entry)| waiting(entry) > share);
        let Some(first) = largest.next() else { return };
        let rank = |entry: &ClientRecord| (entry.cut, waiting(entry));
        let (client, entry) = largest.fold(first, |a, b| if rank(b.1) >= rank(a.1) { b } else { a });
        if entry.cut {
            let client = *client;
            return self.forget(client);
        }
        entry.cut = true;
        let text = format!(
            "{memory} bytes wait to be read by all clients, {} of them by this one; this daemon keeps {} for all",
            waiting(entry),
            self.limits.outputs_max
        );
        let farewell = Disconnect::new(DisconnectReason::Slow, text);
        if entry.session.is_closed() {
            entry.session.close(&farewell);
            entry.account(&mut self.outputs);
        } else {
            let client = *client;
            self.end(client, &farewell);
        }
    }

    pub(crate) fn tell_viewers(&mut self, frames: &Bytes) {
        let viewers = self.all.iter().filter(|(_, entry)| entry.session.wants_views()).map(|(client, _)| *client);
        let viewers: Vec<_> = viewers.collect();
        viewers.iter().for_each(|client| self.tell_shared(*client, frames));
    }

    /// Looks whose requests wait, and tells those that wait for long what for. Returns how long the longest waits.
    pub(crate) fn tell_waiting(&mut self, cause: Option<OrderWait>) -> Waits {
        let waiting = self.all.iter().filter(|(_, entry)| entry.paused || entry.session.outstanding() > 0);
        let waiting: Vec<_> = waiting.map(|(client, _)| *client).collect();
        let mut most = Waits::No;
        for client in waiting {
            let held = self.all.get(&client).and_then(|entry| entry.waits_for.or(entry.unread_for));
            let cause = held.or(cause);
            self.tell_with(client, |session| most = most.max(session.tell_waiting(cause)));
        }
        if let Some(cause) = cause.or_else(|| self.first_cause()).filter(|_| most == Waits::Long) {
            *self.counts.waits.entry(cause.name()).or_default() += 1;
        }
        most
    }

    /// Looks after a client whose session may have said something by itself.
    pub(super) fn note(&mut self, client: ClientId) {
        self.tell_with(client, |_| {});
    }
}

//! What a view changes: whose groups go on, and the exchange of what members know that came from elsewhere.
use super::apply::PendingWork;
use super::{GroupDelivery, Groups};
use crate::exchange::{Exchange, PartOutcome, ReceivedState};
use crate::ordered::{self, Ordered};
use bytes::Bytes;
use consort_types::{MemberId, Position, Primary, View, ViewKind};
use consort_wire::Malformed;

impl Groups {
    /// A view was installed.
    pub fn install(&mut self, view: &View) {
        debug_assert!(!self.has_work(), "changes are told before the next view");
        match view.kind {
            ViewKind::Transitional => self.close(view),
            ViewKind::Regular => self.begin(view),
        }
    }

    fn close(&mut self, view: &View) {
        //= G10
        self.closing = Some(view.members.clone());
        if crate::mutated!(self, ExchangeDropped) {
            self.forget_exchange();
        }
        self.digest_check.freeze();
        if !crate::mutated!(self, PrimaryKept) {
            self.primary = view.primary;
        }
        self.work.push_back(PendingWork::Primary { after: None });
        self.work.push_back(PendingWork::Closing { after: None });
    }

    /// All members have installed the view that is on: from this place of the order on it is primary.
    pub fn become_primary(&mut self) {
        //= G23
        debug_assert!(!self.has_work(), "changes are told before the next event");
        self.primary = Primary::Yes;
        // Else the groups that have not changed are told behind the exchange.
        if self.settled || crate::mutated!(self, PrimaryTooSoon) {
            self.work.push_back(PendingWork::Primary { after: None });
        }
    }

    /// What members are told of the view at this place: while the exchange goes on they do not know yet who is there.
    pub(crate) fn primary(&self) -> Primary {
        //= G22
        match self.primary {
            Primary::Yes if !self.settled && !crate::mutated!(self, PrimaryTooSoon) => Primary::Pending,
            primary => primary,
        }
    }

    fn begin(&mut self, view: &View) {
        self.forget_exchange();
        (self.view, self.changes, self.at) = (view.id, 0, Position::default());
        self.members.clone_from(&view.members);
        (self.settled, self.closing, self.primary) = (false, None, view.primary);
        self.took_history = false;
        self.digest_check.begin(view.id);
        self.narrow(&view.moved_together);
        let stay = if crate::mutated!(self, DeparturesFromView) { &self.members } else { &self.synced };
        let gone = self.table.take_clients_but(stay);
        self.work.push_back(PendingWork::Primary { after: None });
        self.work.push_back(PendingWork::Depart { clients: gone.into_iter(), current: None });
        let alone = self.members.iter().all(|member| self.synced.contains(member));
        self.producers.begin(view, &self.synced);
        if alone {
            //= G13
            self.work.push_back(PendingWork::Settle { heard: ReceivedState::default(), sets: Vec::new() });
        } else {
            self.counts.exchanges += 1;
            let set = self.synced.first().copied().unwrap_or(self.table.me());
            let speaks = set == self.table.me() && self.producers.of().is_some();
            #[allow(unused_mut)]
            let mut exchange = Exchange::new(view.id, &self.members, set, speaks);
            #[cfg(feature = "mutants")]
            if let Some(heard) = self.kept.take().filter(|_| crate::mutated!(self, PartialKept)) {
                exchange.keep(heard);
            }
            self.exchange = Some(exchange);
        }
    }

    /// Those fall out of the synced set that did not come along.
    fn narrow(&mut self, together: &[MemberId]) {
        //= G11
        let me = self.table.me();
        if crate::mutated!(self, SyncedWithAll) {
            self.synced = together.to_vec();
        }
        let stays = |member: &MemberId| *member == me || (together.contains(member) && self.members.contains(member));
        self.synced.retain(stays);
    }

    /// What an exchange that is not complete has heard is forgotten.
    fn forget_exchange(&mut self) {
        //= G16
        let _exchange = self.exchange.take();
        #[cfg(feature = "mutants")]
        if let Some(exchange) = _exchange {
            self.kept = Some(exchange.into_heard());
        }
    }

    /// Whether this daemon has another part to say, as soon as [`Self::advance`] has nothing more to do.
    pub fn has_part(&self) -> bool {
        self.exchange.as_ref().filter(|_| self.closing.is_none()).is_some_and(Exchange::has_part)
            || self.has_to_complete()
    }

    fn has_to_complete(&self) -> bool {
        //= E05
        let primary = self.primary == Primary::Yes && self.closing.is_none();
        self.producers.has_to_complete(primary && self.is_settled())
    }

    /// What this daemon has to say next in the exchange, or behind it: a control message of the agreed level.
    pub fn next_part(&mut self) -> Option<Bytes> {
        if self.has_to_complete() {
            return Some(ordered::complete(self.producers.complete()));
        }
        let (departed, producers) = (&self.departed, &self.producers);
        let exchange = self.exchange.as_mut().filter(|_| self.closing.is_none())?;
        exchange.next_part(&self.table, producers, |group| departed.contains_key(group))
    }

    /// Whether the history that counts is another than that of this daemon, as the exchange of this view has shown.
    pub const fn took_history(&self) -> bool {
        self.took_history
    }

    /// Whether all members of the view know the same and all was told: clients' messages may be sent.
    pub fn is_settled(&self) -> bool {
        //= G19
        (self.settled || crate::mutated!(self, ExchangeSkipped)) && !self.has_work()
    }

    pub(super) fn on_part(
        &mut self,
        sender: MemberId,
        part: Result<Ordered, Malformed>,
    ) -> Result<GroupDelivery<'_>, Malformed> {
        let Some(exchange) = &mut self.exchange else {
            return part.map(|_| GroupDelivery::Part);
        };
        let result = match part {
            Ok(Ordered::Part(mut part)) => {
                let synced = self.synced.contains(&sender);
                part.last |= crate::mutated!(self, FirstPartOnly);
                if crate::mutated!(self, PartsOfAnyView) {
                    part.view = self.view;
                }
                self.counts.parts_broken += u64::from(exchange.take(sender, part, synced) == PartOutcome::Broken);
                Ok(GroupDelivery::Part)
            }
            Ok(_) => Ok(GroupDelivery::Part),
            Err(malformed) => {
                exchange.give_up(sender);
                Err(malformed)
            }
        };
        if crate::mutated!(self, OwnPartOnly) && sender == self.table.me() {
            self.members.iter().for_each(|member| exchange.give_up(*member));
        }
        if let Some(mut heard) = exchange.complete() {
            self.exchange = None;
            let own = self.synced.first().copied().unwrap_or(self.table.me());
            let (taken, remembering) = heard.choose(own, crate::mutated!(self, LowestTableTaken));
            //= E29
            self.took_history = taken.as_ref().is_some_and(|taken| taken.of.is_some());
            self.producers.take(taken.filter(|_| !crate::mutated!(self, OwnTableKept)), remembering);
            let mut sets: Vec<_> = heard.sets.values().copied().collect();
            sets.sort_unstable();
            sets.dedup();
            self.work.push_back(PendingWork::Settle { heard, sets });
        }
        result
    }
}

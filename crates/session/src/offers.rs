//! Messages that one client was offered before their place was final, and was told nothing more of.
use crate::event;
use crate::limits::SMALL_FRAME;
use crate::output::FrameQueue;
use consort_types::{Instant, NodeId, OfferId, Service};
use consort_wire::Payload;
use std::collections::{BTreeMap, VecDeque};

/// Which offers a client lets be revoked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Undo {
    /// Any one: the others stay as they are. For programs that use messages one by one.
    #[default]
    Any,
    /// Only the latest that is still open, as from a stack: those behind the one to be revoked are revoked, too, the latest
    /// first, and offered again. For programs that undo step by step.
    Latest,
}

/// A message to be offered.
#[derive(Clone, Debug)]
pub struct PendingOffer {
    /// Names it in what follows.
    pub id: OfferId,
    /// Whoever does nothing with it before this time need not undo anything if it is revoked by then.
    pub free_until: Instant,
    /// Its sender's node.
    pub sender: NodeId,
    /// What the sender asked for.
    pub service: Service,
    /// The ordered multicast.
    pub multicast: Payload,
    /// Where in it that begins which receivers are told.
    pub told_at: usize,
}

/// How often a message is offered again because of another. Whoever was not offered what stands before it would else be told
/// all that it has on offer anew with each of those.
const AGAIN: u8 = 3;

/// What is open, in the order in which it was offered. Every offer has a number of its own, counted from 1.
#[derive(Debug)]
pub(crate) struct OpenOffers {
    undo: Undo,
    told: u64,
    /// Their numbers ascend.
    open: VecDeque<OpenOffer>,
    numbers: BTreeMap<OfferId, u64>,
}

#[derive(Debug)]
struct OpenOffer {
    number: u64,
    id: OfferId,
    /// What is needed to offer it again.
    again: Option<PendingOffer>,
    /// How often that was done.
    times: u8,
}

impl OpenOffers {
    pub(crate) const fn new(undo: Undo) -> Self {
        Self { undo, told: 0, open: VecDeque::new(), numbers: BTreeMap::new() }
    }

    /// Offers a message, unless it is on offer.
    pub(crate) fn offer(&mut self, out: &mut FrameQueue, now: Instant, offered: &PendingOffer) {
        self.put(out, now, offered, 0);
    }

    fn put(&mut self, out: &mut FrameQueue, now: Instant, offered: &PendingOffer, times: u8) {
        if self.position(offered.id).is_some() {
            return;
        }
        self.told += 1;
        event::put_offer(out.put(offered.multicast.len()), self.told, offered.free_until.since(now), offered);
        let again = (self.undo == Undo::Latest).then(|| offered.clone());
        self.numbers.insert(offered.id, self.told);
        self.open.push_back(OpenOffer { number: self.told, id: offered.id, again, times });
    }

    /// Offers again what was revoked because of another, but not for ever.
    fn put_again<'a>(&mut self, out: &mut FrameQueue, now: Instant, revoked: impl Iterator<Item = &'a OpenOffer>) {
        for open in revoked.filter(|open| open.times < AGAIN) {
            if let Some(again) = &open.again {
                self.put(out, now, again, open.times + 1);
            }
        }
    }

    /// Revokes the offer of a message, if it is on offer.
    pub(crate) fn revoke(&mut self, out: &mut FrameQueue, now: Instant, id: OfferId) -> bool {
        let Some(at) = self.position(id) else { return false };
        //= G43
        let Undo::Latest = self.undo else {
            self.remove(at).iter().for_each(|open| event::put_revoke(out.put(SMALL_FRAME), open.number));
            return true;
        };
        let behind = self.open.split_off(at + 1);
        for open in &behind {
            self.numbers.remove(&open.id);
        }
        let revoked = self.remove(at);
        behind.iter().rev().chain(&revoked).for_each(|open| event::put_revoke(out.put(SMALL_FRAME), open.number));
        self.put_again(out, now, behind.iter());
        true
    }

    /// Tells that a message is the next one of the order, whether it is on offer or not. Who undoes only the latest gets it
    /// before all that is on offer.
    pub(crate) fn confirm(&mut self, out: &mut FrameQueue, now: Instant, offered: &PendingOffer) {
        let first = self.open.front().is_none_or(|open| open.id == offered.id);
        let undone = if self.undo == Undo::Latest && !first { self.take() } else { VecDeque::new() };
        undone.iter().rev().for_each(|open| event::put_revoke(out.put(SMALL_FRAME), open.number));
        self.offer(out, now, offered);
        let confirmed = self.position(offered.id).and_then(|at| self.remove(at));
        confirmed.iter().for_each(|open| event::put_confirm(out.put(SMALL_FRAME), open.number));
        self.put_again(out, now, undone.iter().filter(|open| open.id != offered.id));
    }

    /// What is on offer, in the order in which it was offered.
    pub(crate) fn open(&self) -> impl Iterator<Item = OfferId> {
        self.open.iter().map(|open| open.id)
    }

    fn position(&self, id: OfferId) -> Option<usize> {
        let number = self.numbers.get(&id)?;
        self.open.binary_search_by_key(number, |open| open.number).ok()
    }

    fn remove(&mut self, at: usize) -> Option<OpenOffer> {
        let open = self.open.remove(at)?;
        self.numbers.remove(&open.id);
        Some(open)
    }

    fn take(&mut self) -> VecDeque<OpenOffer> {
        self.numbers.clear();
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frames, HEAD_LEN};
    use crate::{ClientName, DaemonEvent};
    use bytes::Bytes;
    use consort_group::ordered;
    use consort_types::{ClientId, Duration};

    const NOW: Instant = Instant(5_000_000);

    fn offered(id: u64) -> PendingOffer {
        let prefix = ordered::multicast_prefix(ClientId(9), &ClientName::new(b"bob").unwrap());
        let body = Bytes::from(format!("\0\x01\x01g{id}"));
        PendingOffer {
            id: OfferId(id),
            free_until: NOW + Duration::from_micros(100 * id),
            sender: NodeId(3),
            service: Service::Agreed,
            multicast: [prefix, body].into_iter().collect(),
            told_at: ordered::TOLD_AT,
        }
    }

    fn frames_of(out: &mut FrameQueue) -> Frames {
        let mut frames = Frames::new(1 << 20);
        out.pieces().for_each(|piece| frames.push(Bytes::copy_from_slice(piece)));
        out.written(out.len());
        frames
    }

    /// What a client reads in these bytes: `+1 a` for an offer with its number and text, `-1` for a revoke, `=1` for a confirm.
    fn read(out: &mut FrameQueue) -> Vec<String> {
        let mut frames = frames_of(out);
        std::iter::from_fn(|| {
            let head = frames.whole().unwrap()?;
            assert!(head.len > HEAD_LEN);
            Some(match DaemonEvent::decode(head.kind, frames.take_body(head)).unwrap() {
                DaemonEvent::Offer(offer) => {
                    format!("+{} {}", offer.number, String::from_utf8_lossy(offer.message.payload()))
                }
                DaemonEvent::Revoke(number) => format!("-{number}"),
                DaemonEvent::Confirm(number) => format!("={number}"),
                other => panic!("{other:?}"),
            })
        })
        .collect()
    }

    fn three(undo: Undo) -> (OpenOffers, FrameQueue) {
        let (mut offers, mut out) = (OpenOffers::new(undo), FrameQueue::default());
        (1..=3).for_each(|id| offers.offer(&mut out, NOW, &offered(id)));
        assert_eq!(read(&mut out), ["+1 1", "+2 2", "+3 3"]);
        (offers, out)
    }

    #[test]
    fn one_is_revoked_from_the_middle_and_the_others_stay() {
        let (mut offers, mut out) = three(Undo::Any);
        assert!(offers.revoke(&mut out, NOW, OfferId(2)));
        offers.offer(&mut out, NOW, &offered(2));
        [1, 3, 2].into_iter().for_each(|id| offers.confirm(&mut out, NOW, &offered(id)));
        assert_eq!(read(&mut out), ["-2", "+4 2", "=1", "=3", "=4"]);
        assert_eq!(offers.open().count(), 0);
    }

    #[test]
    fn those_behind_are_undone_with_it_the_latest_first_and_offered_again() {
        //= G43 test
        let (mut offers, mut out) = three(Undo::Latest);
        assert!(offers.revoke(&mut out, NOW, OfferId(2)));
        assert_eq!(read(&mut out), ["-3", "-2", "+4 3"]);
        assert!(offers.revoke(&mut out, NOW, OfferId(1)));
        assert_eq!(read(&mut out), ["-4", "-1", "+5 3"]);
        offers.confirm(&mut out, NOW, &offered(3));
        assert_eq!(read(&mut out), ["=5"]);
    }

    #[test]
    fn what_was_not_offered_is_offered_and_confirmed_at_once() {
        for undo in [Undo::Any, Undo::Latest] {
            let (mut offers, mut out) = (OpenOffers::new(undo), FrameQueue::default());
            offers.confirm(&mut out, NOW, &offered(7));
            assert_eq!(read(&mut out), ["+1 7", "=1"]);
        }
        let (mut offers, mut out) = three(Undo::Any);
        offers.confirm(&mut out, NOW, &offered(7));
        assert_eq!(read(&mut out), ["+4 7", "=4"]);
    }

    #[test]
    fn who_undoes_the_latest_only_gets_everything_in_the_order_of_its_confirms() {
        let (mut offers, mut out) = three(Undo::Latest);
        offers.confirm(&mut out, NOW, &offered(7));
        assert_eq!(read(&mut out), ["-3", "-2", "-1", "+4 7", "=4", "+5 1", "+6 2", "+7 3"]);
        offers.confirm(&mut out, NOW, &offered(2));
        assert_eq!(read(&mut out), ["-7", "-6", "-5", "+8 2", "=8", "+9 1", "+10 3"]);
        offers.confirm(&mut out, NOW, &offered(1));
        assert_eq!(read(&mut out), ["=9"]);
    }

    #[test]
    fn who_was_not_offered_what_goes_before_is_not_told_all_the_rest_anew_each_time() {
        //= G43 test
        let (mut offers, mut out) = (OpenOffers::new(Undo::Latest), FrameQueue::default());
        (1..=500).for_each(|id| offers.offer(&mut out, NOW, &offered(id)));
        (501..=1_000).for_each(|id| offers.confirm(&mut out, NOW, &offered(id)));
        (1..=500).for_each(|id| offers.confirm(&mut out, NOW, &offered(id)));
        let told = read(&mut out);
        assert!(told.len() <= 500 * 2 * (3 + usize::from(AGAIN)), "{}", told.len());
        assert_eq!(told.iter().filter(|told| told.starts_with('=')).count(), 1_000);
        assert_eq!(offers.open().count(), 0);
    }

    #[test]
    fn what_is_not_on_offer_is_not_revoked_and_nothing_is_offered_twice() {
        for undo in [Undo::Any, Undo::Latest] {
            let (mut offers, mut out) = three(undo);
            offers.offer(&mut out, NOW, &offered(2));
            offers.confirm(&mut out, NOW, &offered(1));
            assert!(!offers.revoke(&mut out, NOW, OfferId(7)) && !offers.revoke(&mut out, NOW, OfferId(1)));
            assert_eq!(read(&mut out), ["=1"]);
        }
    }

    #[test]
    fn the_time_that_is_left_is_told_and_none_once_it_is_over() {
        let (mut offers, mut out) = (OpenOffers::new(Undo::Any), FrameQueue::default());
        offers.offer(&mut out, NOW, &offered(1));
        offers.offer(&mut out, NOW + Duration::from_secs(1), &offered(2));
        let mut frames = frames_of(&mut out);
        for free in [Duration::from_micros(100), Duration::ZERO] {
            let head = frames.whole().unwrap().unwrap();
            let event = DaemonEvent::decode(head.kind, frames.take_body(head)).unwrap();
            assert!(matches!(event, DaemonEvent::Offer(offer) if offer.free == free));
        }
    }
}

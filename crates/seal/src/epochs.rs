//! Which key epochs are taken, while one follows another.
//!
//! Holding a key is not enough to take what is sealed with it: who hears nodes that do not hear it disturbs them. What a
//! node takes therefore follows what it has promised and adopted in the order; greetings alone are opened with any key.
use crate::keys::KeyEpoch;
use consort_types::{Duration, Instant, MemberId, NodeId};
use std::collections::BTreeSet;

/// So long the members of the view that adopted a key are still heard with the old one; then it is dropped.
pub const OLD_KEPT: Duration = Duration::from_secs(60);

/// What becomes of a datagram of an epoch, other than a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is taken.
    Yes,
    /// Its epoch is newer than the one in use, and nothing is promised.
    NotYet,
    /// Its epoch is older than the one in use, and its sender was no member of the view that adopted that.
    NoMore,
}

/// The epoch that was in use before.
#[derive(Clone, Debug)]
struct OldEpoch {
    epoch: KeyEpoch,
    until: Instant,
    members: BTreeSet<MemberId>,
}

/// The epochs of one start of a node.
#[derive(Clone, Debug)]
pub struct Epochs {
    in_use: KeyEpoch,
    promised: Option<KeyEpoch>,
    old: Option<OldEpoch>,
    /// The newest epoch that somebody was heard to seal with, who that was, and since when.
    newer: Option<(KeyEpoch, NodeId, Instant)>,
}

impl Epochs {
    /// A start that seals with this epoch.
    pub const fn new(in_use: KeyEpoch) -> Self {
        Self { in_use, promised: None, old: None, newer: None }
    }

    /// The epoch that is sealed with.
    pub const fn in_use(&self) -> KeyEpoch {
        self.in_use
    }

    /// Whether what a member seals in an epoch is taken.
    #[inline]
    pub fn judge(&self, epoch: KeyEpoch, from: MemberId, now: Instant) -> Taken {
        //= K06
        if epoch == self.in_use || self.promised == Some(epoch) {
            return Taken::Yes;
        }
        if epoch > self.in_use {
            return Taken::NotYet;
        }
        //= K05
        let old = self.old.as_ref().filter(|old| old.epoch == epoch && now < old.until);
        if old.is_some_and(|old| old.members.contains(&from)) { Taken::Yes } else { Taken::NoMore }
    }

    /// Something of an epoch was opened: who sealed it has adopted that.
    pub fn hear(&mut self, epoch: KeyEpoch, from: NodeId, now: Instant) {
        if epoch > self.in_use && self.newer.is_none_or(|(known, ..)| known < epoch) {
            self.newer = Some((epoch, from, now));
        }
    }

    /// The newest epoch that somebody seals with, who that is, and since when this is known; `None` if it is in use here.
    pub const fn newer(&self) -> Option<(KeyEpoch, NodeId, Instant)> {
        self.newer
    }

    /// What is sealed with this epoch is taken from here on.
    pub fn promise(&mut self, epoch: KeyEpoch) {
        self.promised = Some(epoch).filter(|epoch| *epoch > self.in_use).or(self.promised);
    }

    /// The promise is void: nobody will seal with it.
    pub fn release(&mut self) {
        self.promised = None;
    }

    /// From here on this epoch is sealed with. These are the members of the view that has adopted it: they may still say
    /// something in the old one. Returns the epoch before the old one, whose time is over.
    pub fn adopt(&mut self, epoch: KeyEpoch, members: &[MemberId], now: Instant) -> Option<KeyEpoch> {
        let until = now + OLD_KEPT;
        if epoch == self.in_use {
            // Others follow: they were behind, and are members now.
            if let Some(old) = &mut self.old {
                old.members.extend(members);
                old.until = until;
            }
            return None;
        }
        let old = OldEpoch { epoch: self.in_use, until, members: members.iter().copied().collect() };
        let dropped = self.old.replace(old).map(|before| before.epoch);
        *self = Self { in_use: epoch, promised: None, old: self.old.take(), newer: None };
        dropped
    }

    /// When the old key is to be dropped.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.old.as_ref().map(|old| old.until)
    }

    /// The old epoch, once its time is over.
    pub fn expire(&mut self, now: Instant) -> Option<KeyEpoch> {
        self.old.take_if(|old| old.until <= now).map(|old| old.epoch)
    }

    /// The epoch that was in use before, while it is kept.
    pub fn old(&self) -> Option<KeyEpoch> {
        self.old.as_ref().map(|old| old.epoch)
    }

    /// A key is gone, or is another one now.
    pub fn forget(&mut self, epoch: KeyEpoch) {
        self.promised = self.promised.filter(|promised| *promised != epoch);
        self.newer = self.newer.filter(|(newer, ..)| *newer != epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MemberId = MemberId::new(1, 7);
    const TWO: MemberId = MemberId::new(2, 7);

    fn epoch(number: u16) -> KeyEpoch {
        KeyEpoch::new(number).unwrap()
    }

    #[test]
    fn a_newer_epoch_is_taken_once_it_is_promised_and_not_before() {
        //= K06 test
        let mut epochs = Epochs::new(epoch(1));
        let judge = |epochs: &Epochs, number| epochs.judge(epoch(number), ONE, Instant::ZERO);
        assert_eq!((judge(&epochs, 1), judge(&epochs, 2)), (Taken::Yes, Taken::NotYet));
        epochs.promise(epoch(2));
        assert_eq!((judge(&epochs, 1), judge(&epochs, 2), judge(&epochs, 3)), (Taken::Yes, Taken::Yes, Taken::NotYet));
        epochs.release();
        assert_eq!(judge(&epochs, 2), Taken::NotYet);
        epochs.promise(epoch(2));
        epochs.forget(epoch(2));
        assert_eq!(judge(&epochs, 2), Taken::NotYet, "its key is another one now");
    }

    #[test]
    fn the_old_epoch_is_heard_of_members_for_a_minute_and_of_nobody_else() {
        //= K05 test
        let mut epochs = Epochs::new(epoch(1));
        let (start, end) = (Instant::ZERO, Instant::ZERO + OLD_KEPT);
        assert_eq!(epochs.adopt(epoch(2), &[ONE], start), None);
        let judge = |epochs: &Epochs, from, at| epochs.judge(epoch(1), from, at);
        assert_eq!((judge(&epochs, ONE, start), judge(&epochs, TWO, start)), (Taken::Yes, Taken::NoMore));
        assert_eq!((judge(&epochs, ONE, end), epochs.expire(start)), (Taken::NoMore, None));
        assert_eq!(epochs.adopt(epoch(2), &[ONE, TWO], start), None, "one that followed");
        assert_eq!(judge(&epochs, TWO, start), Taken::Yes);
        assert_eq!((epochs.poll_timeout(), epochs.expire(end)), (Some(end), Some(epoch(1))));
        assert_eq!(epochs.adopt(epoch(3), &[ONE], end), None);
        assert_eq!(epochs.adopt(epoch(4), &[ONE], end), Some(epoch(2)), "the next one ends it earlier");
    }

    #[test]
    fn it_is_remembered_who_seals_with_a_newer_epoch_until_that_is_adopted() {
        let mut epochs = Epochs::new(epoch(1));
        let later = Instant::ZERO + OLD_KEPT;
        epochs.hear(epoch(1), NodeId(1), Instant::ZERO);
        assert_eq!(epochs.newer(), None);
        epochs.hear(epoch(2), NodeId(1), Instant::ZERO);
        epochs.hear(epoch(2), NodeId(2), later);
        assert_eq!(epochs.newer(), Some((epoch(2), NodeId(1), Instant::ZERO)));
        epochs.adopt(epoch(2), &[ONE], later);
        assert_eq!((epochs.newer(), epochs.in_use()), (None, epoch(2)));
    }
}

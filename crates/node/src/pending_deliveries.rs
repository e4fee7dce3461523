//! Deliveries of the engine that clients have yet to be told of.
//!
//! Delivering to clients is done in slices, so that a flood of deliveries or of group changes does not keep the driver
//! from the token: after a slice the node answers `None` and asks to be woken at once.
use consort_order::{Delivery, EarlyDelivery};
use consort_types::{OfferId, Position, View, ViewId};
use std::collections::VecDeque;

/// How much may be told after one input, counted as bytes copied to clients.
const SLICE: usize = 256 << 10;
/// What telling anything costs beside its bytes.
const EACH: usize = 128;
/// Once so much waits, an engine with flow control is asked for less, and once all of [`FULL`], for as little as possible.
const SOME: usize = 1 << 20;
const FULL: usize = 8 << 20;
/// More than this does not wait: an engine that is faster all the same has to wait itself.
const WAITING_MAX: usize = 32 << 20;

/// Deliveries and views in their order.
#[derive(Debug, Default)]
pub(crate) struct PendingDeliveries {
    waiting: VecDeque<PendingDelivery>,
    bytes: usize,
    spent: usize,
    /// The most that was ever spent in a slice, but for those that had to make room.
    most: usize,
}

#[derive(Debug)]
pub(crate) enum PendingDelivery {
    /// What clients know it by, if it was offered.
    Deliver(Delivery, Option<OfferId>),
    Offer(EarlyDelivery),
    Revoke(OfferId),
    Install(View),
    Primary(ViewId),
    /// What stands here is for others.
    Passed(Position),
}

impl PendingDeliveries {
    /// A new input came: a new slice.
    pub(crate) const fn begin(&mut self) {
        self.spent = 0;
    }

    /// The most that was told in one slice.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// How many bytes of deliveries may wait here beside those that do; `usize::MAX` where there is no reason to ask.
    pub(crate) const fn room(&self) -> usize {
        if self.bytes < SOME { usize::MAX } else { FULL.saturating_sub(self.bytes) }
    }

    /// `bytes` were copied to clients.
    pub(crate) const fn spend(&mut self, bytes: usize) {
        self.spent += EACH + bytes;
        if self.spent > self.most && self.bytes <= WAITING_MAX {
            self.most = self.spent;
        }
    }

    /// Whether something may be told in this slice.
    pub(crate) const fn may_tell(&self) -> bool {
        self.spent < SLICE || self.bytes > WAITING_MAX
    }

    pub(crate) fn push(&mut self, up: PendingDelivery) {
        self.bytes += up.len();
        self.waiting.push_back(up);
    }

    pub(crate) fn pop(&mut self) -> Option<PendingDelivery> {
        let up = self.waiting.pop_front()?;
        self.bytes -= up.len();
        Some(up)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl PendingDelivery {
    fn len(&self) -> usize {
        match self {
            Self::Deliver(delivery, _) => EACH + delivery.payload.len(),
            Self::Offer(offer) => EACH + offer.delivery.payload.len(),
            Self::Install(view) => EACH + 32 * view.members.len(),
            Self::Revoke(_) | Self::Primary(_) | Self::Passed(_) => EACH,
        }
    }
}

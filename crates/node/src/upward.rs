//! What the engine has decided and clients were not told yet.
//!
//! Delivering to clients is done in slices, so that a flood of deliveries or of group changes does not keep the driver
//! from the token: after a slice the node answers `None` and asks to be woken at once.
use consort_order::{Delivery, Offer};
use consort_types::{OfferId, View, ViewId};
use std::collections::VecDeque;

/// How much may be told after one input, counted as bytes copied to clients.
const SLICE: usize = 256 << 10;
/// What telling anything costs beside its bytes.
const EACH: usize = 128;
/// More than this does not wait: an engine faster than its clients is slowed down instead.
const WAITING_MAX: usize = 8 << 20;

/// Deliveries and views in their order.
#[derive(Debug, Default)]
pub(crate) struct Upward {
    waiting: VecDeque<Up>,
    bytes: usize,
    spent: usize,
}

#[derive(Debug)]
pub(crate) enum Up {
    /// What clients know it by, if it was offered.
    Deliver(Delivery, Option<OfferId>),
    Offer(Offer),
    Revoke(OfferId),
    Install(View),
    Primary(ViewId),
}

impl Upward {
    /// A new input came: a new slice.
    pub(crate) const fn begin(&mut self) {
        self.spent = 0;
    }

    /// `bytes` were copied to clients.
    pub(crate) const fn spend(&mut self, bytes: usize) {
        self.spent += EACH + bytes;
    }

    /// Whether something may be told in this slice.
    pub(crate) const fn may_tell(&self) -> bool {
        self.spent < SLICE || self.bytes > WAITING_MAX
    }

    pub(crate) fn push(&mut self, up: Up) {
        self.bytes += up.len();
        self.waiting.push_back(up);
    }

    pub(crate) fn pop(&mut self) -> Option<Up> {
        let up = self.waiting.pop_front()?;
        self.bytes -= up.len();
        Some(up)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Up {
    fn len(&self) -> usize {
        match self {
            Self::Deliver(delivery, _) => EACH + delivery.payload.len(),
            Self::Offer(offer) => EACH + offer.delivery.payload.len(),
            Self::Install(view) => EACH + 32 * view.members.len(),
            Self::Revoke(_) | Self::Primary(_) => EACH,
        }
    }
}

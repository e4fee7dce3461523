//! Messages that came as one.
use super::decode::MessageFront;
use super::decode::read_placement;
use super::{BATCH, BorrowedMessage, Message, PLACED_BATCH, PLACED_BATCH_LEN, READ_BATCH};
use bytes::Bytes;
use consort_group::batch;
use consort_types::{Incarnation, NodeId, Service};
use consort_wire::Malformed;
use std::ops::Range;

/// A batch of which some messages were not taken yet.
#[derive(Debug)]
pub(crate) struct Batch {
    front: MessageFront,
    body: Bytes,
    at: usize,
}

impl Batch {
    /// Whether a frame of this kind is a batch.
    pub const fn is_one(kind: u8) -> bool {
        matches!(kind & 0xf0, BATCH | PLACED_BATCH)
            || kind & 0xf0 == READ_BATCH && Service::from_wire(kind & 0x0f).is_some()
    }

    /// Reads the body of a batch's frame; no message of it can be found bad later.
    ///
    /// # Errors
    /// [`Malformed`] says which field is wrong.
    pub fn decode(kind: u8, body: Bytes) -> Result<Self, Malformed> {
        if kind & 0xf0 == BATCH {
            return Self::decode_messages(kind, body);
        }
        let placement = Some(read_placement(kind, &body)?);
        let in_messages = |error: Malformed| Malformed { at: error.at + PLACED_BATCH_LEN, ..error };
        let mut batch = Self::decode_messages(kind, body.slice(PLACED_BATCH_LEN..)).map_err(in_messages)?;
        batch.front.placement = placement;
        Ok(batch)
    }

    fn decode_messages(kind: u8, body: Bytes) -> Result<Self, Malformed> {
        let front = MessageFront::read(kind, &body, batch::HEAD_LEN)?;
        batch::check(&body.clone().into(), front.name_end, front.targets_len)?;
        Ok(Self { front, body, at: front.name_end })
    }

    /// The next message; `None` behind the last.
    pub fn next(&mut self) -> Option<Message> {
        let (front, payload) = self.advance()?;
        Some(front.message(self.body.clone(), payload))
    }

    /// The same, to be looked at.
    pub fn next_borrowed(&mut self) -> Option<BorrowedMessage<'_>> {
        let (front, payload) = self.advance()?;
        Some(front.message(&self.body, payload))
    }

    /// Whether its messages were read by position.
    pub fn is_read(&self) -> bool {
        self.front.placement.is_some_and(|placement| placement.is_read)
    }

    #[inline]
    fn advance(&mut self) -> Option<(MessageFront, Range<usize>)> {
        let payload = batch::next(&self.body, self.at, self.front.targets_len)?;
        self.at = payload.end;
        let mut front = self.front;
        if let (Some(here), Some(ahead)) = (&mut front.placement, &mut self.front.placement) {
            ahead.place.index = ahead.place.index.saturating_add(1);
            // Behind the last one comes the next position.
            here.next = if self.at < self.body.len() { ahead.place } else { here.next };
        }
        Some((front, payload))
    }

    /// Adds which incarnation of its node has sent them, where it is known where they stand.
    pub fn sent_by(&mut self, incarnation: impl Fn(NodeId) -> Option<Incarnation>) {
        let node = self.front.sender.0;
        if let Some(placement) = &mut self.front.placement {
            placement.incarnation = incarnation(node);
        }
    }
}

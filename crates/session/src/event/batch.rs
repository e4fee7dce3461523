//! Messages that came as one.
use super::decode::MessageFront;
use super::{BATCH, Message};
use bytes::Bytes;
use consort_group::batch;
use consort_wire::Malformed;

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
        kind & 0xf0 == BATCH
    }

    /// Reads the body of a batch's frame; no message of it can be found bad later.
    ///
    /// # Errors
    /// [`Malformed`] says which field is wrong.
    pub fn decode(kind: u8, body: Bytes) -> Result<Self, Malformed> {
        let front = MessageFront::read(kind, &body, batch::HEAD_LEN)?;
        batch::check(&body.clone().into(), front.name_end, front.targets_len)?;
        Ok(Self { front, body, at: front.name_end })
    }

    /// The next message; `None` behind the last.
    pub fn next(&mut self) -> Option<Message> {
        let payload = batch::next(&self.body, self.at, self.front.targets_len)?;
        self.at = payload.end;
        Some(self.front.message(self.body.clone(), payload))
    }
}

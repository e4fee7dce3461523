//! The cluster's keys: a client of the daemon's owner asks that all daemons seal with the next one.
//!
//! | kind | frame | body |
//! |---|---|---|
//! | 20 | rotate | |
//! | e9 | rotated | cause (1), 0 where the key is adopted, epoch (2), 0 where none was proposed, the one in use with cause 3, text |
use crate::reason::RotationRefusalCause;
use crate::{frame, text};
use bytes::{BufMut, BytesMut};
use consort_wire::{Malformed, Reader};

pub(crate) const ROTATE: u8 = 0x20;
const ROTATED: u8 = 0xe9;

/// What became of the request that all daemons seal with the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationStatus {
    /// The epoch of that key; 0 where none was proposed, or, where there is none newer, the epoch in use.
    pub epoch: u16,
    /// Why it was not adopted; none where it was.
    pub refused: Option<RotationRefusal>,
}

/// Why the next key was not adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RotationRefusal {
    /// For programs.
    pub cause: RotationRefusalCause,
    /// For people: who or what is in the way, and what to do.
    pub text: String,
}

/// Appends the request that all daemons seal with the next key.
pub fn put_rotate(out: &mut BytesMut) {
    frame::put_head(out, ROTATE, 0);
}

impl RotationStatus {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        frame::put(out, ROTATED, |out| {
            out.put_u8(self.refused.as_ref().map_or(0, |refusal| refusal.cause as u8));
            out.put_u16(self.epoch);
            text::put(out, self.refused.as_ref().map_or("", |refusal| &refusal.text));
        });
    }

    /// Reads the body of a frame of this kind; none where it is another's.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if kind != ROTATED {
            return Ok(None);
        }
        let before = reader.clone();
        let (code, epoch) = (reader.u8("cause")?, reader.u16("epoch")?);
        let (cause, text) = (RotationRefusalCause::from_wire(code), text::read(reader, "text")?);
        let refused = match (code, cause) {
            (0, _) => None,
            (_, Some(cause)) => Some(RotationRefusal { cause, text }),
            _ => return Err(before.bad("cause")),
        };
        Ok(Some(Self { epoch, refused }))
    }
}

//! Checkpoints of programs: what one keeps by itself need not be retained for it.
//!
//! | kind | frame | body |
//! |---|---|---|
//! | 0f | declare | order (8), first position that is not kept yet (8), 0 where nothing is held any more, holder (1 + n) |
//! | 23 | declare under an epoch | order (8), first position that is not kept yet (8), holder (1 + n), epoch (8) |
//! | e8 | declared | cause (1), 0 where it stands, holder (1 + n), text |
use crate::reason::DeclareRefusalCause;
use crate::{frame, text};
use bytes::{BufMut, BytesMut};
use consort_group::targets::put_name;
use consort_types::{Holder, Position};
use consort_wire::{Malformed, Reader};

pub(crate) const DECLARE: u8 = 0x0f;
pub(crate) const DECLARE_BOUND: u8 = 0x23;
const DECLARED: u8 = 0xe8;

/// What a client declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclareRequest {
    /// The order that the position belongs to; 0 for whatever order there is.
    pub order: u64,
    /// Which copy of which program.
    pub holder: Holder,
    /// The first position that it has yet to keep; none where it holds nothing any more.
    pub from: Option<Position>,
    /// The epoch of the copy's binding, under which alone it counts; 0 for a holder that is not bound.
    pub epoch: u64,
}

impl DeclareRequest {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        let kind = if self.epoch == 0 { DECLARE } else { DECLARE_BOUND };
        frame::put(out, kind, |out| {
            out.put_u64(self.order);
            out.put_u64(self.from.map_or(0, |from| from.0));
            put_holder(&self.holder, out);
            if self.epoch != 0 {
                out.put_u64(self.epoch);
            }
        });
    }

    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let before = reader.clone();
        let (order, from) = (reader.u64("order")?, reader.u64("position")?);
        let (from, holder) = ((from > 0).then_some(Position(from)), read_holder(reader)?);
        if kind == DECLARE {
            return Ok(Self { order, holder, from, epoch: 0 });
        }
        let epoch = reader.u64("epoch")?;
        if epoch == 0 || from.is_none() {
            return Err(before.bad("checkpoint under an epoch"));
        }
        Ok(Self { order, holder, from, epoch })
    }
}

pub(crate) fn put_holder(holder: &Holder, out: &mut BytesMut) {
    put_name(holder.as_str().as_bytes(), out);
}

pub(crate) fn read_holder(reader: &mut Reader<'_>) -> Result<Holder, Malformed> {
    let before = reader.clone();
    let len = usize::from(reader.u8("holder")?);
    let name = std::str::from_utf8(reader.take(len, "holder")?).ok();
    name.and_then(|name| name.parse().ok()).ok_or(before.bad("holder"))
}

/// What became of a checkpoint that a client declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclareStatus {
    /// Whose it is.
    pub holder: Holder,
    /// Why it was not taken; none where it stands in the order.
    pub refused: Option<DeclareRefusal>,
}

/// Why a checkpoint was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DeclareRefusal {
    /// For programs.
    pub cause: DeclareRefusalCause,
    /// For people: what is wrong, and what to do.
    pub text: String,
}

impl DeclareStatus {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        frame::put(out, DECLARED, |out| {
            out.put_u8(self.refused.as_ref().map_or(0, |refusal| refusal.cause as u8));
            put_holder(&self.holder, out);
            text::put(out, self.refused.as_ref().map_or("", |refusal| &refusal.text));
        });
    }

    /// Reads the body of a frame of this kind; none where it is another's.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if kind != DECLARED {
            return Ok(None);
        }
        let before = reader.clone();
        let (code, holder) = (reader.u8("cause")?, read_holder(reader)?);
        let (cause, text) = (DeclareRefusalCause::from_wire(code), text::read(reader, "text")?);
        let refused = match (code, cause) {
            (0, _) => None,
            (_, Some(cause)) => Some(DeclareRefusal { cause, text }),
            _ => return Err(before.bad("cause")),
        };
        Ok(Some(Self { holder, refused }))
    }
}

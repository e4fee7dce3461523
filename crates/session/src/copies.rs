//! Copies of programs: what the order knows of them, and how a copy says that it starts.
//!
//! | kind | frame | body |
//! |---|---|---|
//! | 21 | copies | holder (1 + n): of whose program |
//! | 22 | bind | order (8), token (16), replaced epoch (8), first position that is not kept yet (8), copies (2), holder (1 + n), label (1 + n) |
//! | ea | copies | holder (1 + n), order (8), lasts (1), copies (2), began (8), first (8), last (8), held (8), budget (8), voters (2), count (2), seats |
//! | eb | bound | cause (1), 0 if it is bound, holder (1 + n), token (16), epoch (8), text |
//!
//! A seat has a holder (1 + n), its epoch (8), its token (16), the first position that is not kept yet (8), and a label (1 + n).
//! Checkpoints of copies that are bound are in [`crate::declaring`].
use crate::declaring::{put_holder, read_holder};
use crate::reason::BindRefusalCause;
use crate::{frame, text};
use bytes::{BufMut, BytesMut};
use consort_group::targets::put_name;
use consort_types::{Binding, Copies, Holder, Position, Seat};
use consort_wire::{Malformed, Reader};

pub(crate) const ASK_COPIES: u8 = 0x21;
pub(crate) const BIND: u8 = 0x22;
const COPIES: u8 = 0xea;
const BOUND: u8 = 0xeb;
/// The least bytes of a seat.
const SEAT_LEN: usize = 2 + 8 + 16 + 8 + 1;

/// Appends a question for the copies of a holder's program.
pub fn put_ask_copies(holder: &Holder, out: &mut BytesMut) {
    frame::put(out, ASK_COPIES, |out| put_holder(holder, out));
}

/// Appends a binding. Of a label that is too long the rest is left out.
pub fn put_bind(binding: &Binding, out: &mut BytesMut) {
    let Binding { order, holder, token, replaces, from, copies, label } = binding;
    let most = Binding::LABEL_MAX.min(label.len());
    let end = (0..=most).rev().find(|at| label.is_char_boundary(*at)).unwrap_or(0);
    frame::put(out, BIND, |out| {
        out.put_u64(*order);
        out.put_u128(*token);
        out.put_u64(*replaces);
        out.put_u64(from.0.max(1));
        out.put_u16(*copies);
        put_holder(holder, out);
        put_name(&label.as_bytes()[..end], out);
    });
}

pub(crate) fn read_bind(reader: &mut Reader<'_>) -> Result<Binding, Malformed> {
    let before = reader.clone();
    let (order, token, replaces) = (reader.u64("order")?, read_token(reader)?, reader.u64("epoch")?);
    let (from, copies) = (Position(reader.u64("position")?), reader.u16("copies")?);
    let (holder, label) = (read_holder(reader)?, read_label(reader)?);
    if token == 0 || from.0 == 0 || label.len() > Binding::LABEL_MAX {
        return Err(before.bad("binding"));
    }
    Ok(Binding { order, holder, token, replaces, from, copies, label })
}

fn read_token(reader: &mut Reader<'_>) -> Result<u128, Malformed> {
    Ok(u128::from(reader.u64("token")?) << 64 | u128::from(reader.u64("token")?))
}

fn read_label(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let before = reader.clone();
    let len = usize::from(reader.u8("label")?);
    std::str::from_utf8(reader.take(len, "label")?).map(str::to_owned).map_err(|_| before.bad("label"))
}

/// Appends what the order knows of the copies of a program.
pub fn put_copies(copies: &Copies, out: &mut BytesMut) {
    frame::put(out, COPIES, |out| {
        put_holder(&copies.holder, out);
        out.put_u64(copies.order);
        out.put_u8(u8::from(copies.lasts));
        out.put_u16(copies.copies);
        for position in [copies.began, copies.first, copies.last] {
            out.put_u64(position.0);
        }
        out.put_u64(copies.held);
        out.put_u64(copies.budget);
        out.put_u16(copies.voters);
        out.put_u16(u16::try_from(copies.seats.len()).unwrap_or(u16::MAX));
        for Seat { holder, epoch, token, from, label } in copies.seats.iter().take(usize::from(u16::MAX)) {
            put_holder(holder, out);
            out.put_u64(*epoch);
            out.put_u128(*token);
            out.put_u64(from.0);
            put_name(label.as_bytes(), out);
        }
    });
}

/// Reads the body of a frame of this kind; none where it is another's.
pub(crate) fn read_copies(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Copies>, Malformed> {
    if kind != COPIES {
        return Ok(None);
    }
    let (holder, order) = (read_holder(reader)?, reader.u64("order")?);
    let lasts = match reader.u8("lasts")? {
        0 => false,
        1 => true,
        _ => return Err(reader.bad("lasts")),
    };
    let copies = reader.u16("copies")?;
    let mut position = |what| reader.u64(what).map(Position);
    let (began, first, last) = (position("began")?, position("first")?, position("last")?);
    let (held, budget, voters) = (reader.u64("held")?, reader.u64("budget")?, reader.u16("voters")?);
    let seats = (0..reader.count(SEAT_LEN, "seats")?).map(|_| read_seat(reader)).collect::<Result<_, _>>()?;
    Ok(Some(Copies { holder, order, lasts, copies, began, first, last, held, budget, voters, seats }))
}

fn read_seat(reader: &mut Reader<'_>) -> Result<Seat, Malformed> {
    let (holder, epoch, token) = (read_holder(reader)?, reader.u64("epoch")?, read_token(reader)?);
    Ok(Seat { holder, epoch, token, from: Position(reader.u64("position")?), label: read_label(reader)? })
}

/// What became of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Of which copy.
    pub holder: Holder,
    /// The token of the binding.
    pub token: u128,
    /// The new epoch of the copy, under which it declares its checkpoints; or why it is not bound.
    pub outcome: Result<u64, BindRefusal>,
}

/// Why a copy was not bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BindRefusal {
    /// For programs.
    pub cause: BindRefusalCause,
    /// For people: what is wrong, and what to do.
    pub text: String,
}

impl Bound {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        frame::put(out, BOUND, |out| {
            let refusal = self.outcome.as_ref().err();
            out.put_u8(refusal.map_or(0, |refusal| refusal.cause as u8));
            put_holder(&self.holder, out);
            out.put_u128(self.token);
            out.put_u64(*self.outcome.as_ref().unwrap_or(&0));
            text::put(out, refusal.map_or("", |refusal| &refusal.text));
        });
    }

    /// Reads the body of a frame of this kind; none where it is another's.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if kind != BOUND {
            return Ok(None);
        }
        let before = reader.clone();
        let code = reader.u8("cause")?;
        let (holder, token, epoch) = (read_holder(reader)?, read_token(reader)?, reader.u64("epoch")?);
        let text = text::read(reader, "text")?;
        let outcome = match (code, BindRefusalCause::from_wire(code)) {
            (0, _) => Ok(epoch),
            (_, Some(cause)) => Err(BindRefusal { cause, text }),
            _ => return Err(before.bad("cause")),
        };
        Ok(Some(Self { holder, token, outcome }))
    }
}

//! Reading by position: what an order that lasts has retained, and what comes behind it.
//!
//! | kind | frame | body |
//! |---|---|---|
//! | 0b | read | order (8), position (8), index (2), how many groups (2), each group's name (1 + n) |
//! | f8 | reading began | order (8), first place: position (8), index (2); oldest position (8), newest (8) |
//! | f9 | no reading | cause (1), oldest position (8), newest (8), text |
//! | fa | caught up | position (8) |
//! | fb | lost | from (8), to (8) |
use crate::reason::ReadingEndCause;
use crate::{frame, text};
use bytes::{BufMut, BytesMut};
use consort_group::targets::put_name;
use consort_group::{Addressee, Targets};
use consort_types::GroupName;
use consort_wire::{Malformed, Reader, Writer};
use std::fmt;
use std::str::FromStr;

pub(crate) const READ: u8 = 0x0b;
const BEGAN: u8 = 0xf8;
const NO_READING: u8 = 0xf9;
const CAUGHT_UP: u8 = 0xfa;
const LOST: u8 = 0xfb;

/// Where a message stands in the order. Several messages that were ordered as one have one position, and are counted by
/// `index` from 0.
///
/// As text: `1234`, or `1234.2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The position, from 1 on.
    pub position: u64,
    /// Which of those that stand there.
    pub index: u16,
}

impl Place {
    /// The first message at a position.
    pub const fn at(position: u64) -> Self {
        Self { position, index: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            0 => write!(f, "{}", self.position),
            index => write!(f, "{}.{index}", self.position),
        }
    }
}

/// A text that names no place or bookmark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no place: give a position such as 1234, or position.index such as 1234.2")]
pub struct PlaceError {
    /// What was given.
    pub text: String,
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (position, index) = text.split_once('.').unwrap_or((text, "0"));
        let whole = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let place = (whole(position) && whole(index)).then(|| (position.parse().ok(), index.parse().ok()));
        let Some((Some(position), Some(index))) = place else { return Err(PlaceError { text: text.to_owned() }) };
        Ok(Self { position, index })
    }
}

/// What a client wants to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The order that the place belongs to; 0 for whatever order there is.
    pub order: u64,
    /// The first message that is told. Position 0 is the oldest there is.
    pub from: Place,
    /// Messages to any of these are told; with none the reading ends. Names are not checked yet.
    pub groups: Vec<Vec<u8>>,
}

impl ReadRequest {
    /// How many groups one reading may name.
    pub const GROUPS_MAX: usize = 100;

    /// Reads the body of a frame.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (order, position, index) = (reader.u64("order")?, reader.u64("position")?, reader.u16("index")?);
        let count = reader.count(1, "group count")?;
        if count > Targets::MAX {
            return Err(reader.bad("group count"));
        }
        let mut name = || {
            let len = usize::from(reader.u8("group name")?);
            reader.take(len, "group name").map(<[u8]>::to_vec)
        };
        let groups = (0..count).map(|_| name()).collect::<Result<_, _>>()?;
        Ok(Self { order, from: Place { position, index }, groups })
    }
}

/// Appends a request to read. The caller has checked that there are at most [`ReadRequest::GROUPS_MAX`] groups.
pub fn put_read(out: &mut BytesMut, order: u64, from: Place, groups: &[GroupName]) {
    frame::put(out, READ, |out| {
        out.put_u64(order);
        out.put_u64(from.position);
        out.put_u16(from.index);
        out.put_count(groups.len());
        groups.iter().for_each(|group| put_name(group.target(), out));
    });
}

/// What a daemon says of a reading beside its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadingStatus {
    /// It begins: the messages follow.
    Began {
        /// Names the order; positions of another mean nothing.
        order: u64,
        /// The first message that is told: the oldest where the start was asked for.
        from: Place,
        /// The oldest position that the daemon can tell.
        oldest: u64,
        /// The newest.
        newest: u64,
    },
    /// All that stands up to here was told; messages that follow are new.
    CaughtUp {
        /// The last position of the order.
        position: u64,
    },
    /// The daemon cannot tell what stands from one position to another, both included: it has not retained it, or does not
    /// know whether it was refused. The reading goes on behind.
    Lost {
        /// The first position.
        from: u64,
        /// The last.
        to: u64,
    },
    /// It was refused, or is over.
    Ended(ReadingEnd),
}

/// Why there is no reading, or none any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ReadingEnd {
    /// For programs.
    pub cause: ReadingEndCause,
    /// The oldest position that the daemon can tell; 0 where it can tell none.
    pub oldest: u64,
    /// The newest.
    pub newest: u64,
    /// For people: what is wrong, and what to do.
    pub text: String,
}

impl ReadingStatus {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Began { order, from, oldest, newest } => {
                frame::put_head(out, BEGAN, 34);
                out.put_u64(*order);
                out.put_u64(from.position);
                out.put_u16(from.index);
                out.put_u64(*oldest);
                out.put_u64(*newest);
            }
            Self::CaughtUp { position } => put_numbers(out, CAUGHT_UP, &[*position]),
            Self::Lost { from, to } => put_numbers(out, LOST, &[*from, *to]),
            Self::Ended(end) => frame::put(out, NO_READING, |out| {
                out.put_u8(end.cause as u8);
                out.put_u64(end.oldest);
                out.put_u64(end.newest);
                text::put(out, &end.text);
            }),
        }
    }

    /// Reads the body of a frame of this kind; none where it is another's.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match kind {
            BEGAN => Self::Began {
                order: reader.u64("order")?,
                from: Place { position: reader.u64("position")?, index: reader.u16("index")? },
                oldest: reader.u64("oldest position")?,
                newest: reader.u64("newest position")?,
            },
            NO_READING => Self::Ended(ReadingEnd {
                cause: ReadingEndCause::from_wire(reader.u8("cause")?).ok_or(reader.bad("cause"))?,
                oldest: reader.u64("oldest position")?,
                newest: reader.u64("newest position")?,
                text: text::read(reader, "text")?,
            }),
            CAUGHT_UP => Self::CaughtUp { position: reader.u64("position")? },
            LOST => Self::Lost { from: reader.u64("from")?, to: reader.u64("to")? },
            _ => return Ok(None),
        }))
    }
}

fn put_numbers(out: &mut BytesMut, kind: u8, numbers: &[u64]) {
    frame::put_head(out, kind, 8 * numbers.len());
    numbers.iter().for_each(|number| out.put_u64(*number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back_and_other_texts_name_none() {
        for place in [Place::default(), Place::at(7), Place { position: u64::MAX, index: u16::MAX }] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        assert_eq!(Place { position: 12, index: 3 }.to_string(), "12.3");
        for text in ["", ".", "1.", ".1", "-1", "+1", "1.2.3", "18446744073709551616", "1.65536", "start"] {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} names no place: give a position")), "{error}");
        }
        assert!(Place::at(3) < Place { position: 3, index: 1 } && Place { position: 3, index: 9 } < Place::at(4));
    }
}

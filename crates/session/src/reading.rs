//! Reading by position: what an order that lasts has retained, and what comes behind it.
//!
//! | kind | frame | body |
//! |---|---|---|
//! | 0b | read | order (8), position (8), index (2), how many groups (2), each group's name (1 + n) |
//! | f8 | reading began | order (8), first place: position (8), index (2); oldest position (8), newest (8) |
//! | f9 | no reading | cause (1), oldest position (8), newest (8), text |
//! | fa | caught up | position (8) |
//! | fb | lost | from (8), to (8) |
//!
//! Where positions belong to views:
//!
//! | kind | frame | body |
//! |---|---|---|
//! | 0e | read on | view (18), position (8), index (2), closing, how many views before (2), each with its line (18 + 8), then groups as in 0b |
//! | e6 | in view | view (18), line of the view before (8), closing |
//! | e7 | gap | from: view (18), position (8), index (2); to: the same; closing |
//!
//! Closing: 1, line (8), together (8); or 0. *No reading* that parted has behind its text: 1 and a place, or 0.
use crate::reason::ReadingEndCause;
use crate::{frame, text};
use bytes::{BufMut, BytesMut};
use consort_group::targets::put_name;
use consort_group::{Addressee, Targets, ViewClosing, ViewPlace, ViewTrail};
use consort_types::{GroupName, Position, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{Malformed, Reader, Writer};
use std::fmt;
use std::str::FromStr;

pub(crate) const READ: u8 = 0x0b;
pub(crate) const READ_ON: u8 = 0x0e;
const IN_VIEW: u8 = 0xe6;
const GAP: u8 = 0xe7;
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
    /// The first message that is told. Position 0 is the oldest there is, [`Self::NEW`] what comes.
    pub from: Place,
    /// The view that the place belongs to, and those before, where positions belong to views.
    pub trail: Option<Box<ViewTrail>>,
    /// Messages to any of these are told; with none the reading ends. Names are not checked yet.
    pub groups: Vec<Vec<u8>>,
}

impl ReadRequest {
    /// How many groups one reading may name.
    pub const GROUPS_MAX: usize = 100;
    /// The position of one who wants what comes, and nothing from before.
    pub const NEW: u64 = u64::MAX;

    /// Reads the body of a frame of this kind.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if kind == READ_ON {
            let ViewPlace { view, at, index } = read_place(reader)?;
            let (from, trail) = (Place { position: at.0, index }, read_trail(view, reader)?);
            return Ok(Self { order: 0, from, trail: Some(Box::new(trail)), groups: read_groups(reader)? });
        }
        let (order, position, index) = (reader.u64("order")?, reader.u64("position")?, reader.u16("index")?);
        Ok(Self { order, from: Place { position, index }, trail: None, groups: read_groups(reader)? })
    }
}

fn read_groups(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    let count = reader.count(1, "group count")?;
    if count > Targets::MAX {
        return Err(reader.bad("group count"));
    }
    let mut name = || {
        let len = usize::from(reader.u8("group name")?);
        reader.take(len, "group name").map(<[u8]>::to_vec)
    };
    (0..count).map(|_| name()).collect()
}

fn read_trail(view: ViewId, reader: &mut Reader<'_>) -> Result<ViewTrail, Malformed> {
    let closing = read_closing(reader)?;
    let count = reader.count(VIEW_ID_LEN + 8, "view count")?;
    if count > ViewTrail::MOST {
        return Err(reader.bad("view count"));
    }
    let mut line = || Ok((reader.view_id("view")?, Position(reader.u64("line")?)));
    let before = (0..count).map(|_| line()).collect::<Result<_, _>>()?;
    Ok(ViewTrail { view, closing, before })
}

fn read_place(reader: &mut Reader<'_>) -> Result<ViewPlace, Malformed> {
    let (view, at) = (reader.view_id("view")?, Position(reader.u64("position")?));
    Ok(ViewPlace { view, at, index: reader.u16("index")? })
}

fn put_place(out: &mut BytesMut, place: ViewPlace) {
    out.put_view_id(place.view);
    out.put_u64(place.at.0);
    out.put_u16(place.index);
}

fn read_closing(reader: &mut Reader<'_>) -> Result<Option<ViewClosing>, Malformed> {
    if !read_flag(reader, "closing")? {
        return Ok(None);
    }
    Ok(Some(ViewClosing { line: Position(reader.u64("line")?), together: reader.u64("together")? }))
}

fn put_closing(out: &mut BytesMut, closing: Option<ViewClosing>) {
    out.put_u8(u8::from(closing.is_some()));
    if let Some(ViewClosing { line, together }) = closing {
        out.put_u64(line.0);
        out.put_u64(together);
    }
}

fn read_flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, Malformed> {
    let before = reader.clone();
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(before.bad(what)),
    }
}

fn put_groups(out: &mut BytesMut, groups: &[GroupName]) {
    out.put_count(groups.len());
    groups.iter().for_each(|group| put_name(group.target(), out));
}

/// Appends a request to read. The caller has checked that there are at most [`ReadRequest::GROUPS_MAX`] groups.
pub fn put_read(out: &mut BytesMut, order: u64, from: Place, groups: &[GroupName]) {
    frame::put(out, READ, |out| {
        out.put_u64(order);
        out.put_u64(from.position);
        out.put_u16(from.index);
        put_groups(out, groups);
    });
}

/// The same for a place in a view. The trail has at most [`ViewTrail::MOST`] views before that.
pub fn put_read_on(out: &mut BytesMut, trail: &ViewTrail, from: Place, groups: &[GroupName]) {
    frame::put(out, READ_ON, |out| {
        put_place(out, ViewPlace { view: trail.view, at: Position(from.position), index: from.index });
        put_closing(out, trail.closing);
        out.put_count(trail.before.len());
        for (view, line) in &trail.before {
            out.put_view_id(*view);
            out.put_u64(line.0);
        }
        put_groups(out, groups);
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
    /// The positions that follow are of this view, if it is another than before; they begin anew. Also told where the view
    /// is being closed.
    InView {
        /// Which view.
        view: ViewId,
        /// The line of the view before: all its members have the same up to there, as far as they go.
        line: Position,
        /// How this view is being closed, if it is.
        closing: Option<ViewClosing>,
    },
    /// The daemon does not have what was sent to the groups from one place to another; that one is not included. It retains
    /// it no more, or was cut off when others ordered it. The reading goes on there.
    Gap {
        /// The first place that may be missing.
        from: ViewPlace,
        /// The first that is not.
        to: ViewPlace,
        /// How the view of that is being closed, if it is.
        closing: Option<ViewClosing>,
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
    /// With [`ReadingEndCause::Parted`]: up to where both histories are the same, if the daemon knows of a view in common.
    pub common: Option<ViewPlace>,
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
            Self::InView { view, line, closing } => frame::put(out, IN_VIEW, |out| {
                out.put_view_id(*view);
                out.put_u64(line.0);
                put_closing(out, *closing);
            }),
            Self::Gap { from, to, closing } => frame::put(out, GAP, |out| {
                put_place(out, *from);
                put_place(out, *to);
                put_closing(out, *closing);
            }),
            Self::Ended(end) => frame::put(out, NO_READING, |out| {
                out.put_u8(end.cause as u8);
                out.put_u64(end.oldest);
                out.put_u64(end.newest);
                text::put(out, &end.text);
                if end.cause == ReadingEndCause::Parted {
                    out.put_u8(u8::from(end.common.is_some()));
                    end.common.iter().for_each(|place| put_place(out, *place));
                }
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
            NO_READING => Self::Ended(read_end(reader)?),
            IN_VIEW => Self::InView {
                view: reader.view_id("view")?,
                line: Position(reader.u64("line")?),
                closing: read_closing(reader)?,
            },
            GAP => Self::Gap { from: read_place(reader)?, to: read_place(reader)?, closing: read_closing(reader)? },
            CAUGHT_UP => Self::CaughtUp { position: reader.u64("position")? },
            LOST => Self::Lost { from: reader.u64("from")?, to: reader.u64("to")? },
            _ => return Ok(None),
        }))
    }
}

fn read_end(reader: &mut Reader<'_>) -> Result<ReadingEnd, Malformed> {
    let cause = ReadingEndCause::from_wire(reader.u8("cause")?).ok_or(reader.bad("cause"))?;
    let (oldest, newest) = (reader.u64("oldest position")?, reader.u64("newest position")?);
    let text = text::read(reader, "text")?;
    let has_common = cause == ReadingEndCause::Parted && read_flag(reader, "common")?;
    let common = has_common.then(|| read_place(reader)).transpose()?;
    Ok(ReadingEnd { cause, oldest, newest, text, common })
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

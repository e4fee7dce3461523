//! Producers: sends that are numbered across connections, so that each is ordered once.
//!
//! | kind | frame | body |
//! |---|---|---|
//! | 0c | open producer | producer (16), session (8), attempt (8), flags (1): 1 it was opened before, 2 whoever has it is to be stopped |
//! | 0d | forget producer | |
//! | f6 | settled | number (8), view (8), position (8) |
//! | f7 | numbering ended | |
//! | fd | opened | number (8), view (8), position (8), 1 if it was forgotten, else 0 |
//! | fe | opening waits | cause (1) |
//! | ff | not opened | cause (1), text |
use crate::reason::OpenRefusalCause;
use crate::{Refusal, RefusalCause, frame, text};
use bytes::{BufMut, Bytes, BytesMut};
use consort_group::{HistoryPlace, Numbered, OpenRequest, ordered};
use consort_types::Position;
use consort_wire::{Malformed, Reader};

pub(crate) const OPEN: u8 = 0x0c;
pub(crate) const FORGET: u8 = 0x0d;
const SETTLED: u8 = 0xf6;
const ENDED: u8 = 0xf7;
const OPENED: u8 = 0xfd;
const WAITS: u8 = 0xfe;
const NOT_OPENED: u8 = 0xff;

/// Appends the request to open a producer.
pub fn put_open(request: &OpenRequest, out: &mut BytesMut) {
    frame::put_head(out, OPEN, OpenRequest::LEN);
    request.put(out);
}

/// Appends the request to forget what is known of the producer that is open.
pub fn put_forget(out: &mut BytesMut) {
    frame::put_head(out, FORGET, 0);
}

/// Why a producer is not opened yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpeningWait {
    /// The daemons agree on who is there, or tell each other what they know.
    Membership = 1,
    /// This daemon is not in the primary part of the network.
    Primary = 2,
    /// Too many daemons have started anew: of those there, no majority remembers.
    Memory = 3,
}

impl OpeningWait {
    const ALL: [Self; 3] = [Self::Membership, Self::Primary, Self::Memory];

    /// What it waits for, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Membership => "the daemons agree on who is there",
            Self::Primary => "this daemon is not in the primary part of the network",
            Self::Memory => "too many daemons have started anew; a majority that remembers is needed, or all of them",
        }
    }
}

/// Why a producer cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct OpenRefusal {
    /// For programs.
    pub cause: OpenRefusalCause,
    /// For people: what is wrong, and what to do.
    pub text: String,
}

/// What a daemon says of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProducerStatus {
    /// It is open: the client's next multicast is the one behind `last`.
    Opened {
        /// The number of its last message in the order. Nothing above it is ordered, or ever will be under what was
        /// opened before.
        last: u64,
        /// Where that stands, or where the producer was opened then.
        at: HistoryPlace,
        /// It was opened before, and nobody knows of it any more.
        forgotten: bool,
    },
    /// It is not open yet; it will be as soon as it can be.
    Waits(OpeningWait),
    /// It cannot be opened.
    Refused(OpenRefusal),
    /// All messages up to this number are ordered, and stay so.
    Settled {
        /// The last of them.
        number: u64,
        /// Where it stands.
        at: HistoryPlace,
    },
    /// What is sent from here on is refused until the producer is opened again.
    Ended,
}

impl ProducerStatus {
    /// Appends the frame.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Opened { last, at, forgotten } => {
                frame::put_head(out, OPENED, 25);
                put_place(out, *last, *at);
                out.put_u8(u8::from(*forgotten));
            }
            Self::Waits(cause) => {
                frame::put_head(out, WAITS, 1);
                out.put_u8(*cause as u8);
            }
            Self::Refused(refusal) => frame::put(out, NOT_OPENED, |out| {
                out.put_u8(refusal.cause as u8);
                text::put(out, &refusal.text);
            }),
            Self::Settled { number, at } => {
                frame::put_head(out, SETTLED, 24);
                put_place(out, *number, *at);
            }
            Self::Ended => frame::put_head(out, ENDED, 0),
        }
    }

    /// Reads the body of a frame of this kind; none where it is another's.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match kind {
            OPENED => {
                let (last, at) = read_place(reader)?;
                Self::Opened { last, at, forgotten: read_bool(reader)? }
            }
            WAITS => {
                let cause = reader.u8("cause")?;
                let named = OpeningWait::ALL.into_iter().find(|wait| *wait as u8 == cause);
                Self::Waits(named.ok_or(reader.bad("cause"))?)
            }
            NOT_OPENED => Self::Refused(OpenRefusal {
                cause: OpenRefusalCause::from_wire(reader.u8("cause")?).ok_or(reader.bad("cause"))?,
                text: text::read(reader, "text")?,
            }),
            SETTLED => {
                let (number, at) = read_place(reader)?;
                Self::Settled { number, at }
            }
            ENDED => Self::Ended,
            _ => return Ok(None),
        }))
    }
}

fn put_place(out: &mut BytesMut, number: u64, at: HistoryPlace) {
    out.put_u64(number);
    out.put_u64(at.view);
    out.put_u64(at.at.0);
}

fn read_place(reader: &mut Reader<'_>) -> Result<(u64, HistoryPlace), Malformed> {
    let number = reader.u64("number")?;
    Ok((number, HistoryPlace { view: reader.u64("view")?, at: Position(reader.u64("position")?) }))
}

fn read_bool(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8("flag")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.bad("flag")),
    }
}

/// How a client's multicasts are numbered, at its daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// Not: it has not asked for it.
    #[default]
    Off,
    /// It waits to be opened, or must be opened again: multicasts are refused.
    Ended,
    /// The next multicast has this number.
    On(Numbered),
}

impl Numbering {
    /// What goes before the next multicast.
    pub fn prefix(&self) -> Option<Bytes> {
        match self {
            Self::On(next) => Some(ordered::numbered_prefix(*next)),
            Self::Off | Self::Ended => None,
        }
    }

    /// So many multicasts went under way.
    pub const fn accept(&mut self, multicasts: u64) {
        if let Self::On(next) = self {
            next.number = next.number.saturating_add(multicasts);
        }
    }

    /// A multicast was not taken: those behind it would be missing one. Returns whether that ends it.
    pub const fn end(&mut self) -> bool {
        let was_on = matches!(self, Self::On(_));
        if was_on {
            *self = Self::Ended;
        }
        was_on
    }

    /// Why a multicast is refused here.
    pub fn refusal(&self) -> Option<Refusal> {
        //= E06
        let text = "an earlier message of this producer was not taken, or the producer is not open; open it, and send \
                    on behind the number that the answer names";
        (*self == Self::Ended).then(|| Refusal::new(RefusalCause::Missing, text))
    }
}

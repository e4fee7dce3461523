//! What a hostile client is answered at each door. It is only counted.
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};

use bytes::{Buf, Bytes, BytesMut};
use consort_session::frame::Frames;
use consort_testbed::spread;
use consort_wire::Malformed;

use super::attacks::Door;

/// No daemon sends a larger frame, and no store a longer line.
const LARGEST: usize = 256 << 20;
const LINE: usize = 64 << 10;
/// The frame that refuses a numbered request, and others that are refusals unless their cause is 0: *declared*, *rotated*,
/// *bound*, *no reading* and *not opened*.
const REFUSED: u8 = 0x83;
const OUTCOMES: [u8; 5] = [0xe8, 0xe9, 0xeb, 0xf9, 0xff];

/// What the hostile client got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Connections that it made, and those of them that the other end closed.
    pub opened: u64,
    pub closed: u64,
    /// Bytes that it sent.
    pub bytes: u64,
    /// Frames that came, and refusals among them.
    pub frames: u64,
    pub refused: u64,
}

/// What came on one connection and is no whole answer yet.
#[derive(Debug)]
pub enum Inbox {
    Session(Frames),
    Spread(Visit),
    Store(Replies),
}

impl Inbox {
    pub fn new(door: Door) -> Self {
        match door {
            Door::Session => Self::Session(Frames::new(LARGEST)),
            Door::Spread => Self::Spread(Visit::default()),
            Door::Store => Self::Store(Replies::default()),
        }
    }

    /// Counts the answers that these bytes end.
    ///
    /// # Errors
    /// Of the kind [`ErrorKind::InvalidData`]: what came is none.
    pub fn take(&mut self, bytes: &[u8], answers: &mut Answers) -> io::Result<()> {
        match self {
            Self::Session(frames) => take_frames(frames, bytes, answers),
            Self::Spread(visit) => visit.take(bytes, answers),
            Self::Store(replies) => replies.take(bytes, answers),
        }
    }
}

fn take_frames(frames: &mut Frames, bytes: &[u8], answers: &mut Answers) -> io::Result<()> {
    frames.push(Bytes::copy_from_slice(bytes));
    let malformed = |error: Malformed| io::Error::new(ErrorKind::InvalidData, error.to_string());
    while let Some(head) = frames.whole().map_err(malformed)? {
        let body = frames.take_body(head);
        answers.note(head.kind, &body);
    }
    Ok(())
}

/// What a client of Spread waits for.
#[derive(Clone, Copy, Debug, Default)]
enum Awaited {
    /// The methods of authentication.
    #[default]
    Methods,
    /// That it is admitted.
    Entry,
    Frame,
}

/// The connection of a client of Spread.
#[derive(Debug, Default)]
pub struct Visit {
    awaited: Awaited,
    unread: BytesMut,
}

impl Visit {
    fn take(&mut self, bytes: &[u8], answers: &mut Answers) -> io::Result<()> {
        self.unread.extend_from_slice(bytes);
        while let Some(len) = self.next(answers)? {
            self.unread.advance(len);
            answers.frames += 1;
        }
        Ok(())
    }

    /// How long the next answer is, if all of it has come.
    fn next(&mut self, answers: &mut Answers) -> io::Result<Option<usize>> {
        let (len, then) = match (self.awaited, &self.unread[..]) {
            (Awaited::Frame, bytes) => {
                let Some((frame, len)) = spread::Frame::first(bytes)? else { return Ok(None) };
                answers.refused += u64::from(frame.is_rejected());
                (len, Awaited::Frame)
            }
            // A negative code says why the client is not admitted.
            (awaited, [0x80..=0xff, ..]) => {
                answers.refused += 1;
                (1, awaited)
            }
            (Awaited::Methods, [len, ..]) => (1 + usize::from(*len), Awaited::Entry),
            // The code, the version, and the client's name.
            (Awaited::Entry, [_, _, _, _, len, ..]) => (5 + usize::from(*len), Awaited::Frame),
            _ => return Ok(None),
        };
        if self.unread.len() < len {
            return Ok(None);
        }
        self.awaited = then;
        Ok(Some(len))
    }
}

/// The connection to a store. Values are passed over, not kept.
#[derive(Debug, Default)]
pub struct Replies {
    /// The beginning of a line.
    line: Vec<u8>,
    /// The bytes of a value that are still to come.
    value: usize,
    /// The items of lists that are still to come.
    items: u64,
}

impl Replies {
    fn take(&mut self, mut bytes: &[u8], answers: &mut Answers) -> io::Result<()> {
        loop {
            let passed = self.value.min(bytes.len());
            self.value -= passed;
            bytes = &bytes[passed..];
            let end = bytes.iter().position(|byte| *byte == b'\n');
            self.line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if self.line.len() > LINE {
                return Err(no_reply());
            }
            let Some(end) = end else { return Ok(()) };
            bytes = &bytes[end + 1..];
            self.on_line(answers)?;
            self.line.clear();
        }
    }

    fn on_line(&mut self, answers: &mut Answers) -> io::Result<()> {
        let line = self.line.strip_suffix(b"\r").and_then(|line| line.split_first());
        let (kind, text) = line.ok_or_else(no_reply)?;
        let is_first = self.items == 0;
        self.items = self.items.saturating_sub(1);
        match kind {
            b'+' | b':' => {}
            b'-' => answers.refused += u64::from(is_first),
            // Behind a value is the end of a line.
            b'$' => self.value = length(text)?.map_or(0, |len| len + 2),
            b'*' => self.items += length(text)?.unwrap_or(0) as u64,
            _ => return Err(no_reply()),
        }
        answers.frames += u64::from(is_first);
        Ok(())
    }
}

/// A length; `None` where there is nothing that has one.
fn length(text: &[u8]) -> io::Result<Option<usize>> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    let number = number.ok_or_else(no_reply)?;
    Ok(usize::try_from(number).ok())
}

fn no_reply() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "no reply of RESP2")
}

impl Answers {
    fn note(&mut self, kind: u8, body: &[u8]) {
        let has_cause = OUTCOMES.contains(&kind) && body.first().is_some_and(|cause| *cause != 0);
        self.frames += 1;
        self.refused += u64::from(kind == REFUSED || has_cause);
    }
}

impl Display for Answers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { opened, closed, bytes, frames, refused } = self;
        write!(
            f,
            "{} KiB sent, {refused} refusals in {frames} frames, {closed} of {opened} connections closed",
            bytes >> 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kv::Reply;
    use consort_spread::header::{self, NO_HINT};
    use consort_spread::{kind, name_field};

    /// Answers, and refusals among them.
    fn count<'a>(door: Door, pieces: impl Iterator<Item = &'a [u8]>) -> (u64, u64) {
        let (mut inbox, mut answers) = (Inbox::new(door), Answers::default());
        pieces.for_each(|piece| inbox.take(piece, &mut answers).unwrap());
        (answers.frames, answers.refused)
    }

    /// The same of these bytes, however they are cut.
    fn counted(door: Door, bytes: &[u8]) -> (u64, u64) {
        let whole = count(door, std::iter::once(bytes));
        assert_eq!(count(door, bytes.chunks(1)), whole);
        whole
    }

    #[test]
    fn refusals_are_counted_among_what_comes() {
        let mut answers = Answers::default();
        let frames: [(u8, &[u8]); 5] = [(0x83, &[0; 11]), (0x86, &[0; 2]), (0xe8, &[0]), (0xe8, &[2]), (0xff, &[2])];
        frames.iter().for_each(|(kind, body)| answers.note(*kind, body));
        assert_eq!((answers.frames, answers.refused), (5, 3));
        let shown = "0 KiB sent, 3 refusals in 5 frames, 0 of 0 connections closed";
        assert_eq!(answers.to_string(), shown);
    }

    #[test]
    fn frames_of_a_session_are_counted_once_they_are_whole() {
        assert_eq!(counted(Door::Session, b"\0\0\0\x02\x86x\0\0\0\x01\x83\0\0\0\x09"), (2, 1));
        let cut = Inbox::new(Door::Session).take(b"\0\0\0\0\0", &mut Answers::default());
        assert_eq!(cut.unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_client_of_spread_counts_its_handshake_and_frames() {
        let handshake = b"\x05NULL \x01\x05\x00\x01\x05#x#n1";
        let mut bytes = BytesMut::from(&handshake[..]);
        header::put(&mut bytes, kind::AGREED, b"#y#n1", 1, NO_HINT, 3);
        name_field::put(b"group", &mut bytes);
        bytes.extend_from_slice(b"abc");
        header::put(&mut bytes, kind::REJECT, b"#x#n1", 1, NO_HINT, 0);
        bytes.extend_from_slice(&(kind::AGREED | kind::MARK).to_le_bytes());
        name_field::put(b"a b", &mut bytes);
        assert_eq!(counted(Door::Spread, &bytes), (4, 1));
        assert_eq!(counted(Door::Spread, &[0xfb]), (1, 1), "an illegal name");
        assert_eq!(counted(Door::Spread, b"\x05NULL \xfa"), (2, 1), "a name that is taken");
    }

    #[test]
    fn replies_of_a_store_are_counted_without_their_parts() {
        let mut bytes = BytesMut::new();
        for reply in [
            Reply::Simple("OK"),
            Reply::error("no"),
            Reply::text("a\r\n-b"),
            Reply::Nil,
            Reply::Array(vec![Reply::Array(vec![Reply::error("no"), Reply::text("")]), Reply::Integer(7)]),
            Reply::Array(Vec::new()),
        ] {
            reply.put(&mut bytes);
        }
        assert_eq!(counted(Door::Store, &bytes), (6, 1));
        for wrong in [&b"x\r\n"[..], b"\r\n", b"+OK\n", b"$x\r\n"] {
            let taken = Inbox::new(Door::Store).take(wrong, &mut Answers::default());
            assert_eq!(taken.unwrap_err().kind(), ErrorKind::InvalidData, "{wrong:?}");
        }
    }
}

//! What an application of Spread's library says and hears, to the byte: written from the protocol's description, not from
//! our own door for it.
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The level of a message, as the library knows it.
pub const AGREED: u32 = 0x10;
/// The same.
pub const SAFE: u32 = 0x20;
/// Asks for membership in a group.
pub const JOIN: u32 = 0x1_0000;
/// Ends the session.
pub const KILL: u32 = 0x4_0000;

/// A message that some client sent, of any of the six levels.
const REGULAR: u32 = 0x3f;
/// A message comes back, with its old type in front of the names.
const REJECTED: u32 = 0x40_0000;
/// A membership that the network made, and the signal before it.
const BY_NETWORK: u32 = 0x1800;
const TRANSITION: u32 = 0x2000;
/// Bits that say in which order bytes stand.
const ORDER: u32 = 0x8000_0080;
/// Bytes of a header and of a name.
const HEADER: usize = 48;
const NAME: usize = 32;
/// More than any message may have.
const LONGEST: usize = 1 << 18;

/// One session.
pub struct Session {
    stream: UnixStream,
    private: String,
    unread: Vec<u8>,
}

/// One frame from the daemon.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    kind: u32,
    data: Vec<u8>,
}

impl Frame {
    /// The first of these bytes, if all of it has come, and how long it is.
    ///
    /// # Errors
    /// That it cannot be one.
    pub fn first(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let numbers = (number(bytes, 0), number(bytes, 36), number(bytes, 44));
        let (Some(kind), Some(names), Some(data)) = numbers else { return Ok(None) };
        if kind & ORDER != ORDER || names as usize * NAME + data as usize > LONGEST {
            return Err(wrong("a header that no daemon of ours writes"));
        }
        let old = if kind & REJECTED == 0 { 0 } else { 4 };
        let start = HEADER + old + names as usize * NAME;
        let end = start + data as usize;
        if bytes.len() < end {
            return Ok(None);
        }
        Ok(Some((Self { kind: kind & !ORDER, data: bytes[start..end].to_vec() }, end)))
    }

    /// What a client sent, if this is such a message.
    pub fn message(&self) -> Option<&[u8]> {
        (self.kind & REGULAR != 0 && self.kind & REJECTED == 0).then_some(&self.data)
    }

    /// Whether this says that the group's membership is closing.
    pub const fn is_signal(&self) -> bool {
        self.kind & TRANSITION != 0
    }

    /// Whether this is a membership that the network made.
    pub const fn is_by_network(&self) -> bool {
        self.kind & BY_NETWORK == BY_NETWORK
    }

    /// Whether the daemon gave back what was to be sent.
    pub const fn is_rejected(&self) -> bool {
        self.kind & REJECTED != 0
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Session {
    /// Goes through the handshake.
    ///
    /// # Errors
    /// The system's; or that the daemon does not let it in.
    pub fn enter(door: &Path, name: &str, patience: Duration) -> io::Result<Self> {
        let mut stream = UnixStream::connect(door)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(&[&[5, 0, 1, 1, name.len() as u8][..], name.as_bytes()].concat())?;
        let methods = read(&mut stream, 1)?[0] as i8;
        if methods < 0 || read(&mut stream, methods as usize)? != b"NULL " {
            return Err(wrong("not let in, or by another method than NULL"));
        }
        let mut choice = [0; 90];
        choice[..4].copy_from_slice(b"NULL");
        stream.write_all(&choice)?;
        if read(&mut stream, 4)? != [1, 5, 0, 1] {
            return Err(wrong("not accepted as a library of version 5.0.1"));
        }
        let len = usize::from(read(&mut stream, 1)?[0]);
        let private =
            String::from_utf8(read(&mut stream, len)?).map_err(|_| wrong("a private name that is no text"))?;
        Ok(Self { stream, private, unread: Vec::new() })
    }

    /// A session that is open already.
    #[cfg(test)]
    pub fn over(stream: UnixStream) -> Self {
        Self { stream, private: "#g#n1".to_owned(), unread: Vec::new() }
    }

    /// Asks for something, or sends something, in one group.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&mut self, kind: u32, group: &str, data: &[u8]) -> io::Result<()> {
        let mut bytes = (kind | ORDER).to_le_bytes().to_vec();
        bytes.extend(padded(&self.private));
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(ORDER.to_le_bytes());
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(padded(group));
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// The next frame, if it comes within this time.
    ///
    /// # Errors
    /// The system's; that the session has ended; or a frame that cannot be.
    pub fn receive(&mut self, within: Duration) -> io::Result<Option<Frame>> {
        if let Some(frame) = split(&mut self.unread)? {
            return Ok(Some(frame));
        }
        self.stream.set_read_timeout(Some(within))?;
        let mut bytes = vec![0; 1 << 16];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.unread.extend(&bytes[..n]);
                split(&mut self.unread)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Its name, which it also says good-bye with.
    pub fn private(&self) -> &str {
        &self.private
    }
}

fn read(stream: &mut UnixStream, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn padded(name: &str) -> [u8; NAME] {
    let mut slot = [0; NAME];
    slot[..name.len()].copy_from_slice(name.as_bytes());
    slot
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Takes the first frame off, if all of it has come.
fn split(bytes: &mut Vec<u8>) -> io::Result<Option<Frame>> {
    let Some((frame, len)) = Frame::first(bytes)? else { return Ok(None) };
    bytes.drain(..len);
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u32, names: &[&str], data: &[u8]) -> Vec<u8> {
        let mut bytes = [(kind | ORDER).to_le_bytes().to_vec(), padded("#a#n1").to_vec()].concat();
        bytes.extend((names.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(vec![0; if kind & REJECTED == 0 { 0 } else { 4 }]);
        names.iter().for_each(|name| bytes.extend(padded(name)));
        bytes.extend(data);
        bytes
    }

    #[test]
    fn frames_are_cut_wherever_the_pieces_end() {
        let whole = [
            frame(AGREED, &["g"], b"one"),
            frame(0x1100, &["#a#n1", "#b#n1"], b"view"),
            frame(REJECTED | SAFE, &["g"], b""),
        ]
        .concat();
        let (mut bytes, mut seen) = (Vec::new(), Vec::new());
        for byte in whole {
            bytes.push(byte);
            seen.extend(split(&mut bytes).unwrap());
        }
        let messages: Vec<_> = seen.iter().map(Frame::message).collect();
        assert_eq!(messages, [Some(&b"one"[..]), None, None]);
        assert!(seen[2].is_rejected() && bytes.is_empty());
    }

    #[test]
    fn headers_that_cannot_be_are_told_from_short_ones() {
        assert_eq!(split(&mut vec![0; 47]).unwrap(), None);
        assert!(split(&mut vec![0; 48]).is_err(), "no daemon of ours is big-endian");
        let mut long = frame(AGREED, &[], b"");
        long[44..48].fill(0x7f);
        assert!(split(&mut long).is_err());
    }
}

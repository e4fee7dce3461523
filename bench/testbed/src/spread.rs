//! What an application of Spread's library says and hears, to the byte: written from the protocol's description, not from
//! this project's own end of it.
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The service of a message: unreliable.
pub const UNRELIABLE: u32 = 0x01;
/// Reliable.
pub const RELIABLE: u32 = 0x02;
/// First in, first out by sender.
pub const FIFO: u32 = 0x04;
/// Causal.
pub const CAUSAL: u32 = 0x08;
/// In one order.
pub const AGREED: u32 = 0x10;
/// In one order, and held by all members.
pub const SAFE: u32 = 0x20;
/// The cause of a membership: a client joined.
pub const BY_JOIN: u32 = 0x100;
/// A client left. Without [`MEMBERSHIP`] it is this client itself.
pub const BY_LEAVE: u32 = 0x200;
/// A client's connection ended.
pub const BY_DISCONNECT: u32 = 0x400;
/// A group's members, as they are from here on.
pub const MEMBERSHIP: u32 = 0x1000;
/// Asks for membership in a group.
pub const JOIN: u32 = 0x1_0000;
/// Ends a membership.
pub const LEAVE: u32 = 0x2_0000;
/// Ends the session.
pub const KILL: u32 = 0x4_0000;

/// A message that some client sent, of any of the six levels.
const REGULAR: u32 = 0x3f;
/// A message comes back, with its old type in front of the names.
const REJECTED: u32 = 0x40_0000;
/// A membership that the network made, and the signal before it.
const BY_NETWORK: u32 = MEMBERSHIP | 0x800;
const TRANSITION: u32 = 0x2000;
/// Bits that say in which order bytes stand.
const ORDER: u32 = 0x8000_0080;
/// Bytes of a header and of a name.
const HEADER: usize = 48;
const NAME: usize = 32;
/// More than any message may have.
const LONGEST: usize = 1 << 18;
/// What the library says first: its version; and the room for the methods of authentication that it chooses.
const VERSION: [u8; 3] = [5, 0, 1];
const METHODS: usize = 90;

/// A stream of bytes that are waited for so long.
trait Stream: Read + Write + Send {
    fn wait_at_most(&self, time: Duration) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Stream for TcpStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// The code with which a daemon lets no session begin: the inner error of [`enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected(pub i8);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the daemon refused the session (code {})", self.0)
    }
}

impl std::error::Error for Rejected {}

/// Goes through the handshake under a name, or one that the daemon gives to who has none; returns `#user#daemon`.
///
/// # Errors
/// The system's; or that the daemon does not let it in.
pub fn enter<S: Read + Write + ?Sized>(stream: &mut S, user: &str, wants_views: bool) -> io::Result<String> {
    let len = u8::try_from(user.len()).map_err(|_| wrong("a name longer than its length can say"))?;
    stream.write_all(&[&VERSION[..], &[u8::from(wants_views), len], user.as_bytes()].concat())?;
    let methods = accepted(stream)?;
    if !read(stream, methods)?.split(|byte| *byte == b' ').any(|method| method == b"NULL") {
        return Err(wrong("a daemon that lets nobody in by the method NULL"));
    }
    let mut choice = [0; METHODS];
    choice[..4].copy_from_slice(b"NULL");
    stream.write_all(&choice)?;
    accepted(stream)?;
    let [.., len] = read(stream, VERSION.len() + 1)?[..] else { return Err(wrong("no name")) };
    String::from_utf8(read(stream, usize::from(len))?).map_err(|_| wrong("a private name that is no text"))
}

/// A count, or a code that says the session is not wanted.
fn accepted<S: Read + ?Sized>(stream: &mut S) -> io::Result<usize> {
    let code = read(stream, 1)?[0] as i8;
    usize::try_from(code).map_err(|_| io::Error::new(ErrorKind::PermissionDenied, Rejected(code)))
}

/// One session.
pub struct Session {
    stream: Box<dyn Stream>,
    private: String,
    unread: Vec<u8>,
}

/// One frame from the daemon.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is, bit by bit.
    pub kind: u32,
    /// The sender's private name, or the group of a membership.
    pub name: String,
    /// The groups and clients that it went to, or the members.
    pub names: Vec<String>,
    /// What stands behind the names.
    pub data: Vec<u8>,
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
        let first = HEADER + old;
        let start = first + names as usize * NAME;
        let end = start + data as usize;
        if bytes.len() < end {
            return Ok(None);
        }
        let frame = Self {
            kind: kind & !ORDER,
            name: text(&bytes[4..4 + NAME])?,
            names: names_in(&bytes[first..start])?,
            data: bytes[start..end].to_vec(),
        };
        Ok(Some((frame, end)))
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

    /// The first of a membership's sets: who made it, where one client did.
    ///
    /// # Errors
    /// That the data is none of a membership.
    pub fn first_set(&self) -> io::Result<Vec<String>> {
        // The membership's name in twelve bytes, how many sets there are, where the own one starts; then the first one's size.
        let size = number(&self.data, 20).and_then(|size| (size as usize).checked_mul(NAME));
        let set = size.and_then(|size| self.data.get(24..)?.get(..size));
        names_in(set.ok_or_else(|| wrong("a membership without its first set"))?)
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Session {
    /// Enters by a socket file.
    ///
    /// # Errors
    /// The system's; or that the daemon does not let it in.
    pub fn enter(socket: &Path, user: &str, patience: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(patience))?;
        Self::begin(stream, user, patience)
    }

    /// Enters by TCP.
    ///
    /// # Errors
    /// The system's; or that the daemon does not let it in.
    pub fn enter_tcp(address: impl ToSocketAddrs, user: &str, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        Self::begin(stream, user, patience)
    }

    fn begin(mut stream: impl Stream + 'static, user: &str, patience: Duration) -> io::Result<Self> {
        stream.wait_at_most(patience)?;
        let private = enter(&mut stream, user, true)?;
        Ok(Self { stream: Box::new(stream), private, unread: Vec::new() })
    }

    /// A session that is open already.
    pub fn over(stream: UnixStream) -> Self {
        Self { stream: Box::new(stream), private: "#g#n1".to_owned(), unread: Vec::new() }
    }

    /// Asks for something, or sends something, in these groups.
    ///
    /// # Errors
    /// The system's; or that a name is too long.
    pub fn send(&mut self, kind: u32, groups: &[&str], data: &[u8]) -> io::Result<()> {
        let mut bytes = (kind | ORDER).to_le_bytes().to_vec();
        bytes.extend(padded(&self.private)?);
        bytes.extend((groups.len() as u32).to_le_bytes());
        bytes.extend(ORDER.to_le_bytes());
        bytes.extend((data.len() as u32).to_le_bytes());
        for group in groups {
            bytes.extend(padded(group)?);
        }
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// The next frame, if all of it comes within this time.
    ///
    /// # Errors
    /// The system's; that the session has ended; or a frame that cannot be.
    pub fn receive(&mut self, within: Duration) -> io::Result<Option<Frame>> {
        let until = Instant::now() + within;
        loop {
            if let Some(frame) = split(&mut self.unread)? {
                return Ok(Some(frame));
            }
            // No time at all would be without a limit.
            let left = until.saturating_duration_since(Instant::now());
            self.stream.wait_at_most(left.max(Duration::from_millis(1)))?;
            let mut bytes = vec![0; 1 << 16];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.unread.extend(&bytes[..n]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if left.is_zero() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Its name, which it also says good-bye with.
    pub fn private(&self) -> &str {
        &self.private
    }
}

fn read<S: Read + ?Sized>(stream: &mut S, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A name as it travels: at least one zero stands behind it.
fn padded(name: &str) -> io::Result<[u8; NAME]> {
    let mut field = [0; NAME];
    let front = field[..NAME - 1].get_mut(..name.len()).ok_or_else(|| wrong("a name of more than 31 bytes"))?;
    front.copy_from_slice(name.as_bytes());
    Ok(field)
}

fn names_in(fields: &[u8]) -> io::Result<Vec<String>> {
    fields.chunks(NAME).map(text).collect()
}

fn text(field: &[u8]) -> io::Result<String> {
    let end = field.iter().position(|byte| *byte == 0).ok_or_else(|| wrong("a name without its end"))?;
    String::from_utf8(field[..end].to_vec()).map_err(|_| wrong("a name that is no text"))
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
        let mut bytes = [(kind | ORDER).to_le_bytes().to_vec(), padded("#a#n1").unwrap().to_vec()].concat();
        bytes.extend((names.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(vec![0; if kind & REJECTED == 0 { 0 } else { 4 }]);
        names.iter().for_each(|name| bytes.extend(padded(name).unwrap()));
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
    fn names_and_the_first_set_are_read_and_names_without_an_end_are_none() {
        let set =
            [&[0; 12][..], &1_u32.to_le_bytes(), &[0; 4], &1_u32.to_le_bytes(), &padded("#b#n1").unwrap()].concat();
        let (view, _) = Frame::first(&frame(MEMBERSHIP | BY_JOIN, &["#a#n1", "#b#n1"], &set)).unwrap().unwrap();
        assert_eq!((&*view.name, view.names.join(" ")), ("#a#n1", "#a#n1 #b#n1".to_owned()));
        assert_eq!(view.first_set().unwrap(), ["#b#n1"]);
        let short = Frame { data: set[..set.len() - 1].to_vec(), ..view };
        assert!(short.first_set().unwrap_err().to_string().contains("without its first set"));
        let mut endless = frame(AGREED, &["g"], b"");
        endless[48..80].fill(b'x');
        assert!(Frame::first(&endless).unwrap_err().to_string().contains("a name without its end"));
        assert!(padded(&"x".repeat(32)).is_err() && padded(&"x".repeat(31)).is_ok());
    }

    /// What comes of a handshake in which the daemon says this.
    fn entered(said: &[u8]) -> io::Result<String> {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        there.write_all(said).unwrap();
        there.shutdown(std::net::Shutdown::Write).unwrap();
        enter(&mut here, "ann", true)
    }

    #[test]
    fn a_handshake_ends_with_a_name_or_with_the_code_of_a_refusal() {
        assert_eq!(entered(b"\x08IP NULL \x01\x05\x00\x01\x07#ann#n1").unwrap(), "#ann#n1");
        let refused = entered(&[0xfa]).unwrap_err();
        let code = refused.get_ref().and_then(|error| error.downcast_ref::<Rejected>());
        assert_eq!(
            (code, refused.to_string()),
            (Some(&Rejected(-6)), "the daemon refused the session (code -6)".into())
        );
        assert_eq!(entered(b"\x05NULL \xf7").unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(entered(b"\x03IP ").unwrap_err().to_string().contains("by the method NULL"));
        assert_eq!(entered(b"\x05NU").unwrap_err().kind(), ErrorKind::UnexpectedEof);
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

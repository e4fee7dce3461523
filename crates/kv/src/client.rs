//! A client of a store, for programs that wait for each answer or send several commands at once.
use crate::limits::{ANSWER_MAX, REQUEST_MAX, WORDS_MAX};
use crate::resp::{Reply, put_request};
use bytes::{Bytes, BytesMut};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest line of a reply.
const LINE_MAX: u64 = 64 << 10;
/// How deep lists stand in lists.
const DEPTH_MAX: usize = 4;
/// How many items lists have together.
const ITEMS_MAX: usize = 2 * WORDS_MAX + 64;

/// A connection to a server.
#[derive(Debug)]
pub struct Connected {
    reader: BufReader<TcpStream>,
    output: BytesMut,
}

impl Connected {
    /// Connects to the first address that answers within this time.
    ///
    /// # Errors
    /// Why the last one could not be reached.
    pub fn to(address: &str, within: Duration) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, within) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self { reader: BufReader::with_capacity(64 << 10, stream), output: BytesMut::new() });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// How long an answer may take.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn set_timeout(&mut self, within: Option<Duration>) -> io::Result<()> {
        self.reader.get_ref().set_read_timeout(within)?;
        self.reader.get_ref().set_write_timeout(within)
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// The connection is lost, and whether the command was done is not known; or the server speaks another protocol.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Reply> {
        self.add(words);
        self.flush()?;
        self.receive()
    }

    /// Adds a command to those that [`Self::flush`] sends.
    pub fn add<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        put_request(&mut self.output, words);
    }

    /// Sends what was added.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn flush(&mut self) -> io::Result<()> {
        let sent = self.reader.get_mut().write_all(&self.output);
        self.output.clear();
        sent
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// The connection is lost, or what comes is no reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.reader, &mut Room { items: ITEMS_MAX, bytes: ANSWER_MAX + REQUEST_MAX }, DEPTH_MAX)
    }
}

/// What a reply may still have.
struct Room {
    items: usize,
    bytes: usize,
}

fn read_reply(input: &mut impl BufRead, room: &mut Room, depth: usize) -> io::Result<Reply> {
    let mut line = Vec::new();
    input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_suffix(b"\r\n") else {
        return Err(if line.is_empty() { io::ErrorKind::UnexpectedEof.into() } else { bad("a line does not end") });
    };
    let (kind, text) = line.split_first().ok_or_else(|| bad("a line is empty"))?;
    let text = std::str::from_utf8(text).map_err(|_| bad("a line is no text"))?;
    let number = || text.parse::<i64>().map_err(|_| bad("a number is none"));
    match kind {
        b'+' if text == "OK" => Ok(Reply::Simple("OK")),
        b'+' => Ok(Reply::text(text)),
        b'-' => Ok(Reply::Error(text.to_owned())),
        b':' => Ok(Reply::Integer(number()?)),
        b'$' | b'*' if number()? == -1 => Ok(Reply::Nil),
        b'$' => {
            let len = usize::try_from(number()?).ok().filter(|len| *len <= room.bytes);
            let len = len.ok_or_else(|| bad("it is longer than any may be"))?;
            room.bytes -= len;
            let mut bytes = vec![0; len + 2];
            input.read_exact(&mut bytes)?;
            if !bytes.ends_with(b"\r\n") {
                return Err(bad("bytes do not end where they should"));
            }
            bytes.truncate(len);
            Ok(Reply::Bulk(Bytes::from(bytes)))
        }
        b'*' => {
            let count = usize::try_from(number()?).ok().filter(|count| *count <= room.items && depth > 0);
            let count = count.ok_or_else(|| bad("a list is longer or deeper than any may be"))?;
            room.items -= count;
            (0..count).map(|_| read_reply(input, room, depth - 1)).collect::<io::Result<_>>().map(Reply::Array)
        }
        _ => Err(bad("it begins with no kind of reply")),
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is no reply of RESP2: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(bytes: &[u8]) -> io::Result<Reply> {
        read_reply(&mut &bytes[..], &mut Room { items: 10, bytes: 100 }, DEPTH_MAX)
    }

    #[test]
    fn replies_read_back() {
        let whole = Reply::Array(vec![
            Reply::Simple("OK"),
            Reply::error("no"),
            Reply::Integer(-7),
            Reply::text("tea\r\n"),
            Reply::Nil,
            Reply::Array(Vec::new()),
        ]);
        let mut out = BytesMut::new();
        whole.put(&mut out);
        assert_eq!(reply(&out).unwrap(), whole);
        (0..out.len()).for_each(|len| drop(reply(&out[..len]).unwrap_err()));
    }

    #[test]
    fn what_is_no_reply_or_too_large_is_an_error() {
        for bytes in [&b"x\r\n"[..], b"\r\n", b":x\r\n", b"$101\r\n", b"$-2\r\n", b"*11\r\n", b"$1\r\nxy\r\n", b"+a\n"]
        {
            assert_eq!(reply(bytes).unwrap_err().kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
        assert_eq!(reply(&b"*1\r\n".repeat(6)).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(reply(b"").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

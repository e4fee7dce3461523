//! RESP2, the protocol of Redis, as a server speaks it: commands in, replies out. No I/O.
//!
//! A command is an array of bulk strings, or a line of words (*inline*). What exceeds a bound is a [`ProtocolError`]; the
//! connection ends behind it, as where the next command begins is not known.
use crate::limits::{REQUEST_MAX, WORDS_MAX};
use bytes::{BufMut, Bytes, BytesMut};

/// The longest line: an inline command, or a length.
const LINE_MAX: usize = 64 << 10;

/// What a client sent is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A line does not end.
    #[error("too big inline request; a line has at most {LINE_MAX} bytes")]
    Line,
    /// An array's length is none, or too large.
    #[error("invalid multibulk length; a command has at most {WORDS_MAX} words")]
    Words,
    /// A word's length is none, or too large.
    #[error("invalid bulk length; a command has at most {REQUEST_MAX} bytes")]
    Word,
    /// A word begins with something else than its length.
    #[error("expected '$', got {0:?}")]
    Dollar(char),
    /// A word is longer than it says.
    #[error("a word does not end where its length says")]
    End,
}

/// Takes commands out of what a client sends, however it is cut.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The words of a command that is not whole yet.
    words: Vec<Bytes>,
    /// How many are missing.
    missing: usize,
    /// The length of the next one, if it is known.
    len: Option<usize>,
    bytes: usize,
    /// So much of the input has no end of line in it.
    searched: usize,
}

impl Decoder {
    /// The next command, which has one word at least; `None` where more bytes are needed.
    ///
    /// # Errors
    /// What came is no command. Nothing behind it can be read.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        loop {
            if self.missing > 0 {
                if !self.take_word(input)? {
                    return Ok(None);
                }
                if self.missing == 0 {
                    return Ok(Some(std::mem::take(&mut self.words)));
                }
                continue;
            }
            let Some(line) = self.take_line(input)? else { return Ok(None) };
            match line.strip_prefix(b"*") {
                Some(count) => self.begin(count)?,
                None => {
                    let words: Vec<_> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
                    if words.len() > WORDS_MAX {
                        return Err(ProtocolError::Words);
                    }
                    if !words.is_empty() {
                        return Ok(Some(words.into_iter().map(|word| line.slice_ref(word)).collect()));
                    }
                }
            }
        }
    }

    /// An array begins; empty ones are passed over.
    fn begin(&mut self, count: &[u8]) -> Result<(), ProtocolError> {
        let count = number(count).ok_or(ProtocolError::Words)?;
        if count > WORDS_MAX as i64 {
            return Err(ProtocolError::Words);
        }
        (self.missing, self.bytes) = (usize::try_from(count).unwrap_or(0), 0);
        Ok(())
    }

    fn take_word(&mut self, input: &mut BytesMut) -> Result<bool, ProtocolError> {
        let len = match self.len {
            Some(len) => len,
            None => {
                // A line that never ends is told by its first byte, not after all of it.
                if let Some(first) = input.first().filter(|first| **first != b'$') {
                    return Err(ProtocolError::Dollar(char::from(*first)));
                }
                let Some(line) = self.take_line(input)? else { return Ok(false) };
                let len = line.get(1..).and_then(number).and_then(|len| usize::try_from(len).ok());
                let len = len.filter(|len| *len <= REQUEST_MAX - self.bytes).ok_or(ProtocolError::Word)?;
                self.bytes += len;
                *self.len.insert(len)
            }
        };
        if input.len() < len + 2 {
            return Ok(false);
        }
        let word = input.split_to(len).freeze();
        if *input.split_to(2) != *b"\r\n" {
            return Err(ProtocolError::End);
        }
        self.words.push(word);
        (self.len, self.missing) = (None, self.missing - 1);
        Ok(true)
    }

    /// A line without its end.
    fn take_line(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, ProtocolError> {
        let new = input.get(self.searched..).unwrap_or_default();
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.searched = input.len();
            return if input.len() > LINE_MAX { Err(ProtocolError::Line) } else { Ok(None) };
        };
        let end = self.searched + end;
        self.searched = 0;
        if end > LINE_MAX {
            return Err(ProtocolError::Line);
        }
        let mut line = input.split_to(end + 1).freeze();
        line.truncate(end);
        if line.last() == Some(&b'\r') {
            line.truncate(end - 1);
        }
        Ok(Some(line))
    }
}

/// A number as RESP writes it.
fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What a client is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A word of the server's own.
    Simple(&'static str),
    /// `KIND what is wrong`.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Bytes),
    /// No value.
    Nil,
    /// Several.
    Array(Vec<Reply>),
}

impl Reply {
    /// An error of the general kind.
    pub fn error(what: impl std::fmt::Display) -> Self {
        Self::Error(format!("ERR {what}"))
    }

    /// Bytes, or no value.
    pub fn value(value: Option<Bytes>) -> Self {
        value.map_or(Self::Nil, Self::Bulk)
    }

    /// Text as bytes.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bulk(Bytes::from(text.into()))
    }

    /// As bytes.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Simple(word) => put_line(out, b'+', word.as_bytes()),
            // Words of a client may stand in it, and must not end the line.
            Self::Error(what) => put_line(out, b'-', what.replace(['\r', '\n'], " ").as_bytes()),
            Self::Integer(number) => put_line(out, b':', number.to_string().as_bytes()),
            Self::Bulk(bytes) => {
                put_line(out, b'$', bytes.len().to_string().as_bytes());
                out.reserve(bytes.len() + 2);
                out.put_slice(bytes);
                out.put_slice(b"\r\n");
            }
            Self::Nil => out.put_slice(b"$-1\r\n"),
            Self::Array(replies) => {
                put_line(out, b'*', replies.len().to_string().as_bytes());
                replies.iter().for_each(|reply| reply.put(out));
            }
        }
    }
}

fn put_line(out: &mut BytesMut, kind: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.put_u8(kind);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

/// A command as a client sends it.
pub fn put_request<W: AsRef<[u8]>>(out: &mut BytesMut, words: &[W]) {
    put_line(out, b'*', words.len().to_string().as_bytes());
    for word in words {
        let word = word.as_ref();
        put_line(out, b'$', word.len().to_string().as_bytes());
        out.put_slice(word);
        out.put_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests;

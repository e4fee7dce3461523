//! Texts behind their length in two bytes.
use bytes::{BufMut, BytesMut};
use consort_wire::{Malformed, Reader, Writer};

/// The longest text, in bytes.
pub(crate) const MAX: usize = u16::MAX as usize;

/// Appends a text behind its length; what is too long is cut where a character ends.
pub(crate) fn put(out: &mut BytesMut, text: &str) {
    let mut len = text.len().min(MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.put_count(len);
    out.put_slice(&text.as_bytes()[..len]);
}

/// Reads one.
pub(crate) fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<String, Malformed> {
    let len = reader.count(1, what)?;
    let bytes = reader.take(len, what)?;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| reader.bad(what))
}

//! The 48 bytes before every message, in either byte order.
//!
//! | at | size | field |
//! |---|---|---|
//! | 0 | 4 | type, with the mark of its writer's byte order |
//! | 4 | 32 | a private name, or a group |
//! | 36 | 4 | how many names follow |
//! | 40 | 4 | hint: its sender's 16 bits in the middle, with the mark of its sender's byte order |
//! | 44 | 4 | how many bytes of data follow the names |
use crate::kind::MARK;
use crate::name_field;
use bytes::{BufMut, BytesMut};
use consort_wire::Malformed;

/// The bytes of a header.
pub const LEN: usize = 48;
const NAME_AT: usize = 4;
const GROUPS_AT: usize = 36;
const HINT_AT: usize = 40;
const DATA_AT: usize = 44;

/// The bits of a hint that a client may set, but for the mark.
const HINT: u32 = 0x00ff_ff00;

/// The hint of whatever no client of Spread has sent, as it travels.
pub const NO_HINT: [u8; 4] = MARK.to_le_bytes();

/// A header as a client wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadHeader {
    /// The type, without the mark.
    pub kind: u32,
    /// The private name, as it stands.
    pub name: [u8; name_field::LEN],
    /// How many names follow.
    pub groups: usize,
    /// The hint, as it stands.
    pub hint: [u8; 4],
    /// How many bytes of data follow the names.
    pub data: usize,
}

impl SpreadHeader {
    //= S10
    /// Reads a header, in the byte order that its mark names.
    ///
    /// # Errors
    /// [`Malformed`] where a mark is half set, a count is negative, or the hint has bits that are no client's.
    pub fn decode(bytes: &[u8; LEN]) -> Result<Self, Malformed> {
        let little = is_little(four(bytes, 0)).ok_or(Malformed { what: "type", at: 0 })?;
        let count = |at, what| {
            let n = usize::try_from(number(four(bytes, at), little) as i32);
            n.map_err(|_| Malformed { what, at })
        };
        let mut name = [0; name_field::LEN];
        name.copy_from_slice(&bytes[NAME_AT..GROUPS_AT]);
        Ok(Self {
            kind: number(four(bytes, 0), little) & !MARK,
            name,
            groups: count(GROUPS_AT, "number of groups")?,
            hint: read_hint(four(bytes, HINT_AT))?,
            data: count(DATA_AT, "data length")?,
        })
    }

    /// The bytes of names and data that follow; `None` if there are more than can be counted.
    pub fn body(&self) -> Option<usize> {
        self.groups.checked_mul(name_field::LEN)?.checked_add(self.data)
    }
}

//= S11
/// Appends a header in this daemon's byte order, which is always little-endian.
pub fn put(out: &mut BytesMut, kind: u32, name: &[u8], groups: usize, hint: [u8; 4], data: usize) {
    out.put_u32_le(kind | MARK);
    name_field::put(name, out);
    out.put_u32_le(groups as u32);
    out.put_slice(&hint);
    out.put_u32_le(data as u32);
}

fn read_hint(hint: [u8; 4]) -> Result<[u8; 4], Malformed> {
    let bad = Malformed { what: "hint", at: HINT_AT };
    let little = is_little(hint).ok_or(bad)?;
    if number(hint, little) & !(HINT | MARK) == 0 { Ok(hint) } else { Err(bad) }
}

fn four(bytes: &[u8; LEN], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

/// Whether the writer of a marked number is little-endian; `None` if the mark is half set.
const fn is_little(bytes: [u8; 4]) -> Option<bool> {
    match u32::from_le_bytes(bytes) & MARK {
        MARK => Some(true),
        0 => Some(false),
        _ => None,
    }
}

const fn number(bytes: [u8; 4], little: bool) -> u32 {
    if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
}

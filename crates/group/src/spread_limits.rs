//! What clients that speak Spread cannot be told.
use crate::targets::Targets;
use std::fmt;

/// How many names one message may carry for them.
pub const NAMES_MAX: usize = 100;
/// The longest name that they can read, in bytes.
pub const NAME_MAX: usize = 31;
/// The most bytes that a message may take for them, with a header of 48 bytes and 32 for each name.
pub const MESSAGE_MAX: usize = 143_200;
const HEADER_LEN: usize = 48;
const NAME_FIELD_LEN: usize = 32;

/// Why a message cannot be told to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRepresentable {
    /// It names that many groups and clients.
    Names(usize),
    /// One of the names has that many bytes.
    Name(usize),
    /// It would take that many bytes.
    Message(usize),
}

impl NotRepresentable {
    //= S21
    /// Looks at a message with `data` bytes; `None` if it fits.
    pub fn of(targets: Targets<'_>, data: usize) -> Option<Self> {
        let taken = HEADER_LEN + NAME_FIELD_LEN * targets.count() + data;
        if targets.count() > NAMES_MAX {
            return Some(Self::Names(targets.count()));
        }
        if taken > MESSAGE_MAX {
            return Some(Self::Message(taken));
        }
        // No list of short names is longer than this.
        if targets.encoded_len() <= NAME_MAX {
            return None;
        }
        targets.names().map(<[u8]>::len).find(|len| *len > NAME_MAX).map(Self::Name)
    }
}

impl fmt::Display for NotRepresentable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(count) => write!(f, "{count} names, and Spread clients take {NAMES_MAX}"),
            Self::Name(len) => write!(f, "a name of {len} bytes, and Spread clients take {NAME_MAX}"),
            Self::Message(len) => write!(f, "{len} bytes as Spread counts them, and its clients take {MESSAGE_MAX}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};

    fn limit(names: &[&str], data: usize) -> Option<NotRepresentable> {
        let mut list = BytesMut::new();
        list.put_u16(names.len() as u16);
        names.iter().for_each(|name| crate::targets::put_name(name.as_bytes(), &mut list));
        NotRepresentable::of(Targets::read(&list).unwrap(), data)
    }

    #[test]
    fn what_does_not_fit_is_named_with_the_limit() {
        //= S21 test
        let long = "x".repeat(32);
        assert_eq!(limit(&["g"; 100], 143_200 - 48 - 3_200), None);
        assert_eq!(limit(&["g"], 143_121), Some(NotRepresentable::Message(143_201)));
        assert_eq!(limit(&["g"; 101], 0), Some(NotRepresentable::Names(101)));
        assert_eq!(limit(&["g", &long], 0), Some(NotRepresentable::Name(32)));
        assert_eq!(limit(&["g", &long[1..]], 0), None);
        assert_eq!(limit(&[&long], 0).unwrap().to_string(), "a name of 32 bytes, and Spread clients take 31");
    }
}

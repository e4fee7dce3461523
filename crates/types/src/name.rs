//! Names that people choose.
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a process group: 1 to 64 bytes of printable ASCII without space, not starting with `#`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Arc<str>);

/// Why a name was refused. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// A name has at least one byte.
    Empty,
    /// A name has at most [`GroupName::MAX`] bytes.
    TooLong {
        /// The length that was given, in bytes.
        len: usize,
    },
    /// Only printable ASCII without space is allowed, and `#` (private names) not at the start.
    Character {
        /// Where the offending byte stands.
        at: usize,
        /// The offending byte.
        byte: u8,
    },
}

impl GroupName {
    /// The longest name, in bytes.
    pub const MAX: usize = 64;

    /// Checks a name, given as text or as the bytes that travel.
    ///
    /// # Errors
    /// [`NameError`] says what is wrong and where.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, NameError> {
        Self::checked(name.as_ref())
    }

    fn checked(name: &[u8]) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > Self::MAX {
            return Err(NameError::TooLong { len: name.len() });
        }
        let allowed = |at: usize, byte: u8| byte.is_ascii_graphic() && (at > 0 || byte != b'#');
        if let Some((at, byte)) = name.iter().copied().enumerate().find(|(at, byte)| !allowed(*at, *byte)) {
            return Err(NameError::Character { at, byte });
        }
        let text = std::str::from_utf8(name).map_err(|e| NameError::Character { at: e.valid_up_to(), byte: 0xff })?;
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as it travels.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl FromStr for GroupName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for GroupName {
    type Error = NameError;

    fn try_from(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

/// A name is found by its text.
impl std::borrow::Borrow<str> for GroupName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a group name is empty; give it 1 to 64 characters"),
            Self::TooLong { len } => write!(f, "a group name has {len} bytes; at most {} are allowed", GroupName::MAX),
            Self::Character { at, byte } => write!(
                f,
                "a group name has byte 0x{byte:02x} at {at}; use printable ASCII without space, and no # at the start"
            ),
        }
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_and_bad_ones_say_where() {
        assert_eq!(GroupName::new(b"orders").unwrap().as_str(), "orders");
        assert_eq!("orders".parse(), GroupName::new("orders"));
        assert_eq!(GroupName::try_from("#x"), Err(NameError::Character { at: 0, byte: b'#' }));
        assert_eq!(GroupName::new(b"a#b").unwrap().as_str(), "a#b");
        assert_eq!(GroupName::new(b""), Err(NameError::Empty));
        assert_eq!(GroupName::new([b'x'; 65]), Err(NameError::TooLong { len: 65 }));
        assert_eq!(GroupName::new(b"#x"), Err(NameError::Character { at: 0, byte: b'#' }));
        assert_eq!(GroupName::new(b"a b"), Err(NameError::Character { at: 1, byte: b' ' }));
        assert_eq!(GroupName::new("ä".as_bytes()), Err(NameError::Character { at: 0, byte: 0xc3 }));
    }
}

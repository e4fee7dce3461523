//! Programs that keep how far they have read an order.
use std::fmt;
use std::str::FromStr;

/// One copy of a program that reads an order and keeps what it read: `ledger`, or `ledger/3` where there are several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(Box<str>);

/// A text that names no holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderError {
    /// What was given; cut where it is long.
    pub text: String,
}

impl Holder {
    /// The longest, in bytes.
    pub const MAX: usize = 64;

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The program: copies of one program have the same.
    pub fn program(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(program, _)| program)
    }
}

impl FromStr for Holder {
    type Err = HolderError;

    fn from_str(text: &str) -> Result<Self, HolderError> {
        let (program, copy) = text.split_once('/').unwrap_or((text, "0"));
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        let is_name = |part: &str| !part.is_empty() && part.bytes().all(fits);
        if text.len() <= Self::MAX && is_name(program) && is_name(copy) {
            Ok(Self(text.into()))
        } else {
            Err(HolderError { text: text.chars().take(2 * Self::MAX).collect() })
        }
    }
}

impl fmt::Display for HolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} names no holder of a checkpoint: give the name of a program, or program/copy, of 1 to {} letters, digits \
             and -_.:",
            self.text,
            Holder::MAX
        )
    }
}

impl std::error::Error for HolderError {}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_a_program_or_one_of_its_copies() {
        let holder = |text: &str| text.parse::<Holder>().unwrap();
        assert_eq!((holder("ledger").program(), holder("ledger/eu-1").program()), ("ledger", "ledger"));
        assert_eq!(holder("ledger/2").to_string(), "ledger/2");
        let long = "x".repeat(65);
        for text in ["", "/", "a/", "/a", "a/b/c", "a b", "é", "a\n", &long] {
            let error = text.parse::<Holder>().unwrap_err().to_string();
            assert!(error.contains("names no holder of a checkpoint: give the name"), "{error}");
        }
    }
}

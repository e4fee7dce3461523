//! Programs that keep how far they have read an order.
use crate::GroupName;
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

    /// The longest name of a group that is used as it is, in bytes.
    const GROUP_MAX: usize = 48;

    /// One copy of the program that keeps what a group is sent. The program has the name of the group if it fits, and else
    /// `g-` with a hash of it.
    pub fn of_group(group: &GroupName, copy: u16) -> Self {
        let name = group.as_str();
        let program = if name.len() <= Self::GROUP_MAX && is_name(name) {
            name.to_owned()
        } else {
            format!("g-{:032x}", fnv1a(name.as_bytes()))
        };
        Self(format!("{program}/{copy}").into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The program: copies of one program have the same.
    pub fn program(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(program, _)| program)
    }
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}

/// FNV-1a with 128 bits: the same on every machine and in every version.
fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

impl FromStr for Holder {
    type Err = HolderError;

    fn from_str(text: &str) -> Result<Self, HolderError> {
        let (program, copy) = text.split_once('/').unwrap_or((text, "0"));
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
    fn a_group_has_one_program_whatever_its_name() {
        let program = |group: &str| Holder::of_group(&group.parse().unwrap(), 3).to_string();
        assert_eq!(program("kv.main.1"), "kv.main.1/3");
        assert_eq!(program(&"x".repeat(48)), format!("{}/3", "x".repeat(48)));
        // The published vector of FNV-1a for "a" is d228cb696f1a8caf78912b704e4a8964.
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        for group in ["a/b", &"x".repeat(49), &"~".repeat(64)] {
            let holder = program(group);
            assert!(holder.starts_with("g-") && holder.len() == 36, "{holder}");
            assert_eq!(holder.parse::<Holder>().unwrap().to_string(), holder);
        }
        assert_eq!(
            Holder::of_group(&"g".parse().unwrap(), u16::MAX).as_str().parse::<Holder>().unwrap().program(),
            "g"
        );
    }

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

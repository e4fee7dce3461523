//! A cluster's keys as text: a line `key EPOCH HEX` for each, the one to seal with first; `#` begins a comment.
use crate::keys::{EPOCHS_MOST, KEY, KeyEpoch, KeyRing};
use std::fmt::Write;

/// What is wrong with a key file. Never says what a key is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeyFile {
    /// A line that is neither a comment nor a key.
    #[error("line {line} is not `key EPOCH HEX`, with an epoch from 1 to 65535 and 64 hexadecimal digits")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// There is no key in it.
    #[error("there is no key in it")]
    Empty,
    /// More keys than may be valid at once.
    #[error("line {line} is one key too many: {EPOCHS_MOST} may be valid at once")]
    TooMany {
        /// Counted from 1.
        line: usize,
    },
    /// Two keys have one epoch.
    #[error("line {line} has the epoch of an earlier key; give each its own")]
    Twice {
        /// Counted from 1.
        line: usize,
    },
    /// All bytes are equal: nobody drew that by chance.
    #[error("line {line} is no key that was drawn by chance")]
    Weak {
        /// Counted from 1.
        line: usize,
    },
}

/// Reads a key file.
///
/// # Errors
/// [`BadKeyFile`] says which line, and what is wrong with it.
pub fn parse(text: &str) -> Result<KeyRing, BadKeyFile> {
    let mut keys: Vec<(KeyEpoch, [u8; KEY])> = Vec::new();
    for (line, words) in (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default().trim())) {
        if words.is_empty() {
            continue;
        }
        let (epoch, key) = read(words).ok_or(BadKeyFile::Line { line })?;
        if keys.iter().any(|(known, _)| *known == epoch) {
            return Err(BadKeyFile::Twice { line });
        }
        if key.iter().all(|byte| *byte == key[0]) {
            return Err(BadKeyFile::Weak { line });
        }
        if keys.len() == EPOCHS_MOST {
            return Err(BadKeyFile::TooMany { line });
        }
        keys.push((epoch, key));
    }
    match keys.as_slice() {
        [] => Err(BadKeyFile::Empty),
        [(epoch, key)] => Ok(KeyRing::new(*epoch, key)),
        [(epoch, key), (other, second), ..] => Ok(KeyRing::new(*epoch, key).with_other(*other, second)),
    }
}

/// The text of a new key file.
pub fn write(epoch: KeyEpoch, key: &[u8; KEY]) -> String {
    let mut text = String::from(
        "# The key of a Consort cluster. Whoever has it belongs to the cluster: give it to its nodes, and to nobody else.\n",
    );
    text.push_str(line(epoch, key).trim_start());
    text
}

/// The line of one more key, to be appended; it begins on a line of its own.
pub fn line(epoch: KeyEpoch, key: &[u8; KEY]) -> String {
    let mut text = format!("\nkey {epoch} ");
    key.iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    text.push('\n');
    text
}

fn read(words: &str) -> Option<(KeyEpoch, [u8; KEY])> {
    let mut words = words.split_whitespace();
    let (Some("key"), Some(epoch), Some(digits), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return None;
    };
    Some((epoch.parse().ok().and_then(KeyEpoch::new)?, hex(digits)?))
}

fn hex(digits: &str) -> Option<[u8; KEY]> {
    let mut key = [0; KEY];
    if digits.len() != 2 * KEY || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> [u8; KEY] {
        std::array::from_fn(|at| first.wrapping_add(at as u8))
    }

    fn epoch(number: u16) -> KeyEpoch {
        KeyEpoch::new(number).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_two_epochs_may_stand_in_a_file() {
        let one = write(epoch(7), &key(1));
        let epochs = |text: &str| parse(text).unwrap().epochs().map(KeyEpoch::get).collect::<Vec<_>>();
        assert_eq!(epochs(&one), [7]);
        assert_eq!(epochs(&format!("{}\n{one}", write(epoch(8), &key(9)))), [8, 7], "the first one seals");
        let shown = format!("{:?}", parse(&one).unwrap());
        assert!(!shown.contains("0102") && shown.contains('7'), "{shown}");
    }

    #[test]
    fn whatever_is_wrong_is_told_with_its_line_and_without_the_key() {
        let good = write(epoch(1), &key(1));
        let problem = |text: &str| parse(text).unwrap_err();
        assert_eq!((problem(""), problem("# nothing\n\n")), (BadKeyFile::Empty, BadKeyFile::Empty));
        let digits = "ab".repeat(KEY);
        for line in [
            "key 1",
            "1 abcd",
            "key 0 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
            "key 65536 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
            "key 1 0102",
            "key 1 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fzz",
            "key 1 +102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2",
            "key 1 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20 more",
        ] {
            assert_eq!(problem(&format!("\n{line}\n")), BadKeyFile::Line { line: 2 }, "{line}");
        }
        assert_eq!(problem(&format!("key 1 {digits}")), BadKeyFile::Weak { line: 1 });
        assert_eq!(problem(&format!("{good}{good}")), BadKeyFile::Twice { line: 4 });
        let three = format!("{good}{}{}", write(epoch(2), &key(2)), write(epoch(3), &key(3)));
        assert_eq!(problem(&three), BadKeyFile::TooMany { line: 6 });
        assert!(!problem(&three).to_string().contains("0102"));
    }
}

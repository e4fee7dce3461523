//! Up to which record all are synced: a small file beside the segments. It is written after each sync, and not synced itself:
//! after a stop of the machine it may tell of less, and never of more.
use super::{Unusable, replace};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(super) const NAME: &str = "synced";
/// The digits of a number, in base 16.
const DIGITS: usize = 16;

/// The open file.
#[derive(Debug)]
pub(super) struct Mark(File);

impl Mark {
    /// The number of the last record that is known to be synced; none where no daemon has told yet.
    pub fn last(directory: &Path) -> Result<Option<u64>, Unusable> {
        let path = directory.join(NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match read(&bytes) {
            Some(number) => Ok(Some(number)),
            None => {
                let held = String::from_utf8_lossy(&bytes[..bytes.len().min(2 * DIGITS)]).into_owned();
                Err(Unusable::Damaged(path, format!("it holds {held:?}, which no daemon writes")))
            }
        }
    }

    /// Begins with this number, which is on the disk when that returns. The file stays the same one for as long as the
    /// directory is there: the owner's file names it.
    pub fn begin(directory: &Path, number: u64) -> io::Result<Self> {
        let path = directory.join(NAME);
        if !path.exists() {
            replace(directory, NAME, |_| Ok(text(number)))?;
        }
        let mark = Self(OpenOptions::new().write(true).open(path)?);
        mark.note(number)?;
        mark.0.sync_all()?;
        Ok(mark)
    }

    /// All up to this number are synced.
    pub fn note(&self, number: u64) -> io::Result<()> {
        self.0.write_all_at(text(number).as_bytes(), 0)
    }
}

/// Always of the same length, and within one sector: it is replaced as a whole.
fn text(number: u64) -> String {
    let digits = format!("{number:0DIGITS$x}");
    let sum = crc32fast::hash(digits.as_bytes());
    format!("{digits} {sum:08x}\n")
}

fn read(bytes: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(bytes.get(..DIGITS)?).ok()?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (text(number).as_bytes() == bytes).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_and_no_other_bytes_are_one() {
        for number in [0, 1, 0xABCD, u64::MAX] {
            let text = text(number);
            assert_eq!((read(text.as_bytes()), text.len()), (Some(number), 26));
            for (at, bit) in (0..26).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert_eq!(read(&bytes), None, "{number}, byte {at}, bit {bit}");
            }
        }
        assert_eq!((read(b""), read(&text(1).as_bytes()[..25])), (None, None));
    }
}

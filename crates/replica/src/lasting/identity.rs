//! Whose directory it is: of which group, in which order, as which copy. Written before the order is asked to bind the copy,
//! so that a later start knows its own binding, and notices a directory that is a copy or was put back from a backup.
//!
//! The file holds `CONSRID1`; then the order, the copy's epoch, the token of its last binding, the mark of the directory, the
//! seat and the group, both with their lengths in front; the last four bytes are the CRC-32 of all before.
use crate::checkpoint::{replace, whole};
use bytes::{BufMut, BytesMut};
use consort::Holder;
use consort_wire::{Malformed, Reader};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

const MAGIC: &[u8; 8] = b"CONSRID1";
const NAME: &str = "identity";

/// Whose directory it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which group's machine.
    pub group: String,
    /// Names the order that its checkpoints belong to.
    pub order: u64,
    /// Which copy.
    pub seat: Holder,
    /// The copy's epoch when this directory was bound last; 0 before the first time.
    pub epoch: u64,
    /// Names the last binding that was asked for.
    pub token: u128,
    /// What its copies do not share with the directory, when it was bound.
    pub mark: u128,
}

/// What its copies do not share with a directory: a file that is never replaced has another inode and another time of birth in a
/// copy, and in a directory that was put back from a backup.
///
/// # Errors
/// The system's.
pub fn mark(lock: &File) -> io::Result<u128> {
    let known = lock.metadata()?;
    let born = known.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    Ok(u128::from(known.ino()) << 64 | born.map_or(0, |born| born.as_nanos() & u128::from(u64::MAX)))
}

impl Identity {
    /// What the directory says; `None` where it is new.
    ///
    /// # Errors
    /// The system's, or that the file is damaged.
    pub fn load(directory: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(directory.join(NAME)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = |what: &str| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the file `{NAME}` is damaged ({what}); give this server an empty directory"),
            )
        };
        let text = whole(&bytes).ok_or_else(|| damaged("its checksum is wrong"))?;
        Self::decode(text).map(Some).map_err(|error| damaged(&error.to_string()))
    }

    /// Replaces the one before, synced.
    pub fn save(&self, directory: &Path) -> io::Result<()> {
        let mut out = BytesMut::new();
        out.put_slice(MAGIC);
        out.put_u64(self.order);
        out.put_u64(self.epoch);
        out.put_u128(self.token);
        out.put_u128(self.mark);
        for text in [self.seat.as_str(), &self.group] {
            out.put_u16(text.len() as u16);
            out.put_slice(text.as_bytes());
        }
        replace(directory, NAME, out)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len(), "format")? != MAGIC {
            return Err(Malformed { what: "format", at: 0 });
        }
        let (order, epoch) = (reader.u64("order")?, reader.u64("epoch")?);
        let token = crate::codec::read_u128(&mut reader, "token")?;
        let mark = crate::codec::read_u128(&mut reader, "mark")?;
        let before = reader.clone();
        let seat = read_text(&mut reader, "seat")?.parse().map_err(|_| before.bad("seat"))?;
        let group = read_text(&mut reader, "group")?;
        reader.end("end of identity")?;
        Ok(Self { group, order, seat, epoch, token, mark })
    }
}

fn read_text(reader: &mut Reader<'_>, what: &'static str) -> Result<String, Malformed> {
    let before = reader.clone();
    let len = usize::from(reader.u16(what)?);
    let text = std::str::from_utf8(reader.take(len, what)?).map_err(|_| before.bad(what))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_directory_has_another_mark() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["lock", "copy"].map(|name| directory.path().join(name));
        fs::write(&one, "").unwrap();
        fs::copy(&one, &other).unwrap();
        let mark = |path| mark(&File::open(path).unwrap()).unwrap();
        assert_ne!(mark(&one), mark(&other));
        let before = mark(&one);
        File::options().write(true).open(&one).unwrap();
        assert_eq!(mark(&one), before);
    }

    #[test]
    fn an_identity_reads_back_and_a_damaged_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Identity::load(directory.path()).unwrap(), None);
        let seat = "kv.main.1/2".parse().unwrap();
        let mut identity = Identity { group: "kv.main.1".into(), order: 7, seat, epoch: 0, token: 1 << 100, mark: 5 };
        identity.save(directory.path()).unwrap();
        identity.epoch = 3;
        identity.save(directory.path()).unwrap();
        assert_eq!(Identity::load(directory.path()).unwrap(), Some(identity));
        let path = directory.path().join(NAME);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            fs::write(&path, &changed).unwrap();
            let error = Identity::load(directory.path()).unwrap_err().to_string();
            assert!(error.contains("is damaged") && error.contains("empty directory"), "{error}");
            fs::write(&path, &whole[..at]).unwrap();
            Identity::load(directory.path()).unwrap_err();
        }
    }
}

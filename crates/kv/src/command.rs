//! What stands in the order: commands of a partition, and what comes of them.
use crate::limits::{KEY_MAX, VALUE_MAX};
use bytes::{BufMut, Bytes, BytesMut};
use consort_wire::{Malformed, Reader};

const FOUND: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;

/// When a value is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<'a> {
    /// In any case.
    Always,
    /// Where the key has no value.
    Absent,
    /// Where it has one.
    Present,
    /// Where it has this one: compare-and-set.
    Equals(&'a [u8]),
}

impl Condition<'_> {
    /// Whether it is met where the key has this value.
    pub fn is_met(self, held: Option<&[u8]>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => held.is_none(),
            Self::Present => held.is_some(),
            Self::Equals(value) => held == Some(value),
        }
    }
}

/// A command of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// The store has so many partitions, if nobody has said so before. The outcome is [`Outcome::Founded`].
    Found {
        /// How many.
        partitions: u16,
    },
    /// Puts a value under a key.
    Put {
        /// When.
        condition: Condition<'a>,
        /// Whether the outcome has what was there before.
        returns_old: bool,
        /// Bytes that the partition may hold; it comes with the command so that all replicas judge alike.
        budget: u64,
        /// Where.
        key: &'a [u8],
        /// What.
        value: &'a [u8],
    },
    /// Takes keys away. The outcome is [`Outcome::Deleted`].
    Delete {
        /// Which.
        keys: Vec<&'a [u8]>,
    },
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value is put, and this was there before if that was asked.
    Put(Option<Bytes>),
    /// The condition was not met; with what is there, if that was asked.
    Kept(Option<Bytes>),
    /// The partition would hold more than its budget: nothing was put.
    Full,
    /// So many keys were taken away.
    Deleted(u64),
    /// So many partitions the store has.
    Founded(u16),
    /// The bytes were no command. Nothing was done.
    Malformed,
}

impl Command<'_> {
    /// As bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Found { partitions } => {
                out.put_u8(FOUND);
                out.put_u16(*partitions);
            }
            Self::Put { condition, returns_old, budget, key, value } => {
                out.reserve(32 + key.len() + value.len());
                out.put_u8(PUT);
                out.put_u8(u8::from(*returns_old));
                out.put_u64(*budget);
                put_condition(&mut out, *condition);
                put_bytes(&mut out, key);
                out.put_slice(value);
            }
            Self::Delete { keys } => {
                out.put_u8(DELETE);
                keys.iter().for_each(|key| put_bytes(&mut out, key));
            }
        }
        out.freeze()
    }
}

impl<'a> Command<'a> {
    /// Reads one.
    ///
    /// # Errors
    /// The bytes are none, or a key or value is longer than any may be.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        match reader.u8("kind")? {
            FOUND => {
                let partitions = reader.u16("partitions")?;
                reader.end("end of command")?;
                Ok(Self::Found { partitions })
            }
            PUT => {
                let returns_old = reader.u8("flags")? == 1;
                let budget = reader.u64("budget")?;
                let condition = read_condition(&mut reader)?;
                let key = read_bytes(&mut reader, KEY_MAX, "key")?;
                if reader.left() > VALUE_MAX {
                    return Err(reader.bad("value"));
                }
                Ok(Self::Put { condition, returns_old, budget, key, value: reader.rest() })
            }
            DELETE => {
                let mut keys = Vec::new();
                while reader.left() > 0 {
                    keys.push(read_bytes(&mut reader, KEY_MAX, "key")?);
                }
                Ok(Self::Delete { keys })
            }
            _ => Err(reader.bad("kind")),
        }
    }
}

impl Outcome {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let with_old = |kind: u8, old: &Option<Bytes>| {
            let flag = u8::from(old.is_some());
            [&[kind, flag], old.as_deref().unwrap_or_default()].concat()
        };
        match self {
            Self::Put(old) => with_old(1, old),
            Self::Kept(held) => with_old(2, held),
            Self::Full => vec![3],
            Self::Deleted(count) => [&[4], &count.to_be_bytes()[..]].concat(),
            Self::Founded(partitions) => [&[5], &partitions.to_be_bytes()[..]].concat(),
            Self::Malformed => vec![6],
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        let outcome = match kind {
            1 | 2 => {
                let has = reader.u8("flag")? == 1;
                let old = has.then(|| bytes.slice(reader.at()..));
                return Ok(if kind == 1 { Self::Put(old) } else { Self::Kept(old) });
            }
            3 => Self::Full,
            4 => Self::Deleted(reader.u64("count")?),
            5 => Self::Founded(reader.u16("partitions")?),
            6 => Self::Malformed,
            _ => return Err(reader.bad("kind")),
        };
        reader.end("end of outcome")?;
        Ok(outcome)
    }
}

fn put_condition(out: &mut BytesMut, condition: Condition<'_>) {
    match condition {
        Condition::Always => out.put_u8(0),
        Condition::Absent => out.put_u8(1),
        Condition::Present => out.put_u8(2),
        Condition::Equals(value) => {
            out.put_u8(3);
            put_bytes(out, value);
        }
    }
}

fn read_condition<'a>(reader: &mut Reader<'a>) -> Result<Condition<'a>, Malformed> {
    Ok(match reader.u8("condition")? {
        0 => Condition::Always,
        1 => Condition::Absent,
        2 => Condition::Present,
        3 => Condition::Equals(read_bytes(reader, VALUE_MAX, "expected value")?),
        _ => return Err(reader.bad("condition")),
    })
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
}

fn read_bytes<'a>(reader: &mut Reader<'a>, most: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
    let len = reader.u32(what)? as usize;
    if len > most { Err(reader.bad(what)) } else { reader.take(len, what) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Vec<Command<'static>> {
        let put = |condition| Command::Put { condition, returns_old: true, budget: 9, key: b"tea", value: b"green" };
        let conditions = [Condition::Always, Condition::Absent, Condition::Present, Condition::Equals(b"black")];
        let others = [Command::Found { partitions: 3 }, Command::Delete { keys: vec![b"", b"tea"] }];
        conditions.into_iter().map(put).chain(others).collect()
    }

    #[test]
    fn commands_and_outcomes_read_back() {
        for command in commands() {
            assert_eq!(Command::decode(&command.encode()), Ok(command));
        }
        let old = Some(Bytes::from_static(b"old"));
        for outcome in [
            Outcome::Put(None),
            Outcome::Put(old.clone()),
            Outcome::Kept(old),
            Outcome::Kept(Some(Bytes::new())),
            Outcome::Full,
            Outcome::Deleted(4),
            Outcome::Founded(5),
            Outcome::Malformed,
        ] {
            assert_eq!(Outcome::decode(&outcome.encode().into()), Ok(outcome));
        }
    }

    #[test]
    fn bytes_that_are_cut_or_changed_are_commands_or_malformed() {
        for command in commands() {
            let bytes = command.encode();
            for len in 0..bytes.len() {
                let _ = Command::decode(&bytes[..len]);
                let mut changed = bytes.to_vec();
                (0..=255).for_each(|byte| {
                    changed[len] = byte;
                    let _ = Command::decode(&changed);
                });
            }
        }
        assert_eq!(Command::decode(b"").unwrap_err().what, "kind");
        assert_eq!(Command::decode(&[FOUND, 0]).unwrap_err().what, "partitions");
        assert_eq!(Command::decode(&[DELETE, 0xff, 0, 0, 0]).unwrap_err().what, "key");
        assert!(Outcome::decode(&Bytes::from_static(b"\x09")).is_err());
    }

    #[test]
    fn what_is_longer_than_any_may_be_is_no_command() {
        let (key, value) = (vec![0; KEY_MAX + 1], vec![0; VALUE_MAX + 1]);
        let put = |key, value| {
            let condition = Condition::Always;
            Command::Put { condition, returns_old: false, budget: 0, key, value }.encode()
        };
        assert_eq!(Command::decode(&put(&key, b"")).unwrap_err().what, "key");
        assert_eq!(Command::decode(&put(b"", &value)).unwrap_err().what, "value");
        assert!(Command::decode(&put(&key[1..], &value[1..])).is_ok());
    }
}

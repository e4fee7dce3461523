//! The state machine of one partition.
use crate::arcs::hash;
use crate::command::{Command, Condition, Outcome};
use crate::leaves::Leaves;
use crate::limits::{ANSWER_MAX, ENTRY, KEY_MAX, VALUE_MAX};
use bytes::Bytes;
use consort_replica::{Position, StateMachine};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

/// In front of each snapshot.
const MAGIC: &[u8; 8] = b"CONSKV01";

type Key = Arc<[u8]>;
type Value = Arc<[u8]>;

/// Keys and values of one arc of the ring. The same commands in the same order give the same partition.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// How many partitions the store has; 0 before anybody said so.
    partitions: u16,
    values: Leaves<Key, Value>,
    /// The keys in the order of their hashes, for scans.
    ring: Leaves<(u64, Key), ()>,
    bytes: u64,
}

/// Some entries of a partition, and from which key on there are more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// By their keys, ascending.
    pub entries: Vec<(Bytes, Bytes)>,
    /// The first key that is left out for want of room.
    pub more_from: Option<Bytes>,
}

impl Partition {
    /// What stands under a key.
    pub fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(|value| &**value)
    }

    /// How many partitions the store has, as its first server said; 0 if none has.
    pub const fn partitions(&self) -> u16 {
        self.partitions
    }

    /// How many keys there are.
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of keys and values, with what each entry costs.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All keys with their values, in the order of keys.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.values.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The entries from a key on, before another, so many at most.
    pub fn range(&self, from: &[u8], to: Option<&[u8]>, most: usize) -> Entries {
        let mut found = Entries::default();
        let mut bytes = 0;
        for (key, value) in self.values.from(from).take_while(|(key, _)| to.is_none_or(|to| &***key < to)) {
            if found.entries.len() == most || bytes > ANSWER_MAX {
                found.more_from = Some(Bytes::copy_from_slice(key));
                break;
            }
            bytes += key.len() + value.len();
            found.entries.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        }
        found
    }

    /// Keys in the order of their hashes, from this hash on, so many at least; those of one hash stay together. Returns also
    /// the hash of the next one.
    pub fn scan(&self, from: u64, least: usize, most: usize) -> (Vec<Bytes>, Option<u64>) {
        let (mut found, mut bytes, mut last) = (Vec::new(), 0, from);
        let start = (from, Key::from(&b""[..]));
        for ((hash, key), ()) in self.ring.from(&start) {
            if (found.len() >= least || bytes > most) && *hash != last {
                return (found, Some(*hash));
            }
            (last, bytes) = (*hash, bytes + key.len());
            found.push(Bytes::copy_from_slice(key));
        }
        (found, None)
    }

    fn put(
        &mut self,
        condition: Condition<'_>,
        budget: u64,
        (key, value): (&[u8], &[u8]),
        returns_old: bool,
    ) -> Outcome {
        let held = self.values.get(key).cloned();
        let told = held.as_deref().filter(|_| returns_old).map(Bytes::copy_from_slice);
        if !condition.is_met(held.as_deref()) {
            return Outcome::Kept(told);
        }
        let before = held.as_ref().map_or(0, |held| cost(key, held));
        let after = self.bytes - before + cost(key, value);
        if after > budget && after > self.bytes {
            return Outcome::Full;
        }
        self.enter(key.into(), value.into());
        Outcome::Put(told)
    }

    fn enter(&mut self, key: Key, value: Value) {
        self.bytes += cost(&key, &value);
        match self.values.insert(Arc::clone(&key), value) {
            Some(old) => self.bytes -= cost(&key, &old),
            None => drop(self.ring.insert((hash(&key), key), ())),
        }
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let key = Key::from(key);
        let Some(old) = self.values.remove(&key) else { return false };
        self.bytes -= cost(&key, &old);
        self.ring.remove(&(hash(&key), key));
        true
    }
}

fn cost(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + ENTRY
}

impl StateMachine for Partition {
    type Snapshot = Self;

    fn apply(&mut self, _at: Position, command: &[u8]) -> Vec<u8> {
        let outcome = match Command::decode(command) {
            Ok(Command::Found { partitions }) => {
                if self.partitions == 0 {
                    self.partitions = partitions;
                }
                Outcome::Founded(self.partitions)
            }
            Ok(Command::Put { condition, returns_old, budget, key, value }) => {
                self.put(condition, budget, (key, value), returns_old)
            }
            Ok(Command::Delete { keys }) => Outcome::Deleted(keys.iter().map(|key| u64::from(self.delete(key))).sum()),
            Err(_) => Outcome::Malformed,
        };
        outcome.encode()
    }

    fn snapshot(&self) -> Self {
        self.clone()
    }

    fn write(snapshot: Self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        out.write_all(MAGIC)?;
        out.write_all(&snapshot.partitions.to_be_bytes())?;
        out.write_all(&(snapshot.len() as u64).to_be_bytes())?;
        for (key, value) in snapshot.entries() {
            out.write_all(&(key.len() as u32).to_be_bytes())?;
            out.write_all(&(value.len() as u32).to_be_bytes())?;
            out.write_all(key)?;
            out.write_all(value)?;
        }
        out.flush()
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        let mut state = BufReader::new(state);
        if read::<8>(&mut state)? != *MAGIC {
            return Err(bad("it is no snapshot of a partition"));
        }
        let mut restored = Self { partitions: u16::from_be_bytes(read(&mut state)?), ..Self::default() };
        let count = u64::from_be_bytes(read(&mut state)?);
        for _ in 0..count {
            let [key, value] = [read(&mut state)?, read(&mut state)?].map(|len| u32::from_be_bytes(len) as usize);
            if key > KEY_MAX || value > VALUE_MAX {
                return Err(bad("a key or a value is longer than any may be"));
            }
            let mut bytes = vec![0; key + value];
            state.read_exact(&mut bytes)?;
            let (key, value) = bytes.split_at(key);
            restored.enter(key.into(), value.into());
        }
        if state.read(&mut [0])? > 0 || restored.len() as u64 != count {
            return Err(bad("its entries are not as many as it says"));
        }
        *self = restored;
        Ok(())
    }
}

fn read<const N: usize>(state: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    state.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;

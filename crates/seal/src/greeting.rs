//! What nodes say to prove that they speak now: which starts of others they have heard, and answers to their questions.
//!
//! A sealed greeting holds, behind its envelope of kind 19:
//!
//! | off | size | field |
//! |---|---|---|
//! | 56 | 6 each | the next counter of each of the eight kinds: whatever is below was sent before |
//! | 104 | 2 | count of entries |
//! | 106 | 27 each | entries: node 2; the salt of that node's start that was heard 16, zeros for none; question 4; answer 4; flags 1 |
//!
//! Flag 1: that start is heard, and its packets are taken.
use crate::keys::{SALT, Salt};
use crate::{ADDRESSEE, COUNTER, KINDS};
use bytes::{BufMut, BytesMut};
use consort_types::NodeId;
use consort_wire::{Identity, Malformed, Reader, Writer, envelope};

/// Stands where other datagrams have their lane.
pub const KIND: u8 = 19;
const ENTRY: usize = 2 + SALT + 4 + 4 + 1;
const PROVEN: u8 = 1;
/// So many entries fit into a datagram that passes everywhere.
pub const ENTRIES_MOST: usize =
    (consort_wire::path_mtu::ALWAYS - envelope::LEN - crate::OVERHEAD - COUNTER * KINDS.len() - 2) / ENTRY;

/// What a node says to all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Whatever the sender sealed before has lower counters, kind by kind.
    pub counters: [u64; KINDS.len()],
    /// What it says to single nodes.
    pub entries: Vec<Entry>,
}

/// What a greeting says to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// To whom.
    pub node: NodeId,
    /// Which of its starts was heard, if one was.
    pub salt: Option<Salt>,
    /// What the node is to answer.
    pub question: u32,
    /// The answer to what that start asked.
    pub answer: u32,
    /// Whether packets of that start are taken.
    pub proven: bool,
}

impl Greeting {
    /// The plain datagram that says it, to be sealed.
    pub fn encode(&self, identity: &Identity) -> BytesMut {
        let mut datagram = BytesMut::with_capacity(consort_wire::path_mtu::ALWAYS);
        envelope::reserve(&mut datagram);
        self.counters.iter().for_each(|counter| datagram.put_slice(&counter.to_be_bytes()[ADDRESSEE..]));
        datagram.put_count(self.entries.len());
        for entry in &self.entries {
            datagram.put_u16(entry.node.0);
            datagram.put_slice(entry.salt.as_ref().map_or(&[0; SALT][..], |salt| salt.bytes()));
            datagram.put_u32(entry.question);
            datagram.put_u32(entry.answer);
            datagram.put_u8(u8::from(entry.proven) * PROVEN);
        }
        envelope::stamp_unsummed(identity, KIND, &mut datagram);
        datagram
    }

    /// Reads what stands behind the envelope.
    ///
    /// # Errors
    /// [`Malformed`] for any bytes that [`Self::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut counters = [0; KINDS.len()];
        for counter in &mut counters {
            let mut raw = [0; size_of::<u64>()];
            raw[ADDRESSEE..].copy_from_slice(reader.take(COUNTER, "counter")?);
            *counter = u64::from_be_bytes(raw);
        }
        let count = reader.count(ENTRY, "entries")?;
        let entries = (0..count).map(|_| Entry::decode(&mut reader)).collect::<Result<_, _>>()?;
        reader.end("greeting")?;
        Ok(Self { counters, entries })
    }
}

impl Entry {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let node = NodeId(reader.u16("node")?);
        let mut salt = [0; SALT];
        salt.copy_from_slice(reader.take(SALT, "salt")?);
        let known = Salt::from_wire(salt);
        if known.is_none() && salt != [0; SALT] {
            return Err(reader.bad("salt"));
        }
        let (question, answer) = (reader.u32("question")?, reader.u32("answer")?);
        let flags = reader.u8("flags")?;
        if flags & !PROVEN != 0 {
            return Err(reader.bad("flags"));
        }
        Ok(Self { node, salt: known, question, answer, proven: flags & PROVEN != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::Cipher;
    use crate::tests::identity;

    fn greeting(entries: usize) -> Greeting {
        let entry = |n: usize| Entry {
            node: NodeId(n as u16 + 1),
            salt: n.is_multiple_of(2).then(|| Salt::new(Cipher::Aes256Gcm, [n as u8; SALT - 1])),
            question: n as u32,
            answer: u32::MAX - n as u32,
            proven: n.is_multiple_of(3),
        };
        let counters = [0, 1, crate::COUNTER_LAST, 3, 4, 5, 6, 7];
        Greeting { counters, entries: (0..entries).map(entry).collect() }
    }

    #[test]
    fn a_greeting_is_read_as_it_was_said_and_passes_everywhere() {
        for entries in [0, 1, ENTRIES_MOST] {
            let said = greeting(entries);
            let bytes = said.encode(&identity(1));
            assert!(bytes.len() + crate::OVERHEAD <= consort_wire::path_mtu::ALWAYS);
            assert_eq!(Greeting::decode(&bytes[envelope::LEN..]), Ok(said));
        }
    }

    #[test]
    fn what_nobody_says_is_malformed_and_nothing_panics() {
        let good = greeting(3).encode(&identity(1)).split_off(envelope::LEN);
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            Greeting::decode(&bad).unwrap_err().what
        };
        assert_eq!(Greeting::decode(&good[..good.len() - 1]).unwrap_err().what, "entries");
        assert_eq!((with(good.len() - 1, 2), with(52, 7), with(48, 0xff)), ("flags", "salt", "entries"));
        let mut longer = good.to_vec();
        longer.push(0);
        assert_eq!(Greeting::decode(&longer).unwrap_err().what, "greeting");
        consort_wire::mutate::each(&good, 20_000, |bytes| drop(Greeting::decode(bytes)));
    }
}

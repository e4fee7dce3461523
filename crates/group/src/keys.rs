//! What daemons say in the order of the keys with which they seal datagrams.
//!
//! | size | field |
//! |---|---|
//! | 1 | kind: 16 |
//! | 1 | 0 proposes a key; else an answer: 1 holds it, 2 lacks it, 3 holds another of that epoch, 4 uses a newer one |
//! | 2 + 8 | the key: its epoch, 1 or more, and its fingerprint |
//! | 4 | the proposal's number at its daemon |
//! | 10 | an answer: that daemon |
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::MemberId;
use consort_wire::{Malformed, Reader, Writer};

pub(crate) const KEYS: u8 = 16;
const PROPOSE: u8 = 0;

/// Names one of a cluster's keys without telling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    /// Its epoch, 1 or more: a higher one is newer.
    pub epoch: u16,
    /// What tells it from other keys of that epoch.
    pub fingerprint: u64,
}

/// Names a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposalId {
    /// Whose it is.
    pub by: MemberId,
    /// Its number there.
    pub number: u32,
}

/// How a daemon stands to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAnswer {
    /// It holds it, and takes what is sealed with it from here on.
    Holds = 1,
    /// It has no key of that epoch.
    Lacks = 2,
    /// It has another key of that epoch.
    Differs = 3,
    /// It uses a newer one.
    Superseded = 4,
}

impl KeyAnswer {
    const ALL: [Self; 4] = [Self::Holds, Self::Lacks, Self::Differs, Self::Superseded];
}

/// What a daemon says of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMessage {
    /// That all seal with this key.
    Propose {
        /// Which key.
        key: KeyName,
        /// The proposal's number at this daemon.
        number: u32,
    },
    /// How it stands to the key of a proposal.
    Answer {
        /// Which proposal.
        proposal: ProposalId,
        /// Which key.
        key: KeyName,
        /// How it stands to it.
        answer: KeyAnswer,
    },
}

impl KeyMessage {
    /// The payload that says it.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(KEYS);
        let (code, key, number) = match *self {
            Self::Propose { key, number } => (PROPOSE, key, number),
            Self::Answer { proposal, key, answer } => (answer as u8, key, proposal.number),
        };
        out.put_u8(code);
        out.put_u16(key.epoch);
        out.put_u64(key.fingerprint);
        out.put_u32(number);
        if let Self::Answer { proposal, .. } = self {
            out.put_member(proposal.by);
        }
        out.freeze()
    }

    /// Reads what stands behind the kind.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let before = reader.clone();
        let code = reader.u8("answer")?;
        let known = KeyAnswer::ALL.into_iter().find(|answer| *answer as u8 == code);
        let at = reader.clone();
        let key = KeyName { epoch: reader.u16("epoch")?, fingerprint: reader.u64("fingerprint")? };
        if key.epoch == 0 {
            return Err(at.bad("epoch"));
        }
        let number = reader.u32("proposal")?;
        match (code, known) {
            (PROPOSE, _) => Ok(Self::Propose { key, number }),
            (_, Some(answer)) => {
                let proposal = ProposalId { by: reader.member("proposal")?, number };
                Ok(Self::Answer { proposal, key, answer })
            }
            _ => Err(before.bad("answer")),
        }
    }
}

//! What candidates say to each other in the order.
//!
//! | size | field |
//! |---|---|
//! | 8 | magic: `cslead01` |
//! | 16 | candidate |
//! | 8 | serial: the candidate's messages, counted from 1 |
//! | 8 | the view for which it is meant |
//! | 1 | kind: 1 stand, 2 claim, 3 renew, 4 resign, 5 say, 6 decide |
//! | 16 | claim, resign: anchor, a place |
//! | 16 | renew, decide: fence |
//! | … | say, decide: the program's bytes |
use crate::Fence;
use std::fmt;

const MAGIC: &[u8; 8] = b"cslead01";
/// So many bytes stand before what differs by kind.
const HEAD: usize = 8 + 16 + 8 + 8 + 1;

/// One who may lead: 16 random bytes, drawn when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(pub [u8; 16]);

impl fmt::Display for CandidateId {
    /// Its first four bytes in hexadecimal: enough to tell it from others in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One ordered message of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Whose it is.
    pub candidate: CandidateId,
    /// Which of its messages.
    pub serial: u64,
    /// For which view it is meant; in any other it has no effect.
    pub view: u64,
    /// What it wants.
    pub act: Act,
}

/// What a candidate wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// To learn that the view counts, and since when.
    Stand,
    /// To lead, unless something happened behind the anchor.
    Claim {
        /// The last position at which something happened that it knows of.
        anchor: u128,
    },
    /// To lead on.
    Renew {
        /// Under this fence.
        fence: Fence,
    },
    /// To lead no more.
    Resign {
        /// As with a claim.
        anchor: u128,
    },
    /// To tell all members something.
    Say(Vec<u8>),
    /// To tell all members something as their leader.
    Decide(Fence, Vec<u8>),
}

impl Command {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + 16);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.candidate.0);
        out.extend_from_slice(&self.serial.to_be_bytes());
        out.extend_from_slice(&self.view.to_be_bytes());
        out.push(self.act.kind());
        match &self.act {
            Act::Stand => {}
            Act::Claim { anchor } | Act::Resign { anchor } => out.extend_from_slice(&anchor.to_be_bytes()),
            Act::Renew { fence } => out.extend_from_slice(&u128::from(*fence).to_be_bytes()),
            Act::Say(bytes) => out.extend_from_slice(bytes),
            Act::Decide(fence, bytes) => {
                out.extend_from_slice(&u128::from(*fence).to_be_bytes());
                out.extend_from_slice(bytes);
            }
        }
        out
    }

    /// Reads a message; `None` if it is not one of these, as others may send to the group, too.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let candidate = CandidateId(take(&mut rest)?);
        let (serial, view) = (u64::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
        let [kind] = take(&mut rest)?;
        let act = match kind {
            1 => Act::Stand,
            2 => Act::Claim { anchor: u128::from_be_bytes(take(&mut rest)?) },
            3 => Act::Renew { fence: u128::from_be_bytes(take(&mut rest)?).into() },
            4 => Act::Resign { anchor: u128::from_be_bytes(take(&mut rest)?) },
            5 => Act::Say(std::mem::take(&mut rest).to_vec()),
            6 => Act::Decide(u128::from_be_bytes(take(&mut rest)?).into(), std::mem::take(&mut rest).to_vec()),
            _ => return None,
        };
        rest.is_empty().then_some(Self { candidate, serial, view, act })
    }
}

impl Act {
    const fn kind(&self) -> u8 {
        match self {
            Self::Stand => 1,
            Self::Claim { .. } => 2,
            Self::Renew { .. } => 3,
            Self::Resign { .. } => 4,
            Self::Say(_) => 5,
            Self::Decide(..) => 6,
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    fn all() -> Vec<Command> {
        let fence = Fence::new(3, 9);
        let acts = [
            Act::Stand,
            Act::Claim { anchor: 7 },
            Act::Renew { fence },
            Act::Resign { anchor: 8 },
            Act::Say(b"x".to_vec()),
            Act::Decide(fence, b"yz".to_vec()),
        ];
        let command = |act| Command { candidate: CandidateId([5; 16]), serial: 2, view: 3, act };
        acts.into_iter().map(command).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for command in all() {
            assert_eq!(Command::read(&command.to_bytes()), Some(command));
        }
    }

    #[test]
    fn garbage_is_nothing() {
        let mut rng = Rng::new(1);
        for command in all() {
            let whole = command.to_bytes();
            for len in 0..whole.len() {
                let cut = Command::read(&whole[..len]);
                assert!(cut.is_none() || matches!(command.act, Act::Say(_) | Act::Decide(..)), "{cut:?}");
            }
            for _ in 0..2_000 {
                let mut bytes = whole.clone();
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
                let _ = Command::read(&bytes);
            }
        }
        assert_eq!(Command::read(b"hello"), None);
    }
}

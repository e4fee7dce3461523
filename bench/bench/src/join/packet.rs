//! What the members of a measurement send to each other.

/// What each message begins with: a group may have other members, whose messages are passed over.
const MARK: &[u8; 4] = b"CLAT";
/// Bytes of one record.
const RECORD: usize = 18;

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The place of its sender among the members.
    pub from: u16,
    /// By the sender's clock, in nanoseconds.
    pub sent: u64,
    /// By the receiver's.
    pub received: u64,
}

/// A message of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// What is measured: sent at this time by its sender's clock. Those of the warm-up do not count.
    Probe { counts: bool, sent: u64 },
    /// No more probes come from this member.
    Sent,
    /// What this member received.
    Records(Vec<Record>),
    /// All of them are said.
    Done,
}

impl Packet {
    /// The least size of a probe.
    pub const PROBE: usize = 14;

    /// Its bytes; a probe's are filled up to this many.
    pub fn write(&self, size: usize) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        match self {
            Self::Probe { counts, sent } => {
                bytes.extend([1, u8::from(*counts)]);
                bytes.extend(sent.to_le_bytes());
                bytes.resize(size.max(Self::PROBE), 0);
            }
            Self::Sent => bytes.push(2),
            Self::Records(records) => {
                bytes.push(3);
                for record in records {
                    bytes.extend(record.from.to_le_bytes());
                    bytes.extend(record.sent.to_le_bytes());
                    bytes.extend(record.received.to_le_bytes());
                }
            }
            Self::Done => bytes.push(4),
        }
        bytes
    }

    /// Reads a message; `None` if it is none of a measurement.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.strip_prefix(MARK)?.split_first()?;
        match kind {
            1 => {
                let (counts, rest) = rest.split_first()?;
                Some(Self::Probe { counts: *counts == 1, sent: number(rest)? })
            }
            2 => Some(Self::Sent),
            3 if rest.len().is_multiple_of(RECORD) => {
                rest.chunks_exact(RECORD).map(Record::read).collect::<Option<_>>().map(Self::Records)
            }
            4 => Some(Self::Done),
            _ => None,
        }
    }
}

impl Record {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (from, times) = bytes.split_first_chunk()?;
        Some(Self { from: u16::from_le_bytes(*from), sent: number(times)?, received: number(times.get(8..)?)? })
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let record = |from| Record { from, sent: 7 << 40, received: 9 };
        let packets = [
            Packet::Probe { counts: true, sent: u64::MAX },
            Packet::Probe { counts: false, sent: 0 },
            Packet::Sent,
            Packet::Records(vec![record(1), record(513)]),
            Packet::Records(vec![]),
            Packet::Done,
        ];
        for packet in packets {
            assert_eq!(Packet::read(&packet.write(100)), Some(packet));
        }
        assert_eq!(Packet::Probe { counts: true, sent: 1 }.write(100).len(), 100);
        assert_eq!(Packet::Probe { counts: true, sent: 1 }.write(0).len(), Packet::PROBE);
    }

    #[test]
    fn what_is_no_measurement_is_nothing() {
        let cut = Packet::Records(vec![Record { from: 1, sent: 2, received: 3 }]).write(0);
        assert_eq!(Packet::read(&cut[..cut.len() - 1]), None);
        let probe = Packet::Probe { counts: true, sent: 5 }.write(0);
        assert!((0..probe.len()).all(|len| Packet::read(&probe[..len]).is_none()));
        assert!([&b""[..], b"CLAT", b"CLAT\x09", b"hello, all"].iter().all(|bytes| Packet::read(bytes).is_none()));
    }
}

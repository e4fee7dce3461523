//! The messages of a measurement: a stamp, then whatever is to be carried.

/// The bytes before what is carried.
pub const HEADER: usize = 24;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Outside the measured span.
    Unmeasured = 0,
    /// Its latency counts.
    Measured = 1,
    /// The sender's last one.
    End = 2,
}

/// The front of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was, or should have been, submitted.
    pub at: u64,
    /// Which of its sender's messages it is, from 0.
    pub number: u64,
    pub sender: u16,
    pub kind: Kind,
}

impl Stamp {
    /// Writes the stamp over the first bytes of a message.
    pub fn write(self, message: &mut [u8]) {
        message[..8].copy_from_slice(&self.at.to_be_bytes());
        message[8..16].copy_from_slice(&self.number.to_be_bytes());
        message[16..18].copy_from_slice(&self.sender.to_be_bytes());
        message[18] = self.kind as u8;
        message[19..HEADER].fill(0);
    }

    /// Reads it back; `None` for a message that is not of a measurement.
    pub fn read(message: &[u8]) -> Option<Self> {
        let front: &[u8; HEADER] = message.first_chunk()?;
        let number = |at: usize| front[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let kind = match front[18] {
            0 => Kind::Unmeasured,
            1 => Kind::Measured,
            2 => Kind::End,
            _ => return None,
        };
        Some(Self { at: number(0), number: number(8), sender: u16::from_be_bytes([front[16], front[17]]), kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { at: 1 << 60, number: 7, sender: 513, kind: Kind::End };
        let mut message = vec![0xff; HEADER + 3];
        stamp.write(&mut message);
        assert_eq!(Stamp::read(&message), Some(stamp));
        assert_eq!(Stamp::read(&message[..HEADER - 1]), None);
        message[18] = 9;
        assert_eq!(Stamp::read(&message), None);
    }
}

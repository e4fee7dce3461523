//! A segment's bytes: a head of 16 (what it is, and the number of its first record), then records. One record is its length
//! (4 bytes), a CRC-32 of its number and its bytes (4), its bytes. Fuzzing runs this file by itself.
use bytes::Bytes;

const MAGIC: &[u8; 8] = b"CONSORT1";
/// The bytes before all records.
pub(super) const SEGMENT_HEAD: usize = 16;

/// The bytes before each record.
pub(super) const HEAD: usize = 8;
/// No record is longer, in bytes.
pub(super) const RECORD_MAX: usize = 64 << 20;
/// A disk writes so many bytes whole or not at all.
pub(super) const SECTOR: usize = 512;

/// What stands somewhere in a file.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    /// A record as it was written.
    Record(Bytes),
    /// The file ends here.
    End,
    /// The file ends within a record.
    CutOff,
    /// A record is not what was written.
    Damaged {
        /// What of it.
        what: &'static str,
        /// A write that a stop of the machine has cut off may have left it so.
        torn: bool,
    },
}

/// What an end of a segment may look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// No other segment follows.
    pub is_last: bool,
    /// All records up to this one are known to be synced.
    pub synced: u64,
    /// What was not synced may lack sectors, because the machine may have stopped.
    pub may_lack_sectors: bool,
}

/// What stands before all records, the first of which has this number.
pub(super) fn segment_head(first: u64) -> [u8; SEGMENT_HEAD] {
    let mut head = [0; SEGMENT_HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&first.to_be_bytes());
    head
}

/// What stands before a record.
pub(super) fn head(number: u64, record: &[u8]) -> Option<[u8; HEAD]> {
    let len = u32::try_from(record.len()).ok().filter(|_| record.len() <= RECORD_MAX)?;
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&len.to_be_bytes());
    head[4..].copy_from_slice(&sum(number, record).to_be_bytes());
    Some(head)
}

fn sum(number: u64, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_be_bytes());
    hasher.update(record);
    hasher.finalize()
}

/// Adds the records of a segment; returns where they end.
///
/// # Errors
/// What no write that was cut off can have left.
pub(super) fn parse(all: &Bytes, first: u64, end: &End, records: &mut Vec<Bytes>) -> Result<usize, String> {
    if all.get(..SEGMENT_HEAD) != Some(&segment_head(first)[..]) {
        return Err("its head is damaged".into());
    }
    let (mut at, mut number) = (SEGMENT_HEAD, first);
    loop {
        //= X06
        let open = end.is_last && number > end.synced;
        match read(all, at, number) {
            Frame::Record(record) => {
                at += HEAD + record.len();
                number += 1;
                records.push(record);
            }
            Frame::End => return Ok(at),
            //= X07
            Frame::CutOff if open => return Ok(at),
            Frame::Damaged { torn: true, .. } if open && end.may_lack_sectors => return Ok(at),
            Frame::CutOff if end.is_last => return Err(format!("the record at byte {at} is cut off, and was synced")),
            Frame::CutOff => {
                return Err(format!("the record at byte {at} is cut off, but others follow in later files"));
            }
            Frame::Damaged { what, .. } => return Err(format!("{what} of the record at byte {at} is damaged")),
        }
    }
}

/// What stands at `at`, where the record with this number is to be.
fn read(all: &Bytes, at: usize, number: u64) -> Frame {
    if at >= all.len() {
        return Frame::End;
    }
    let word = |from: usize| all.get(from..from + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let (Some(len), Some(expected)) = (word(at), word(at + 4)) else { return Frame::CutOff };
    let (start, end) = (at + HEAD, at + HEAD + len as usize);
    if len as usize > RECORD_MAX {
        return Frame::Damaged { what: "the length", torn: false };
    }
    let Some(record) = all.get(start..end) else {
        // Half written, unless some other length makes the sum right.
        let is_whole = is_sum_of_a_part(&all[start..], number, expected);
        return if is_whole { Frame::Damaged { what: "the length", torn: false } } else { Frame::CutOff };
    };
    if sum(number, record) != expected {
        return Frame::Damaged { what: "the content", torn: lacks_a_sector(all, at, end) };
    }
    Frame::Record(all.slice(start..end))
}

/// Whether all of these bytes that stand in some sector are zeroes, as they are where it was never written.
fn lacks_a_sector(all: &[u8], at: usize, end: usize) -> bool {
    let mut from = at;
    while from < end {
        let to = end.min((from / SECTOR + 1) * SECTOR);
        if all[from..to].iter().all(|byte| *byte == 0) {
            return true;
        }
        from = to;
    }
    false
}

/// Whether a sum is that of any number of these bytes.
fn is_sum_of_a_part(bytes: &[u8], number: u64, expected: u32) -> bool {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_be_bytes());
    let mut fits = hasher.clone().finalize() == expected;
    for byte in bytes {
        hasher.update(std::slice::from_ref(byte));
        fits |= hasher.clone().finalize() == expected;
    }
    fits
}

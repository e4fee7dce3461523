//! One record in a file: its length (4 bytes), a CRC-32 of its number and its bytes (4), its bytes.
use bytes::Bytes;

/// The bytes before each record.
pub(super) const HEAD: usize = 8;
/// No record is longer, in bytes.
pub(super) const RECORD_MAX: usize = 64 << 20;

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

/// The record that begins at `at`; none where the file ends, be it in the middle of one.
///
/// # Errors
/// What cannot have been left by a write that was cut off.
pub(super) fn read(all: &Bytes, at: usize, number: u64) -> Result<Option<Bytes>, String> {
    let damaged = |what| Err(format!("{what} of the record at byte {at} is damaged"));
    let word = |from: usize| all.get(from..from + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let (Some(len), Some(expected)) = (word(at), word(at + 4)) else { return Ok(None) };
    let (start, end) = (at + HEAD, at + HEAD + len as usize);
    if len as usize > RECORD_MAX {
        return damaged("the length");
    }
    let Some(record) = all.get(start..end) else {
        // Half written, unless some other length makes the sum right.
        return if is_sum_of_a_part(&all[start..], number, expected) { damaged("the length") } else { Ok(None) };
    };
    if sum(number, record) != expected {
        // A crash of the machine may leave a file that has grown, but not what was to stand there: zeroes.
        let is_last = all[end..].iter().all(|byte| *byte == 0);
        return if is_last { Ok(None) } else { damaged("the content") };
    }
    Ok(Some(all.slice(start..end)))
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

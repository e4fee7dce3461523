//! Segments of records are read or refused; what is read was written so. A segment that is cut off, damaged in one bit, or lacks
//! a sector gives its records up to there, and never fewer than were synced.
use crate::pieces;
use bytes::Bytes;
use frame::{End, SECTOR, SEGMENT_HEAD};

// The journal's own file, which its crate keeps to itself.
#[path = "../../../crates/journal/src/frame.rs"]
mod frame;

/// The number of the first record.
const FIRST: u64 = 7;

/// Takes one input: how it ends, how many records are synced, and the segment itself or records for one.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let Some(([how, synced], rest)) = bytes.split_first_chunk().map(|(head, rest)| (*head, rest)) else { return };
    let end = |synced| End { is_last: how & 1 == 0, synced: FIRST - 1 + synced, may_lack_sectors: how & 2 == 0 };
    if how & 4 == 0 {
        let head = frame::segment_head(FIRST);
        return read_back(&[&head[..], rest].concat().into(), &end(u64::from(synced)));
    }
    let Some((spot, rest)) = rest.split_first_chunk::<3>() else { return };
    let records: Vec<_> = pieces(rest).map(Bytes::copy_from_slice).collect();
    let end = end(u64::from(synced) % (records.len() as u64 + 1));
    let whole = write(&records);
    let spot = usize::from(u16::from_be_bytes([spot[0], spot[1]])) % whole.len();
    let damaged = damage(&whole, how >> 3, spot, rest.first().copied().unwrap_or(0));
    read_damaged(&damaged, &whole, &end, &records);
}

fn write(records: &[Bytes]) -> Vec<u8> {
    let mut all = frame::segment_head(FIRST).to_vec();
    for (number, record) in (FIRST..).zip(records) {
        all.extend(frame::head(number, record).expect("it is short"));
        all.extend_from_slice(record);
    }
    all
}

/// What is read from any bytes is what these bytes are written from.
fn read_back(all: &Bytes, end: &End) {
    let mut records = Vec::new();
    if let Ok(at) = frame::parse(all, FIRST, end, &mut records) {
        assert_eq!(write(&records)[..], all[..at], "it was written otherwise");
        assert!(at == all.len() || end.is_last && FIRST + records.len() as u64 > end.synced, "synced and passed over");
    }
}

/// Cuts it off at a byte, turns one bit, or leaves a sector out.
fn damage(whole: &[u8], how: u8, at: usize, bit: u8) -> Bytes {
    let mut bytes = whole.to_vec();
    match how % 3 {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << (bit % 8),
        _ => {
            let end = bytes.len().min((at / SECTOR + 1) * SECTOR);
            bytes[(at / SECTOR * SECTOR).max(SEGMENT_HEAD)..end].fill(0);
        }
    }
    bytes.into()
}

fn read_damaged(damaged: &Bytes, whole: &[u8], end: &End, records: &[Bytes]) {
    let mut read = Vec::new();
    match frame::parse(damaged, FIRST, end, &mut read) {
        Ok(_) => {
            assert!(read.len() <= records.len() && read == records[..read.len()], "a record was made up");
            let last = FIRST - 1 + read.len() as u64;
            // Where it ends between two records, others than this file know what is missing.
            let is_shorter = damaged.len() < whole.len();
            assert!(last >= end.synced || is_shorter && write(&read) == damaged[..], "a synced record was passed over");
            let is_torn = read.len() < records.len() && damaged.len() == whole.len();
            assert!(!is_torn || end.is_last && end.may_lack_sectors, "a damaged record was passed over");
        }
        Err(what) => assert!(damaged[..] != whole[..], "refused as it was written: {what}"),
    }
}

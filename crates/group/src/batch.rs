//! Several multicasts of one client, with one service and to the same targets, that stand in the order as one.
//!
//! They travel as they stood one behind the other in the client's stream of frames:
//!
//! | size | field |
//! |---|---|
//! | 4 | the length of what follows, kind included |
//! | 1 | kind, the same for all |
//! | … | targets, the same bytes in all |
//! | … | the client's bytes |
use consort_wire::{Malformed, Payload};
use std::ops::Range;

/// The bytes of the largest batch: enough to share what an ordered message costs beside its bytes, and little enough to be
/// taken apart for a receiver in one go.
pub const MAX: usize = 16 << 10;
/// The bytes before a message's targets.
pub const HEAD_LEN: usize = 5;
/// The length field itself.
const LENGTH_LEN: usize = 4;

/// Checks the batch that stands at byte `at` of a payload, whose first message has targets of so many bytes; returns how
/// many messages there are, at least one.
///
/// # Errors
/// [`Malformed`] where a length or kind cannot be, and where it has more than [`MAX`] bytes.
pub fn check(payload: &Payload, at: usize, targets_len: usize) -> Result<usize, Malformed> {
    if payload.len() > at + MAX {
        return Err(Malformed { what: "length of a batch", at: at + MAX });
    }
    let (mut reader, mut count, mut first_kind) = (payload.read_from(at), 0, None);
    while reader.left() > 0 || count == 0 {
        let bad = Malformed { what: "message of a batch", at: payload.len() - reader.left() };
        let [a, b, c, d, kind] = reader.take().ok_or(bad)?;
        let body = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(1).ok_or(bad)?;
        if body < targets_len || body > reader.left() || *first_kind.get_or_insert(kind) != kind {
            return Err(bad);
        }
        reader.skip(body);
        count += 1;
    }
    Ok(count)
}

/// A payload with a batch at byte `at` that [`check`] has found good, without its first messages; none where none is left.
pub fn behind(payload: &Payload, at: usize, messages: usize) -> Option<Payload> {
    let mut reader = payload.read_from(at);
    for _ in 0..messages {
        let length = u32::from_be_bytes(reader.take()?);
        reader.skip(length as usize);
    }
    let left = reader.left();
    let (mut front, mut rest) = (payload.clone(), payload.clone());
    rest.split_to(payload.len() - left);
    let front = front.split_to(at);
    (left > 0).then(|| front.parts().chain(rest.parts()).cloned().collect())
}

/// Where the client's bytes of each message stand in a batch that [`check`] has found good.
pub fn messages(batch: &[u8], targets_len: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let message = next(batch, at, targets_len)?;
        at = message.end;
        Some(message)
    })
}

/// Where the client's bytes of the message stand whose head is at byte `at` of such a batch; nothing behind its end.
pub fn next(batch: &[u8], at: usize, targets_len: usize) -> Option<Range<usize>> {
    let length = batch.get(at..)?.first_chunk()?;
    let end = at + LENGTH_LEN + u32::from_be_bytes(*length) as usize;
    let from = at + HEAD_LEN + targets_len;
    (from <= end && end <= batch.len()).then_some(from..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// Three messages to `g`.
    const BATCH: &[u8] = b"\0\0\0\x07\x14\0\x01\x01gab\0\0\0\x05\x14\0\x01\x01g\0\0\0\x06\x14\0\x01\x01gc";
    const TARGETS: usize = 4;

    #[test]
    fn a_batch_is_read_however_it_was_cut() {
        //= G09 test
        for cut in 0..=BATCH.len() {
            let bytes = Bytes::from_static(BATCH);
            let rope = [Bytes::from_static(b"before"), bytes.slice(..cut), bytes.slice(cut..)].into_iter().collect();
            assert_eq!(check(&rope, 6, TARGETS), Ok(3));
        }
        let told: Vec<_> = messages(BATCH, TARGETS).map(|message| &BATCH[message]).collect();
        assert_eq!(told, [&b"ab"[..], b"", b"c"]);
    }

    #[test]
    fn a_batch_goes_on_behind_its_first_messages() {
        let tail = b"\0\0\0\x06\x14\0\x01\x01gc";
        for cut in 0..=BATCH.len() {
            let bytes = Bytes::from_static(BATCH);
            let rope: Payload =
                [Bytes::from_static(b"before"), bytes.slice(..cut), bytes.slice(cut..)].into_iter().collect();
            assert_eq!(behind(&rope, 6, 0).as_ref(), Some(&rope));
            assert_eq!(behind(&rope, 6, 2).unwrap().to_bytes(), [b"before", &tail[..]].concat());
            assert_eq!((behind(&rope, 6, 3), behind(&rope, 6, 99)), (None, None));
        }
    }

    #[test]
    fn what_is_none_is_refused_at_its_place() {
        let check = |bytes: &[u8]| check(&Bytes::copy_from_slice(bytes).into(), 0, TARGETS);
        let bad = |at| Err(Malformed { what: "message of a batch", at });
        assert_eq!(check(b""), bad(0));
        assert_eq!(check(&BATCH[..BATCH.len() - 1]), bad(20));
        assert_eq!(check(&[BATCH, b"\0\0\0"].concat()), bad(30));
        assert_eq!(check(b"\0\0\0\0\x14"), bad(0));
        assert_eq!(check(b"\0\0\0\x04\x14\0\x01\x01"), bad(0), "no room for the targets");
        let mut other = BATCH.to_vec();
        other[15] = 0x15;
        assert_eq!(check(&other), bad(11), "of another kind");
        let many = BATCH.repeat(1 + MAX / BATCH.len());
        assert_eq!(check(&many), Err(Malformed { what: "length of a batch", at: MAX }));
        assert_eq!(check(&many[BATCH.len()..]), Ok(3 * (MAX / BATCH.len())));
    }

    #[test]
    fn no_mutation_panics_and_what_is_good_has_all_its_messages() {
        consort_wire::mutate::each(BATCH, 5_000, |bytes| {
            let told = messages(bytes, TARGETS).count();
            if let Ok(count) = check(&Bytes::copy_from_slice(bytes).into(), 0, TARGETS) {
                assert_eq!(told, count);
            }
        });
    }
}

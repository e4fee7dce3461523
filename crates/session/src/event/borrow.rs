//! Messages read where their frames lie.
use super::decode::{MessageFront, read_placement};
use super::{BorrowedMessage, MESSAGE, PLACED, PLACED_LEN};
use crate::frame::{HEAD_LEN, len_of};
use consort_wire::Malformed;

/// Frames shorter than this are not worth the trouble.
const LARGE: usize = 4 << 10;

/// What stands at the front of a daemon's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlace<'a> {
    /// The whole frame of a large message, and how long that is.
    Message(BorrowedMessage<'a>, usize),
    /// So many bytes of other frames, or of a frame whose end is not there: to be copied, and read as ever.
    Other(usize),
}

/// Looks at bytes that begin with a frame.
///
/// # Errors
/// [`Malformed`] where a message's frame is none.
pub fn look(bytes: &[u8]) -> Result<InPlace<'_>, Malformed> {
    let Some((kind, len)) = large_message(bytes) else { return Ok(InPlace::Other(others(bytes))) };
    let body = &bytes[HEAD_LEN..len];
    let in_body = |at: usize| move |error: Malformed| Malformed { at: error.at + at, ..error };
    if kind & 0xf0 == MESSAGE {
        let front = MessageFront::read(kind, body, 0).map_err(in_body(HEAD_LEN))?;
        return Ok(InPlace::Message(front.whole(body), len));
    }
    let placement = Some(read_placement(kind, body).map_err(in_body(HEAD_LEN))?);
    let body = &body[PLACED_LEN..];
    let front = MessageFront::read(kind, body, 0).map_err(in_body(HEAD_LEN + PLACED_LEN))?;
    Ok(InPlace::Message(front.placement(placement).whole(body), len))
}

/// Kind and length of the frame at the front, if it is a large message's and all of it is there.
fn large_message(bytes: &[u8]) -> Option<(u8, usize)> {
    let (kind, len) = (*bytes.get(HEAD_LEN - 1)?, len_of(bytes));
    (matches!(kind & 0xf0, MESSAGE | PLACED) && (LARGE..=bytes.len()).contains(&len)).then_some((kind, len))
}

/// The bytes of whole frames before the next large message, or of one whose end is not there.
fn others(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() && large_message(&bytes[at..]).is_none() {
        let len = len_of(&bytes[at..]);
        if bytes.len() - at < HEAD_LEN.max(len) {
            // What is begun waits where it lies, unless there is nothing else.
            return if at == 0 { bytes.len() } else { at };
        }
        at += len;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::DaemonEvent;
    use crate::frame;
    use bytes::{BufMut, Bytes, BytesMut};

    /// The frame of an agreed message of `ann` to `g`.
    fn message(payload: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        frame::put(&mut out, MESSAGE | 3, |out| {
            out.put_slice(&[b"\0\x02\0\0\0\x07\x03ann\0\x01\x01g", payload].concat())
        });
        out.freeze()
    }

    #[test]
    fn a_large_message_is_read_as_it_would_be_from_a_copy() {
        let frame = message(&[7; LARGE]);
        let bytes = [&frame[..], b"more"].concat();
        let Ok(InPlace::Message(borrowed, len)) = look(&bytes) else { panic!("no message") };
        let Ok(DaemonEvent::Message(owned)) = DaemonEvent::decode(MESSAGE | 3, frame.slice(HEAD_LEN..)) else {
            panic!("no message")
        };
        assert_eq!(len, frame.len());
        assert_eq!(borrowed.to_kept(), owned);
        assert_eq!(owned.borrowed(), borrowed);
        assert_eq!((borrowed.sender_name(), borrowed.payload()), ("ann", &[7; LARGE][..]));
        assert_eq!(borrowed.groups().collect::<Vec<_>>(), ["g"]);
    }

    #[test]
    fn whatever_else_is_there_is_to_be_copied_up_to_the_next_large_message() {
        let (small, large) = (message(b"small"), message(&[7; LARGE]));
        let [one, two] = [small.len(), 2 * small.len()];
        let all = [&small[..], &small, &large, &small].concat();
        for len in 0..=two + large.len() {
            let expected = match len {
                len if len < one => len,
                len if len < two => one,
                _ => two,
            };
            assert_eq!(look(&all[..len]), Ok(InPlace::Other(expected)), "{len}");
        }
        let begun = &large[..LARGE - 1];
        assert_eq!(look(begun), Ok(InPlace::Other(begun.len())));
        assert_eq!(look(&[0; 40]), Ok(InPlace::Other(36)), "who reads the copy says what is wrong");
    }

    #[test]
    fn garbage_is_an_error_or_no_longer_than_it_is() {
        let good = message(&[7; LARGE]);
        consort_wire::mutate::each(&good, 2_000, |bytes| match look(bytes) {
            Ok(InPlace::Message(message, len)) => assert!(len <= bytes.len() && message.payload().len() < len),
            Ok(InPlace::Other(len)) => assert!(len <= bytes.len() && (len > 0 || bytes.is_empty())),
            Err(_) => {}
        });
    }
}

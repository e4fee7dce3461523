//! Commands of replicas as bytes.
use crate::trace::{RegisterCommand, RegisterDeed};
use bytes::{BufMut, Bytes, BytesMut};
use consort_wire::Reader;

/// A command, and which call it is of; `len` bytes that mean nothing follow.
pub(super) fn encode(call: u64, command: &RegisterCommand, len: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(26 + len);
    out.put_u64(call);
    out.put_u8(command.deed as u8);
    out.put_u8(command.key);
    out.put_u64(command.value);
    out.put_u64(command.expected);
    out.resize(out.len() + len, 7);
    out.freeze()
}

/// Reads it back.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, RegisterCommand)> {
    let mut reader = Reader::new(bytes);
    let call = reader.u64("call").ok()?;
    let deed = *RegisterDeed::ALL.get(usize::from(reader.u8("deed").ok()?))?;
    let (key, value) = (reader.u8("key").ok()?, reader.u64("value").ok()?);
    Some((call, RegisterCommand { deed, key, value, expected: reader.u64("expected").ok()? }))
}

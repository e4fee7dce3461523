//! Names as they travel: 32 bytes, a zero behind the last of them. What follows the zero means nothing.
use bytes::{BufMut, BytesMut};

/// The bytes that a name takes.
pub const LEN: usize = 32;
/// The longest name, in bytes.
pub const MAX: usize = consort_group::spread_limits::NAME_MAX;

//= S12
/// The name in a field. `None` where there is no zero in it.
pub fn read(field: &[u8; LEN]) -> Option<&[u8]> {
    let end = field.iter().position(|byte| *byte == 0)?;
    Some(&field[..end])
}

/// Appends a name. What is longer than [`MAX`] bytes is cut.
pub fn put(name: &[u8], out: &mut BytesMut) {
    let name = &name[..name.len().min(MAX)];
    out.put_slice(name);
    out.put_bytes(0, LEN - name.len());
}

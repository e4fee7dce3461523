//! Numbers of bytes that come from elsewhere.
use consort_wire::{Malformed, Reader};

pub fn read_u128(reader: &mut Reader<'_>, what: &'static str) -> Result<u128, Malformed> {
    let high = reader.u64(what)?;
    Ok(u128::from(high) << 64 | u128::from(reader.u64(what)?))
}

/// A count of things of which each has so many bytes at least.
pub fn read_count(reader: &mut Reader<'_>, least: usize, what: &'static str) -> Result<usize, Malformed> {
    let count = reader.u32(what)? as usize;
    if count.saturating_mul(least) > reader.left() { Err(reader.bad(what)) } else { Ok(count) }
}

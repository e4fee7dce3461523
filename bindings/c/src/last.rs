//! What C may ask of the last failure.
use crate::border::{put, tell};
use crate::failure::last;
use std::ffi::c_char;
use std::ops::Range;

/// What went wrong in the last call on this thread that failed: what, where, and what to do. Empty where none has. It
/// lives until the next call on this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn consort_last_error() -> *const c_char {
    let nothing = c"".as_ptr();
    tell(nothing, || last(nothing, |failure| failure.text.as_ptr()))
}

/// The daemon's reason in that call, a consort_reason; 0 where it gave none.
#[unsafe(no_mangle)]
pub extern "C" fn consort_last_reason() -> i32 {
    tell(0, || last(0, |failure| failure.reason))
}

/// The sends that may be ordered still, or never, as that call found: how many. The number of the first goes to `first`,
/// which may be null; the others follow it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_last_unknown_fate(first: *mut u64) -> u64 {
    let Range { start, end } = tell(0..0, || last(0..0, |failure| failure.unknown_fate.clone()));
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { put(first, start) };
    end.saturating_sub(start)
}

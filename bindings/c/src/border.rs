//! Pointers in, pointers out, and no panic across.
//!
//! The functions here are sound for callers that keep the header's rule of pointers: what is not null points to what its
//! type says, for as long as the call takes.
use crate::codes::consort_code;
use crate::failure::Failure;
use consort::{GroupName, Origin, PrivateName, Target};
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// More names than any daemon takes: a length beyond is no length.
const TARGETS_MOST: usize = u16::MAX as usize;

/// Does what a call is for; what failed is kept for the caller to ask.
pub(crate) fn call(act: impl FnOnce() -> Result<consort_code, Failure>) -> consort_code {
    // What a panic left half done is not used again: its client's lock is poisoned then.
    let done = catch_unwind(AssertUnwindSafe(act));
    let fault = |_| Err(Failure::new(consort_code::CONSORT_INTERNAL, FAULT));
    done.unwrap_or_else(fault).unwrap_or_else(Failure::keep)
}

const FAULT: &str = "a fault of this library, told on standard error; free the client and connect anew";

/// The same for calls that only tell something: `nothing`, after a panic.
pub(crate) fn tell<T>(nothing: T, what: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(what)).unwrap_or(nothing)
}

/// Does something with what serves one thread at a time; another one is told the remedy.
pub(crate) fn exclusively<S, T>(
    lock: &Mutex<S>,
    remedy: &str,
    act: impl FnOnce(&mut S) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match lock.try_lock() {
        Ok(mut state) => act(&mut state),
        Err(TryLockError::WouldBlock) => Err(Failure::new(consort_code::CONSORT_BUSY, remedy)),
        Err(TryLockError::Poisoned(_)) => Err(Failure::new(
            consort_code::CONSORT_INTERNAL,
            "a fault of this library broke this client earlier; free it and connect anew",
        )),
    }
}

/// Refuses null where something is to be written to.
pub(crate) fn not_null<T>(at: *const T, what: &str) -> Result<(), Failure> {
    if at.is_null() { Err(Failure::null(what)) } else { Ok(()) }
}

/// What a pointer to an object points to.
pub(crate) unsafe fn object<'a, T>(at: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller keeps the header's rule of pointers; objects are changed through locks, or by one thread.
    unsafe { at.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// The same, to be changed.
pub(crate) unsafe fn object_mut<'a, T>(at: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller keeps the header's rules of pointers and of threads: nobody else uses it now.
    unsafe { at.as_mut() }.ok_or_else(|| Failure::null(what))
}

/// Tells a number, unless nobody wants it.
pub(crate) unsafe fn put<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: it is not null, so by the header's rule of pointers it can be written to.
        unsafe { at.write(value) };
    }
}

/// Hands an object to the caller, who frees it.
pub(crate) fn give<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

/// Takes back what [`give`] gave.
pub(crate) unsafe fn free<T>(at: *mut T) {
    if !at.is_null() {
        // SAFETY: by the header's rule of pointers `give` made it, and nobody has freed it.
        let object = unsafe { Box::from_raw(at) };
        tell((), move || drop(object));
    }
}

/// Whether a child of `fork()` inherited it while a thread of the parent was changing it: it may be half changed, and no
/// thread of the child will end that. The end of the child frees it.
pub(crate) fn is_left_over<S>(origin: Origin, lock: &Mutex<S>) -> bool {
    origin.check().is_err() && matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
}

/// The bytes of a text, without the zero byte at its end.
pub(crate) unsafe fn bytes_of_text<'a>(at: *const c_char, what: &str) -> Result<&'a [u8], Failure> {
    if at.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: it is not null, so by the header's rule of pointers it is a text that ends with a zero byte.
    Ok(unsafe { CStr::from_ptr(at) }.to_bytes())
}

/// A text.
pub(crate) unsafe fn text<'a>(at: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: handed on.
    let bytes = unsafe { bytes_of_text(at, what) }?;
    std::str::from_utf8(bytes).map_err(|error| Failure::invalid(format!("`{what}` is no UTF-8: {error}")))
}

/// A payload; null with no bytes is an empty one.
pub(crate) unsafe fn payload<'a>(at: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(Failure::invalid(format!("`payload` is null, but has {len} bytes")));
    }
    if len > isize::MAX as usize {
        return Err(Failure::invalid(format!("`len` is {len}: more bytes than memory can hold")));
    }
    // SAFETY: it is not null and the length can be one, so by the header's rule of pointers so many bytes are there.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

/// The name of a group.
pub(crate) unsafe fn group(at: *const c_char) -> Result<GroupName, Failure> {
    // SAFETY: handed on.
    named(unsafe { bytes_of_text(at, "group") }?)
}

/// Groups and clients.
pub(crate) unsafe fn targets(at: *const *const c_char, count: usize) -> Result<Vec<Target>, Failure> {
    if count > TARGETS_MOST {
        let text = format!("a message to {count} groups; no daemon takes as many");
        return Err(Failure::new(consort_code::CONSORT_TARGETS, text));
    }
    // SAFETY: handed on.
    unsafe { texts(at, count, "targets") }?.into_iter().map(target).collect()
}

/// Groups to be read.
pub(crate) unsafe fn groups(at: *const *const c_char, count: usize) -> Result<Vec<GroupName>, Failure> {
    if count > TARGETS_MOST {
        let text = format!("a reading of {count} groups; no daemon takes as many");
        return Err(Failure::new(consort_code::CONSORT_TARGETS, text));
    }
    // SAFETY: handed on.
    unsafe { texts(at, count, "groups") }?.into_iter().map(named).collect()
}

/// The bytes of so many texts.
pub(crate) unsafe fn texts<'a>(at: *const *const c_char, count: usize, what: &str) -> Result<Vec<&'a [u8]>, Failure> {
    if count > 0 && at.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the array is not null and has `count` elements by the header's rule of pointers; `index` is below.
    let text = |index| unsafe { bytes_of_text(at.add(index).read(), &format!("{what}[{index}]")) };
    (0..count).map(text).collect()
}

/// A group, or a client where it begins as a private name does.
fn target(name: &[u8]) -> Result<Target, Failure> {
    if name.first() != Some(&b'#') {
        return named(name).map(Target::Group);
    }
    let text = String::from_utf8_lossy(name);
    let client = PrivateName::parse(&text);
    client.map(Target::Client).ok_or_else(|| Failure::invalid(format!("{text:?} names no client; write #name#nNODE")))
}

fn named(name: &[u8]) -> Result<GroupName, Failure> {
    GroupName::new(name).map_err(|error| Failure::invalid(error.to_string()))
}

/// How long to wait: milliseconds, as long as it takes where negative.
pub(crate) fn span(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

//! Reading by position.
use crate::border::{call, groups, not_null, object, text};
use crate::client::{consort_client, receiving, sending};
use crate::codes::consort_code::{self, CONSORT_NOTHING, CONSORT_OK};
use crate::failure::Failure;
use consort::{Bookmark, Error, ReadFrom};
use std::ffi::c_char;

/// Reads by position what groups were sent, and then what comes. No group is joined, and nobody learns of it. `from` is
/// "start" for the oldest message that there is, "new" for what comes, a position such as "1234", or a bookmark.
/// CONSORT_EVENT_READING_BEGAN says that it begins, CONSORT_EVENT_READING_ENDED why not; each message is a
/// CONSORT_EVENT_READ. A client has one reading; another one ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_read(
    client: *const consort_client,
    groups: *const *const c_char,
    groups_count: usize,
    from: *const c_char,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let (client, (groups, from)) = unsafe { (object(client, "client")?, request(groups, groups_count, from)?) };
        client.using(|half| sending!(half, |way| way.read(&groups, from)))?;
        Ok(CONSORT_OK)
    })
}

/// Ends the reading. What was told before is received still, then CONSORT_EVENT_READING_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_stop_reading(client: *const consort_client) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        unsafe { object(client, "client") }?.using(|half| sending!(half, |way| way.stop_reading()))?;
        Ok(CONSORT_OK)
    })
}

/// How far the reading has come, behind the last message that was received: with this text it goes on later, at any daemon.
/// It goes to `bookmark`, which has room for `size` bytes: CONSORT_BOOKMARK_MAX hold any. CONSORT_NOTHING and an empty text
/// before any reading began. Of the half that receives, where the client was split.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_bookmark(
    client: *const consort_client,
    bookmark: *mut c_char,
    size: usize,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let client = unsafe { object(client, "client") }?;
        let reached = client.using(|half| receiving!(half, |way| Ok::<_, Error>(way.bookmark())))?;
        // SAFETY: likewise.
        unsafe { put_bookmark(reached, bookmark, size) }
    })
}

/// What is to be read.
pub(crate) unsafe fn request(
    names: *const *const c_char,
    count: usize,
    from: *const c_char,
) -> Result<(Vec<consort::GroupName>, ReadFrom), Failure> {
    // SAFETY: handed on.
    unsafe { Ok((groups(names, count)?, read_from(text(from, "from")?)?)) }
}

/// Writes a bookmark as a text.
pub(crate) unsafe fn put_bookmark(
    reached: Option<Bookmark>,
    to: *mut c_char,
    size: usize,
) -> Result<consort_code, Failure> {
    not_null(to, "bookmark")?;
    let text = reached.as_ref().map(ToString::to_string).unwrap_or_default();
    if text.len() >= size {
        return Err(Failure::invalid(format!("a bookmark of {} bytes; there is room for {size}", text.len() + 1)));
    }
    // SAFETY: it is not null, and by the header's rule of pointers has room for `size` bytes, which are more than the text.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(if reached.is_some() { CONSORT_OK } else { CONSORT_NOTHING })
}

/// Where a reading begins.
fn read_from(text: &str) -> Result<ReadFrom, Failure> {
    let wrong = |_| {
        let text: String = text.chars().take(60).collect();
        let remedy = "give \"start\", \"new\", a position or a bookmark";
        Failure::invalid(format!("{text:?} is no place to read from; {remedy}"))
    };
    match text {
        "start" => Ok(ReadFrom::Start),
        "new" => Ok(ReadFrom::New),
        _ if text.contains(':') => text.parse().map(ReadFrom::After).map_err(wrong),
        _ => text.parse().map(ReadFrom::Place).map_err(wrong),
    }
}

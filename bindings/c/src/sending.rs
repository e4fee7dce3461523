//! What clients send.
use crate::border::{call, group, object, payload, put, span, targets};
use crate::client::{Half, consort_client, sending};
use crate::codes::consort_code::{self, CONSORT_OK};
use crate::codes::service;
use crate::failure::Failure;
use consort::{Error, GroupName, Service, Target};
use std::ffi::{c_char, c_void};

/// Sends what concerns one group, and tells the send's number.
unsafe fn to_group(
    client: *const consort_client,
    name: *const c_char,
    send: *mut u64,
    act: impl FnOnce(&mut Half, &GroupName) -> Result<u64, Failure>,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        unsafe {
            let (client, name) = (object(client, "client")?, group(name)?);
            put(send, client.using(|half| act(half, &name))?);
        }
        Ok(CONSORT_OK)
    })
}

/// Asks to join a group. The group view that follows says that it happened; CONSORT_EVENT_REFUSED, that it did not. The
/// number of the send goes to `send`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_join(
    client: *const consort_client,
    group: *const c_char,
    send: *mut u64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { to_group(client, group, send, |half, group| sending!(half, |way| way.join(group))) }
}

/// The same; if the group has no members yet, only members may send to it from here on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_join_closed(
    client: *const consort_client,
    group: *const c_char,
    send: *mut u64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { to_group(client, group, send, |half, group| sending!(half, |way| way.join_closed(group))) }
}

/// Asks to leave a group. The last group view that the client gets of it follows, without the client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_leave(
    client: *const consort_client,
    group: *const c_char,
    send: *mut u64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { to_group(client, group, send, |half, group| sending!(half, |way| way.leave(group))) }
}

/// A message, as it was checked.
pub(crate) struct Outgoing<'a> {
    pub(crate) service: Service,
    pub(crate) targets: Vec<Target>,
    pub(crate) payload: &'a [u8],
}

/// The message of a call.
pub(crate) unsafe fn message<'a>(
    number: i32,
    names: *const *const c_char,
    count: usize,
    bytes: *const c_void,
    len: usize,
) -> Result<Outgoing<'a>, Failure> {
    let unknown = || Failure::invalid(format!("{number} is no service; give one of CONSORT_RELIABLE to CONSORT_SAFE"));
    let service = service(number).ok_or_else(unknown)?;
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { Ok(Outgoing { service, targets: targets(names, count)?, payload: payload(bytes, len)? }) }
}

/// Sends a message to all members of the groups, and to the clients whose private names are among the targets. Waits for
/// credit, as long as the options allow. The number of the send goes to `send`, which may be null. Sends are collected
/// for a while: consort_flush().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_multicast(
    client: *const consort_client,
    service: i32,
    targets: *const *const c_char,
    targets_count: usize,
    payload: *const c_void,
    payload_len: usize,
    send: *mut u64,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let (client, Outgoing { service, targets, payload }) =
            unsafe { (object(client, "client")?, message(service, targets, targets_count, payload, payload_len)?) };
        let number = client.using(|half| sending!(half, |way| way.multicast(service, &targets, payload)))?;
        // SAFETY: likewise.
        unsafe { put(send, number) };
        Ok(CONSORT_OK)
    })
}

/// The same, but waits for no credit: CONSORT_WOULD_BLOCK where there is too little. Credit comes back while events are
/// received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_try_multicast(
    client: *const consort_client,
    service: i32,
    targets: *const *const c_char,
    targets_count: usize,
    payload: *const c_void,
    payload_len: usize,
    send: *mut u64,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let (client, Outgoing { service, targets, payload }) =
            unsafe { (object(client, "client")?, message(service, targets, targets_count, payload, payload_len)?) };
        let number = client.using(|half| sending!(half, |way| way.try_multicast(service, &targets, payload)))?;
        // SAFETY: likewise.
        unsafe { put(send, number) };
        Ok(CONSORT_OK)
    })
}

/// Does something with a client that sends.
unsafe fn with_sender(
    client: *const consort_client,
    act: impl FnOnce(&mut Half) -> Result<(), Failure>,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        unsafe { object(client, "client") }?.using(act)?;
        Ok(CONSORT_OK)
    })
}

/// Writes all that was collected. So do the next join or leave, and every wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_flush(client: *const consort_client) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { with_sender(client, |half| sending!(half, |way| way.flush())) }
}

/// Writes all that was collected and waits until every send is ordered or refused, at most so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_wait_ordered(client: *const consort_client, within: i64) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { with_sender(client, |half| sending!(half, |way| way.wait_ordered(span(within)))) }
}

/// How far the sends are: the number of the last one that was made goes to `sent`, of the last one that is ordered or
/// refused with all before it to `ordered`. Either may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_progress(
    client: *const consort_client,
    sent: *mut u64,
    ordered: *mut u64,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let client = unsafe { object(client, "client") }?;
        let now = client.using(|half| sending!(half, |way| Ok::<_, Error>((way.sent(), way.progress().ordered))))?;
        // SAFETY: likewise.
        unsafe {
            put(sent, now.0);
            put(ordered, now.1);
        }
        Ok(CONSORT_OK)
    })
}

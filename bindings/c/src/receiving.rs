//! What clients receive.
use crate::border::{call, give, not_null, object, put, span};
use crate::client::{consort_client, receiving};
use crate::codes::consort_code::{self, CONSORT_NOTHING, CONSORT_OK};
use crate::event::consort_event;
use crate::failure::Failure;
use consort::{Error, SessionEvent};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

/// The next event, in the order in which things happened; CONSORT_NOTHING and null if none came within so many
/// milliseconds. CONSORT_CONNECTION_LOST or CONSORT_DISCONNECTED come once everything that came before was received. The
/// event is to be freed with consort_event_free(). What was collected to be sent is written first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_receive(
    client: *const consort_client,
    within: i64,
    event: *mut *mut consort_event,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { receive(client, span(within), event) }
}

/// The next event if one is here; waits for nothing. As consort_receive() otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_try_receive(
    client: *const consort_client,
    event: *mut *mut consort_event,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { receive(client, Some(Duration::ZERO), event) }
}

unsafe fn receive(
    client: *const consort_client,
    within: Option<Duration>,
    event: *mut *mut consort_event,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let client = unsafe {
            not_null(event, "event")?;
            put(event, ptr::null_mut());
            object(client, "client")?
        };
        let Some(received) = client.using(|half| receiving!(half, |way| way.receive(within)))? else {
            return Ok(CONSORT_NOTHING);
        };
        // SAFETY: likewise.
        unsafe { put(event, give(consort_event::new(SessionEvent::Event(received)))) };
        Ok(CONSORT_OK)
    })
}

/// The descriptor of the connection, for a program that waits with poll() of its own: readable once something came. Take
/// events with consort_try_receive() until it gives nothing, and only then wait: for a quarter of a second at most, so that
/// a silent machine is noticed within two. Read, write and close nothing there.
/// CONSORT_UNSUPPORTED where the daemon shares memory: consort_options_set_shared_memory().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_fd(client: *const consort_client, fd: *mut i32) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let client = unsafe {
            not_null(fd, "fd")?;
            put(fd, -1);
            object(client, "client")?
        };
        let descriptor: Option<RawFd> = client.using(|half| {
            receiving!(half, |way| Ok::<_, Error>(way.descriptor().map(|descriptor| descriptor.as_raw_fd())))
        })?;
        // SAFETY: likewise.
        unsafe { put(fd, descriptor.ok_or_else(shares_memory)?) };
        Ok(CONSORT_OK)
    })
}

pub(crate) fn shares_memory() -> Failure {
    let text = "this client shares memory with its daemon, which no descriptor tells of; \
                connect with consort_options_set_shared_memory(options, false)";
    Failure::new(consort_code::CONSORT_UNSUPPORTED, text)
}

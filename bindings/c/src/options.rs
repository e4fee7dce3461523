//! How a client connects and sends.
use crate::border::{call, free, give, object_mut, span, text};
use crate::codes::consort_code::{self, CONSORT_OK};
use crate::failure::Failure;
use consort::ConnectOptions;
use std::ffi::c_char;
use std::time::Duration;

/// How a client connects and sends.
pub struct consort_options(pub(crate) ConnectOptions);

/// Options that ask for nothing special. To be freed with consort_options_free().
#[unsafe(no_mangle)]
pub extern "C" fn consort_options_new() -> *mut consort_options {
    give(consort_options(ConnectOptions::default()))
}

/// Frees options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_free(options: *mut consort_options) {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { free(options) };
}

/// Sets what is said.
unsafe fn set(
    options: *mut consort_options,
    change: impl FnOnce(&mut ConnectOptions) -> Result<(), Failure>,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rules of pointers and threads.
        change(&mut unsafe { object_mut(options, "options") }?.0).map(|()| CONSORT_OK)
    })
}

/// Gives the client a name, which no other client of the daemon may have: 1 to 23 characters of printable ASCII, no
/// space, no `#`. Without one the daemon finds one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_name(options: *mut consort_options, name: *const c_char) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            let named = options.clone().called(text(name, "name")?);
            *options = named.map_err(|error| Failure::invalid(error.to_string()))?;
            Ok(())
        })
    }
}

/// What proves who the client is, where the daemon asks for it; `consort token` makes it. 1 to 160 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_token(
    options: *mut consort_options,
    token: *const c_char,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            let token = text(token, "token")?;
            if !(1..=160).contains(&token.len()) {
                return Err(Failure::invalid(format!("a token of {} bytes; give 1 to 160", token.len())));
            }
            options.token = Some(token.to_owned());
            Ok(())
        })
    }
}

/// Whether the client receives views of the network: CONSORT_EVENT_VIEW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_views(options: *mut consort_options, wanted: bool) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            options.wants_views = wanted;
            Ok(())
        })
    }
}

/// Whether each message tells its position in the order, and its sender's incarnation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_positions(options: *mut consort_options, wanted: bool) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            options.wants_positions = wanted;
            Ok(())
        })
    }
}

/// Whether a daemon on this machine is offered to exchange bytes through shared memory, as it is where nothing is said.
/// A client that is to be waited at with consort_fd() must not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_shared_memory(
    options: *mut consort_options,
    offered: bool,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            options.shares_memory = offered;
            Ok(())
        })
    }
}

/// Whether each send is written at once instead of being collected with others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_unbatched(options: *mut consort_options, at_once: bool) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            options.unbatched = at_once;
            Ok(())
        })
    }
}

/// How long connecting may take, 5000 where nothing is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_connect_within(
    options: *mut consort_options,
    milliseconds: i64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            options.connect_within = bounded(milliseconds, "milliseconds to connect")?;
            Ok(())
        })
    }
}

/// How long a send may wait for credit; negative, as where nothing is said, for as long as it takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_send_within(
    options: *mut consort_options,
    milliseconds: i64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            options.send_within = span(milliseconds);
            Ok(())
        })
    }
}

/// How long a daemon at a TCP address may be silent before the connection is given up (CONSORT_CONNECTION_LOST): 1000
/// to 21600000, 2000 where nothing is said. Its machine has vanished then, or the daemon is stopped for that long. A
/// daemon of this machine, at a Unix socket, is given up after 10 s. consort_connect() refuses times out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_host_timeout(
    options: *mut consort_options,
    milliseconds: i64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            options.host_timeout = bounded(milliseconds, "milliseconds of silence")?;
            Ok(())
        })
    }
}

/// A time that must have an end.
fn bounded(milliseconds: i64, what: &str) -> Result<Duration, Failure> {
    span(milliseconds)
        .filter(|span| !span.is_zero())
        .ok_or_else(|| Failure::invalid(format!("{milliseconds} {what}; give at least 1")))
}

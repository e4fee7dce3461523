//! How a client connects and sends.
use crate::border::{bytes_of_text, call, free, give, object_mut, span, text};
use crate::codes::consort_code::{self, CONSORT_OK};
use crate::failure::Failure;
use consort::{ClientTls, ConnectOptions, ProducerId, SessionOptions, SlowPolicy, SlowRequest};
use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How a client or a session connects and sends.
pub struct consort_options(pub(crate) SessionOptions);

/// Options that ask for nothing special. To be freed with consort_options_free().
#[unsafe(no_mangle)]
pub extern "C" fn consort_options_new() -> *mut consort_options {
    give(consort_options(SessionOptions::default()))
}

/// Frees options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_free(options: *mut consort_options) {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { free(options) };
}

/// Sets what is said of connections.
unsafe fn set(
    options: *mut consort_options,
    change: impl FnOnce(&mut ConnectOptions) -> Result<(), Failure>,
) -> consort_code {
    // SAFETY: the caller keeps the header's rules of pointers and threads.
    unsafe { set_of_session(options, |options| change(&mut options.connect)) }
}

/// Sets what is said of sessions.
unsafe fn set_of_session(
    options: *mut consort_options,
    change: impl FnOnce(&mut SessionOptions) -> Result<(), Failure>,
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

/// Speaks TLS 1.3 with daemons at TCP addresses, of `listen_tls`. Three files, in PEM: certificates of the authority that
/// daemons' certificates must be of; this client's certificate, followed by those of its issuers, and its key. Null for
/// both of these shows none. The files are read once, here: CONSORT_INVALID tells file, line and remedy. A Unix socket has
/// no TLS, and this says nothing there: a session may have addresses of both kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_tls(
    options: *mut consort_options,
    authority: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            let authority = file(authority, "authority")?;
            let own = match (certificate.is_null(), key.is_null()) {
                (true, true) => None,
                (false, false) => Some((file(certificate, "certificate")?, file(key, "key")?)),
                _ => return Err(Failure::invalid("one of `certificate` and `key` is null; give both, or neither")),
            };
            let tls = ClientTls::from_files(authority, own);
            options.tls = Some(tls.map_err(|error| Failure::invalid(error.to_string()))?);
            Ok(())
        })
    }
}

/// What the daemons' certificates must name, a DNS name or an IP address. Where nothing is said each must name the host of
/// its daemon's address. Call consort_options_set_tls() first; each call of that forgets this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_tls_server_name(
    options: *mut consort_options,
    name: *const c_char,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            let name = text(name, "name")?;
            let none = || Failure::invalid("there is no TLS yet; call consort_options_set_tls() first");
            let named = options.tls.clone().ok_or_else(none)?.named(name);
            options.tls = Some(named.map_err(|error| Failure::invalid(error.to_string()))?);
            Ok(())
        })
    }
}

/// The path of a file, which need not be UTF-8.
unsafe fn file<'a>(at: *const c_char, what: &str) -> Result<&'a Path, Failure> {
    // SAFETY: handed on.
    unsafe { bytes_of_text(at, what) }.map(|bytes| Path::new(OsStr::from_bytes(bytes)))
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

/// What the daemon does if the client does not read, a consort_slow; with which budgets: 0 bytes, and no time where it is
/// negative, are the daemon's own, which bound any other. A daemon that does not allow the policy refuses the session
/// (CONSORT_REASON_NOT_ALLOWED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_slow(
    options: *mut consort_options,
    policy: i32,
    bytes: u64,
    milliseconds: i64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set(options, |options| {
            let known = u8::try_from(policy).ok().and_then(SlowPolicy::from_wire);
            let range = "CONSORT_SLOW_DISCONNECT to CONSORT_SLOW_DEMOTE";
            let unknown = || Failure::invalid(format!("{policy} is no policy; give one of {range}"));
            options.slow = Some(SlowRequest { policy: known.ok_or_else(unknown)?, bytes, time: span(milliseconds) });
            Ok(())
        })
    }
}

/// How many bytes of a session's sends are kept whose fate is not known, 4 MiB where nothing is said; who sends more waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_unsettled_max(
    options: *mut consort_options,
    bytes: usize,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set_of_session(options, |options| {
            options.unsettled_max = bytes;
            Ok(())
        })
    }
}

/// How long no daemon may be reached before a session gives up (CONSORT_UNREACHABLE), 60000 where nothing is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_reconnect_within(
    options: *mut consort_options,
    milliseconds: i64,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set_of_session(options, |options| {
            options.reconnect_within = bounded(milliseconds, "milliseconds without a daemon")?;
            Ok(())
        })
    }
}

/// Whose sends a session's are: what consort_session_producer() said of an earlier one. It goes on behind that one's last
/// send and stops it; CONSORT_EVENT_RESUMED says how many of its sends are ordered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_options_set_producer(
    options: *mut consort_options,
    producer: *const c_char,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        set_of_session(options, |options| {
            options.producer = Some(producer_of(text(producer, "producer")?)?);
            Ok(())
        })
    }
}

/// A producer as it is written.
fn producer_of(text: &str) -> Result<ProducerId, Failure> {
    let wrong = || {
        let remedy = "give what consort_session_producer() said, 32 digits of 0-9 and a-f";
        Failure::invalid(format!("{text:?} is no producer; {remedy}"))
    };
    let mut id = [0; ProducerId::LEN];
    if text.len() != 2 * id.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    for (byte, at) in id.iter_mut().zip((0..).step_by(2)) {
        *byte = text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?;
    }
    Ok(ProducerId(id))
}

/// A time that must have an end.
fn bounded(milliseconds: i64, what: &str) -> Result<Duration, Failure> {
    span(milliseconds)
        .filter(|span| !span.is_zero())
        .ok_or_else(|| Failure::invalid(format!("{milliseconds} {what}; give at least 1")))
}

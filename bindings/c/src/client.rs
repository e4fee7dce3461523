//! Clients: what they are made of, and how they come and go.
use crate::border::{call, exclusively, free, give, is_left_over, not_null, object, put, span, tell, text};
use crate::codes::consort_code::{self, CONSORT_OK};
use crate::failure::{Failure, c_text};
use crate::options::consort_options;
use consort::{Address, Client, ConnectOptions, Origin, PrivateName, Receiver, Sender, Welcome};
use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::Mutex;

/// What a second thread is told to do.
const REMEDY: &str = "another thread uses this client; give each thread its own, or split it with consort_split()";

/// A session with a daemon, or one half of it.
pub struct consort_client {
    origin: Origin,
    half: Mutex<Half>,
    name: CString,
    private_name: CString,
    welcome: Welcome,
}

/// What a client can do.
pub(crate) enum Half {
    Whole(Box<Client>),
    Sends(Box<Sender>),
    Receives(Box<Receiver>),
    Closed,
}

/// Does something with whatever sends.
macro_rules! sending {
    ($half:expr, |$way:ident| $act:expr) => {
        match $half {
            $crate::client::Half::Whole($way) => Ok($act?),
            $crate::client::Half::Sends($way) => Ok($act?),
            other => Err(other.does_not("send")),
        }
    };
}
pub(crate) use sending;

/// Does something with whatever receives.
macro_rules! receiving {
    ($half:expr, |$way:ident| $act:expr) => {
        match $half {
            $crate::client::Half::Whole($way) => Ok($act?),
            $crate::client::Half::Receives($way) => Ok($act?),
            other => Err(other.does_not("receive")),
        }
    };
}
pub(crate) use receiving;

impl Half {
    pub(crate) fn does_not(&self, what: &str) -> Failure {
        let text = match self {
            Self::Closed => format!("this client was closed and does not {what}; connect anew"),
            Self::Whole(_) | Self::Sends(_) | Self::Receives(_) => {
                format!("this half of a client does not {what}; the other one does")
            }
        };
        Failure::new(consort_code::CONSORT_WRONG_HALF, text)
    }
}

impl consort_client {
    pub(crate) fn new(half: Half, welcome: Welcome) -> Self {
        let private_name = PrivateName::new(&welcome.name, welcome.daemon.node);
        Self {
            origin: Origin::here(),
            half: Mutex::new(half),
            name: c_text(welcome.name.as_str()),
            private_name: c_text(private_name.as_str()),
            welcome,
        }
    }

    /// Does something with it, unless another thread does, or it is another process's.
    pub(crate) fn using<T>(&self, act: impl FnOnce(&mut Half) -> Result<T, Failure>) -> Result<T, Failure> {
        self.origin.check()?;
        exclusively(&self.half, REMEDY, act)
    }
}

/// Connects to a daemon and opens a session. The address is a path of a Unix socket, with a slash in it, or host:port.
/// Null options ask for nothing special. The client is to be freed with consort_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_connect(
    address: *const c_char,
    options: *const consort_options,
    client: *mut *mut consort_client,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let (address, options) = unsafe {
            not_null(client, "client")?;
            put(client, ptr::null_mut());
            (text(address, "address")?, options.as_ref())
        };
        let address: Address = address.parse().map_err(|error| Failure::invalid(format!("{error}")))?;
        let options = options.map_or_else(ConnectOptions::default, |options| options.0.connect.clone());
        let opened = Client::connect(&address, &options)?;
        let welcome = opened.welcome().clone();
        // SAFETY: likewise.
        unsafe { put(client, give(consort_client::new(Half::Whole(Box::new(opened)), welcome))) };
        Ok(CONSORT_OK)
    })
}

/// Makes two clients of one, for two threads: the given one sends from here on, the new one receives. The receiving one
/// must be read, or the sending one never hears of free credit. Both are to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_split(
    client: *const consort_client,
    receiver: *mut *mut consort_client,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let whole = unsafe {
            not_null(receiver, "receiver")?;
            put(receiver, ptr::null_mut());
            object(client, "client")?
        };
        let receives = whole.using(|half| match std::mem::replace(half, Half::Closed) {
            Half::Whole(client) => {
                let (sender, receiver) = client.split();
                *half = Half::Sends(Box::new(sender));
                Ok(Half::Receives(Box::new(receiver)))
            }
            other => {
                *half = other;
                Err(half.does_not("split"))
            }
        })?;
        // SAFETY: likewise.
        unsafe { put(receiver, give(consort_client::new(receives, whole.welcome.clone()))) };
        Ok(CONSORT_OK)
    })
}

/// Says good-bye: the daemon takes all that was sent before, and then ends the session. A whole client waits for that,
/// at most so long; events that come meanwhile are lost. The half that sends does not wait: the other one receives what
/// comes still, and then CONSORT_DISCONNECTED with CONSORT_REASON_GOODBYE. Whatever fails on the way, the client does
/// nothing any more. It is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_close(client: *const consort_client, within: i64) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        unsafe { object(client, "client") }?.using(|half| match std::mem::replace(half, Half::Closed) {
            Half::Whole(client) => Ok(client.close(span(within))?),
            Half::Sends(sender) => Ok(sender.goodbye()?),
            other => {
                *half = other;
                Err(half.does_not("close"))
            }
        })?;
        Ok(CONSORT_OK)
    })
}

/// Frees a client. Where it was not closed the connection ends; what was collected is written before, as far as the daemon
/// takes it within a second. In a child of fork() the parent's connection goes on, and nothing is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_free(client: *mut consort_client) {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        if !client.as_ref().is_some_and(|client| is_left_over(client.origin, &client.half)) {
            free(client);
        }
    }
}

/// Tells something of a client; `nothing` of null.
unsafe fn of<T>(client: *const consort_client, nothing: T, what: impl FnOnce(&consort_client) -> T) -> T {
    // SAFETY: the caller keeps the header's rule of pointers. What is read here never changes.
    match unsafe { client.as_ref() } {
        Some(client) => tell(nothing, || what(client)),
        None => nothing,
    }
}

/// What the client is called; null of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_name(client: *const consort_client) -> *const c_char {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(client, ptr::null(), |client| client.name.as_ptr()) }
}

/// The name by which others send to this client alone, as to a group: `#name#nNODE`; null of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_private_name(client: *const consort_client) -> *const c_char {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(client, ptr::null(), |client| client.private_name.as_ptr()) }
}

/// The node of the client's daemon; 0 of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_node(client: *const consort_client) -> u16 {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(client, 0, |client| client.welcome.daemon.node.0) }
}

/// The client's number at its daemon; 0 of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_number(client: *const consort_client) -> u32 {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(client, 0, |client| client.welcome.client.0) }
}

/// The largest payload of one message, in bytes; 0 of null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_message_max(client: *const consort_client) -> u32 {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { of(client, 0, |client| client.welcome.message_max) }
}

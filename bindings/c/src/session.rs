//! Sessions over several daemons.
use crate::border::{call, exclusively, free, give, group, is_left_over, not_null, object, put, span, tell, texts};
use crate::codes::consort_code::{self, CONSORT_NOTHING, CONSORT_OK};
use crate::event::consort_event;
use crate::failure::{Failure, c_text};
use crate::options::consort_options;
use crate::reading::{put_bookmark, request};
use crate::receiving::shares_memory;
use crate::sending::message;
use consort::{Address, GroupName, Origin, Session, SessionEvent, SessionOptions};
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_void};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

/// More daemons than anybody has: a count beyond is no count.
const DAEMONS_MOST: usize = u16::MAX as usize;
/// What a second thread is told to do.
const REMEDY: &str = "another thread uses this session; give each thread its own";

/// A session over several daemons: when its daemon is lost it goes on at the next. Each send has exactly one fate, told as
/// CONSORT_EVENT_SENT: one whose fate is not known when a connection is lost is asked about, not repeated. Groups are joined
/// again. A reading goes on where it was: each message once, in order; what cannot be told is told as CONSORT_EVENT_GAP or
/// CONSORT_EVENT_PARTED.
///
/// It needs a policy that says which part of a parted network goes on: primary = "majority", or protocol = "paxos". In
/// another part sends wait.
pub struct consort_session {
    origin: Origin,
    state: Mutex<State>,
    producer: CString,
    send_within: Option<Duration>,
}

pub(crate) struct State {
    /// None once it was closed.
    session: Option<Box<Session>>,
    /// What came while it closed.
    last: VecDeque<SessionEvent>,
}

impl State {
    fn open(&mut self, what: &str) -> Result<&mut Session, Failure> {
        let text = || format!("this session was closed and does not {what}; connect anew");
        self.session.as_deref_mut().ok_or_else(|| Failure::new(consort_code::CONSORT_WRONG_HALF, text()))
    }
}

impl consort_session {
    fn new(session: Session, send_within: Option<Duration>) -> Self {
        let producer: String = session.producer().0.iter().map(|byte| format!("{byte:02x}")).collect();
        let state = State { session: Some(Box::new(session)), last: VecDeque::new() };
        Self { origin: Origin::here(), state: Mutex::new(state), producer: c_text(producer), send_within }
    }

    /// Does something with it, unless another thread does, or it is another process's.
    pub(crate) fn using<T>(&self, act: impl FnOnce(&mut State) -> Result<T, Failure>) -> Result<T, Failure> {
        self.origin.check()?;
        exclusively(&self.state, REMEDY, act)
    }
}

/// Connects to the first of so many daemons that can be reached; addresses as of consort_connect(). Null options ask for
/// nothing special. The session is to be freed with consort_session_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_connect(
    daemons: *const *const c_char,
    daemons_count: usize,
    options: *const consort_options,
    session: *mut *mut consort_session,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let (addresses, options) = unsafe {
            not_null(session, "session")?;
            put(session, ptr::null_mut());
            (addresses(daemons, daemons_count)?, options.as_ref())
        };
        let options = options.map_or_else(SessionOptions::default, |options| options.0.clone());
        let send_within = options.connect.send_within;
        let opened = Session::connect(&addresses, options)?;
        // SAFETY: likewise.
        unsafe { put(session, give(consort_session::new(opened, send_within))) };
        Ok(CONSORT_OK)
    })
}

unsafe fn addresses(at: *const *const c_char, count: usize) -> Result<Vec<Address>, Failure> {
    if count == 0 || count > DAEMONS_MOST {
        return Err(Failure::invalid(format!("{count} daemons are named; give the address of at least one")));
    }
    let address = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.parse().map_err(|error| Failure::invalid(format!("{error}")))
    };
    // SAFETY: handed on.
    unsafe { texts(at, count, "daemons") }?.into_iter().map(address).collect()
}

/// Waits until every send has its fate, at most so long, and ends the session; the daemons forget its producer. What came is
/// received still, then CONSORT_WRONG_HALF. Whatever fails on the way, the session does nothing any more; with
/// CONSORT_TIMED_OUT another one can go on with its producer. It is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_close(session: *const consort_session, within: i64) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        unsafe { object(session, "session") }?.using(|state| {
            state.open("close")?;
            if let Some(session) = state.session.take() {
                state.last.extend(session.finish(span(within))?);
            }
            Ok(CONSORT_OK)
        })
    })
}

/// Frees a session. Where it was not closed, what has no fate may be ordered still, or never. In a child of fork() the
/// parent's session goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_free(session: *mut consort_session) {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        if !session.as_ref().is_some_and(|session| is_left_over(session.origin, &session.state)) {
            free(session);
        }
    }
}

/// Whose sends these are, for consort_options_set_producer(); null of null. Store it, with the payloads of sends without a
/// fate, for a session that goes on later. Who knows it may send under it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_producer(session: *const consort_session) -> *const c_char {
    // SAFETY: the caller keeps the header's rule of pointers. What is read here never changes.
    match unsafe { session.as_ref() } {
        Some(session) => tell(ptr::null(), || session.producer.as_ptr()),
        None => ptr::null(),
    }
}

/// Does something with a session that is open.
unsafe fn with_open(
    session: *const consort_session,
    what: &str,
    act: impl FnOnce(&mut Session) -> Result<consort_code, Failure>,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        unsafe { object(session, "session") }?.using(|state| act(state.open(what)?))
    })
}

unsafe fn to_group(
    session: *const consort_session,
    name: *const c_char,
    what: &str,
    act: impl FnOnce(&mut Session, &GroupName) -> Result<(), consort::Error>,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        with_open(session, what, |session| {
            act(session, &group(name)?)?;
            Ok(CONSORT_OK)
        })
    }
}

/// Joins a group, and joins it again after each loss. A group view follows, or CONSORT_EVENT_JOIN_REFUSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_join(session: *const consort_session, group: *const c_char) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { to_group(session, group, "join", Session::join) }
}

/// The same; if the group has no members yet, only members may send to it from here on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_join_closed(
    session: *const consort_session,
    group: *const c_char,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { to_group(session, group, "join", Session::join_closed) }
}

/// Leaves a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_leave(session: *const consort_session, group: *const c_char) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { to_group(session, group, "leave", Session::leave) }
}

/// Sends a message to groups, and to clients by their private names, once. Its number goes to `send`, which may be null; its
/// fate comes as CONSORT_EVENT_SENT. Waits while too many bytes have no fate, for as long as
/// consort_options_set_send_within() says. A session does nothing between calls: sends are collected, and written by the next
/// call that finds no event and looks for more, such as consort_session_try_receive() until it gives nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_send(
    session: *const consort_session,
    service: i32,
    targets: *const *const c_char,
    targets_count: usize,
    payload: *const c_void,
    payload_len: usize,
    send: *mut u64,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let (session, message) =
            unsafe { (object(session, "session")?, message(service, targets, targets_count, payload, payload_len)?) };
        let (within, targets) = (session.send_within, &message.targets);
        let sends = |session: &mut Session| session.send_within(message.service, targets, message.payload, within);
        let number = session.using(|state| Ok(sends(state.open("send")?)?))?;
        // SAFETY: likewise.
        unsafe { put(send, number) };
        Ok(CONSORT_OK)
    })
}

/// Waits for the fate of a send, at most so long: a CONSORT_EVENT_SENT, which is not received any more then. Other events are
/// kept. CONSORT_INVALID where the fate was told before, or there is no such send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_outcome(
    session: *const consort_session,
    send: u64,
    within: i64,
    event: *mut *mut consort_event,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let session = unsafe {
            not_null(event, "event")?;
            put(event, ptr::null_mut());
            object(session, "session")?
        };
        let fate = session.using(|state| Ok(state.open("tell fates")?.outcome(send, span(within))?))?;
        let untold = "no fate of this send is left to tell: it was told, or there is no such send";
        let fate = fate.ok_or_else(|| Failure::invalid(format!("send {send}: {untold}")))?;
        // SAFETY: likewise.
        unsafe { put(event, give(consort_event::new(SessionEvent::Sent { send, fate }))) };
        Ok(CONSORT_OK)
    })
}

/// Waits until every send has its fate, at most so long. Events are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_settle(session: *const consort_session, within: i64) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        with_open(session, "settle", |session| {
            session.settle(span(within))?;
            Ok(CONSORT_OK)
        })
    }
}

/// How many sends have no fate yet goes to `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_unsettled(session: *const consort_session, count: *mut usize) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        with_open(session, "count", |session| {
            not_null(count, "count")?;
            put(count, session.unsettled());
            Ok(CONSORT_OK)
        })
    }
}

/// Reads groups by position, and goes on with it at the next daemon; as consort_read() otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_read(
    session: *const consort_session,
    groups: *const *const c_char,
    groups_count: usize,
    from: *const c_char,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        with_open(session, "read", |session| {
            let (groups, from) = request(groups, groups_count, from)?;
            session.read(&groups, from)?;
            Ok(CONSORT_OK)
        })
    }
}

/// How far the reading has come; as consort_bookmark().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_bookmark(
    session: *const consort_session,
    bookmark: *mut c_char,
    size: usize,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { with_open(session, "tell its place", |session| put_bookmark(session.bookmark(), bookmark, size)) }
}

/// The next event; CONSORT_NOTHING and null if none came within so many milliseconds. CONSORT_UNREACHABLE,
/// CONSORT_TAKEN_OVER and CONSORT_NOT_OPENED end the session. The event is to be freed with consort_event_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_receive(
    session: *const consort_session,
    within: i64,
    event: *mut *mut consort_event,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { receive(session, span(within), event) }
}

/// The next event if one is here; waits for nothing but a connection that is due. As consort_session_receive() otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_try_receive(
    session: *const consort_session,
    event: *mut *mut consort_event,
) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe { receive(session, Some(Duration::ZERO), event) }
}

unsafe fn receive(
    session: *const consort_session,
    within: Option<Duration>,
    event: *mut *mut consort_event,
) -> consort_code {
    call(|| {
        // SAFETY: the caller keeps the header's rule of pointers.
        let session = unsafe {
            not_null(event, "event")?;
            put(event, ptr::null_mut());
            object(session, "session")?
        };
        let received = session.using(|state| match state.last.pop_front() {
            Some(last) => Ok(Some(last)),
            None => Ok(state.open("receive")?.receive(within)?),
        })?;
        let Some(received) = received else { return Ok(CONSORT_NOTHING) };
        // SAFETY: likewise.
        unsafe { put(event, give(consort_event::new(received))) };
        Ok(CONSORT_OK)
    })
}

/// The descriptor of the connection that there is, for a program that waits with poll() of its own; -1 while there is none.
/// Take events with consort_session_try_receive() until it gives nothing, and only then wait: for a tenth of a second at
/// most, so that a silent daemon is noticed. Each connection has another. CONSORT_UNSUPPORTED where the daemon shares
/// memory: consort_options_set_shared_memory().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consort_session_fd(session: *const consort_session, fd: *mut i32) -> consort_code {
    // SAFETY: the caller keeps the header's rule of pointers.
    unsafe {
        with_open(session, "receive", |session| {
            not_null(fd, "fd")?;
            let descriptor = session.descriptor().map(|descriptor| descriptor.as_raw_fd());
            put(fd, descriptor.unwrap_or(-1));
            if descriptor.is_none() && session.is_connected() { Err(shares_memory()) } else { Ok(CONSORT_OK) }
        })
    }
}

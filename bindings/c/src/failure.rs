//! Why calls fail, kept by thread.
use crate::codes::{self, consort_code};
use consort::Error;
use std::cell::RefCell;
use std::ffi::CString;
use std::ops::Range;

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: consort_code,
    pub(crate) text: CString,
    /// The daemon's reason, 0 where it gave none.
    pub(crate) reason: i32,
    pub(crate) unknown_fate: Range<u64>,
}

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

impl Failure {
    pub(crate) fn new(code: consort_code, text: impl Into<String>) -> Self {
        Self { code, text: c_text(text), reason: 0, unknown_fate: 0..0 }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(consort_code::CONSORT_INVALID, text)
    }

    /// A pointer that must not be null.
    pub(crate) fn null(what: &str) -> Self {
        Self::invalid(format!("`{what}` is null"))
    }

    /// Keeps it for whoever asks with [`last`].
    pub(crate) fn keep(self) -> consort_code {
        let code = self.code;
        // A thread that is ending keeps nothing any more; the code is told still.
        let _ = LAST.try_with(|last| *last.borrow_mut() = Some(self));
        code
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let reason = match &error {
            Error::NotWelcome(farewell) | Error::Disconnected { farewell, .. } => codes::reason(farewell.reason),
            _ => 0,
        };
        let unknown_fate = error.unknown_fate().cloned().unwrap_or(0..0);
        Self { code: code_of(&error), text: c_text(error.to_string()), reason, unknown_fate }
    }
}

const fn code_of(error: &Error) -> consort_code {
    match error {
        Error::Option(_) => consort_code::CONSORT_INVALID,
        Error::Connect { .. } | Error::Untrusted { .. } => consort_code::CONSORT_CANNOT_CONNECT,
        Error::NoDaemon { .. } => consort_code::CONSORT_NO_DAEMON,
        Error::NotWelcome(_) => consort_code::CONSORT_NOT_WELCOME,
        Error::WouldBlock { .. } => consort_code::CONSORT_WOULD_BLOCK,
        Error::TimedOut { .. } => consort_code::CONSORT_TIMED_OUT,
        Error::TooLarge { .. } => consort_code::CONSORT_TOO_LARGE,
        Error::Targets { .. } | Error::Groups { .. } => consort_code::CONSORT_TARGETS,
        Error::Unread { .. } => consort_code::CONSORT_UNREAD,
        Error::NobodyReceives => consort_code::CONSORT_NOBODY_RECEIVES,
        Error::ConnectionLost { .. } => consort_code::CONSORT_CONNECTION_LOST,
        Error::Disconnected { .. } => consort_code::CONSORT_DISCONNECTED,
        Error::Unreachable { .. } => consort_code::CONSORT_UNREACHABLE,
        Error::TakenOver => consort_code::CONSORT_TAKEN_OVER,
        Error::NotOpened(_) => consort_code::CONSORT_NOT_OPENED,
        Error::Forked { .. } => consort_code::CONSORT_FORKED,
        _ => consort_code::CONSORT_INTERNAL,
    }
}

/// A text for C: a zero byte would end it, and stands for nothing that can be read.
pub(crate) fn c_text(text: impl Into<String>) -> CString {
    let mut text = text.into();
    text.retain(|character| character != '\0');
    CString::new(text).unwrap_or_default()
}

/// Tells something of the last failure on this thread; `nothing` where there was none.
pub(crate) fn last<T>(nothing: T, of: impl FnOnce(&Failure) -> T) -> T {
    LAST.try_with(|last| last.borrow().as_ref().map(of)).ok().flatten().unwrap_or(nothing)
}

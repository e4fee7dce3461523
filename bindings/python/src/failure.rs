//! Why a call failed: an exception of `consort._errors`, with what belongs to it.
use consort::Error;
use pyo3::prelude::*;
use std::fmt::Display;
use std::ops::Range;

/// Where the exceptions are defined.
const MODULE: &str = "consort._errors";

/// What is to be raised.
#[derive(Debug)]
pub(crate) struct Failure {
    class: &'static str,
    text: String,
    reason: Option<&'static str>,
    unknown_fate: Range<u64>,
}

impl Failure {
    pub(crate) fn new(class: &'static str, text: impl Display) -> Self {
        Self { class, text: text.to_string(), reason: None, unknown_fate: 0..0 }
    }

    pub(crate) fn invalid(text: impl Display) -> Self {
        Self::new("InvalidArgument", text)
    }

    /// Whether it came of the time alone.
    pub(crate) fn is_late(&self) -> bool {
        self.class == "TimedOut"
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let reason = match &error {
            Error::NotWelcome(farewell) | Error::Disconnected { farewell, .. } => Some(farewell.reason.name()),
            Error::NotOpened(refusal) => Some(refusal.cause.name()),
            _ => None,
        };
        let unknown_fate = error.unknown_fate().cloned().unwrap_or(0..0);
        Self { class: class(&error), text: error.to_string(), reason, unknown_fate }
    }
}

const fn class(error: &Error) -> &'static str {
    match error {
        Error::Option(_) => "InvalidArgument",
        Error::Connect { .. } | Error::Untrusted { .. } => "CannotConnect",
        Error::NoDaemon { .. } => "NoDaemon",
        Error::NotWelcome(_) => "NotWelcome",
        Error::WouldBlock { .. } => "WouldBlock",
        Error::TimedOut { .. } => "TimedOut",
        Error::TooLarge { .. } => "TooLarge",
        Error::Targets { .. } | Error::Groups { .. } => "BadTargets",
        Error::Unread { .. } => "Unread",
        Error::NobodyReceives => "NobodyReceives",
        Error::ConnectionLost { .. } => "ConnectionLost",
        Error::Disconnected { .. } => "Disconnected",
        Error::Unreachable { .. } => "Unreachable",
        Error::TakenOver => "TakenOver",
        Error::NotOpened(_) => "NotOpened",
        Error::Forked { .. } => "Forked",
        _ => "Error",
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| {
            let made = py.import(MODULE).and_then(|module| module.getattr(failure.class)).and_then(|class| {
                let Range { start, end } = failure.unknown_fate;
                class.call1((failure.text, failure.reason, start, end))
            });
            made.map_or_else(|error| error, Self::from_value)
        })
    }
}

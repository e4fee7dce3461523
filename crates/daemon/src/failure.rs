//! How the program ends when it does not end well: a sentence for people, an exit code for scripts.
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit codes, stable for scripts; `consort --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Nothing failed; the message is what was asked for.
    Fine = 0,
    /// What was asked for could not be done.
    Failed = 1,
    /// The command line or the configuration is wrong; nothing was started.
    Usage = 2,
    /// No daemon could be reached.
    NoDaemon = 3,
    /// The connection ended while sends were under way: these may or may not have been ordered.
    UnknownFate = 4,
    /// The given time ran out.
    Timeout = 5,
    /// Ended from outside (Ctrl-C).
    Interrupted = 130,
}

/// Why a command ends early. The message says what is wrong, where, and what to do.
#[derive(Debug)]
pub struct Failure {
    /// For scripts.
    pub code: Code,
    /// For people: what is wrong, where, and what to do.
    pub message: String,
}

/// What every command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// What was asked for could not be done.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: Code::Failed, message: message.into() }
    }

    /// The user's input is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: Code::Usage, message: message.into() }
    }

    /// The same with another exit code.
    pub fn with(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// Puts before the message whom it is about.
    pub fn about(self, whom: &str) -> Self {
        Self { message: format!("{whom}: {}", self.message), ..self }
    }

    /// An early end that is none: text for standard output.
    pub fn shown(text: impl Into<String>) -> Self {
        Self { code: Code::Fine, message: text.into() }
    }

    /// Tells the user, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        // Whoever closed our output does not want to hear about it.
        let _ = match (self.code, self.message.as_str()) {
            (_, "") => Ok(()),
            (Code::Fine, text) => write!(io::stdout(), "{text}"),
            (_, text) => writeln!(io::stderr(), "consort: {text}"),
        };
        ExitCode::from(self.code as u8)
    }
}

/// Tells the user something besides the output. Whoever does not listen misses it.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "consort: {text}");
}

/// Writing to standard output or error failed. A reader that went away (`| head`) is a quiet, good end.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::shown("");
        }
        Self::new(format!("cannot write the output: {error}"))
    }
}

/// Whoever closed our output misses what is written to it; the work goes on.
pub fn heard_or_not(written: io::Result<()>) -> Outcome {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Puts "what was tried" before "what went wrong".
pub trait Trying<T> {
    /// Turns an error into `<what>: <error>`.
    fn trying(self, what: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: Display> Trying<T> for Result<T, E> {
    fn trying(self, what: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Failure::new(format!("{}: {error}", what())))
    }
}

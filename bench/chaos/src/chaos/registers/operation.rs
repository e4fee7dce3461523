//! What is done to a register, what came of it, and when.
use std::fmt;
use std::str::FromStr;

use consort_types::Instant;

/// How many registers there are.
pub const KEYS: usize = 4;

/// What a register holds. It begins with 0; no two requests write the same.
pub type Value = u64;

/// What is asked of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Say what it holds.
    Read,
    /// Hold this.
    Write(Value),
    /// Say what it holds, and if that is what was expected, hold something new.
    CompareAndSet {
        /// What it must hold.
        expected: Value,
        /// What it holds then.
        new: Value,
    },
}

impl Request {
    /// What a register holds after the request, if it held this before.
    pub const fn applied_to(self, held: Value) -> Value {
        match self {
            Self::Write(new) => new,
            Self::CompareAndSet { expected, new } if expected == held => new,
            Self::Read | Self::CompareAndSet { .. } => held,
        }
    }

    /// What the caller is told where the register held this.
    pub const fn answer(self, held: Value) -> Answer {
        match self {
            Self::Write(_) => Answer::Done,
            Self::Read | Self::CompareAndSet { .. } => Answer::Held(held),
        }
    }

    /// What it would write.
    pub const fn written(self) -> Option<Value> {
        match self {
            Self::Read => None,
            Self::Write(new) | Self::CompareAndSet { new, .. } => Some(new),
        }
    }
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is written.
    Done,
    /// What the register held before.
    Held(Value),
}

/// A request by a caller to a register. As text it is what a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who calls.
    pub caller: u64,
    /// The caller's how manieth call, from 1.
    pub number: u64,
    /// Which register, from 0.
    pub key: usize,
    /// What is asked.
    pub request: Request,
}

/// A call with its times. Without an answer it may have taken effect at any time after it, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was called.
    pub call: Call,
    /// When.
    pub from: Instant,
    /// What came of it, and when that was known.
    pub outcome: Option<(Instant, Answer)>,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => write!(f, "read"),
            Self::Write(new) => write!(f, "write {new}"),
            Self::CompareAndSet { expected, new } => write!(f, "set {expected} {new}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "register {} call {}.{} {}", self.key, self.caller, self.number, self.request)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.call, self.from.0)?;
        match self.outcome {
            None => write!(f, " unknown"),
            Some((until, Answer::Done)) => write!(f, " until {} done", until.0),
            Some((until, Answer::Held(value))) => write!(f, " until {} held {value}", until.0),
        }
    }
}

impl FromStr for Call {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split(' ').collect();
        call(&words)
            .filter(|(_, rest)| rest.is_empty())
            .map(|(call, _)| call)
            .ok_or_else(|| format!("no call: {text:?}"))
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split(' ').collect();
        operation(&words).ok_or_else(|| format!("no operation: {text:?}"))
    }
}

fn number<T: FromStr>(word: &str) -> Option<T> {
    word.parse().ok()
}

fn call<'a>(words: &'a [&'a str]) -> Option<(Call, &'a [&'a str])> {
    let ["register", key, "call", name, rest @ ..] = words else { return None };
    let (caller, count) = name.split_once('.')?;
    let (request, rest) = match rest {
        ["read", rest @ ..] => (Request::Read, rest),
        ["write", new, rest @ ..] => (Request::Write(number(new)?), rest),
        ["set", expected, new, rest @ ..] => {
            (Request::CompareAndSet { expected: number(expected)?, new: number(new)? }, rest)
        }
        _ => return None,
    };
    let key = number(key).filter(|key| *key < KEYS)?;
    Some((Call { caller: number(caller)?, number: number(count)?, key, request }, rest))
}

fn operation(words: &[&str]) -> Option<Operation> {
    let (call, rest) = call(words)?;
    let ["from", from, rest @ ..] = rest else { return None };
    let outcome = match rest {
        ["unknown"] => None,
        ["until", until, "done"] => Some((Instant(number(until)?), Answer::Done)),
        ["until", until, "held", value] => Some((Instant(number(until)?), Answer::Held(number(value)?))),
        _ => return None,
    };
    Some(Operation { call, from: Instant(number(from)?), outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_operations_read_back_and_other_texts_are_none() {
        let requests = [Request::Read, Request::Write(7), Request::CompareAndSet { expected: 7, new: 8 }];
        let outcomes = [None, Some((Instant(9), Answer::Done)), Some((Instant(9), Answer::Held(7)))];
        for request in requests {
            let call = Call { caller: 3, number: 4, key: 1, request };
            assert_eq!(call.to_string().parse(), Ok(call));
            for outcome in outcomes {
                let operation = Operation { call, from: Instant(5), outcome };
                assert_eq!(operation.to_string().parse(), Ok(operation));
            }
        }
        for text in ["", "register 4 call 1.1 read", "register 1 call 1 read", "register 1 call 1.1 read twice"] {
            assert_eq!(text.parse::<Call>(), Err(format!("no call: {text:?}")));
            assert!(text.parse::<Operation>().is_err());
        }
        for end in ["from 1", "from 1 until 2", "from 1 until 2 held", "from x unknown", "from 1 unknown 2"] {
            assert!(format!("register 1 call 1.1 read {end}").parse::<Operation>().is_err(), "{end}");
        }
    }
}

//! What a client's words ask for. Each command is checked here in full: what passes can be carried out.
use crate::limits::{KEY_MAX, PATTERN_MAX, RANGE_MAX, VALUE_MAX};
use bytes::Bytes;

/// When a value is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// In any case.
    Always,
    /// `NX`: where the key has no value.
    Absent,
    /// `XX`: where it has one.
    Present,
    /// `IFEQ value`: where it has this one.
    Equals(Bytes),
}

/// A command that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `PING [text]`
    Ping(Option<Bytes>),
    /// `ECHO text`
    Echo(Bytes),
    /// `GET key`
    Get(Bytes),
    /// `SET key value [NX | XX | IFEQ value] [GET]`
    Put {
        /// Where.
        key: Bytes,
        /// What.
        value: Bytes,
        /// When.
        when: When,
        /// Whether the answer is what was there before.
        returns_old: bool,
    },
    /// `DEL key ...`
    Delete(Vec<Bytes>),
    /// `EXISTS key ...`
    Exists(Vec<Bytes>),
    /// `MGET key ...`
    GetAll(Vec<Bytes>),
    /// `SCAN cursor [MATCH pattern] [COUNT count]`
    Scan {
        /// The hash to begin at.
        cursor: u64,
        /// Which keys are told.
        pattern: Option<Bytes>,
        /// How many keys are looked at.
        count: usize,
    },
    /// `KV.RANGE from to [LIMIT count]`; an empty `to` is the end of all keys.
    Range {
        /// The first key.
        from: Bytes,
        /// The key behind the last.
        to: Option<Bytes>,
        /// How many entries at most.
        limit: usize,
    },
    /// `DBSIZE`
    Size,
    /// `INFO`
    Info,
    /// `HELLO [2]`
    Hello,
    /// What is answered with `OK` and changes nothing: `SELECT 0`, `CLIENT SETNAME`, `CLIENT SETINFO`.
    Accept,
    /// What is answered with an empty list: `COMMAND`, `CONFIG GET`.
    Nothing,
    /// `QUIT`
    Quit,
}

/// Why a command is refused. The connection goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no such command here.
    #[error("ERR unknown command '{0}'; see INFO for those that are served")]
    Unknown(String),
    /// There is no such command below this one.
    #[error("ERR unknown subcommand '{1}' of '{0}'")]
    Subcommand(&'static str, String),
    /// It has too few words, or too many.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    /// A word that this command does not have.
    #[error("ERR syntax error: '{1}' is no option of '{0}' here, or stands in the wrong place")]
    Syntax(&'static str, String),
    /// A number is expected.
    #[error("ERR {0} is not an integer or out of range; give {1}")]
    Number(&'static str, String),
    /// A key is too long.
    #[error("ERR the key has {0} bytes; {KEY_MAX} are allowed")]
    Key(usize),
    /// A value is too long.
    #[error("ERR the value has {0} bytes; {VALUE_MAX} are allowed")]
    Value(usize),
    /// A pattern is too long.
    #[error("ERR the pattern has {0} bytes; {PATTERN_MAX} are allowed")]
    Pattern(usize),
    /// There is one database, 0.
    #[error("ERR DB index is out of range; there is 0 alone")]
    Database,
    /// Another version of the protocol.
    #[error("NOPROTO unsupported protocol version; give 2")]
    Protocol,
}

/// The commands that are served, as `INFO` tells them.
pub const COMMANDS: &str = "ping echo get set del exists mget scan kv.range dbsize info command config|get \
                            client|setname client|setinfo select hello quit";

/// What these words ask for; there is one at least.
///
/// # Errors
/// What is wrong with them.
pub fn request(words: &[Bytes]) -> Result<Request, RequestError> {
    let (name, words) = words.split_first().ok_or_else(|| RequestError::Unknown(String::new()))?;
    match &name.to_ascii_lowercase()[..] {
        b"ping" => match words {
            [] => Ok(Request::Ping(None)),
            [text] => Ok(Request::Ping(Some(text.clone()))),
            _ => Err(RequestError::Arity("ping")),
        },
        b"echo" => one(words, "echo").map(Request::Echo),
        b"get" => one(words, "get").and_then(key).map(Request::Get),
        b"set" => put(words),
        b"del" => keys(words, "del").map(Request::Delete),
        b"exists" => keys(words, "exists").map(Request::Exists),
        b"mget" => keys(words, "mget").map(Request::GetAll),
        b"scan" => scan(words),
        b"kv.range" => range(words),
        b"dbsize" => none(words, "dbsize", Request::Size),
        b"info" => Ok(Request::Info),
        b"command" => Ok(Request::Nothing),
        b"config" => below("config", words, &["get"], Request::Nothing),
        b"client" => below("client", words, &["setname", "setinfo"], Request::Accept),
        b"select" => match &one(words, "select")?[..] {
            b"0" => Ok(Request::Accept),
            _ => Err(RequestError::Database),
        },
        b"hello" => match words {
            [] => Ok(Request::Hello),
            [version] if &version[..] == b"2" => Ok(Request::Hello),
            [version, option, ..] if &version[..] == b"2" => Err(RequestError::Syntax("hello", shown(option))),
            _ => Err(RequestError::Protocol),
        },
        b"quit" => Ok(Request::Quit),
        _ => Err(RequestError::Unknown(shown(name))),
    }
}

/// The beginning of a client's word, for people.
fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(64).collect()
}

fn none(words: &[Bytes], name: &'static str, request: Request) -> Result<Request, RequestError> {
    if words.is_empty() { Ok(request) } else { Err(RequestError::Arity(name)) }
}

fn one(words: &[Bytes], name: &'static str) -> Result<Bytes, RequestError> {
    match words {
        [word] => Ok(word.clone()),
        _ => Err(RequestError::Arity(name)),
    }
}

fn below(name: &'static str, words: &[Bytes], known: &[&str], request: Request) -> Result<Request, RequestError> {
    let (word, rest) = words.split_first().ok_or(RequestError::Arity(name))?;
    if !known.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())) {
        return Err(RequestError::Subcommand(name, shown(word)));
    }
    if rest.is_empty() { Err(RequestError::Arity(name)) } else { Ok(request) }
}

fn key(key: Bytes) -> Result<Bytes, RequestError> {
    if key.len() > KEY_MAX { Err(RequestError::Key(key.len())) } else { Ok(key) }
}

fn value(value: &Bytes) -> Result<Bytes, RequestError> {
    if value.len() > VALUE_MAX { Err(RequestError::Value(value.len())) } else { Ok(value.clone()) }
}

fn keys(words: &[Bytes], name: &'static str) -> Result<Vec<Bytes>, RequestError> {
    if words.is_empty() {
        return Err(RequestError::Arity(name));
    }
    words.iter().cloned().map(key).collect()
}

fn put(words: &[Bytes]) -> Result<Request, RequestError> {
    let [name, text, options @ ..] = words else { return Err(RequestError::Arity("set")) };
    let (key, value) = (key(name.clone())?, value(text)?);
    let (mut when, mut returns_old, mut rest) = (When::Always, false, options.iter());
    while let Some(option) = rest.next() {
        let wanted = match &option.to_ascii_uppercase()[..] {
            b"NX" => When::Absent,
            b"XX" => When::Present,
            b"IFEQ" => {
                let expected = rest.next().ok_or_else(|| RequestError::Syntax("set", shown(option)))?;
                When::Equals(self::value(expected)?)
            }
            b"GET" if !returns_old => {
                returns_old = true;
                continue;
            }
            _ => return Err(RequestError::Syntax("set", shown(option))),
        };
        if when != When::Always {
            return Err(RequestError::Syntax("set", shown(option)));
        }
        when = wanted;
    }
    Ok(Request::Put { key, value, when, returns_old })
}

fn scan(words: &[Bytes]) -> Result<Request, RequestError> {
    let (cursor, options) = words.split_first().ok_or(RequestError::Arity("scan"))?;
    let cursor = number(cursor, "the cursor", 0, u64::MAX)?;
    let (mut pattern, mut count) = (None, 10);
    for option in options.chunks(2) {
        let [name, given] = option else { return Err(RequestError::Arity("scan")) };
        match &name.to_ascii_uppercase()[..] {
            b"MATCH" if given.len() > PATTERN_MAX => return Err(RequestError::Pattern(given.len())),
            b"MATCH" => pattern = Some(given.clone()),
            b"COUNT" => count = number(given, "COUNT", 1, RANGE_MAX as u64)? as usize,
            _ => return Err(RequestError::Syntax("scan", shown(name))),
        }
    }
    Ok(Request::Scan { cursor, pattern, count })
}

fn range(words: &[Bytes]) -> Result<Request, RequestError> {
    let (from, to, limit) = match words {
        [from, to] => (from, to, RANGE_MAX),
        [from, to, name, limit] if name.eq_ignore_ascii_case(b"LIMIT") => {
            (from, to, number(limit, "LIMIT", 1, RANGE_MAX as u64)? as usize)
        }
        [_, _, name, ..] => return Err(RequestError::Syntax("kv.range", shown(name))),
        _ => return Err(RequestError::Arity("kv.range")),
    };
    let (from, to) = (key(from.clone())?, key(to.clone())?);
    Ok(Request::Range { from, to: Some(to).filter(|to| !to.is_empty()), limit })
}

fn number(word: &[u8], what: &'static str, least: u64, most: u64) -> Result<u64, RequestError> {
    let given = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    let fits = given.filter(|number| (least..=most).contains(number));
    fits.ok_or_else(|| RequestError::Number(what, format!("{least} to {most}")))
}

#[cfg(test)]
mod tests;

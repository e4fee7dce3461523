//! Tokens: what a client shows that has no certificate.
//!
//! | text | what |
//! |---|---|
//! | `s1.NAME.SECRET` | given out once: the file holds `token NAME HASH`, the hash of its secret |
//! | `t1.KEY.NAME.EXPIRES.TAG` | signed, and good until then: the file holds `key KEY HEX` |
//!
//! A name has 1 to 40 letters, digits, `-` and `_`. SECRET, HASH, HEX and TAG are 32 bytes in hexadecimal, EXPIRES is in
//! seconds since 1970. Whoever has a token is taken for who it names: over a network it is to be shown inside TLS.
use ring::{digest, hmac};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The bytes of secrets and keys.
pub const SECRET: usize = 32;
/// No token is longer.
pub const TOKEN_MAX: usize = 160;
/// No name of a token is longer.
const NAME_MAX: usize = 40;
/// A file has no more keys: one to sign with, and some that are going.
const KEYS_MOST: usize = 8;
/// Keeps a signature from being one of anything else.
const SIGNED: &str = "consort token 1";
/// Two hashes are compared by what this key makes of them: how long that takes tells nothing.
const COMPARING: &[u8] = b"consort token comparison";

/// What a daemon takes for tokens. Nothing of a secret is told by formatting it.
#[derive(Clone, Default)]
pub struct Tokens {
    given: BTreeMap<String, hmac::Tag>,
    keys: Vec<(u16, hmac::Key)>,
}

/// What a token proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenProof {
    /// Whose it is.
    pub name: String,
    /// Until when, in seconds since 1970; `None` for as long as the file names it.
    pub expires: Option<u64>,
}

/// Why what a client shows proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    /// It is no token.
    #[error("what the client shows is no token; `consort token` makes one")]
    Malformed,
    /// It was not given out here, or not any more.
    #[error("the token is unknown: it was not given out for this daemon, or was taken back; `consort token` makes one")]
    Unknown,
    /// It is too old.
    #[error("the token has expired; have a new one made by `consort token`")]
    Expired,
}

/// What is wrong with a file of tokens. The text tells no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TokenFileError {
    /// Where, counted from 1.
    pub line: usize,
    /// What.
    pub what: &'static str,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|(number, _)| number).collect();
        f.debug_struct("Tokens").field("given", &self.given.keys()).field("keys", &keys).finish()
    }
}

impl Tokens {
    /// Reads a file: lines `token NAME HASH` and `key NUMBER HEX`; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// [`TokenFileError`] names the first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = Self::default();
        for (at, line) in text.lines().enumerate() {
            tokens.take(line.trim()).map_err(|what| TokenFileError { line: at + 1, what })?;
        }
        Ok(tokens)
    }

    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [] => Ok(()),
            [first, ..] if first.starts_with('#') => Ok(()),
            ["token", name, hash] => {
                let hash = secret(hash).ok_or("the hash of a token is 64 hexadecimal digits")?;
                if !is_name(name) {
                    return Err("a token's name has 1 to 40 letters, digits, - and _");
                }
                let new = self.given.insert(name.to_owned(), hmac::sign(&comparing(), &hash)).is_none();
                if new { Ok(()) } else { Err("a token of that name stands above") }
            }
            ["key", number, key] => {
                let number = number.parse().ok().filter(|number| *number > 0).ok_or("a key's number is 1 to 65535")?;
                let key = secret(key).ok_or("a key is 64 hexadecimal digits")?;
                if self.keys.iter().any(|(other, _)| *other == number) {
                    return Err("a key of that number stands above");
                }
                if self.keys.len() == KEYS_MOST {
                    return Err("there are eight keys already; remove those that are not used");
                }
                self.keys.push((number, hmac::Key::new(hmac::HMAC_SHA256, &key)));
                Ok(())
            }
            _ => Err("write `token NAME HASH` or `key NUMBER HEX`"),
        }
    }

    /// Whether there are neither tokens nor keys: whatever is shown is unknown then.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.keys.is_empty()
    }

    /// Whether there is a key to sign with.
    pub fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// How many tokens and keys there are.
    pub fn len(&self) -> usize {
        self.given.len() + self.keys.len()
    }

    /// What a token proves at this time, in seconds since 1970. Secrets are compared in constant time.
    ///
    /// # Errors
    /// [`TokenProblem`] where it proves nothing.
    pub fn verify(&self, token: &[u8], now: u64) -> Result<TokenProof, TokenProblem> {
        let text =
            std::str::from_utf8(token).ok().filter(|text| text.len() <= TOKEN_MAX).ok_or(TokenProblem::Malformed)?;
        let fields: Vec<&str> = text.split('.').collect();
        match fields[..] {
            ["s1", name, shown] if is_name(name) => self.verify_given(name, shown),
            ["t1", key, name, expires, tag] if is_name(name) => self.verify_signed((key, name, expires), tag, now),
            _ => Err(TokenProblem::Malformed),
        }
    }

    fn verify_given(&self, name: &str, shown: &str) -> Result<TokenProof, TokenProblem> {
        let shown = secret(shown).ok_or(TokenProblem::Malformed)?;
        let tag = self.given.get(name).ok_or(TokenProblem::Unknown)?;
        hmac::verify(&comparing(), &hash(&shown), tag.as_ref()).map_err(|_| TokenProblem::Unknown)?;
        Ok(TokenProof { name: name.to_owned(), expires: None })
    }

    fn verify_signed(
        &self,
        (key, name, expires): (&str, &str, &str),
        tag: &str,
        now: u64,
    ) -> Result<TokenProof, TokenProblem> {
        let tag = secret(tag).ok_or(TokenProblem::Malformed)?;
        let number = decimal(key).and_then(|number| u16::try_from(number).ok()).ok_or(TokenProblem::Malformed)?;
        let until = decimal(expires).ok_or(TokenProblem::Malformed)?;
        let (_, key) = self.keys.iter().find(|(other, _)| *other == number).ok_or(TokenProblem::Unknown)?;
        hmac::verify(key, signed(number, name, until).as_bytes(), &tag).map_err(|_| TokenProblem::Unknown)?;
        if until <= now {
            return Err(TokenProblem::Expired);
        }
        Ok(TokenProof { name: name.to_owned(), expires: Some(until) })
    }
}

/// A token that is given out: its text, and its line in the file. `None` where nobody can be called so.
pub fn give(name: &str, secret: &[u8; SECRET]) -> Option<(String, String)> {
    is_name(name).then(|| (format!("s1.{name}.{}", hex(secret)), format!("token {name} {}\n", hex(&hash(secret)))))
}

/// The line of a key in the file.
pub fn key_line(number: u16, key: &[u8; SECRET]) -> String {
    format!("key {number} {}\n", hex(key))
}

/// A token that is signed by the first key of a file and good until then, in seconds since 1970. `None` where there is no
/// key, or nobody can be called so.
pub fn sign(tokens: &Tokens, name: &str, expires: u64) -> Option<String> {
    let (number, key) = tokens.keys.first().filter(|_| is_name(name))?;
    let tag = hmac::sign(key, signed(*number, name, expires).as_bytes());
    Some(format!("t1.{number}.{name}.{expires}.{}", hex(tag.as_ref())))
}

/// What is signed: no two tokens have the same.
fn signed(key: u16, name: &str, expires: u64) -> String {
    format!("{SIGNED}.{key}.{name}.{expires}")
}

/// Whether a token can have this name.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits)
}

fn comparing() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, COMPARING)
}

fn hash(secret: &[u8; SECRET]) -> [u8; SECRET] {
    let mut hash = [0; SECRET];
    hash.copy_from_slice(digest::digest(&digest::SHA256, secret).as_ref());
    hash
}

/// A number as it is written: without a sign or leading zeros.
fn decimal(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// 32 bytes in hexadecimal, in small letters: each token has one text.
fn secret(text: &str) -> Option<[u8; SECRET]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let bytes: Vec<u8> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests;

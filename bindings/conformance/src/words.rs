//! What programs read and answer alike, whichever client they are.
use std::fmt::Display;
use std::time::Duration;

/// What was asked for cannot be.
pub fn wrong(why: impl Display) -> String {
    format!("error kind=invalid : {why}")
}

/// What is answered where no session is.
pub fn nobody() -> String {
    "error kind=closed : there is no session".into()
}

/// That something was sent, under its number.
pub fn sent(number: u64) -> String {
    format!("ok send={number}")
}

/// How long to wait.
///
/// # Errors
/// If the first word is no number.
pub fn milliseconds(words: &[&str]) -> Result<Duration, String> {
    let number = words.first().and_then(|word| word.parse().ok());
    number.map(Duration::from_millis).ok_or_else(|| wrong("no milliseconds"))
}

/// A payload as it is written: hexadecimal, `-` for none, `5a*9` for nine times the same.
///
/// # Errors
/// If it is none.
pub fn payload(written: &str) -> Result<Vec<u8>, String> {
    let byte = |at: &str| u8::from_str_radix(at, 16).map_err(|_| wrong(format!("{at:?} is no byte")));
    if let Some((one, count)) = written.split_once('*') {
        return Ok(vec![byte(one)?; count.parse().map_err(wrong)?]);
    }
    if written == "-" {
        return Ok(Vec::new());
    }
    (0..written.len()).step_by(2).map(|at| byte(written.get(at..at + 2).unwrap_or_default())).collect()
}

/// A payload as it is told: its length and its CRC.
pub fn told_payload(payload: &[u8]) -> String {
    format!("length={} crc={:08x}", payload.len(), crc32fast::hash(payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_read_in_each_form_and_what_is_none_is_named() {
        assert_eq!(payload("00ff"), Ok(vec![0, 255]));
        assert_eq!(payload("5a*3"), Ok(vec![0x5a; 3]));
        assert_eq!(payload("-"), Ok(Vec::new()));
        for (written, what) in [("0", "\"\""), ("xy", "\"xy\""), ("5a*x", "invalid digit"), ("\u{e9}", "is no byte")] {
            let error = payload(written).unwrap_err();
            assert!(error.starts_with("error kind=invalid : ") && error.contains(what), "{error}");
        }
        assert_eq!(milliseconds(&["20"]), Ok(Duration::from_millis(20)));
        assert_eq!(milliseconds(&[]), Err(wrong("no milliseconds")));
    }
}

//! A client of a daemon's Spread listener, told what to do line by line.
#![allow(clippy::disallowed_methods, reason = "a program")]

mod speaker;
mod told;

use consort::Address;
use consort_conformance::words::{milliseconds, nobody, wrong};
use consort_testbed::spread::{JOIN, LEAVE, Rejected, Session};
use speaker::Speaker;
use std::io::{self, BufRead, Write, stdin, stdout};
use std::time::Duration;

/// How long a handshake, or the bytes of one message, may wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(50);

fn main() -> io::Result<()> {
    let mut speaker = None;
    for line in stdin().lock().lines() {
        let reply = answer(&mut speaker, &line?).unwrap_or_else(|error| error);
        writeln!(stdout(), "{reply}")?;
    }
    Ok(())
}

/// Does what a line asks for. Both ways it comes to a line.
fn answer(speaker: &mut Option<Speaker>, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (request, words) = words.split_first().ok_or_else(|| wrong("an empty line"))?;
    match (*request, words) {
        ("has", ["spread"]) => return Ok("ok".into()),
        ("connect", words) => return connect(words).map(|opened| speaker.insert(opened).welcome()),
        ("close", _) => return speaker.take().ok_or_else(nobody)?.close(),
        _ => {}
    }
    let speaker = speaker.as_mut().ok_or_else(nobody)?;
    match *request {
        "join" => speaker.ask(JOIN, words),
        "leave" => speaker.ask(LEAVE, words),
        "send" => speaker.send(words),
        "receive" => speaker.receive(milliseconds(words)?),
        "wait" => speaker.wait(milliseconds(words)?),
        other => Err(wrong(format!("{other:?} is no request of Spread's protocol"))),
    }
}

fn connect(words: &[&str]) -> Result<Speaker, String> {
    let (address, user) = match words {
        [address] => (address, ""),
        [address, option] => {
            let name = option.strip_prefix("name=");
            (address, name.ok_or_else(|| wrong(format!("Spread's protocol has no option {option:?}")))?)
        }
        _ => return Err(wrong("no address, or several options")),
    };
    let opened = match address.parse().map_err(wrong)? {
        Address::Unix(path) => Session::enter(&path, user, PATIENCE),
        Address::Tcp { host, port } => Session::enter_tcp((host, port), user, PATIENCE),
    };
    opened.map(Speaker::new).map_err(|error| unopened(&error))
}

/// Why no session was opened. Codes are those of Spread's library.
fn unopened(error: &io::Error) -> String {
    let code = error.get_ref().and_then(|inner| inner.downcast_ref::<Rejected>());
    let reason = match code.map(|Rejected(code)| *code) {
        None => return format!("error kind=cannot_connect : {error}"),
        Some(-5) => return wrong(error),
        Some(-3) => "too_many_clients",
        Some(-6) => "name_taken",
        Some(-7) => "version",
        Some(_) => "not_allowed",
    };
    format!("error kind=not_welcome reason={reason} : {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a request where no session is.
    fn refused(line: &str) -> String {
        answer(&mut None, line).unwrap_err()
    }

    #[test]
    fn what_spread_does_not_have_is_refused_by_name() {
        assert_eq!(answer(&mut None, "has spread"), Ok("ok".into()));
        assert_eq!(refused("has session"), nobody());
        assert_eq!(refused("close"), nobody());
        for (line, said) in [
            ("", "an empty line"),
            ("connect", "no address"),
            ("connect /nowhere positions", "has no option \"positions\""),
            ("connect nowhere", "`nowhere` is no address"),
        ] {
            let error = refused(line);
            assert!(error.starts_with("error kind=invalid : ") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_codes_of_a_refusal_have_their_reasons() {
        let unopened = |code| unopened(&io::Error::other(Rejected(code)));
        assert!(unopened(-5).starts_with("error kind=invalid : the daemon refused the session (code -5)"));
        assert!(unopened(-6).starts_with("error kind=not_welcome reason=name_taken : "));
        assert!(unopened(-9).starts_with("error kind=not_welcome reason=not_allowed : "));
        assert!(super::unopened(&io::Error::other("away")).starts_with("error kind=cannot_connect : away"));
    }
}

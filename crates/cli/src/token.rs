//! `consort token`: what a client shows that has no certificate.
use crate::args::{Args, duration};
use crate::clock;
use crate::failure::{Failure, Outcome, heard_or_not};
use consort_daemon::tokens;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

/// What `consort token --help` prints.
pub const HELP: &str = "\
Usage: consort token FILE NAME [--for TIME]

Makes a token, by which a client without a certificate proves to be NAME, and
prints it. FILE is what the daemon's settings name; it is written if there is
none. Daemons take up what changed in it at SIGHUP:

  [security]
  tokens = \"/etc/consort/tokens\"

  --for TIME         the token is good for so long: 12h, 30d. It is signed with
                     the file's key, and the file does not grow. Without this
                     the file holds a hash of the token until the line is
                     removed

Give the token to the program NAME alone: whoever has it is NAME. Commands such
as `consort send` show the token in the variable CONSORT_TOKEN.
";

/// No token is good for longer.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

#[derive(Debug, Default)]
struct TokenCommand {
    file: PathBuf,
    name: String,
    good_for: Option<Duration>,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let command = read(words)?;
    let token = match command.good_for {
        Some(time) => tokens::sign(&command.file, &command.name, clock::unix_seconds() + time.as_secs())?,
        None => tokens::give(&command.file, &command.name)?,
    };
    heard_or_not(writeln!(io::stdout(), "{token}"))
}

fn read(words: Vec<OsString>) -> Outcome<TokenCommand> {
    let mut good_for = None;
    let words = Args::each(words, HELP, |option, args| match option {
        "--for" => {
            let text = args.text()?;
            let time = span(&text).filter(|time| (Duration::from_secs(1)..=LONGEST).contains(time));
            good_for = Some(time.ok_or_else(|| args.wrong(&text, "a time from 1s to 3650d, such as 12h or 30d"))?);
            Ok(true)
        }
        _ => Ok(false),
    })?;
    match words.as_slice() {
        [file, name] => {
            let name = name.to_string_lossy().into_owned();
            if !tokens::is_name(&name) {
                let rule = "a token's name has 1 to 40 letters, digits, - and _";
                return Err(Failure::usage(format!("`{name}` is no name for a token: {rule}")));
            }
            Ok(TokenCommand { file: file.into(), name, good_for })
        }
        _ => Err(Failure::usage("name the file and whose token it is: consort token /etc/consort/tokens billing")),
    }
}

fn span(text: &str) -> Option<Duration> {
    match text.strip_suffix('d') {
        Some(days) => days.parse::<u64>().ok()?.checked_mul(86_400).map(Duration::from_secs),
        None => duration(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_name_are_needed_and_times_are_bounded() {
        let read = |line: &str| read(line.split_whitespace().map(OsString::from).collect());
        let problem = |line: &str| read(line).unwrap_err().message;
        let command = read("tokens billing --for 30d").unwrap();
        assert_eq!((command.name.as_str(), command.good_for), ("billing", Some(Duration::from_secs(30 * 86_400))));
        assert_eq!(read("tokens billing").unwrap().good_for, None);
        assert!(problem("tokens").contains("consort token /etc/consort/tokens billing"));
        assert!(problem("tokens a b").contains("name the file"));
        assert!(problem("tokens a/b").contains("`a/b` is no name for a token"));
        for time in ["0s", "4000d", "soon", "99999999999999999999d", "-1d"] {
            assert!(problem(&format!("tokens a --for={time}")).contains("a time from 1s to 3650d"), "{time}");
        }
    }
}

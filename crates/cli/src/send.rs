//! `consort send`: lines become messages.

mod source;
mod watch;

use crate::args::Args;
use crate::clock;
use crate::connect::{self, Wanted};
use crate::failure::{Failure, Outcome, note};
use crate::figures::{bytes, thousands};
use consort::{ConnectOptions, Error, GroupName, Sender, Service};
use serde_json::{Value, json};
use source::LineSource;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;
use watch::SendingProgress;

/// What `consort send --help` prints.
pub const HELP: &str = "\
Usage: consort send [options] [TEXT...]

Multicasts each TEXT, or else each line of a file or of the standard input, to a
group, and waits until all have their place in the order.

  --group G          to whom; may be given several times [lobby]
  --service LEVEL    reliable, fifo, causal, agreed or safe [agreed]
  --from-file FILE   read lines from this file
  --count N          each TEXT so many times; of lines only the first N
  --timeout TIME     give up after so long (such as 10s)
  --unbatched        write every message at once
  --json             print the summary as a JSON object
  --quiet            no summary

  --node ID          talk to this node's daemon [the lowest on this machine]
  --cluster NAME     of this cluster
  --daemon ADDR      talk to the daemon at this socket path or ADDRESS:PORT

Work that takes longer than a second shows on a terminal how far it is.
Exit code 4 says that the daemon went away before it had said that all messages
were ordered, and which ones may or may not have been.
";

#[derive(Debug, Default)]
struct Options {
    wanted: Wanted,
    groups: Vec<GroupName>,
    service: Service,
    file: Option<PathBuf>,
    count: Option<u64>,
    timeout: Option<Duration>,
    unbatched: bool,
    json: bool,
    quiet: bool,
    texts: Vec<Vec<u8>>,
}

/// What was sent, and is ordered.
#[derive(Clone, Copy, Debug)]
struct SendSummary {
    messages: u64,
    bytes: u64,
    /// How long it took, in nanoseconds.
    ns: u64,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let source = LineSource::open(&options)?;
    let mut connecting = ConnectOptions::default();
    connecting.unbatched = options.unbatched;
    let (sender, receiver) = options.wanted.connect(&connecting)?.split();
    let (groups, service) = (options.groups.clone(), options.service);
    // A line that tells how far it is would be written over what somebody types.
    let talks = !options.quiet && !source.is_typed();
    let sending = move |far: &SendingProgress| send_all(sender, source, service, &groups, far);
    let sent = watch::watch(sending, receiver, options.timeout, talks)?;
    if options.json {
        writeln!(io::stdout(), "{}", as_json(sent, &options))?;
    } else if !options.quiet {
        summary(sent, &options.groups);
    }
    Ok(())
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options::default();
    let texts = Args::each(words, HELP, |option, args| options.take(option, args))?;
    options.texts = texts.into_iter().map(OsString::into_vec).collect();
    if options.file.is_some() && !options.texts.is_empty() {
        return Err(Failure::usage("--from-file: there is TEXT to send already; give one or the other"));
    }
    if options.groups.is_empty() {
        options.groups.push(connect::usual_group()?);
    }
    Ok(options)
}

impl Options {
    fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--group" => self.groups.push(connect::group(args)?),
            "--service" => self.service = args.choice(&Service::ALL.map(|service| (service.name(), service)))?,
            "--from-file" => self.file = Some(args.path()?),
            "--count" => self.count = Some(args.number(1..=u64::MAX)?),
            "--timeout" => self.timeout = Some(args.duration()?),
            "--unbatched" => self.unbatched = true,
            "--json" => self.json = true,
            "--quiet" => self.quiet = true,
            _ => return self.wanted.take(option, args),
        }
        Ok(true)
    }
}

/// Sends everything, counting, and waits until it is ordered.
fn send_all(
    mut sender: Sender,
    mut source: LineSource,
    service: Service,
    groups: &[GroupName],
    far: &SendingProgress,
) -> Outcome<SendSummary> {
    let began = clock::now_ns();
    let (mut messages, mut bytes, mut text) = (0, 0, Vec::new());
    while source.next(&mut text)? {
        sender.multicast(service, groups, &text).map_err(|error| not_sent(messages + 1, error))?;
        messages += 1;
        bytes += text.len() as u64;
        far.came(messages, source.share());
        if source.pauses() {
            sender.flush().map_err(watch::ended)?;
        }
    }
    sender.wait_ordered(None).map_err(watch::ended)?;
    Ok(SendSummary { messages, bytes, ns: clock::now_ns() - began })
}

/// A message that cannot be sent stops all that follow, so that what is sent stays a beginning of what was given.
fn not_sent(number: u64, error: Error) -> Failure {
    match error {
        Error::TooLarge { .. } | Error::Targets { .. } => {
            Failure::usage(format!("message {number}: {error}; those before it were sent, those after it were not"))
        }
        other => watch::ended(other),
    }
}

fn as_json(sent: SendSummary, options: &Options) -> Value {
    json!({
        "messages": sent.messages,
        "bytes": sent.bytes,
        "seconds": sent.ns as f64 / 1e9,
        "service": options.service.name(),
        "groups": options.groups.iter().map(GroupName::as_str).collect::<Vec<_>>(),
    })
}

fn summary(sent: SendSummary, groups: &[GroupName]) {
    let names: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
    let seconds = (sent.ns as f64 / 1e9).max(1e-9);
    let plural = if sent.messages == 1 { "message" } else { "messages" };
    note(format!(
        "sent {} {plural} ({}) to {}, all ordered, in {seconds:.2} s ({} messages/s)",
        thousands(sent.messages),
        bytes(sent.bytes),
        names.join(", "),
        thousands((sent.messages as f64 / seconds) as u64)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Outcome<Options> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn texts_and_options_are_told_apart() {
        let options = options("hello --group a world --group b --service safe --count 3").unwrap();
        assert_eq!(options.texts, [b"hello".to_vec(), b"world".to_vec()]);
        assert_eq!((options.groups.len(), options.service, options.count), (2, Service::Safe, Some(3)));
        assert_eq!(self::options("x").unwrap().groups[0].as_str(), "lobby");
        assert!(self::options("x --from-file y").unwrap_err().message.starts_with("--from-file: there is TEXT"));
    }

    #[test]
    fn more_than_can_be_counted_is_refused() {
        let problem =
            |line: &str| LineSource::open(&options(line).unwrap()).err().map(|failure| (failure.code, failure.message));
        let (code, message) = problem("a b --count 18446744073709551615").unwrap();
        assert_eq!((code, message.starts_with("--count: ")), (crate::failure::Code::Usage, true), "{message}");
        assert_eq!(problem("a --count 18446744073709551615"), None);
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}

//! `consort send`: lines become messages.
use crate::args::Args;
use crate::clock;
use crate::connect::{self, Wanted};
use crate::failure::{Code, Failure, Outcome, Trying, note};
use crate::lab::figures::{bytes, thousands};
use consort::{ConnectOptions, Error, Event, GroupName, Receiver, Sender, Service};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

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
  --quiet            no summary

  --node ID          talk to this node's daemon [the lowest on this machine]
  --cluster NAME     of this cluster
  --daemon ADDR      talk to the daemon at this socket path or ADDRESS:PORT

Exit code 4 says that the daemon went away before it had said that all messages
were ordered, and which ones may or may not have been.
";

/// How long nothing may be ordered before the user is told what is waited for.
const PATIENCE: u64 = 1_000_000_000;
/// How often is looked whether all is done, and whether time is up.
const STEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Options {
    wanted: Wanted,
    groups: Vec<GroupName>,
    service: Service,
    file: Option<PathBuf>,
    count: Option<u64>,
    timeout: Option<Duration>,
    unbatched: bool,
    quiet: bool,
    texts: Vec<Vec<u8>>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    messages: u64,
    bytes: u64,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let source = Source::open(&options)?;
    let client =
        options.wanted.connect(&ConnectOptions { unbatched: options.unbatched, ..ConnectOptions::default() })?;
    let began = clock::now_ns();
    let (sender, receiver) = client.split();
    let (tell, told) = mpsc::channel();
    let (groups, service) = (options.groups.clone(), options.service);
    // A thread of its own, because reading lines may block for ever and the daemon's end must be told at once.
    std::thread::spawn(move || {
        // Nobody waits for the outcome any more if the daemon has ended.
        let _ = tell.send(send_all(sender, source, service, &groups));
    });
    let sent = watch(receiver, &told, options.timeout.map(|timeout| began + timeout.as_nanos() as u64))?;
    if !options.quiet {
        summary(sent, &options.groups, clock::now_ns() - began);
    }
    Ok(())
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut args = Args::new(words, HELP);
    let mut options = Options {
        wanted: Wanted::default(),
        groups: Vec::new(),
        service: Service::Agreed,
        file: None,
        count: None,
        timeout: None,
        unbatched: false,
        quiet: false,
        texts: Vec::new(),
    };
    while let Some(option) = args.next()? {
        options.take(&option, &mut args)?;
    }
    options.texts = args.words.drain(..).map(OsString::into_vec).collect();
    if options.file.is_some() && !options.texts.is_empty() {
        return Err(Failure::usage("--from-file: there is TEXT to send already; give one or the other"));
    }
    if options.groups.is_empty() {
        options.groups.push(connect::usual_group()?);
    }
    Ok(options)
}

impl Options {
    fn take(&mut self, option: &str, args: &mut Args) -> Outcome {
        match option {
            "--group" => self.groups.push(connect::group(args)?),
            "--service" => self.service = args.choice(&Service::ALL.map(|service| (service.name(), service)))?,
            "--from-file" => self.file = Some(args.path()?),
            "--count" => self.count = Some(args.number(1..=u64::MAX)?),
            "--timeout" => self.timeout = Some(args.duration()?),
            "--unbatched" => self.unbatched = true,
            "--quiet" => self.quiet = true,
            option if self.wanted.take(option, args)? => {}
            _ => return Err(args.unknown()),
        }
        Ok(())
    }
}

/// Where messages come from.
enum Source {
    Texts { texts: Vec<Vec<u8>>, times: u64 },
    Lines { name: String, lines: BufReader<Box<dyn Read + Send>>, most: u64 },
}

impl Source {
    fn open(options: &Options) -> Outcome<Self> {
        if !options.texts.is_empty() {
            return Ok(Self::Texts { texts: options.texts.clone(), times: options.count.unwrap_or(1) });
        }
        let (name, input): (_, Box<dyn Read + Send>) = match &options.file {
            Some(file) => {
                let opened = File::open(file)
                    .map_err(|error| Failure::usage(format!("--from-file: cannot read {}: {error}", file.display())))?;
                (file.display().to_string(), Box::new(opened))
            }
            None => {
                if io::stdin().is_terminal() {
                    note("each line you type is sent; Ctrl-D ends");
                }
                ("the standard input".into(), Box::new(io::stdin()))
            }
        };
        Ok(Self::Lines {
            name,
            lines: BufReader::with_capacity(1 << 16, input),
            most: options.count.unwrap_or(u64::MAX),
        })
    }
}

/// Sends everything; returns when all is written.
fn send_all(mut sender: Sender, source: Source, service: Service, groups: &[GroupName]) -> Outcome<(Sender, Sent)> {
    let mut sent = Sent::default();
    match source {
        Source::Texts { texts, times } => {
            for text in texts.iter().flat_map(|text| std::iter::repeat_n(text, times as usize)) {
                send(&mut sender, service, groups, text, &mut sent)?;
            }
        }
        Source::Lines { name, mut lines, most } => {
            let mut line = Vec::new();
            while sent.messages < most && read_line(&mut lines, &mut line).trying(|| format!("cannot read {name}"))? {
                send(&mut sender, service, groups, &line, &mut sent)?;
                if lines.buffer().is_empty() {
                    sender.flush().map_err(ended)?;
                }
            }
        }
    }
    sender.flush().map_err(ended)?;
    Ok((sender, sent))
}

/// Reads a line without its end; false when there is none.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = lines.read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(read > 0)
}

fn send(sender: &mut Sender, service: Service, groups: &[GroupName], text: &[u8], sent: &mut Sent) -> Outcome {
    let number = sent.messages + 1;
    sender.multicast(service, groups, text).map_err(|error| match error {
        Error::TooLarge { .. } | Error::Targets { .. } => {
            Failure::usage(format!("message {number}: {error}; the {} before it were sent", sent.messages))
        }
        other => ended(other),
    })?;
    sent.messages += 1;
    sent.bytes += text.len() as u64;
    Ok(())
}

/// Hears what the daemon says until all is ordered.
fn watch(
    mut receiver: Receiver,
    told: &mpsc::Receiver<Outcome<(Sender, Sent)>>,
    deadline: Option<u64>,
) -> Outcome<Sent> {
    let mut done: Option<(Sender, Sent)> = None;
    let mut quiet = Quiet::new();
    loop {
        match receiver.receive(STEP).map_err(ended)? {
            Some(Event::Refused { send, refusal }) => {
                return Err(Failure::new(format!("message {send} was refused: {refusal}")));
            }
            Some(_) => continue,
            None => {}
        }
        if done.is_none() {
            done = sent_by_now(told)?;
        }
        let progress = receiver.progress();
        if let Some((sender, sent)) = done.take_if(|(sender, _)| progress.ordered >= sender.sent()) {
            drop(sender);
            return Ok(sent);
        }
        quiet.note(progress.accepted, progress.ordered);
        if deadline.is_some_and(|deadline| clock::now_ns() > deadline) {
            return Err(out_of_time(progress.ordered, progress.accepted));
        }
    }
}

fn sent_by_now(told: &mpsc::Receiver<Outcome<(Sender, Sent)>>) -> Outcome<Option<(Sender, Sent)>> {
    match told.try_recv() {
        Ok(outcome) => outcome.map(Some),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => Err(Failure::new("the sending thread ended unexpectedly")),
    }
}

/// Tells once when nothing is ordered for long although something waits.
struct Quiet {
    ordered: u64,
    since: u64,
    told: bool,
}

impl Quiet {
    fn new() -> Self {
        Self { ordered: 0, since: clock::now_ns(), told: false }
    }

    fn note(&mut self, accepted: u64, ordered: u64) {
        if ordered != self.ordered || accepted == ordered {
            (self.ordered, self.since) = (ordered, clock::now_ns());
        } else if !self.told && clock::now_ns() > self.since + PATIENCE {
            self.told = true;
            let under_way = thousands(accepted - ordered);
            note(format!(
                "{under_way} messages are under way, but none was ordered for a while; are all nodes running? \
                 `consort status` tells"
            ));
        }
    }
}

fn out_of_time(ordered: u64, accepted: u64) -> Failure {
    Failure::new(format!(
        "the time ran out: {} messages are ordered, {} more are under way and will be ordered if the daemon lives",
        thousands(ordered),
        thousands(accepted.saturating_sub(ordered))
    ))
    .with(Code::Timeout)
}

/// The session is over: says which messages may or may not have been ordered.
fn ended(error: Error) -> Failure {
    let Some(unknown) = error.unknown_fate().cloned() else { return Failure::new(error.to_string()) };
    let why = match &error {
        Error::ConnectionLost { why, .. } => format!("the connection to the daemon was lost ({why})"),
        Error::Disconnected { farewell, .. } => format!("the daemon ended the session: {farewell}"),
        other => other.to_string(),
    };
    let fate = match unknown.end.saturating_sub(unknown.start) {
        0 => "every message that was sent is ordered, later ones were not sent".into(),
        1 => format!("message {} may or may not have been ordered, later ones were not sent", unknown.start),
        _ => format!(
            "messages {} to {} may or may not have been ordered; those before are, later ones were not sent",
            unknown.start,
            unknown.end - 1
        ),
    };
    Failure::new(format!("{why}; {fate}")).with(Code::UnknownFate)
}

fn summary(sent: Sent, groups: &[GroupName], ns: u64) {
    let names: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
    let seconds = (ns as f64 / 1e9).max(1e-9);
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
    fn lines_are_read_without_their_ends_and_keep_all_other_bytes() {
        let mut input = io::Cursor::new(b"one\r\n\n\xff\nlast");
        let mut lines = Vec::new();
        let mut line = Vec::new();
        while read_line(&mut input, &mut line).unwrap() {
            lines.push(line.clone());
        }
        assert_eq!(lines, [&b"one\r"[..], b"", b"\xff", b"last"]);
    }

    #[test]
    fn an_ended_session_says_what_is_unknown() {
        let lost = |unknown_fate| ended(Error::ConnectionLost { why: "closed".into(), unknown_fate });
        assert_eq!(lost(4..9).code, Code::UnknownFate);
        assert!(lost(4..9).message.contains("messages 4 to 8 may or may not have been ordered"));
        assert!(lost(4..5).message.contains("message 4 may or may not have been ordered"));
        assert!(lost(4..4).message.contains("every message that was sent is ordered"));
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        for option in crate::args::options_of(HELP) {
            if let Err(failure) = options(&format!("{option} 1")) {
                assert!(!failure.message.contains("no such option"), "{option}: {}", failure.message);
            }
        }
    }
}

//! `consort receive`: what a group is told, in the one order.

mod escape;
mod print;
mod reading;

use crate::args::Args;
use crate::clock;
use crate::connect::{self, Wanted};
use crate::failure::{Code, Failure, Outcome, Trying};
use crate::progress::Progress;
use consort::{Client, ConnectOptions, Error, Event, GroupName, ReadingStatus, Undo};
use print::{Printer, Style};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// What `consort receive --help` prints.
pub const HELP: &str = "\
Usage: consort receive [options]

Joins a group and prints each message on a line of its own, in the one order
that all receivers see. Who is in the group goes to the standard error.

  --group G        which group; may be given several times [lobby]
  --count N        end after so many messages
  --until TEXT     end after a message that is exactly TEXT
  --timeout TIME   give up after so long (such as 10s), with exit code 5
  --from WHERE     read instead of joining: print what the groups were sent from
                   this position on, and then what comes; start or 0 is the
                   oldest message there is (with `protocol = \"paxos\"`)
  --checkpoint FILE  read, and keep in this file how far; if it exists, go on
                   there instead of where --from says. After a crash the last
                   messages may come again
  --holder NAME    declare that file, so that the daemons retain what is not in
                   it yet (with `protocol = \"paxos\"`), also while nobody reads:
                   a program, or program/copy. `consort withdraw NAME` ends it.
                   In the end it waits for 5 s at most until the order has it;
                   exit code 5 says that it has not
  --positions      print before each message its position and its sender
  --optimistic     print each message as soon as its place is likely (`offer 3:
                   text`), and later whether it holds: `confirm 3`, or `revoke
                   3`, and then it is offered again where it stands. Only
                   confirmed messages count
  --undo WHAT      which offers may be revoked: any, or only the latest that is
                   open, as programs need it that undo step by step [any]
  --views          tell of changes among the daemons, too
  --json           print every event as a JSON object on a line
  --quiet          do not print the messages
  --raw            print control characters of messages as they are, also on a
                   terminal; without it a terminal shows them as \\n or \\x1b
  --digest         at the end print the SHA-256 of what was received (each
                   message and a line feed, as printed without --json) and
                   the count

  --node ID        talk to this node's daemon [the lowest on this machine]
  --cluster NAME   of this cluster
  --daemon ADDR    talk to the daemon at this socket path or ADDRESS:PORT
";

#[derive(Debug, Default)]
struct Options {
    wanted: Wanted,
    groups: Vec<GroupName>,
    count: Option<u64>,
    until: Option<Vec<u8>>,
    timeout: Option<Duration>,
    reading: reading::ReadingOptions,
    positions: bool,
    optimistic: bool,
    undo: Option<Undo>,
    views: bool,
    json: bool,
    quiet: bool,
    raw: bool,
    digest: bool,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let deadline = options.timeout.map(|timeout| clock::now_ns() + timeout.as_nanos() as u64);
    let mut connecting = ConnectOptions::default();
    connecting.wants_views = options.views;
    connecting.optimistic = options.optimistic.then(|| options.undo.unwrap_or_default());
    connecting.wants_positions = options.positions || options.json;
    let mut client = options.wanted.connect(&connecting)?;
    if options.reading.reads() {
        options.reading.begin(&mut client, &options.groups)?;
    } else {
        options.groups.iter().try_for_each(|group| client.join(group).map(drop)).map_err(ended)?;
    }
    let mut printer = Printer::new(options.style(), options.digest, options.until.clone(), options.raw);
    let mut keeper = options.reading.keeper();
    let outcome = receive(&mut client, &options, deadline, &mut printer, &mut keeper);
    // What was received is told even where it is less than was wanted.
    printer.finish()?;
    let kept = keeper.finish(&mut client);
    outcome.and(kept)
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options::default();
    Args::only_options(words, HELP, |option, args| options.take(option, args))?;
    if options.undo.is_some() && !options.optimistic {
        return Err(Failure::usage("--undo: only offers are undone; add --optimistic"));
    }
    if options.optimistic && (options.reading.reads() || options.positions) {
        return Err(Failure::usage(
            "--optimistic: what is offered has no position yet; leave it out, or --from, --checkpoint and --positions",
        ));
    }
    options.reading.check()?;
    if options.groups.is_empty() {
        options.groups.push(connect::usual_group()?);
    }
    Ok(options)
}

impl Options {
    fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--group" => self.groups.push(connect::group(args)?),
            "--count" => self.count = Some(args.number(1..=u64::MAX)?),
            "--until" => self.until = Some(args.raw()?.into_vec()),
            "--timeout" => self.timeout = Some(args.duration()?),
            "--optimistic" => self.optimistic = true,
            "--undo" => self.undo = Some(args.choice(&[("any", Undo::Any), ("latest", Undo::Latest)])?),
            "--views" => self.views = true,
            "--json" => self.json = true,
            "--quiet" => self.quiet = true,
            "--raw" => self.raw = true,
            "--digest" => self.digest = true,
            "--positions" => self.positions = true,
            _ => return Ok(self.wanted.take(option, args)? || self.reading.take(option, args)?),
        }
        Ok(true)
    }

    const fn style(&self) -> Style {
        match (self.quiet, self.json, self.positions) {
            (true, true, _) => Style::QuietJson,
            (true, false, _) => Style::Quiet,
            (false, true, _) => Style::Json,
            (false, false, true) => Style::Placed,
            (false, false, false) => Style::Plain,
        }
    }
}

fn receive(
    client: &mut Client,
    options: &Options,
    deadline: Option<u64>,
    printer: &mut Printer,
    keeper: &mut reading::Keeper,
) -> Outcome {
    // Where messages are printed to the terminal they show by themselves how far it is.
    let mut progress = Progress::new(options.count.is_some() && (options.quiet || !io::stdout().is_terminal()));
    loop {
        progress.show(printer.count, options.count.map(|all| printer.count as f64 / all as f64));
        let left = left(deadline, printer.count)?;
        let event = match client.receive(Duration::ZERO).map_err(ended)? {
            Some(event) => Some(event),
            None => {
                // Nothing more is there for now: show what came, then wait.
                printer.flush()?;
                keeper.keep(client)?;
                client.receive(left).map_err(ended)?
            }
        };
        let Some(event) = event else { continue };
        if let Event::Refused { refusal, .. } = &event {
            return Err(Failure::new(format!("cannot join: {refusal}")));
        }
        keeper.look(&event)?;
        if let Event::Reading(ReadingStatus::Ended(end)) = &event {
            return Err(Failure::new(format!("cannot read: {end}")));
        }
        if !matches!(event, Event::Message(_) | Event::Read(_)) {
            progress.clear();
        }
        printer.print(&event)?;
        if keeper.is_due() {
            printer.flush()?;
            keeper.keep(client)?;
        }
        if printer.has_ended || options.count == Some(printer.count) {
            return Ok(());
        }
    }
}

/// How long may still be waited; `None` for ever.
fn left(deadline: Option<u64>, count: u64) -> Outcome<Option<Duration>> {
    let Some(deadline) = deadline else { return Ok(None) };
    match deadline.checked_sub(clock::now_ns()).filter(|left| *left > 0) {
        Some(left) => Ok(Some(Duration::from_nanos(left))),
        None => Err(Failure::new(format!("the time ran out after {count} messages")).with(Code::Timeout)),
    }
}

fn ended(error: Error) -> Failure {
    let code = if error.unknown_fate().is_some() { Code::NoDaemon } else { Code::Failed };
    let why = match &error {
        Error::ConnectionLost { why, .. } => format!("the connection to the daemon was lost ({why})"),
        Error::Disconnected { farewell, .. } => format!("the daemon ended the session: {farewell}"),
        other => other.to_string(),
    };
    Failure::new(why).with(code)
}

/// Writing what was received failed.
fn written<T>(result: std::io::Result<T>) -> Outcome<T> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(error.into()),
        other => other.trying(|| "cannot write what was received".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Outcome<Options> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_are_read() {
        let options = options("--group a --count 3 --until end --timeout 2s --json --digest").unwrap();
        assert_eq!((options.groups.len(), options.count, options.until.as_deref()), (1, Some(3), Some(&b"end"[..])));
        assert!(options.json && options.digest && !options.quiet);
        let offers = self::options("--optimistic --undo latest").unwrap();
        assert_eq!((offers.optimistic, offers.undo), (true, Some(Undo::Latest)));
        for (line, wrong) in [
            ("--from x", "--from: `x` does not fit; give start, or a position such as 1234"),
            ("--from -1", "--from: `-1` does not fit; give start, or a position such as 1234"),
            (
                "--from 0 --optimistic",
                "--optimistic: what is offered has no position yet; leave it out, or --from, --checkpoint and --positions",
            ),
            ("--undo any", "--undo: only offers are undone; add --optimistic"),
            ("--optimistic --undo first", "--undo: `first` does not fit; give any or latest"),
        ] {
            assert_eq!(self::options(line).unwrap_err().message, wrong);
        }
        assert!(self::options("--count 0").unwrap_err().message.starts_with("--count: `0` does not fit"));
    }

    #[test]
    fn the_time_runs_out_though_messages_keep_coming() {
        let state = tempfile::tempdir().unwrap();
        let cluster = format!("receive-{}", std::process::id());
        let node = consort::embedded::Builder::on_this_machine(cluster, 1).state_dir(state.path()).start().unwrap();
        let mut client = node.connect(&ConnectOptions::default()).unwrap();
        let lobby = connect::usual_group().unwrap();
        client.join(&lobby).unwrap();
        for _ in 0..5 {
            client.multicast(consort::Service::Agreed, std::slice::from_ref(&lobby), b"x").unwrap();
        }
        client.wait_ordered(Duration::from_secs(60)).unwrap();
        let (mut printer, mut keeper) = (Printer::new(Style::Quiet, false, None, false), reading::Keeper::default());
        let now = Some(clock::now_ns());
        let ended = receive(&mut client, &options("").unwrap(), now, &mut printer, &mut keeper).unwrap_err();
        assert_eq!((ended.code, printer.count), (Code::Timeout, 0), "five wait, and there is no time for any");
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}

//! `consort key`: the next key of a cluster, made and taken up.
use crate::args::Args;
use crate::clock;
use crate::connect::Wanted;
use crate::failure::{Code, Failure, Outcome, heard_or_not};
use consort::{Client, ConnectOptions, Event, RotationRefusal, RotationRefusalCause};
use consort_daemon::security;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

/// What `consort key --help` prints.
pub const HELP: &str = "\
Usage: consort key next FILE
       consort key rotate [options]

Changes the cluster's key while messages flow; none is lost.

  1. consort key next /etc/consort/key    on one node: adds the next key to it
  2. copy the file to every other node, and send each daemon SIGHUP
  3. consort key rotate                   on one node
  4. after a minute: remove the old key's line on every node, and send SIGHUP

`rotate` asks a daemon of this machine. All daemons of the view take up the next
key at one place of the order, or none: one that lacks it is named. Nodes that
are away take it up when they come back, if their file has it. The daemon's own
user and root may ask, at its Unix socket.

  --timeout TIME   give up after so long, with exit code 5 [10s]

  --node ID        talk to this node's daemon [the lowest on this machine]
  --cluster NAME   of this cluster
  --daemon ADDR    talk to the daemon at this socket path
";

/// How soon it is asked again while a view changes.
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug)]
enum KeyCommand {
    Next(PathBuf),
    Rotate(Wanted, Duration),
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let mut out = io::stdout();
    match read(words)? {
        KeyCommand::Next(path) => {
            let epoch = security::add_next(&path)?;
            let name = path.display();
            heard_or_not(writeln!(
                out,
                "added the key of epoch {epoch} to {name}; copy the file to all nodes, send their daemons SIGHUP, then \
                 `consort key rotate`"
            ))
        }
        KeyCommand::Rotate(wanted, timeout) => {
            let mut client = wanted.connect(&ConnectOptions::default())?;
            let epoch = rotate(&mut client, clock::now_ns() + timeout.as_nanos() as u64)?;
            heard_or_not(writeln!(out, "all daemons of the view seal with the key of epoch {epoch} now"))
        }
    }
}

/// Asks until the key is adopted, or something else is in the way than a view that changes.
fn rotate(client: &mut Client, deadline: u64) -> Outcome<u16> {
    let mut proposed = 0;
    loop {
        client.rotate_key().map_err(|error| Failure::new(error.to_string()))?;
        let (epoch, refused) = wait_for_answer(client, deadline)?;
        let Some(RotationRefusal { cause, text }) = refused else { return Ok(epoch) };
        // What was proposed may be adopted after the view has changed.
        if cause == RotationRefusalCause::NothingNewer && (1..=epoch).contains(&proposed) {
            return Ok(epoch);
        }
        proposed = proposed.max(epoch);
        let passes = matches!(cause, RotationRefusalCause::ViewChanged | RotationRefusalCause::Busy);
        if !passes || clock::now_ns() + AGAIN.as_nanos() as u64 > deadline {
            let what = if epoch > 0 { format!("the key of epoch {epoch} is not adopted: ") } else { String::new() };
            return Err(Failure::new(format!("{what}{text}")));
        }
        std::thread::sleep(AGAIN);
    }
}

fn wait_for_answer(client: &mut Client, deadline: u64) -> Outcome<(u16, Option<RotationRefusal>)> {
    loop {
        let left = Duration::from_nanos(deadline.saturating_sub(clock::now_ns()));
        match client.receive(left).map_err(|error| Failure::new(error.to_string()))? {
            Some(Event::Rotated(status)) => return Ok((status.epoch, status.refused)),
            Some(_) => {}
            None => {
                let text = "not all members have answered in time; the key may be adopted later, or not: `consort status` \
                            tells";
                return Err(Failure::new(text).with(Code::Timeout));
            }
        }
    }
}

fn read(words: Vec<OsString>) -> Outcome<KeyCommand> {
    let (mut wanted, mut timeout, mut options) = (Wanted::default(), Duration::from_secs(10), false);
    let words = Args::each(words, HELP, |option, args| match option {
        "--timeout" => {
            (timeout, options) = (args.duration()?, true);
            Ok(true)
        }
        _ => {
            let taken = wanted.take(option, args)?;
            options |= taken;
            Ok(taken)
        }
    })?;
    let usage = "say what: consort key next /etc/consort/key, or consort key rotate";
    match words.as_slice() {
        [next, path] if next == "next" && !options => Ok(KeyCommand::Next(path.into())),
        [next, ..] if next == "next" => Err(Failure::usage("name one file: consort key next /etc/consort/key")),
        [rotate] if rotate == "rotate" => Ok(KeyCommand::Rotate(wanted, timeout)),
        _ => Err(Failure::usage(usage)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_what_and_which_file() {
        let read = |line: &str| read(line.split_whitespace().map(OsString::from).collect());
        let problem = |line: &str| read(line).unwrap_err().message;
        assert!(matches!(read("next /etc/key").unwrap(), KeyCommand::Next(path) if path.as_os_str() == "/etc/key"));
        assert!(matches!(read("rotate --timeout 3s").unwrap(), KeyCommand::Rotate(_, time) if time.as_secs() == 3));
        for line in ["", "rotate now", "turn"] {
            assert!(problem(line).contains("consort key rotate"), "{line}");
        }
        for line in ["next", "next one two", "next one --node 2"] {
            assert!(problem(line).contains("consort key next /etc/consort/key"), "{line}");
        }
    }
}

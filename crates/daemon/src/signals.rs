//! The signals of a process that serves, for daemons and for servers of a store.
//!
//! A signal that was ignored when the process started stays ignored, for example SIGHUP below `nohup`, or SIGINT where a
//! shell started it in the background.
use crate::clock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;

/// Within these nanoseconds after the first one, signals that end a process count as one, because a terminal and a
/// supervisor may both send theirs.
const SAME: u64 = 1_000_000_000;

/// Signals that were caught. They wait until they are looked at.
#[derive(Debug)]
pub struct Caught(Signals);

/// Catches these signals from now on. Those that were ignored stay ignored.
///
/// # Errors
/// Those of installing a handler.
pub(crate) fn catch(signals: &[i32]) -> io::Result<Caught> {
    let ignored = ignored();
    let (left, caught): (Vec<i32>, Vec<i32>) = signals.iter().partition(|signal| is_in(ignored, **signal));
    for signal in left {
        tracing::info!("{} was ignored when this process started, so it stays ignored", name(signal));
    }
    Signals::new(caught).map(Caught)
}

impl Caught {
    /// Calls `then` for each of them, in a thread with this name.
    ///
    /// # Errors
    /// Those of beginning a thread.
    pub(crate) fn each(self, thread: &str, mut then: impl FnMut() + Send + 'static) -> io::Result<()> {
        let Self(mut signals) = self;
        thread::Builder::new().name(thread.to_owned()).spawn(move || signals.forever().for_each(|_| then()))?;
        Ok(())
    }
}

/// Calls `stop` when the process is to end, and once more for each signal that comes a second later or more: then it is to
/// end at once.
///
/// # Errors
/// Those of installing a handler, and of beginning a thread.
pub fn on_stop(mut stop: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut first = None;
    catch(&[SIGTERM, SIGINT])?.each("stop", move || {
        let now = clock::now_ns();
        let since = now - *first.get_or_insert(now);
        if since == 0 || since >= SAME {
            stop();
        }
    })
}

/// Catches SIGHUP from now on: it does not end the process any more.
///
/// # Errors
/// Those of installing a handler.
pub fn catch_hangups() -> io::Result<Caught> {
    catch(&[SIGHUP])
}

/// Has each SIGHUP leave `why` in the log, and nothing else: for a process that has no file to read again.
///
/// # Errors
/// Those of installing a handler, and of beginning a thread.
pub fn ignore_hangups(why: &'static str) -> io::Result<()> {
    catch_hangups()?.each("hangup", move || tracing::warn!("SIGHUP is ignored: {why}"))
}

/// The signals that this process ignores, a bit for each from the lowest on; none if the system does not say.
fn ignored() -> u64 {
    std::fs::read_to_string("/proc/self/status").ok().and_then(|status| read(&status)).unwrap_or(0)
}

fn read(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn is_in(ignored: u64, signal: i32) -> bool {
    (1..=64).contains(&signal) && ignored >> (signal - 1) & 1 == 1
}

const fn name(signal: i32) -> &'static str {
    match signal {
        SIGTERM => "SIGTERM",
        SIGINT => "SIGINT",
        SIGHUP => "SIGHUP",
        SIGUSR1 => "SIGUSR1",
        _ => "a signal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status_of_the_process() {
        let status = "Name:\tconsort\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001003\nSigCgt:\t0\n";
        let ignored = read(status).unwrap();
        let found = |signal| is_in(ignored, signal);
        assert_eq!([SIGHUP, SIGINT, SIGTERM, SIGUSR1].map(found), [true, true, false, false]);
        assert_eq!((read("Name:\tx\n"), read("SigIgn:\tx\n")), (None, None));
        assert!(!is_in(u64::MAX, 0) && !is_in(u64::MAX, 65));
    }
}

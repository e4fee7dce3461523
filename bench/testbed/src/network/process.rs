//! A process that network started at a node, and never leaves behind.
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Network;
use super::namespace::{NetworkError, failed};

/// A running process. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// A process that ended badly, or not at all.
#[derive(Debug, thiserror::Error)]
#[error("{name} {how}; it said last:\n{last}")]
pub struct Failed {
    name: String,
    how: String,
    last: String,
}

impl Process {
    /// Starts a process at a node. What it says on its standard error goes to `name.log` in this directory. Its standard
    /// input and output are the command's own affair.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        network: &Network,
        node: usize,
        name: &str,
        directory: &Path,
        command: &mut Command,
    ) -> Result<Self, NetworkError> {
        let log = directory.join(format!("{name}.log"));
        let errors = File::create(&log).map_err(failed(format!("write {}", log.display())))?;
        // In a group of its own it does not get the terminal's Ctrl-C: this process decides when it ends.
        let child = network.spawn(node, command.stderr(Stdio::from(errors)).process_group(0))?;
        Ok(Self { name: name.into(), child, log })
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True once it has ended well.
    ///
    /// # Errors
    /// [`Failed`] if it has ended badly.
    pub fn has_succeeded(&mut self) -> Result<bool, Failed> {
        match self.child.try_wait() {
            Ok(None) => Ok(false),
            Ok(Some(status)) if status.success() => Ok(true),
            ended => Err(self.failed(how_it_ended(ended))),
        }
    }

    /// Sees that it still runs.
    ///
    /// # Errors
    /// [`Failed`] if it has ended, however well.
    pub fn runs(&mut self) -> Result<(), Failed> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(self.failed(how_it_ended(ended))),
        }
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// [`Failed`] if the system cannot say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failed> {
        self.child.try_wait().map_err(|error| self.failed(format!("cannot be waited for: {error}")))
    }

    /// Sends it a signal. One that has ended by itself in this very moment does not get it.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Whether it has said this on its standard error.
    pub fn has_said(&self, words: &str) -> bool {
        std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains(words))
    }

    /// Asks it to end (SIGTERM) and sees that it does so, and well, within `patience`.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn end(mut self, patience: Duration) -> Result<(), Failed> {
        self.runs()?;
        self.signal(Signal::TERM);
        let deadline = Instant::now() + patience;
        while !self.has_succeeded()? {
            if Instant::now() > deadline {
                return Err(self.failed(format!("does not end within {patience:?} of SIGTERM")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The failure to report of this process.
    pub fn failed(&self, how: String) -> Failed {
        Failed { name: self.name.clone(), how, last: last_words(&self.log) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn how_it_ended(ended: io::Result<Option<ExitStatus>>) -> String {
    match ended {
        Ok(Some(status)) => format!("ended with {status}"),
        Ok(None) => "runs".into(),
        Err(error) => format!("cannot be waited for: {error}"),
    }
}

/// The last lines of a log, indented.
fn last_words(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let mut last: Vec<_> = log.lines().rev().take(8).map(|line| format!("    {line}")).collect();
    last.reverse();
    if last.is_empty() { "    (nothing)".into() } else { last.join("\n") }
}

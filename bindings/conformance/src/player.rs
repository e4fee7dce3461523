//! A client that is tried: a process that is told what to do, line by line.
use crate::reply::{Reply, shortened};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// No answer takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an event is waited for, in milliseconds.
const LONG: u32 = 30_000;

/// How a client's program is started: its file and its arguments.
#[derive(Clone, Debug)]
pub struct Program(pub Vec<String>);

/// A running client program. It is gone with its handle.
#[derive(Debug)]
pub struct Player {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    /// Starts it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start(&self) -> Result<Player, String> {
        let (file, words) = self.0.split_first().ok_or("no program was given")?;
        let mut command = Command::new(file);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start {file}: {error}"))?;
        let (input, out) = (child.stdin.take(), child.stdout.take());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in out.into_iter().flat_map(|out| BufReader::new(out).lines().map_while(Result::ok)) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Player { child, input, lines })
    }
}

impl Player {
    /// Tells it something and waits for its answer.
    ///
    /// # Errors
    /// If it ends or says nothing.
    pub fn ask(&mut self, request: &str) -> Result<Reply, String> {
        let input = self.input.as_mut().ok_or("the program's input is closed")?;
        let told = writeln!(input, "{request}").and_then(|()| input.flush());
        told.map_err(|error| format!("the program takes nothing more: {error}; it was told `{}`", shortened(request)))?;
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(Reply::new(line)),
            Err(RecvTimeoutError::Timeout) => Err(format!("no answer to `{}` in {PATIENCE:?}", shortened(request))),
            Err(RecvTimeoutError::Disconnected) => Err(format!("the program ended at `{}`", shortened(request))),
        }
    }

    /// Tells it something that must be answered so.
    ///
    /// # Errors
    /// If it is answered otherwise.
    pub fn expect(&mut self, request: &str, expected: &str) -> Result<Reply, String> {
        let reply = self.ask(request)?;
        reply.is(expected).map_err(|error| format!("to `{}`: {error}", shortened(request)))?;
        Ok(reply)
    }

    /// Tells it something that must fail for this cause, with words about it.
    ///
    /// # Errors
    /// If it succeeds, fails otherwise, or says nothing of why.
    pub fn refuse(&mut self, request: &str, kind: &str) -> Result<Reply, String> {
        let reply = self.expect(request, &format!("error kind={kind}"))?;
        if reply.text().is_empty() { Err(format!("`{}` says nothing for people", reply.line())) } else { Ok(reply) }
    }

    /// The next event, which must be this one.
    ///
    /// # Errors
    /// If another one comes, or none.
    pub fn receive(&mut self, expected: &str) -> Result<Reply, String> {
        self.expect(&format!("receive {LONG}"), expected)
    }

    /// Nothing comes for a while.
    ///
    /// # Errors
    /// If something does.
    pub fn hear_nothing(&mut self) -> Result<(), String> {
        self.expect("receive 100", "none").map(drop)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        drop(self.input.take());
        // A program that waits for nothing ends by itself; one that hangs is ended.
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Processes that a command starts, talks to by lines, and never leaves behind.
//!
//! Each ends when its standard input closes, so it ends even if this process is killed; each is killed when its handle
//! is dropped, so it ends on an error, a panic and Ctrl-C as well.
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_daemon::{clock, runtime_dir};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The file of this program.
pub fn this_program() -> Outcome<PathBuf> {
    std::env::current_exe().trying(|| "cannot find this program's own file".into())
}

/// The program `consort`: this one, or the one beside it, or the one in PATH.
pub fn daemon_program() -> Outcome<PathBuf> {
    installed(DAEMON)?.ok_or_else(|| {
        let remedy = "cargo install --locked --path crates/cli";
        Failure::new(format!("no program `{DAEMON}` beside this one or in PATH; install it: {remedy}"))
    })
}

/// Where a program of this project is: beside this one, or in PATH.
///
/// # Errors
/// The system does not tell where this one is.
pub fn installed(program: &str) -> Outcome<Option<PathBuf>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(find(program, this_program()?.parent(), &path))
}

fn find(program: &str, beside: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let directories = beside.map(Path::to_owned).into_iter().chain(std::env::split_paths(path));
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// The name of the program whose daemons are started.
const DAEMON: &str = "consort";

/// A line that a process printed, or `None` when its output ended.
#[derive(Debug)]
pub struct Line {
    /// The number it was started with.
    pub from: usize,
    pub text: Option<String>,
}

/// A running process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    log: PathBuf,
    /// Has children of its own, which it ends when its input does.
    parent: bool,
}

impl Process {
    /// Starts this program with other arguments. Its lines come through `lines`, its log goes to a file.
    pub fn start(number: usize, name: &str, args: &[String], directory: &Path, lines: &Sender<Line>) -> Outcome<Self> {
        let program = this_program()?;
        Self::start_program(number, name, &program, args, directory, lines)
    }

    /// Starts a script that runs other programs and ends them when its input ends.
    pub fn start_parent(
        number: usize,
        name: &str,
        words: &[String],
        directory: &Path,
        lines: &Sender<Line>,
    ) -> Outcome<Self> {
        let (program, args) = words.split_first().ok_or_else(|| Failure::new(format!("{name} has no program")))?;
        let mut process = Self::start_program(number, name, Path::new(program), args, directory, lines)?;
        process.parent = true;
        Ok(process)
    }

    /// Starts another program in the same way.
    pub fn start_program(
        number: usize,
        name: &str,
        program: &Path,
        args: &[String],
        directory: &Path,
        lines: &Sender<Line>,
    ) -> Outcome<Self> {
        let log = directory.join(format!("{name}.log"));
        // What an earlier incarnation of it said stays.
        let errors = File::options().create(true).append(true).open(&log);
        let errors = errors.trying(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(args).env(runtime_dir::VARIABLE, directory.join("run"));
        // Ctrl-C is for whoever started it: that one ends it in good order.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().trying(|| format!("cannot start {name}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let process = Self { name: name.into(), child, input, log, parent: false };
        if let Some(output) = output {
            forward(number, output, lines.clone());
        }
        Ok(process)
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a line.
    pub fn tell(&mut self, line: &str) -> Outcome {
        let told = self.input.as_mut().map(|input| writeln!(input, "{line}").and_then(|()| input.flush()));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(self.ended()),
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Outcome {
        kill_process(Pid::from_child(&self.child), signal).trying(|| format!("cannot signal {}", self.name))
    }

    /// The failure to report when the process has ended although it should not have.
    pub fn ended(&mut self) -> Failure {
        let how = match self.child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            _ => "closed its output".into(),
        };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let mut last: Vec<&str> = log.lines().rev().take(8).collect();
        last.reverse();
        Failure::new(format!("{} ended unexpectedly ({how}); it said last:\n  {}", self.name, last.join("\n  ")))
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether the process has ended, and not well.
    pub fn has_failed(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if !status.success())
    }

    /// Asks the process to end and sees that it does.
    pub fn stop(mut self) {
        self.input = None;
        self.await_end();
    }

    /// Waits for the end of a process that was asked to end, and says if it does not end well.
    pub fn see_off(mut self) -> Outcome {
        self.await_end();
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Ok(()),
            _ => Err(self.ended()),
        }
    }

    fn await_end(&mut self) {
        let deadline = clock::now_ns() + 2_000_000_000;
        while !self.has_ended() && clock::now_ns() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.parent {
            self.input = None;
            self.await_end();
        }
        // It may have ended by itself: then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(number: usize, output: ChildStdout, lines: Sender<Line>) {
    std::thread::spawn(move || {
        for text in BufReader::new(output).lines().map_while(Result::ok) {
            if lines.send(Line { from: number, text: Some(text) }).is_err() {
                return;
            }
        }
        let _ = lines.send(Line { from: number, text: None });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_beside_this_one_first() {
        let [beside, path] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let found = || find("consort-bench", Some(beside.path()), path.path().as_os_str());
        assert_eq!(found(), None);
        fs::write(path.path().join("consort-bench"), "").unwrap();
        assert_eq!(found(), Some(path.path().join("consort-bench")));
        fs::create_dir(beside.path().join("consort-bench")).unwrap();
        assert_eq!(found(), Some(path.path().join("consort-bench")), "a directory is no program");
        fs::remove_dir(beside.path().join("consort-bench")).unwrap();
        fs::write(beside.path().join("consort-bench"), "").unwrap();
        assert_eq!(found(), Some(beside.path().join("consort-bench")));
    }
}

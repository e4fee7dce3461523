//! `consort kv load`: what a server's directory has is put into another store.
use crate::args::Args;
use crate::failure::{Code, Failure, Outcome, Trying, heard_or_not};
use crate::figures::thousands;
use crate::servers::{Repeat, Servers, connect};
use consort_kv::arcs::Arcs;
use consort_kv::partition::Partition;
use consort_kv::{Connected, Reply, saved};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `consort kv load --help` prints.
pub const HELP: &str = "\
Usage: consort kv load DIRECTORY [options]

Puts all keys that a server's state directory has into a store: for example into
a new one where all daemons lost their directories for good, or from a backup of
such a directory. What counts is the newest checkpoint of each partition: a
server that is ended by SIGTERM writes one that has everything, and one that was
killed may lack what was written for some minutes. The directory is only read,
and may be of another store, with any number of partitions.

  --dry-run        only print what the directory has
  --if-absent      the store may have keys; put only those that it has not. Keys
                   that clients have deleted since come back
  --partial        put what can be read, though something is missing or damaged

  --server ADDR    the server at this HOST:PORT; several are tried in turn
                   [127.0.0.1:6379]
  --timeout TIME   give up on an answer after this time [10s]

Exit code 1 says that not all was put, and why.
";

/// The most keys that are under way, and the most bytes of them.
const KEYS: usize = 256;
const BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
struct Options {
    directory: PathBuf,
    servers: Servers,
    dry_run: bool,
    if_absent: bool,
    partial: bool,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let partitions = partitions(&options.directory)?;
    // All is read before anything is put, so that nothing is put where something is missing.
    let Found { readable, wrong } = look(&options, &partitions)?;
    if options.dry_run || !wrong.is_empty() && !options.partial {
        return complete(&options, &wrong);
    }
    let mut target = Target::connect(&options)?;
    for partition in readable {
        let again = saved::read(&options.directory, partition).map_err(|error| error.to_string());
        match again.and_then(|read| read.ok_or_else(|| "its checkpoints are gone".to_owned())) {
            Ok((_, state)) => target.put_all(&state)?,
            Err(why) => return Err(target.interrupted(&format!("partition {partition} cannot be read again: {why}"))),
        }
    }
    said(&target.sum())?;
    complete(&options, &wrong)
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options {
        directory: PathBuf::new(),
        servers: Servers::default(),
        dry_run: false,
        if_absent: false,
        partial: false,
    };
    let words = Args::each(words, HELP, |option, args| {
        match option {
            "--dry-run" => options.dry_run = true,
            "--if-absent" => options.if_absent = true,
            "--partial" => options.partial = true,
            _ => return options.servers.take(option, args),
        }
        Ok(true)
    })?;
    let [directory] = words.as_slice() else {
        return Err(Failure::usage("name one directory: consort kv load /var/lib/consort-kv"));
    };
    options.directory = directory.into();
    Ok(options)
}

/// The partitions of the directory.
fn partitions(directory: &Path) -> Outcome<Vec<usize>> {
    let shown = directory.display();
    let found = saved::partitions(directory).trying(|| format!("cannot read the directory `{shown}`"))?;
    if found.is_empty() {
        let text = format!(
            "{shown} has no partition of a store; name the directory that a server had as --state, which has \
             directories named partition-1 and so on"
        );
        return Err(Failure::new(text));
    }
    Ok(found)
}

/// What a directory has.
struct Found {
    /// The partitions whose state can be read.
    readable: Vec<usize>,
    /// What is missing, damaged or strange.
    wrong: Vec<String>,
}

/// Says what each partition has.
fn look(options: &Options, partitions: &[usize]) -> Outcome<Found> {
    let (mut readable, mut wrong, mut all, mut keys) = (Vec::new(), Vec::new(), 0, 0);
    for partition in partitions.iter().copied() {
        match saved::read(&options.directory, partition) {
            Ok(Some((saved, state))) => {
                let (commands, count) = (thousands(saved.position.0), thousands(state.len() as u64));
                said(&format!("partition {partition}: {count} keys after {commands} commands"))?;
                readable.push(partition);
                let newer = |why: String| format!("partition {partition}: a newer {why}");
                wrong.extend(saved.unused.into_iter().map(newer));
                if is_of_others(partition, &state) {
                    wrong.push(format!(
                        "partition {partition}: it has keys of other partitions; was it copied from one?"
                    ));
                }
                (all, keys) = (all.max(usize::from(state.partitions())), keys + state.len());
            }
            Ok(None) => wrong.push(format!("partition {partition}: no checkpoint is in its directory")),
            Err(error) => wrong.push(format!("partition {partition}: {error}")),
        }
    }
    let missing = (1..=all).filter(|partition| !partitions.contains(partition));
    wrong.extend(missing.map(|partition| format!("partition {partition}: its directory is missing, of {all}")));
    if wrong.is_empty() && keys == 0 {
        wrong.push("no partition has any key; is this the directory of a new server?".to_owned());
    }
    Ok(Found { readable, wrong })
}

/// Whether a partition has keys that belong to others of its store.
fn is_of_others(partition: usize, state: &Partition) -> bool {
    let arcs = Some(state.partitions()).filter(|count| *count > 0).map(Arcs::new);
    arcs.is_some_and(|arcs| state.entries().any(|(key, _)| arcs.of(key) + 1 != partition))
}

/// Fails if something was wrong.
fn complete(options: &Options, wrong: &[String]) -> Outcome {
    if wrong.is_empty() {
        return Ok(());
    }
    let came_of_it = match (options.dry_run, options.partial) {
        (true, _) => "",
        (false, true) => "\nthe rest was put",
        (false, false) => {
            "\nnothing was put; use another server's directory or another backup, or --partial to put what there is"
        }
    };
    Err(Failure::new(format!("{} is not complete:\n{}{came_of_it}", options.directory.display(), wrong.join("\n"))))
}

/// Prints a line. That none reads it ends no load.
fn said(line: &str) -> Outcome {
    heard_or_not(writeln!(io::stdout(), "{line}"))
}

/// The store that is put into.
struct Target {
    address: String,
    server: Connected,
    timeout: Duration,
    put: u64,
    kept: u64,
}

impl Target {
    /// At the first server that answers.
    fn connect(options: &Options) -> Outcome<Self> {
        let servers = &options.servers;
        // Answered once all partitions are up to date there.
        let (address, reply) = servers.ask_one(&[b"DBSIZE"], Repeat::Harmless)?;
        let keys = match reply {
            Reply::Integer(keys) if keys >= 0 => keys as u64,
            other => {
                let text =
                    format!("{address} is no server of `consort kv serve`: asked for its size it answers {other:?}");
                return Err(Failure::new(text));
            }
        };
        if keys > 0 && !options.if_absent {
            let text =
                format!("the store has {} keys already; --if-absent puts only those that it has not", thousands(keys));
            return Err(Failure::new(text));
        }
        let (timeout, address) = (servers.timeout(), address.to_owned());
        let mut server = connect(&address, timeout)?;
        server.set_timeout(Some(timeout)).trying(|| address.clone())?;
        Ok(Self { address, server, timeout, put: 0, kept: 0 })
    }

    fn put_all(&mut self, state: &Partition) -> Outcome {
        let (mut keys, mut bytes) = (0, 0);
        for (key, value) in state.entries() {
            self.server.add(&[&b"SET"[..], key, value, b"NX"]);
            (keys, bytes) = (keys + 1, bytes + key.len() + value.len());
            if keys == KEYS || bytes >= BYTES {
                self.answered(keys)?;
                (keys, bytes) = (0, 0);
            }
        }
        self.answered(keys)
    }

    /// Waits for the answers of those that are under way.
    fn answered(&mut self, keys: usize) -> Outcome {
        self.server.flush().map_err(|error| self.lost(&error))?;
        for _ in 0..keys {
            match self.server.receive() {
                Ok(Reply::Simple(_)) => self.put += 1,
                Ok(Reply::Nil) => self.kept += 1,
                Ok(Reply::Error(why)) if why.starts_with("OOM ") => {
                    let text = format!("{why}; start all servers with a larger --memory");
                    return Err(self.interrupted(&text));
                }
                Ok(Reply::Error(why)) => return Err(self.interrupted(&why)),
                Ok(other) => return Err(self.interrupted(&format!("it answers {other:?}"))),
                Err(error) => return Err(self.lost(&error)),
            }
        }
        Ok(())
    }

    /// The server does not answer.
    fn lost(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                self.interrupted(&format!("no answer within {:?}", self.timeout)).with(Code::Timeout)
            }
            io::ErrorKind::UnexpectedEof => self.interrupted("the server has ended, or closed the connection"),
            _ => self.interrupted(&format!("the connection is lost: {error}")),
        }
    }

    fn interrupted(&self, why: &str) -> Failure {
        let text = format!("{}: {why}; {} before that. The same with --if-absent goes on", self.address, self.sum());
        Failure::new(text)
    }

    fn sum(&self) -> String {
        let kept = match self.kept {
            0 => String::new(),
            kept => format!(", and {} had a value already and keep it", thousands(kept)),
        };
        format!("{} keys were put{kept}", thousands(self.put))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn one_directory_is_named() {
        let options = read(words("a --dry-run --server b:1")).unwrap();
        assert_eq!((options.directory.to_str(), options.dry_run, options.if_absent), (Some("a"), true, false));
        for line in ["", "a b"] {
            assert!(read(words(line)).unwrap_err().message.contains("consort kv load /var/lib/consort-kv"));
        }
    }

    #[test]
    fn a_directory_without_partitions_is_named() {
        let empty = tempfile::tempdir().unwrap();
        let path = empty.path().display().to_string();
        let problem = main(words(&path)).unwrap_err().message;
        assert!(problem.starts_with(&path) && problem.contains("--state"), "{problem}");
        let problem = main(words(&format!("{path}/none"))).unwrap_err().message;
        assert!(problem.starts_with(&format!("cannot read the directory `{path}/none`")), "{problem}");
        // A partition that has no checkpoint, and one that has a damaged one.
        std::fs::create_dir(empty.path().join("partition-2")).unwrap();
        std::fs::create_dir(empty.path().join("partition-3")).unwrap();
        std::fs::write(empty.path().join("partition-3/checkpoint-1"), "CONSREP2").unwrap();
        for line in [path.clone(), format!("{path} --dry-run")] {
            let problem = main(words(&line)).unwrap_err().message;
            assert!(problem.starts_with(&format!("{path} is not complete:")), "{problem}");
            assert!(
                problem.contains("partition 2: no checkpoint") && problem.contains("checkpoint-1 is not used"),
                "{problem}"
            );
            assert_eq!(problem.contains("nothing was put"), line == path, "{problem}");
        }
        // A name that only looks like a partition's.
        std::fs::create_dir(empty.path().join("partition-02")).unwrap();
        assert_eq!(saved::partitions(empty.path()).unwrap(), [2, 3]);
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}

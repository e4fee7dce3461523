//! `consort kv load`: what a server's directory has is put into another store.
use crate::args::Args;
use crate::failure::{Failure, Outcome, Trying};
use crate::figures::thousands;
use crate::servers::{Repeat, Servers, connect};
use consort_kv::partition::Partition;
use consort_kv::{Connected, Reply, saved};
use consort_replica::Position;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What `consort kv load --help` prints.
pub const HELP: &str = "\
Usage: consort kv load DIRECTORY [options]

Puts all keys that a server's state directory has into a store: for example into
a new one where all daemons lost their directories for good, or from a backup of
such a directory. What counts is the newest checkpoint of each partition; writes
behind that are not in it. The directory is only read, and may be of another
store, with any number of partitions.

  --dry-run        only print what the directory has
  --if-absent      the store may have keys; put only those that it has not

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
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let partitions = partitions(&options.directory)?;
    let mut target = if options.dry_run { None } else { Some(Target::connect(&options)?) };
    let mut missing = Vec::new();
    for partition in &partitions {
        let found = saved::read(&options.directory, *partition).map_err(|error| Failure::new(error.to_string()))?;
        let Some((position, state)) = found else {
            missing.push(partition.to_string());
            continue;
        };
        if let Some(target) = &mut target {
            target.put_all(&state)?;
        }
        shown(*partition, position, &state)?;
    }
    if let Some(target) = target {
        writeln!(io::stdout(), "{}", target.sum())?;
    }
    all_there(&options.directory, &missing)
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options =
        Options { directory: PathBuf::new(), servers: Servers::default(), dry_run: false, if_absent: false };
    let words = Args::each(words, HELP, |option, args| {
        match option {
            "--dry-run" => options.dry_run = true,
            "--if-absent" => options.if_absent = true,
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
    let found = saved::partitions(directory).trying(|| format!("cannot read {}", directory.display()))?;
    if found.is_empty() {
        let text = format!(
            "{} has no partition of a store; name the directory that a server had as --state",
            directory.display()
        );
        return Err(Failure::new(text));
    }
    Ok(found)
}

fn shown(partition: usize, position: Position, state: &Partition) -> Outcome {
    let (commands, keys) = (thousands(position.0), thousands(state.len() as u64));
    Ok(writeln!(io::stdout(), "partition {partition}: {keys} keys after {commands} commands")?)
}

fn all_there(directory: &Path, missing: &[String]) -> Outcome {
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "partition {} has no checkpoint in {}, so its keys are missing; load another server's directory with --if-absent \
         to get them",
        missing.join(" and "),
        directory.display()
    );
    Err(Failure::new(text))
}

/// The store that is put into.
struct Target {
    address: String,
    server: Connected,
    put: u64,
    kept: u64,
}

impl Target {
    /// At the first server that answers.
    fn connect(options: &Options) -> Outcome<Self> {
        let servers = &options.servers;
        // Answered once all partitions are up to date there.
        let Reply::Integer(keys) = servers.ask(&[b"DBSIZE"], Repeat::Harmless)? else {
            return Err(Failure::new(
                "the server does not say how many keys the store has; is it one of `consort kv serve`?",
            ));
        };
        if keys > 0 && !options.if_absent {
            let text = format!(
                "the store has {} keys already; --if-absent puts only those that it has not",
                thousands(keys as u64)
            );
            return Err(Failure::new(text));
        }
        let mut last = Failure::new("no server was asked");
        for address in servers.addresses() {
            match connect(address, servers.timeout()) {
                Ok(mut server) => {
                    server.set_timeout(Some(servers.timeout())).trying(|| address.to_owned())?;
                    return Ok(Self { address: address.to_owned(), server, put: 0, kept: 0 });
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
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
        self.server.flush().map_err(|error| self.interrupted(&error.to_string()))?;
        for _ in 0..keys {
            match self.server.receive() {
                Ok(Reply::Simple(_)) => self.put += 1,
                Ok(Reply::Nil) => self.kept += 1,
                Ok(Reply::Error(why)) => return Err(self.interrupted(&why)),
                Ok(other) => return Err(self.interrupted(&format!("it answers {other:?}"))),
                Err(error) => return Err(self.interrupted(&error.to_string())),
            }
        }
        Ok(())
    }

    fn interrupted(&self, why: &str) -> Failure {
        let text = format!("{}: {why}; {}. The same with --if-absent goes on", self.address, self.sum());
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
        assert!(problem.contains(&format!("cannot read {path}/none")), "{problem}");
        // A partition that has no checkpoint, and one that has a damaged one.
        std::fs::create_dir(empty.path().join("partition-2")).unwrap();
        std::fs::create_dir(empty.path().join("partition-3")).unwrap();
        std::fs::write(empty.path().join("partition-3/checkpoint-1"), "CONSREP2").unwrap();
        let problem = main(words(&format!("{path} --dry-run"))).unwrap_err().message;
        assert!(problem.starts_with("partition 2 and 3 has no checkpoint in "), "{problem}");
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}

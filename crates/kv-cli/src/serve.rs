//! `consort kv serve`: one server of a store, until a signal ends it.
//!
//! | module | what |
//! |---|---|
//! | `partitions` | those that end alone |
//! | `shutdown` | the last checkpoints |
mod partitions;
mod shutdown;

use crate::args::Args;
use crate::connect::{self, Wanted};
use crate::failure::{Code, Failure, Outcome, Trying, heard_or_not, note};
use crate::servers::ADDRESS;
use consort::{Address, ConnectOptions, SessionOptions};
use consort_daemon::log::{self, FORMATS, Format};
use consort_daemon::signals;
use consort_kv::{Store, StoreError, StoreOptions, server};
use partitions::Watch;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What `consort kv serve --help` prints.
pub const HELP: &str = "\
Usage: consort kv serve [options]

Serves a key-value store to clients that speak RESP2, such as `consort kv` and
redis-cli. Every server of a store holds all of it; one that joins takes it from
the others. A write is answered once it has its place in the order and is
applied. Prints a line that begins with `ready:` once it is up to date.

  --listen ADDR      where clients connect [127.0.0.1:6379]
  --name NAME        which store [main]
  --partitions N     how many partitions it has; all servers say the same. Each
                     may be on its own ring with `multiring-paxos`, if daemons
                     read all rings; else all are in one order [4]
  --state DIR        keep checkpoints here, in a directory of this server's own.
                     With daemons that run `paxos` with storage sync or async
                     an answered write then outlives the loss of every process,
                     and there is always a directory [usually below
                     ~/.local/state/consort, by the port of --listen]. Elsewhere
                     a stop of all servers loses what came since the last
                     checkpoint, and without --state everything
  --durable          where the daemons' order forgets (`ring` and others):
                     answer a write once a majority of the copies has synced
                     it, so that it outlives the loss of every process; give
                     --copies and --state, and start that many servers first
  --copies N         number of servers with such a directory; the first server
                     says it for ever [as many as there are daemons that vote]
  --copy N           be the copy that has this number, because its
                     directory is lost or not used any more [with --durable
                     that of the daemon's node]
  --force            with --durable, once: go on though a majority of the
                     directories is lost; what only those had is lost
  --transfer IP:PORT where servers on other machines fetch checkpoints of this
                     one, the partitions at ports from PORT on;
                     who connects there can read the store
                     [free ports of the address of --listen]
  --transfer-rate SIZE
                     bytes a second that are sent to a server which lacks them,
                     by each partition [4MiB]
  --shared DIR       a directory that all servers share: each new checkpoint is
                     copied there too, and who lacks one takes it from there
  --founders N       number of servers that begin together, where the daemons'
                     order forgets; with --state say a majority of them [1]
  --checkpoint-every N
                     behind so many commands of a partition [100000]
  --memory SIZE      bytes of keys and values, and 200 for each [1GiB]
  --log-bytes SIZE   bytes of commands kept for servers that were away, in equal
                     parts for the partitions; who missed more is sent the
                     state [64MiB]
  --connections N    clients at a time [256]
  --pipeline N       commands of a client that are not answered yet [1024]
  --log FILTER       error, warn, info, debug or trace [warn]
  --log-format FORM  text, or json: one object a line [text]

  --node ID          join at this node's daemon [the lowest on this machine]
  --cluster NAME     of this cluster
  --daemon ADDR      join at the daemon at this socket path or ADDRESS:PORT; if
                     it is lost, at the next one: may be given several times

It trusts all who connect: listen where only those do who may. SIGTERM and
Ctrl-C end it once the last checkpoint of each partition is written, however
long that takes; the same again, a second later, ends it at once. SIGHUP is
ignored, and SIGUSR1 has it log all of level debug for a minute. Signals that
were ignored when it started stay ignored, for example SIGHUP below nohup.

A partition that cannot go on stops no other: commands for its keys are refused
with the cause, and the exit code is 1 in the end.
";

/// How long it is patient with daemons that are away.
const RECONNECT: Duration = Duration::from_secs(7 * 86_400);
/// How often it looks whether the store goes on.
const LOOK: Duration = Duration::from_millis(50);
/// How often it says that it waits.
const REMIND: u64 = 100;

#[derive(Debug)]
struct Options {
    wanted: Wanted,
    daemons: Vec<Address>,
    listen: String,
    log: Option<String>,
    log_format: Format,
    store: StoreOptions,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let mut options = read(words)?;
    let _log = log::start(Some(options.log.as_deref().unwrap_or("warn")), options.log_format)?;
    log::raise_on_signal().trying(|| "cannot watch for SIGUSR1".into())?;
    let stops = stop_on_signals().trying(|| "cannot watch for signals".into())?;
    let listens_at = listen(&options.listen)?.local_addr().ok(); // what is wrong with the address is reported at once
    let is_fixed = !options.listen.ends_with(":0");
    let near = listens_at.map(|at| SocketAddr::new(at.ip(), 0)).filter(|at| !at.ip().is_unspecified());
    options.store.transfer_at = options.store.transfer_at.or(near);
    options.store.daemons = match std::mem::take(&mut options.daemons) {
        given if given.is_empty() => vec![options.wanted.one()?],
        given => given,
    };
    options.store.usual_state = listens_at.filter(|_| is_fixed).and_then(|at| usual_state(&options.store, at));
    options.store.session = session()?;
    let Some(store) = open(options.store, &stops)? else { return Ok(()) };
    let served = run(&store, &options.listen, &stops);
    let ended = shutdown::shut_down(&store, &stops, served.is_ok());
    served.and(ended)
}

/// Where a server keeps its state that joins at a daemon of this machine, and listens at a port that it has again later.
fn usual_state(store: &StoreOptions, at: SocketAddr) -> Option<PathBuf> {
    let Some(Address::Unix(socket)) = store.daemons.first() else { return None };
    let cluster = socket.parent()?.file_name()?.to_str()?;
    let home = consort_daemon::usual_home(None, cluster)?;
    Some(home.join(format!("kv-{}-{}-{}", store.name, at.ip(), at.port())))
}

/// Opens the store; `None` if a signal comes while its daemons are away.
fn open(options: StoreOptions, stops: &Receiver<()>) -> Outcome<Option<Arc<Store>>> {
    let (opened, store) = channel();
    thread::spawn(move || opened.send(Store::open(&options)));
    loop {
        match store.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if stops.try_recv().is_ok() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::new("the store could not be opened")),
            Ok(store) => return store.map(|store| Some(Arc::new(store))).map_err(|error| failed(&error)),
        }
    }
}

/// Serves until a signal comes, or no partition goes on.
fn run(store: &Arc<Store>, address: &str, stops: &Receiver<()>) -> Outcome {
    let mut watch = Watch::default();
    if !found(store, &mut watch, stops)? {
        return Ok(());
    }
    // While it is not up to date it does not listen, so that clients find another server.
    let listener = listen(address)?;
    announce(store, &listener)?;
    serve(listener, store, &mut watch, stops)
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options {
        wanted: Wanted::default(),
        daemons: Vec::new(),
        listen: ADDRESS.to_owned(),
        log: None,
        log_format: Format::default(),
        store: StoreOptions {
            name: "main".to_owned(),
            daemons: Vec::new(),
            session: SessionOptions::default(),
            partitions: 4,
            founders: 1,
            durable: false,
            force: false,
            copies: 0,
            copy: None,
            transfer_at: None,
            transfer_rate: 4 << 20,
            shared: None,
            state: None,
            usual_state: None,
            checkpoint_every: 100_000,
            log_bytes: 64 << 20,
            limits: consort_kv::Limits::default(),
        },
    };
    Args::only_options(words, HELP, |option, args| options.take(option, args))?;
    let store = &options.store;
    if store.durable && store.copies == 0 {
        return Err(Failure::usage("--durable: say how many copies there are, for example --copies 3"));
    }
    if store.force && !store.durable {
        return Err(Failure::usage(
            "--force: only servers with --durable can be forced; the runbook docs/runbooks/store.md says what else helps",
        ));
    }
    Ok(options)
}

impl Options {
    fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        let store = &mut self.store;
        match option {
            "--listen" => self.listen = args.text()?,
            "--name" => store.name = args.text()?,
            "--partitions" => store.partitions = args.number(1..=u64::from(consort_kv::arcs::PARTITIONS_MAX))? as u16,
            "--state" => store.state = Some(args.path()?),
            "--durable" => store.durable = true,
            "--force" => store.force = true,
            "--copies" => store.copies = args.number(1..=128)? as u16,
            "--copy" => store.copy = Some(args.number(1..=128)? as u16),
            "--transfer" => {
                let text = args.text()?;
                let problem = |_| Failure::usage(format!("--transfer: `{text}` is no address; give IP:PORT"));
                store.transfer_at = Some(text.parse().map_err(problem)?);
            }
            "--transfer-rate" => store.transfer_rate = args.size(1 << 10..=1 << 40)?,
            "--shared" => store.shared = Some(args.path()?),
            "--founders" => store.founders = args.number(1..=128)? as usize,
            "--checkpoint-every" => store.checkpoint_every = args.number(1..=u64::MAX)?,
            "--memory" => store.limits.memory = args.size(1 << 20..=1 << 40)?,
            "--log-bytes" => store.log_bytes = args.size(1 << 20..=1 << 40)? as usize,
            "--connections" => store.limits.connections = args.number(1..=10_000)? as usize,
            "--pipeline" => store.limits.pipeline = args.number(1..=100_000)? as usize,
            "--log" => self.log = Some(args.text()?),
            "--log-format" => self.log_format = args.choice(&FORMATS)?,
            "--daemon" => {
                let text = args.text()?;
                let address = text.parse().map_err(|problem| Failure::usage(format!("--daemon: {problem}")))?;
                self.daemons.push(address);
            }
            _ => return self.wanted.take(option, args),
        }
        Ok(true)
    }
}

fn session() -> Outcome<SessionOptions> {
    let mut connect = ConnectOptions::default();
    (connect.token, connect.tls) = (connect::shown_token(), connect::shown_tls()?);
    Ok(SessionOptions::default().connect(connect).reconnect_within(RECONNECT))
}

fn failed(error: &StoreError) -> Failure {
    match error {
        StoreError::Name(_) => Failure::usage(format!("--name: {error}")),
        StoreError::Partitions(_) | StoreError::Layout { .. } => Failure::usage(format!("--partitions: {error}")),
        StoreError::Replica { .. } => Failure::new(error.to_string()),
    }
}

fn listen(address: &str) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::new(format!("--listen: cannot listen at {address}: {error}; give another HOST:PORT")).with(Code::Usage)
    })
}

fn stop_on_signals() -> io::Result<Receiver<()>> {
    let (stop, stops) = channel();
    signals::on_stop(move || {
        let _not_waited_for = stop.send(());
    })?;
    signals::ignore_hangups("this server has no settings to read again")?;
    Ok(stops)
}

/// Waits until the store is up to date here; false if a signal comes before.
fn found(store: &Arc<Store>, watch: &mut Watch, stops: &Receiver<()>) -> Outcome<bool> {
    let (done, founded) = channel();
    let asked = Arc::clone(store);
    thread::spawn(move || {
        let found = loop {
            match asked.found() {
                Ok(false) => thread::sleep(LOOK),
                found => break found,
            }
        };
        done.send(found)
    });
    for looks in 1_u64.. {
        if let Ok(found) = founded.try_recv() {
            return found.map_err(|error| failed(&error));
        }
        watch.look(store)?;
        if looks % REMIND == 0
            && let Some(why) = store.waits_for(store.all())
        {
            note(format!("waits: {why}"));
        }
        if stops.recv_timeout(LOOK).is_ok() {
            break;
        }
    }
    Ok(false)
}

fn announce(store: &Store, listener: &TcpListener) -> Outcome {
    let address = listener.local_addr().trying(|| "cannot tell where it listens".into())?;
    let kept = store.what_is_kept();
    match store.lasts() {
        true => tracing::info!(store = store.name(), "{kept}"),
        false => tracing::warn!(store = store.name(), "{kept}"),
    }
    let mut out = io::stdout();
    let written = writeln!(out, "ready: store {} ({}) serves clients at {address}", store.name(), kept);
    heard_or_not(written.and_then(|()| out.flush()))
}

/// Serves until a signal comes, or the store goes on no more.
fn serve(listener: TcpListener, store: &Arc<Store>, watch: &mut Watch, stops: &Receiver<()>) -> Outcome {
    let (done, ended) = channel();
    let served = Arc::clone(store);
    thread::spawn(move || {
        let ending = server::serve(listener, &served).err();
        done.send(ending.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    });
    loop {
        if stops.recv_timeout(LOOK).is_ok() {
            return Ok(());
        }
        watch.look(store)?;
        if let Ok(error) = ended.try_recv() {
            return Err(Failure::new(format!("clients can be served no more: {error}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Outcome<Options> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_say_which_store_and_how_much_it_takes() {
        let options =
            options("--name a --partitions 8 --memory 2MiB --daemon 127.0.0.1:4840 --daemon /d --founders 2").unwrap();
        let store = &options.store;
        assert_eq!((store.name.as_str(), store.partitions, store.founders, store.limits.memory), ("a", 8, 2, 2 << 20));
        assert_eq!(store.log_bytes, 64 << 20);
        assert_eq!(self::options("--log-bytes 1GiB").unwrap().store.log_bytes, 1 << 30);
        assert_eq!(options.daemons.len(), 2);
        let problem = |line: &str| self::options(line).unwrap_err().message;
        assert_eq!(problem("--partitions 65"), "--partitions: `65` does not fit; give a number from 1 to 64");
        assert!(problem("--memory 1KiB").starts_with("--memory: `1KiB` does not fit"));
        assert!(problem("--log-bytes 1KiB").starts_with("--log-bytes: `1KiB` does not fit"));
        assert!(problem("main").contains("is not an option"));
        assert!(problem("--durable").contains("--copies 3") && problem("--force").contains("--durable"));
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}

//! `consort kv serve`: one server of a store, until it is told to end.
use crate::args::Args;
use crate::connect::{self, Wanted};
use crate::failure::{Code, Failure, Outcome, Trying, heard_or_not, note};
use crate::servers::ADDRESS;
use consort::{Address, ConnectOptions, SessionOptions};
use consort_daemon::log::{self, FORMATS, Format};
use consort_kv::{Store, StoreError, StoreOptions, server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
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
  --partitions N     how many partitions it has, each with an order of its own
                     where the daemons run many rings; all servers say the same
                     [4]
  --state DIR        keep checkpoints here, in a directory of this server's own.
                     With daemons that run `paxos` with storage sync or async
                     an answered write then outlives the loss of every process;
                     elsewhere a stop of all servers loses what came since the
                     last checkpoint, and without --state everything
  --copies N         so many servers have such a directory; the first server
                     says it for ever [as many as there are daemons that vote]
  --copy N           take the place of the copy that has this number, because its
                     directory is lost or not used any more
  --transfer IP:PORT where servers on other machines fetch checkpoints of this
                     one, each partition at a port of its own from PORT on;
                     whoever connects there can read the store
                     [free ports of the address of --listen]
  --transfer-rate SIZE
                     bytes a second that are sent to a server which lacks them,
                     by each partition [4MiB]
  --shared DIR       a directory that all servers share: each new checkpoint is
                     copied there too, and who lacks one takes it from there
  --founders N       so many servers begin the store together, where the daemons'
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
Ctrl-C end it, with a last checkpoint.
";

/// How long it is patient with daemons that are away.
const RECONNECT: Duration = Duration::from_secs(7 * 86_400);
/// How often it looks whether the store goes on.
const LOOK: Duration = Duration::from_millis(50);
/// How long the last checkpoints and words may take.
const LAST: Duration = Duration::from_secs(10);
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
    let events = stop_on_signals().trying(|| "cannot watch for signals".into())?;
    let listens_at = listen(&options.listen)?.local_addr().ok(); // what is wrong with the address is known at once
    let near = listens_at.map(|at| SocketAddr::new(at.ip(), 0)).filter(|at| !at.ip().is_unspecified());
    options.store.transfer_at = options.store.transfer_at.or(near);
    options.store.daemons = match std::mem::take(&mut options.daemons) {
        given if given.is_empty() => vec![options.wanted.one()?],
        given => given,
    };
    options.store.session = session()?;
    let store = Arc::new(Store::open(&options.store).map_err(|error| failed(&error))?);
    if found(&store, &events)? {
        // Who is not up to date is not listened for: clients find another server.
        let listener = listen(&options.listen)?;
        announce(&store, &listener)?;
        serve(listener, &store, &events)?;
    }
    stop(&store)
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
            copies: 0,
            copy: None,
            transfer_at: None,
            transfer_rate: 4 << 20,
            shared: None,
            state: None,
            checkpoint_every: 100_000,
            log_bytes: 64 << 20,
            limits: consort_kv::Limits::default(),
        },
    };
    Args::only_options(words, HELP, |option, args| options.take(option, args))?;
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

/// Why the server ends.
enum Ending {
    Asked,
    Failed(io::Error),
}

fn stop_on_signals() -> io::Result<Receiver<Ending>> {
    let (tell, events) = channel();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || signals.forever().try_for_each(|_| tell.send(Ending::Asked)));
    Ok(events)
}

/// Waits until the store is up to date here; false if it is told to end before.
fn found(store: &Arc<Store>, events: &Receiver<Ending>) -> Outcome<bool> {
    let (tell, told) = channel();
    let asked = Arc::clone(store);
    thread::spawn(move || {
        let found = loop {
            match asked.found() {
                Ok(false) => thread::sleep(LOOK),
                found => break found,
            }
        };
        tell.send(found)
    });
    for looks in 1_u64.. {
        if let Ok(found) = told.try_recv() {
            return found.map_err(|error| failed(&error));
        }
        store.check().map_err(|error| failed(&error))?;
        if looks % REMIND == 0
            && let Some(why) = store.waits_for()
        {
            note(format!("waits: {why}"));
        }
        match events.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => break,
        }
    }
    Ok(false)
}

/// Ends the replicas. One that waits for daemons which are gone is left behind.
fn stop(store: &Arc<Store>) -> Outcome {
    let (tell, told) = channel();
    let stopped = Arc::clone(store);
    thread::spawn(move || tell.send(stopped.stop()));
    match told.recv_timeout(LAST) {
        Ok(stopped) => stopped.map_err(|error| failed(&error)),
        Err(_) => Err(Failure::new("the daemons are gone; ended without a last checkpoint")),
    }
}

fn announce(store: &Store, listener: &TcpListener) -> Outcome {
    let address = listener.local_addr().trying(|| "cannot tell where it listens".into())?;
    let mut out = io::stdout();
    let written = writeln!(out, "ready: store {} ({}) serves clients at {address}", store.name(), store.what_is_kept());
    heard_or_not(written.and_then(|()| out.flush()))
}

/// Serves until it is told to end, or the store goes on no more.
fn serve(listener: TcpListener, store: &Arc<Store>, events: &Receiver<Ending>) -> Outcome {
    let (tell, ended) = channel();
    let served = Arc::clone(store);
    thread::spawn(move || {
        let ending = server::serve(listener, &served).err();
        tell.send(Ending::Failed(ending.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())))
    });
    loop {
        match events.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
        store.check().map_err(|error| failed(&error))?;
        if let Ok(Ending::Failed(error)) = ended.try_recv() {
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
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}

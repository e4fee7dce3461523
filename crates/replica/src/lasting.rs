//! Replicas whose history is a log that lasts: that of the daemons (`paxos` with storage `sync` or `async`), or their own, if
//! they are durable. The rules are in docs/protocols/replicas.md.
#![doc(hidden)]
#[cfg(any(test, feature = "mutants"))]
pub(crate) mod broken;
mod driver;
pub(crate) mod engine;
mod head;
pub(crate) mod identity;
pub(crate) mod keeping;
mod link;
pub(crate) mod origins;
pub(crate) mod seat;
#[cfg(test)]
mod tests;
mod transfer;

use crate::checkpoint::Checkpoints;
use crate::durable::{OwnLog, Wanted};
use crate::line::Origin;
use crate::machine::StateMachine;
use crate::options::{Error, Options};
use crate::shared::{Request, Shared};
use consort::{Client, Event, GroupName};
use driver::{Driver, Parts, Source};
use engine::{Engine, Progress};
pub(crate) use head::Head;
use identity::Identity;
use link::Link;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// How long a daemon may take to say what kind of order it keeps.
const ANSWER: Duration = Duration::from_secs(10);
/// How often it is logged at the start that no daemon is there, and for how long there may be none before.
const WARN_EVERY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1);
/// The name of a server in the order is not longer.
const NAME_MAX: usize = 96;

/// What a replica begins with, once its daemon has said that its order lasts.
pub(crate) struct Beginning {
    link: Link,
    checkpoints: Checkpoints,
    identity: Option<Identity>,
    head: Option<Head>,
    /// The heads of all checkpoints that are whole, oldest first.
    heads: Vec<Head>,
}

/// Connects to the first daemon that can be reached, and asks what kind of order it keeps.
///
/// # Errors
/// [`Error::Session`] if no daemon could be reached for as long as is allowed.
pub(crate) fn ask_kind(group: &GroupName, options: &Options) -> Result<(Link, bool), Error> {
    let connect = options.session.connect.clone().without_shared_memory();
    let failed = |error: consort::Error| Error::Session(error.to_string());
    let mut link = Link::new(options.daemons.clone(), connect, options.session.reconnect_within);
    let mut warn_at = Instant::now() + PATIENCE;
    loop {
        let now = Instant::now();
        if let Some(why) = link.why().filter(|_| now >= warn_at) {
            tracing::warn!("group {group}: no daemon can be reached, and one is tried again and again: {why}");
            warn_at = now + WARN_EVERY;
        }
        thread::sleep(link.rests(now).unwrap_or_default());
        link.connect(Instant::now()).map_err(failed)?;
        let Some(client) = link.client() else { continue };
        match lasts(client, group) {
            Ok(lasts) => return Ok((link, lasts)),
            Err(error) => link.lose(&error, Instant::now()),
        }
    }
}

fn lasts(client: &mut Client, group: &GroupName) -> Result<bool, consort::Error> {
    client.ask_copies(&seat::any_of(group))?;
    let until = Instant::now() + ANSWER;
    loop {
        match client.receive(until.saturating_duration_since(Instant::now()))? {
            Some(Event::Copies(copies)) => return Ok(copies.lasts),
            Some(_) => {}
            None => return Err(consort::Error::TimedOut { cause: None }),
        }
    }
}

impl Beginning {
    /// Takes the newest checkpoint of the directory, if there is one.
    ///
    /// # Errors
    /// [`Error::Checkpoints`]: the directory is another's or damaged, or the machine takes none of the checkpoints.
    pub fn load<M: StateMachine>(
        link: Link,
        checkpoints: Checkpoints,
        is_durable: bool,
        machine: &mut M,
    ) -> Result<Self, Error> {
        let directory = checkpoints.directory().to_owned();
        let failed = |error: io::Error| Error::directory(&directory, &error);
        let identity = Identity::load(&directory).map_err(failed)?;
        if let Some(identity) = identity.as_ref().filter(|_| is_durable) {
            let why = format!(
                "it has a state of the order {:016x}, which the daemons kept; run them as before (`paxos` with storage sync or \
                 async), or give this server an empty directory",
                identity.order
            );
            return Err(Error::Checkpoints { directory, why });
        }
        let head: Option<Head> = checkpoints.load(machine).map_err(failed)?;
        let heads: Vec<Head> = checkpoints.heads().map_err(failed)?;
        let order = match (&identity, is_durable) {
            (Some(identity), _) => Some(identity.order),
            (None, true) => heads.first().map(|head| head.order),
            (None, false) => None,
        };
        if let Some(other) = heads.iter().chain(&head).find(|head| Some(head.order) != order) {
            let why = match order {
                None => "there are checkpoints, and no file `identity` that says whose they are; give back the whole \
                         directory, or an empty one"
                    .to_owned(),
                Some(order) => format!(
                    "a checkpoint is of the order {:016x}, and another file of the order {order:016x}: files of two directories \
                     were put together; give back the whole directory, or an empty one",
                    other.order
                ),
            };
            return Err(Error::Checkpoints { directory, why });
        }
        Ok(Self { link, checkpoints, identity, head, heads })
    }

    /// How many commands are in the state that the machine took.
    pub fn applied(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.progress.applied)
    }

    /// Serves this replica's checkpoints to others, and runs it in a thread.
    ///
    /// # Errors
    /// [`Error::Checkpoints`]: others could not fetch its checkpoints at the address that was given.
    pub fn run<M: StateMachine>(
        self,
        group: GroupName,
        options: Options,
        shared: Arc<Shared<M>>,
        origin: Origin,
        requests: Receiver<Request>,
    ) -> Result<(), Error> {
        let Self { link, checkpoints, identity, head, heads } = self;
        let directory = checkpoints.directory().to_owned();
        if options.founders > 1 {
            tracing::warn!("group {group}: founders mean nothing here: copies count instead");
        }
        let (address, served) = listen(&options, &directory, &group)?;
        let name = options.server.clone().unwrap_or_else(|| name_of(&directory));
        let kept = heads.iter().map(|head| head.progress.next.position).collect();
        let mark = identity::mark(checkpoints.lock()).map_err(|error| Error::directory(&directory, &error))?;
        let serial = heads.iter().map(|head| head.serial).max().unwrap_or(0);
        let order =
            identity.as_ref().map(|identity| identity.order).or(heads.first().map(|head| head.order)).unwrap_or(0);
        let state = head.as_ref().map(|head| (head.progress.next.position.saturating_sub(1), head.order));
        let source = if options.durable {
            let node = link.seen().map_or(1, |client| client.welcome().daemon.node.0);
            let (label, address) = (name.clone(), address.clone());
            let (group, directory, options) = (&group, &*directory, &options);
            let wake = Arc::downgrade(&shared);
            let wanted = Wanted { group, directory, options, node, label, address, state };
            let own = OwnLog::open(wanted, move || wake.upgrade().into_iter().for_each(|shared| shared.wake()))?;
            Source::Own(Box::new(own))
        } else {
            Source::Daemons
        };
        let has_state = head.is_some();
        let progress = head.map_or_else(Progress::default, |head| head.progress);
        let engine = Engine::new(origin, progress);
        let of_group = seat::any_of(&group).program().to_owned();
        let shared_directory = options.shared.as_ref().map(|directory| directory.join(of_group));
        let parts = Parts {
            engine,
            link,
            group,
            shared,
            options,
            checkpoints,
            identity,
            name,
            address,
            has_state,
            mark,
            shared_directory,
            source,
            _served: served,
        };
        let driver = Driver::new(parts, driver::keeping(kept, order, serial));
        thread::spawn(move || driver.run(&requests));
        Ok(())
    }
}

/// Where others fetch checkpoints.
fn listen(options: &Options, directory: &Path, group: &GroupName) -> Result<(String, Arc<transfer::Served>), Error> {
    let at = options.transfer_at.unwrap_or_else(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
    let failed = |error: io::Error| {
        let why = format!("others cannot fetch checkpoints at {at}: {error}; give another address and port");
        Error::Checkpoints { directory: directory.to_owned(), why }
    };
    let listener = TcpListener::bind(at).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?.to_string();
    let (directory, group) = (directory.to_owned(), group.to_string());
    let served = transfer::Served { directory, group, rate: options.transfer_rate };
    Ok((address, transfer::serve(listener, served).map_err(failed)?))
}

/// What a server is called in the order: its machine and its directory, so that the same server is known again when its
/// disk is lost.
fn name_of(directory: &Path) -> String {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String =
        format!("{machine}:{}", directory.display()).chars().filter(|char| !char.is_whitespace()).collect();
    match name.char_indices().rev().map(|(at, _)| at).take_while(|at| name.len() - at <= NAME_MAX).last() {
        Some(from) if from > 0 => name[from..].to_owned(),
        _ => name,
    }
}

//! A store: a replica of each partition, and what is asked of them.
use crate::arcs::{Arcs, PARTITIONS_MAX};
use crate::command::{Command, Outcome};
use crate::limits::Limits;
use crate::partition::Partition;
use crate::saved;
use bytes::Bytes;
use consort::{Address, GroupName, SessionOptions};
use consort_replica::{Error, Options, Outside, Pending, Replica, Response};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The longest name of a store.
pub const NAME_MAX: usize = 32;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Names the store: its groups are `kv.NAME.1` and so on, one for each partition.
    pub name: String,
    /// The daemons, in the order in which they are tried.
    pub daemons: Vec<Address>,
    /// How sessions are made.
    pub session: SessionOptions,
    /// How many partitions the store has, 1 to 64. All servers of a store say the same.
    pub partitions: u16,
    /// The number of servers that begin the store together, where the order forgets.
    pub founders: usize,
    /// Where the order forgets: a write is answered once a majority of the copies has synced it.
    pub durable: bool,
    /// A server that is durable goes on without what is missing, once.
    pub force: bool,
    /// How many copies of the store there are, where the order lasts or servers are durable; 0 for as many as there are daemons
    /// that vote.
    pub copies: u16,
    /// This server is to be the copy that has this number.
    pub copy: Option<u16>,
    /// Where other servers fetch checkpoints, where the order lasts; its port is that of the first partition, 0 for free ones.
    pub transfer_at: Option<SocketAddr>,
    /// Bytes a second that are sent to a server which lacks them, of each partition.
    pub transfer_rate: u64,
    /// A directory that all servers share, for checkpoints of those that lack one, where the order lasts.
    pub shared: Option<PathBuf>,
    /// Where checkpoints are kept, if any: a directory of this server's own.
    pub state: Option<PathBuf>,
    /// The same if the order lasts and no other is named, because each server needs one there.
    pub usual_state: Option<PathBuf>,
    /// A checkpoint of a partition is made behind so many of its commands.
    pub checkpoint_every: u64,
    /// Bytes of commands that are kept for servers which were away, in equal parts for the partitions.
    pub log_bytes: usize,
    /// What it takes at most.
    pub limits: Limits,
}

/// Why a store cannot be opened, or goes on no more.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The name cannot be one.
    #[error("store name `{0}`: use 1 to {NAME_MAX} letters, digits, - and _")]
    Name(String),
    /// There are too many partitions, or none.
    #[error("{0} partitions; give 1 to {PARTITIONS_MAX}")]
    Partitions(u16),
    /// The store was begun with another number of partitions.
    #[error("store `{name}` has {held} partitions, not {given}; give {held}")]
    Layout {
        /// Which store.
        name: String,
        /// How many it has.
        held: u16,
        /// How many were given.
        given: u16,
    },
    /// A partition's replica could not start, or has ended. The other partitions go on.
    #[error("partition {partition}: {error}")]
    Replica {
        /// Which, from 1.
        partition: usize,
        /// Why.
        error: Error,
    },
}

/// What a store holds of a command's bytes until it is applied.
struct UnderWay {
    bytes: Bytes,
    all: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for UnderWay {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// A server's part of a store: a replica of each partition. One that could not start, or has ended, stops no other.
#[derive(Debug)]
pub struct Store {
    name: String,
    arcs: Arcs,
    /// Of each partition its replica, or why it could not start.
    replicas: Vec<Result<Replica<Partition>, Error>>,
    lasts: bool,
    keeps_checkpoints: bool,
    limits: Limits,
    under_way: Arc<AtomicUsize>,
}

impl Store {
    /// Starts the replicas. It serves once [`Self::found`] has succeeded.
    ///
    /// # Errors
    /// [`StoreError`]: what was given is wrong, or no replica could start. One that could not is among [`Self::ended`].
    pub fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions { name, partitions, limits, .. } = options;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name) {
            return Err(StoreError::Name(name.clone()));
        }
        if !(1..=PARTITIONS_MAX).contains(partitions) {
            return Err(StoreError::Partitions(*partitions));
        }
        let replicas = (1..=usize::from(*partitions)).map(|partition| start(options, partition));
        let replicas: Vec<_> = replicas.collect::<Result<_, _>>()?;
        let store = Self {
            name: name.clone(),
            arcs: Arcs::new(*partitions),
            lasts: replicas.iter().flatten().all(Replica::lasts),
            keeps_checkpoints: options.state.is_some(),
            replicas,
            limits: *limits,
            under_way: Arc::default(),
        };
        store.check().map(|()| store)
    }

    /// Says in each partition how many there are; true once all have taken that. False while a replica is not up to date:
    /// to be asked again, see [`Self::waits_for`]. A partition whose replica has ended is left out.
    ///
    /// # Errors
    /// [`StoreError::Layout`] where the store has another number; [`StoreError::Replica`] where the daemons refuse it, and
    /// where all partitions have ended: the first one's reason.
    pub fn found(&self) -> Result<bool, StoreError> {
        self.check()?;
        let given = self.arcs.partitions();
        let goes_on = |at: &usize| self.replica(*at).is_ok();
        let begin = |at| (at, self.begin(at, &Command::Found { partitions: given }));
        let asked: Vec<_> = (0..self.replicas.len()).filter(goes_on).map(begin).collect();
        for (at, asked) in asked {
            let Some(asked) = asked else { return Ok(false) };
            match asked.wait() {
                Ok(response) => match Outcome::decode(&response.bytes.into()) {
                    Ok(Outcome::Founded(held)) if held == given => {}
                    Ok(Outcome::Founded(held)) => {
                        return Err(StoreError::Layout { name: self.name.clone(), held, given });
                    }
                    _ => return Ok(false),
                },
                Err(Error::Refused(why)) => {
                    return Err(StoreError::Replica { partition: at + 1, error: Error::Refused(why) });
                }
                // It is not up to date, or has ended since.
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether it has a partition that goes on.
    ///
    /// # Errors
    /// [`StoreError::Replica`]: the first that ended, if all have.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut ended = self.ended();
        let first = ended.next();
        match first {
            Some(first) if ended.count() + 1 == self.replicas.len() => Err(first),
            _ => Ok(()),
        }
    }

    /// The partitions whose replica could not start, or has ended, with the reason.
    pub fn ended(&self) -> impl Iterator<Item = StoreError> {
        let ended = |at| self.replica(at).err().map(|error| StoreError::Replica { partition: at + 1, error });
        (0..self.replicas.len()).filter_map(ended)
    }

    /// The replica of a partition, counted from 0.
    ///
    /// # Errors
    /// Why it could not start, or what has ended it.
    pub fn replica(&self, partition: usize) -> Result<&Replica<Partition>, Error> {
        let replica = self.replicas.get(partition).ok_or(Error::Stopped)?.as_ref().map_err(Clone::clone)?;
        replica.ended().map_or(Ok(replica), Err)
    }

    /// Why one of these partitions, counted from 0, orders nothing here, in words.
    pub fn waits_for(&self, partitions: impl IntoIterator<Item = usize>) -> Option<String> {
        let why = |at: usize| match self.replicas.get(at)? {
            Ok(replica) => replica.waits_for(),
            Err(error) => Some(error.to_string()),
        };
        partitions.into_iter().find_map(|at| Some(format!("partition {}: {}", at + 1, why(at)?)))
    }

    /// All partitions, counted from 0.
    pub const fn all(&self) -> Range<usize> {
        0..self.replicas.len()
    }

    /// Ends all replicas, with a last checkpoint where they keep them. Calls `done` for each partition, counted from 1, as soon
    /// as it has ended.
    pub fn stop(&self, done: impl Fn(usize, Result<(), Error>) + Sync) {
        let done = &done;
        // All at once: each may wait a while for a daemon that is gone.
        thread::scope(|scope| {
            for (at, replica) in self.replicas.iter().enumerate() {
                scope.spawn(move || done(at + 1, replica.clone().and_then(Replica::stop)));
            }
        });
    }

    /// How many bytes of checkpoints its replicas have written, for example to see whether the last ones come on.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.replicas.iter().flatten().map(Replica::checkpoint_bytes).sum()
    }

    /// Whether what was answered outlives the loss of every process: the order lasts, and this server has a directory.
    pub const fn lasts(&self) -> bool {
        self.lasts
    }

    /// What a stop of all servers would lose, in one sentence.
    pub const fn what_is_kept(&self) -> &'static str {
        match (self.lasts(), self.keeps_checkpoints) {
            (true, _) => "a write that was answered outlives the loss of every process",
            (false, true) => "if all servers stop at a time, writes since the last checkpoint are lost",
            (false, false) => "if all servers stop at a time, everything is lost",
        }
    }

    /// The store's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How keys lie on partitions.
    pub const fn arcs(&self) -> Arcs {
        self.arcs
    }

    /// What it takes at most.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Bytes that each partition may hold.
    pub fn budget(&self) -> u64 {
        self.limits.memory / u64::from(self.arcs.partitions())
    }

    /// Begins a command of a partition. `None` where more is under way than may be, or the partition's replica never started.
    pub fn begin(&self, partition: usize, command: &Command<'_>) -> Option<Pending<Response>> {
        let bytes = command.encode();
        let before = self.under_way.fetch_add(bytes.len(), Ordering::Relaxed);
        let fits = before + bytes.len() <= self.limits.under_way.max(bytes.len());
        let guarded = UnderWay { bytes, all: Arc::clone(&self.under_way) };
        let replica = self.replicas.get(partition).filter(|_| fits)?.as_ref().ok()?;
        Some(replica.begin(Bytes::from_owner(guarded)))
    }
}

/// The partitions have ports one behind the other.
fn transfer_at(first: SocketAddr, partition: usize) -> SocketAddr {
    let port = if first.port() == 0 { 0 } else { first.port().saturating_add(partition as u16 - 1) };
    SocketAddr::new(first.ip(), port)
}

/// A replica, or why it cannot start.
fn start(options: &StoreOptions, partition: usize) -> Result<Result<Replica<Partition>, Error>, StoreError> {
    let group = GroupName::new(format!("kv.{}.{partition}", options.name));
    let group = group.map_err(|_| StoreError::Name(options.name.clone()))?;
    let replica = Options::at(&options.daemons)
        .session(options.session.clone())
        .founders(options.founders)
        .copies(options.copies)
        .copy(options.copy)
        .transfer_at(options.transfer_at.map(|at| transfer_at(at, partition)))
        .shared(options.shared.clone())
        .transfer_rate(options.transfer_rate)
        .outside(Outside::Refused)
        .log_bytes(options.log_bytes / usize::from(options.partitions))
        .checkpoint_every(options.checkpoint_every);
    let start = |state: Option<&PathBuf>| {
        let directory = state.map(|state| saved::directory(state, partition));
        let mut replica = directory.into_iter().fold(replica.clone(), Options::checkpoints);
        (replica.durable, replica.force) = (options.durable, options.force);
        Replica::start(Partition::default(), &group, replica)
    };
    Ok(match (start(options.state.as_ref()), &options.usual_state) {
        (Err(Error::NoDirectory), Some(usual)) => {
            tracing::info!("partition {partition} keeps its state below {}", usual.display());
            start(Some(usual))
        }
        (started, _) => started,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_whose_partitions_have_all_ended_is_not_found() {
        let ended = |_| Err(Error::Refused("its directory is a copy".to_owned()));
        let store = Store {
            name: "main".to_owned(),
            arcs: Arcs::new(2),
            replicas: (1..=2).map(ended).collect(),
            lasts: true,
            keeps_checkpoints: true,
            limits: Limits::default(),
            under_way: Arc::default(),
        };
        let error = store.found().unwrap_err().to_string();
        assert!(error.starts_with("partition 1: ") && error.contains("is a copy"), "{error}");
    }
}

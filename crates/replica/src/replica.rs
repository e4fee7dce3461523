//! The handle of a replica: for many threads.
use crate::checkpoint::{Checkpoints, Head};
use crate::cut::{Cut, Entries};
use crate::driver::Driver;
use crate::engine::{Engine, Settings};
use crate::lasting::{self, Beginning};
use crate::line::{Line, Origin, Others, ReplicaId, Seen, random};
use crate::machine::{Position, StateMachine};
use crate::options::{Error, Options, Response};
use crate::pending::{Pending, pending};
use crate::shared::{Looks, Request, Shared, State};
use bytes::Bytes;
use consort::{GroupName, Session};
use rustix::event::{EventfdFlags, eventfd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;

/// A replica of a state machine, in this program. Clones are handles of the same replica, for as many threads as there
/// are; it ends with [`Self::stop`], or when the last handle is dropped.
///
/// See the [crate](crate) for what it promises.
pub struct Replica<M: StateMachine> {
    requests: Sender<Request>,
    shared: Arc<Shared<M>>,
    last: Arc<Last<M>>,
    lasts: bool,
}

struct Last<M>(Arc<Shared<M>>);

impl<M> Drop for Last<M> {
    /// The requests' end is noticed.
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl<M: StateMachine> std::fmt::Debug for Replica<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("position", &self.position()).finish_non_exhaustive()
    }
}

impl<M: StateMachine> Clone for Replica<M> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
            shared: Arc::clone(&self.shared),
            last: Arc::clone(&self.last),
            lasts: self.lasts,
        }
    }
}

impl<M: StateMachine> Replica<M> {
    /// Starts a replica of the machine that the members of `group` share. The machine takes the state of its newest
    /// checkpoint, where there is one, and what it lacks from another replica. It need not be up to date yet when this
    /// returns: calls and [`Self::read_latest`] wait for that.
    ///
    /// # Errors
    /// [`Error::Checkpoints`] where the directory cannot be used, or the machine takes none of the checkpoints that are
    /// whole; [`Error::NoDirectory`] where the order lasts, or it is to be durable, and there is none; [`Error::Durable`] where replicas cannot be
    /// durable; [`Error::Session`] where no daemon can be reached.
    ///
    /// # Panics
    /// If the operating system has no random bytes.
    pub fn start(mut machine: M, group: &GroupName, options: Options) -> Result<Self, Error> {
        if options.daemons.is_empty() {
            return Err(Error::Session("no daemon is named; give the address of at least one".to_owned()));
        }
        let open = |directory| Checkpoints::open(directory).map_err(|error| Error::directory(directory, &error));
        let checkpoints = options.checkpoints.as_deref().map(open).transpose()?;
        let (link, lasts) = lasting::ask_kind(group, &options)?;
        if options.durable && lasts {
            return Err(Error::Durable(
                "the daemons keep an order that lasts, so that nothing answered is lost; leave it out",
            ));
        }
        if options.durable && options.copies == 0 {
            return Err(Error::Durable("say how many copies there are, for example 3"));
        }
        if !lasts && !options.durable {
            return Self::start_forgetful(machine, group, options, checkpoints);
        }
        //= RS03
        let checkpoints = checkpoints.ok_or(Error::NoDirectory)?;
        let beginning = Beginning::load(link, checkpoints, options.durable, &mut machine)?;
        let origin = Origin(random());
        let (replica, receiver) = Self::handle(machine, group, origin, beginning.applied())?;
        beginning.run(group.clone(), options, Arc::clone(&replica.shared), origin, receiver)?;
        Ok(Self { lasts: true, ..replica })
    }

    /// On an order that forgets: replicas agree among each other who is up to date.
    fn start_forgetful(
        mut machine: M,
        group: &GroupName,
        options: Options,
        checkpoints: Option<Checkpoints>,
    ) -> Result<Self, Error> {
        let read = |checkpoints: &Checkpoints, machine: &mut M| -> std::io::Result<Option<(Head, Option<Others>)>> {
            let head: Option<Head> = checkpoints.load(machine)?;
            head.map(|head| Ok((head, checkpoints.others()?))).transpose()
        };
        let read = match &checkpoints {
            Some(checkpoints) => {
                read(checkpoints, &mut machine).map_err(|error| Error::directory(checkpoints.directory(), &error))?
            }
            None => None,
        };
        let (head, others) = read.unzip();
        let fresh = || (ReplicaId(random()), Line::default(), Seen::default());
        let (id, line, seen) = head.map_or_else(fresh, |head| (head.id, head.line, head.seen));
        let settings = Settings {
            id,
            origin: Origin(random()),
            founders: options.founders,
            forces: options.force,
            log_bytes: options.log_bytes,
        };
        let failed = |error: consort::Error| Error::Session(error.to_string());
        // The thread waits for the daemon and for calls at once, which takes a descriptor.
        let mut session = options.session.clone();
        session.connect = session.connect.without_shared_memory();
        // It bounds by itself what is under way, and must never wait while it sends.
        session.unsettled_max = usize::MAX;
        let mut session = Session::connect(&options.daemons, session).map_err(failed)?;
        session.join(group).map_err(failed)?;
        let (replica, receiver) = Self::handle(machine, group, settings.origin, line.end.position)?;
        let mut engine = Engine::new(settings, line, seen);
        others.flatten().into_iter().for_each(|others| engine.recall(others));
        let driver = Driver::new(engine, session, group.clone(), Arc::clone(&replica.shared), options, checkpoints);
        thread::spawn(move || driver.run(&receiver));
        Ok(replica)
    }

    /// The handle of one whose machine has this number of commands; its thread takes the requests.
    fn handle(machine: M, group: &GroupName, origin: Origin, applied: u64) -> Result<(Self, Receiver<Request>), Error> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = wake.map_err(|error| Error::Session(error.to_string()))?;
        let shared = Arc::new(Shared {
            machine: RwLock::new(machine),
            state: Mutex::new(State { position: Position(applied), ..State::default() }),
            wake,
            group: group.clone(),
            origin,
            cuts: AtomicU64::new(0),
            looks: Mutex::new(Looks::default()),
            stops: AtomicBool::new(false),
            written: AtomicU64::new(0),
        });
        let (requests, receiver) = channel();
        let last = Arc::new(Last(Arc::clone(&shared)));
        Ok((Self { requests, shared, last, lasts: false }, receiver))
    }

    /// Has all replicas take a command, once, and waits for the response.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn call(&self, command: impl Into<Bytes>) -> Result<Response, Error> {
        self.begin(command).wait()
    }

    /// The same without waiting: the answer is waited for, or awaited, later. Commands of one thread are taken in the
    /// order in which they were begun, unless daemons forgot their session.
    ///
    /// The answer is [`Error::Outside`] where commands do not wait, see [`Options::outside`]; [`Error::Refused`],
    /// [`Error::Unseen`], or what ended the replica. After what ended it ([`Error::Stopped`], [`Error::Session`],
    /// [`Error::Parted`], [`Error::Restore`]) a command that was begun may still be taken.
    pub fn begin(&self, command: impl Into<Bytes>) -> Pending<Response> {
        let (answer, pending) = pending();
        self.request(Request::Call(command.into(), answer));
        pending
    }

    /// Looks at the machine as it is here. What was answered elsewhere may not be in it yet; it never goes back, unless
    /// the machine parted. While this runs no command is taken here.
    pub fn read<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&self.shared.machine.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the machine once it has all commands that were answered before this call, at any replica. Costs a message
    /// for all that wait together, and changes nothing.
    ///
    /// # Errors
    /// [`Error::Outside`] where nothing waits; what ended the replica.
    pub fn read_latest<T>(&self, look: impl FnOnce(&M) -> T) -> Result<T, Error> {
        self.catch_up().wait()?;
        Ok(self.read(look))
    }

    /// The first half of [`Self::read_latest`]: answered once the machine has all that was answered before. To await it.
    pub fn catch_up(&self) -> Pending<()> {
        let (answer, pending) = pending();
        self.request(Request::Mark(answer));
        pending
    }

    /// Looks at machines of several groups at one place of the order that all of them share: each has what was answered
    /// before this call, at any replica, and none has what another lacks that came before it. `look` is told which of the
    /// `replicas` it sees. It runs in the thread of that replica, which takes no command meanwhile. Nothing is changed.
    ///
    /// The replicas are of one cluster, each of a group of its own. Where the daemons have many rings, one of them must be
    /// global.
    ///
    /// The answer is [`Error::Outside`] where a replica is not up to date, or was not where the place passed: ask again.
    /// It is [`Error::Refused`] where the daemons order nothing for all these groups, and what ended a replica.
    pub fn cut<T: Send + 'static>(
        replicas: &[Self],
        look: impl Fn(usize, &M) -> T + Send + Sync + 'static,
    ) -> Cut<M, T> {
        let shared: Vec<_> = replicas.iter().map(|replica| Arc::clone(&replica.shared)).collect();
        let id = shared
            .first()
            .map_or((Origin(0), 0), |first| (first.origin, first.cuts.fetch_add(1, Ordering::Relaxed) + 1));
        let groups = shared.iter().map(|shared| shared.group.clone()).collect();
        let (entries, pending, all_wait) = Entries::enter(shared, id, look);
        if let (Some(first), true) = (replicas.first(), all_wait) {
            first.request(Request::Cut(id, groups));
        }
        Cut::new(pending, entries)
    }

    /// Whether what was answered outlives the loss of every process: the order lasts, or replicas are durable. Otherwise it is lost with all replicas, but for what their newest checkpoints have.
    pub const fn lasts(&self) -> bool {
        self.lasts
    }

    /// How far the machine is here.
    pub fn position(&self) -> Position {
        self.shared.state().position
    }

    /// Why commands wait, in words; `None` where they do not.
    pub fn waits_for(&self) -> Option<String> {
        self.shared.state().waits.clone()
    }

    /// What has ended the replica, if anything has.
    pub fn ended(&self) -> Option<Error> {
        self.shared.state().ended.clone()
    }

    /// How many bytes of checkpoints it has written since it started, for example to see whether the last one comes on.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Ends the replica; if it keeps checkpoints, with one. Returns once that is on the disk, also if something else had
    /// ended the replica before. The others learn that it is gone.
    ///
    /// # Errors
    /// What ended it before, or [`Error::Checkpoints`].
    pub fn stop(self) -> Result<(), Error> {
        let (answer, pending) = pending();
        self.shared.stops.store(true, Ordering::Relaxed);
        self.request(Request::Stop(answer));
        pending.wait()
    }

    fn request(&self, request: Request) {
        // Sent before the end is told, so that the thread sees it and says why; or refused here.
        let mut state = self.shared.state();
        let refused = match (&state.ended, request) {
            (Some(_), Request::Stop(answer)) if !state.finished => {
                state.stopping.push(answer);
                None
            }
            (Some(error), request) => Some((request, error.clone())),
            (None, request) => self.requests.send(request).err().map(|unsent| (unsent.0, Error::Stopped)),
        };
        drop(state);
        refused.into_iter().for_each(|(request, error)| request.refuse(&self.shared, error));
        self.shared.wake();
    }
}

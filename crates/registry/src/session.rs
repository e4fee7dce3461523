//! One session with the servers: this node is kept registered, and what stands there is read whenever it changes.
use crate::layout::{self, Ephemeral};
use crate::reading::{Found, Reading};
use crate::{Event, Member, Settings};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use zookeeper_client::{
    Acls, AddWatchMode, Client, CreateMode, CreateOptions, Error, EventType, PersistentWatcher, SessionState,
    StateWatcher, WatchedEvent,
};

/// So often all is looked at though nothing is said to have changed: a watch may lose events where a connection breaks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Changes that come together are looked at together.
const GATHERING: Duration = Duration::from_millis(100);

/// A session with what it needs to know.
pub(crate) struct Session<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) member: &'a Member,
    pub(crate) reading: &'a mut Reading,
    pub(crate) tell: &'a mut dyn FnMut(Event),
}

impl Session<'_> {
    /// Connects; no longer than a session lasts.
    pub(crate) async fn connect(settings: &Settings) -> Result<Client, Error> {
        let connector = Client::connector().with_session_timeout(settings.session).with_fail_eagerly();
        connector.connect(&settings.servers.join(",")).await
    }

    /// Keeps to the session until it ends. The servers may be away for a while meanwhile.
    pub(crate) async fn keep(&mut self, client: &Client) -> Error {
        match self.go_on(client).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn go_on(&mut self, client: &Client) -> Result<std::convert::Infallible, Error> {
        let mut states = client.state_watcher();
        self.make_folders(client).await?;
        let mut watcher = client.watch(&self.settings.prefix, AddWatchMode::PersistentRecursive).await?;
        let mut registered = false;
        loop {
            if client.state() == SessionState::Disconnected {
                registered = false;
                (self.tell)(Event::Away);
            }
            back(&mut states).await?;
            match self.look(client).await {
                // Another daemon that claims to be this node would take its place back at once, and so on.
                Ok(Taken::Some) if registered => {
                    tracing::warn!(node = %self.member.node, "another daemon registers as this node: give each its own number");
                    sleep(self.settings.session).await;
                }
                Ok(_) if !registered => {
                    registered = true;
                    (self.tell)(Event::Registered);
                }
                // What fails while the servers are away is tried again; a session that has ended fails for good.
                Ok(_) | Err(Error::ConnectionLoss) => {}
                Err(error) => return Err(error),
            }
            await_change(&mut watcher).await?;
        }
    }

    /// Registers what is not registered, and reads what is advised.
    async fn look(&mut self, client: &Client) -> Result<Taken, Error> {
        let mut taken = Taken::None;
        for one in layout::ephemerals(&self.settings.prefix, self.member) {
            taken = taken.max(self.register(client, &one).await?);
        }
        for ring in &self.member.rings {
            let found = self.read(client, ring.ring).await?;
            for advice in self.reading.take(ring.ring, &found) {
                (self.tell)(Event::Advised(advice));
            }
        }
        Ok(taken)
    }

    async fn make_folders(&self, client: &Client) -> Result<(), Error> {
        for folder in layout::folders(&self.settings.prefix, self.member) {
            made(self.ask(client.create(&folder, b"", &options(CreateMode::Persistent))).await)?;
        }
        Ok(())
    }

    /// Sees to it that a node stands there in the name of this session, and says what it should.
    async fn register(&self, client: &Client, one: &Ephemeral) -> Result<Taken, Error> {
        let data = one.data.as_bytes();
        let mut taken = Taken::None;
        match self.ask(client.get_data(&one.path)).await {
            Ok((found, stat)) if stat.ephemeral_owner == client.session_id().0 && found == data => return Ok(taken),
            // An earlier session of this node's has not ended yet; or another daemon claims to be this node.
            Ok((_, stat)) => {
                taken = Taken::Some;
                none_is_fine(self.ask(client.delete(&one.path, Some(stat.version))).await)?;
            }
            Err(error) => none_is_fine(Err(error))?,
        }
        match self.ask(client.create(&one.path, data, &options(CreateMode::Ephemeral))).await {
            // Somebody has cleaned up; the next look finds the folders.
            Err(Error::NoNode) => self.make_folders(client).await?,
            created => made(created)?,
        }
        Ok(taken)
    }

    async fn read(&self, client: &Client, ring: u16) -> Result<Found, Error> {
        let prefix = &self.settings.prefix;
        let acceptors = match self.ask(client.list_children(&layout::acceptors(prefix, ring))).await {
            Err(Error::NoNode) => Vec::new(),
            children => children?,
        };
        let coordinator = self.text(client, &layout::coordinator(prefix, ring)).await?;
        let order = self.text(client, &layout::order(prefix, ring)).await?;
        Ok(Found { acceptors, coordinator, order })
    }

    async fn text(&self, client: &Client, path: &str) -> Result<Option<String>, Error> {
        match self.ask(client.get_data(path)).await {
            Ok((data, _)) => Ok(Some(String::from_utf8_lossy(&data).into_owned())),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An answer, or that none came while the session could have lasted.
    async fn ask<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        timeout(self.settings.session, question).await.unwrap_or(Err(Error::Timeout))
    }
}

/// Whether a place was taken that stood in the name of another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Taken {
    None,
    Some,
}

/// What is not there is gone already.
fn none_is_fine(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(Error::NoNode) => Ok(()),
        done => done,
    }
}

/// Everybody who reaches the servers may change what stands there: it only advises.
fn options(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}

/// What is there already need not be made.
fn made<T>(created: Result<T, Error>) -> Result<(), Error> {
    match created {
        Ok(_) | Err(Error::NodeExists) => Ok(()),
        Err(error) => Err(error),
    }
}

const fn is_over(state: SessionState) -> bool {
    matches!(state, SessionState::Expired | SessionState::AuthFailed | SessionState::Closed)
}

/// Waits until something changes, or until it is time to look anyway.
async fn await_change(watcher: &mut PersistentWatcher) -> Result<(), Error> {
    if let Ok(event) = timeout(LOOK_EVERY, watcher.changed()).await {
        goes_on(&event)?;
        sleep(GATHERING).await;
        // What has come meanwhile is seen by the next look.
        while let Ok(event) = timeout(Duration::ZERO, watcher.changed()).await {
            goes_on(&event)?;
        }
    }
    Ok(())
}

/// Whether there may be another event: behind the end of the session there is none, and a watcher must not be asked.
fn goes_on(event: &WatchedEvent) -> Result<(), Error> {
    let ends = event.event_type == EventType::Session && is_over(event.session_state);
    if ends { Err(Error::SessionExpired) } else { Ok(()) }
}

/// Waits until the servers answer again within the session.
async fn back(states: &mut StateWatcher) -> Result<(), Error> {
    loop {
        match states.state() {
            state if is_over(state) => return Err(Error::SessionExpired),
            SessionState::Disconnected => drop(states.changed().await),
            _ => return Ok(()),
        }
    }
}

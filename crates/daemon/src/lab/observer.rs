//! A client at one daemon that lives in this process: it sends at a steady pace and tells what it is told of the
//! network, with the time at which it heard.
use super::sender::said;
use crate::clock::now_ns;
use crate::failure::{Outcome, Trying};
use consort::{Address, Client, ConnectOptions, Error, Event, GroupName, NetworkView, Service};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often an observer looks whether it is still wanted, in nanoseconds.
const LOOK: u64 = 50_000_000;

/// What an observer does beside listening.
#[derive(Clone, Debug)]
pub struct Task {
    /// The socket of its daemon.
    pub door: PathBuf,
    /// The group that it joins and sends to.
    pub group: String,
    /// The bytes of each message.
    pub size: usize,
    /// The time between two messages.
    pub pace: Duration,
}

/// One piece of news.
#[derive(Debug)]
pub struct Told {
    /// The number of the observer that tells it.
    pub by: u64,
    /// When it heard, on the clock that all processes share.
    pub at: u64,
    pub heard: Heard,
}

/// What an observer can hear.
#[derive(Debug)]
pub enum Heard {
    /// The network changed.
    View(NetworkView),
    /// Its session is over; why.
    Ended(String),
}

/// A running observer. It ends when this is dropped, or with its session.
#[derive(Debug)]
pub struct Observer {
    unwanted: Arc<AtomicBool>,
}

impl Observer {
    /// Connects, and tells from then on what comes.
    pub fn start(number: u64, task: Task, tell: Sender<Told>) -> Outcome<Self> {
        let options = ConnectOptions { wants_views: true, ..ConnectOptions::default() };
        let mut client = Client::connect(&Address::Unix(task.door.clone()), &options).map_err(said)?;
        let group = GroupName::new(task.group.as_bytes()).trying(|| "group".into())?;
        client.join(&group).map_err(said)?;
        let unwanted = Arc::new(AtomicBool::new(false));
        let listener = Listener { number, client, group, tell, unwanted: Arc::clone(&unwanted) };
        std::thread::spawn(move || listener.listen(&task));
        Ok(Self { unwanted })
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

struct Listener {
    number: u64,
    client: Client,
    group: GroupName,
    tell: Sender<Told>,
    unwanted: Arc<AtomicBool>,
}

impl Listener {
    fn listen(mut self, task: &Task) {
        if let Err(error) = self.attend(task) {
            self.tell(Heard::Ended(error.to_string()));
        }
    }

    fn attend(&mut self, task: &Task) -> Result<(), Error> {
        let message = vec![b'.'; task.size];
        let pace = task.pace.as_nanos() as u64;
        // Those that start together do not send together.
        let mut due = now_ns() + pace * (self.number % 16) / 16;
        while !self.unwanted.load(Ordering::Relaxed) {
            let left = due.saturating_sub(now_ns()).min(LOOK);
            if let Some(Event::View(view)) = self.client.receive(Duration::from_nanos(left))? {
                self.tell(Heard::View(view));
            }
            if now_ns() >= due {
                self.send(&message)?;
                due += pace;
            }
        }
        Ok(())
    }

    /// While the daemon takes nothing the message is left out: this is a load, not a promise.
    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        let sent = self.client.try_multicast(Service::Agreed, std::slice::from_ref(&self.group), message);
        match sent {
            Err(Error::WouldBlock { .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn tell(&self, heard: Heard) {
        // Whoever does not listen any more misses nothing.
        let _ = self.tell.send(Told { by: self.number, at: now_ns(), heard });
    }
}

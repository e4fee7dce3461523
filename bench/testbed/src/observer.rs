//! A client at one daemon that lives in this process: it sends at a steady pace and tells what it is told, with the time
//! at which it heard.
use super::native::said;
use consort::{Address, Client, ConnectOptions, Error, Event, GroupName, Progress, Service, Welcome};
use consort_daemon::clock::now_ns;
use consort_daemon::failure::{Outcome, Trying};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often an observer looks whether anything else is wanted of it, in nanoseconds.
const LOOK: u64 = 50_000_000;

/// Makes the message of each number, from 1.
pub type Make = Box<dyn FnMut(u64) -> (Service, Vec<u8>) + Send>;

/// What an observer does beside listening.
pub struct Task {
    /// What it sends.
    pub make: Make,
    /// The time between two messages.
    pub pace: Duration,
    /// Whether it tells everything; else only of the network.
    pub all: bool,
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

/// What an observer can tell.
#[derive(Debug)]
pub enum Heard {
    /// The daemon told this.
    Event(Event),
    /// How far its sends are; told once all that was read before is.
    Progress(Progress),
    /// It sent its message `count`, as the session's request `number`.
    Sent { count: u64, number: u64, service: Service, len: usize },
    /// It sends no more, as it was asked to.
    Hushed,
    /// Its session is over; why.
    Ended(String),
}

/// A client that is connected and has asked to join a group.
#[derive(Debug)]
pub struct Visitor {
    client: Client,
    group: GroupName,
}

/// A running observer. It ends when this is dropped, or with its session.
#[derive(Debug)]
pub struct Observer {
    pub number: u64,
    wants: Arc<Wants>,
}

#[derive(Debug, Default)]
struct Wants {
    hush: AtomicBool,
    end: AtomicBool,
}

impl Visitor {
    /// Connects to a daemon.
    pub fn connect(socket: PathBuf, group: &str) -> Outcome<Self> {
        let options = ConnectOptions::default().with_views();
        let mut client = Client::connect(&Address::Unix(socket), &options).map_err(said)?;
        let group = GroupName::new(group.as_bytes()).trying(|| "group".into())?;
        client.join(&group).map_err(said)?;
        Ok(Self { client, group })
    }

    /// What the daemon said when the session opened.
    pub const fn welcome(&self) -> &Welcome {
        self.client.welcome()
    }

    /// Listens and sends from here on.
    pub fn observe(self, number: u64, task: Task, tell: Sender<Told>) -> Observer {
        let wants = Arc::new(Wants::default());
        let listener = Listener {
            number,
            visitor: self,
            tell,
            wants: Arc::clone(&wants),
            joined: false,
            hushed: false,
            sent: 0,
            progress: Progress::default(),
        };
        std::thread::spawn(move || listener.listen(task));
        Observer { number, wants }
    }
}

impl Observer {
    /// Asks it to send no more.
    pub fn hush(&self) {
        self.wants.hush.store(true, Ordering::Relaxed);
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.wants.end.store(true, Ordering::Relaxed);
    }
}

struct Listener {
    number: u64,
    visitor: Visitor,
    tell: Sender<Told>,
    wants: Arc<Wants>,
    /// The group has told it that it is in.
    joined: bool,
    hushed: bool,
    sent: u64,
    progress: Progress,
}

impl Listener {
    fn listen(mut self, mut task: Task) {
        if let Err(error) = self.attend(&mut task) {
            self.tell(now_ns(), Heard::Ended(error.to_string()));
        }
    }

    fn attend(&mut self, task: &mut Task) -> Result<(), Error> {
        let pace = task.pace.as_nanos() as u64;
        // Those that start together do not send together.
        let mut due = now_ns() + pace * (self.number % 16) / 16;
        while !self.wants.end.load(Ordering::Relaxed) {
            self.note_hush();
            let left = due.saturating_sub(now_ns()).min(LOOK);
            self.hear(task.all, left)?;
            if now_ns() >= due {
                self.send(task)?;
                due += pace;
            }
        }
        Ok(())
    }

    fn hear(&mut self, all: bool, within: u64) -> Result<(), Error> {
        let Some(event) = self.visitor.client.receive(Duration::from_nanos(within))? else {
            self.tell_progress(all);
            return Ok(());
        };
        self.joined |= matches!(event, Event::GroupView(_));
        if all || matches!(event, Event::View(_)) {
            self.tell(now_ns(), Heard::Event(event));
        }
        Ok(())
    }

    /// Nothing more is there to be read: whatever progress says has been told.
    fn tell_progress(&mut self, all: bool) {
        let progress = self.visitor.client.progress();
        if all && progress != self.progress {
            self.progress = progress;
            self.tell(now_ns(), Heard::Progress(progress));
        }
    }

    /// Sends, once it hears itself. While the daemon takes nothing the message is left out: this is a load.
    fn send(&mut self, task: &mut Task) -> Result<(), Error> {
        if !self.joined || self.hushed {
            return Ok(());
        }
        let count = self.sent + 1;
        let (service, message) = (task.make)(count);
        let at = now_ns();
        let sent = self.visitor.client.try_multicast(service, std::slice::from_ref(&self.visitor.group), &message);
        if matches!(sent, Err(Error::WouldBlock { .. })) {
            return Ok(());
        }
        self.sent = count;
        if task.all {
            // Where the session broke meanwhile the message may have got through.
            let number = self.visitor.client.sent();
            self.tell(at, Heard::Sent { count, number, service, len: message.len() });
        }
        sent.map(drop)
    }

    fn note_hush(&mut self) {
        if !self.hushed && self.wants.hush.load(Ordering::Relaxed) {
            self.hushed = true;
            self.tell(now_ns(), Heard::Hushed);
        }
    }

    fn tell(&self, at: u64, heard: Heard) {
        // Whoever does not listen any more misses nothing.
        let _ = self.tell.send(Told { by: self.number, at, heard });
    }
}

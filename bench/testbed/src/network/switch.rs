//! The switch in real time: one thread between the ports.
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::JoinHandle;

use consort_sim::link::{LinkCounts, LinkModel};
use consort_types::Instant;
use hdrhistogram::Histogram;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::ethernet::Ethernet;
use super::fabric::Fabric;
use super::namespace::{NetworkError, failed};
use super::port::{FRAME_MAX, Port};

/// How many frames are read from a port before frames that are due, and the other ports, have their turn.
const BURST: usize = 32;

/// The thread's nice value; Linux keeps one for each thread.
const NICE: i32 = -15;

/// What a switch did.
#[derive(Clone, Debug)]
pub struct Report {
    /// For each ordered pair of ports what its link did: from, to, counts.
    pub pairs: Vec<(usize, usize, LinkCounts)>,
    /// For each port what the cable to its station did; nothing where the switch is not one of an Ethernet.
    pub cables: Vec<LinkCounts>,
    /// Frames dropped because too many bytes were under way.
    pub overrun: u64,
    /// Frames an interface did not take, for it was down or without memory.
    pub refused: u64,
    /// By how many nanoseconds frames came later than their link wanted.
    pub late: Histogram<u64>,
}

enum Command {
    Set { from: usize, to: usize, model: LinkModel, done: SyncSender<()> },
    Multicast { to: usize, forwards: bool, done: SyncSender<()> },
    Plug { at: usize, port: Option<Port>, done: SyncSender<()> },
    Report { to: SyncSender<Report> },
    Stop,
}

/// A running switch; it ends with this value.
#[derive(Debug)]
pub struct Switch {
    commands: Sender<Command>,
    bell: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The switch's thread has ended (it panicked, or the kernel took its descriptors).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the switch has ended")]
pub struct Ended;

impl Switch {
    /// Starts switching between these ports, over perfect links whose chance comes from `seed`,
    /// and over cables if it is to be one of an Ethernet.
    ///
    /// # Errors
    /// The system's, if it has no descriptor or thread left.
    pub fn start(ports: Vec<Port>, seed: u64, ethernet: Option<&Ethernet>) -> Result<Self, NetworkError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed("make an eventfd"))?;
        let ear = bell.try_clone().map_err(failed("copy an eventfd"))?;
        let (commands, obeyed) = mpsc::channel();
        let fabric = Fabric::new(ports.len(), seed, ethernet);
        let builder = std::thread::Builder::new().name("switch".into());
        let thread =
            builder.spawn(move || Worker::new(ports, fabric, ear, obeyed).run()).map_err(failed("start a thread"))?;
        Ok(Self { commands, bell, thread: Some(thread) })
    }

    /// How frames fare that come in at port `from` and leave at port `to`. It holds when this returns; frames that are
    /// under way already stay so.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn set(&self, from: usize, to: usize, model: LinkModel) -> Result<(), Ended> {
        self.ask(|done| Command::Set { from, to, model, done })
    }

    /// Whether it forwards multicast to a port. It holds when this returns.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn forward_multicast(&self, to: usize, forwards: bool) -> Result<(), Ended> {
        self.ask(|done| Command::Multicast { to, forwards, done })
    }

    /// Puts another interface at a port, or none. The one that was there vanishes before this returns.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn plug(&self, at: usize, port: Option<Port>) -> Result<(), Ended> {
        self.ask(|done| Command::Plug { at, port, done })
    }

    /// What it did so far.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn report(&self) -> Result<Report, Ended> {
        self.ask(|to| Command::Report { to })
    }

    fn ask<T>(&self, question: impl FnOnce(SyncSender<T>) -> Command) -> Result<T, Ended> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.commands.send(question(reply)).map_err(|_| Ended)?;
        self.ring();
        answer.recv().map_err(|_| Ended)
    }

    /// Fails only where the bell rings already.
    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        self.ring();
        if let Some(thread) = self.thread.take() {
            // A panic of the switch was printed where it happened, and made every later call fail.
            let _ = thread.join();
        }
    }
}

/// The thread's own state.
struct Worker {
    ports: Vec<Option<Port>>,
    fabric: Fabric,
    bell: OwnedFd,
    commands: Receiver<Command>,
    epoch: std::time::Instant,
    refused: u64,
    late: Histogram<u64>,
    buffer: Box<[u8]>,
}

impl Worker {
    fn new(ports: Vec<Port>, fabric: Fabric, bell: OwnedFd, commands: Receiver<Command>) -> Self {
        Self {
            fabric,
            ports: ports.into_iter().map(Some).collect(),
            bell,
            commands,
            epoch: std::time::Instant::now(),
            refused: 0,
            late: lateness(),
            buffer: vec![0; FRAME_MAX].into(),
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }

    /// Until told to stop, or until nobody is left who could.
    fn run(mut self) {
        // Or the kernel may wake us 50 µs late, and let us wait while the nodes compute: no wire does that. Where either
        // is refused, frames are so much later, which the report tells.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _ = rustix::process::setpriority_process(None, NICE);
        while self.obey() {
            self.deliver();
            let Ok(ready) = self.wait() else { return };
            for port in ready {
                self.read(port);
                self.deliver();
            }
        }
    }

    /// False if told to stop.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Set { from, to, model, done }) => {
                    self.fabric.set(from, to, model);
                    let _ = done.send(());
                }
                Ok(Command::Multicast { to, forwards, done }) => {
                    self.fabric.forward_multicast(to, forwards);
                    let _ = done.send(());
                }
                Ok(Command::Plug { at, port, done }) => {
                    self.ports[at] = port;
                    let _ = done.send(());
                }
                Ok(Command::Report { to }) => {
                    let _ = to.send(self.report());
                }
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    fn report(&self) -> Report {
        Report {
            pairs: self.fabric.counts().collect(),
            cables: self.fabric.cable_counts(),
            overrun: self.fabric.overrun(),
            refused: self.refused,
            late: self.late.clone(),
        }
    }

    /// Sleeps until a port has a frame, a frame is due, or the bell rings. Returns the ports that have frames.
    fn wait(&self) -> rustix::io::Result<Vec<usize>> {
        let timeout = self.fabric.next_arrival().map(|at| timespec(at.since(self.now())));
        let mut polled = vec![PollFd::new(&self.bell, PollFlags::IN)];
        let mut numbers = Vec::with_capacity(self.ports.len());
        for (number, port) in self.ports.iter().enumerate() {
            if let Some(port) = port {
                polled.push(PollFd::new(port, PollFlags::IN));
                numbers.push(number);
            }
        }
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if !polled[0].revents().is_empty() {
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        let ready = polled[1..].iter().zip(numbers).filter(|(polled, _)| !polled.revents().is_empty());
        Ok(ready.map(|(_, number)| number).collect())
    }

    /// Reads a burst of frames. A port whose interface is gone is closed.
    fn read(&mut self, number: usize) {
        for _ in 0..BURST {
            let now = self.now();
            let Some(port) = &self.ports[number] else { return };
            match port.read(&mut self.buffer) {
                Ok(Some(len)) => self.fabric.accept(now, number, &self.buffer[..len]),
                Ok(None) => return,
                Err(_) => self.ports[number] = None,
            }
        }
    }

    /// Hands out what is due.
    fn deliver(&mut self) {
        let mut now = self.now();
        while let Some(arrival) = self.fabric.poll_arrival(now) {
            self.late.saturating_record(now.since(arrival.at).as_nanos() as u64);
            let written = self.ports[arrival.to].as_ref().is_some_and(|port| port.write(&arrival.frame).is_ok());
            self.refused += u64::from(!written);
            now = self.now();
        }
    }
}

/// From nanoseconds to ten seconds, to two digits.
fn lateness() -> Histogram<u64> {
    Histogram::new_with_max(10_000_000_000, 2).unwrap_or_else(|_| unreachable!("constant and legal bounds"))
}

fn timespec(span: std::time::Duration) -> Timespec {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: span.subsec_nanos().into() }
}

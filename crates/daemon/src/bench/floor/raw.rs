//! The far ends of bare sockets, each a process of its own, and what is measured with them.
use crate::failure::{Code, Failure, Outcome, Trying};
use crate::lab::figures::Times;
use crate::lab::helper::{Task, waiting};
use crate::lab::{FloodPlan, Line, Process, Scratch};
use crate::local::LocalCluster;
use consort_net::raw;
use serde::de::DeserializeOwned;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The bytes of a token without requests, envelope included.
pub const TOKEN: usize = 160;
/// How many hops are measured at most.
const HOPS: usize = 20_000;

/// The helper processes of the floor.
pub struct Helpers {
    directory: Scratch,
    tell: Sender<Line>,
    lines: Receiver<Line>,
}

impl Helpers {
    /// None yet.
    pub fn new() -> Outcome<Self> {
        let (tell, lines) = channel();
        Ok(Self { directory: Scratch::new()?, tell, lines })
    }

    /// A directory that goes away with the helpers.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The times that one datagram takes from one process to another, half a round each; measured so long.
    pub fn hop(&self, spin: bool, size: usize, limit: Duration) -> Outcome<Times> {
        let mut other = self.start("hop", &Task::AnswerHops { spin })?;
        let peer: SocketAddr = self.answer(&mut other)?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).trying(|| "cannot bind a socket".into())?;
        let hops = raw::measure_hops(&socket, peer, size, HOPS, limit, waiting(spin))
            .trying(|| "cannot measure a hop".into())?;
        other.stop();
        let mut times = Times::new()?;
        hops.into_iter().for_each(|hop| times.record(hop));
        Ok(times)
    }

    /// How many datagrams a second the slowest of so many receivers takes of one sender.
    pub fn flood(&self, kind: FloodKind, limit: Duration) -> Outcome<f64> {
        let FloodKind { size, receivers, gso, gro } = kind;
        let addresses = LocalCluster::new(&format!("floor-{}", std::process::id()), 1);
        let run = u64::from(std::process::id());
        let (group, sender) = (addresses.multicast(), addresses.token(1));
        let plan = FloodPlan { group, sender, size, gso, gro, receivers, limit, run };
        let task = Task::ReceiveFlood(plan);
        let start = |number: usize| self.start(&format!("flood-{number}"), &task);
        let mut others = (0..receivers).map(start).collect::<Outcome<Vec<_>>>()?;
        raw::send_flood(&plan.flood()).trying(|| "cannot multicast on the loopback interface".into())?;
        let mut slowest = f64::INFINITY;
        for other in &mut others {
            slowest = slowest.min(self.answer::<f64>(other)?);
        }
        others.into_iter().for_each(Process::stop);
        Ok(slowest)
    }

    /// Starts a helper.
    pub fn start(&self, name: &str, task: &Task) -> Outcome<Process> {
        Process::start(0, name, &task.words()?, self.directory.path(), &self.tell)
    }

    /// The next line of any helper, which says what it found.
    pub fn answer<T: DeserializeOwned>(&self, process: &mut Process) -> Outcome<T> {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(15));
            let line = line.map_err(|_| Failure::new("waited too long for the raw sockets").with(Code::Timeout))?;
            // A helper that is through closes its output: no news.
            let Some(text) = line.text else {
                if process.has_failed() {
                    return Err(process.ended());
                }
                continue;
            };
            return serde_json::from_str(&text).trying(|| format!("a helper said `{text}`"));
        }
    }
}

/// What is multicast, and how.
#[derive(Clone, Copy, Debug)]
pub struct FloodKind {
    /// Bytes of each datagram.
    pub size: usize,
    pub receivers: usize,
    /// Whether super-packets are sent, and whether they are received.
    pub gso: bool,
    pub gro: bool,
}

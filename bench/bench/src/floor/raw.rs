//! The far ends of bare sockets, each a process of its own, and what is measured with them.
use crate::failure::{Code, Failure, Outcome, Trying};
use crate::local::LocalCluster;
use consort_net::raw;
use consort_testbed::Times;
use consort_testbed::helper::{Task, waiting};
use consort_testbed::{FloodPlan, Line, Process, Scratch};
use serde::de::DeserializeOwned;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The bytes of a token without requests, envelope included.
const TOKEN: usize = 160;
/// How many rotations of a ring are measured at most.
const ROTATIONS: usize = 20_000;

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

    /// The times that a datagram of a token's size takes from one process of a ring to the next; measured so long.
    pub fn hop(&self, HopKind { processes, spin }: HopKind, limit: Duration) -> Outcome<Times> {
        let what = || "cannot bind a UDP socket on 127.0.0.1".into();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).trying(what)?;
        let mut next = socket.local_addr().trying(what)?;
        // The last first, so that each can be told of the one behind it.
        let mut others = Vec::new();
        for place in (1..processes).rev() {
            let mut other = self.start(&format!("hop-{place}"), &Task::PassHopsOn { next, spin })?;
            next = self.answer(&mut other)?;
            others.push(other);
        }
        let ring = raw::HopRing { processes: processes.into(), next, size: TOKEN, waiting: waiting(spin) };
        let hops = raw::measure_hops(&socket, &ring, ROTATIONS, limit);
        // One that ended too soon says more than the rest, which waited for it.
        if let Some(failure) = others.iter_mut().find_map(|other| other.has_failed().then(|| other.ended())) {
            return Err(failure);
        }
        others.into_iter().for_each(Process::stop);
        let mut times = Times::new()?;
        hops.map_err(|error| stalled(processes, &error))?.into_iter().for_each(|hop| times.record(hop));
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

/// Why nothing was measured of a ring all of whose processes live.
fn stalled(processes: u16, error: &io::Error) -> Failure {
    let failure = Failure::new(format!(
        "no datagram came round a ring of {processes} processes on 127.0.0.1: {error}; see that nothing keeps UDP from \
         the loopback interface, and measure again when the machine is less busy"
    ));
    if error.kind() == io::ErrorKind::TimedOut { failure.with(Code::Timeout) } else { failure }
}

/// Who passes a datagram on, and how.
#[derive(Clone, Copy, Debug)]
pub struct HopKind {
    /// How many processes the ring has.
    pub processes: u16,
    /// Whether they look again and again instead of sleeping.
    pub spin: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_stalls_is_told_with_where_and_what_to_do() {
        let failure = stalled(3, &io::ErrorKind::TimedOut.into());
        assert!(failure.code == Code::Timeout, "{failure:?}");
        let start = "no datagram came round a ring of 3 processes on 127.0.0.1: ";
        assert!(failure.message.starts_with(start) && failure.message.contains("; see that "), "{failure:?}");
    }
}

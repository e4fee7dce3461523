//! What bare sockets do on this machine, in the same run and with the same calls as the daemons'.
use super::Plan;
use crate::config::Profile;
use crate::failure::{Code, Failure, Outcome, Trying};
use crate::lab::helper::{Task, waiting};
use crate::lab::{FloodPlan, Line, Process, Scratch};
use crate::local::LocalCluster;
use consort_net::raw;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The bytes of a token without requests, envelope included.
const TOKEN: usize = 160;
/// How many hops are measured, and how long at most.
const HOPS: (usize, Duration) = (10_000, Duration::from_millis(700));
/// How long is multicast.
const FLOOD: Duration = Duration::from_millis(800);

/// The floor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// One datagram from one process to another: the median, in microseconds.
    pub hop_us_p50: f64,
    /// Datagrams a second that every receiver took.
    pub multicast_pps: f64,
    /// The bytes of one of them.
    pub packet_bytes: usize,
    /// How many processes received them.
    pub receivers: usize,
}

/// The helper processes of the floor.
struct Helpers {
    directory: Scratch,
    tell: Sender<Line>,
    lines: Receiver<Line>,
}

/// Measures hop and multicast as a plan's daemons would use them.
pub fn measure(plan: &Plan) -> Outcome<Floor> {
    let directory = Scratch::new()?;
    let (tell, lines) = channel();
    let helpers = Helpers { directory, tell, lines };
    let hop_us_p50 = hop(&helpers, plan.idling == Profile::Latency)?;
    let (packet_bytes, receivers) = (plan.datagram.get(), usize::from(plan.nodes).saturating_sub(1).max(1));
    let multicast_pps = flood(&helpers, packet_bytes, receivers)?;
    Ok(Floor { hop_us_p50, multicast_pps, packet_bytes, receivers })
}

fn hop(helpers: &Helpers, spin: bool) -> Outcome<f64> {
    let mut other = helpers.start("hop", &Task::AnswerHops { spin })?;
    let peer: SocketAddr = helpers.answer(&mut other)?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).trying(|| "cannot bind a socket".into())?;
    let mut hops = raw::measure_hops(&socket, peer, TOKEN, HOPS.0, HOPS.1, waiting(spin))
        .trying(|| "cannot measure a hop".into())?;
    hops.sort_unstable();
    other.stop();
    Ok(hops[hops.len() / 2] as f64 / 1_000.0)
}

fn flood(helpers: &Helpers, size: usize, receivers: usize) -> Outcome<f64> {
    let addresses = LocalCluster::new(&format!("floor-{}", std::process::id()), 1);
    let run = u64::from(std::process::id());
    let plan =
        FloodPlan { group: addresses.multicast(), sender: addresses.token(1), size, receivers, limit: FLOOD, run };
    let task = Task::ReceiveFlood(plan);
    let start = |number: usize| helpers.start(&format!("flood-{number}"), &task);
    let mut others = (0..receivers).map(start).collect::<Outcome<Vec<_>>>()?;
    raw::send_flood(&plan.flood()).trying(|| "cannot multicast on the loopback interface".into())?;
    let mut slowest = f64::INFINITY;
    for other in &mut others {
        slowest = slowest.min(helpers.answer::<f64>(other)?);
    }
    others.into_iter().for_each(Process::stop);
    Ok(slowest)
}

impl Helpers {
    fn start(&self, name: &str, task: &Task) -> Outcome<Process> {
        Process::start(0, name, &task.words()?, self.directory.path(), &self.tell)
    }

    /// The next line of any helper, which says what it found.
    fn answer<T: DeserializeOwned>(&self, process: &mut Process) -> Outcome<T> {
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

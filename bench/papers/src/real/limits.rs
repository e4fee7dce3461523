//! What this machine adds to the model: a wire has no cores to wait for.
use super::fleet::Fleet;
use super::{World, text};
use crate::samples::Samples;
use consort::ConnectOptions;
use consort_sim::link::LinkModel;
use consort_testbed::network::Network;
use consort_testbed::network::namespace::failed;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// How many round trips are measured, and questions asked.
const TRIALS: u32 = 200;
/// Where probes are sent to.
const PORT: u16 = 7_700;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was measured of the machine itself.
pub struct Limits {
    /// How much longer than its link says a packet takes between two programs, with nothing else to do.
    hop: Samples,
    /// How long a client waits for its daemon's answer to a question, with nothing else to do.
    answer: Samples,
    /// How long its cores had worked, and how long they had been there, when this began: in the kernel's ticks.
    began: Option<(u64, u64)>,
}

impl Limits {
    /// Measures hops before there is any daemon.
    ///
    /// # Errors
    /// That no packet comes through.
    pub fn measure(world: &World) -> Result<Self, String> {
        world.set_links(|model| LinkModel { tail: Duration::ZERO, ..model })?;
        let sockets = (socket(world, 0)?, socket(world, 1)?);
        let model = (world.link)(0, 1).delay + (world.link)(1, 0).delay;
        let mut hop = Samples::default();
        for _ in 0..TRIALS {
            let trip = round_trip(&sockets).map_err(|error| format!("no packet comes through the switch: {error}"))?;
            hop.add(trip.saturating_sub(model) / 2);
        }
        world.set_links(|model| model)?;
        Ok(Self { hop, answer: Samples::default(), began: worked() })
    }

    /// Measures answers of a daemon that has nothing else to do.
    ///
    /// # Errors
    /// The library's.
    pub fn ask(&mut self, fleet: &Fleet<'_>) -> Result<(), String> {
        let mut client = fleet.client(0, &ConnectOptions::default())?;
        for _ in 0..TRIALS {
            let asked = Instant::now();
            client.status(PATIENCE).map_err(text)?;
            self.answer.add(asked.elapsed());
        }
        Ok(())
    }

    /// What stands below a table; `late` is how much later than they should messages were sent.
    ///
    /// # Errors
    /// That the switch has ended.
    pub fn report(&self, world: &World, late: &Samples) -> Result<String, String> {
        let report = world.network.report().map_err(text)?;
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let busy = self.began.zip(worked()).map_or(f64::NAN, |(from, to)| share(from, to));
        let micros = |q| report.late.value_at_quantile(q) as f64 / 1e3;
        let dropped = (0..world.network.nodes()).map(|node| world.network.dropped_before(node).map_err(text));
        let dropped = dropped.sum::<Result<u64, String>>()? + report.overrun + report.refused;
        Ok(format!(
            "\nThis machine: {cores} cores, {:.0} % busy. What it adds to the model:\n\
             a hop, idle: p50 {}; a client's question and its daemon's answer, idle: p50 {}\n\
             the switch passed frames on late by p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us; {dropped} frames were dropped\n\
             messages were sent late by p50 {}\n",
            100.0 * busy,
            quantiles(&self.hop),
            quantiles(&self.answer),
            micros(0.5),
            micros(0.99),
            micros(0.999),
            quantiles(late),
        ))
    }
}

fn quantiles(samples: &Samples) -> String {
    let summary = samples.summary();
    format!("{:.0} us, p99 {:.0} us", summary.p50 * 1e3, summary.p99 * 1e3)
}

/// A socket within a node's namespace.
fn socket(world: &World, node: usize) -> Result<UdpSocket, String> {
    let open = || {
        let socket = UdpSocket::bind(at(node))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok::<_, std::io::Error>(socket)
    };
    world.network.namespace(node).enter(open).map_err(text)?.map_err(|error| text(failed("open a socket")(error)))
}

fn at(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Network::address(node), PORT)
}

fn round_trip((here, there): &(UdpSocket, UdpSocket)) -> std::io::Result<Duration> {
    let sent = Instant::now();
    here.send_to(b"ping", at(1))?;
    there.recv(&mut [0; 8])?;
    there.send_to(b"pong", at(0))?;
    here.recv(&mut [0; 8])?;
    Ok(sent.elapsed())
}

/// How long all cores have worked, and how long they were there, since the machine was started.
pub fn worked() -> Option<(u64, u64)> {
    cores(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The same from the kernel's table, whose first line counts ticks: user, nice, system, idle, waiting for a disk, and so on.
fn cores(table: &str) -> Option<(u64, u64)> {
    let line = table.lines().next()?.strip_prefix("cpu ")?;
    let ticks = line.split_whitespace().take(8).map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let (all, idle) = (ticks.iter().sum::<u64>(), ticks.get(3)? + ticks.get(4)?);
    Some((all - idle, all))
}

/// Which part of the time between two they worked.
pub fn share(from: (u64, u64), to: (u64, u64)) -> f64 {
    to.0.saturating_sub(from.0) as f64 / to.1.saturating_sub(from.1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_read_from_the_first_line() {
        let before = cores("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 1 1 1 1 1 1 1\n").unwrap();
        let after = cores("cpu  130 10 60 840 60 0 0 0 9 9\n").unwrap();
        assert_eq!((before, after), ((150, 1_000), (200, 1_100)));
        assert!((share(before, after) - 0.5).abs() < 1e-9);
        assert_eq!((cores(""), cores("cpu x"), cores("cpu 1 2 3")), (None, None, None));
    }
}

//! The windows of the thesis's fifth chapter: its model of the Accelerated Ring, without membership and clients, on eight hosts.
use super::scale::Scale;
use crate::parallel;
use crate::windows::fixed;
use crate::wires::{LEN, Load, Site, Wires, Work};
use consort_ring::{Acceleration, Priority, RingConfig, Windows};
use consort_sim::{CoreModel, HostModel};
use consort_types::Duration;

/// How many hosts.
pub const MEMBERS: usize = 8;
/// Personal windows, in packets.
pub const PERSONAL: [u32; 8] = [5, 10, 20, 30, 40, 50, 70, 100];
/// Accelerated windows, in quarters of the personal window.
const QUARTERS: [u32; 5] = [0, 1, 2, 3, 4];
/// How long a ring runs before it is measured.
const BEFORE: Duration = Duration::from_millis(40);
/// How long each cell is measured, in milliseconds.
const MILLIS: u64 = 120;

/// Where much is lost a ring stalls and catches up: these cells are measured so many times as long.
const LOSSY: u64 = 4;

/// How long a cell is measured, where others are measured so many milliseconds: longer where the thesis lost packets.
pub const fn millis_of(personal: u32, accelerated: Option<u32>, millis: u64) -> u64 {
    match accelerated {
        Some(accelerated) if personal >= 40 && accelerated == personal => LOSSY * millis,
        _ => millis,
    }
}

/// The machines of chapters 5 and 6, on both networks: a process beside a kernel that has a core of its own. What it costs to
/// send is set by the original ring on 10 Gbit/s, and to receive by the accelerated one, each at the two windows that the
/// thesis states. What a socket holds is assumed: it is what Linux grants for 200 KiB, which Spread asks for its clients' sockets
/// and not for its daemons'.
pub const HOST: HostModel = HostModel {
    receive: Duration::from_nanos(1_950),
    send: Duration::from_nanos(2_700),
    picos_per_byte: 300,
    message: Duration::ZERO,
    timer: Duration::ZERO,
    disk: Duration::ZERO,
    socket: 400 << 10,
    overhead: 768,
    wake: Duration::from_micros(5),
    core: Some(CoreModel { datagram: Duration::from_micros(1), picos_per_byte: 0, ring: 512 }),
};

/// A network of the chapter.
#[derive(Debug)]
pub struct Network {
    /// As it is named.
    pub name: &'static str,
    /// In bits per second.
    pub rate: u64,
    /// On each side of the switch.
    pub delay: Duration,
    /// What a port of the switch holds, in bytes.
    pub port: usize,
}

/// The Cisco switch.
pub const GIGABIT: Network =
    Network { name: "1 Gbit/s", rate: 1_000_000_000, delay: Duration::from_micros(30), port: 256 << 10 };
/// The Arista switch.
pub const TEN_GIGABIT: Network =
    Network { name: "10 Gbit/s", rate: 10_000_000_000, delay: Duration::from_micros(20), port: 512 << 10 };

impl Network {
    /// Its switch, with these hosts.
    pub const fn site(&self) -> Site {
        Site { rate: self.rate, delay: self.delay, port: self.port, loss: 0.0, host: HOST, clients: None }
    }

    /// It and its hosts, in words.
    pub fn setting(&self) -> String {
        let Self { name, delay, port, .. } = self;
        let HostModel { receive, send, wake, socket, .. } = HOST;
        let core = HOST.core.map_or(Duration::ZERO, |core| core.datagram);
        format!(
            "a switch of {name}, {delay:?} on each side of it, ports of {} KiB, sockets of {} KiB. A network core takes a packet \
             in {core:?}, a process that sleeps wakes in {wake:?}; it receives in {receive:?} and sends in {send:?}, and 0.3 ns a \
             byte.",
            port >> 10,
            socket >> 10,
        )
    }
}

/// One setting of the windows, under full load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The personal window.
    pub personal: u32,
    /// The accelerated window; none for the original ring.
    pub accelerated: Option<u32>,
    /// Payload that each member delivers, in Mbit/s.
    pub mbits: f64,
    /// Mean latency of agreed and of safe messages, made up half at the token and half right after it, in microseconds.
    pub agreed_us: f64,
    /// As said.
    pub safe_us: f64,
}

/// All settings on one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// How it was run.
    pub setting: String,
    /// In order of the personal window: the original ring, then accelerated windows.
    pub cells: Vec<Cell>,
}

impl Grid {
    /// Runs them all.
    ///
    /// # Errors
    /// What kept a ring from being formed.
    pub fn run(scale: Scale, network: &Network) -> Result<Self, String> {
        let millis = scale.scaled(MILLIS);
        let mut settings = Vec::new();
        for personal in PERSONAL {
            settings.push((personal, None));
            let mut windows: Vec<_> = QUARTERS.iter().map(|quarters| personal * quarters / 4).collect();
            windows.dedup();
            settings.extend(windows.into_iter().map(|accelerated| (personal, Some(accelerated))));
        }
        let cells = parallel::map(&settings, |(personal, accelerated)| {
            cell(network, *personal, *accelerated, millis_of(*personal, *accelerated, millis))
        })?;
        Ok(Self { setting: setting(network, millis), cells })
    }

    /// The original ring with this personal window.
    pub fn original(&self, personal: u32) -> Option<Cell> {
        self.cells.iter().copied().find(|cell| cell.personal == personal && cell.accelerated.is_none())
    }

    /// The accelerated window with which safe messages take least, as the thesis chooses. A window of 0 is not among them: on
    /// these hosts it carries what the original ring does.
    pub fn best(&self, personal: u32) -> Option<Cell> {
        let of = self.cells.iter().copied();
        let of = of.filter(|cell| cell.personal == personal && cell.accelerated.is_some_and(|window| window > 0));
        of.min_by(|one, other| one.safe_us.total_cmp(&other.safe_us))
    }

    /// The accelerated windows of one personal window.
    pub fn accelerated(&self, personal: u32) -> impl Iterator<Item = (u32, Cell)> {
        let of = self.cells.iter().filter(move |cell| cell.personal == personal);
        of.filter_map(|cell| Some((cell.accelerated?, *cell)))
    }

    /// The largest throughput of the accelerated ring.
    pub fn most(&self) -> f64 {
        let accelerated = self.cells.iter().filter(|cell| cell.accelerated.is_some());
        accelerated.map(|cell| cell.mbits).fold(0.0, f64::max)
    }
}

fn setting(network: &Network, millis: u64) -> String {
    format!(
        "{MEMBERS} hosts on {} No clients; all always send messages of {LEN} bytes; method 1; {millis} ms a cell. Latency: the \
         mean of messages made up at the token and right after it.",
        network.setting(),
    )
}

/// Fixed windows as the thesis has them, at a host that switches priority by its first method.
pub fn configure(config: &mut RingConfig, members: usize, personal: u32, accelerated: Option<u32>) {
    config.windows = Windows { accelerated_from: 1, ..fixed(personal, accelerated.unwrap_or(0), members as u64) };
    config.acceleration = accelerated.map_or(Acceleration::Original, |_| Acceleration::Accelerated);
    config.priority = Priority::Method1;
    config.starvation_guard = None;
    // The thesis bounds a rotation by windows alone.
    config.receive_room = u32::MAX as usize;
}

fn cell(network: &Network, personal: u32, accelerated: Option<u32>, millis: u64) -> Result<Cell, String> {
    let site = network.site();
    let measure = |work| {
        let adjust = |config: &mut RingConfig| configure(config, MEMBERS, personal, accelerated);
        let mut wires = Wires::start(&site, MEMBERS, work, &adjust)?;
        Ok::<_, String>(wires.measure(BEFORE, Duration::from_millis(millis)))
    };
    let (agreed, safe) = (measure(Work::agreed(Load::Full))?, measure(Work::safe(Load::Full))?);
    Ok(Cell { personal, accelerated, mbits: agreed.mbits, agreed_us: agreed.token_us, safe_us: safe.token_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_window_is_the_one_with_the_least_safe_latency() {
        let cell = |accelerated, safe_us| Cell { personal: 5, accelerated, mbits: 1.0, agreed_us: 1.0, safe_us };
        let grid = Grid {
            setting: String::new(),
            cells: vec![cell(None, 1.0), cell(Some(0), 5.0), cell(Some(2), 3.0), cell(Some(5), 4.0)],
        };
        assert_eq!(grid.best(5).and_then(|best| best.accelerated), Some(2));
        assert_eq!(grid.best(6), None);
    }

    #[test]
    fn an_accelerated_ring_carries_more_than_the_original_at_the_same_window() {
        let of = |accelerated| cell(&GIGABIT, 20, accelerated, 12).unwrap();
        let (original, accelerated) = (of(None), of(Some(15)));
        assert!(accelerated.mbits > 1.2 * original.mbits, "{accelerated:?} {original:?}");
        assert!(original.agreed_us < original.safe_us && accelerated.agreed_us < accelerated.safe_us);
    }
}

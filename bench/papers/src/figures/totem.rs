//! Totem's single ring: nine workstations on an Ethernet of 100 Mbit/s, with the original ring.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use crate::parallel;
use crate::windows::fixed;
use crate::wires::{Given, Load, Measured, Places, Site, Wires, Work};
use consort_ring::packet::RECOVERED_LEN;
use consort_ring::{Acceleration, RingConfig, Windows};
use consort_sim::HostModel;
use consort_types::{Duration, Service};
use consort_wire::DatagramSize;
use consort_wire::pack::CHUNK_LEN;

/// How many workstations.
const MEMBERS: usize = 9;
/// How large messages are, in bytes.
pub(super) const LEN: usize = 1_000;
/// The window with which the paper's ring carried most.
pub(super) const BEST: u32 = 13;
/// How long each cell is measured, in milliseconds.
const MILLIS: u64 = 2_000;
/// How long it runs before that.
const BEFORE: Duration = Duration::from_millis(500);

/// The workstations. Three values are taken from the paper: a token takes 240 us from one to the next, a message of 1 kbyte in
/// a full window 148 us, which is 186 less the shares of the token and of the last message's way, and one of 4 bytes among
/// many in a packet 0.6 us.
pub(super) const HOST: HostModel = HostModel {
    receive: Duration::from_micros(98),
    send: Duration::from_micros(98),
    picos_per_byte: 45_000,
    message: Duration::from_nanos(600),
    timer: Duration::ZERO,
    disk: Duration::ZERO,
    socket: 256 << 10,
    overhead: 256,
    wake: Duration::ZERO,
    core: None,
};

pub(super) const SITE: Site =
    Site { rate: 100_000_000, delay: Duration::from_micros(1), port: 1 << 20, loss: 0.0, host: HOST, clients: None };

/// A ring, and what it carries.
#[derive(Clone, Copy, Debug)]
struct Case {
    members: usize,
    window: u32,
    service: Service,
    places: Places,
    load: Load,
    len: usize,
    /// Many messages in a packet; else one, as long as it.
    packed: bool,
}

impl Case {
    const fn new(members: usize, window: u32) -> Self {
        let (service, places, load) = (Service::Agreed, Places::Everywhere, Load::Full);
        Self { members, window, service, places, load, len: LEN, packed: false }
    }

    fn run(&self, lab: &Lab) -> Result<Measured, String> {
        let mut wires = self.wires()?;
        Ok(wires.measure(BEFORE, Duration::from_millis(lab.scaled(MILLIS))))
    }

    /// Its ring, that stands.
    fn wires(&self) -> Result<Wires<'static>, String> {
        let alone = self.len + CHUNK_LEN;
        let least = DatagramSize::new((self.len + HEAD).max(DatagramSize::MIN))?;
        let (datagram, body_most) = if self.packed { (DatagramSize::DEFAULT, usize::MAX) } else { (least, alone) };
        let adjust = |config: &mut RingConfig| {
            config.datagram = datagram;
            config.body_most = body_most;
            config.windows = Windows { accelerated_from: 1, ..fixed(self.window, 0, self.members as u64) };
            config.acceleration = Acceleration::Original;
            // The paper's token never rests, and its hosts are slow.
            config.idling.linger = Duration::from_secs(1_000);
            config.timers.token_retransmit = Duration::from_millis(200);
            config.timers.token_loss = Duration::from_secs(1);
            config.timers.consensus = Duration::from_millis(1_300);
        };
        let work = Work { load: self.load, service: self.service, len: self.len, places: self.places };
        Wires::start(&SITE, self.members, work, &adjust)
    }
}

/// What members are given of each other within a span, with a window of one.
pub fn given(span: Duration) -> Result<Vec<Given>, String> {
    Ok(Case::new(MEMBERS, 1).wires()?.given(BEFORE, span))
}

pub fn setting() -> String {
    format!(
        "Workstations that take {:?} to send or to receive a packet, and 45 ns a byte; 100 Mbit/s, a switch in place of the \
         shared cable; original ring, messages of {LEN} bytes where no other size is named, one a packet, no losses.",
        HOST.send
    )
}

/// What a packet carries beside one message that fills it.
pub(super) const HEAD: usize = consort_wire::envelope::LEN + RECOVERED_LEN + 4;

/// Messages of [`LEN`] bytes that each member delivers in a second.
fn rate(measured: &Measured) -> f64 {
    rate_of(measured, LEN)
}

fn rate_of(measured: &Measured, len: usize) -> f64 {
    measured.mbits * 1e6 / (len * 8) as f64
}

/// Throughput over the size of messages that are not packed.
pub fn figure_2(lab: &Lab) -> Result<Outcome, String> {
    let sizes = [100, 250, 400, 550, 700, 850, 1_000, 1_200, 1_400];
    let rates = parallel::map(&sizes, |len| {
        // The windows that the paper found best, from 10 at 1400 bytes to 22 at 100: with more its hosts lost messages.
        let window = match *len {
            1_200.. => 10,
            700.. => BEST,
            400.. => 16,
            _ => 22,
        };
        Ok(rate_of(&Case { len: *len, ..Case::new(MEMBERS, window) }.run(lab)?, *len))
    })?;
    let points: Vec<_> = sizes.iter().zip(&rates).map(|(len, rate)| (*len as f64, *rate)).collect();
    let at = |wanted: f64| points.iter().find(|(len, _)| *len == wanted).map_or(f64::NAN, |(_, rate)| *rate);
    let used = at(1_400.0) * (1_400 * 8) as f64 / SITE.rate as f64 * 100.0;
    let claims = vec![
        Claim::near("1000 bytes", 5_364.0, at(1_000.0), 7.0, "messages/s"),
        Claim::near("useful utilization at 1400 bytes", 55.76, used, 10.0, "%"),
        Claim::near("100 bytes", 6_951.0, at(100.0), 7.0, "messages/s"),
    ];
    let stated = Curve::paper("stated by the paper", vec![(100.0, 6_951.0), (1_000.0, 5_364.0)]);
    let chart = Chart {
        title: "Throughput by size, not packed".into(),
        x: Axis::linear("message, bytes"),
        y: Axis::linear("messages a second"),
        curves: vec![Curve::line("runs", points), stated],
    };
    Ok(Outcome { setting: setting(), charts: vec![chart], claims })
}

/// Throughput of packed messages.
pub fn figure_3(lab: &Lab) -> Result<Outcome, String> {
    const PAPER: [(usize, f64); 2] = [(4, 607_576.0), (100, 59_577.0)];
    let sizes = [8, 16, 50, 100, 200, 500, 1_000];
    let rates = parallel::map(&sizes, |len| {
        let case = Case { len: *len, packed: true, ..Case::new(MEMBERS, 10) };
        Ok(rate_of(&case.run(lab)?, *len))
    })?;
    let points: Vec<_> = sizes.iter().zip(&rates).map(|(len, rate)| (*len as f64, *rate)).collect();
    let at = |wanted: f64| points.iter().find(|(len, _)| *len == wanted).map_or(f64::NAN, |(_, rate)| *rate);
    let claims = vec![
        Claim::near("100 bytes, packed", 59_577.0, at(100.0), 20.0, "messages/s"),
        Claim::at_least("that by the paper's unpacked 6951", "8.6 times", at(100.0) / 6_951.0, 7.0, "times"),
        Claim::at_least("8 bytes, packed, by 6951", "4 bytes: 87 times", at(8.0) / 6_951.0, 43.5, "times"),
    ];
    let stated = PAPER.iter().map(|(len, rate)| (*len as f64, *rate)).collect();
    let chart = Chart {
        title: "Throughput by size, packed".into(),
        x: Axis::log("message, bytes"),
        y: Axis::log("messages a second"),
        curves: vec![Curve::line("runs", points), Curve::paper("stated by the paper", stated)],
    };
    Ok(Outcome { setting: setting(), charts: vec![chart], claims })
}

/// Throughput over the window.
pub fn figure_4(lab: &Lab) -> Result<Outcome, String> {
    let windows: Vec<u32> = vec![1, 2, 3, 5, 7, 9, 11, 13, 14, 16, 20];
    let rates = parallel::map(&windows, |window| Ok(rate(&Case::new(MEMBERS, *window).run(lab)?)))?;
    let at = |wanted: u32| {
        windows.iter().zip(&rates).find(|(window, _)| **window == wanted).map_or(f64::NAN, |(_, rate)| *rate)
    };
    let most = rates.iter().copied().fold(0.0, f64::max);
    let claims = vec![
        Claim::near("window 13", 5_364.0, at(BEST), 7.0, "messages/s"),
        Claim::at_least("window 7 by the best", "good", at(7) / most, 0.9, "times"),
        Claim::at_most("window 20 by window 13: buffers run over", "falls", at(20) / at(BEST), 0.98, "times"),
    ];
    let points = windows.iter().zip(&rates).map(|(window, rate)| (f64::from(*window), *rate)).collect();
    let curves =
        vec![Curve::line("runs", points), Curve::paper("stated by the paper", vec![(f64::from(BEST), 5_364.0)])];
    let chart = Chart {
        title: "Throughput by window".into(),
        x: Axis::linear("window, messages"),
        y: Axis::linear("messages a second"),
        curves,
    };
    Ok(Outcome { setting: setting(), charts: vec![chart], claims })
}

/// Throughput over the number of members, where all send and where one does.
pub fn figure_5(lab: &Lab) -> Result<Outcome, String> {
    let members: Vec<usize> = (2..=MEMBERS).collect();
    let runs = parallel::map(&members, |members| {
        let all = Case::new(*members, BEST);
        Ok((rate(&all.run(lab)?), rate(&Case { places: Places::First(1), ..all }.run(lab)?)))
    })?;
    let points = |of: &dyn Fn(&(f64, f64)) -> f64| {
        members.iter().zip(&runs).map(|(members, run)| (*members as f64, of(run))).collect::<Vec<_>>()
    };
    let slowest = runs.iter().map(|run| run.1 / run.0).fold(0.0, f64::max);
    let (first, last) = (runs.first().map_or(f64::NAN, |run| run.1), runs.last().map_or(f64::NAN, |run| run.1));
    let claims = vec![
        Claim::near("nine members, all send", 5_364.0, runs.last().map_or(f64::NAN, |run| run.0), 7.0, "messages/s"),
        Claim::at_most("one sender by all", "slightly less", slowest, 1.0, "times"),
        Claim::at_most("one sender: nine members by two", "efficiency drops", last / first, 1.0, "times"),
    ];
    let chart = Chart {
        title: format!("Throughput, window {BEST}"),
        x: Axis::linear("members"),
        y: Axis::linear("messages a second"),
        curves: vec![Curve::line("all send", points(&|run| run.0)), Curve::line("one sends", points(&|run| run.1))],
    };
    Ok(Outcome { setting: setting(), charts: vec![chart], claims })
}

/// Rotation, and agreed and safe latency, in milliseconds.
struct Latencies {
    rate: f64,
    rotation: f64,
    agreed: f64,
    safe: f64,
}

fn latencies(lab: &Lab, members: usize, window: u32) -> Result<Latencies, String> {
    let case = Case::new(members, window);
    let (agreed, safe) = (case.run(lab)?, Case { service: Service::Safe, ..case }.run(lab)?);
    Ok(Latencies {
        rate: rate(&agreed),
        rotation: agreed.rotation_us / 1e3,
        agreed: agreed.token_us / 1e3,
        safe: safe.token_us / 1e3,
    })
}

fn latency_chart(title: String, x: Axis, runs: &[(f64, Latencies)]) -> Chart {
    let curve = |name: &str, of: &dyn Fn(&Latencies) -> f64| {
        Curve::line(name, runs.iter().map(|(place, run)| (*place, of(run))).collect())
    };
    let curves = vec![
        curve("safe", &|run| run.safe),
        curve("agreed", &|run| run.agreed),
        curve("token rotation", &|run| run.rotation),
    ];
    Chart { title, x, y: Axis::linear("mean, ms"), curves }
}

/// What the paper says of both figures: half a rotation and a message, and two rotations and a message.
fn rotations(runs: &[(f64, Latencies)]) -> [Claim; 2] {
    let mean = |of: &dyn Fn(&Latencies) -> f64| {
        runs.iter().map(|(_, run)| of(run) / run.rotation).sum::<f64>() / runs.len() as f64
    };
    let message = HOST.send.as_secs_f64() * 2e3;
    [
        Claim::near(
            "agreed latency less a message, by a rotation",
            0.5,
            mean(&|run| run.agreed - message),
            30.0,
            "times",
        ),
        Claim::near("safe latency less a message, by a rotation", 2.0, mean(&|run| run.safe - message), 30.0, "times"),
    ]
}

/// Latency over the number of members, with a window of one.
pub fn figure_6(lab: &Lab) -> Result<Outcome, String> {
    let members: Vec<usize> = (2..=MEMBERS).collect();
    let runs = parallel::map(&members, |members| Ok((*members as f64, latencies(lab, *members, 1)?)))?;
    let chart = latency_chart("Latency by members, window 1".into(), Axis::linear("members"), &runs);
    Ok(Outcome { setting: setting(), charts: vec![chart], claims: rotations(&runs).into() })
}

/// Latency over throughput, which follows from the window.
pub fn figure_7(lab: &Lab) -> Result<Outcome, String> {
    let windows = [1, 2, 3, 5, 7, 10, 13];
    let runs = parallel::map(&windows, |window| {
        let found = latencies(lab, MEMBERS, *window)?;
        Ok((found.rate, found))
    })?;
    let mut claims = Vec::from(rotations(&runs));
    if let Some((_, least)) = runs.first() {
        claims.push(Claim::near("agreed latency at about 2000 messages/s", 2.664, least.agreed, 15.0, "ms"));
        claims.push(Claim::at_least("safe by agreed there", "3 to 4", least.safe / least.agreed, 3.0, "times"));
    }
    let chart = latency_chart("Latency by throughput, nine members".into(), Axis::linear("messages a second"), &runs);
    Ok(Outcome { setting: setting(), charts: vec![chart], claims })
}

/// How long a token takes from one member to the next where nobody sends.
pub fn visit(lab: &Lab) -> Result<Outcome, String> {
    let members: Vec<usize> = vec![3, 6, 9];
    // One message now and then: a ring at which nothing was ever said lets its token rest.
    let visits = parallel::map(&members, |members| {
        let measured = Case { load: Load::Rate(1.0), ..Case::new(*members, 1) }.run(lab)?;
        Ok(measured.rotation_us / *members as f64)
    })?;
    let claims = members
        .iter()
        .zip(&visits)
        .map(|(members, us)| Claim::near(&format!("a visit, {members} members"), 240.0, *us, 10.0, "us"))
        .collect();
    let points = members.iter().zip(&visits).map(|(members, us)| (*members as f64, *us)).collect();
    let chart = Chart {
        title: "Visit of the token, unloaded".into(),
        x: Axis::linear("members"),
        y: Axis::linear("a visit, us"),
        curves: vec![
            Curve::line("runs", points),
            Curve::paper("paper", members.iter().map(|members| (*members as f64, 240.0)).collect()),
        ],
    };
    Ok(Outcome { setting: setting(), charts: vec![chart], claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_window_carries_more_and_takes_longer() {
        let lab = Lab::new(1, true);
        let (one, five) = (latencies(&lab, 3, 1).unwrap(), latencies(&lab, 3, 5).unwrap());
        assert!(five.rate > 1.3 * one.rate && five.safe > one.safe, "{} {}", one.rate, five.rate);
        assert!(one.safe > one.agreed && one.rotation > 0.7, "{} {}", one.safe, one.rotation);
    }
}

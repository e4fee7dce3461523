//! ToTo's throughput: eight machines on one Ethernet of 10 Mbit/s, all of which receive everything.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use crate::net::{Cable, Heard, Net, Told};
use crate::parallel;
use crate::toto::{self, Cell, PAPER_NODES};
use crate::traffic::{Pace, Traffic};
use consort_toto::Phi;
use consort_types::{Duration, Rng};

/// Bits a second.
const ETHERNET: u64 = 10_000_000;
/// How large messages are: the paper's 1K.
const LEN: usize = 1_024;
/// How long each load lasts, in seconds.
const SECONDS: u64 = 60;

/// What became of a load.
struct Carried {
    /// Messages a second that were to be sent.
    offered: f64,
    /// What the member that received least received, in messages a second.
    least: f64,
    /// Mean latency at the senders in the first and in the last quarter, in milliseconds.
    quarters: (f64, f64),
    /// How much of the time the cable carried something, in %.
    busy: f64,
}

fn run(seed: u64, seconds: u64, offered: u64) -> Result<Carried, String> {
    let mut rng = Rng::new(seed).fork(offered);
    let bench = toto::Lab::default();
    let cell = Cell { pace: Pace::Poisson, load: offered, phi: Phi::Half };
    let mut traffic = Traffic::new(rng.fork(1));
    let mut net = Net::start(toto::engines(&bench, cell)?, toto::delay(&bench), rng.fork(2))?;
    net.share(Cable::new(ETHERNET));
    let (began, members) = (net.now(), PAPER_NODES as usize);
    (0..members).for_each(|member| traffic.add(member, cell.pace, offered as f64 / PAPER_NODES as f64, began, None));
    let (mut sent, mut received) = (Vec::new(), vec![0_u64; members]);
    // In milliseconds, and how many: of each quarter.
    let mut latency = [(0.0, 0.0); 4];
    while let Some((at, member)) = traffic.next().filter(|(at, _)| at.since(began).as_secs() < seconds) {
        net.run_until(at);
        // What is refused is more than the members take.
        if net.submit(member, sent.len() as u64, LEN).is_ok() {
            sent.push((member, at));
        }
        for Told { at, member, heard } in net.take_told() {
            let Heard::Delivered(message) = heard else { continue };
            received[member] += 1;
            let quarter = (at.since(began).as_secs_f64() * 4.0 / seconds as f64) as usize;
            if let Some((_, from)) = sent.get(message as usize).filter(|(sender, _)| *sender == member) {
                let sum = &mut latency[quarter.min(3)];
                *sum = (sum.0 + at.since(*from).as_secs_f64() * 1e3, sum.1 + 1.0);
            }
        }
    }
    let span = Duration::from_secs(seconds).as_secs_f64();
    let least = received.iter().min().copied().unwrap_or_default() as f64 / span;
    let mean = |quarter: usize| latency[quarter].0 / latency[quarter].1;
    let busy = net.cable().map_or(f64::NAN, |cable| 100.0 * cable.busy(net.now()).as_secs_f64() / span);
    Ok(Carried { offered: offered as f64, least, quarters: (mean(0), mean(3)), busy })
}

pub fn throughput(lab: &Lab) -> Result<Outcome, String> {
    const LOADS: [u64; 6] = [250, 500, 750, 1_000, 1_100, 1_250];
    let seconds = lab.scaled(SECONDS);
    let runs = parallel::map(&LOADS, |load| run(lab.scale.seed, seconds, *load))?;
    let at = |wanted: f64| runs.iter().find(|run| run.offered == wanted).ok_or("no such load");
    let (once, twice) = (at(250.0)?, at(500.0)?);
    let claims = vec![
        Claim::near("all eight receive, of 250 a second", 250.0, once.least, 3.0, "messages/s"),
        Claim::at_most(
            "latency in the last quarter by the first, 250 a second",
            "sustained",
            once.quarters.1 / once.quarters.0,
            1.2,
            "times",
        ),
        Claim::near("all eight receive, of twice as many", 500.0, twice.least, 3.0, "messages/s"),
    ];
    let points = |of: &dyn Fn(&Carried) -> f64| runs.iter().map(|run| (run.offered, of(run))).collect();
    let x = Axis::linear("messages a second that are sent");
    let charts = vec![
        Chart {
            title: "What the member receives that receives least".into(),
            x,
            y: Axis::linear("messages a second"),
            curves: vec![
                Curve::line("runs", points(&|run| run.least)),
                Curve::paper("paper", vec![(250.0, 250.0), (500.0, 500.0)]),
            ],
        },
        Chart {
            title: "Time in which the cable carries something".into(),
            x,
            y: Axis::linear("busy, %"),
            curves: vec![Curve::line("runs", points(&|run| run.busy))],
        },
    ];
    let setting = format!(
        "{PAPER_NODES} members on one cable of 10 Mbit/s, messages of {LEN} bytes, Poisson, {seconds} s a point. Packets wait in \
         turn for the cable, without collisions; its time is a part of the 1.5 ms and 0.5 ms on average more that one takes. Hosts \
         cost nothing."
    );
    Ok(Outcome { setting, charts, claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_beyond_the_cable_is_not_carried() {
        let (within, beyond) = (run(1, 10, 250).unwrap(), run(1, 10, 1_250).unwrap());
        assert!(within.least > 240.0 && within.busy < 40.0, "{} {}", within.least, within.busy);
        assert!(beyond.least < 1_150.0 && beyond.quarters.1 > within.quarters.1, "{}", beyond.least);
    }
}

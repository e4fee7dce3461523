//! The thesis's fourth chapter: what its formulas expect, beside rings that run.
//!
//! B is how long a member takes to send a full window, P how long a token takes from one member to the next, R a rotation, and X
//! how long a member still sends when its successor has the token.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::ring_grid::{GIGABIT, HOST, MEMBERS, configure};
use crate::parallel;
use crate::wires::{FRAME, LEN, Load, Measured, Wires, Work};
use consort_ring::RingConfig;
use consort_ring::packet::TOKEN_LEN;
use consort_types::Duration;

const N: f64 = MEMBERS as f64;
/// The windows at which latency is told.
const PERSONAL: u32 = 20;
const ACCELERATED: u32 = 10;
/// Messages a second in a ring that is lightly loaded.
const LIGHT: f64 = 200.0;
/// How far from the formulas a ring may be, in %: they know no receivers.
const TOLERANCE: f64 = 25.0;

/// What the formulas are fed with, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Model {
    /// The accelerated window by the personal one; none in the original ring.
    share: Option<f64>,
    personal: f64,
    b: f64,
    p: f64,
}

impl Model {
    /// Of the lab's hosts on 1 Gbit/s, where the wire is slower than they are.
    fn new(personal: u32, accelerated: Option<u32>) -> Self {
        let wire = |len: usize| ((len + FRAME) * 8) as f64 * 1e6 / GIGABIT.rate as f64;
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        let head = consort_wire::envelope::LEN + DATA_HEAD;
        let token = consort_wire::envelope::LEN + TOKEN_LEN;
        let core = HOST.core.map_or(Duration::ZERO, |core| core.datagram);
        let hosts = us(HOST.send) + us(core) + us(HOST.wake) + us(HOST.receive);
        let p = hosts + 2.0 * (us(GIGABIT.delay) + wire(token));
        let personal_packets = f64::from(personal);
        let share = accelerated.map(|accelerated| f64::from(accelerated) / personal_packets);
        Self { share, personal: personal_packets, b: personal_packets * wire(LEN + head), p }
    }

    /// A rotation under full load.
    fn full(&self) -> f64 {
        let held = self.share.map_or(self.b, |share| (1.0 - share) * self.b);
        let rotation = (held + self.p) * N;
        if self.share.is_some() { rotation.max(self.b) } else { rotation }
    }

    /// A rotation with hardly any load.
    fn light(&self) -> f64 {
        self.p * N
    }

    /// Payload in Mbit/s.
    fn mbits(&self) -> f64 {
        N * self.personal * (LEN * 8) as f64 / self.full()
    }

    fn overlap(&self) -> f64 {
        self.share.map_or(0.0, |_| (self.b - self.full() / N).max(0.0))
    }

    /// How long all that stands before a message takes to be sent, on average.
    fn before(&self) -> f64 {
        let (x, b) = (self.overlap(), self.b);
        x / b * x + (1.0 - x / b) * (x + b) / 2.0
    }

    /// Table 4.1, on average.
    fn agreed(&self, full: bool) -> f64 {
        if full { self.full() / 2.0 + self.before() + self.p } else { self.light() / 2.0 + self.p }
    }

    /// Table 4.2, on average.
    fn safe(&self, full: bool) -> f64 {
        match (self.share, full) {
            (None, true) => 2.0 * self.full(),
            (None, false) => 2.0 * self.light(),
            (Some(_), true) => 2.5 * self.full() + self.before() + self.p,
            (Some(_), false) => 3.0 * self.light() + self.light() / N,
        }
    }
}

/// What a packet of messages carries beside its envelope and its message, about.
const DATA_HEAD: usize = 40;

fn run(accelerated: Option<u32>, personal: u32, work: Work, millis: u64) -> Result<Measured, String> {
    let site = GIGABIT.site();
    let adjust = |config: &mut RingConfig| {
        configure(config, MEMBERS, personal, accelerated);
        // The thesis's token never rests.
        config.idling.linger = Duration::from_secs(1_000);
    };
    let mut wires = Wires::start(&site, MEMBERS, work, &adjust)?;
    Ok(wires.measure(Duration::from_millis(40), Duration::from_millis(millis)))
}

fn setting() -> String {
    let Model { b, p, .. } = Model::new(PERSONAL, None);
    format!(
        "The formulas with the hosts and the network of figure 5.1: B = {b:.0} us for {PERSONAL} packets, P = {p:.0} us. Beside \
         them rings that run."
    )
}

/// Throughput over the accelerated window, and what it gains.
pub fn throughput(lab: &Lab) -> Result<Outcome, String> {
    let shares: Vec<u32> = (0..=PERSONAL).step_by(5).collect();
    let millis = lab.scaled(120);
    let full = Work::agreed(Load::Full);
    let ran = parallel::map(&shares, |accelerated| run(Some(*accelerated), PERSONAL, full, millis))?;
    let original = run(None, PERSONAL, full, millis)?;
    let modelled = |accelerated: &u32| (f64::from(*accelerated), Model::new(PERSONAL, Some(*accelerated)).mbits());
    let ran_points = shares.iter().zip(&ran).map(|(accelerated, ran)| (f64::from(*accelerated), ran.mbits)).collect();
    let curves = vec![Curve::line("runs", ran_points), Curve::model("formula", shares.iter().map(modelled).collect())];
    let chart = Chart {
        title: format!("Throughput, personal window {PERSONAL}"),
        x: Axis::linear("accelerated window, packets"),
        y: Axis::linear("throughput, Mbit/s"),
        curves,
    };
    let of = |what: &str, model: Model, ran: &Measured| {
        Claim::near_to(what, "its formula", model.mbits(), ran.mbits, TOLERANCE, "Mbit/s")
    };
    let mut claims = vec![of("original", Model::new(PERSONAL, None), &original)];
    for (accelerated, ran) in shares.iter().zip(&ran).filter(|(accelerated, _)| **accelerated <= ACCELERATED) {
        let model = Model::new(PERSONAL, Some(*accelerated));
        claims.push(of(&format!("{accelerated} of {PERSONAL} accelerated"), model, ran));
    }
    let best = ran.iter().map(|ran| ran.mbits).fold(0.0, f64::max);
    let longer = best / original.mbits;
    claims.push(Claim::near(
        "a rotation of the original by one of the accelerated ring",
        1.5,
        longer,
        TOLERANCE,
        "times",
    ));
    let judged = "Beyond half of the window the formula knows of no wire that is full: it is drawn, not judged.";
    Ok(Outcome { setting: format!("{} {judged}", setting()), charts: vec![chart], claims })
}

/// Table 4.1.
pub fn table_4_1(lab: &Lab) -> Result<Outcome, String> {
    table(lab, Work::agreed, Model::agreed)
}

/// Table 4.2.
pub fn table_4_2(lab: &Lab) -> Result<Outcome, String> {
    table(lab, Work::safe, Model::safe)
}

/// The table's rows for the average.
fn table(lab: &Lab, work: fn(Load) -> Work, formula: fn(&Model, bool) -> f64) -> Result<Outcome, String> {
    let rows = [(None, false), (None, true), (Some(ACCELERATED), false), (Some(ACCELERATED), true)];
    let claim = |(accelerated, full): &(Option<u32>, bool)| {
        let load = if *full { Load::Full } else { Load::Rate(LIGHT) };
        let millis = lab.scaled(if *full { 120 } else { 4_000 });
        let ran = run(*accelerated, PERSONAL, work(load), millis)?;
        let ran = if *full { ran.token_us } else { ran.mean_us };
        let name = if accelerated.is_some() { "accelerated" } else { "original" };
        let what = format!("{name}, {}, average", if *full { "fully loaded" } else { "lightly loaded" });
        let expected = formula(&Model::new(PERSONAL, *accelerated), *full);
        Ok(Claim::near_to(&what, "its formula", expected, ran, TOLERANCE, "us"))
    };
    Ok(Outcome { setting: setting(), charts: vec![], claims: parallel::map(&rows, claim)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(share: Option<f64>) -> Model {
        Model { share, personal: 10.0, b: 100.0, p: 20.0 }
    }

    #[test]
    fn without_acceleration_the_formulas_are_the_original_rings() {
        let (original, none) = (model(None), model(Some(0.0)));
        assert_eq!(original.full(), 120.0 * N);
        assert_eq!((original.full(), original.mbits()), (none.full(), none.mbits()));
        assert_eq!((none.overlap(), none.before()), (0.0, 50.0));
        assert_eq!(original.agreed(true), 60.0 * N + 50.0 + 20.0);
        assert_eq!((original.safe(true), original.safe(false)), (240.0 * N, 40.0 * N));
    }

    #[test]
    fn a_token_that_goes_first_overlaps_and_never_outruns_a_window() {
        let all = model(Some(1.0));
        assert_eq!(all.full(), 20.0 * N);
        assert_eq!(all.overlap(), 80.0);
        assert!((all.before() - (0.8 * 80.0 + 0.2 * 90.0)).abs() < 1e-9);
        let slow = Model { p: 1.0, ..all };
        assert_eq!(slow.full(), 100.0, "it takes the token again once it has sent its window");
    }
}

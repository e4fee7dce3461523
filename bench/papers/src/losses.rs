//! What a receiver of PLATO loses that is switched out, and how close to each other the packets before a loss are read.
use super::net::Net;
use super::plato::{self, LEN, RECEIVER, delay, engines, traffic};
use super::reader::{Reader, ReaderModel};
use super::swaps::message;
use consort_types::{Duration, Instant, Rng};
use std::collections::BTreeSet;

/// The receiver. The paper states none of it. A socket of 108 KiB, Linux's default in 2006, holds 120 small packets with
/// their overhead; a process that competes for its core runs half a second, and waits for some milliseconds.
pub const READER: ReaderModel = ReaderModel {
    read: Duration::from_micros(10),
    packets: 120,
    runs: Duration::from_millis(480),
    out: Duration::from_millis(20),
};
/// How many pairs of packets before a loss are looked at, as in the paper.
pub const PAIRS: usize = 5;

/// What was lost in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Losses {
    /// Of the packets that came, in %.
    pub percent: f64,
    /// The shortest gap of the five pairs before each burst of losses, in microseconds, shortest first.
    pub before: Vec<f64>,
    /// The same of every five pairs in a row.
    pub all: Vec<f64>,
}

/// What a receiver loses at so many packets a second.
///
/// # Errors
/// What kept the run from its end.
pub fn run(seed: u64, seconds: u64, rate: u64) -> Result<Losses, String> {
    let mut rng = Rng::new(seed).fork(rate << 8);
    let senders = rng.fork(1);
    let mut net = Net::start(engines(&plato::Lab::default(), 10)?, delay(), rng.fork(2))?;
    let began = net.now();
    let mut traffic = traffic(senders, rate, began, None);
    net.read_with(RECEIVER, Reader::new(READER, began, rng.fork(3)));
    net.watch(&[RECEIVER]);
    let (mut sent, mut reads, mut known) = (0, Vec::new(), BTreeSet::new());
    while let Some((at, member)) = traffic.next().filter(|(at, _)| at.since(began).as_secs() < seconds) {
        net.run_until(at);
        net.submit(member, sent, LEN)?;
        sent += 1;
        let seen = net.take_seen().into_iter();
        reads
            .extend(seen.filter(|seen| message(&seen.packet).is_some_and(|key| known.insert(key))).map(|seen| seen.at));
    }
    if !net.is_whole() {
        return Err(format!("at {rate} packets a second a member left the view"));
    }
    net.reader().map(|reader| of(reader, &reads)).ok_or_else(|| "nobody read".into())
}

/// From when messages were read.
fn of(reader: &Reader, reads: &[Instant]) -> Losses {
    let came = reader.lost + reader.taken;
    let shortest = |at: usize| shortest(&reads[..at]);
    let mut before: Vec<_> =
        reader.bursts.iter().filter_map(|last| shortest(reads.partition_point(|read| read <= last))).collect();
    let mut all: Vec<_> = (0..=reads.len()).filter_map(shortest).collect();
    before.sort_by(f64::total_cmp);
    all.sort_by(f64::total_cmp);
    Losses { percent: 100.0 * reader.lost as f64 / came as f64, before, all }
}

/// The shortest of the last five gaps, in microseconds.
fn shortest(reads: &[Instant]) -> Option<f64> {
    let last = &reads[reads.len().checked_sub(PAIRS + 1)?..];
    let gaps = last.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64() * 1e6);
    gaps.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_five_gaps_before_a_loss_is_found() {
        let at = |us: u64| Instant(us * 1_000);
        let reads = [0, 100, 107, 300, 600, 1_000, 1_500, 2_000].map(at);
        let mut reader = Reader::new(READER, Instant::ZERO, Rng::new(1));
        (reader.bursts, reader.lost, reader.taken) = (vec![at(107), at(1_020), at(2_000)], 2, 8);
        let losses = of(&reader, &reads);
        assert_eq!(losses.before, [7.0, 193.0], "too few are read before the first");
        assert_eq!(losses.all, [7.0, 7.0, 193.0]);
        assert_eq!(losses.percent, 20.0);
    }

    #[test]
    fn more_is_lost_at_a_higher_rate_and_the_same_by_the_same_seed() {
        let lost = run(1, 10, 4_000).unwrap();
        assert_eq!(lost, run(1, 10, 4_000).unwrap());
        let few = run(1, 10, 400).unwrap();
        assert!(lost.percent > few.percent && few.percent < 0.01, "{} {}", lost.percent, few.percent);
        assert!(lost.before.iter().all(|us| *us <= 128.0), "{:?}", lost.before);
    }
}

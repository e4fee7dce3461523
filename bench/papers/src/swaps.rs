//! How close to each other packets come that were swapped on their way: whether a short time tells them from others is
//! what PLATO stands on.
use super::net::{Net, Seen};
use super::plato::{self, LEN, RECEIVER, delay, engines, traffic};
use consort_plato::{PacketKey, PlatoPacket, StreamContent, StreamPacket};
use consort_types::{Duration, Instant, Rng};
use std::collections::{BTreeMap, BTreeSet};

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many seconds each line takes.
    pub seconds: u64,
}

impl Default for Lab {
    fn default() -> Self {
        Self { seconds: 60 }
    }
}

/// Packets a second.
const RATES: [u64; 5] = [400, 800, 1_200, 1_600, 4_000];
/// Who gives places.
const SEQUENCER: usize = 0;
/// The paper's delta.
const DELTA: Duration = Duration::from_micros(128);

/// Two packets that followed each other at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// How long after the first the second came.
    pub gap: Duration,
    /// They came to the sequencer the other way round.
    pub swapped: bool,
}

/// The whole table.
///
/// # Errors
/// What kept a run from its end.
pub fn table(seed: u64, lab: &Lab) -> Result<String, String> {
    let mut text = format!(
        "Pairs of packets that follow each other at a receiver, and of those the ones that came to the sequencer the other way \
         round:\n{} s a line, Poisson, the network of `lab plato`. Within: how many of these pairs come within so many us of \
         each other, in %.\n\n\
         {:>6} | {:>9} | {:^31} | {:^18}\n\
         {:>6} | {:>9} | {:>9} {:>10} {:>10} | {:>7} {:>10}\n",
        lab.seconds,
        "",
        "swapped",
        "95 % of swapped pairs",
        "within 128 us",
        "pkt/s",
        "% of all",
        "us",
        "swapped",
        "of all",
        "swapped",
        "of all"
    );
    for rate in RATES {
        text += &line(rate, &pairs(seed, lab, rate)?);
    }
    Ok(text
        + "paper, 3 switches, 400 pkt/s: 95 % of swapped pairs and 14 % of all within 128 us; swapped: about 1 % at 800 \
               pkt/s, 4 % at 4000\n")
}

fn line(rate: u64, pairs: &[Pair]) -> String {
    let gaps = |only: bool| pairs.iter().filter(move |pair| pair.swapped || !only).map(|pair| pair.gap);
    let within = |only, most| 100.0 * gaps(only).filter(|gap| *gap <= most).count() as f64 / gaps(only).count() as f64;
    let mut swapped: Vec<_> = gaps(true).collect();
    swapped.sort();
    let most = swapped.get((swapped.len() * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
    format!(
        "{rate:>6} | {:>9.2} | {:>9} {:>10.1} {:>10.1} | {:>7.1} {:>10.1}\n",
        100.0 * swapped.len() as f64 / pairs.len() as f64,
        most.as_micros(),
        within(true, most),
        within(false, most),
        within(true, DELTA),
        within(false, DELTA)
    )
}

/// All such pairs of a run.
///
/// # Errors
/// What kept the run from its end.
pub fn pairs(seed: u64, lab: &Lab, rate: u64) -> Result<Vec<Pair>, String> {
    let mut rng = Rng::new(seed).fork(rate << 8);
    let senders = rng.fork(1);
    let mut net = Net::start(engines(&plato::Lab::default(), 10)?, delay(), rng.fork(2))?;
    let began = net.now();
    let mut traffic = traffic(senders, rate, began, None);
    net.watch(&[SEQUENCER, RECEIVER]);
    let (mut order, mut arrivals, mut sent) = (BTreeMap::new(), Vec::new(), 0);
    let mut known = BTreeSet::new();
    while let Some((at, member)) = traffic.next().filter(|(at, _)| at.since(began).as_secs() < lab.seconds) {
        net.run_until(at);
        net.submit(member, sent, LEN)?;
        sent += 1;
        for Seen { at, member, packet } in net.take_seen() {
            let Some(key) = message(&packet).filter(|key| known.insert((member, *key))) else { continue };
            if member == SEQUENCER {
                order.insert(key, order.len());
            } else {
                arrivals.push((key, at));
            }
        }
    }
    Ok(compare(&order, &arrivals))
}

/// Which message a packet carries, if it does.
pub const fn message(packet: &PlatoPacket) -> Option<PacketKey> {
    match packet {
        PlatoPacket::Data(StreamPacket { key, content: StreamContent::Messages(_), .. }) => Some(*key),
        _ => None,
    }
}

/// The neighbours of the receiver's order; those that are still on their way to the sequencer are left out.
fn compare(order: &BTreeMap<PacketKey, usize>, arrivals: &[(PacketKey, Instant)]) -> Vec<Pair> {
    let pair = |pair: &[(PacketKey, Instant)]| {
        let (first, second) = (order.get(&pair[0].0)?, order.get(&pair[1].0)?);
        Some(Pair { gap: pair[1].1.since(pair[0].1), swapped: first > second })
    };
    arrivals.windows(2).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    #[test]
    fn neighbours_that_the_sequencer_saw_the_other_way_round_are_swapped() {
        let key = |seq| PacketKey { origin: NodeId(2), seq };
        let order = BTreeMap::from([(key(1), 0), (key(3), 1), (key(2), 2)]);
        let arrivals =
            [(key(1), Instant(5_000)), (key(2), Instant(9_000)), (key(3), Instant(19_000)), (key(4), Instant(20_000))];
        let us = Duration::from_micros;
        let expected = [Pair { gap: us(4), swapped: false }, Pair { gap: us(10), swapped: true }];
        assert_eq!(compare(&order, &arrivals), expected);
        let text = line(400, &expected);
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), "400 | 50.00 | 10 100.0 100.0 | 100.0 100.0");
    }

    #[test]
    fn most_swapped_pairs_are_close_and_few_pairs_are() {
        let pairs = pairs(1, &Lab { seconds: 20 }, 400).unwrap();
        let share = |swapped: bool| {
            let of: Vec<_> = pairs.iter().filter(|pair| pair.swapped || !swapped).collect();
            of.iter().filter(|pair| pair.gap <= DELTA).count() as f64 / of.len() as f64
        };
        assert!(share(true) >= 0.9 && share(false) <= 0.2, "{} {}", share(true), share(false));
    }
}

//! One-way latency between machines whose clocks do not agree, by the two methods of the paper on Totem's performance.
//!
//! The first sums up in both directions what the receiver's clock says less the sender's: what the clocks differ by cancels
//! out, as long as it stays the same. The second takes a message and one that goes back, and subtracts only readings of
//! one clock from each other.
use std::collections::BTreeMap;

/// Two machines: the lower number first, or who sent first.
pub type Pair = (usize, usize);

/// A message: what its sender's clock said when it was sent, and its receiver's when it was received. In microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Who sent it.
    pub from: usize,
    /// Who received it.
    pub to: usize,
    /// By the sender's clock.
    pub sent: f64,
    /// By the receiver's clock.
    pub received: f64,
}

/// A mean, as it grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn get(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

/// The mean latency of each two machines by the first method; none of two that did not both send to each other.
pub fn by_sums(readings: &[Reading]) -> BTreeMap<Pair, f64> {
    both_ways(readings).into_iter().map(|(pair, (there, back))| (pair, f64::midpoint(there, back))).collect()
}

/// By how much the second clock of each two machines is ahead of the first one's, by the first method: as long as messages
/// take as long there as back, on average.
pub fn ahead(readings: &[Reading]) -> BTreeMap<Pair, f64> {
    both_ways(readings).into_iter().map(|(pair, (there, back))| (pair, (there - back) / 2.0)).collect()
}

/// The mean latency of each two machines by the second method: each message carries what its sender received last of each
/// other. Each machine's readings are in the order in which it received.
pub fn by_exchanges(readings: &[Reading]) -> BTreeMap<Pair, f64> {
    // What each machine received of each other.
    let mut received: BTreeMap<Pair, Vec<&Reading>> = BTreeMap::new();
    for reading in readings {
        received.entry((reading.from, reading.to)).or_default().push(reading);
    }
    let mut exchanges: BTreeMap<Pair, Mean> = BTreeMap::new();
    for back in readings {
        let there = received.get(&(back.to, back.from)).map_or(&[][..], |of| of);
        // The last that its sender had received when it sent this.
        let before = there.partition_point(|there| there.received <= back.sent);
        if let Some(there) = before.checked_sub(1).and_then(|last| there.get(last)) {
            let twice = (back.received - there.sent) - (back.sent - there.received);
            let pair = (back.from.min(back.to), back.from.max(back.to));
            exchanges.entry(pair).or_default().add(twice / 2.0);
        }
    }
    exchanges.into_iter().filter_map(|(pair, mean)| Some((pair, mean.get()?))).collect()
}

/// What the receivers' clocks say less the senders', on average, there and back, of each two that both sent.
fn both_ways(readings: &[Reading]) -> BTreeMap<Pair, (f64, f64)> {
    let mut sums: BTreeMap<Pair, Mean> = BTreeMap::new();
    for reading in readings {
        sums.entry((reading.from, reading.to)).or_default().add(reading.received - reading.sent);
    }
    let there = sums.iter().filter(|((from, to), _)| from < to);
    let both = |((from, to), there): (&Pair, &Mean)| {
        let back = sums.get(&(*to, *from))?;
        Some(((*from, *to), (there.get()?, back.get()?)))
    };
    there.filter_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two machines that send in turn each millisecond; a message takes 300 us there and 500 back. The second's clock is
    /// ahead by this, and gains so many parts in a million.
    fn readings(ahead: f64, gains: f64) -> Vec<Reading> {
        let clock = |machine: usize, at: f64| if machine == 0 { at } else { at + ahead + at * gains / 1e6 };
        let message = |number: usize| {
            let (from, at) = (number % 2, number as f64 * 1e3);
            let takes = [300.0, 500.0][from];
            Reading { from, to: 1 - from, sent: clock(from, at), received: clock(1 - from, at + takes) }
        };
        (0..1_000).map(message).collect()
    }

    #[test]
    fn clocks_that_differ_by_much_cancel_out() {
        for method in [by_sums, by_exchanges] {
            let found = method(&readings(5e6, 0.0));
            assert_eq!(found.keys().collect::<Vec<_>>(), [&(0, 1)]);
            assert!((found[&(0, 1)] - 400.0).abs() < 1e-3, "{found:?}");
        }
        let found = ahead(&readings(5e6, 0.0))[&(0, 1)];
        assert!((found - (5e6 - 100.0)).abs() < 1e-3, "it takes 200 us longer back: {found}");
    }

    #[test]
    fn a_clock_that_gains_spoils_sums_if_all_goes_there_first_and_exchanges_hardly() {
        let mut readings = readings(5e6, 100.0);
        assert!((by_exchanges(&readings)[&(0, 1)] - 400.0).abs() < 1.0);
        readings.retain(|reading| (reading.from == 0) == (reading.sent < 5e5));
        assert!((by_sums(&readings)[&(0, 1)] - 400.0).abs() > 10.0, "half a second at 100 parts in a million");
    }

    #[test]
    fn whose_readings_come_first_makes_no_difference() {
        let mixed = readings(5e6, 10.0);
        let of = |machine| mixed.iter().copied().filter(move |reading| reading.to == machine);
        let one_after_the_other: Vec<_> = of(1).chain(of(0)).collect();
        for method in [by_sums, by_exchanges, ahead] {
            let (mixed, sorted) = (method(&mixed)[&(0, 1)], method(&one_after_the_other)[&(0, 1)]);
            assert!((mixed - sorted).abs() < 1e-3, "{mixed} {sorted}");
        }
    }

    #[test]
    fn one_way_alone_tells_nothing() {
        let there: Vec<_> = readings(0.0, 0.0).into_iter().filter(|reading| reading.from == 0).collect();
        assert!(by_sums(&there).is_empty() && by_exchanges(&there).is_empty() && ahead(&there).is_empty());
        assert!(by_sums(&[]).is_empty() && by_exchanges(&[]).is_empty());
    }
}

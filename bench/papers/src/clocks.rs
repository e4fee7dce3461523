//! One-way latency between machines whose clocks do not agree, by the two methods of the paper on Totem's performance.
//!
//! The first sums up in both directions what the receiver's clock says less the sender's: what the clocks differ by cancels
//! out, as long as it stays the same. The second takes a message and one that goes back, and subtracts only readings of
//! one clock from each other.
use std::collections::BTreeMap;

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
pub fn by_sums(readings: &[Reading]) -> BTreeMap<(usize, usize), f64> {
    let mut sums: BTreeMap<(usize, usize), Mean> = BTreeMap::new();
    for reading in readings {
        sums.entry((reading.from, reading.to)).or_default().add(reading.received - reading.sent);
    }
    let there = sums.iter().filter(|((from, to), _)| from < to);
    let both = |((from, to), there): (&(usize, usize), &Mean)| {
        let back = sums.get(&(*to, *from))?;
        Some(((*from, *to), (there.get()? + back.get()?) / 2.0))
    };
    there.filter_map(both).collect()
}

/// The same by the second method: each message carries what its sender received last of each other. Readings are in the
/// order in which messages were received.
pub fn by_exchanges(readings: &[Reading]) -> BTreeMap<(usize, usize), f64> {
    let mut exchanges: BTreeMap<(usize, usize), Mean> = BTreeMap::new();
    // What each machine received of each other, in order.
    let mut received: BTreeMap<(usize, usize), Vec<Reading>> = BTreeMap::new();
    for back in readings {
        let there = received.get(&(back.to, back.from)).map_or(&[][..], |of| of);
        // The last that it had received when it sent this.
        let before = there.partition_point(|there| there.received <= back.sent);
        if let Some(there) = before.checked_sub(1).and_then(|last| there.get(last)) {
            let twice = (back.received - there.sent) - (back.sent - there.received);
            let pair = (back.from.min(back.to), back.from.max(back.to));
            exchanges.entry(pair).or_default().add(twice / 2.0);
        }
        received.entry((back.from, back.to)).or_default().push(*back);
    }
    exchanges.into_iter().filter_map(|(pair, mean)| Some((pair, mean.get()?))).collect()
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
    }

    #[test]
    fn a_clock_that_gains_spoils_sums_if_all_goes_there_first_and_exchanges_hardly() {
        let mut readings = readings(5e6, 100.0);
        assert!((by_exchanges(&readings)[&(0, 1)] - 400.0).abs() < 1.0);
        readings.retain(|reading| (reading.from == 0) == (reading.sent < 5e5));
        assert!((by_sums(&readings)[&(0, 1)] - 400.0).abs() > 10.0, "half a second at 100 parts in a million");
    }

    #[test]
    fn one_way_alone_tells_nothing() {
        let there: Vec<_> = readings(0.0, 0.0).into_iter().filter(|reading| reading.from == 0).collect();
        assert!(by_sums(&there).is_empty() && by_exchanges(&there).is_empty());
        assert!(by_sums(&[]).is_empty() && by_exchanges(&[]).is_empty());
    }
}

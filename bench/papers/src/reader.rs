//! A process that reads what comes to a member: its socket holds so many packets, and now and then it is switched out.
use super::traffic::random;
use consort_types::{Duration, Instant, Rng};
use std::collections::VecDeque;

/// What a reader is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderModel {
    /// To take a packet from the socket.
    pub read: Duration,
    /// How many packets the socket holds.
    pub packets: usize,
    /// How long it runs before it is switched out, on average.
    pub runs: Duration,
    /// For how long it is switched out, on average.
    pub out: Duration,
}

/// A reader, and what it read.
#[derive(Clone, Debug)]
pub struct Reader {
    model: ReaderModel,
    rng: Rng,
    free: Instant,
    /// The next time it is switched out, or the present one.
    out: (Instant, Instant),
    /// When each packet in the socket will have been read.
    waiting: VecDeque<Instant>,
    /// Packets that were read, or will be.
    pub taken: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// When the packet was read that came before each loss, once for those that were lost in a row.
    pub bursts: Vec<Instant>,
}

impl Reader {
    /// One that runs from now on.
    pub const fn new(model: ReaderModel, now: Instant, rng: Rng) -> Self {
        Self { model, rng, free: now, out: (now, now), waiting: VecDeque::new(), taken: 0, lost: 0, bursts: Vec::new() }
    }

    /// A packet comes. Returns when it will have been read, unless the socket is full.
    pub fn take(&mut self, now: Instant) -> Option<Instant> {
        while self.waiting.front().is_some_and(|read| *read <= now) {
            self.waiting.pop_front();
        }
        if self.waiting.len() >= self.model.packets {
            self.lost += 1;
            if self.bursts.last() != Some(&self.free) {
                self.bursts.push(self.free);
            }
            return None;
        }
        let read = self.runs_from(now.max(self.free)) + self.model.read;
        self.free = read;
        self.waiting.push_back(read);
        self.taken += 1;
        Some(read)
    }

    /// When it runs first, from a time on.
    fn runs_from(&mut self, at: Instant) -> Instant {
        while self.out.1 <= at {
            let from = self.out.1 + random(self.model.runs, &mut self.rng);
            self.out = (from, from + random(self.model.out, &mut self.rng));
        }
        if self.out.0 <= at { self.out.1 } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ReaderModel = ReaderModel {
        read: Duration::from_micros(10),
        packets: 3,
        runs: Duration::from_millis(5),
        out: Duration::from_millis(5),
    };

    fn reader(model: ReaderModel) -> Reader {
        Reader::new(model, Instant::ZERO, Rng::new(1))
    }

    #[test]
    fn packets_are_read_one_after_the_other_and_those_beyond_the_socket_are_lost() {
        let mut reader = reader(ReaderModel { runs: Duration::from_secs(1_000), ..MODEL });
        let read: Vec<_> = (0..5).map(|_| reader.take(Instant(1_000_000))).collect();
        let at = |us: u64| Some(Instant(1_000_000 + us * 1_000));
        assert_eq!(read, [at(10), at(20), at(30), None, None]);
        assert_eq!((reader.taken, reader.lost), (3, 2));
        assert_eq!(reader.bursts, [Instant(1_030_000)], "one burst of two");
        assert_eq!(reader.take(Instant(1_010_000)), at(40), "one was read: there is room again");
    }

    #[test]
    fn what_comes_while_it_is_switched_out_waits_and_is_then_read_in_quick_succession() {
        let mut reader = reader(ReaderModel { packets: 1_000, ..MODEL });
        let reads: Vec<_> = (0..1_000).filter_map(|ms| reader.take(Instant(ms * 1_000_000))).collect();
        let quick = reads.windows(2).filter(|pair| pair[1].since(pair[0]) == MODEL.read).count();
        assert!((300..700).contains(&quick), "out half of the time: {quick}");
        assert!(reads.is_sorted() && reads.len() == 1_000);
    }
}

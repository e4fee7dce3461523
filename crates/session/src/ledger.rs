//! What one client has under way: numbers and credit, kept by its daemon.
use crate::event::Progress;
use std::collections::VecDeque;

/// The counts of one client's numbered requests. All grow only, but for what is outstanding.
#[derive(Debug, Default)]
pub(crate) struct RequestLedger {
    taken: u64,
    accepted: u64,
    ordered: u64,
    settled: u64,
    outstanding: usize,
    returned: u64,
    /// Refused requests that stand behind accepted ones still without their place: after how many accepted ones, and
    /// how many in a row. Never longer than the list of what is outstanding.
    refused: VecDeque<(u64, u64)>,
}

impl RequestLedger {
    /// Whether a request of `cost` bytes is within the credit. One that is larger than all credit may go alone.
    pub(crate) const fn admits(&self, cost: usize, credit: usize) -> bool {
        self.outstanding == 0 || self.outstanding + cost <= credit
    }

    /// Counts so many requests of `cost` bytes in all.
    pub(crate) const fn accept(&mut self, requests: u64, cost: usize) {
        self.taken += requests;
        self.accepted += requests;
        self.outstanding += cost;
    }

    /// Counts a refused request and returns its number.
    pub(crate) fn refuse(&mut self, cost: usize) -> u64 {
        self.taken += 1;
        self.returned += cost as u64;
        match self.refused.back_mut() {
            _ if self.ordered == self.accepted => self.settled += 1,
            Some((after, run)) if *after == self.accepted => *run += 1,
            _ => self.refused.push_back((self.accepted, 1)),
        }
        self.taken
    }

    /// The oldest accepted requests, so many as were accepted together, have their place; returns the first one's number.
    pub(crate) fn order(&mut self, requests: u64, cost: usize) -> u64 {
        let number = self.settled + 1;
        self.ordered += requests;
        self.settled += requests;
        self.outstanding = self.outstanding.saturating_sub(cost);
        self.returned += cost as u64;
        while let Some((_, run)) = self.refused.front().filter(|(after, _)| *after <= self.ordered) {
            self.settled += run;
            self.refused.pop_front();
        }
        number
    }

    pub(crate) const fn progress(&self) -> Progress {
        Progress { accepted: self.taken, ordered: self.settled, credit: self.returned }
    }

    pub(crate) const fn outstanding(&self) -> usize {
        self.outstanding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    /// The same with a list of every request: true where it is settled.
    #[test]
    fn numbers_agree_with_a_list_of_all_requests() {
        let mut rng = Rng::new(9);
        for _ in 0..300 {
            let mut ledger = RequestLedger::default();
            let mut all: Vec<bool> = Vec::new();
            let mut batches = VecDeque::new();
            for _ in 0..200 {
                match rng.below(3) {
                    0 => {
                        let together = rng.below(3) + 1;
                        ledger.accept(together, 10 * together as usize);
                        all.extend((0..together).map(|_| false));
                        batches.push_back(together);
                    }
                    1 => {
                        all.push(true);
                        assert_eq!(ledger.refuse(10), all.len() as u64);
                    }
                    _ => {
                        if let Some(oldest) = all.iter().position(|settled| !settled) {
                            let together = batches.pop_front().unwrap();
                            assert_eq!(ledger.order(together, 10 * together as usize), oldest as u64 + 1);
                            all[oldest..oldest + together as usize].fill(true);
                        }
                    }
                }
                let ordered = all.iter().take_while(|settled| **settled).count() as u64;
                let waiting = all.iter().filter(|settled| !**settled).count();
                let accepted = all.len() as u64;
                let credit = 10 * (accepted - waiting as u64);
                assert_eq!(ledger.progress(), Progress { accepted, ordered, credit });
                assert_eq!(ledger.outstanding(), 10 * waiting);
                assert!(ledger.refused.len() <= waiting);
            }
        }
    }

    #[test]
    fn a_giant_goes_alone_and_nothing_else_overruns() {
        let mut ledger = RequestLedger::default();
        assert!(ledger.admits(1_000, 100));
        ledger.accept(1, 60);
        assert!(ledger.admits(40, 100) && !ledger.admits(41, 100));
        ledger.order(1, 60);
        assert!(ledger.admits(1_000, 100));
    }
}

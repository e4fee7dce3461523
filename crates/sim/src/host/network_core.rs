//! The core of a host that takes datagrams from the interface to the sockets, beside the one that runs the process.
use consort_types::{Duration, Instant};
use std::collections::VecDeque;

/// What that core does, and how much may wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreModel {
    /// To take a datagram from the interface to its socket.
    pub datagram: Duration,
    /// For each byte of it, in picoseconds.
    pub picos_per_byte: u64,
    /// How many datagrams the interface holds, the one that is being taken included; one that finds no room is dropped.
    /// It always holds one.
    pub ring: usize,
}

/// Such a core at work.
#[derive(Clone, Debug, Default)]
pub struct NetworkCore {
    /// When each datagram that the interface holds is to be in its socket.
    held: VecDeque<Instant>,
}

impl NetworkCore {
    /// A datagram of so many bytes reaches the interface. Returns when it is in its socket, unless it finds no room.
    pub fn take(&mut self, model: &CoreModel, now: Instant, len: usize) -> Option<Instant> {
        while self.held.front().is_some_and(|done| *done <= now) {
            self.held.pop_front();
        }
        if self.held.len() >= model.ring.max(1) {
            return None;
        }
        let begins = self.held.back().copied().unwrap_or(now);
        let done = begins + model.datagram + super::per_byte(model.picos_per_byte, len);
        self.held.push_back(done);
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_taken_one_after_the_other_and_one_that_finds_no_room_is_dropped() {
        let model = CoreModel { datagram: Duration::from_nanos(900), picos_per_byte: 1_000, ring: 2 };
        let mut core = NetworkCore::default();
        let mut take = |at| core.take(&model, Instant(at), 100).map(|done| done.0);
        assert_eq!([take(0), take(10), take(20)], [Some(1_000), Some(2_000), None]);
        assert_eq!([take(1_000), take(1_500)], [Some(3_000), None], "the first has left");
        assert_eq!(take(9_000), Some(10_000));
    }

    #[test]
    fn an_interface_without_a_ring_holds_one() {
        let model = CoreModel { datagram: Duration::from_nanos(100), picos_per_byte: 0, ring: 0 };
        let mut core = NetworkCore::default();
        assert_eq!(
            [0, 50, 100].map(|at| core.take(&model, Instant(at), 1)),
            [Some(Instant(100)), None, Some(Instant(200))]
        );
    }
}

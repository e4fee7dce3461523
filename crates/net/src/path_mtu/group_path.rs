//! Whether what a node multicasts arrives here.
use super::inward_path::AGREE;
use consort_types::{Duration, Incarnation, Instant};

/// That multicast arrives is known for this time after it did.
const LATELY: Duration = Duration::from_millis(2_500);

/// By which way the rounds of a node came. A round goes by multicast, and also by itself to whoever has not said lately
/// that multicast arrives: so a round that came by itself alone says that multicast is lost on the way.
//= W14
#[derive(Debug, Default)]
pub(super) struct GroupPath {
    incarnation: Option<Incarnation>,
    round: u32,
    /// When something came by multicast last.
    last: Option<Instant>,
    /// Whether something of that round came by multicast.
    came: bool,
    /// How many rounds in a row say something else than is believed.
    streak: u32,
    believed: Option<bool>,
}

impl GroupPath {
    /// A probe of a round came, by multicast or by itself.
    pub(super) fn arrived(&mut self, now: Instant, incarnation: Incarnation, round: u32, by_group: bool) {
        self.last = if by_group { Some(now) } else { self.last };
        if by_group && self.believed != Some(false) {
            (self.believed, self.streak) = (Some(true), 0);
        }
        if self.incarnation != Some(incarnation) {
            (self.incarnation, self.streak) = (Some(incarnation), 0);
            (self.round, self.came) = (round, by_group);
        } else if round == self.round {
            self.came |= by_group;
        } else if (round.wrapping_sub(self.round) as i32) > 0 {
            self.close();
            (self.round, self.came) = (round, by_group);
        }
    }

    /// Forgets what rounds in a row said: some of them were lost here, for want of room.
    pub(super) const fn forget(&mut self) {
        self.streak = 0;
        self.came = true;
    }

    /// Whether multicast arrives, as far as that is known by now.
    pub(super) fn believed(&self, now: Instant) -> Option<bool> {
        self.believed.filter(|arrives| !arrives || self.last.is_some_and(|last| now.since(last) < LATELY))
    }

    /// Whether something else than is believed has begun: more rounds are to follow soon.
    pub(super) const fn doubts(&self) -> bool {
        self.streak > 0
    }

    fn close(&mut self) {
        if self.believed == Some(self.came) {
            self.streak = 0;
            return;
        }
        self.streak += 1;
        if self.streak >= AGREE {
            (self.believed, self.streak) = (Some(self.came), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Incarnation = Incarnation(1);
    const NOW: Instant = Instant(5);

    /// Rounds one after the other, each of which comes by itself, and by multicast where it is so said.
    fn after(path: &mut GroupPath, from: u32, by_group: &[bool]) -> Option<bool> {
        for (round, by_group) in (from..).zip(by_group) {
            path.arrived(NOW, FIRST, round, false);
            if *by_group {
                path.arrived(NOW, FIRST, round, true);
            }
        }
        path.believed(NOW)
    }

    #[test]
    fn what_comes_by_multicast_once_is_believed_and_its_loss_only_after_rounds_in_a_row() {
        //= W14 test
        let mut path = GroupPath::default();
        assert_eq!(after(&mut path, 0, &[false; 4]), None, "the last round is not over");
        assert_eq!(after(&mut path, 4, &[false]), Some(false));
        assert_eq!(after(&mut path, 5, &[true; 4]), Some(false), "one that came by chance changes nothing");
        assert_eq!(after(&mut path, 9, &[true]), Some(true));
        assert_eq!(after(&mut path, 10, &[false, false, false, true, false, false, false, true]), Some(true));
        let mut other = GroupPath::default();
        assert_eq!(after(&mut other, 0, &[true]), Some(true));
    }

    #[test]
    fn what_was_lost_for_want_of_room_here_says_nothing_of_the_way() {
        let mut path = GroupPath::default();
        after(&mut path, 0, &[true]);
        for round in 1..50 {
            after(&mut path, round, &[false]);
            path.forget();
        }
        assert_eq!((path.believed(NOW), path.believed(NOW + LATELY)), (Some(true), None), "nothing came since");
    }

    #[test]
    fn a_round_that_was_overtaken_and_another_incarnation_begin_nothing_anew() {
        let mut path = GroupPath::default();
        after(&mut path, 5, &[false; 3]);
        path.arrived(NOW, FIRST, 2, true);
        assert_eq!(path.believed(NOW), Some(true), "multicast arrives, however late");
        path.arrived(NOW, Incarnation(2), 1, false);
        assert_eq!((path.believed(NOW), path.doubts()), (Some(true), false));
    }
}

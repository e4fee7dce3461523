//! Members that are heard, but take nothing in: they would hold up everybody for ever.
use consort_types::{Duration, Instant};

/// Watches who lacks what is held here, and since when it has not come on. For engines: whom it names is to be given to
/// [`Membership::exclude`](super::Membership::exclude). Members go by their place in the view.
#[derive(Clone, Debug)]
pub struct Laggards {
    /// How much each member was known to hold when it was last seen to come on, or to lack nothing; and when that was.
    clocks: Vec<(u64, Instant)>,
    /// The last input.
    awake: Instant,
    patience: Duration,
    /// Without an input for longer than this the node itself was paused.
    pause: Duration,
}

impl Laggards {
    /// A view of `n` members begins. Who lacks something and does not come on for `patience` is deaf; `silence` is the
    /// membership's timer.
    pub fn new(now: Instant, n: usize, patience: Duration, silence: Duration) -> Self {
        Self { clocks: vec![(0, now); n], awake: now, patience, pause: silence / 2 }
    }

    /// To be called at every input: nobody is judged by what was known before this node was paused.
    pub fn awake(&mut self, now: Instant) {
        //= M54
        if now.since(self.awake) > self.pause {
            self.clocks.iter_mut().for_each(|(_, at)| *at = now);
        }
        self.awake = now;
    }

    /// A member that has lacked for too long what this one, `me`, holds, by how much each is known to hold of each. If all
    /// others lack what this one sent, and only that, it is this one that is not heard.
    ///
    /// # Panics
    /// If `known` has another number of members than the view, or not a number for each of them in each row.
    pub fn deaf(&mut self, now: Instant, me: usize, known: &[Vec<u64>]) -> Option<usize> {
        self.awake(now);
        let held = &known[me];
        for (known, clock) in known.iter().zip(&mut self.clocks) {
            let sum = known.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
            let lacks = known.iter().zip(held).any(|(known, held)| known < held);
            if clock.0 != sum || !lacks {
                *clock = (sum, now);
            }
        }
        let stands = |place: usize| now.since(self.clocks[place].1);
        let others = || (0..known.len()).filter(|place| *place != me);
        let deaf = others().find(|place| stands(*place) >= self.patience)?;
        let lacks_mine_alone = |place: usize| (0..held.len()).all(|of| of == me || known[place][of] >= held[of]);
        // They may have come on last at different times.
        let all = others().all(|place| stands(place) >= self.patience / 2 && lacks_mine_alone(place));
        Some(if all && known.len() > 2 { me } else { deaf })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const SILENCE: Duration = Duration::from_millis(200);
    const PATIENCE: Duration = Duration::from_millis(400);

    /// Judges every 50 ms up to `until`, beginning at 0; says when somebody was named, and who.
    fn first_named(until: u64, known: impl Fn(u64) -> Vec<Vec<u64>>) -> Option<(u64, usize)> {
        let n = known(0).len();
        let mut laggards = Laggards::new(Instant::ZERO, n, PATIENCE, SILENCE);
        let mut at = (0..=until).step_by(50);
        at.find_map(|ms| Some((ms, laggards.deaf(Instant::ZERO + MS(ms), 0, &known(ms))?)))
    }

    #[test]
    fn who_lacks_something_and_does_not_come_on_is_named_and_nobody_else() {
        assert_eq!(first_named(2_000, |_| vec![vec![1, 5, 0], vec![1, 5, 0], vec![1, 3, 0]]), Some((400, 2)));
        assert_eq!(first_named(2_000, |ms| vec![vec![1, 99, 0], vec![1, 99, 0], vec![1, ms / 200, 0]]), None);
        assert_eq!(first_named(2_000, |_| vec![vec![1, 5], vec![9, 5]]), None);
    }

    #[test]
    fn whose_own_packets_alone_all_others_lack_names_itself() {
        assert_eq!(first_named(2_000, |_| vec![vec![4, 5, 0], vec![1, 5, 0], vec![0, 5, 0]]), Some((400, 0)));
        let later = |ms: u64| vec![vec![4, 5, 0], vec![1, 5, 0], vec![0, if ms < 150 { 4 } else { 5 }, 0]];
        assert_eq!(first_named(2_000, later), Some((400, 0)), "though one came on later");
        assert_eq!(first_named(2_000, |_| vec![vec![4, 5, 0], vec![1, 5, 0], vec![0, 4, 0]]), Some((400, 1)));
        assert_eq!(first_named(2_000, |_| vec![vec![4, 5], vec![1, 5]]), Some((400, 1)), "of two nobody can tell");
    }

    #[test]
    fn after_a_pause_all_get_their_time_anew() {
        //= M54 test
        let known = vec![vec![1, 1], vec![0, 1]];
        let mut laggards = Laggards::new(Instant::ZERO, 2, PATIENCE, SILENCE);
        let at = |ms| Instant::ZERO + MS(ms);
        assert_eq!(laggards.deaf(at(50), 0, &known), None);
        laggards.awake(at(5_000));
        assert_eq!(laggards.deaf(at(5_001), 0, &known), None);
        (1..8).for_each(|n| laggards.awake(at(5_001 + n * 50)));
        assert_eq!(laggards.deaf(at(5_399), 0, &known), None);
        assert_eq!(laggards.deaf(at(5_400), 0, &known), Some(1));
    }
}

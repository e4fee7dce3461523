//! Which attacks are tried, beside how much, and how quick the good clients must stay.
use std::time::Duration;

use consort_types::Rng;

use super::attacks::{Attack, all};

/// How many connections each attack has.
static CONNECTIONS: [usize; 2] = [1, 100];
/// What is drawn follows from this number, if no other is given.
const SEED: u64 = 45;
/// An attack lasts this time at least. With what follows it, it takes about the second time in a short run.
const SPAN: Duration = Duration::from_secs(1);
const EACH: Duration = Duration::from_secs(2);
/// How many times as long as without an attack the messages of good clients may take, and what they may take in any case.
const TIMES: u32 = 3;
const FLOOR: Duration = Duration::from_millis(20);
/// The same where not all attacks are tried: the host of such a run is busy with others, and does not show how quick a daemon
/// is. That nothing stops shows there, too.
const BUSY: Duration = Duration::from_secs(1);
/// A host that stops for this long loses tokens by itself.
const STALL: Duration = Duration::from_millis(100);

/// How much there is before the attacks, and what is asked of the good clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The groups that exist, and the connections that are members of one.
    pub groups: usize,
    pub members: usize,
    /// How long the good clients are measured without an attack.
    pub quiet: Duration,
    /// What their messages may take in any case.
    pub floor: Duration,
    /// How many times as long as without an attack they may take.
    times: u32,
}

const WHOLE: Scale = Scale { groups: 20_000, members: 128, quiet: Duration::from_secs(4), floor: FLOOR, times: TIMES };
const SHORT: Scale = Scale { groups: 2_000, members: 32, quiet: Duration::from_secs(2), floor: BUSY, times: 0 };

impl Scale {
    /// Whether the host of a short run itself stopped long enough to make times, views and tokens say nothing of the daemons.
    pub fn excuses(&self, stalled: Duration) -> bool {
        self.times == 0 && stalled >= STALL
    }

    /// What their messages may take, by what they take without an attack.
    pub fn limit(&self, quiet: Duration) -> Duration {
        (quiet * self.times).max(self.floor)
    }
}

/// One attack, from each of these numbers of connections.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub attack: &'static Attack,
    pub connections: &'static [usize],
}

/// What is tried.
#[derive(Debug)]
pub struct Plan {
    pub turns: Vec<Turn>,
    /// How long each attack lasts.
    pub span: Duration,
    /// No turn begins later than that.
    pub within: Duration,
    pub scale: Scale,
    pub seed: u64,
}

impl Plan {
    /// All attacks in any order, which last this long together; or as many as fit into the time that is asked for.
    pub fn new(long: Duration, asked: Option<Duration>, seed: Option<u64>) -> Self {
        let (seed, most) = (seed.unwrap_or(SEED), all().count() * CONNECTIONS.len());
        let mut rng = Rng::new(seed);
        let fits = asked.map(|time| (time.as_millis() / EACH.as_millis()) as usize).filter(|fits| *fits < most);
        let Some((fits, within)) = fits.zip(asked) else {
            let mut turns: Vec<_> = all().map(|attack| Turn { attack, connections: &CONNECTIONS }).collect();
            shuffle(&mut turns, &mut rng);
            let span = (long / most as u32).max(SPAN);
            return Self { turns, span, within: Duration::MAX, scale: WHOLE, seed };
        };
        let each = |attack| CONNECTIONS.chunks(1).map(move |connections| Turn { attack, connections });
        let mut turns: Vec<_> = all().flat_map(each).collect();
        shuffle(&mut turns, &mut rng);
        turns.truncate(fits);
        Self { turns, span: SPAN, within, scale: SHORT, seed }
    }
}

fn shuffle<T>(all: &mut [T], rng: &mut Rng) {
    for at in (1..all.len()).rev() {
        all.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(asked: Option<u64>, seed: u64) -> Plan {
        Plan::new(Duration::from_secs(36), asked.map(Duration::from_secs), Some(seed))
    }

    fn names(plan: &Plan) -> Vec<(&'static str, &'static [usize])> {
        plan.turns.iter().map(|turn| (turn.attack.name, turn.connections)).collect()
    }

    #[test]
    fn each_attack_has_its_turn_once_unless_time_is_short() {
        let whole = planned(None, SEED);
        let mut tried = names(&whole);
        tried.sort_unstable();
        tried.dedup();
        assert_eq!((tried.len(), whole.turns.len()), (all().count(), all().count()));
        assert!(tried.iter().all(|(_, connections)| *connections == CONNECTIONS));
        assert_eq!((whole.span, whole.scale), (SPAN, WHOLE));
        let long = planned(Some(3_600), SEED);
        assert!(long.turns.len() == whole.turns.len() && long.scale == WHOLE, "all fit");
    }

    #[test]
    fn a_short_run_tries_as_many_as_fit_by_its_seed() {
        let short = planned(Some(40), 7);
        assert_eq!((short.turns.len(), short.within, short.scale), (20, Duration::from_secs(40), SHORT));
        assert!(short.turns.iter().all(|turn| turn.connections.len() == 1));
        assert_eq!(names(&short), names(&planned(Some(40), 7)));
        assert_ne!(names(&short), names(&planned(Some(40), 8)));
        let mut once = names(&short);
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), 20, "none is tried twice");
    }

    #[test]
    fn a_busy_host_has_a_limit_of_its_own() {
        let limits = |ms| [WHOLE, SHORT].map(|scale| scale.limit(Duration::from_millis(ms)).as_millis());
        assert_eq!((limits(1), limits(10), limits(900)), ([20, 1_000], [30, 1_000], [2_700, 1_000]));
        let excuses = |ms| [WHOLE, SHORT].map(|scale| scale.excuses(Duration::from_millis(ms)));
        assert_eq!((excuses(99), excuses(100)), ([false, false], [false, true]));
    }
}

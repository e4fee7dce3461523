//! The searches that are run as a matter of course.
use crate::world::Budget;
use crate::{Contested, World};
use consort_ring_model::{Found, Report, program, search};

/// A search through everything within these bounds, for every test run: some seconds.
pub const SHORT: [Budget; 3] = [
    Budget { stands: 1, instances: 2, losses: 1, ..NOTHING },
    Budget { stands: 1, instances: 1, crashes: 1, forgets: 1, ..NOTHING },
    Budget { stands: 2, instances: 1, ..NOTHING },
];

/// Searches of up to some millions of worlds each.
pub const LONG: [Budget; 4] = [
    Budget { stands: 1, instances: 2, losses: 1, overtakings: 1, ..NOTHING },
    Budget { stands: 1, instances: 1, losses: 1, crashes: 1, forgets: 1, ..NOTHING },
    Budget { stands: 2, instances: 1, losses: 1, ..NOTHING },
    Budget { stands: 2, instances: 1, crashes: 1, ..NOTHING },
];

/// The same where one acceptor was not told of the log that it has begun.
pub const WITHOUT_LOG: [Budget; 1] = [Budget { stands: 1, instances: 1, ..NOTHING }];

const NOTHING: Budget =
    Budget { stands: 0, instances: 0, losses: 0, overtakings: 0, crashes: 0, forgets: 0, repeats: 0 };

/// More than any of these reaches: one that does not end has grown beyond what it was made for.
const MOST: u64 = 8_000_000;
/// Of so many worlds one is continued until all is decided.
const SAMPLE: u64 = 2_000;

/// Searches within bounds.
///
/// # Errors
/// The first broken promise.
pub fn run(budget: Budget) -> Result<Report<Contested>, Box<Found>> {
    within(World::new(|_| {}), budget)
}

/// Searches within bounds where one acceptor was not told of its log.
///
/// # Errors
/// The first broken promise.
pub fn run_without_log(budget: Budget) -> Result<Report<Contested>, Box<Found>> {
    within(World::one_without_log(|_| {}), budget)
}

fn within(mut world: World, budget: Budget) -> Result<Report<Contested>, Box<Found>> {
    world.budget = budget;
    search(&world, MOST, SAMPLE)
}

/// The bounds in a few words.
pub fn name(budget: Budget) -> String {
    let Budget { stands, instances, losses, overtakings, crashes, forgets, repeats } = budget;
    let bounds = [
        (stands, "ballots"),
        (instances, "instances"),
        (losses, "lost"),
        (overtakings, "overtaking"),
        (crashes, "crashed"),
        (forgets, "forgot"),
        (repeats, "asked again"),
    ];
    program::name(&bounds)
}

//! The searches that are run as a matter of course.
use crate::program::name;
use crate::world::Budget;
use crate::{Found, Report, Start, ViewSizes, search};

/// A search and its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where it begins.
    pub start: Start,
    /// How many nodes there are.
    pub nodes: u16,
    /// What may go wrong on one path.
    pub budget: Budget,
}

/// Searches of a few thousand worlds each, for every test run.
pub const SHORT: [Plan; 6] = [
    plan(Start::Forming, 2, Budget { losses: 1, expiries: 2, ..NOTHING }),
    plan(Start::Forming, 3, Budget { expiries: 1, ..NOTHING }),
    plan(Start::Recovering, 2, Budget { losses: 1, expiries: 2, ..NOTHING }),
    plan(Start::Recovering, 3, Budget { crashes: 1, expiries: 2, ..NOTHING }),
    plan(Start::Merging, 3, Budget { expiries: 1, ..NOTHING }),
    plan(Start::Working, 3, Budget { losses: 1, expiries: 1, ..NOTHING }),
];

/// Searches of up to a million worlds each; all together take some minutes and less than 1 GB.
pub const LONG: [Plan; 10] = [
    plan(Start::Forming, 2, Budget { losses: 2, doubles: 1, crashes: 1, restarts: 1, expiries: 2, ..NOTHING }),
    plan(Start::Forming, 3, Budget { losses: 1, expiries: 2, ..NOTHING }),
    plan(Start::Merging, 2, Budget { losses: 1, crashes: 1, restarts: 1, expiries: 2, ..NOTHING }),
    plan(Start::Merging, 3, Budget { losses: 1, expiries: 1, ..NOTHING }),
    plan(Start::Merging, 3, Budget { crashes: 1, expiries: 1, ..NOTHING }),
    plan(Start::Recovering, 3, Budget { losses: 1, expiries: 3, ..NOTHING }),
    plan(Start::Recovering, 3, Budget { losses: 1, crashes: 1, restarts: 1, expiries: 1, ..NOTHING }),
    plan(Start::Working, 3, Budget { losses: 1, overtakings: 1, expiries: 2, ..NOTHING }),
    plan(Start::Working, 3, Budget { crashes: 1, expiries: 1, holds: 1, ..NOTHING }),
    plan(Start::Working, 4, Budget { losses: 1, expiries: 1, holds: 1, ..NOTHING }),
];

const NOTHING: Budget =
    Budget { losses: 0, doubles: 0, overtakings: 0, crashes: 0, restarts: 0, expiries: 0, hurries: 0, holds: 0 };

/// More than any of these reaches: one that does not end has grown beyond what it was made for.
const MOST: u64 = 5_000_000;
/// Of so many worlds one is continued until a ring stands.
const SAMPLE: u64 = 1_000;

const fn plan(start: Start, nodes: u16, budget: Budget) -> Plan {
    Plan { start, nodes, budget }
}

impl Plan {
    /// Searches.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn run(&self) -> Result<Report<ViewSizes>, Box<Found>> {
        let mut world = self.start.world(self.nodes);
        world.budget = self.budget;
        search(&world, MOST, SAMPLE)
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Budget { losses, doubles, overtakings, crashes, restarts, expiries, hurries, holds } = self.budget;
        let bounds = [
            (losses, "lost"),
            (doubles, "doubled"),
            (overtakings, "overtaking"),
            (crashes, "crashed"),
            (restarts, "restarted"),
            (expiries, "missed"),
            (hurries, "hurried"),
            (holds, "held"),
        ];
        write!(f, "{} of {}, {}", self.start.name(), self.nodes, name(&bounds))
    }
}

//! Where searches begin.
use crate::fair;
use crate::world::{Action, World};
use consort_order::Lane;
use consort_ring::RingConfig;
use consort_types::{Duration, NodeId, Service};

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// All nodes are started and have sent their first packets.
    Forming,
    /// Node 1 and the others have rings of their own, and the ways between them are mended.
    Merging,
    /// A ring of all has lost its token, and its last node lacks some of what was said.
    Recovering,
    /// A ring of all has messages to send.
    Working,
}

/// Long enough for any ring to form.
const SETTLED: Duration = Duration::from_millis(1_000);

impl Start {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Forming, Self::Merging, Self::Recovering, Self::Working];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forming => "forming",
            Self::Merging => "merging",
            Self::Recovering => "recovering",
            Self::Working => "working",
        }
    }

    /// The world in which the search begins, for `n` nodes.
    pub fn world(self, n: u16) -> World {
        self.world_of(n, |_| {})
    }

    /// The same with other settings.
    pub fn world_of(self, n: u16, adjust: impl Fn(&mut RingConfig)) -> World {
        let nodes: Vec<_> = (1..=n).map(NodeId).collect();
        let mut config = RingConfig::new(NodeId(1), nodes);
        adjust(&mut config);
        let mut world = World::new(n, config);
        world.beacons = self == Self::Merging;
        if self == Self::Merging {
            world.cut(&[1], &(2..=n).collect::<Vec<_>>());
        }
        (0..usize::from(n)).for_each(|i| world.start(i));
        match self {
            Self::Forming => world.submit(0, Service::Safe, "safe of n1"),
            Self::Merging => merging(&mut world),
            Self::Recovering => recovering(&mut world, n),
            Self::Working => working(&mut world),
        }
        world
    }
}

fn working(world: &mut World) {
    fair::settle(world, SETTLED);
    world.submit(0, Service::Agreed, "agreed of n1");
    world.submit(1, Service::Safe, "safe of n2");
}

fn merging(world: &mut World) {
    fair::settle(world, SETTLED);
    world.submit(0, Service::Safe, "safe of n1, alone");
    world.heal();
}

/// The representative has numbered two messages and sent them; nothing of it came to the last node, and no token to
/// anybody.
fn recovering(world: &mut World, n: u16) {
    fair::settle(world, SETTLED);
    world.submit(0, Service::Agreed, "agreed of n1");
    world.submit(0, Service::Safe, "safe of n1");
    world.submit(1, Service::Safe, "safe of n2");
    world.wake(0);
    world.lose(|to, lane| to == NodeId(n) || lane == Lane::Token);
    while !world.is_quiet() {
        world.apply(Action::Deliver(0));
    }
    let expired = world.ring(0).and_then(|ring| ring.armed(world.now).find(|armed| armed.is_expiry()));
    if let Some(expired) = expired {
        world.budget.expiries = 1;
        world.apply(Action::Fire(0, expired));
    }
}

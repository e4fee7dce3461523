//! Readers that outlive their daemons: each reads some groups, from one daemon at a time, and goes on at the next where it
//! was. How far it has come it knows by what clients know it by.
use super::roaming_sessions::{HomeTurn, RoamingHome};
use crate::plan::RunPlan;
use consort_session::{Place, ReachedPlace, ReadingProgress};
use consort_types::{Duration, Instant, MemberId, NodeId, Rng, ViewId};
use std::cell::RefCell;
use std::rc::Rc;

/// In this share of the runs there are such readers.
const SHARE: f64 = 0.3;

/// The readers of a run, shared by all nodes, and what each node keeps for them.
#[derive(Clone, Debug)]
pub struct ResumingReaders {
    shared: Rc<RefCell<Resuming>>,
    /// So many bytes, for so long.
    retention: (usize, Duration),
}

/// All of them, and the chance by which they move.
#[derive(Debug)]
pub(super) struct Resuming {
    rng: Rng,
    nodes: u16,
    pub readers: Vec<ResumingReader>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct ResumingReader {
    /// A bit for each group that it reads.
    pub groups: u8,
    pub home: RoamingHome,
    /// Where it was when it lost its last daemon.
    pub from: Option<ReachedPlace>,
    /// Where it is by what its present daemon told it.
    pub progress: ReadingProgress,
    /// It does not read what it is told until then, by its node's clock.
    pub stalled: Option<Instant>,
}

/// What a node does for a reader at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResumingDeed {
    Connect,
    /// It goes on elsewhere; `stays` if its connection lives on.
    Move {
        stays: bool,
    },
    Stall(Duration),
    /// It reads on.
    GoOn,
    /// It begins anew, from the start.
    Anew,
    Nothing,
}

impl ResumingReaders {
    /// Those of a run, if it has any.
    pub fn draw(plan: &RunPlan) -> Option<Self> {
        Rng::new(plan.seed).fork(0x4e52).chance(SHARE).then(|| Self::new(plan))
    }

    /// Those of a run that has some.
    pub fn new(plan: &RunPlan) -> Self {
        let mut rng = Rng::new(plan.seed).fork(0x4e51);
        let bytes = [4 << 10, 64 << 10, 1 << 20, 16 << 20][rng.below(4) as usize];
        let keep = Duration::from_millis([300, 1_000, 3_000, 60_000][rng.below(4) as usize]);
        let retention = if plan.shipped { (16 << 20, Duration::from_secs(60)) } else { (bytes, keep) };
        let count = rng.between(1, 3);
        let mut reader = || {
            let home = NodeId(rng.below(u64::from(plan.nodes)) as u16);
            ResumingReader::new(rng.between(1, 3) as u8, home)
        };
        let readers = (0..count).map(|_| reader()).collect();
        let shared = Rc::new(RefCell::new(Resuming { rng, nodes: plan.nodes, readers }));
        Self { shared, retention }
    }

    /// How many bytes each node keeps, and for how long.
    pub const fn retention(&self) -> (usize, Duration) {
        self.retention
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Resuming) -> T) -> T {
        act(&mut self.shared.borrow_mut())
    }

    pub(super) fn reader<T>(&self, at: usize, act: impl FnOnce(&mut ResumingReader) -> T) -> T {
        self.with(|resuming| act(&mut resuming.readers[at]))
    }
}

impl Resuming {
    /// A node looks after a reader.
    pub fn turn(&mut self, at: usize, me: MemberId, now: Instant, calm: bool) -> ResumingDeed {
        let Self { rng, nodes, readers } = self;
        let reader = &mut readers[at];
        match reader.home.turn(me, *nodes) {
            HomeTurn::Elsewhere => return ResumingDeed::Nothing,
            HomeTurn::New => {
                reader.lose();
                return ResumingDeed::Connect;
            }
            HomeTurn::Here => {}
        }
        if reader.stalled.is_some_and(|until| calm || now >= until) {
            reader.stalled = None;
            return ResumingDeed::GoOn;
        }
        if calm {
            return ResumingDeed::Nothing;
        }
        match rng.below(400) {
            0..12 => {
                let stays = rng.chance(0.5);
                self.send_away(at);
                ResumingDeed::Move { stays }
            }
            12..22 if reader.stalled.is_none() => {
                let long = if rng.chance(0.5) { 200e6 } else { 1_200e6 };
                ResumingDeed::Stall(Duration::from_nanos(rng.exponential(long).min(3e9) as u64))
            }
            22 if reader.stalled.is_none() => ResumingDeed::Anew,
            _ => ResumingDeed::Nothing,
        }
    }

    /// A reader goes on elsewhere, or comes back.
    pub fn send_away(&mut self, at: usize) {
        let Self { rng, nodes, readers } = self;
        readers[at].lose();
        readers[at].home.leave(NodeId(rng.below(u64::from(*nodes)) as u16));
    }
}

impl ResumingReader {
    fn new(groups: u8, home: NodeId) -> Self {
        let (from, progress) = (None, ReadingProgress::default());
        Self { groups, home: RoamingHome::new(home), from, progress, stalled: None }
    }

    /// Its daemon is lost: it goes on where it was.
    pub fn lose(&mut self) {
        self.from = self.progress.place().cloned().or(self.from.take());
        self.progress = ReadingProgress::default();
        self.stalled = None;
    }

    /// Nothing is known any more of what it read.
    pub fn forget(&mut self) {
        (self.from, self.progress) = (None, ReadingProgress::default());
    }

    /// The view that it is in, and the first place in it that it has not read.
    pub fn place(&self) -> (ViewId, Place) {
        self.progress.place().map_or((ViewId::default(), Place::default()), place_in)
    }
}

/// The view that a place lies in, and where in it.
pub(super) fn place_in(place: &ReachedPlace) -> (ViewId, Place) {
    (place.trail.as_ref().map_or(ViewId::default(), |trail| trail.view), place.next)
}

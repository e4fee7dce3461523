//! Schedules: lists of steps that mean something in whatever state they come, so that any part of one is one.
use consort_types::Rng;

/// One step. Numbers are taken modulo whatever they choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A ring decides its sender's next value.
    Value {
        ring: u8,
        sender: u8,
        messages: u8,
    },
    /// A ring decides again what it has decided.
    Repeat {
        ring: u8,
        back: u8,
    },
    /// A ring decides a value though the sender's one before it is not decided.
    TooEarly {
        ring: u8,
        sender: u8,
    },
    /// A ring skips so far beyond the furthest ring.
    Skip {
        ring: u8,
        beyond: u8,
    },
    /// A skip comes so late that others have passed where it leads.
    LateSkip {
        ring: u8,
        back: u8,
    },
    /// A reader reads so many entries of a ring.
    Read {
        reader: u8,
        ring: u8,
        entries: u8,
    },
    /// A reader hands out so much.
    HandOut {
        reader: u8,
        items: u8,
    },
    /// A reader takes a checkpoint, for itself and for its like.
    Checkpoint {
        reader: u8,
    },
    Crash {
        reader: u8,
    },
    /// It comes back: with its own checkpoint, or with nothing, so that it waits for another's.
    Restart {
        reader: u8,
        own: bool,
    },
    /// Readers that wait for a checkpoint look whether there is one.
    Install {
        reader: u8,
    },
    /// A ring trims its log by so many entries, as far as nobody needs them.
    Trim {
        ring: u8,
        entries: u8,
    },
    /// A subscriber proposes to join or to leave a ring.
    Change {
        subscriber: u8,
        ring: u8,
        beside: u8,
    },
    /// A copy of its last change, or of one before, is decided in one of the two rings; perhaps another time.
    Copy {
        subscriber: u8,
        beside: bool,
        back: u8,
    },
}

/// What a schedule is played with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub seed: u64,
    pub rings: u8,
    pub subscribers: u8,
    pub readers: u8,
    pub budget: usize,
}

pub fn draw(seed: u64) -> (Setup, Vec<Step>) {
    let mut rng = Rng::new(seed ^ 0x3e26e);
    let setup = Setup {
        seed,
        rings: rng.between(2, 4) as u8,
        subscribers: rng.between(1, 3) as u8,
        readers: rng.between(2, 5) as u8,
        budget: [60, 200, 10_000][rng.below(3) as usize],
    };
    let changes = [0, 3, 12][rng.below(3) as usize];
    let steps = rng.between(30, 250 + 15 * changes);
    (setup, (0..steps).map(|_| step(&mut rng, changes)).collect())
}

fn step(rng: &mut Rng, changes: u64) -> Step {
    let mut some = |n: u64| rng.below(n) as u8;
    let (ring, reader, subscriber) = (some(12), some(60), some(6));
    match rng.below(78 + 3 * changes) {
        0..14 => Step::Value { ring, sender: rng.below(2) as u8, messages: rng.between(1, 3) as u8 },
        14..17 => Step::Repeat { ring, back: rng.below(4) as u8 },
        17..19 => Step::TooEarly { ring, sender: rng.below(2) as u8 },
        19..25 => Step::Skip { ring, beyond: rng.below(4) as u8 },
        25..28 => Step::LateSkip { ring, back: rng.below(6) as u8 },
        28..46 => Step::Read { reader, ring, entries: rng.between(1, 9) as u8 },
        46..62 => Step::HandOut { reader, items: rng.between(1, 9) as u8 },
        62..66 => Step::Checkpoint { reader },
        66..68 => Step::Crash { reader },
        68..71 => Step::Restart { reader, own: rng.chance(0.5) },
        71..74 => Step::Install { reader },
        74..78 => Step::Trim { ring, entries: rng.between(1, 9) as u8 },
        n if n < 78 + changes => Step::Change { subscriber, ring, beside: rng.below(12) as u8 },
        _ => Step::Copy { subscriber, beside: rng.chance(0.5), back: rng.below(8).saturating_sub(4) as u8 },
    }
}

/// The part of a schedule that still fails when any of its steps is left out, as far as that is found in so many tries.
pub fn shrink<S: Copy>(steps: Vec<S>, fails: impl Fn(&[S]) -> bool) -> Vec<S> {
    let (mut steps, mut tries) = (steps, 3_000);
    let mut size = steps.len().div_ceil(2);
    while size > 0 && tries > 0 {
        let mut at = 0;
        while at < steps.len() && tries > 0 {
            tries -= 1;
            let without: Vec<_> = steps[..at].iter().chain(steps.get(at + size..).unwrap_or(&[])).copied().collect();
            if fails(&without) {
                steps = without;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    steps
}

//! Schedules of daemons that send to many rings: drawn, played, and shortened where they fail.
use super::lines::{Flaw, Step, World};
use super::promise;
use super::schedule::shrink;
use consort_types::Rng;

/// Rings and daemons.
type Setup = (u8, u8);

fn draw(seed: u64) -> (Setup, Vec<Step>) {
    let mut rng = Rng::new(seed ^ 0x11e5);
    let setup = (rng.between(1, 4) as u8, rng.between(2, 4) as u8);
    let (steps, troubles) = (rng.between(30, 400), [0, 1, 4][rng.below(3) as usize]);
    (setup, (0..steps).map(|_| step(&mut rng, troubles)).collect())
}

fn step(rng: &mut Rng, troubles: u64) -> Step {
    let mut some = |n: u64| rng.below(n) as u8;
    let (ring, daemon, sender) = (some(12), some(12), some(12));
    match rng.below(90 + 3 * troubles) {
        0..20 => Step::Submit { daemon, ring, len: rng.below(120) as u8, control: rng.chance(0.2) },
        20..42 => Step::Decide { ring, sender, messages: rng.between(1, 4) as u8 },
        42..44 => Step::Again { ring, sender },
        44..54 => Step::Skip { ring, beyond: rng.below(8) as i8 - 3 },
        54..73 => Step::Read { daemon, ring, entries: rng.between(1, 9) as u8 },
        73..88 => Step::HandOut { daemon, items: rng.between(1, 9) as u8 },
        88..90 => Step::View { some: u8::MAX },
        n if n < 90 + troubles => Step::View { some: rng.below(16) as u8 },
        n if n < 90 + 2 * troubles => Step::Crash { daemon },
        _ => Step::Restart { daemon },
    }
}

fn play((rings, daemons): Setup, steps: &[Step], flaw: Option<Flaw>) -> Result<World, String> {
    let mut world = World::new(rings, daemons, flaw);
    world.play(Step::View { some: u8::MAX })?;
    steps.iter().try_for_each(|step| world.play(*step))?;
    world.heal()?;
    Ok(world)
}

/// The shortest schedule that breaks the same promise.
fn shortest(setup: Setup, steps: Vec<Step>, flaw: Option<Flaw>, said: &str) -> String {
    let fails = |steps: &[Step]| play(setup, steps, flaw).is_err_and(|again| promise(&again) == promise(said));
    let steps = shrink(steps, fails);
    let lines: Vec<_> = steps.iter().map(|step| format!("    Step::{step:?},")).collect();
    let said = play(setup, &steps, flaw).err().unwrap_or_default();
    format!("{setup:?}\n{}\n{said}", lines.join("\n"))
}

#[test]
fn daemons_that_send_to_many_rings_at_once_keep_all_promises() {
    //= MP51 test
    //= MP52 test
    //= MP62 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first: u64 = read("FIRST_SEED", 1);
    let (mut given, mut held, seeds) = (0, 0, read("SEEDS", 2_000));
    for seed in first..first + seeds {
        let (setup, steps) = draw(seed);
        match play(setup, &steps, None) {
            Ok(world) => {
                given += world.given;
                held += world.held;
            }
            Err(said) => panic!("{said}\nseed {seed}: {}", shortest(setup, steps, None, &said)),
        }
    }
    println!("{seeds} schedules, {given} messages given, {held} held");
    assert!(given > 20 * seeds && held > seeds, "the model tries what it is for");
}

/// A rule, the promise that its loss breaks first, and the shortest schedule found that shows it.
struct Loss {
    flaw: Flaw,
    promise: &'static str,
    setup: Setup,
    steps: &'static [Step],
}

const fn submit(daemon: u8, ring: u8) -> Step {
    Step::Submit { daemon, ring, len: 50, control: false }
}

const LOSSES: &[Loss] = &[
    // The second message stands in a ring that the merge reads first.
    Loss { flaw: Flaw::HandsOutEarly, promise: "sender's order", setup: (2, 2), steps: &[submit(1, 1), submit(1, 0)] },
    Loss { flaw: Flaw::DropsEarly, promise: "liveness", setup: (2, 2), steps: &[submit(0, 1), submit(0, 0)] },
    // The first message had its turn in the view before.
    Loss {
        flaw: Flaw::HeldOverViews,
        promise: "liveness",
        setup: (1, 2),
        steps: &[
            Step::Read { daemon: 0, ring: 0, entries: 1 },
            Step::HandOut { daemon: 0, items: 1 },
            submit(0, 0),
            Step::Decide { ring: 0, sender: 0, messages: 1 },
            submit(0, 0),
        ],
    },
    Loss { flaw: Flaw::NumbersRunOn, promise: "liveness", setup: (1, 2), steps: &[submit(0, 0)] },
    // Who was away did not count what the others were given.
    Loss {
        flaw: Flaw::PlacesRunOn,
        promise: "agreement",
        setup: (1, 3),
        steps: &[
            Step::View { some: 3 },
            Step::Read { daemon: 1, ring: 0, entries: 2 },
            Step::HandOut { daemon: 1, items: 2 },
            submit(1, 0),
            Step::Decide { ring: 0, sender: 0, messages: 1 },
            submit(1, 0),
        ],
    },
    Loss { flaw: Flaw::NothingTakenBack, promise: "liveness", setup: (1, 2), steps: &[submit(0, 0)] },
    // The first message stands in the ring that the last daemon does not read.
    Loss { flaw: Flaw::ReadsSome, promise: "liveness", setup: (2, 2), steps: &[submit(0, 1), submit(0, 0)] },
];

#[test]
fn each_rule_of_sending_that_is_broken_on_purpose_is_noticed() {
    for Loss { flaw, promise: broken, setup, steps } in LOSSES {
        if std::env::var("STORY").is_ok() {
            println!("{flaw:?}: {}\n", found(*flaw));
        }
        let well = play(*setup, steps, None).err();
        assert!(well.is_none(), "{flaw:?}, with all rules kept: {well:?}");
        let said = play(*setup, steps, Some(*flaw)).err().unwrap_or_default();
        assert_eq!(promise(&said), *broken, "{flaw:?}: {said}");
    }
}

/// The first schedule drawn that shows the loss, shortened.
fn found(flaw: Flaw) -> String {
    let fails = |(setup, steps): (Setup, Vec<Step>)| {
        let said = play(setup, &steps, Some(flaw)).err()?;
        Some(shortest(setup, steps, Some(flaw), &said))
    };
    (1..=2_000).map(draw).find_map(fails).unwrap_or_else(|| panic!("{flaw:?} is not noticed"))
}

//! A random model: abstract rings, and readers that come and go, subscribe and leave, crash and come back.
mod apart;
mod by_groups;
mod cluster;
mod dead_rings;
mod engines;
mod lines;
mod log;
#[cfg(feature = "mutants")]
mod mutants;
mod parts;
mod reference;
mod regions;
mod scenes;
mod schedule;
mod seeds;
mod senders;
mod world;

use schedule::{Setup, Step, draw, shrink};
use world::{Broken, World};

fn play(setup: Setup, steps: &[Step], broken: Broken) -> Result<World, String> {
    let mut world = World::new(setup, broken);
    steps.iter().try_for_each(|step| world.play(*step))?;
    world.heal()?;
    Ok(world)
}

/// Nothing is broken but what `cargo xtask mutants` asks for.
fn as_asked() -> Broken {
    #[cfg(feature = "mutants")]
    let broken = Broken { rule: mutants::broken(), ..Broken::default() };
    #[cfg(not(feature = "mutants"))]
    let broken = Broken::default();
    broken
}

/// A promise's name, from what is said of it.
fn promise(said: &str) -> &str {
    said.split_once(':').map_or(said, |(name, _)| name)
}

/// The shortest schedule that breaks the same promise.
fn shortest(setup: Setup, steps: Vec<Step>, broken: Broken, said: &str) -> String {
    let name = promise(said);
    let fails = |steps: &[Step]| play(setup, steps, broken).is_err_and(|said| promise(&said) == name);
    let steps = shrink(steps, fails);
    let lines: Vec<_> = steps.iter().map(|step| format!("    {step:?},")).collect();
    let said = play(setup, &steps, broken).err().unwrap_or_default();
    format!("{setup:?}\n{}\n{said}", lines.join("\n"))
}

#[test]
fn readers_of_any_rings_agree_whatever_they_subscribe_and_however_often_they_crash() {
    //= MP02 test
    //= MP03 test
    //= MP04 test
    //= MP11 test
    //= MP12 test
    //= MP20 test
    //= MP21 test
    //= MP22 test
    //= MP23 test
    //= MP24 test
    //= MP30 test
    //= MP31 test
    //= MP32 test
    //= MP33 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first: u64 = read("FIRST_SEED", 1);
    let (mut handed_out, mut recovered, mut changes, seeds) = (0, 0, 0, read("SEEDS", 2_000));
    for seed in first..first + seeds {
        let (setup, steps) = draw(seed);
        match play(setup, &steps, as_asked()) {
            Ok(world) => {
                handed_out += world.handed_out;
                recovered += world.recovered;
                changes += world.changes;
            }
            Err(said) => panic!("{said}\nseed {seed}: {}", shortest(setup, steps, as_asked(), &said)),
        }
    }
    println!("{seeds} schedules, {handed_out} items handed out, {recovered} recoveries, {changes} changes");
    assert!(handed_out > seeds && recovered > seeds / 20 && changes > seeds / 4, "the model tries what it is for");
}

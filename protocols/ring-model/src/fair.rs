//! What becomes of a world if nothing goes wrong any more: time passes again, packets arrive in the order in which they
//! were sent, and timers come due when they should.
use crate::world::{Action, World};
use consort_ring::evs;
use consort_types::Duration;

/// How long a packet takes.
const STEP: Duration = Duration::from_micros(10);
/// Longer than any quarantine that a search can bring about.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets time pass until there is one working ring in which nothing is left to say.
///
/// # Errors
/// Where that does not come to be, or a promise is broken on the way.
pub fn continues(world: &World) -> Result<(), String> {
    let mut world = world.clone();
    world.heal();
    let end = world.now + PATIENCE;
    let mut owed = String::new();
    while world.now < end {
        if world.is_quiet() && world.is_whole() {
            match evs::check_end(world.traces()) {
                Ok(()) => return world.check(),
                Err(broken) => owed = broken,
            }
        }
        step(&mut world);
    }
    Err(format!("no ring comes of it: {owed}{}", world.describe()))
}

/// Lets time pass until nobody has anything to do, for so long.
pub fn settle(world: &mut World, span: Duration) {
    let end = world.now + span;
    while world.now < end || !world.is_quiet() {
        step(world);
    }
}

/// The next packet arrives; with none under way, the next timer comes due.
fn step(world: &mut World) {
    world.now += STEP;
    if world.is_quiet() {
        world.now = world.now.max(world.next_timer().unwrap_or(world.now));
    } else {
        world.apply(Action::Deliver(0));
    }
    (0..world.len()).for_each(|i| world.wake(i));
}

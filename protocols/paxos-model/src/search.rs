//! Breadth first through all worlds, each once.
use crate::fair;
use crate::world::{Action, World};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a search found out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Different worlds that were reached.
    pub states: u64,
    /// Steps that were taken, also to worlds known already.
    pub steps: u64,
    /// How many steps the longest way took.
    pub depth: u32,
    /// Worlds from which things were let go well, to see that all is decided.
    pub continued: u64,
    /// In how many of the worlds acceptors have promised different ballots.
    pub contested: u64,
    /// Whether every world within the bounds was reached.
    pub complete: bool,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { states, steps, depth, continued, contested, complete } = self;
        let all = if *complete { "all" } else { "not all" };
        write!(f, "{states} states ({all} within the bounds), {steps} steps, {depth} deep, ")?;
        write!(f, "{contested} with two ballots, {continued} continued: 0 violations")
    }
}

/// A broken promise and the shortest way to it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which promise and how.
    pub broken: String,
    /// What happened, in order.
    pub way: Vec<String>,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.way.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
        f.write_str(&self.broken)
    }
}

/// How a world was reached: from which, by what.
type Origins = HashMap<u64, (u64, Action)>;

/// Takes a world through everything that its budget allows, up to `most` different worlds. From every `sample`-th of them it
/// is also seen that all is decided if nothing goes wrong any more (0: from none).
///
/// # Errors
/// The first broken promise.
pub fn search(start: &World, most: u64, sample: u64) -> Result<Report, Box<Found>> {
    let mut report = Report { complete: true, ..Report::default() };
    let mut origins = Origins::new();
    let first = start.digest();
    let mut level = vec![(first, start.clone())];
    let found = |origins: &Origins, at: u64, last: Option<Action>, broken: String| {
        Box::new(Found { broken, way: tell(start, &way(origins, first, at, last)) })
    };
    while !level.is_empty() && report.complete {
        let mut next = Vec::new();
        for (from, world) in level {
            report.states += 1;
            report.contested += u64::from(world.has_two_ballots());
            if sample > 0 && report.states.is_multiple_of(sample) {
                report.continued += 1;
                let goes_on = catch(|| fair::continues(&world));
                goes_on.map_err(|broken| found(&origins, from, None, broken))?;
            }
            for action in world.actions() {
                report.steps += 1;
                let reached = take(&world, action).map_err(|broken| found(&origins, from, Some(action), broken))?;
                let digest = reached.digest();
                if digest != first && !origins.contains_key(&digest) {
                    origins.insert(digest, (from, action));
                    next.push((digest, reached));
                }
            }
            if origins.len() as u64 >= most {
                report.complete = false;
                break;
            }
        }
        report.depth += 1;
        level = next;
    }
    Ok(report)
}

/// One step and its judgement. A failed assertion of a debug build is a broken promise like any other.
fn take(world: &World, action: Action) -> Result<World, String> {
    catch(|| {
        let mut next = world.clone();
        next.apply(action);
        next.verdict().map(|()| next)
    })
}

fn catch<T>(step: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
    })
}

fn way(origins: &Origins, first: u64, mut at: u64, last: Option<Action>) -> Vec<Action> {
    let mut way: Vec<_> = last.into_iter().collect();
    while let Some((from, action)) = origins.get(&at).filter(|_| at != first) {
        way.push(*action);
        at = *from;
    }
    way.reverse();
    way
}

/// The steps of a way, taken once more to tell what each was.
fn tell(start: &World, way: &[Action]) -> Vec<String> {
    let mut world = start.clone();
    let step = |action: &Action| {
        let said = match *action {
            Action::Deliver(from, to) | Action::Overtake(from, to) | Action::Lose(from, to) => {
                let flying = world.first(from, to).map_or_else(String::new, ToString::to_string);
                format!("{action:?}: {flying}")
            }
            _ => format!("{action:?}"),
        };
        let _ = catch(|| {
            world.apply(*action);
            Ok(())
        });
        said
    };
    way.iter().map(step).collect()
}

//! Breadth first through all worlds, each once.
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A world of a few nodes, in which everything that may happen next can be tried.
pub trait SearchWorld: Clone {
    /// One thing that may happen.
    type Action: Copy;
    /// What is counted of worlds, beside their number.
    type Tally: Default + std::fmt::Display;

    /// Equal for worlds in which all goes on in the same way.
    fn digest(&self) -> u64;
    /// What may happen next, within the world's budget.
    fn actions(&self) -> Vec<Self::Action>;
    /// Lets it happen.
    ///
    /// # Errors
    /// The promise that is broken then.
    fn step(&mut self, action: Self::Action) -> Result<(), String>;
    /// Lets things go well from here on.
    ///
    /// # Errors
    /// Where what should come of that does not.
    fn continues(&self) -> Result<(), String>;
    /// Counts this world.
    fn count(&self, tally: &mut Self::Tally);
    /// What is about to happen, for people.
    fn tell(&self, action: Self::Action) -> String;
}

/// What a search found out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report<Tally> {
    /// Different worlds that were reached.
    pub states: u64,
    /// Steps that were taken, also to worlds known already.
    pub steps: u64,
    /// How many steps the longest way took.
    pub depth: u32,
    /// Worlds from which things were let go well, to see what comes of it.
    pub continued: u64,
    /// Whether every world within the bounds was reached.
    pub complete: bool,
    /// What was counted of the worlds.
    pub tally: Tally,
}

impl<Tally: std::fmt::Display> std::fmt::Display for Report<Tally> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { states, steps, depth, continued, complete, tally } = self;
        let all = if *complete { "all" } else { "not all" };
        write!(f, "{states} states ({all} within the bounds), {steps} steps, {depth} deep, ")?;
        write!(f, "{continued} continued, {tally}: 0 violations")
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

/// How worlds were reached: from which, by what; the first from none.
type Origins<Action> = HashMap<u64, Option<(u64, Action)>>;

/// Takes a world through everything that its budget allows, up to `most` different worlds. From every `sample`-th of them it
/// is also seen what comes of it if nothing goes wrong any more (0: from none).
///
/// # Errors
/// The first broken promise.
pub fn search<W: SearchWorld>(start: &W, most: u64, sample: u64) -> Result<Report<W::Tally>, Box<Found>> {
    let mut report = Report { states: 0, steps: 0, depth: 0, continued: 0, complete: true, tally: W::Tally::default() };
    let mut origins = Origins::from([(start.digest(), None)]);
    let mut level = vec![(start.digest(), start.clone())];
    while !level.is_empty() && report.complete {
        let mut next = Vec::new();
        for (from, world) in level {
            report.states += 1;
            world.count(&mut report.tally);
            if sample > 0 && report.states.is_multiple_of(sample) {
                report.continued += 1;
                catch(|| world.continues()).map_err(|broken| found(start, &origins, from, None, broken))?;
            }
            for action in world.actions() {
                report.steps += 1;
                let mut reached = world.clone();
                catch(|| reached.step(action)).map_err(|broken| found(start, &origins, from, Some(action), broken))?;
                let digest = reached.digest();
                origins.entry(digest).or_insert_with(|| {
                    next.push((digest, reached));
                    Some((from, action))
                });
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

/// A failed assertion of a debug build is a broken promise like any other.
fn catch(step: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
    })
}

/// The way to a world and beyond it, taken once more to tell what each step was.
fn found<W: SearchWorld>(
    start: &W,
    origins: &Origins<W::Action>,
    mut at: u64,
    last: Option<W::Action>,
    broken: String,
) -> Box<Found> {
    let mut actions: Vec<_> = last.into_iter().collect();
    while let Some(Some((from, action))) = origins.get(&at) {
        actions.push(*action);
        at = *from;
    }
    let mut world = start.clone();
    let mut way = vec!["start".to_owned()];
    for action in actions.into_iter().rev() {
        way.push(world.tell(action));
        // What is broken is known.
        let _ = catch(|| world.step(action));
    }
    way.extend(last.is_none().then(|| "then nothing goes wrong".to_owned()));
    Box::new(Found { broken, way })
}

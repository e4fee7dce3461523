//! Breadth first through all worlds, each once.
use crate::fair;
use crate::world::{Action, World};
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a search found out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Different worlds that were reached.
    pub states: u64,
    /// Steps that were taken, also to worlds known already.
    pub steps: u64,
    /// How many steps the longest way took.
    pub depth: u32,
    /// Worlds from which things were let go well, to see that a ring comes of it.
    pub continued: u64,
    /// Whether every world within the bounds was reached.
    pub complete: bool,
    /// The views that were ever formed, by how many members they have.
    pub sizes: BTreeSet<usize>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { states, steps, depth, continued, complete, sizes } = self;
        let all = if *complete { "all" } else { "not all" };
        write!(f, "{states} states ({all} within the bounds), {steps} steps, {depth} deep, ")?;
        write!(f, "{continued} continued to a ring, views of {sizes:?}: 0 violations")
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
type Origins = HashMap<u64, (u64, String)>;

/// Takes a world through everything that its budget allows, up to `most` different worlds. From every `sample`-th of them
/// it is also seen that a ring comes to stand if nothing goes wrong any more (0: from none).
///
/// # Errors
/// The first broken promise.
pub fn search(start: World, most: u64, sample: u64) -> Result<Report, Box<Found>> {
    let mut report = Report { complete: true, ..Report::default() };
    let mut origins = Origins::new();
    origins.insert(start.digest(), (0, "start".into()));
    let mut level = vec![start];
    while !level.is_empty() && report.complete {
        let mut next = Vec::new();
        for world in level {
            report.states += 1;
            let from = world.digest();
            if sample > 0 && report.states.is_multiple_of(sample) {
                report.continued += 1;
                fair::continues(&world).map_err(|broken| found(&origins, from, "then nothing goes wrong", broken))?;
            }
            for action in world.actions() {
                report.steps += 1;
                let reached =
                    take(&world, action).map_err(|broken| found(&origins, from, &name(&world, action), broken))?;
                note_sizes(&mut report, &reached);
                let digest = reached.digest();
                if origins.contains_key(&digest) {
                    continue;
                }
                origins.insert(digest, (from, name(&world, action)));
                next.push(reached);
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

fn note_sizes(report: &mut Report, world: &World) {
    report.sizes.extend((0..world.len()).filter_map(|i| world.view(i)).map(|view| view.members.len()));
}

/// One step and its judgement. A failed assertion of a debug build is a broken promise like any other.
fn take(world: &World, action: Action) -> Result<World, String> {
    let step = || {
        let mut next = world.clone();
        let told = |world: &World| world.traces().map(|trace| trace.events.len()).sum::<usize>();
        let before = told(&next);
        next.apply(action);
        let news = told(&next) != before || matches!(action, Action::Crash(_));
        if news { next.check().map(|()| next) } else { Ok(next) }
    };
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
    })
}

fn name(world: &World, action: Action) -> String {
    let flying = |at| world.flying().nth(at).map_or_else(String::new, ToString::to_string);
    match action {
        Action::Deliver(0) => format!("arrives {}", flying(0)),
        Action::Deliver(at) => format!("arrives first {}", flying(at)),
        Action::Double(at) => format!("arrives and will again {}", flying(at)),
        Action::Lose(at) => format!("is lost {}", flying(at)),
        Action::Fire(i, armed) => format!("n{} {armed:?}", i + 1),
        Action::Crash(i) => format!("n{} crashes", i + 1),
        Action::Restart(i) => format!("n{} starts anew", i + 1),
    }
}

fn found(origins: &Origins, mut at: u64, last: &str, broken: String) -> Box<Found> {
    let mut way = vec![last.to_owned()];
    while let Some((from, step)) = origins.get(&at) {
        way.push(step.clone());
        at = *from;
    }
    way.reverse();
    Box::new(Found { broken, way })
}

//! What becomes of a world if nothing goes wrong any more.
use crate::NODES;
use crate::world::{Action, World};

/// More rounds than any of these worlds needs.
const ROUNDS: usize = 40;

/// Restarts whoever is down, lets everything arrive, and lets one lead, until all have learnt as many instances as are filled.
///
/// # Errors
/// Where that does not come to be, or a promise is broken on the way.
pub fn continues(world: &World) -> Result<(), String> {
    let mut world = world.clone();
    (0..NODES).for_each(|i| world.start(i));
    let wanted = u64::from(world.budget.instances);
    for round in 0..ROUNDS {
        settle(&mut world);
        world.verdict()?;
        if (0..NODES).all(|i| world.engine(i).is_some_and(|engine| engine.learner().next() >= wanted)) {
            return Ok(());
        }
        let votes =
            |i: &usize| world.engine(*i).and_then(|engine| engine.acceptor()).is_some_and(|acceptor| acceptor.votes());
        let voters: Vec<_> = (0..NODES).filter(votes).collect();
        match (0..NODES).find(|i| world.engine(*i).is_some_and(|engine| engine.proposes_at().is_some())) {
            Some(leader) => world.propose(leader),
            // Who was refused knows better the next time.
            None => voters.get(round / 3 % voters.len().max(1)).into_iter().for_each(|i| world.stand(*i)),
        }
        for i in 0..NODES {
            world.greet(i);
            world.repeat(i);
        }
    }
    let stand = (0..NODES)
        .filter_map(|i| world.engine(i))
        .map(|engine| format!("{}: {} instances, {:?}", engine.me(), engine.learner().next(), engine.role()));
    Err(format!("liveness: nothing more is decided\n{}", stand.collect::<Vec<_>>().join("\n")))
}

/// Everything arrives, and everything is written.
fn settle(world: &mut World) {
    for _ in 0..10_000 {
        if world.is_quiet() {
            return;
        }
        (0..NODES).for_each(|i| world.write(i));
        for from in 0..NODES {
            for to in 0..NODES {
                if world.first(from, to).is_some() {
                    world.apply(Action::Deliver(from, to));
                }
            }
        }
    }
}

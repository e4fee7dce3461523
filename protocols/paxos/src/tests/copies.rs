//! Copies of programs in the log: what they lack is kept for them, whatever goes wrong.
use super::retention::{RETAIN, fill, oldest, settles, world};
use super::world::{Disk, World};
use crate::ballot::Item;
use crate::checkpoints::{Bind, Statement};
use crate::config::{Config, OnBudget, Storage};
use crate::learner::{Checkpoint, Learner};
use consort_order::{Declaration, DeclareProgress, Engine, Fact};
use consort_types::{Binding, Duration, Holder, Instant, Position};

pub fn holder(name: &str) -> Holder {
    name.parse().unwrap()
}

pub fn binding(name: &str, token: u128, replaces: u64, from: u64) -> Declaration {
    let (holder, from, label) = (holder(name), Position(from), format!("server of {name}"));
    Declaration::Bind(Binding { order: 0, holder, token, replaces, from, copies: 3, label })
}

pub fn keep(name: &str, epoch: u64, from: u64) -> Declaration {
    Declaration::Keep { holder: holder(name), epoch, from: Position(from) }
}

/// Asks a node until it says what became of it.
fn state(world: &mut World, node: u16, declaration: &Declaration) -> DeclareProgress {
    for _ in 0..1_000 {
        world.run(5);
        match world.state(node, declaration) {
            DeclareProgress::Pending => {}
            progress => return progress,
        }
    }
    panic!("liveness: {declaration:?} is not in the log\n{}", world.describe());
}

fn bind(world: &mut World, node: u16, name: &str, replaces: u64, from: u64) -> u64 {
    match state(world, node, &binding(name, u128::from(world.now), replaces, from)) {
        DeclareProgress::Bound { epoch } => epoch,
        other => panic!("copies: {name} is not bound: {other:?}"),
    }
}

/// What the status of a node says of programs.
fn programs_of(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    world.hosts[0].engine.observe(Instant(world.now), &mut |fact| {
        if let Fact::Program { name, value } = fact {
            lines.push(format!("{name}: {value}"));
        }
    });
    lines
}

fn place(world: &World) -> u64 {
    world.hosts[0].engine.learner().place()
}

#[test]
pub fn nothing_goes_that_a_majority_of_the_copies_of_a_program_lacks() {
    //= X105 test
    for storage in [Storage::Sync, Storage::Async] {
        let mut world = world(31, storage, |config| config.retain_for = Duration::from_millis(300));
        let began = place(&world) + 1;
        let one = bind(&mut world, 1, "kv/1", 0, 1);
        fill(&mut world, 0);
        fill(&mut world, 2);
        let last = place(&world);
        assert_eq!(state(&mut world, 3, &keep("kv/1", one, last)), DeclareProgress::Stands);
        world.run(1_000);
        for node in 0..4 {
            assert!(oldest(&world, node) <= began, "copies: two of three were never bound, and n{node} let it go");
        }
        // All stop, one loses its disk: it begins at a checkpoint of another, which says the same.
        (0..4).for_each(|node| world.stop(node, if node == 3 { Disk::Lost } else { Disk::Kept }));
        (0..4).for_each(|node| world.restart(node));
        settles(&mut world);
        fill(&mut world, 0);
        for node in 0..4 {
            assert!(oldest(&world, node) <= began, "copies: n{node} let it go after a restart");
        }
        let two = bind(&mut world, 2, "kv/2", 0, 1);
        assert_eq!(state(&mut world, 0, &keep("kv/2", two, last - 10)), DeclareProgress::Stands);
        world.run(1_000);
        for node in 0..4 {
            let oldest = oldest(&world, node);
            assert!((last - 12..=last - 10).contains(&oldest), "two of three keep it: {oldest} of {last} at n{node}");
        }
    }
}

#[test]
fn a_full_log_names_the_programs_that_hold_it_back() {
    //= X107 test
    let mut world = world(32, Storage::Sync, |_| {});
    let one = bind(&mut world, 1, "kv/1", 0, 1);
    let two = bind(&mut world, 1, "kv/2", 0, 1);
    let mut done = [1, 2].map(|copy| bind(&mut world, 1, &format!("bill/{copy}"), 0, 1));
    for (copy, epoch) in (1..).zip(&mut done) {
        let last = place(&world);
        assert_eq!(state(&mut world, 0, &keep(&format!("bill/{copy}"), *epoch, last)), DeclareProgress::Stands);
    }
    let programs = |world: &World, node: usize| {
        let overfull = world.hosts[node].engine.overfull()?;
        Some((overfull.programs.iter().map(|name| name.to_string()).collect::<Vec<_>>(), overfull.all))
    };
    let mut seen = Vec::new();
    for sent in 0..100 {
        assert!(world.submit(0, 1_000));
        world.run(5);
        if sent % 10 == 0 {
            // The other program makes its checkpoints.
            let last = place(&world);
            for (copy, epoch) in (1..).zip(done) {
                state(&mut world, 0, &keep(&format!("bill/{copy}"), epoch, last));
            }
        }
        let bytes = world.hosts[2].engine.learner().bytes();
        let now = programs(&world, 2);
        assert_eq!(now.is_some(), bytes > 4 * RETAIN, "{bytes} bytes");
        assert_eq!(now.as_ref().is_some_and(|(_, all)| *all), bytes > 5 * RETAIN, "{bytes} bytes");
        seen.extend(now);
    }
    assert!(seen.iter().all(|(programs, _)| *programs == ["kv"]), "{seen:?}");
    assert!(seen.iter().any(|(_, all)| !all) && seen.last().unwrap().1);
    let lines = programs_of(&world);
    assert!(lines[1].starts_with("kv: kv/1 (server of kv/1) lacks "), "{lines:?}");
    let copies = world.hosts[0].engine.copies(&holder("kv/1"));
    assert!(copies.lasts && copies.held > copies.budget && copies.budget == 4 * RETAIN as u64, "{copies:?}");
    assert_eq!((copies.voters, copies.seats.len(), copies.seats[1].epoch), (3, 2, two));
    assert_eq!(state(&mut world, 2, &Declaration::Withdraw(holder("kv/3"))), DeclareProgress::Stands);
    assert!(programs(&world, 2).is_some(), "both of the two that are left lack it");
    let last = place(&world);
    for (copy, epoch) in [("kv/1", one), ("kv/2", two)] {
        assert_eq!(state(&mut world, 0, &keep(copy, epoch, last)), DeclareProgress::Stands);
    }
    world.run(100);
    assert!((0..4).all(|node| programs(&world, node).is_none()));
    assert!(oldest(&world, 0) >= last - 17, "what no program needs goes");
}

#[test]
fn where_the_budget_lets_go_the_oldest_part_goes_and_nothing_is_full() {
    //= X107 test
    let mut world = world(33, Storage::Sync, |config| config.on_budget = OnBudget::LetGo);
    let began = place(&world) + 1;
    bind(&mut world, 1, "kv/1", 0, 1);
    (0..40).for_each(|_| {
        assert!(world.submit(0, 1_000));
        world.run(5);
    });
    assert!(oldest(&world, 0) <= began, "up to the budget all is kept");
    fill(&mut world, 0);
    assert!(oldest(&world, 0) > began && world.hosts[0].engine.overfull().is_none());
    let lines = programs_of(&world);
    assert!(lines[0].contains("so that a stop of everything may lose it"), "{lines:?}");
}

#[test]
fn no_copy_binds_where_nothing_lasts() {
    //= X105 test
    let mut world = world(34, Storage::Memory, |_| {});
    assert_eq!(world.state(1, &binding("kv/1", 7, 0, 1)), DeclareProgress::Unsupported);
    let copies = world.hosts[1].engine.copies(&holder("kv/1"));
    assert!(!copies.lasts && copies.order == 0);
}

#[test]
fn a_binding_is_asked_for_until_the_log_has_it_whoever_leads() {
    //= X102 test
    let mut world = world(35, Storage::Sync, |_| {});
    let leader = (0..3).find(|node| world.hosts[*node].engine.leader().is_some_and(|id| usize::from(id.0) == *node));
    let leader = leader.unwrap() as u16;
    let asking = (leader + 1) % 3;
    assert_eq!(world.state(asking, &binding("kv/1", 9, 0, 1)), DeclareProgress::Pending);
    world.stop(leader, Disk::Kept);
    let DeclareProgress::Bound { epoch } = state(&mut world, asking, &binding("kv/1", 9, 0, 1)) else { panic!() };
    world.restart(leader);
    settles(&mut world);
    assert_eq!(state(&mut world, leader, &binding("kv/1", 9, 0, 1)), DeclareProgress::Bound { epoch }, "it is its own");
    let label = "server of kv/1".to_owned();
    let late = state(&mut world, 3, &binding("kv/1", 8, 0, 1));
    assert_eq!(late, DeclareProgress::Superseded { epoch, label });
    // Two that bind at a time: one counts.
    world.state(0, &binding("kv/2", 1, 0, 1));
    world.state(1, &binding("kv/2", 2, 0, 1));
    let outcomes = [state(&mut world, 0, &binding("kv/2", 1, 0, 1)), state(&mut world, 1, &binding("kv/2", 2, 0, 1))];
    let bound = outcomes.iter().filter(|outcome| matches!(outcome, DeclareProgress::Bound { .. })).count();
    assert_eq!(bound, 1, "{outcomes:?}");
}

fn bind_of(token: u128, replaces: u64) -> Bind {
    Bind { holder: holder("kv/1"), token, replaces, from: 1, copies: 1, label: "".into() }
}

fn bound(token: u128, replaces: u64) -> Statement {
    Statement::Bind(bind_of(token, replaces))
}

#[test]
pub fn a_binding_that_comes_late_changes_nothing() {
    //= X102 test
    let late = Statement::Bind(Bind { from: 300, ..bind_of(1, 0) });
    let needed = needed(&[5, 400, 450], [bound(1, 0), bound(2, 1), late]);
    assert!(needed == Some(6), "copies: a binding of an earlier start replaces that of a later one");
}

#[test]
pub fn what_is_declared_under_an_epoch_that_was_replaced_does_not_count() {
    //= X104 test
    let statements = [bound(1, 0), bound(2, 1), declared(1, 90)];
    assert!(needed(&[5, 50, 500], statements) == Some(6), "copies: an epoch that was replaced releases up to 90");
}

#[test]
pub fn a_copy_that_lost_its_disk_says_that_it_keeps_less() {
    //= X102 test
    let statements = [bound(1, 0), declared(1, 90), bound(2, 1)];
    assert!(needed(&[5, 100, 200], statements) == Some(6), "copies: what a lost disk held is taken for kept");
}

fn declared(epoch: u64, from: u64) -> Statement {
    Statement::Declare { holder: holder("kv/1"), epoch, from: Some(from) }
}

/// What is needed once these were read, each behind a number of messages.
fn needed(places: &[u64], statements: impl IntoIterator<Item = Statement>) -> Option<u64> {
    let mut learner = Learner::default();
    for (statement, place) in statements.into_iter().zip(places) {
        let before = learner.head().clone();
        learner.jump(Checkpoint { place: *place, ..before });
        #[cfg(feature = "mutants")]
        {
            learner.mutant = super::mutants::broken();
        }
        let at = learner.next();
        assert!(learner.decide(at, Item::Declare(Box::new(statement))) && learner.take(|_| None).is_some());
    }
    learner.head().declared.needed_by_copies()
}

#[test]
fn promises_to_copies_hold_whatever_goes_wrong() {
    //= X105 test
    //= X106 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first = read("FIRST_SEED", 1);
    let mut done = (0, 0);
    for seed in first..first + read("SEEDS", 60) {
        let mut world = super::seeds::draw(seed);
        let config = Config { retain: 8 << 10, value: 1_024, storage: Storage::Sync, ..world.config.clone() };
        let loss = world.loss;
        world = World::with(seed, config);
        (world.loss, world.copies, world.story) = (loss, true, std::env::var("STORY").is_ok());
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| super::seeds::run(world)));
        let Ok(world) = played else { panic!("seed {seed}") };
        let longest = world.hosts.iter().max_by_key(|host| host.engine.learner().next()).unwrap();
        let declared = &longest.engine.learner().head().declared;
        done.0 += declared.programs().count();
        done.1 += usize::from(longest.engine.learner().first().at > 0);
    }
    assert!(done.0 > 20 && done.1 > 5, "programs, and logs that let something go: {done:?}");
}

//! Many seeds: whatever goes wrong, the promises hold; and once nothing does, all goes on.
use super::world::{Disk, World};
use crate::config::{Config, Storage};
use consort_order::{Declaration, Engine};
use consort_types::NodeId;

pub fn draw(seed: u64) -> World {
    let mut rng = consort_types::Rng::new(seed ^ 0x5eed);
    let (nodes, acceptors) = [(1, 1), (3, 3), (3, 3), (3, 1), (4, 3), (5, 3), (5, 5), (7, 5)][rng.below(8) as usize];
    let mut config = Config::new(NodeId(0), (0..nodes).map(NodeId).collect());
    config.acceptors = (0..acceptors).map(NodeId).collect();
    config.storage = [Storage::Memory, Storage::Sync, Storage::Async][rng.below(3) as usize];
    config.window = [256, 4, 1][rng.below(3) as usize];
    config.values = [16, 1][rng.below(2) as usize];
    config.value = [64 << 10, 1_024][rng.below(2) as usize];
    config.retain = [256 << 20, 8 << 10][rng.below(2) as usize].max(config.value);
    let mut world = World::with(seed, config);
    // One node may retain more than the others.
    if rng.chance(0.5) {
        world.retains.insert(rng.below(nodes.into()) as u16, 256 << 20);
    }
    world.clocks = seed.is_multiple_of(3);
    world.loss = [0.0, 0.05, 0.3][rng.below(3) as usize];
    world
}

/// Goes wrong for a while, then is left in peace.
pub fn run(mut world: World) -> World {
    go_wrong(&mut world);
    go_on(&mut world, 6_000);
    world
}

fn go_wrong(world: &mut World) {
    let steps = 40 + world.rng.below(80);
    for _ in 0..steps {
        trouble(world);
        for _ in 0..world.rng.below(6) {
            let (node, len) = (world.rng.below(world.nodes().into()) as u16, world.rng.below(3_000) as usize);
            world.submit(node, len);
        }
        let ms = [1, 5, 40, 300][world.rng.below(4) as usize];
        let ms = world.rng.below(ms) + 1;
        world.run(ms);
    }
    world.heal();
    for node in 0..world.nodes() {
        world.restart(node);
        if world.hosts[usize::from(node)].away.is_some() {
            swap(world, node);
        }
    }
    // Whoever was leaving leaves first.
    for _ in 0..400 {
        world.run(1);
        (0..world.nodes()).for_each(|node| world.restart(node));
    }
}

/// All who are up form a view and deliver what they were given, within so many milliseconds.
fn go_on(world: &mut World, patience: u64) {
    let node = world.rng.below(world.nodes().into()) as u16;
    world.submit(node, 50);
    assert!(
        world.run_until(patience, World::is_settled),
        "liveness: {:?}\n{}",
        world.judge.owed(world),
        world.describe()
    );
}

fn trouble(world: &mut World) {
    let n = u64::from(world.nodes());
    let (a, b) = (world.rng.below(n) as u16, world.rng.below(n) as u16);
    let kinds = if world.unmounts { 25 } else { 22 };
    match world.rng.below(kinds) {
        0 | 1 => {
            let loses = world.rng.chance(0.5);
            let disk = if loses { Disk::Lost } else { Disk::Kept };
            let forgets = loses || !world.keeps(a);
            if world.config.acceptors.len() > 1 && (!forgets || world.may_forget(a)) {
                world.tell(|| format!("n{a} crashes, disk {disk:?}"));
                world.stop(a, disk);
            }
        }
        2..5 => world.restart(a),
        5 if a != b => world.break_link(a, b),
        6 if a != b => world.cut(a, b),
        7 if a != b => {
            world.cut(a, b);
            world.cut(b, a);
        }
        8 => {
            for other in (0..world.nodes()).filter(|other| *other != a) {
                world.cut(a, other);
                world.cut(other, a);
            }
        }
        9 | 10 => world.cuts.clear(),
        11 if world.keeps(a) || world.may_forget(a) => world.leave(a),
        12..15 => {
            let holder = format!("p{}/{b}", world.rng.below(2));
            let from = [None, Some(world.rng.below(400) + 1)][usize::from(world.rng.chance(0.8))];
            world.declare(a, &holder, from);
        }
        15..22 if world.copies => state_of_copy(world, a),
        15..17 if world.stalls => world.stall(a),
        17..19 if world.stalls => world.unstall(a),
        19 if world.puts_back => world.save(a),
        20 | 21 if world.puts_back && world.config.acceptors.len() > 1 && world.may_forget(a) => {
            world.tell(|| format!("n{a} crashes, and its disk is put back"));
            world.stop(a, Disk::PutBack);
        }
        22..25 => swap(world, a),
        _ => {}
    }
}

/// An acceptor's disk goes away or comes back. One always stays, since all of them together would begin another log.
fn swap(world: &mut World, a: u16) {
    let (host, acceptors) = (&world.hosts[usize::from(a)], world.config.acceptors.clone());
    let is_away = |node: &NodeId| world.hosts[usize::from(node.0)].away.is_some();
    let may = match host.away {
        // What it voted for meanwhile is forgotten then.
        Some(_) => host.forgot || world.may_forget(a),
        None => acceptors
            .iter()
            .filter(|node| node.0 != a)
            .any(|node| !is_away(node) && world.remembers(node.0) && world.judge.promised(node.0).is_some()),
    };
    if host.up && may && acceptors.contains(&NodeId(a)) {
        world.tell(|| format!("n{a} crashes, and its disk is {}", if is_away(&NodeId(a)) { "back" } else { "away" }));
        world.stop(a, Disk::Away);
    }
}

/// A copy of a program is bound, declares a checkpoint, or is withdrawn, by what node `a` knows or by what it knew.
fn state_of_copy(world: &mut World, a: u16) {
    let name = format!("q{}/{}", world.rng.below(2), world.rng.below(3));
    let engine = &world.hosts[usize::from(a)].engine;
    let copies = engine.copies(&super::copies::holder(&name));
    let seat = copies.seats.iter().find(|seat| seat.holder.as_str() == name);
    let (epoch, token, last) = (seat.map_or(0, |seat| seat.epoch), world.now.into(), copies.last.0.max(1));
    let epoch = if world.rng.chance(0.2) { epoch / 2 } else { epoch };
    let from = last.saturating_sub(world.rng.below(40)).max(1);
    let declaration = match world.rng.below(10) {
        0 => super::copies::binding(&name, token, epoch, 1),
        1..4 => super::copies::binding(&name, token, epoch, from),
        4 => Declaration::Withdraw(super::copies::holder(&name)),
        _ => super::copies::keep(&name, epoch, from),
    };
    world.state(a, &declaration);
}

fn seeds(first: u64, last: u64) {
    let story = std::env::var("STORY").is_ok();
    let (mut deliveries, mut instances, mut restarts) = (0, 0, 0);
    for seed in first..=last {
        let mut world = draw(seed);
        world.story = story;
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(world)));
        match done {
            Ok(world) => {
                deliveries += world.judge.deliveries;
                instances += world.judge.instances();
                restarts += world.restarts;
            }
            Err(_) => panic!("seed {seed}"),
        }
    }
    println!("{} seeds, {deliveries} deliveries, {instances} instances, {restarts} restarts", last + 1 - first);
}

#[test]
fn promises_hold_whatever_goes_wrong_and_all_goes_on_afterwards() {
    //= X21 test
    //= X25 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first = read("FIRST_SEED", 1);
    seeds(first, first + read("SEEDS", 60) - 1);
}

#[test]
fn promises_hold_where_disks_are_put_back_from_copies() {
    //= X35 test
    //= X36 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first = read("FIRST_SEED", 1);
    let holds = |seed: &u64| {
        let mut world = draw(*seed);
        (world.puts_back, world.story) = (world.config.storage != Storage::Memory, std::env::var("STORY").is_ok());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(world))).is_ok()
    };
    let red: Vec<_> = (first..first + read("SEEDS", 90)).filter(|seed| !holds(seed)).collect();
    assert!(red.is_empty(), "seeds {red:?}");
}

#[test]
fn promises_hold_where_disks_are_away_and_come_back() {
    //= X109 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first = read("FIRST_SEED", 1);
    let holds = |seed: &u64| {
        let mut world = draw(*seed);
        (world.unmounts, world.story) = (world.config.storage != Storage::Memory, std::env::var("STORY").is_ok());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(world))).is_ok()
    };
    let red: Vec<_> = (first..first + read("SEEDS", 90)).filter(|seed| !holds(seed)).collect();
    assert!(red.is_empty(), "seeds {red:?}");
}

#[test]
fn promises_hold_where_disks_stall_and_have_little_room() {
    //= X28 test
    //= X29 test
    let last = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 1..=last {
        let mut world = draw(seed);
        if world.config.storage == Storage::Memory {
            continue;
        }
        let config = Config { window_bytes: 4 << 10, ..world.config.clone() };
        let (retains, loss) = (world.retains, world.loss);
        world = World::with(seed, config);
        (world.retains, world.loss, world.stalls) = (retains, loss, true);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(world)));
        assert!(done.is_ok(), "seed {seed}");
    }
}

/// Where nodes are far from each other: all is well again, and is so still once no more than a majority is left.
fn run_far(mut world: World) {
    go_wrong(&mut world);
    go_on(&mut world, 60_000);
    let spare = (world.config.acceptors.len() as u64 - 1) / 2;
    for _ in 0..spare {
        let gone = world.rng.below(world.config.acceptors.len() as u64) as u16;
        world.stop(gone, Disk::Kept);
        let ms = world.rng.below(600);
        world.run(ms);
    }
    go_on(&mut world, 20_000);
}

#[test]
fn promises_hold_where_acceptors_are_far_from_each_other() {
    //= X77 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first = read("FIRST_SEED", 1);
    let holds = |seed: &u64| {
        let mut world = draw(*seed);
        world.set_apart(1, 60);
        world.story = std::env::var("STORY").is_ok();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_far(world))).is_ok()
    };
    let red: Vec<_> = (first..first + read("SEEDS", 60)).filter(|seed| !holds(seed)).collect();
    assert!(red.is_empty(), "seeds {red:?}");
}

#[test]
fn seeds_that_were_red_are_played_again() {
    // Logs left by acceptors while another was binding itself to them, and a value decided twice that was read back once.
    //= X34 test
    //= X57 test
    for seed in [12_608, 14_679, 18_388, 38_153, 63_306, 102_399, 147_035] {
        seeds(seed, seed);
    }
}

#[test]
fn three_nodes_form_a_view_and_order_messages() {
    //= X55 test
    for storage in [Storage::Memory, Storage::Async, Storage::Sync] {
        let mut world = World::new(7, 3, 3, storage);
        assert!(world.run_until(2_000, World::is_settled), "{}", world.describe());
        (0..3).for_each(|node| assert!(world.submit(node, 100)));
        assert!(world.run_until(100, World::is_settled), "{}", world.describe());
        assert_eq!(world.judge.deliveries, 9);
    }
}

//! Servers, daemons, machines and everything end at random moments, in every way, and come back in any order.
use super::machines::{COUNT, DAEMONS, Id, Kept, Part, SERVERS, all};
use super::store::Store;
use super::{PAUSE_US, long_or};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// How many writes are answered before each end.
const FEW: u64 = 100;
/// For how long processes are stopped and go on, at most.
const STILL_US: u64 = 1_500_000;

/// How processes end.
#[derive(Clone, Copy, Debug)]
enum How {
    /// By kill -9.
    Killed,
    /// By SIGTERM, in random order.
    Stopped,
    /// Not at all: they make no step for a while.
    Still,
}

/// Which processes end: one, all of a kind, those of a machine, or everything.
fn draw(store: &mut Store) -> Vec<Id> {
    let machine = store.rng.below(COUNT as u64) as usize;
    match store.rng.below(6) {
        0 => vec![(Part::Server, machine)],
        1 => vec![(Part::Daemon, machine)],
        2 => SERVERS.to_vec(),
        3 => DAEMONS.to_vec(),
        4 => vec![(Part::Daemon, machine), (Part::Server, machine)],
        _ => all(),
    }
}

fn end(store: &mut Store, ids: &[Id], how: How) {
    match how {
        How::Killed => store.machines.kill(ids),
        How::Stopped => {
            for id in store.shuffled(ids) {
                store.machines.terminate(id);
                store.pause(PAUSE_US / 4);
            }
            store.machines.await_end(ids);
        }
        How::Still => {
            ids.iter().for_each(|id| store.machines.signal(*id, Signal::STOP));
            store.pause(STILL_US);
            ids.iter().for_each(|id| store.machines.signal(*id, Signal::CONT));
        }
    }
}

/// Starts what does not run, a machine after the other in random order.
fn come_back(store: &mut Store) {
    for (_, machine) in store.shuffled(&SERVERS) {
        let missing = |store: &Store, part| !store.machines.runs((part, machine));
        if missing(store, Part::Daemon) {
            store.machines.start(&[(Part::Daemon, machine)]).unwrap();
        }
        if missing(store, Part::Server) {
            store.machines.launch(&[(Part::Server, machine)]);
        }
        store.pause(PAUSE_US / 2);
    }
    let new: Vec<Id> = SERVERS.into_iter().filter(|id| store.machines.is_new(*id)).collect();
    store.machines.await_ready(&new).unwrap();
}

pub fn any_mix_of_ends_keeps_what_was_answered(kept: Kept) {
    let mut store = Store::start(kept);
    let until = Instant::now() + Duration::from_secs(long_or(600, 6));
    while Instant::now() < until {
        let ids = draw(&mut store);
        let how = [How::Killed, How::Stopped, How::Still][store.rng.below(3) as usize];
        store.under_load(FEW, |store, _| end(store, &ids, how));
        store.machines.assert_all_run();
        come_back(&mut store);
        store.verify(&format!("{how:?}: {ids:?}"));
    }
}

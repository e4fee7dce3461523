//! A store on an order that lasts keeps each write that it answered, whatever ends its processes, and in whatever order they
//! come back. Each test is a journey of real daemons and servers with `--storage sync` and `--state`. With `CONSORT_LONG=1`
//! the journeys are as long as the nightly run has time for.

mod cuts;
mod directories;
mod disks;
mod machines;
mod readers;
mod store;
mod writes;

use machines::{COUNT, DAEMONS, Id, Part, SERVERS, all};
use std::thread;
use std::time::Duration;
use store::Store;

/// How many writes are answered before something happens, where a test says nothing else.
const SOME: u64 = 300;
/// Until the next machine is started, or the next process stopped, at most.
const PAUSE_US: u64 = 200_000;

/// What is done in the nightly run, or in every run.
fn long_or<T>(long: T, short: T) -> T {
    if std::env::var_os("CONSORT_LONG").is_some_and(|wanted| wanted == "1") { long } else { short }
}

fn kill_everything_after(answers: u64) {
    let mut store = Store::start();
    store.kill_under_load(answers, &all());
    store.machines.start_all().unwrap();
    store.verify(&format!("kill -9 of everything behind {answers} answers"));
}

#[test]
fn killing_everything_keeps_the_first_answered_write() {
    kill_everything_after(1);
}

#[test]
fn killing_everything_keeps_what_was_answered() {
    //= RS05 test
    //= RS13 test
    kill_everything_after(long_or(250_000, 500));
}

/// Kills a part of the processes again and again.
fn kill(ids: &[Id], what: &str) {
    let mut store = Store::start();
    for _ in 0..long_or(10, 2) {
        store.kill_under_load(SOME, ids);
        store.machines.assert_all_run();
        store.machines.start_all().unwrap();
        store.verify(what);
    }
}

#[test]
fn killing_all_servers_keeps_what_was_answered() {
    kill(&SERVERS, "kill -9 of all servers");
}

#[test]
fn killing_all_daemons_keeps_what_was_answered() {
    kill(&DAEMONS, "kill -9 of all daemons");
}

/// Stops a part of the processes by SIGTERM under load, in random order.
fn stop(ids: &[Id], what: &str) {
    let mut store = Store::start();
    for _ in 0..long_or(20, 2) {
        store.under_load(SOME, |store, _| {
            for id in store.shuffled(ids) {
                store.machines.terminate(id);
                store.pause(PAUSE_US);
            }
            store.machines.await_end(ids);
        });
        store.machines.assert_all_run();
        store.machines.start_all().unwrap();
        store.verify(what);
    }
}

#[test]
fn stopping_servers_under_load_keeps_what_was_answered() {
    stop(&SERVERS, "SIGTERM of all servers");
}

#[test]
fn stopping_daemons_under_load_keeps_what_was_answered() {
    stop(&DAEMONS, "SIGTERM of all daemons");
}

#[test]
fn stopping_everything_under_load_keeps_what_was_answered() {
    stop(&all(), "SIGTERM of everything");
}

#[test]
fn a_store_comes_back_in_any_order_of_its_machines() {
    let orders = [[2, 0, 1], [0, 2, 1], [0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]];
    let mut store = Store::start();
    for order in &orders[..long_or(orders.len(), 2)] {
        store.kill_under_load(SOME, &all());
        for machine in order {
            store.machines.start(&[(Part::Daemon, *machine)]).unwrap();
            store.machines.launch(&[(Part::Server, *machine)]);
            store.pause(PAUSE_US);
        }
        store.machines.await_ready(&SERVERS).unwrap();
        store.verify(&format!("a restart of machines in the order {order:?}"));
    }
}

#[test]
fn a_server_that_stopped_in_time_is_not_outvoted() {
    let mut store = Store::start();
    store.under_load(SOME, |store, _| {
        store.machines.stop(&[(Part::Server, COUNT - 1)]);
        thread::sleep(Duration::from_millis(100));
        store.machines.kill(&all());
    });
    store.machines.start_all().unwrap();
    store.verify("SIGTERM of one server and kill -9 of the rest");
}

//! A store keeps each write that it answered, whatever ends its processes, and in whatever order they come back. Each test is a
//! journey of real daemons and servers: with `paxos` and storage `sync`, where the daemons keep the log, and with `ring` and
//! `--durable`, where the servers do. With `CONSORT_LONG=1` the journeys are as long as the nightly run has time for.

mod cuts;
mod directories;
mod disks;
mod machines;
mod mix;
mod readers;
mod store;
mod unmounted;
mod writes;

use cuts::{power_cuts_lose_no_answered_write, power_cuts_without_syncs_are_noticed};
use directories::{
    a_directory_of_a_store_of_another_name_is_not_taken, a_directory_of_another_clusters_store_is_not_taken,
    a_second_server_on_one_directory_is_refused, a_store_that_is_lost_is_loaded_from_one_servers_directory,
    both_newest_checkpoints_of_all_servers_may_be_lost, one_servers_directory_copied_from_another_never_diverges,
    one_servers_directory_from_a_backup_loses_no_write, one_servers_lost_directory_loses_no_write,
};
use disks::{
    a_disk_that_hangs_is_named_and_loses_no_write, a_server_stops_in_time_though_its_disk_is_full,
    a_servers_full_disk_loses_no_write,
};
use machines::{COUNT, DAEMONS, Id, Kept, Part, SERVERS, all};
use mix::any_mix_of_ends_keeps_what_was_answered;
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

/// Makes each journey a test of both kinds of stores.
macro_rules! journeys {
    ($($journey:ident,)*) => {
        mod by_daemons {
            $(#[test] fn $journey() { super::$journey(super::Kept::ByDaemons); })*
        }

        mod by_servers {
            $(#[test] fn $journey() { super::$journey(super::Kept::ByServers); })*
        }
    };
}

journeys! {
    any_mix_of_ends_keeps_what_was_answered,
    a_disk_that_hangs_is_named_and_loses_no_write,
    killing_everything_keeps_the_first_answered_write,
    killing_everything_keeps_what_was_answered,
    killing_all_servers_keeps_what_was_answered,
    killing_all_daemons_keeps_what_was_answered,
    stopping_servers_under_load_keeps_what_was_answered,
    stopping_daemons_under_load_keeps_what_was_answered,
    stopping_everything_under_load_keeps_what_was_answered,
    a_store_comes_back_in_any_order_of_its_machines,
    a_server_that_stopped_in_time_is_not_outvoted,
    one_servers_lost_directory_loses_no_write,
    one_servers_directory_from_a_backup_loses_no_write,
    one_servers_directory_copied_from_another_never_diverges,
    a_directory_of_another_clusters_store_is_not_taken,
    a_directory_of_a_store_of_another_name_is_not_taken,
    both_newest_checkpoints_of_all_servers_may_be_lost,
    a_store_that_is_lost_is_loaded_from_one_servers_directory,
    a_second_server_on_one_directory_is_refused,
    a_servers_full_disk_loses_no_write,
    a_server_stops_in_time_though_its_disk_is_full,
    power_cuts_lose_no_answered_write,
    power_cuts_without_syncs_are_noticed,
}

fn kill_everything_after(kept: Kept, answers: u64) {
    let mut store = Store::start(kept);
    store.kill_under_load(answers, &all());
    store.machines.start_all().unwrap();
    store.verify(&format!("kill -9 of everything behind {answers} answers"));
}

fn killing_everything_keeps_the_first_answered_write(kept: Kept) {
    kill_everything_after(kept, 1);
}

fn killing_everything_keeps_what_was_answered(kept: Kept) {
    //= RS05 test
    //= RS13 test
    kill_everything_after(kept, long_or(250_000, 500));
}

/// Kills a part of the processes again and again.
fn kill(kept: Kept, ids: &[Id], what: &str) {
    let mut store = Store::start(kept);
    for _ in 0..long_or(10, 2) {
        store.kill_under_load(SOME, ids);
        store.machines.assert_all_run();
        store.machines.start_all().unwrap();
        store.verify(what);
    }
    directories::await_checkpoints(&store);
}

fn killing_all_servers_keeps_what_was_answered(kept: Kept) {
    kill(kept, &SERVERS, "kill -9 of all servers");
}

fn killing_all_daemons_keeps_what_was_answered(kept: Kept) {
    kill(kept, &DAEMONS, "kill -9 of all daemons");
}

/// Stops a part of the processes by SIGTERM under load, in random order.
fn stop(kept: Kept, ids: &[Id], what: &str) {
    let mut store = Store::start(kept);
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

fn stopping_servers_under_load_keeps_what_was_answered(kept: Kept) {
    stop(kept, &SERVERS, "SIGTERM of all servers");
}

fn stopping_daemons_under_load_keeps_what_was_answered(kept: Kept) {
    stop(kept, &DAEMONS, "SIGTERM of all daemons");
}

fn stopping_everything_under_load_keeps_what_was_answered(kept: Kept) {
    stop(kept, &all(), "SIGTERM of everything");
}

fn a_store_comes_back_in_any_order_of_its_machines(kept: Kept) {
    let orders = [[2, 0, 1], [0, 2, 1], [0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]];
    let mut store = Store::start(kept);
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

fn a_server_that_stopped_in_time_is_not_outvoted(kept: Kept) {
    let mut store = Store::start(kept);
    store.under_load(SOME, |store, _| {
        store.machines.stop(&[(Part::Server, COUNT - 1)]);
        thread::sleep(Duration::from_millis(100));
        store.machines.kill(&all());
    });
    store.machines.start_all().unwrap();
    store.verify("SIGTERM of one server and kill -9 of the rest");
}

//! Daemons that start before the volumes of their state are mounted, and again once they are: a store has all that it answered.
use super::machines::{DAEMONS, Id, Kept, SERVERS, all};
use super::store::Store;
use super::{SOME, long_or};
use std::fs;
use std::thread;
use std::time::Duration;

/// How long daemons run without their disks, where they order nothing.
const AWAY: Duration = Duration::from_secs(4);

/// The volumes of these go away, or come back: what was written instead meanwhile is away then.
fn swap(store: &Store, ids: &[Id]) {
    for id in ids {
        let (path, away) = (store.machines.state(*id), store.machines.path(&format!("away-{}", id.1)));
        let between = store.machines.path("between");
        if path.exists() {
            fs::rename(&path, &between).unwrap();
        }
        if away.exists() {
            fs::rename(&away, &path).unwrap();
        }
        fs::rename(&between, &away).unwrap();
    }
}

/// Everything ends, and starts without the disks of these daemons. Then they are mounted, one by one or at once.
fn start_without(away: &[Id], one_by_one: bool, after: &str) {
    let mut store = Store::start(Kept::ByDaemons);
    for _ in 0..long_or(5, 1) {
        store.kill_under_load(SOME, &all());
        swap(&store, away);
        store.machines.start(&DAEMONS).unwrap();
        store.machines.launch(&SERVERS);
        if away.len() == 1 {
            // The other two order, and the third asks them what it voted.
            store.machines.await_ready(&SERVERS).unwrap();
            store.verify(after);
            store.under_load(SOME, |_, _| {});
        } else {
            thread::sleep(AWAY);
        }
        let mounted: Vec<_> = if one_by_one { away.chunks(1).collect() } else { vec![away] };
        for ids in mounted {
            store.machines.kill(ids);
            swap(&store, ids);
            store.machines.start(ids).unwrap();
        }
        store.machines.kill(&SERVERS);
        store.machines.start_all().unwrap();
        store.verify(after);
    }
}

#[test]
fn a_disk_that_is_mounted_late_loses_no_write() {
    start_without(&DAEMONS[..1], false, "a start of one daemon before its disk was mounted");
}

#[test]
fn two_disks_of_three_that_are_mounted_late_lose_no_write() {
    //= X109 test
    start_without(&DAEMONS[1..], false, "a start of two daemons before their disks were mounted");
    start_without(&DAEMONS[1..], true, "a start of two daemons before their disks were mounted one by one");
}

#[test]
fn all_disks_that_are_mounted_late_lose_no_write() {
    //= X101 test
    start_without(&DAEMONS, false, "a start of all daemons before their disks were mounted");
    start_without(&DAEMONS, true, "a start of all daemons before their disks were mounted one by one");
}

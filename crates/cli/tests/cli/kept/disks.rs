//! Disks that are full for a while, of a server or of daemons.
use super::machines::{COUNT, DAEMONS, Id, Kept, Machines, SERVERS, all};
use super::store::Store;
use super::{SOME, long_or};
use consort_testbed::SmallDisk;
use std::thread;
use std::time::Duration;

/// What a disk has before and after.
const ROOM: u64 = 256 << 20;
/// For how long it is full.
const FULL: Duration = Duration::from_millis(500);

/// Fills the disks of these processes under load. Those that end must say what to do, and start once there is space.
fn fill(kept: Kept, ids: &[Id]) {
    let machines = Machines::new(kept);
    let mounted: Option<Vec<_>> = ids.iter().map(|id| SmallDisk::mount_for_test(&machines.state(*id), ROOM)).collect();
    let Some(disks) = mounted else { return };
    let mut store = Store::start_on(machines);
    store.under_load(SOME, |_, writers| {
        disks.iter().for_each(|disk| disk.fill().unwrap());
        if ids.len() < COUNT {
            writers.wait_for(writers.count() + SOME);
        }
        thread::sleep(FULL);
    });
    for (id, log) in store.machines.take_ended() {
        assert!(ids.contains(&id), "{id:?} has a disk with space, and ended: {log}");
        assert!(log.contains("space"), "{id:?} did not say what to do: {log}");
    }
    disks.iter().for_each(|disk| disk.resize(ROOM).unwrap());
    store.machines.start_all().unwrap();
    store.verify("a full disk");
    store.kill_under_load(SOME, &all());
    store.machines.start_all().unwrap();
    store.verify("a full disk, and kill -9 of everything");
    drop(disks); // before the directories on which they are mounted
}

pub fn a_servers_full_disk_loses_no_write(kept: Kept) {
    fill(kept, &SERVERS[..long_or(COUNT, 1)]);
}

#[test]
fn a_daemons_full_disk_loses_no_write() {
    fill(Kept::ByDaemons, &DAEMONS[..long_or(COUNT, 1)]);
}

pub fn a_server_stops_in_time_though_its_disk_is_full(kept: Kept) {
    let machines = Machines::new(kept);
    let Some(disk) = SmallDisk::mount_for_test(&machines.state(SERVERS[0]), ROOM) else { return };
    let mut store = Store::start_on(machines);
    store.under_load(SOME, |store, _| {
        disk.fill().unwrap();
        store.machines.stop(&SERVERS);
    });
    disk.resize(ROOM).unwrap();
    store.machines.start_all().unwrap();
    store.verify("a stop with a full disk");
    drop(disk);
}

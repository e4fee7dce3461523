//! Disks that are full for a while, of a server or of daemons.
use super::cuts::replaced;
use super::machines::{COUNT, DAEMONS, Id, Kept, Machines, SERVERS, all};
use super::store::Store;
use super::{SOME, long_or};
use consort_testbed::SmallDisk;
use std::fs;
use std::thread;
use std::time::Duration;

/// What a disk has before and after.
const ROOM: u64 = 256 << 20;
/// For how long it is full.
const FULL: Duration = Duration::from_millis(500);

/// Waits in each sync of the first machine's files while a file is there that `HUNG` names.
const HUNG: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
static void wait_while_hung(int f) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", f);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    while (strstr(path, "/machine-1/") && access(getenv("HUNG"), F_OK) == 0) usleep(10000);
}
int fdatasync(int f) { wait_while_hung(f); return syscall(SYS_fdatasync, f); }
int fsync(int f) { wait_while_hung(f); return syscall(SYS_fsync, f); }
"#;
/// For how long a disk hangs; it is named after a second.
const HANGS: Duration = Duration::from_millis(2_500);

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

pub fn a_disk_that_hangs_is_named_and_loses_no_write(kept: Kept) {
    let mut machines = Machines::new(kept);
    let Some(preload) = replaced(&machines, HUNG) else { return };
    let hung = machines.path("hung");
    machines.run_by(&["env", &preload, &format!("HUNG={}", hung.display())]);
    let mut store = Store::start_on(machines);
    store.under_load(SOME, |_, writers| {
        fs::write(&hung, "").unwrap();
        // The disks of the two others are a majority.
        writers.wait_for(writers.count() + SOME);
        thread::sleep(HANGS);
        fs::remove_file(&hung).unwrap();
        writers.wait_for(writers.count() + SOME);
    });
    let id = if kept == Kept::ByDaemons { DAEMONS[0] } else { SERVERS[0] };
    let log = store.machines.log_of(id);
    assert!(log.contains("hangs"), "{id:?} does not name its disk: {log}");
    store.verify("a disk that hung");
    store.kill_under_load(SOME, &all());
    store.machines.start_all().unwrap();
    store.verify("a disk that hung, and kill -9 of everything");
}

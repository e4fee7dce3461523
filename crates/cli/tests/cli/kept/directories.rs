//! State directories that are lost, old, another's, or in use already: a store has all that it answered, or a server says which
//! two things do not fit together and what to do. Servers never differ.
use super::machines::{DAEMONS, Id, Kept, Machines, PATIENCE, Part, SERVERS, Start, all};
use super::store::Store;
use super::writes::Ledger;
use super::{SOME, long_or};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How many partitions a store has by default.
const PARTITIONS: usize = 4;
/// The server whose directory is harmed.
const HARMED: Id = SERVERS[0];
/// Another network, which has a loopback device as that of a container has.
const OTHER_NETWORK: [&str; 5] = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];
/// What an error says that has a remedy.
const REMEDIES: [&str; 8] = ["move", "remove", "give", "start", "stop", "end ", "use ", "wait"];

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "cannot copy {}", from.display());
}

/// A refusal is one sentence that names all of these, and a remedy.
fn assert_is_a_remedy(refusal: &str, names: &[String]) {
    let last = refusal.lines().last().unwrap_or_default();
    let missing: Vec<_> = names.iter().filter(|name| !last.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "a refusal does not name {missing:?}: {refusal:?}");
    let lower = last.to_lowercase();
    assert!(REMEDIES.iter().any(|remedy| lower.contains(remedy)), "a refusal has no remedy: {refusal:?}");
    assert!(!last.contains("panicked"), "{refusal}");
}

/// Has each server write its state down. Then writes, copies what `early` copies while the load goes on, ends everything, harms
/// what is on disk and starts all again. One process may refuse what it finds, if it says both sides; it then gets an empty
/// directory.
fn harm(store: &mut Store, harmed: Id, early: impl FnOnce(&mut Store), late: impl FnOnce(&Store), after: &str) {
    store.under_load(SOME, |store, _| store.machines.stop(&SERVERS));
    store.machines.start_all().unwrap();
    store.under_load(SOME, |store, writers| {
        early(store);
        writers.wait_for(writers.count() + SOME);
        if store.rng.chance(0.5) {
            store.machines.stop(&SERVERS);
        }
        store.machines.kill(&all());
    });
    late(store);
    for ids in [DAEMONS, SERVERS] {
        store.machines.launch(&ids);
        let starts = store.machines.await_each(&ids).unwrap_or_else(|wrong| panic!("after {after}: {wrong}"));
        for (id, start) in ids.into_iter().zip(starts) {
            let refusal = match start {
                Start::Refused(refusal) => refusal,
                Start::Ready => match store.partition_refused(id) {
                    Some(refusal) => refusal,
                    None => continue,
                },
            };
            store.machines.kill(&[id]);
            assert_eq!(id, harmed, "after {after}: {refusal}");
            let state = store.machines.state(id);
            assert_is_a_remedy(&refusal, &[state.display().to_string()]);
            println!("after {after} one refused: {refusal}");
            fs::remove_dir_all(&state).unwrap();
            store.machines.start(&[id]).unwrap();
        }
    }
    store.verify(after);
}

fn remove(path: &Path) {
    fs::remove_dir_all(path).unwrap();
}

fn lose(kept: Kept, harmed: Id) {
    let mut store = Store::start(kept);
    for _ in 0..long_or(5, 1) {
        harm(&mut store, harmed, |_| {}, |store| remove(&store.machines.state(harmed)), "the loss of a directory");
    }
}

pub fn one_servers_lost_directory_loses_no_write(kept: Kept) {
    lose(kept, HARMED);
}

#[test]
fn one_daemons_lost_directory_loses_no_write() {
    lose(Kept::ByDaemons, DAEMONS[0]);
}

/// Copies the directory of a process that runs. A daemon is killed and started afterwards, because others can know that its votes
/// are old only if it was started since.
fn back_up(store: &mut Store, id: Id, backup: &Path) {
    copy(&store.machines.state(id), backup);
    if id.0 == Part::Daemon {
        store.machines.kill(&[id]);
        store.machines.start(&[id]).unwrap();
    }
}

fn put_back(kept: Kept, harmed: Id) {
    let mut store = Store::start(kept);
    for round in 0..long_or(5, 1) {
        let backup = store.machines.path(&format!("backup-{round}"));
        let early = |store: &mut Store| back_up(store, harmed, &backup);
        let late = |store: &Store| {
            remove(&store.machines.state(harmed));
            copy(&backup, &store.machines.state(harmed));
        };
        harm(&mut store, harmed, early, late, "the return of an old directory");
    }
}

pub fn one_servers_directory_from_a_backup_loses_no_write(kept: Kept) {
    put_back(kept, HARMED);
}

#[test]
fn one_daemons_directory_from_a_backup_loses_no_write() {
    put_back(Kept::ByDaemons, DAEMONS[0]);
}

#[test]
fn a_daemons_old_votes_do_not_outvote_the_one_that_is_away() {
    let mut store = Store::start(Kept::ByDaemons);
    let backup = store.machines.path("backup");
    store.under_load(SOME, |store, writers| {
        back_up(store, DAEMONS[0], &backup);
        store.machines.kill(&[DAEMONS[2], SERVERS[2]]);
        writers.wait_for(writers.count() + SOME);
        store.machines.kill(&all());
    });
    remove(&store.machines.state(DAEMONS[0]));
    copy(&backup, &store.machines.state(DAEMONS[0]));
    store.machines.start(&[DAEMONS[0], DAEMONS[2]]).unwrap();
    store.machines.launch(&[SERVERS[0], SERVERS[2]]);
    // If old votes counted, these two would order what the servers send now.
    thread::sleep(Duration::from_secs(1));
    store.machines.start(&[DAEMONS[1]]).unwrap();
    store.machines.launch(&[SERVERS[1]]);
    store.machines.await_ready(&SERVERS).unwrap();
    store.verify("the return of old votes, while the only other daemon that has them was away");
}

pub fn one_servers_directory_copied_from_another_never_diverges(kept: Kept) {
    let mut store = Store::start(kept);
    for _ in 0..long_or(5, 1) {
        let late = |store: &Store| {
            remove(&store.machines.state(HARMED));
            copy(&store.machines.state(SERVERS[1]), &store.machines.state(HARMED));
        };
        harm(&mut store, HARMED, |_| {}, late, "a copy of another server's directory");
    }
}

/// One server finds this directory instead of its own.
fn take(store: &mut Store, foreign: &Path, after: &str) {
    let late = |store: &Store| {
        remove(&store.machines.state(HARMED));
        copy(foreign, &store.machines.state(HARMED));
    };
    harm(store, HARMED, |_| {}, late, after);
}

pub fn a_directory_of_another_clusters_store_is_not_taken(kept: Kept) {
    let mut other = Store::start(kept);
    other.under_load(SOME, |_, _| {});
    other.machines.stop(&SERVERS);
    take(&mut Store::start(kept), &other.machines.state(SERVERS[1]), "another cluster's directory");
}

pub fn a_directory_of_a_store_of_another_name_is_not_taken(kept: Kept) {
    let mut machines = Machines::new(kept);
    machines.serve_store("other");
    let mut store = Store::start_on(machines);
    store.under_load(SOME, |_, _| {});
    store.machines.stop(&SERVERS);
    let foreign = store.machines.path("other-store");
    fs::rename(store.machines.state(HARMED), &foreign).unwrap();
    SERVERS[1..].iter().for_each(|id| remove(&store.machines.state(*id)));
    store.machines.serve_store("main");
    store.ledger = Ledger::default();
    store.machines.start_all().unwrap();
    take(&mut store, &foreign, "another store's directory");
}

#[test]
fn all_servers_directories_lost_are_made_again_from_the_log() {
    //= RS13 test
    //= RS15 test
    let mut store = Store::start(Kept::ByDaemons);
    store.kill_under_load(SOME, &all());
    SERVERS.iter().for_each(|id| remove(&store.machines.state(*id)));
    store.machines.start_all().unwrap();
    store.verify("the loss of all servers' directories");
}

/// All directories are lost but that of one server, which was up to date when it stopped, or is a backup.
pub fn a_store_that_is_lost_is_loaded_from_one_servers_directory(kept: Kept) {
    //= RS14 test
    let mut store = Store::start(kept);
    store.under_load(SOME, |_, _| {});
    store.verify("some writes");
    store.machines.stop(&SERVERS);
    store.machines.kill(&DAEMONS);
    if kept == Kept::ByDaemons {
        DAEMONS.iter().for_each(|id| remove(&store.machines.state(*id)));
        store.machines.start(&DAEMONS).unwrap();
        store.machines.launch(&SERVERS);
        for (id, start) in SERVERS.into_iter().zip(store.machines.await_each(&SERVERS).unwrap()) {
            let Start::Refused(refusal) = start else {
                panic!("a server goes on with an order that its state is not of")
            };
            let directory = store.machines.state(id).display().to_string();
            assert_is_a_remedy(&refusal, &[directory, "consort kv load".to_owned()]);
        }
        store.machines.kill(&DAEMONS);
    }
    let backup = store.machines.path("backup");
    copy(&store.machines.state(SERVERS[1]), &backup);
    all().iter().filter(|id| store.machines.state(**id).exists()).for_each(|id| remove(&store.machines.state(*id)));
    store.machines.start_all().unwrap();
    load(&store, &backup);
    store.verify("a load of what one server had");
    store.kill_under_load(SOME, &all());
    store.machines.start_all().unwrap();
    store.verify("kill -9 of everything behind that");
}

/// Puts what this directory has into the store, as an operator does: it is looked at first, and a second try needs a word.
fn load(store: &Store, directory: &Path) {
    let server = store.machines.addresses()[0].clone();
    refuse_what_is_not_complete(store, directory, &server);
    let directory = directory.display().to_string();
    let load = ["kv", "load", &directory, "--server", &server];
    let looked = store.machines.run(&["kv", "load", &directory, "--dry-run"]);
    assert_eq!((looked.code, looked.out.matches(" keys after ").count()), (0, PARTITIONS), "{looked:?}");
    let loaded = store.machines.run(&load);
    assert!(loaded.code == 0 && loaded.out.contains(" keys were put"), "{loaded:?}");
    let refused = store.machines.run(&load);
    assert!(refused.code == 1 && refused.errors.contains("--if-absent"), "{refused:?}");
    let again = store.machines.run(&[&load[..], &["--if-absent"]].concat());
    assert!(again.code == 0 && again.out.contains("0 keys were put, and "), "{again:?}");
}

/// Nothing is put where a partition is missing, or its newest checkpoint is damaged though it has an older one.
fn refuse_what_is_not_complete(store: &Store, directory: &Path, server: &str) {
    let harmed = |name: &str| {
        let path = store.machines.path(name);
        copy(directory, &path);
        path
    };
    let without_last = harmed("without-last");
    remove(&without_last.join("partition-4"));
    let damaged = harmed("damaged");
    let newest = checkpoints(&damaged.join("partition-2")).concat().into_iter().max().unwrap();
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() - 1]).unwrap();
    for (path, named) in [(without_last, "partition 4: its directory is missing"), (damaged, "partition 2: ")] {
        let refused = store.machines.run(&["kv", "load", &path.display().to_string(), "--server", server]);
        assert!(refused.code == 1 && refused.errors.contains("nothing was put"), "{refused:?}");
        assert!(refused.errors.contains(named), "{refused:?}");
    }
}

/// The files of checkpoints in and below a directory, the newest last, each with its directory.
fn checkpoints(below: &Path) -> Vec<Vec<PathBuf>> {
    let mut here = Vec::new();
    let mut all = Vec::new();
    for entry in fs::read_dir(below).unwrap().flatten() {
        if entry.path().is_dir() {
            all.extend(checkpoints(&entry.path()));
        } else if entry.file_name().to_string_lossy().starts_with("checkpoint-") {
            here.push(entry.path());
        }
    }
    here.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    all.push(here);
    all
}

/// Each partition of each server has checkpoints soon, though none has stopped.
pub fn await_checkpoints(store: &Store) {
    let deadline = Instant::now() + PATIENCE;
    let of = |id: Id| checkpoints(&store.machines.state(id)).into_iter().filter(|files| !files.is_empty()).count();
    while SERVERS.into_iter().any(|id| of(id) < PARTITIONS) {
        assert!(Instant::now() < deadline, "{:?} partitions have checkpoints", SERVERS.map(of));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Two directories of three are lost that had writes which the third lacks.
#[test]
fn servers_do_not_go_on_by_themselves_with_one_directory_of_three() {
    //= RS24 test
    let mut store = Store::start(Kept::ByServers);
    store.machines.kill(&[SERVERS[0]]);
    store.under_load(SOME, |store, _| store.machines.kill(&all()));
    SERVERS[1..].iter().for_each(|id| remove(&store.machines.state(*id)));
    store.machines.start(&DAEMONS).unwrap();
    store.machines.launch(&SERVERS);
    let deadline = Instant::now() + PATIENCE;
    let says = |store: &Store, id: Id| store.machines.log_of(id).contains("start a server with --force");
    while !SERVERS.into_iter().all(|id| says(&store, id)) {
        assert!(Instant::now() < deadline, "the servers do not say what to do");
        assert!(store.machines.take_ended().is_empty());
        thread::sleep(Duration::from_millis(20));
    }
    let went_on = SERVERS.into_iter().any(|id| !store.machines.is_new(id));
    assert!(!went_on, "a server went on with one directory of three");
}

pub fn both_newest_checkpoints_of_all_servers_may_be_lost(kept: Kept) {
    let mut store = Store::start(kept);
    store.under_load(SOME, |_, _| {});
    store.machines.stop(&SERVERS);
    store.machines.start_all().unwrap();
    store.kill_under_load(SOME, &all());
    for id in SERVERS {
        let of_partitions = checkpoints(&store.machines.state(id));
        let newest = of_partitions.iter().flat_map(|files| files.iter().rev().take(2));
        let removed = newest.map(|file| fs::remove_file(file).unwrap()).count();
        assert!(removed > 0, "{} had no checkpoint", store.machines.state(id).display());
    }
    store.machines.start_all().unwrap();
    store.verify("the loss of both newest checkpoints everywhere");
}

/// One more process on the directory of one that runs is refused, in its network and in another, where it finds what this
/// assignment of a variable adds.
fn second(kept: Kept, id: Id, variable: impl FnOnce(&Machines) -> String) {
    let mut store = Store::start(kept);
    store.under_load(SOME, |_, _| {});
    let refusal = store.machines.refusal_beside(id, &[]);
    assert_is_a_remedy(&refusal, &[]);
    if rustix::process::geteuid().is_root() {
        let variable = variable(&store.machines);
        let refusal = store.machines.refusal_beside(id, &[&["env", &variable], &OTHER_NETWORK[..]].concat());
        assert_is_a_remedy(&refusal, &[store.machines.state(id).display().to_string()]);
    }
    store.verify("a second process on one directory");
}

pub fn a_second_server_on_one_directory_is_refused(kept: Kept) {
    second(kept, SERVERS[0], |_| "ANY=1".to_owned());
}

#[test]
fn a_second_daemon_on_one_directory_is_refused() {
    // As in another container, which has the directory but not the sockets.
    second(Kept::ByDaemons, DAEMONS[0], |machines| {
        format!("CONSORT_RUNTIME_DIR={}", machines.path("other-run").display())
    });
}

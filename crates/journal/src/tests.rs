use super::frame::{HEAD, RECORD_MAX, SECTOR, SEGMENT_HEAD};
use super::*;
use consort_types::Instant;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, channel};

/// What the helper thread wakes with, and where each wake-up arrives.
fn wake() -> (Receiver<()>, impl Fn() -> io::Result<()> + Send + Sync + 'static) {
    let (wake, woken) = channel();
    (woken, move || wake.send(()).map_err(io::Error::other))
}

fn options(directory: &Path) -> Records {
    let (cluster, incarnation) = ("prod".to_owned(), Incarnation(5));
    Records { directory: directory.to_owned(), keep: Keep::Synced, most: 1 << 30, cluster, node: 2, incarnation }
}

/// Writes `n` records of `len` bytes behind those that are there, and waits for them.
fn write(path: &Path, n: u64, len: usize, trimmed: u64) {
    let (_woken, wake) = wake();
    let mut journal = Journal::open(&options(path)).unwrap();
    let found = journal.take_records().len() as u64;
    let mut writer = journal.start(wake).unwrap();
    (1..=n).for_each(|t| writer.write(Instant::ZERO, Ticket(found + t), vec![t as u8; len].into(), t == n));
    writer.trim(Ticket(trimmed));
    drop(writer);
}

fn found(path: &Path) -> Vec<Vec<u8>> {
    Journal::open(&options(path)).unwrap().take_records().iter().map(|record| record.to_vec()).collect()
}

/// As if the machine had stopped when the last mark on its disk told of so many records.
fn crash(path: &Path, synced: u64) {
    kill(path, synced);
    says(path, "boot", "another");
}

/// As if the process had been killed when so many records were synced.
fn kill(path: &Path, synced: u64) {
    Mark::begin(path, synced).unwrap();
    let (owner, _) = Owner::last(&options(path), true).unwrap();
    owner.claim(&options(path)).unwrap();
}

/// Has the file that names the owner say something else, as the same file.
fn says(path: &Path, key: &str, value: &str) {
    let text = fs::read_to_string(path.join(owner::NAME)).unwrap();
    let line = |line: &str| if line.starts_with(key) { format!("{key} {value}\n") } else { format!("{line}\n") };
    fs::write(path.join(owner::NAME), text.lines().map(line).collect::<String>()).unwrap();
}

/// Copies a directory as `cp -a` does.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn refusal(path: &Path) -> String {
    Journal::open(&options(path)).unwrap_err().to_string()
}

/// The only segment.
fn only(path: &Path) -> PathBuf {
    let [(_, path)] = &segment::list(path).unwrap()[..] else { panic!("one segment") };
    path.clone()
}

#[test]
fn what_is_written_is_found_again_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    assert!(found(&path).is_empty());
    write(&path, 3, 5, 0);
    assert_eq!(found(&path), [[1; 5], [2; 5], [3; 5]]);
    write(&path, 1, 0, 0);
    assert_eq!(found(&path).len(), 4);
}

#[test]
fn completions_come_in_order_and_wake_the_loop() {
    let folder = tempfile::tempdir().unwrap();
    let (woken, wake) = wake();
    let mut writer = Journal::open(&options(folder.path())).unwrap().start(wake).unwrap();
    (1..=900).for_each(|t| writer.write(Instant::ZERO, Ticket(t), Bytes::from_static(b"record"), true));
    let mut done = Vec::new();
    while done.len() < 900 {
        woken.recv().unwrap();
        done.extend(std::iter::from_fn(|| writer.next_done().unwrap()).map(|ticket| ticket.0));
    }
    assert_eq!(done, (1..=900).collect::<Vec<_>>());
    drop(writer);
    assert_eq!(found(folder.path()).len(), 900, "more than one system call takes");
}

#[test]
fn a_half_written_end_is_taken_off_wherever_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 2, 40, 0);
    let path = only(folder.path());
    let whole = fs::read(&path).unwrap();
    let first = SEGMENT_HEAD + HEAD + 40;
    for (len, stop) in (first..whole.len()).flat_map(|len| [(len, kill as fn(&Path, u64)), (len, crash)]) {
        fs::write(&path, &whole[..len]).unwrap();
        stop(folder.path(), 1);
        assert_eq!(found(folder.path()), [[1; 40]], "cut at {len}");
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, first);
    }
    for len in 0..SEGMENT_HEAD {
        fs::write(&path, &whole[..len]).unwrap();
        kill(folder.path(), 0);
        assert!(found(folder.path()).is_empty(), "cut at {len}");
        fs::remove_file(&path).unwrap();
    }
}

//= X07 test
#[test]
fn an_end_that_lacks_sectors_is_taken_off() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3, 1_500, 0);
    let path = only(folder.path());
    let whole = fs::read(&path).unwrap();
    let second = SEGMENT_HEAD + HEAD + 1_500;
    // Each sector behind the first record by itself, and all from each on.
    let sectors = (second / SECTOR + 1)..whole.len().div_ceil(SECTOR);
    for (lost, alone) in sectors.flat_map(|lost| [(lost, true), (lost, false)]) {
        let to = if alone { whole.len().min((lost + 1) * SECTOR) } else { whole.len() };
        let mut bytes = whole.clone();
        bytes[lost * SECTOR..to].fill(0);
        fs::write(&path, &bytes).unwrap();
        let left = if lost * SECTOR < second + HEAD + 1_500 { 1 } else { 2 };
        crash(folder.path(), left + 1);
        assert!(refusal(folder.path()).contains("is damaged"), "sector {lost}: it was synced");
        assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it is");
        // The machine may go on from a copy of its disk, with the boot id of before.
        if alone {
            crash(folder.path(), 1)
        } else {
            kill(folder.path(), 1)
        }
        assert_eq!(found(folder.path()).len() as u64, left, "sector {lost}, alone: {alone}");
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, SEGMENT_HEAD + left as usize * 1_508);
    }
}

//= X06 test
#[test]
fn the_last_record_is_not_taken_off_when_it_rots() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3, 40, 0);
    let path = only(folder.path());
    let whole = fs::read(&path).unwrap();
    let last = SEGMENT_HEAD + 2 * (HEAD + 40);
    for bit in 0..8 * (HEAD + 40) {
        let mut bytes = whole.clone();
        bytes[last + bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).unwrap();
        // Whether or not it is known to be synced: no write that was cut off leaves that.
        for (stop, synced) in [(kill as fn(&Path, u64), 3), (crash, 3), (crash, 0)] {
            stop(folder.path(), synced);
            let error = refusal(folder.path());
            assert!(error.contains(&format!("of the record at byte {last} is damaged")), "bit {bit}: {error}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it is");
        }
    }
}

//= X06 test
#[test]
fn what_was_synced_and_is_gone_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3, 40, 0);
    let path = only(folder.path());
    let whole = fs::read(&path).unwrap();
    // Between two records nothing else tells that one is missing.
    fs::write(&path, &whole[..whole.len() - HEAD - 40]).unwrap();
    let error = refusal(folder.path());
    assert!(error.contains("end before 3, but those up to 3 were synced"), "{error}");
    fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    let error = refusal(folder.path());
    assert!(error.contains("is cut off, and was synced") && error.contains("all files of the directory"), "{error}");
    fs::remove_file(&path).unwrap();
    let error = refusal(folder.path());
    assert!(error.contains("those up to 3 were synced"), "a segment that was moved away alone: {error}");
    fs::write(folder.path().join("synced"), "soup").unwrap();
    let error = refusal(folder.path());
    assert!(error.contains("\"soup\", which no daemon writes") && error.contains("synced"), "{error}");
}

//= X07 test
#[test]
fn what_is_not_known_to_be_synced_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3, 40, 0);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(only(path)).unwrap());
    let before = inode(folder.path());
    assert_eq!((found(folder.path()).len(), inode(folder.path())), (3, before), "all is known to be synced");
    kill(folder.path(), 2);
    let kept = File::open(only(folder.path())).unwrap();
    assert_eq!(found(folder.path()).len(), 3);
    assert_ne!(inode(folder.path()), before, "another file has taken its place");
    drop(kept);
    assert!(matches!(Mark::last(folder.path()), Ok(Some(3))), "and is synced");
    write(folder.path(), 2, 40, 0);
    assert_eq!(found(folder.path()).len(), 5, "writing goes on in it");
}

#[test]
fn records_without_a_mark_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3, 40, 0);
    fs::remove_file(folder.path().join("synced")).unwrap();
    let error = refusal(folder.path());
    assert!(error.contains("synced cannot be right: it is missing"), "{error}");
}

#[test]
fn records_of_another_node_or_cluster_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copied) = (folder.path().join("node-2"), folder.path().join("node-3"));
    write(&path, 3, 40, 0);
    copy(&path, &copied);
    let before: Vec<_> = segment::list(&copied).unwrap();
    for (cluster, node) in [("prod", 3), ("test", 2)] {
        let options = Records { cluster: cluster.to_owned(), node, ..options(&copied) };
        let error = Journal::open(&options).unwrap_err().to_string();
        let expected =
            format!("belong to node 2 of cluster `prod`, and this daemon is node {node} of cluster `{cluster}`");
        assert!(error.contains(&expected) && error.contains("--state-dir"), "{error}");
    }
    assert_eq!(segment::list(&copied).unwrap(), before, "nothing is changed");
}

#[test]
fn records_that_name_no_owner_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3, 40, 0);
    fs::remove_file(folder.path().join(owner::NAME)).unwrap();
    let error = refusal(folder.path());
    assert!(error.contains("do not say to which node they belong"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kept"), "sync clean\n").unwrap();
    assert!(refusal(folder.path()).contains("an earlier version wrote them"));
}

//= X36 test
#[test]
fn a_copy_of_records_is_noticed_and_is_one_until_it_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("votes"), folder.path().join("saved"));
    let copied = || Journal::open(&options(&path)).unwrap().copied();
    write(&path, 3, 40, 0);
    assert_eq!(copied(), Incarnation(0));
    copy(&path, &saved);
    write(&path, 3, 40, 0);
    fs::remove_dir_all(&path).unwrap();
    copy(&saved, &path);
    assert_eq!(copied(), Incarnation(5), "put back from a backup");
    let later = Records { incarnation: Incarnation(6), ..options(&path) };
    assert_eq!(Journal::open(&later).unwrap().copied(), Incarnation(5), "and it was so in that incarnation");
    assert!(adopt(&later, false).unwrap() && copied() == Incarnation(5), "nothing was changed");
    assert!(adopt(&later, true).unwrap());
    assert_eq!(copied(), Incarnation(0), "an operator says that it is the newest");
    assert!(!adopt(&later, true).unwrap(), "and there is nothing to say any more");
    // A copy of some files only, as tools for backups make that leave alone what is the same.
    fs::copy(saved.join("synced"), folder.path().join("new")).unwrap();
    fs::rename(folder.path().join("new"), path.join("synced")).unwrap();
    assert_eq!(copied(), Incarnation(5));
}

//= X36 test
#[test]
fn records_that_were_moved_away_and_back_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("votes"), folder.path().join("away"));
    write(&path, 3, 40, 0);
    fs::rename(&path, &away).unwrap();
    fs::rename(&away, &path).unwrap();
    assert_eq!(Journal::open(&options(&path)).unwrap().copied(), Incarnation(0), "nothing happened meanwhile");
    fs::rename(&path, &away).unwrap();
    write(&path, 1, 40, 0);
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    assert_eq!(Journal::open(&options(&path)).unwrap().copied(), Incarnation(5));
}

#[test]
fn files_and_directories_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("votes");
    write(&path, 30, 1 << 20, 0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap().map(Result::unwrap) {
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
    }
}

#[test]
fn a_damaged_record_in_the_middle_is_an_error_that_says_where() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3, 40, 0);
    let path = only(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[SEGMENT_HEAD + HEAD + 40 + HEAD] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Journal::open(&options(folder.path())).unwrap_err().to_string();
    assert!(error.contains("byte 64 is damaged") && error.contains("move these away"), "{error}");
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_damaged_length_is_no_half_written_record() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 5, 40, 0);
    let path = only(folder.path());
    let whole = fs::read(&path).unwrap();
    for record in 0..5 {
        for bit in 0..32 {
            let (mut bytes, at) = (whole.clone(), SEGMENT_HEAD + record * 48);
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            let error = Journal::open(&options(folder.path())).unwrap_err().to_string();
            assert!(error.contains(&format!("the record at byte {at} is damaged")), "bit {bit}: {error}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it is");
        }
    }
}

#[test]
fn a_directory_of_a_size_that_cannot_be_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 1, 40, 0);
    OpenOptions::new().write(true).open(only(folder.path())).unwrap().set_len(3 << 30).unwrap();
    let error = Journal::open(&options(folder.path())).unwrap_err().to_string();
    assert!(error.contains("3221225472 bytes") && error.contains("move these away"), "{error}");
}

#[test]
fn a_record_that_would_be_refused_later_is_not_written() {
    let (woken, wake) = wake();
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Journal::open(&options(folder.path())).unwrap().start(wake).unwrap();
    writer.write(Instant::ZERO, Ticket(1), vec![0; RECORD_MAX + 1].into(), true);
    woken.recv().unwrap();
    assert_eq!(writer.next_done().unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn segments_whose_records_are_all_trimmed_go_and_writing_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, 3, 100, 2);
    assert_eq!(found(path).len(), 3, "the last segment stays");
    write(path, 30, 1 << 20, 20);
    let left = found(path);
    assert!((13..=20).contains(&left.len()), "{} of 33 records are left", left.len());
    assert_eq!(left.last().unwrap()[..], vec![30; 1 << 20]);
    let before = segment::list(path).unwrap();
    write(path, 1, 7, left.len() as u64 + 1);
    assert_eq!(segment::list(path).unwrap().len(), 1, "of {}", before.len());
    assert_eq!(found(path).last().unwrap(), &[1; 7]);
}

#[test]
fn segments_that_are_missing_cut_off_or_in_each_others_place_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 30, 1 << 20, 0);
    let segments = segment::list(folder.path()).unwrap();
    assert!(segments.len() > 2);
    let (path, whole) = (&segments[1].1, fs::read(&segments[1].1).unwrap());
    let error = || Journal::open(&options(folder.path())).unwrap_err().to_string();
    fs::remove_file(path).unwrap();
    assert!(error().contains(&format!("record {} is missing", segments[1].0)), "{}", error());
    fs::write(path, &whole[..whole.len() - 1]).unwrap();
    assert!(error().contains("others follow in later files"), "{}", error());
    fs::copy(&segments[0].1, path).unwrap();
    assert!(error().contains("its head is damaged"), "{}", error());
    fs::write(path, &whole).unwrap();
    assert_eq!(found(folder.path()).len(), 30);
}

#[test]
fn what_was_kept_otherwise_is_refused_and_what_a_reboot_may_have_cost_counts_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let with = |keep| Journal::open(&Records { keep, ..options(folder.path()) });
    write(folder.path(), 2, 9, 0);
    let error = with(Keep::UntilReboot).unwrap_err().to_string();
    assert!(error.contains("storage = \"sync\", and \"async\" is asked for; set it back"), "{error}");
    says(folder.path(), "storage", "async");
    assert_eq!(with(Keep::UntilReboot).unwrap().take_records().len(), 2, "stopped before the machine");
    assert_eq!(with(Keep::UntilReboot).unwrap().take_records().len(), 2, "killed");
    says(folder.path(), "boot", "another");
    assert_eq!(with(Keep::UntilReboot).unwrap().take_records().len(), 0, "the machine has stopped");
    says(folder.path(), "node", "soup");
    assert!(with(Keep::Synced).unwrap_err().to_string().contains("which no daemon"));
}

#[test]
fn what_is_no_directory_is_refused() {
    let error = Journal::open(&options(Path::new("/dev/full"))).unwrap_err();
    assert!(error.to_string().starts_with("cannot use the records in /dev/full: "), "{error}");
}

#[test]
fn a_full_disk_at_the_start_is_told_with_the_remedy() {
    let of = |kind: ErrorKind| OpenError::Records { path: "/state/votes".into(), source: kind.into() }.to_string();
    let full = of(ErrorKind::StorageFull);
    assert!(full.starts_with("cannot use the records in /state/votes: "), "{full}");
    assert!(full.ends_with("; free some space and start again"), "{full}");
    assert!(of(ErrorKind::QuotaExceeded).ends_with("; raise the quota and start again"));
    assert!(!of(ErrorKind::NotADirectory).contains("start again"));
}

/// Takes one record, with another file in the place of the segment; returns how that failed.
fn fail_by(file: &str) -> io::Error {
    let (woken, wake) = wake();
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&options(folder.path())).unwrap();
    journal.last.file = OpenOptions::new().write(true).open(file).unwrap();
    let mut writer = journal.start(wake).unwrap();
    writer.write(Instant::ZERO, Ticket(1), Bytes::from_static(b"record"), true);
    woken.recv().unwrap();
    let error = writer.next_done().unwrap_err();
    writer.write(Instant::ZERO, Ticket(2), Bytes::from_static(b"record"), true);
    assert_eq!(writer.next_done().unwrap(), None, "nothing is written after it");
    drop(writer);
    assert!(matches!(Mark::last(folder.path()), Ok(Some(0))), "nothing is said to be synced");
    assert_ne!(Owner::last(&options(folder.path()), true).unwrap().1, Left::Crashed);
    assert!(!fs::read_to_string(folder.path().join(owner::NAME)).unwrap().contains("clean"));
    error
}

#[test]
fn a_sync_that_fails_is_reported_and_nothing_counts_as_synced() {
    //= X04 test
    // What is written there is taken, and cannot be synced.
    assert_eq!(fail_by("/dev/null").kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_error_of_the_device_is_reported() {
    const EIO: i32 = 5;
    // Nothing is mapped at the address 0.
    assert_eq!(fail_by("/proc/self/mem").raw_os_error(), Some(EIO));
}

#[test]
fn a_full_disk_is_named_and_nothing_counts_as_written() {
    let (woken, wake) = wake();
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&options(folder.path())).unwrap();
    journal.last.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut writer = journal.start(wake).unwrap();
    writer.write(Instant(7), Ticket(1), Bytes::from_static(b"record"), true);
    woken.recv().unwrap();
    assert!(matches!(writer.next_done(), Ok(None)), "it waits");
    assert_eq!(writer.refusal().map(io::Error::kind), Some(ErrorKind::StorageFull));
    assert_eq!(writer.waits_since(), Some(Instant(7)));
}

/// Appends records one by one until the segment after the next has begun.
fn roll_twice(journal: &mut Journal) {
    let first = journal.last.segment.first;
    let record = Bytes::from(vec![7; 1 << 20]);
    for _ in 0..20 {
        let (n, outcome) = journal.append(std::slice::from_ref(&record));
        assert_eq!((n, outcome.is_ok()), (1, true));
    }
    assert!(journal.last.segment.first > first + 9);
}

#[test]
fn the_next_segment_is_there_before_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&options(folder.path())).unwrap();
    assert!(journal.spare.is_some(), "from the start");
    roll_twice(&mut journal);
    assert!(journal.spare.is_some(), "after each");
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    let ours = open.filter(|path| path.starts_with(folder.path())).count();
    assert_eq!(ours, 4, "the directory, the mark, the last segment and the next one; none of those that are full");
}

#[test]
fn a_segment_grows_on_while_no_other_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&options(folder.path())).unwrap();
    let record = Bytes::from(vec![7; 1 << 20]);
    for _ in 0..20 {
        assert_eq!(journal.last.append(std::slice::from_ref(&record)).unwrap(), 1, "also beyond its full length");
    }
    journal.sync().unwrap();
    drop(journal);
    assert_eq!(found(folder.path()).len(), 20);
}

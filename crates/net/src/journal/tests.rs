use super::*;
use mio::{Poll, Token};

fn waker() -> (Poll, Waker) {
    let poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), Token(0)).unwrap();
    (poll, waker)
}

/// Writes records 1 to `n` of `len` bytes and waits for them.
fn write(path: &Path, n: u64, len: usize, trimmed: u64) {
    let (_poll, waker) = waker();
    let writer = Journal::open(path).unwrap().start(waker).unwrap();
    (1..=n).for_each(|t| writer.write(Ticket(t), vec![t as u8; len].into(), t == n));
    writer.trim(Ticket(trimmed));
    drop(writer);
}

fn found(path: &Path) -> Vec<Vec<u8>> {
    Journal::open(path).unwrap().take_records().iter().map(|record| record.to_vec()).collect()
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
    let (mut poll, waker) = waker();
    let writer = Journal::open(&folder.path().join("records")).unwrap().start(waker).unwrap();
    (1..=50).for_each(|t| writer.write(Ticket(t), Bytes::from_static(b"record"), true));
    let (mut done, mut events) = (Vec::new(), mio::Events::with_capacity(4));
    while done.len() < 50 {
        poll.poll(&mut events, None).unwrap();
        done.extend(std::iter::from_fn(|| writer.next_done().unwrap()).map(|ticket| ticket.0));
    }
    assert_eq!(done, (1..=50).collect::<Vec<_>>());
}

#[test]
fn a_half_written_end_is_taken_off_wherever_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    write(&path, 2, 40, 0);
    let whole = fs::read(&path).unwrap();
    for len in whole.len() / 2 + 1..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(found(&path), [[1; 40]], "cut at {len}");
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, whole.len() / 2);
    }
}

#[test]
fn an_end_that_a_crash_of_the_machine_left_as_zeroes_is_taken_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    write(&path, 2, 8, 0);
    let whole = fs::read(&path).unwrap();
    for (kept, zeroes) in [(48, 24), (48, 4_000), (48, 7), (30, 18), (30, 200), (47, 25), (24, 24), (0, 72)] {
        fs::write(&path, [&whole[..kept], &vec![0; zeroes]].concat()).unwrap();
        assert_eq!(found(&path).len(), kept / 24, "{kept} bytes, {zeroes} zeroes");
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, kept / 24 * 24);
    }
}

#[test]
fn a_damaged_record_in_the_middle_is_an_error_that_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    write(&path, 3, 40, 0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEAD + 40 + HEAD] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Journal::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("byte 56 is damaged") && error.contains("records") && error.contains("move it away"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_damaged_length_is_no_half_written_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    write(&path, 5, 40, 0);
    let whole = fs::read(&path).unwrap();
    for record in 0..5 {
        for bit in 0..32 {
            let (mut bytes, at) = (whole.clone(), record * 56);
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            let error = Journal::open(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("the record at byte {at} is damaged")), "bit {bit}: {error}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it is");
        }
    }
}

#[test]
fn a_file_of_a_size_that_cannot_be_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    File::create(&path).unwrap().set_len(3 << 30).unwrap();
    let error = Journal::open(&path).unwrap_err().to_string();
    assert!(error.contains("3221225472 bytes") && error.contains("move it away"), "{error}");
}

#[test]
fn a_record_that_would_be_refused_later_is_not_written() {
    let (mut poll, waker) = waker();
    let folder = tempfile::tempdir().unwrap();
    let writer = Journal::open(&folder.path().join("records")).unwrap().start(waker).unwrap();
    writer.write(Ticket(1), vec![0; RECORD_MAX + 1].into(), true);
    poll.poll(&mut mio::Events::with_capacity(4), None).unwrap();
    assert_eq!(writer.next_done().unwrap_err().kind(), ErrorKind::FileTooLarge);
}

#[test]
fn what_was_trimmed_is_cut_off_once_it_is_worth_it_and_writing_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    write(&path, 3, 100, 2);
    assert_eq!(found(&path).len(), 3, "little is left where it is");
    fs::remove_file(&path).unwrap();
    write(&path, 30, 100_000, 28);
    assert_eq!(found(&path), [vec![29; 100_000], vec![30; 100_000]]);
    write(&path, 1, 7, 0);
    assert_eq!(found(&path).len(), 3);
}

#[test]
fn what_is_no_file_is_refused() {
    let error = Journal::open(Path::new("/dev/full")).unwrap_err();
    assert_eq!(error.to_string(), "cannot use the record file /dev/full: not a regular file");
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_written_after_it() {
    let (mut poll, waker) = waker();
    let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let journal = Journal { path: "/dev/full".into(), file, index: VecDeque::new(), records: Vec::new() };
    let writer = journal.start(waker).unwrap();
    writer.write(Ticket(1), Bytes::from_static(b"record"), true);
    poll.poll(&mut mio::Events::with_capacity(4), None).unwrap();
    assert_eq!(writer.next_done().unwrap_err().kind(), ErrorKind::StorageFull);
    writer.write(Ticket(2), Bytes::from_static(b"record"), true);
    assert_eq!(writer.next_done().unwrap(), None);
}

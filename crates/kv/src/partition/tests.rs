use super::*;

fn apply(partition: &mut Partition, command: &Command<'_>) -> Outcome {
    Outcome::decode(&partition.apply(Position(1), &command.encode()).into()).unwrap()
}

fn put<'a>(condition: Condition<'a>, key: &'a str, value: &'a str) -> Command<'a> {
    let (key, value) = (key.as_bytes(), value.as_bytes());
    Command::Put { condition, returns_old: true, budget: u64::MAX, key, value }
}

fn text(text: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(text.as_bytes()))
}

/// Some hundred entries, some of them written twice or deleted.
fn filled() -> Partition {
    let mut partition = Partition::default();
    apply(&mut partition, &Command::Found { partitions: 4 });
    for n in 0..1_000 {
        apply(&mut partition, &put(Condition::Always, &format!("key {}", n % 700), &"x".repeat(n % 50)));
    }
    let gone: Vec<_> = (0..300).map(|n| format!("key {n}")).collect();
    let keys = gone.iter().map(|key| key.as_bytes()).collect();
    assert_eq!(apply(&mut partition, &Command::Delete { keys }), Outcome::Deleted(300));
    partition
}

fn written(partition: &Partition) -> Vec<u8> {
    let mut bytes = Vec::new();
    Partition::write(partition.snapshot(), &mut bytes).unwrap();
    bytes
}

/// Everything that can be asked of it.
fn contents(partition: &Partition) -> (Entries, Vec<Bytes>, u64, u16) {
    let all = partition.range(b"", None, usize::MAX);
    (all, partition.scan(0, usize::MAX, usize::MAX).0, partition.bytes(), partition.partitions)
}

#[test]
fn values_are_put_where_the_condition_is_met() {
    let mut partition = Partition::default();
    let mut put = |condition, value| apply(&mut partition, &put(condition, "tea", value));
    assert_eq!(put(Condition::Present, "black"), Outcome::Kept(None));
    assert_eq!(put(Condition::Equals(b""), "black"), Outcome::Kept(None), "no value is not the empty one");
    assert_eq!(put(Condition::Absent, "black"), Outcome::Put(None));
    assert_eq!(put(Condition::Absent, "green"), Outcome::Kept(text("black")));
    assert_eq!(put(Condition::Equals(b"green"), "white"), Outcome::Kept(text("black")));
    assert_eq!(put(Condition::Equals(b"black"), "green"), Outcome::Put(text("black")));
    assert_eq!(put(Condition::Present, ""), Outcome::Put(text("green")));
    assert_eq!(put(Condition::Equals(b""), "x"), Outcome::Put(text("")));
    assert_eq!(partition.value(b"tea"), Some(&b"x"[..]));
    let keys = vec![&b"tea"[..], b"tea", b"milk"];
    assert_eq!(apply(&mut partition, &Command::Delete { keys }), Outcome::Deleted(1));
    assert_eq!((partition.len(), partition.bytes(), partition.value(b"tea")), (0, 0, None));
}

#[test]
fn what_exceeds_the_budget_is_refused_and_what_frees_is_not() {
    let mut partition = Partition::default();
    let mut put = |key: &str, value: &str| {
        let (condition, budget) = (Condition::Always, 2 * ENTRY + 10);
        let (key, value) = (key.as_bytes(), value.as_bytes());
        apply(&mut partition, &Command::Put { condition, returns_old: false, budget, key, value })
    };
    assert_eq!(put("a", "1234"), Outcome::Put(None));
    assert_eq!(put("b", "12345"), Outcome::Full);
    assert_eq!(put("b", "1234"), Outcome::Put(None));
    assert_eq!(put("b", "12345"), Outcome::Full);
    assert_eq!(put("b", "1"), Outcome::Put(None));
    assert_eq!(put("", ""), Outcome::Full);
    assert_eq!(partition.bytes(), 2 * ENTRY + 7);
}

#[test]
fn the_first_says_how_many_partitions_there_are() {
    let mut partition = Partition::default();
    for partitions in [4, 5] {
        assert_eq!(apply(&mut partition, &Command::Found { partitions }), Outcome::Founded(4));
    }
}

#[test]
fn a_snapshot_restores_all_of_it_and_does_not_change_with_the_machine() {
    let (mut partition, mut other) = (filled(), Partition::default());
    let (before, snapshot) = (contents(&partition), partition.snapshot());
    apply(&mut partition, &put(Condition::Always, "key 500", "another"));
    apply(&mut partition, &Command::Delete { keys: vec![b"key 600"] });
    let mut bytes = Vec::new();
    Partition::write(snapshot, &mut bytes).unwrap();
    apply(&mut other, &put(Condition::Always, "what it had", "is gone"));
    other.restore(&mut &bytes[..]).unwrap();
    assert_eq!(contents(&other), before);
    assert_ne!(contents(&partition), before);
    // From there on both go on alike.
    for command in [put(Condition::Always, "key 500", "another"), Command::Delete { keys: vec![b"key 600"] }] {
        apply(&mut other, &command);
    }
    assert_eq!(contents(&other), contents(&partition));
    assert_eq!(written(&other), written(&partition), "byte for byte");
}

#[test]
fn what_is_no_snapshot_is_refused_and_changes_nothing() {
    let partition = filled();
    let bytes = written(&partition);
    let mut other = Partition::default();
    for len in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        assert!(other.restore(&mut &bytes[..len]).is_err(), "cut to {len}");
    }
    let longer = [&bytes[..], b"!"].concat();
    assert!(other.restore(&mut &longer[..]).unwrap_err().to_string().contains("not as many"));
    let mut huge = bytes.clone();
    huge[18..22].copy_from_slice(&[0xff; 4]);
    assert!(other.restore(&mut &huge[..]).unwrap_err().to_string().contains("longer than any"));
    huge[0] = b'X';
    assert!(other.restore(&mut &huge[..]).unwrap_err().to_string().contains("no snapshot"));
    assert_eq!(contents(&other), contents(&Partition::default()));
}

#[test]
fn garbage_in_the_order_changes_nothing() {
    let mut partition = filled();
    let before = contents(&partition);
    for garbage in [&b""[..], b"\x00", b"\x02\x01", b"\x03\xff\xff\xff\xff", &[0xff; 100]] {
        assert_eq!(partition.apply(Position(2), garbage), Outcome::Malformed.encode());
    }
    assert_eq!(contents(&partition), before);
}

#[test]
fn ranges_end_where_they_are_full_and_say_where_to_go_on() {
    let partition = filled();
    let mut pages = vec![partition.range(b"key 3", Some(b"key 5"), 70)];
    while let Some(more) = pages.last().unwrap().more_from.clone() {
        pages.push(partition.range(&more, Some(b"key 5"), 70));
    }
    let whole = partition.range(b"key 3", Some(b"key 5"), usize::MAX);
    assert_eq!(whole.entries.len(), 200);
    assert!(whole.entries.is_sorted() && whole.more_from.is_none());
    assert_eq!(pages.iter().map(|page| page.entries.len()).collect::<Vec<_>>(), [70, 70, 60]);
    assert_eq!(pages.into_iter().flat_map(|page| page.entries).collect::<Vec<_>>(), whole.entries);
    assert_eq!(partition.range(b"z", None, 10), Entries::default());
    assert_eq!(partition.range(b"key 4", Some(b"key 3"), 10), Entries::default());
}

#[test]
fn scans_meet_each_key_once_and_go_on_at_a_hash() {
    let partition = filled();
    let (mut from, mut all, mut pages) = (0, Vec::new(), 0);
    loop {
        let (keys, next) = partition.scan(from, 30, usize::MAX);
        all.extend(keys);
        pages += 1;
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(pages, 14);
    all.sort();
    let keys: Vec<_> = partition.range(b"", None, usize::MAX).entries.into_iter().map(|(key, _)| key).collect();
    assert_eq!(all, keys);
}

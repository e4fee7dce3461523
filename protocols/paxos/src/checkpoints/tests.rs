use super::*;

fn holder(text: &str) -> Holder {
    text.parse().unwrap()
}

/// A table, and how many instances there are.
#[derive(Default)]
struct Log {
    declared: Declared,
    at: u64,
    place: u64,
}

impl Log {
    fn of(place: u64) -> Self {
        Self { place, ..Self::default() }
    }

    /// What would become of it; it is taken, too.
    fn take(&mut self, statement: Statement) -> Verdict {
        let verdict = self.declared.judge(self.place, &statement);
        self.at += 1;
        let before = self.declared.clone();
        self.declared.take(self.at, self.place, statement);
        assert_eq!(before != self.declared, verdict == Verdict::Counts, "what does not count changes nothing");
        verdict
    }

    fn keep(&mut self, name: &str, epoch: u64, from: u64) -> Verdict {
        self.take(Statement::Declare { holder: holder(name), epoch, from: Some(from) })
    }

    fn withdraw(&mut self, name: &str) -> Verdict {
        let epoch = self.declared.epoch(&holder(name));
        self.take(Statement::Declare { holder: holder(name), epoch, from: None })
    }

    fn bind(&mut self, name: &str, replaces: u64, from: u64, copies: u16) -> Verdict {
        let (token, label) = (u128::from(self.at + 1), name.into());
        self.take(Statement::Bind(Bind { holder: holder(name), token, replaces, from, copies, label }))
    }

    /// The same where it counts: its epoch.
    fn bound(&mut self, name: &str, replaces: u64, from: u64, copies: u16) -> u64 {
        assert_eq!(self.bind(name, replaces, from, copies), Verdict::Counts, "{name}");
        assert_eq!(self.declared.epoch(&holder(name)), self.at);
        self.at
    }

    fn needed(&self) -> Option<u64> {
        self.declared.needed_by_copies()
    }
}

#[test]
fn a_majority_of_the_holders_of_each_program_says_what_is_needed() {
    //= X87 test
    let mut log = Log::of(1_000);
    let needed = |log: &Log| log.declared.needed_by_holders();
    assert_eq!(needed(&log), None);
    for (copy, from) in [("a", 10), ("b", 20), ("c", 30)] {
        log.keep(&format!("ledger/{copy}"), 0, from);
    }
    assert_eq!(needed(&log), Some(20), "two of three keep what is below 20");
    log.keep("bill", 0, 15);
    assert_eq!(needed(&log), Some(15));
    log.withdraw("bill");
    log.keep("ledger/d", 0, 5);
    assert_eq!(needed(&log), Some(10), "three of four");
    assert_eq!(log.keep("ledger/b", 0, 1), Verdict::Stands, "it does not move back");
    assert_eq!(log.withdraw("nobody"), Verdict::Stands);
    assert_eq!((needed(&log), log.needed()), (Some(10), None));
}

#[test]
fn there_is_a_limit_of_entries() {
    //= X87 test
    let mut log = Log::default();
    let full = Declared::MOST - 1;
    (0..full).for_each(|n| drop(log.keep(&n.to_string(), 0, 7)));
    let epoch = log.bound("store/1", 0, 1, 3);
    assert_eq!(log.declared.len(), Declared::MOST);
    assert_eq!(log.keep("more", 0, 7), Verdict::Full);
    assert_eq!(log.bind("other/1", 0, 7, 1), Verdict::Full);
    assert_eq!(log.bind("store/2", 0, 7, 3), Verdict::Full);
    assert_eq!(log.withdraw("store/3"), Verdict::Full, "a withdrawal of a seat that was never bound is an entry, too");
    assert_eq!(log.bound("store/1", epoch, 1, 3), log.at, "but not one that is there already");
    assert_eq!(log.keep("3", 0, 9), Verdict::Counts);
    assert_eq!(log.withdraw("3"), Verdict::Counts);
    assert_eq!(log.keep("more", 0, 9), Verdict::Counts);
}

#[test]
fn a_binding_counts_only_for_the_epoch_that_it_replaces() {
    //= X102 test
    let mut log = Log::of(50);
    let first = Statement::Bind(Bind {
        holder: holder("store/1"),
        token: 9,
        replaces: 0,
        from: 40,
        copies: 3,
        label: "one".into(),
    });
    assert_eq!(log.take(first.clone()), Verdict::Counts);
    let epoch = log.at;
    assert_eq!(log.take(first.clone()), Verdict::Bound(epoch), "the same one that comes twice is its own");
    assert_eq!(log.bind("store/1", 0, 41, 3), Verdict::Superseded { epoch, label: "one".into() });
    let second = log.bound("store/1", epoch, 7, 3);
    assert_eq!(log.take(first), Verdict::Superseded { epoch: second, label: "store/1".into() }, "it comes late");
    let program = log.declared.program(&holder("store/1")).unwrap();
    assert_eq!(program.seats()[&holder("store/1")].bound.as_ref().unwrap().from, 7, "it may keep less than before");
    assert_eq!(log.bind("other/1", 5, 1, 1), Verdict::Superseded { epoch: 0, label: "".into() });
    let third = log.bound("store/1", second, 500, 0);
    let program = log.declared.program(&holder("store/1")).unwrap();
    let seat = &program.seats()[&holder("store/1")];
    assert_eq!((seat.epoch, seat.bound.as_ref().unwrap().from), (third, 51), "nothing is kept beyond the end");
}

#[test]
fn the_first_binding_sets_the_number_of_copies() {
    //= X103 test
    let mut log = Log::of(99);
    log.keep("store/9", 0, 5);
    assert_eq!(log.bind("store/1", 0, 1, 0), Verdict::SeatsTaken(0), "a number is needed first");
    log.bound("store/1", 0, 1, 2);
    assert_eq!(log.declared.holders().len(), 0, "what plain holders of it declared is dropped");
    assert_eq!(log.keep("store/9", 0, 5), Verdict::Superseded { epoch: 0, label: "".into() });
    assert_eq!(log.bind("store/2", 0, 1, 3), Verdict::SeatsTaken(2));
    log.place = 200;
    log.bound("store/2", 0, 1, 0);
    assert_eq!(log.bind("store/3", 0, 1, 2), Verdict::SeatsTaken(2));
    let program = log.declared.program(&holder("store")).unwrap();
    assert_eq!((program.copies(), program.began(), program.bound()), (2, 100, 2));
}

#[test]
fn a_checkpoint_counts_under_the_present_epoch() {
    //= X104 test
    let mut log = Log::of(100);
    let old = log.bound("store/1", 0, 1, 1);
    assert_eq!(log.keep("store/1", old, 30), Verdict::Counts);
    assert_eq!(log.keep("store/1", old, 20), Verdict::Stands, "it does not move back");
    let new = log.bound("store/1", old, 10, 1);
    assert_eq!(log.keep("store/1", old, 60), Verdict::Superseded { epoch: new, label: "store/1".into() });
    assert_eq!(log.needed(), Some(101), "the history begins behind place 100");
    assert_eq!(log.keep("store/1", new, 5_000), Verdict::Counts);
    assert_eq!(log.keep("store/1", new, 6_000), Verdict::Stands, "nothing is kept beyond the end");
    assert_eq!(log.keep("other/1", 7, 60), Verdict::Superseded { epoch: 0, label: "".into() });
}

#[test]
fn what_a_majority_of_all_copies_lacks_is_needed() {
    //= X105 test
    let mut log = Log::of(9);
    let one = log.bound("store/1", 0, 1, 3);
    log.place = 1_000;
    log.keep("store/1", one, 500);
    assert_eq!(log.needed(), Some(10), "two copies that were never bound lack everything");
    let two = log.bound("store/2", 0, 300, 3);
    assert_eq!(log.needed(), Some(300), "two of three keep what is below 300");
    log.keep("store/2", two, 600);
    assert_eq!(log.needed(), Some(500));
    log.bound("store/3", 0, 1, 3);
    assert_eq!(log.needed(), Some(500));
    log.bound("store/2", two, 1, 3);
    assert_eq!(log.needed(), Some(10), "a copy that lost its disk lacks all of it");
    log.bound("bill/1", 0, 1, 1);
    assert_eq!(log.needed(), Some(10), "the program that lacks most decides");
    let mut even = Log::of(0);
    for n in 1..=4 {
        even.place = 10 * n;
        even.bound(&format!("four/{n}"), 0, 10 * n, 4);
    }
    assert_eq!(even.needed(), Some(20), "three of four");
}

#[test]
fn a_copy_that_is_withdrawn_is_waited_for_no_longer() {
    //= X106 test
    let mut log = Log::of(0);
    log.place = 900;
    let epochs = [1, 2, 3].map(|n| log.bound(&format!("store/{n}"), 0, 100 * n, 3));
    assert_eq!(log.needed(), Some(901), "the history begins there");
    log.place = 2_000;
    for (n, epoch) in (1..).zip(epochs) {
        log.keep(&format!("store/{n}"), epoch, 1_000 * n.min(2) - n);
    }
    assert_eq!(log.needed(), Some(1_997), "the second and the third");
    assert_eq!(log.withdraw("store/3"), Verdict::Counts);
    assert_eq!(log.needed(), Some(999), "both of the two that are left");
    assert_eq!(log.withdraw("store/3"), Verdict::Stands);
    let late = Statement::Declare { holder: holder("store/3"), epoch: epochs[2], from: Some(2_000) };
    assert!(matches!(log.take(late), Verdict::Superseded { .. }));
    assert_eq!(log.withdraw("store/1"), Verdict::Counts);
    assert_eq!(log.needed(), Some(1_998), "the one that is left");
    let gone = log.declared.epoch(&holder("store/3"));
    assert!(matches!(log.bind("store/3", epochs[2], 1, 3), Verdict::Superseded { .. }), "by a binding that comes late");
    log.bound("store/3", gone, 1, 3);
    assert_eq!(log.needed(), Some(901), "it is back, and both must keep it");
    log.bound("store/4", 0, 1, 3);
    let program = log.declared.program(&holder("store")).unwrap();
    assert_eq!((program.seats().len(), program.counted()), (3, 3), "a further copy has taken the seat of the first");
    assert_eq!(log.declared.epoch(&holder("store/1")), 0);
}

#[test]
fn a_withdrawal_that_comes_late_ends_no_later_binding() {
    //= X106 test
    let mut log = Log::of(0);
    let one = log.bound("store/1", 0, 1, 2);
    let withdrawal = Statement::Declare { holder: holder("store/1"), epoch: one, from: None };
    let two = log.bound("store/1", one, 1, 2);
    assert_eq!(log.take(withdrawal), Verdict::Superseded { epoch: two, label: "store/1".into() });
    assert_eq!(log.withdraw("store/2"), Verdict::Counts, "one that was never bound");
    assert_eq!(log.withdraw("store/2"), Verdict::Stands);
    assert_eq!(log.withdraw("store/3"), Verdict::Stands, "there is no third copy");
    assert_eq!(log.withdraw("store/1"), Verdict::Counts);
    assert_eq!((log.declared.len(), log.needed()), (0, None), "the last one has the program forgotten");
}

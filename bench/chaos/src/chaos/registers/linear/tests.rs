use super::*;
use consort_types::Rng;

/// Reads a history: a line an operation, on register 0, each with a caller of its own.
fn history(lines: &[&str]) -> Vec<Operation> {
    let whole = |(number, line): (usize, &&str)| format!("register 0 call {number}.1 {line}").parse().unwrap();
    lines.iter().enumerate().map(whole).collect()
}

fn verdict(lines: &[&str]) -> Result<(), Contradiction> {
    judge(&history(lines))
}

fn is_red(lines: &[&str]) -> bool {
    matches!(verdict(lines), Err(Contradiction::Unexplained { .. }))
}

#[test]
fn calls_one_after_the_other_must_follow_each_other() {
    let good = ["write 7 from 1 until 2 done", "read from 3 until 4 held 7", "set 7 8 from 5 until 6 held 7"];
    assert_eq!(verdict(&good), Ok(()));
    assert_eq!(verdict(&[&good[..], &["read from 7 until 8 held 8"]].concat()), Ok(()));
    assert!(is_red(&[&good[..], &["read from 7 until 8 held 7"]].concat()));
    assert_eq!(verdict(&["read from 1 until 2 held 0"]), Ok(()));
    assert_eq!(verdict(&[]), Ok(()));
}

#[test]
fn a_stale_read_is_found_and_explained() {
    let stale = ["write 7 from 1 until 2 done", "write 8 from 3 until 4 done", "read from 5 until 6 held 7"];
    let text = verdict(&stale).unwrap_err().to_string();
    let told =
        "not linearizable: nothing explains `register 0 call 2.1 read from 5 until 6 held 7`; before, there was 8";
    assert_eq!(text, told);
    let at_once = ["write 7 from 1 until 2 done", "write 8 from 3 until 9 done", "read from 5 until 6 held 7"];
    assert_eq!(verdict(&at_once), Ok(()), "the second write may come after the read");
}

#[test]
fn a_read_that_saw_the_new_value_forbids_the_old_one_to_later_reads() {
    let both = ["write 7 from 1 until 20 done", "read from 2 until 3 held 7", "read from 4 until 5 held 0"];
    assert!(is_red(&both));
    assert_eq!(verdict(&[both[0], "read from 2 until 3 held 0", "read from 4 until 5 held 7"]), Ok(()));
}

#[test]
fn a_lost_write_is_found() {
    assert!(is_red(&["write 7 from 1 until 2 done", "read from 3 until 4 held 0"]));
    let lost_between = ["write 7 from 1 until 2 done", "set 0 8 from 3 until 4 held 0"];
    assert!(is_red(&lost_between));
}

#[test]
fn of_two_conditional_writes_from_one_value_only_one_succeeds() {
    assert!(is_red(&["set 0 7 from 1 until 9 held 0", "set 0 8 from 1 until 9 held 0"]));
    assert_eq!(verdict(&["set 0 7 from 1 until 9 held 0", "set 0 8 from 1 until 9 held 7"]), Ok(()));
    assert!(is_red(&["set 0 7 from 1 until 9 held 8", "set 0 8 from 1 until 9 held 7"]), "each saw the other's");
}

#[test]
fn what_was_never_written_is_never_read() {
    assert!(is_red(&["write 7 from 1 until 2 done", "read from 3 until 4 held 9"]));
    assert!(is_red(&["set 5 7 from 1 until 2 held 0", "read from 3 until 4 held 7"]), "it failed");
}

#[test]
fn an_unknown_outcome_may_have_come_at_any_time_or_never() {
    let unknown = "write 7 from 1 unknown";
    for seen in ["read from 50 until 60 held 0", "read from 50 until 60 held 7"] {
        assert_eq!(verdict(&[unknown, seen]), Ok(()), "{seen}");
    }
    let late = ["read from 2 until 3 held 0", "write 8 from 4 until 5 done", "read from 6 until 7 held 7"];
    assert_eq!(verdict(&[&[unknown][..], &late].concat()), Ok(()), "after another write");
    let twice = ["read from 2 until 3 held 7", "write 8 from 4 until 5 done", "read from 6 until 7 held 7"];
    assert!(is_red(&[&[unknown][..], &twice].concat()), "once only");
    assert!(is_red(&["write 7 from 9 unknown", "read from 1 until 2 held 7"]), "not before it was called");
}

#[test]
fn unknown_conditional_writes_that_were_seen_had_seen_what_they_expected() {
    let chain = ["set 0 7 from 1 unknown", "set 7 8 from 1 unknown", "read from 5 until 6 held 8"];
    assert_eq!(verdict(&chain), Ok(()));
    assert!(is_red(&[&chain[..], &["read from 7 until 8 held 7"]].concat()));
    assert!(is_red(&["set 5 8 from 1 unknown", "read from 5 until 6 held 8"]), "5 was never there");
    assert_eq!(verdict(&["set 5 8 from 1 unknown", "read from 5 until 6 held 0", "read from 1 unknown"]), Ok(()));
}

#[test]
fn registers_are_judged_each_by_itself() {
    let one: Operation = "register 0 call 1.1 write 7 from 1 until 2 done".parse().unwrap();
    let other: Operation = "register 1 call 1.2 read from 3 until 4 held 0".parse().unwrap();
    assert_eq!(judge(&[one, other]), Ok(()));
    let same: Operation = "register 0 call 1.2 read from 3 until 4 held 0".parse().unwrap();
    assert!(judge(&[one, other, same]).is_err());
}

#[test]
fn values_that_are_written_twice_allow_no_verdict() {
    assert_eq!(verdict(&["write 7 from 1 unknown", "set 0 7 from 1 unknown"]), Err(Contradiction::Ambiguous(7)));
    assert_eq!(verdict(&["write 0 from 1 unknown"]), Err(Contradiction::Ambiguous(0)));
}

#[test]
fn too_many_calls_at_once_allow_no_verdict() {
    let writes: Vec<_> = (1..=24).map(|value| format!("write {value} from 1 until 9 done")).collect();
    let mut lines: Vec<_> = writes.iter().map(String::as_str).collect();
    lines.push("read from 10 until 11 held 99");
    assert!(matches!(verdict(&lines), Err(Contradiction::Undecided(_))));
}

/// A history of a real register, with callers at the same time, and unknown outcomes.
fn made(seed: u64, calls: u64) -> Vec<Operation> {
    let mut rng = Rng::new(seed);
    let (mut held, mut free, mut operations) = (0, [0; 6], Vec::new());
    for number in 1..=calls {
        let caller = (0..6).min_by_key(|caller| free[*caller]).unwrap();
        let [from, effect, until] = [3, 7, 11].map(|at| 100 * number + rng.below(300) * at);
        let from = from.max(free[caller]);
        let (effect, until) = (effect.max(from), until.max(effect).max(from) + 1);
        free[caller] = until + 1;
        let request = match rng.below(3) {
            0 => Request::Read,
            1 => Request::Write(number),
            _ => Request::CompareAndSet { expected: held, new: number },
        };
        operations.push((effect, caller, number, request, from, until));
    }
    operations.sort_unstable_by_key(|(effect, ..)| *effect);
    let take = |(_, caller, number, request, from, until): (u64, usize, u64, Request, u64, u64)| {
        // What a conditional write expects is what is there when it takes effect, mostly.
        let request = match request {
            Request::CompareAndSet { new, .. } if !new.is_multiple_of(5) => {
                Request::CompareAndSet { expected: held, new }
            }
            other => other,
        };
        let call = super::super::operation::Call { caller: caller as u64, number, key: 0, request };
        let answer = request.answer(held);
        held = request.applied_to(held);
        let outcome = (!number.is_multiple_of(7)).then_some((Instant(until), answer));
        Operation { call, from: Instant(from), outcome }
    };
    operations.into_iter().map(take).collect()
}

#[test]
fn what_a_real_register_does_is_always_taken() {
    for seed in 0..200 {
        assert_eq!(judge(&made(seed, 100)), Ok(()), "seed {seed}");
    }
    assert_eq!(judge(&made(1, 20_000)), Ok(()), "also if it is long");
}

#[test]
fn most_histories_with_one_answer_changed_are_not_taken() {
    let mut red = 0;
    for seed in 0..200 {
        let mut operations = made(seed, 60);
        let answers: Vec<_> = operations
            .iter()
            .filter_map(|operation| match operation.outcome? {
                (_, Answer::Held(value)) => Some(value),
                _ => None,
            })
            .collect();
        let other = answers[answers.len() / 3];
        let changed = operations.iter_mut().rev().find_map(|operation| match &mut operation.outcome {
            Some((_, Answer::Held(value))) => Some(value),
            _ => None,
        });
        *changed.unwrap() = other;
        red += usize::from(judge(&operations).is_err());
    }
    assert!(red > 190, "{red} of 200");
}

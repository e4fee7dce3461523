use super::*;
use operation::Request;

fn history(lines: &[&str]) -> History {
    let history = History::default();
    lines.iter().for_each(|line| history.add(line.parse().unwrap()));
    history
}

#[test]
fn registers_apply_calls_in_order_and_answer_with_what_was_there() {
    let mut registers = Registers::default();
    let mut apply = |request| registers.apply(&Call { caller: 0, number: 1, key: 2, request });
    assert_eq!(apply(Request::Write(5)), Answer::Done);
    assert_eq!(apply(Request::CompareAndSet { expected: 4, new: 6 }), Answer::Held(5));
    assert_eq!(apply(Request::CompareAndSet { expected: 5, new: 6 }), Answer::Held(5));
    assert_eq!(apply(Request::Read), Answer::Held(6));
    assert_eq!(registers, Registers([0, 0, 6, 0]));
}

#[test]
fn a_kept_history_has_the_same_verdict_and_one_that_was_doctored_another() {
    let directory = tempfile::tempdir().unwrap();
    let good = ["register 1 call 0.1 write 7 from 1 until 2 done", "register 1 call 1.1 read from 3 until 4 held 7"];
    let whole = history(&[&good[..], &["register 1 call 0.2 set 7 8 from 5 unknown"]].concat());
    whole.write(directory.path()).unwrap();
    assert_eq!(whole.judge(), Ok(Work { calls: 3, unknown: 1 }));
    assert_eq!(again(directory.path()).unwrap(), Ok(Work { calls: 3, unknown: 1 }));
    let kept = std::fs::read_to_string(file(directory.path())).unwrap();
    std::fs::write(file(directory.path()), kept.replace("held 7", "held 0")).unwrap();
    assert!(again(directory.path()).unwrap().unwrap_err().contains("`register 1 call 1.1 read from 3 until 4 held 0`"));
    std::fs::write(file(directory.path()), "what\n").unwrap();
    assert_eq!(again(directory.path()).unwrap_err().to_string(), "line 1: no operation: \"what\"");
}

#[test]
fn what_a_caller_saw_itself_comes_first() {
    let history = history(&["register 1 call 0.1 read from 1 until 2 held 9"]);
    history.broken("caller 1: it was begun anew".into());
    assert_eq!(history.judge().unwrap_err(), "caller 1: it was begun anew");
}

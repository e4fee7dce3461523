use super::*;
use consort_sim::trace::witness::SessionEnding;

/// Two callers, whose calls stand in one list.
struct World {
    board: Board,
    history: History,
    group: GroupName,
}

impl World {
    fn new() -> Self {
        let board = Board::new(2, 0, 0);
        board.talk.store(true, Ordering::Relaxed);
        Self { board, history: History::default(), group: GroupName::new(b"registers").unwrap() }
    }

    fn caller(&self, number: u64, reads: Reads) -> Caller<'_> {
        let (board, history, group) = (&self.board, &self.history, &self.group);
        Caller { node: 0, number, directory: Path::new("/"), group, board, history, reads, seed: number }
    }
}

/// A caller that follows the order.
fn replica<'a>(caller: &'a Caller<'a>) -> Replica<'a> {
    Replica { reading: Reading::Follows, ..Replica::new(caller) }
}

fn call(replica: &mut Replica<'_>) -> Option<Call> {
    replica.next = Instant::ZERO;
    replica.next_call()
}

/// The verdict after the first has called until each of the registers was written, while the second is not told of it
/// before it has itself called.
fn verdict(reads: Reads) -> Result<super::super::Work, String> {
    let world = World::new();
    let callers = [world.caller(0, reads), world.caller(1, reads)];
    let [mut first, mut second] = [replica(&callers[0]), replica(&callers[1])];
    let mut order = Vec::new();
    while first.registers.0.contains(&0) {
        if let Some(call) = call(&mut first) {
            order.push(call);
            first.on_call(&call);
        }
    }
    second.rest = Rest::Reads(0, Instant(u64::MAX));
    while second.rest != Rest::Done {
        order.extend(second.next_call());
        order.drain(..).for_each(|call| second.on_call(&call));
    }
    world.history.judge()
}

#[test]
fn reads_that_have_a_place_in_the_order_are_linearizable_and_reads_without_are_not() {
    let work = verdict(Reads::Ordered).unwrap();
    assert!(work.calls > 2 * KEYS && work.unknown == 0, "{work:?}");
    let red = verdict(Reads::Local).unwrap_err();
    assert!(red.starts_with("not linearizable: nothing explains `register 0 call 1.1 read "), "{red}");
}

#[test]
fn a_call_whose_daemon_ends_has_no_outcome_and_may_still_stand_in_the_order() {
    let world = World::new();
    let caller = world.caller(0, Reads::Ordered);
    let mut replica = replica(&caller);
    let lost = std::iter::repeat_with(|| call(&mut replica)).find_map(|call| call).unwrap();
    world.board.ends(0, SessionEnding::Crashed);
    replica.gives_up();
    assert_eq!(replica.called, None);
    replica.on_call(&lost);
    assert_eq!(world.history.judge(), Ok(super::super::Work { calls: 1, unknown: 1 }));
}

#[test]
fn a_gap_is_closed_by_a_copy_from_behind_it_only() {
    let world = World::new();
    let caller = world.caller(0, Reads::Ordered);
    let mut replica = replica(&caller);
    replica.on_status(&ReadingStatus::Lost { from: 3, to: 9 });
    assert_eq!((replica.reading, replica.next_call()), (Reading::Gap(9), None));
    let copy = |position, value| {
        let at = Bookmark::new(1, consort::Place::at(position));
        world.history.keep(Copied { at, registers: Registers([value; KEYS]) });
    };
    assert!(!replica.is_restored(9));
    copy(9, 5);
    assert!(!replica.is_restored(9), "position 9 is missing in it");
    copy(10, 6);
    copy(4, 7);
    assert!(replica.is_restored(9));
    assert_eq!(replica.registers, Registers([6; KEYS]));
}

#[test]
fn another_order_and_words_that_are_no_calls_are_noticed() {
    let world = World::new();
    let caller = world.caller(0, Reads::Ordered);
    let end = consort::ReadingEnd {
        cause: ReadingEndCause::OtherOrder,
        oldest: 1,
        newest: 2,
        text: "it was begun anew".into(),
        common: None,
    };
    replica(&caller).on_status(&ReadingStatus::Ended(end));
    assert_eq!(world.history.judge().unwrap_err(), "caller 0: it was begun anew");
}

#[test]
fn a_last_call_that_is_not_answered_in_time_is_noticed() {
    let world = World::new();
    let caller = world.caller(3, Reads::Ordered);
    let mut replica = replica(&caller);
    replica.look_at_the_clock();
    assert_eq!(replica.rest, Rest::NotYet);
    world.board.last_call.store(true, Ordering::Relaxed);
    replica.look_at_the_clock();
    assert!(matches!(replica.rest, Rest::Reads(0, _)) && world.history.judge().is_ok());
    replica.rest = Rest::Reads(0, Instant::ZERO);
    replica.look_at_the_clock();
    assert_eq!(world.history.judge().unwrap_err(), "caller 3 at n1: no answer 10s after all was at rest");
    assert!(replica.is_done());
}

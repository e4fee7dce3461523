//! Readers that outlive their daemons.
use crate::checkers::{Bounds, judge};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{
    InstallRecord, NumberedRecord, NumberedStep, Occurrence, ResumedRecord, ResumedStep, Trace, TraceEvent,
};
use ResumedStep::{Asked, Away, Began, CaughtUp, Gap, Given, InView, Message, Parted};
use consort_session::Place;
use consort_types::{Duration, Instant, MemberId, NodeId, ViewId};

const NOBODY: u64 = u64::MAX;

/// What happens to nodes 0 and 1, and to one reader.
#[derive(Default)]
struct Script(Trace);

fn view(number: u64) -> ViewId {
    ViewId { number, representative: MemberId::new(0, 1) }
}

fn incarnation(node: u16) -> ProcessIncarnation {
    ProcessIncarnation { node: NodeId(node), count: 0 }
}

impl Script {
    /// Both nodes are in view 5, in which 1, 2 and 3 stand.
    fn new() -> Self {
        let mut script = Self::default();
        for node in [0, 1] {
            script.note(node, Occurrence::Start { late: false });
            script.installs(node, 5, false, &[0, 1]);
            (1..=3).for_each(|at| script.given(node, 5, at));
        }
        script
    }

    fn note(&mut self, node: u16, what: Occurrence) -> &mut Self {
        let at = Instant(1_000_000 * (self.0.events.len() as u64 + 1));
        self.0.events.push(TraceEvent { at, process: Process::of(incarnation(node), 0), what });
        self
    }

    fn installs(&mut self, node: u16, number: u64, transitional: bool, members: &[u16]) -> &mut Self {
        let members: Vec<_> = members.iter().map(|node| incarnation(*node)).collect();
        let record =
            InstallRecord { id: view(number), transitional, together: members.clone(), members, pending: false };
        self.note(node, Occurrence::Network(Box::new(record)))
    }

    fn given(&mut self, node: u16, number: u64, at: u64) {
        self.given_of(node, 1, number, at);
    }

    fn given_of(&mut self, node: u16, groups: u8, number: u64, at: u64) {
        let record = ResumedRecord { groups, sum: 100 * number + at, len: 20, ..in_view(Given, number, at) };
        self.note(node, Occurrence::Resumed(Box::new(record)));
    }

    fn step(&mut self, node: u16, step: ResumedRecord) -> &mut Self {
        self.note(node, Occurrence::Resumed(Box::new(step)))
    }

    /// The reader reads from the start at a node, up to this place.
    fn reads(&mut self, node: u16, up_to: u64) -> &mut Self {
        let asked = ResumedRecord { groups: 1, ..ResumedRecord::of(Asked) };
        self.step(node, asked).step(node, in_view(Began, 0, 1)).step(node, in_view(InView, 5, 0));
        for at in 1..=up_to {
            self.read(node, 5, at);
        }
        self
    }

    fn read(&mut self, node: u16, number: u64, at: u64) -> &mut Self {
        let (to, sum) = (Place::at(at + 1), 100 * number + at);
        self.step(node, ResumedRecord { groups: 1, to, sum, len: 20, flag: true, ..in_view(Message, number, at) })
    }

    /// It leaves, and goes on there from this place; the line of its former daemon is as named.
    fn asks(&mut self, node: u16, at: u64, line: u64) -> &mut Self {
        let asked = ResumedRecord { groups: 1, flag: true, to: Place::at(line), ..in_view(Asked, 5, at) };
        self.step(node, ResumedRecord::of(Away)).step(node, asked)
    }

    fn goes_on(&mut self, node: u16, at: u64) -> &mut Self {
        self.asks(node, at, NOBODY).step(node, in_view(Began, 0, at)).step(node, in_view(InView, 5, 0))
    }

    fn gap(&mut self, node: u16, from: u64, to: u64) -> &mut Self {
        self.step(node, ResumedRecord { to_view: view(5), to: Place::at(to), ..in_view(Gap, 5, from) })
    }

    /// What the checkers say, where so much is kept for so long.
    fn broken_where(&mut self, retained: Option<(u64, Duration)>) -> Vec<&'static str> {
        let mut trace = self.0.clone();
        let at = Instant(1_000_000 * (trace.events.len() as u64 + 1) + 5_000_000_000);
        trace.events.push(TraceEvent { at, process: Process::WORLD, what: Occurrence::Quiet });
        let bounds = Bounds { retained, ..Bounds::default() };
        judge(&trace, bounds).iter().map(|broken| broken.rule.id).filter(|id| *id == "RS").collect()
    }

    fn broken(&mut self) -> Vec<&'static str> {
        self.broken_where(None)
    }
}

fn in_view(step: ResumedStep, number: u64, at: u64) -> ResumedRecord {
    let view = if number == 0 { ViewId::default() } else { view(number) };
    ResumedRecord { view, at: Place::at(at), ..ResumedRecord::of(step) }
}

#[test]
fn who_asks_is_answered_unless_the_daemon_has_yet_to_come_to_a_view() {
    let asks =
        |script: &mut Script| script.note(2, Occurrence::Start { late: false }).reads(0, 2).asks(2, 3, NOBODY).broken();
    assert_eq!(asks(&mut Script::new()), [""; 0], "its disk is slow");
    assert_eq!(asks(Script::new().installs(2, 6, false, &[2])), ["RS"]);
}

#[test]
fn each_message_is_read_once_in_order_and_none_is_left_out() {
    assert_eq!(Script::new().reads(0, 3).broken(), [""; 0]);
    assert_eq!(Script::new().reads(0, 2).broken(), ["RS"], "3 was never told");
    assert_eq!(Script::new().reads(0, 1).read(0, 5, 3).broken(), ["RS"], "2 is skipped");
    assert_eq!(Script::new().reads(0, 3).read(0, 5, 3).broken(), ["RS"], "3 comes twice");
    let mut skipped = Script::new();
    skipped.reads(0, 1).step(0, in_view(CaughtUp, 5, 4));
    assert_eq!(skipped.broken(), ["RS"], "it is said to have caught up");
    let mut other = Script::new();
    other.reads(0, 3).step(0, ResumedRecord { groups: 2, ..in_view(Message, 5, 4) });
    assert_eq!(other.broken()[..1], ["RS"], "that is for other groups");
}

#[test]
fn it_goes_on_where_a_daemon_has_what_it_read_and_nothing_beside() {
    assert_eq!(Script::new().reads(0, 2).goes_on(1, 3).read(1, 5, 3).broken(), [""; 0]);
    assert_eq!(Script::new().reads(0, 2).goes_on(1, 2).read(1, 5, 2).broken()[..1], ["RS"], "2 comes again");
    let mut ahead = Script::new();
    ahead.given(0, 5, 4);
    ahead.reads(0, 4).goes_on(1, 5);
    assert_eq!(ahead.broken(), ["RS"], "node 1 never had 4");
    let mut beside = Script::new();
    beside.given(1, 5, 4);
    beside.reads(0, 3).goes_on(1, 5);
    assert_eq!(beside.broken(), ["RS"], "node 1 had 4, and it was not told");
}

#[test]
fn a_member_is_given_what_names_a_group_from_where_it_is_in_that_group() {
    let both = |missed: u8| {
        let mut script = Script::new();
        script.given_of(0, 1, 5, 4);
        script.given_of(0, missed, 5, 5);
        [(1, 4), (1, 6), (2, 7)].into_iter().for_each(|(groups, at)| script.given_of(1, groups, 5, at));
        let read = |at: u64, groups: u8| {
            let told = in_view(Message, 5, at);
            ResumedRecord { groups, to: Place::at(at + 1), sum: 500 + at, len: 20, flag: true, ..told }
        };
        let ask = |at| ResumedRecord { groups: 3, flag: at > 0, to: Place::at(NOBODY), ..in_view(Asked, 5, at) };
        let start = ResumedRecord { view: ViewId::default(), ..ask(0) };
        script.step(0, start).step(0, in_view(Began, 0, 1)).step(0, in_view(InView, 5, 0));
        for (at, groups) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, missed)] {
            script.step(0, read(at, groups));
        }
        script.step(0, ResumedRecord::of(Away)).step(1, ask(6)).step(1, in_view(Began, 0, 6));
        script.step(1, in_view(InView, 5, 0)).step(1, read(6, 1)).step(1, read(7, 2)).broken()
    };
    assert_eq!(both(2), [""; 0], "node 1's member joined the second group later than the first");
    assert_eq!(both(1), ["RS"], "it was in the first group");
    assert_eq!(both(3), ["RS"], "it was in one of them");
}

#[test]
fn a_gap_begins_where_the_reader_is_and_names_nothing_that_is_kept() {
    assert_eq!(Script::new().reads(0, 1).gap(0, 2, 4).broken(), [""; 0]);
    assert_eq!(Script::new().reads(0, 2).gap(0, 2, 4).broken()[..1], ["RS"], "2 was read");
    assert_eq!(Script::new().reads(0, 1).gap(0, 2, 3).broken(), ["RS"], "3 is not named");
    assert_eq!(Script::new().reads(0, 1).gap(0, 3, 2).broken()[..1], ["RS"], "it ends before it begins");
    let minute = Some((1 << 20, Duration::from_secs(60)));
    assert_eq!(Script::new().reads(0, 3).broken_where(minute), [""; 0]);
    let mut needless = Script::new();
    needless.reads(0, 3).given(0, 5, 4);
    assert_eq!(needless.gap(0, 4, 5).broken_where(minute), ["RS"], "4 came while it was read, and is young");
    assert_eq!(needless.broken_where(Some((600, Duration::from_secs(60)))), [""; 0], "there is no room for it");
}

#[test]
fn what_is_read_is_not_too_old() {
    let mut late = Script::new();
    late.reads(0, 0).0.events.last_mut().unwrap().at = Instant(9_000_000_000);
    let step = ResumedRecord { groups: 1, to: Place::at(2), sum: 501, len: 20, flag: true, ..in_view(Message, 5, 1) };
    let what = Occurrence::Resumed(Box::new(step));
    late.0.events.push(TraceEvent { at: Instant(9_000_000_001), process: Process::of(incarnation(0), 0), what });
    assert_eq!(late.broken_where(Some((1 << 20, Duration::from_secs(1))))[..1], ["RS"]);
}

#[test]
fn histories_part_only_where_they_do() {
    let parted = |at: u64, line: u64, up_to: u64| {
        let mut script = Script::new();
        script.given(0, 5, 4);
        script.installs(1, 5, true, &[1]).installs(1, 6, false, &[1]);
        let common = ResumedRecord { to_view: view(5), to: Place::at(up_to), flag: true, ..ResumedRecord::of(Parted) };
        script.reads(0, at - 1).asks(1, at, line).step(1, common).asks(1, up_to, NOBODY);
        script.step(1, in_view(Began, 0, up_to)).step(1, in_view(InView, 5, 0)).step(1, in_view(InView, 6, 4)).broken()
    };
    assert_eq!(parted(5, NOBODY, 4), [""; 0], "node 1 closed the view without 4");
    assert_eq!(parted(5, NOBODY, 5), ["RS"], "4 is not in common");
    assert_eq!(parted(3, NOBODY, 3), ["RS"], "it was before both lines");
}

#[test]
fn who_asks_is_answered_while_its_daemon_lives() {
    assert_eq!(Script::new().reads(0, 2).asks(1, 3, NOBODY).broken(), ["RS"]);
    assert_eq!(Script::new().reads(0, 2).asks(1, 3, NOBODY).note(1, Occurrence::Crash).broken(), [""; 0]);
}

#[test]
fn what_the_history_that_counts_has_more_is_told_as_a_gap() {
    //= E29 test
    let counts = |script: &mut Script, node, number| {
        let table = NumberedRecord { view: number, number, flag: true, ..NumberedRecord::of(NumberedStep::Table) };
        script.note(node, Occurrence::Numbered(table));
    };
    // Node 0 is cut off while view 6 of node 1 counts; both meet in view 7.
    let met = |missed: bool| {
        let mut script = Script::new();
        [0, 1].iter().for_each(|node| counts(&mut script, *node, 5));
        script.reads(0, 3).installs(1, 6, false, &[1]);
        counts(&mut script, 1, 6);
        if missed {
            script.given(1, 6, 1);
        }
        for node in [0, 1] {
            script.installs(node, 7, false, &[0, 1]);
        }
        script
    };
    let gap = ResumedRecord { to_view: view(7), ..in_view(Gap, 5, 4) };
    assert_eq!(met(true).step(0, in_view(InView, 7, 0)).broken(), ["RS"], "6 is missing");
    assert_eq!(met(true).step(0, gap).broken(), [""; 0]);
    assert_eq!(met(false).step(0, in_view(InView, 7, 0)).broken(), [""; 0], "nothing was ordered in 6");
    // View 7 ends before they have said what they have, and node 0 is alone again in view 8.
    let apart = || {
        let mut script = met(true);
        script.installs(0, 8, false, &[0]);
        script
    };
    assert_eq!(apart().step(0, in_view(InView, 8, 0)).broken(), [""; 0], "it still has its own history");
    // In view 9 they do say it: node 1 comes into that from 7, which counted for nobody.
    let again = |step| {
        let mut script = apart();
        for node in [0, 1] {
            script.installs(node, 9, false, &[0, 1]);
        }
        script.step(0, in_view(InView, 8, 0)).step(0, step).broken()
    };
    assert_eq!(again(in_view(InView, 9, 0)), ["RS"], "6 is missing");
    assert_eq!(again(ResumedRecord { to_view: view(9), ..in_view(Gap, 8, 0) }), [""; 0]);
}

//! Readers that go from daemon to daemon while the network parts, merges and crashes: drawn by seeds, against the whole
//! histories of all daemons.
use super::daemon;
use crate::{Histories, Resumption, ViewClosing, ViewPlace, ViewTrail};
use consort_types::{MemberId, Position, Rng, ViewId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const DAEMONS: u16 = 3;

/// What a daemon has told, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    View { id: ViewId, line: Position },
    Closing(ViewClosing),
    Message { view: ViewId, at: u64, id: u64 },
}

/// One daemon in one incarnation.
#[derive(Debug, Default)]
struct Daemon {
    incarnation: u64,
    view: Option<ViewId>,
    got: BTreeSet<u64>,
    delivered: u64,
    told: Vec<Item>,
    /// What it has yet to do to go on: messages while closing, then the next view.
    rest: VecDeque<(Option<u64>, ViewId, Vec<MemberId>)>,
    histories: Histories,
    /// The first of what it has told that it retains.
    kept: usize,
}

fn fresh() -> Daemon {
    Daemon { histories: histories(), ..Daemon::default() }
}

/// Those of a daemon. `cargo xtask mutants` asks which test notices a broken rule.
fn histories() -> Histories {
    #[allow(unused_mut)]
    let mut histories = Histories::new();
    #[cfg(feature = "mutants")]
    if let Some(mutant) = crate::tests::mutant() {
        histories.mutate(mutant);
    }
    histories
}

/// A client that reads, and what it has read since it began, or was told of a gap or a parting.
#[derive(Debug)]
struct Reader {
    daemon: usize,
    incarnation: u64,
    next: usize,
    trail: ViewTrail,
    at: u64,
    /// Where what it has of its view begins.
    since: u64,
    has: Vec<(ViewId, u64, u64)>,
    /// What it has ever read, to judge what it is told of views in common.
    ever: Vec<(ViewId, u64, u64)>,
    visited: BTreeSet<ViewId>,
}

/// How the rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Not,
    /// Whoever knows the view goes on.
    KnownGoes,
    /// A reader does not say how its daemon closed the view.
    ClosingUntold,
    /// A reader that goes on keeps what its former daemon said of the closing.
    ClosingKept,
}

struct Model {
    rng: Rng,
    daemons: Vec<Daemon>,
    /// The messages of each view in their order.
    views: BTreeMap<ViewId, Vec<u64>>,
    messages: u64,
    readers: Vec<Reader>,
    broken: Broken,
    /// How often each answer was given: goes before the line, behind it, waits, parted in the view, parted before it, gap.
    seen: [u64; 6],
}

impl Model {
    fn new(seed: u64, broken: Broken) -> Self {
        let daemons = (0..DAEMONS).map(|_| fresh()).collect();
        let (rng, views) = (Rng::new(seed), BTreeMap::new());
        let mut model = Self { rng, daemons, views, messages: 0, readers: Vec::new(), broken, seen: [0; 6] };
        model.form((0..usize::from(DAEMONS)).collect());
        for at in 0..usize::from(DAEMONS) {
            model.go_on(at);
        }
        for at in 0..3 {
            let reader = model.begin(at % usize::from(DAEMONS));
            model.readers.push(reader);
        }
        model
    }

    fn member(&self, at: usize) -> MemberId {
        let MemberId { node, incarnation } = daemon(at as u16);
        MemberId::new(node.0, incarnation.0 + 1_000 * self.daemons[at].incarnation)
    }

    fn pick(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.pick(self.daemons.len());
        match self.rng.below(40) {
            0..=9 => self.send(at),
            10..=17 => self.hear(at),
            18..=23 => self.deliver(at),
            24..=26 => {
                let some: Vec<_> = (0..self.daemons.len()).filter(|_| self.rng.chance(0.7)).collect();
                self.form(some);
            }
            27..=31 => self.go_on(at),
            32 if self.rng.chance(0.3) => {
                self.daemons[at] = Daemon { incarnation: self.daemons[at].incarnation + 1, ..fresh() };
            }
            33 => {
                let Daemon { told, kept, .. } = &self.daemons[at];
                let (kept, len) = (*kept as u64, told.len() as u64);
                self.daemons[at].kept = self.rng.between(kept, len) as usize;
            }
            34..=37 => {
                let reader = self.pick(self.readers.len());
                for _ in 0..=self.rng.below(4) {
                    self.read(reader);
                }
            }
            _ => {
                let reader = self.pick(self.readers.len());
                return self.turn_to(reader, at);
            }
        }
        Ok(())
    }

    fn send(&mut self, at: usize) {
        let daemon = &mut self.daemons[at];
        if let Some(view) = daemon.view.filter(|_| daemon.rest.is_empty()) {
            self.messages += 1;
            let messages = self.views.get_mut(&view).unwrap();
            messages.push(self.messages);
            daemon.got.insert(messages.len() as u64);
        }
    }

    fn hear(&mut self, at: usize) {
        if let Some(view) = self.daemons[at].view.filter(|_| self.daemons[at].rest.is_empty()) {
            let sent = self.views[&view].len() as u64;
            let heard = self.rng.between(1, sent.max(1));
            if heard <= sent {
                self.daemons[at].got.insert(heard);
            }
        }
    }

    fn deliver(&mut self, at: usize) {
        let Daemon { view, got, delivered, rest, .. } = &self.daemons[at];
        if let Some(view) = view.filter(|_| rest.is_empty() && got.contains(&(delivered + 1))) {
            let place = delivered + 1;
            self.tell(at, view, place);
        }
    }

    fn tell(&mut self, at: usize, view: ViewId, place: u64) {
        let id = self.views[&view][place as usize - 1];
        let daemon = &mut self.daemons[at];
        daemon.delivered = place;
        daemon.histories.deliver(Position(place));
        daemon.told.push(Item::Message { view, at: place, id });
    }

    /// Some agree on a view. Those of them that come from one view deliver its rest alike; not all of them get so far.
    fn form(&mut self, some: Vec<usize>) {
        let some: Vec<_> = some.into_iter().filter(|at| self.daemons[*at].rest.is_empty()).collect();
        let Some(first) = some.first().copied() else { return };
        let id = ViewId { number: self.views.len() as u64 + 1, representative: self.member(first) };
        self.views.insert(id, Vec::new());
        let before: BTreeSet<_> = some.iter().map(|at| self.daemons[*at].view).collect();
        for before in before {
            let along: Vec<_> = match before {
                Some(_) => some.iter().copied().filter(|at| self.daemons[*at].view == before).collect(),
                None => Vec::new(),
            };
            let held: BTreeSet<_> = along.iter().flat_map(|at| self.daemons[*at].got.iter().copied()).collect();
            let hole = (1..).find(|at| !held.contains(at)).unwrap();
            let told = along.iter().map(|at| self.daemons[*at].delivered).max().unwrap_or(0);
            let regular = self.rng.between(told, hole - 1);
            let behind: Vec<_> = held.into_iter().filter(|at| *at > hole && self.rng.chance(0.5)).collect();
            let together: Vec<_> = along.iter().map(|at| self.member(*at)).collect();
            for at in along {
                if self.rng.chance(0.25) {
                    continue;
                }
                let view = before.unwrap();
                for place in self.daemons[at].delivered + 1..=regular {
                    self.tell(at, view, place);
                }
                let daemon = &mut self.daemons[at];
                daemon.histories.close(&together);
                let last = daemon.histories.last().unwrap();
                daemon.told.push(Item::Closing(daemon.histories.closing(last).unwrap()));
                let closing = (regular + 1..hole).chain(behind.iter().copied());
                daemon.rest = closing.map(|place| (Some(place), view, Vec::new())).collect();
                daemon.rest.push_back((None, id, together.clone()));
            }
        }
        for at in some {
            if self.daemons[at].view.is_none() {
                let me = vec![self.member(at)];
                self.daemons[at].rest.push_back((None, id, me));
            }
        }
    }

    fn go_on(&mut self, at: usize) {
        match self.daemons[at].rest.pop_front() {
            None => {}
            Some((Some(place), view, _)) => self.tell(at, view, place),
            Some((None, id, together)) => {
                let daemon = &mut self.daemons[at];
                daemon.histories.begin(id, &together);
                let last = daemon.histories.last().unwrap();
                let before = last.checked_sub(1).and_then(|number| daemon.histories.closing(number));
                let line = before.map_or(Position(0), |closing| closing.line);
                (daemon.view, daemon.delivered) = (Some(id), 0);
                daemon.got.clear();
                daemon.told.push(Item::View { id, line });
            }
        }
    }

    /// A reader that begins with what comes.
    fn begin(&self, daemon: usize) -> Reader {
        let Daemon { view, told, incarnation, histories, .. } = &self.daemons[daemon];
        let view = view.unwrap_or_default();
        let mut trail = ViewTrail::new(view);
        trail.closing = histories.last().and_then(|last| histories.closing(last));
        let at = histories.end().0;
        let (has, ever, visited) = (Vec::new(), Vec::new(), BTreeSet::from([view]));
        Reader { daemon, incarnation: *incarnation, next: told.len(), trail, at, since: at, has, ever, visited }
    }

    fn read(&mut self, reader: usize) {
        let reader = &mut self.readers[reader];
        let daemon = &self.daemons[reader.daemon];
        if daemon.incarnation != reader.incarnation || reader.next < daemon.kept {
            return;
        }
        match daemon.told.get(reader.next) {
            None => return,
            Some(Item::View { id, line }) => {
                reader.trail.enter(*id, *line);
                (reader.at, reader.since) = (0, 0);
                reader.visited.insert(*id);
            }
            Some(Item::Closing(closing)) => reader.trail.closing = Some(*closing),
            Some(Item::Message { view, at, id }) => {
                assert_eq!(*view, reader.trail.view, "messages stand in the view that was told");
                reader.has.push((*view, *at, *id));
                reader.ever.push((*view, *at, *id));
                reader.at = at + 1;
            }
        }
        reader.next += 1;
    }

    fn ask(&self, reader: usize, at: usize) -> Resumption {
        let Reader { trail, at: place, .. } = &self.readers[reader];
        let mut trail = trail.clone();
        if self.broken == Broken::ClosingUntold {
            trail.closing = None;
        }
        let histories = &self.daemons[at].histories;
        let answer = histories.resume(&trail, Position(*place), 0);
        let known = (0..=histories.last().unwrap_or(0)).find(|n| histories.view(*n) == Some(trail.view));
        match (answer, known) {
            (Resumption::Waits | Resumption::Parted(_), Some(number)) if self.broken == Broken::KnownGoes => {
                Resumption::Goes(number)
            }
            _ => answer,
        }
    }

    /// A reader turns to a daemon, and is judged by all that both have.
    fn turn_to(&mut self, reader: usize, at: usize) -> Result<(), String> {
        if self.daemons[at].view.is_none() {
            return Ok(());
        }
        match self.ask(reader, at) {
            Resumption::Goes(number) => self.go_there(reader, at, number),
            Resumption::Waits => {
                self.seen[2] += 1;
                Ok(())
            }
            Resumption::MayCome(common) | Resumption::Parted(common) => self.part(reader, at, common),
        }
    }

    fn go_there(&mut self, index: usize, at: usize, number: u64) -> Result<(), String> {
        let (daemon, broken) = (&self.daemons[at], self.broken);
        let Reader { trail, at: place, since, has, .. } = &self.readers[index];
        let view = trail.view;
        let range = *since..*place;
        let here = |item: &Item| match item {
            Item::Message { view: other, at, id } if *other == view && range.contains(at) => Some((view, *at, *id)),
            _ => None,
        };
        let told: Vec<_> = daemon.told.iter().filter_map(here).collect();
        let read: Vec<_> = has.iter().filter(|(other, at, _)| *other == view && range.contains(at)).copied().collect();
        if told != read {
            return Err(format!("goes on at {at} in {view} at {place} with {read:?}, which has {told:?}"));
        }
        let behind = |item: &Item| matches!(item, Item::Message { view: v, at, .. } if *v == view && at >= place);
        let begins = daemon.told.iter().position(|item| matches!(item, Item::View { id, .. } if *id == view)).unwrap();
        let ends = daemon.told[begins + 1..].iter().position(|item| matches!(item, Item::View { .. }));
        let end = ends.map_or(daemon.told.len(), |n| begins + 1 + n);
        let next = daemon.told.iter().position(behind).unwrap_or(end);
        let closing = daemon.histories.closing(number);
        let beyond = closing.is_some_and(|closing| *place > closing.line.0);
        let gap = next < daemon.kept;
        let (kept, incarnation) = (daemon.kept, daemon.incarnation);
        self.seen[usize::from(beyond)] += 1;
        self.seen[5] += u64::from(gap);
        let reader = &mut self.readers[index];
        (reader.daemon, reader.incarnation, reader.next) = (at, incarnation, next);
        if broken != Broken::ClosingKept || reader.trail.closing.is_none() {
            reader.trail.closing = closing;
        }
        if gap {
            self.skip(index, at, kept);
        }
        Ok(())
    }

    /// A reader is told a gap: it goes on with what is retained.
    fn skip(&mut self, reader: usize, at: usize, kept: usize) {
        let daemon = &self.daemons[at];
        let view = daemon.told[..kept].iter().rev().find_map(|item| match item {
            Item::View { id, .. } => Some(*id),
            _ => None,
        });
        let view = view.unwrap();
        let last = daemon.told[..kept].iter().rev().find_map(|item| match item {
            Item::Message { view: other, at, .. } if *other == view => Some(*at),
            _ => None,
        });
        let number = (0..=daemon.histories.last().unwrap()).find(|n| daemon.histories.view(*n) == Some(view)).unwrap();
        let reader = &mut self.readers[reader];
        let at = Position(reader.at);
        reader.trail.enter(view, at);
        reader.at = last.map_or(0, |last| last + 1).max(if reader.visited.insert(view) { 0 } else { reader.at });
        reader.since = reader.at;
        reader.trail.closing = self.daemons[reader.daemon].histories.closing(number);
        reader.next = kept;
        reader.has.clear();
    }

    fn part(&mut self, reader: usize, at: usize, common: Option<ViewPlace>) -> Result<(), String> {
        let daemon = &self.daemons[at];
        let Reader { trail, ever, visited, .. } = &self.readers[reader];
        let Some(ViewPlace { view, at: Position(place), .. }) = common else {
            self.seen[4] += 1;
            self.readers[reader] = self.begin(at);
            return Ok(());
        };
        self.seen[if view == trail.view { 3 } else { 4 }] += 1;
        let was_there = daemon.told.iter().any(|item| matches!(item, Item::View { id, .. } if *id == view));
        if !was_there || !visited.contains(&view) {
            return Err(format!("{view} is no view in common"));
        }
        for (_, at, id) in ever.iter().filter(|(other, at, _)| *other == view && *at < place) {
            if !daemon.told.contains(&Item::Message { view, at: *at, id: *id }) {
                return Err(format!("{id} at {at} of {view} is said to be in common"));
            }
        }
        let again = ViewTrail::new(view);
        match daemon.histories.resume(&again, Position(place), 0) {
            Resumption::Goes(_) => self.readers[reader] = self.begin(at),
            other => return Err(format!("one cannot read on where the histories part: {other:?}")),
        }
        Ok(())
    }
}

/// Runs schedules; how often each answer was given, or the first seed and step at which something is wrong.
fn run(seeds: u64, broken: Broken) -> Result<[u64; 6], String> {
    let mut seen = [0; 6];
    for seed in 0..seeds {
        let mut model = Model::new(seed, broken);
        for step in 0..150 {
            model.step().map_err(|wrong| format!("seed {seed}, step {step}: {wrong}"))?;
        }
        seen.iter_mut().zip(model.seen).for_each(|(all, some)| *all += some);
    }
    Ok(seen)
}

#[test]
fn whoever_goes_on_has_what_is_there_and_whoever_parts_learns_where() {
    //= E20 test
    //= E21 test
    //= E22 test
    //= E23 test
    let seen = run(20_000, Broken::Not).unwrap();
    assert!(seen.iter().all(|times| *times > 100), "each answer is given often: {seen:?}");
}

#[test]
fn a_rule_that_is_broken_is_noticed() {
    for broken in [Broken::KnownGoes, Broken::ClosingUntold, Broken::ClosingKept] {
        assert!(run(4_000, broken).is_err(), "{broken:?}");
    }
}

fn view(number: u64) -> ViewId {
    ViewId { number, representative: daemon(0) }
}

/// A daemon that delivered so many messages of the first view, and then closes it with these.
fn closed_at(delivered: u64, together: &[u16]) -> Histories {
    let mut histories = histories();
    histories.begin(view(1), &[]);
    histories.deliver(Position(delivered));
    let together: Vec<_> = together.iter().copied().map(daemon).collect();
    histories.close(&together);
    histories
}

/// A reader of such a daemon.
fn reader_of(histories: &Histories) -> ViewTrail {
    ViewTrail { closing: histories.closing(0), ..ViewTrail::new(view(1)) }
}

const fn parted(at: u64) -> Resumption {
    let view = ViewId { number: 1, representative: MemberId::new(0, 100) };
    Resumption::Parted(Some(ViewPlace { view, at: Position(at), index: 0 }))
}

#[test]
fn that_a_daemon_was_expected_to_come_along_is_not_enough() {
    //= E22 test
    let mut expected = closed_at(2, &[0, 1]);
    expected.deliver(Position(5));
    let mut alone = closed_at(2, &[1]);
    alone.deliver(Position(4));
    assert_eq!(expected.resume(&reader_of(&alone), Position(5), 0), parted(3));
    assert_eq!(expected.resume(&reader_of(&expected), Position(5), 0), Resumption::Goes(0));
    assert_eq!(alone.resume(&reader_of(&expected), Position(3), 0), Resumption::Goes(0));
}

#[test]
fn whoever_is_ahead_of_a_daemon_that_closes_the_view_with_its_own_waits_for_that() {
    //= E22 test
    let mut ahead = closed_at(2, &[0, 1]);
    ahead.deliver(Position(4));
    let mut behind = closed_at(2, &[0, 1]);
    let reader = reader_of(&ahead);
    assert_eq!(behind.resume(&reader, Position(5), 0), Resumption::Waits);
    behind.deliver(Position(4));
    assert_eq!(behind.resume(&reader, Position(5), 0), Resumption::Goes(0));
}

#[test]
fn what_a_former_daemon_said_of_the_closing_is_not_said_of_the_next_one() {
    //= E24 test
    let (first, second) = (closed_at(2, &[0]), closed_at(4, &[1, 2]));
    let mut reader = reader_of(&first);
    assert_eq!(second.resume(&reader, Position(3), 0), Resumption::Goes(0));
    // It reads on there up to behind the first one's line, and knows how this one closes the view.
    reader.closing = second.closing(0);
    assert_eq!(second.resume(&reader, Position(5), 0), Resumption::Goes(0));
    assert_eq!(first.resume(&reader, Position(5), 0), parted(3));
}

#[test]
fn a_place_within_a_batch_is_behind_its_line_only_if_the_batch_is() {
    //= E21 test
    let histories = closed_at(4, &[0]);
    let reader = ViewTrail::new(view(1));
    assert_eq!(histories.resume(&reader, Position(4), 7), Resumption::Goes(0));
    assert_eq!(histories.resume(&reader, Position(5), 0), Resumption::Goes(0));
    assert_eq!(histories.resume(&reader, Position(5), 1), parted(5));
}

#[test]
fn so_many_views_are_remembered_and_no_more() {
    //= E20 test
    //= E23 test
    let mut histories = Histories::new();
    assert_eq!(histories.last(), None);
    assert_eq!(histories.resume(&ViewTrail::new(view(1)), Position(1), 0), Resumption::MayCome(None));
    for number in 1..=300 {
        histories.begin(view(number), &[daemon(0)]);
        histories.deliver(Position(number));
    }
    assert_eq!((histories.view(43), histories.view(44), histories.last()), (None, Some(view(45)), Some(299)));
    assert_eq!(histories.resume(&ViewTrail::new(view(44)), Position(1), 0), Resumption::Parted(None));
    assert_eq!(histories.resume(&ViewTrail::new(view(45)), Position(1), 0), Resumption::Goes(44));
    let mut trail = ViewTrail::new(view(1));
    (2..=40).for_each(|number| trail.enter(view(number), Position(number)));
    assert_eq!((trail.before.len(), trail.before[0]), (ViewTrail::MOST, (view(24), Position(25))));
}

#[test]
fn where_another_history_counts_the_end_of_the_own_one_is_remembered() {
    //= E29 test
    let mut histories = histories();
    histories.begin(view(1), &[]);
    histories.settle(false);
    histories.deliver(Position(7));
    // Nothing is known of the next one before it is over.
    histories.begin(view(2), &[daemon(0)]);
    histories.begin(view(3), &[daemon(0), daemon(1)]);
    assert_eq!((histories.last(), histories.last_settled()), (Some(2), Some(0)));
    histories.settle(true);
    histories.begin(view(4), &[daemon(0), daemon(1)]);
    histories.settle(false);
    let end = Some((0, Position(8)));
    assert_eq!([0, 1, 2, 3].map(|number| histories.gap_before(number, 0)), [None, None, end, None]);
    assert_eq!((histories.last_settled(), histories.settled_before(2)), (Some(3), Some(0)));
    // Another daemon led a reader into the view that was over too soon here.
    assert_eq!(histories.gap_before(2, 1), Some((1, Position(1))));
    assert_eq!([0, 1, 2, 3, 4].map(|number| histories.settled_from(number)), [0, 2, 2, 3, 4]);
}

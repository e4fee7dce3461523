//! A random model of whole engines: parts of the network that come and go, words under way, disks that lose what is not synced,
//! everything killed. What was committed anywhere must never differ, and never be lost.
use super::broken::Mutant;
use super::disk::{Disk, Record};
use super::engine::{Effect, Engine, Settings};
use super::said::Said;
use crate::frame::Frame;
use crate::line::Origin;
use bytes::Bytes;
use consort::Place;
use consort_types::Rng;

/// What comes to the members of a view, in its order.
#[derive(Clone)]
enum Word {
    Said(Said),
    Entry(u64),
    Mark(u64),
}

#[derive(Default)]
struct Copy {
    engine: Option<Engine>,
    /// Records on disk, and how many of them are synced.
    records: Vec<Bytes>,
    synced: usize,
    /// The number of the record before the first that is there.
    trimmed: usize,
    /// Entries that the machine has, and those of its two checkpoints.
    applied: Vec<u64>,
    kept: [usize; 2],
    /// The view it is in, how much of it has come, and whether its end is signalled.
    view: Option<usize>,
    read: usize,
    closing: bool,
    counts: bool,
    lacks: Option<u64>,
    starts: u128,
    /// Its disk is lost, and it does not remember yet.
    forgot: bool,
    copied: u64,
    /// More is synced than the engine knows.
    unreported: bool,
    /// Marks that wait: the mark, and how many entries were committed anywhere as it was sent.
    marks: Vec<(u64, usize)>,
}

impl Copy {
    /// Whether what is synced remembers, unless the next start notices that it was put back.
    fn remembers(&self) -> bool {
        let known = Disk::read(self.records[..self.synced.min(self.records.len())].to_vec()).unwrap().known;
        known.remembers && known.copied == self.copied
    }
}

struct View {
    members: Vec<usize>,
    words: Vec<Word>,
}

struct World {
    rng: Rng,
    broken: Option<Mutant>,
    copies: Vec<Copy>,
    views: Vec<View>,
    /// What was committed anywhere.
    agreed: Vec<u64>,
    ids: u64,
    answers: usize,
    /// An operator has all go on without what is missing.
    forces: bool,
}

impl World {
    fn new(seed: u64, broken: Option<Mutant>) -> Self {
        let mut rng = Rng::new(seed);
        let count = if rng.chance(0.7) { 3 } else { 5 };
        let copies = (0..count).map(|_| Copy::default()).collect();
        Self { rng, broken, copies, views: Vec::new(), agreed: Vec::new(), ids: 0, answers: 0, forces: false }
    }

    fn below(&mut self, most: usize) -> usize {
        self.rng.below(most as u64) as usize
    }

    fn start(&mut self, at: usize) {
        let (copies, broken) = (self.copies.len() as u16, self.broken);
        let copy = &mut self.copies[at];
        copy.starts += 1;
        let settings = Settings {
            copies,
            copy: at as u16 + 1,
            token: (at as u128 + 1) << 64 | copy.starts,
            forces: self.forces,
            address: at.to_string(),
            label: format!("server {at}"),
            log_bytes: 300,
        };
        let disk = Disk::read(copy.records.clone()).unwrap();
        copy.applied.truncate(copy.kept[1]);
        let (records, applied) = (copy.records.len() as u64, copy.applied.len() as u64);
        copy.trimmed = 0;
        copy.synced = copy.records.len();
        let engine = Engine::new(settings, disk, records, applied, copy.copied);
        copy.engine = Some(engine.with_broken(broken));
        self.act(at);
    }

    /// It stops; records that were not synced may be lost from some point on.
    fn kill(&mut self, at: usize) {
        let copy = &mut self.copies[at];
        if copy.engine.take().is_none() {
            return;
        }
        let unsynced = copy.records.len() - copy.synced;
        let left = self.rng.below(unsynced as u64 + 1) as usize;
        copy.records.truncate(copy.synced + left);
        (copy.view, copy.counts, copy.lacks) = (None, false, None);
        copy.marks.clear();
    }

    /// A minority loses its disk at a time, or has an old one, also while the store begins: the next ones may once those
    /// remember again.
    fn lose(&mut self, at: usize) {
        let forgot = self.copies.iter().filter(|copy| copy.forgot).count();
        if 2 * (forgot + 1) >= self.copies.len() || self.copies[at].forgot {
            return;
        }
        self.kill(at);
        let copy = &mut self.copies[at];
        copy.forgot = true;
        if self.rng.chance(0.5) {
            let starts = copy.starts;
            *copy = Copy { starts, forgot: true, ..Copy::default() };
        } else {
            // Put back from a backup, which is noticed.
            copy.copied += 1;
            let kept = self.rng.below(copy.records.len() as u64 + 1) as usize;
            if copy.kept == [0, 0] {
                copy.records.truncate(kept);
            }
        }
    }

    fn meet(&mut self, members: Vec<usize>) {
        let view = self.views.len();
        for at in &members {
            self.leave(*at);
            let copy = &mut self.copies[*at];
            (copy.view, copy.read, copy.closing) = (Some(view), 0, false);
            let engine = copy.engine.as_mut().unwrap();
            if self.rng.chance(0.1) {
                engine.on_lost();
            }
            engine.on_connected(200);
            engine.on_membership(view as u64, 0);
        }
        self.views.push(View { members: members.clone(), words: Vec::new() });
        members.into_iter().for_each(|at| self.act(at));
    }

    /// The end of a view: some more of what all receive, and then words with gaps, among those that go on together.
    fn leave(&mut self, at: usize) {
        let Some(view) = self.copies[at].view else { return };
        let more = self.below(4);
        self.read(at, more);
        let Some(engine) = self.copies[at].engine.as_mut() else { return };
        engine.on_signal();
        self.copies[at].closing = true;
        while self.copies[at].read < self.views[view].words.len() && self.rng.chance(0.8) {
            if self.rng.chance(0.4) {
                self.copies[at].read += 1;
            } else {
                self.read(at, 1);
            }
        }
    }

    fn part(&mut self) {
        let mut parts = [Vec::new(), Vec::new()];
        for at in 0..self.copies.len() {
            if self.copies[at].engine.is_none() && self.rng.chance(0.7) {
                self.start(at);
            }
            if self.copies[at].engine.is_some() && self.rng.chance(0.9) {
                let part = usize::from(self.rng.chance(0.25));
                parts[part].push(at);
            }
        }
        parts.into_iter().filter(|part| !part.is_empty()).for_each(|part| self.meet(part));
    }

    fn read(&mut self, at: usize, most: usize) {
        for _ in 0..most {
            let copy = &mut self.copies[at];
            let (Some(view), Some(engine)) = (copy.view, &mut copy.engine) else { return };
            let Some(word) = self.views[view].words.get(copy.read).cloned() else { return };
            copy.read += 1;
            match word {
                Word::Said(said) => engine.on_said(said),
                Word::Entry(id) => engine.on_entry(entry(id).encode()),
                Word::Mark(mark) => {
                    engine.on_behind(Frame::Mark { origin: Origin(at as u128), number: mark }.encode());
                }
            }
            self.act(at);
        }
    }

    fn send(&mut self, at: usize, word: Word) {
        let copy = &self.copies[at];
        if let (Some(view), false) = (copy.view, copy.closing) {
            self.views[view].words.push(word);
        }
    }

    fn act(&mut self, at: usize) {
        while let Some(effect) = self.copies[at].engine.as_mut().and_then(Engine::next_effect) {
            let copy = &mut self.copies[at];
            match effect {
                Effect::Say(said) => self.send(at, Word::Said(said)),
                Effect::Write { number, record } => {
                    copy.records.push(record);
                    assert_eq!(number as usize, copy.records.len() + copy.trimmed);
                }
                Effect::Trim { up_to } => {
                    // What was written is synced before. Whole segments go: some of the records may stay.
                    (copy.synced, copy.unreported) = (copy.records.len(), true);
                    let gone = (up_to as usize).saturating_sub(copy.trimmed);
                    let gone = self.rng.below(gone as u64 + 1) as usize;
                    let gone = gone.min(copy.synced);
                    copy.records.drain(..gone);
                    (copy.trimmed, copy.synced) = (copy.trimmed + gone, copy.synced - gone);
                }
                Effect::Counts(counts) => {
                    copy.counts = counts;
                    if !counts {
                        copy.marks.clear();
                    }
                }
                Effect::Take { frame, at: place, next } => {
                    self.take(at, &Frame::decode(&frame).unwrap(), place, next);
                }
                Effect::Lacks { from } => copy.lacks = Some(from),
                Effect::End(why) => panic!("copy {at} ends: {why}"),
            }
        }
    }

    fn take(&mut self, at: usize, frame: &Frame, place: Place, next: Place) {
        let copy = &mut self.copies[at];
        if let Frame::Mark { number, .. } = frame {
            let (waits, had): (Vec<_>, Vec<_>) = copy.marks.iter().partition(|(mark, _)| mark > number);
            copy.marks = waits;
            let passed = had.iter().find(|(mark, _)| mark == number);
            let saw = copy.applied.len();
            assert!(passed.is_none_or(|(_, committed)| saw >= *committed), "a reader of {at} sees {saw} of {passed:?}");
            return;
        }
        let id = id_of(frame);
        copy.applied.push(id);
        assert_eq!((copy.applied.len() as u64, next), (place.position, Place::at(place.position + 1)));
        let len = copy.applied.len();
        let common = len.min(self.agreed.len());
        assert_eq!(copy.applied[..common], self.agreed[..common], "copy {at} differs from what was committed");
        if len > self.agreed.len() {
            self.agreed.clone_from(&copy.applied);
            self.answers += 1;
        }
    }

    fn sync(&mut self, at: usize) {
        let copy = &mut self.copies[at];
        let Some(engine) = &mut copy.engine else { return };
        let unsynced = copy.records.len() - copy.synced;
        if unsynced == 0 && !copy.unreported {
            return;
        }
        copy.unreported = false;
        let some =
            if unsynced == 0 || self.rng.chance(0.5) { unsynced } else { 1 + self.rng.below(unsynced as u64) as usize };
        copy.synced += some;
        engine.on_written((copy.trimmed + copy.synced) as u64);
        copy.forgot &= !copy.remembers();
        self.act(at);
    }

    fn checkpoint(&mut self, at: usize) {
        let copy = &mut self.copies[at];
        let Some(engine) = &mut copy.engine else { return };
        copy.kept = [copy.kept[1], copy.applied.len()];
        engine.on_kept(copy.kept[0] as u64 + 1);
        self.act(at);
    }

    /// Takes the checkpoint of another, if one is far enough.
    fn fetch(&mut self, at: usize) {
        let Some(from) = self.copies[at].lacks else { return };
        let others =
            (0..self.copies.len()).filter(|other| *other != at && self.copies[*other].kept[1] as u64 + 1 >= from);
        let Some(best) = others.max_by_key(|other| self.copies[*other].kept[1]) else { return };
        let len = self.copies[best].kept[1];
        if len <= self.copies[at].applied.len() {
            return;
        }
        let state = self.copies[best].applied[..len].to_vec();
        let copy = &mut self.copies[at];
        (copy.applied, copy.kept, copy.lacks) = (state, [copy.kept[1], len], None);
        copy.engine.as_mut().unwrap().on_checkpoint(len as u64);
        self.act(at);
    }

    fn step(&mut self) {
        let at = self.below(self.copies.len());
        if self.copies.iter().all(|copy| copy.engine.is_none()) {
            return self.part();
        }
        match self.below(400) {
            0..4 => self.part(),
            4..180 => {
                let most = 1 + self.below(12);
                self.read(at, most);
            }
            180..280 => self.sync(at),
            280..340 => self.call(at),
            340..352 => self.checkpoint(at),
            352..368 => self.fetch(at),
            368..370 => self.kill(at),
            370 => (0..self.copies.len()).for_each(|at| self.kill(at)),
            371 => self.lose(at),
            _ if self.copies[at].counts => {
                self.ids += 1;
                let (mark, committed) = (self.ids, self.agreed.len());
                // A mark is delivered where all members of the view have received it: none of them has left.
                let view = self.copies[at].view.unwrap();
                let all_here = self.views[view].members.iter().all(|other| self.copies[*other].view == Some(view));
                if all_here && !self.copies[at].closing {
                    self.copies[at].marks.push((mark, committed));
                    self.send(at, Word::Mark(mark));
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, at: usize) {
        if self.copies[at].counts {
            self.ids += 1;
            self.send(at, Word::Entry(self.ids));
        }
    }

    /// In the end all come back, agree, and go on.
    fn heal(&mut self) {
        for at in 0..self.copies.len() {
            if self.copies[at].engine.is_none() {
                self.start(at);
            }
        }
        self.meet((0..self.copies.len()).collect());
        let before = self.agreed.len();
        for round in 0..400 {
            for at in 0..self.copies.len() {
                self.read(at, 1_000);
                self.sync(at);
                self.checkpoint(at);
                self.fetch(at);
            }
            if round % 4 == 0 && self.agreed.len() < before + 20 {
                self.call(0);
            }
        }
        assert!(self.agreed.len() >= before + 20, "nothing is committed in the end: {:?}", self.why());
        for (at, copy) in self.copies.iter().enumerate() {
            assert_eq!(copy.applied.len(), self.agreed.len(), "copy {at} lags in the end: {:?}", self.why());
        }
    }

    fn why(&self) -> Vec<Option<String>> {
        self.copies.iter().map(|copy| copy.engine.as_ref().and_then(Engine::waits_for)).collect()
    }
}

fn entry(id: u64) -> Frame {
    let body = Bytes::copy_from_slice(&id.to_be_bytes());
    Frame::Numbered { origin: Origin(1), epoch: Place::at(1), number: id, body }
}

fn id_of(frame: &Frame) -> u64 {
    let Frame::Numbered { number, .. } = frame else { panic!("{frame:?}") };
    *number
}

fn run(seed: u64, steps: usize, broken: Option<Mutant>) -> usize {
    let mut world = World::new(seed, broken);
    if world.rng.chance(0.75) {
        (0..world.copies.len()).for_each(|at| world.start(at));
        world.meet((0..world.copies.len()).collect());
    }
    (0..steps).for_each(|_| world.step());
    world.heal();
    world.answers
}

/// The rule that the environment breaks, for `cargo xtask mutants`.
fn broken_by_environment() -> Option<Mutant> {
    let named = std::env::var("CONSORT_REPLICA_MUTANT").unwrap_or_default();
    Mutant::ALL.iter().copied().find(|mutant| mutant.name() == named)
}

#[test]
fn random_schedules_lose_nothing_that_was_committed() {
    //= RS20 test
    //= RS21 test
    //= RS22 test
    //= RS23 test
    //= RS24 test
    let seeds = std::env::var("CONSORT_MODEL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let broken = broken_by_environment();
    let seeds = if broken.is_some() { 20_000 } else { seeds };
    let answers: usize = (0..seeds).map(|seed| run(seed, 1_200, broken)).sum();
    assert!(answers as u64 > 25 * seeds, "{answers} answers are few: the schedules try little");
}

/// Three copies that have begun.
fn begun(broken: Option<Mutant>) -> World {
    let mut world = World::new(0, broken);
    while world.copies.len() != 3 {
        world = World::new(world.rng.next_u64(), broken);
    }
    (0..3).for_each(|at| world.start(at));
    world.meet(vec![0, 1, 2]);
    settle(&mut world);
    world
}

fn settle(world: &mut World) {
    for _ in 0..40 {
        (0..3).for_each(|at| world.read(at, 100));
        (0..3).for_each(|at| world.sync(at));
    }
}

/// One was away while the two others answered, and then lost their directories.
fn a_majority_is_lost(broken: Option<Mutant>) {
    let mut world = begun(broken);
    world.kill(0);
    world.meet(vec![1, 2]);
    settle(&mut world);
    (0..5).for_each(|_| world.call(1));
    settle(&mut world);
    assert_eq!(world.agreed.len(), 5, "the other two have answered");
    for at in 1..3 {
        world.kill(at);
        world.copies[at] = Copy { starts: world.copies[at].starts, ..Copy::default() };
    }
    let restart = |world: &mut World| {
        (0..3).for_each(|at| world.kill(at));
        (0..3).for_each(|at| world.start(at));
        world.meet(vec![0, 1, 2]);
        settle(world);
    };
    for _ in 0..2 {
        restart(&mut world);
        let why = world.why();
        let waits = |why: &Option<String>| why.as_ref().is_some_and(|why| why.contains("copies 2 and 3 have not the"));
        assert!(why.iter().all(waits), "{why:?}");
    }
    world.agreed.clear();
    world.forces = true;
    restart(&mut world);
    assert_eq!(world.why(), [None, None, None]);
}

#[test]
fn where_a_majority_of_the_directories_is_lost_an_operator_decides() {
    //= RS24 test
    a_majority_is_lost(broken_by_environment());
}

/// The store is begun with all three, but only the first has the log of the first term on disk before everything is killed.
fn begun_in_part() -> World {
    let mut world = begun(None);
    (0..3).for_each(|at| world.kill(at));
    for at in 1..3 {
        // Its promise is the last record.
        let is_promise = |record: &Bytes| matches!(Record::decode(record), Ok(Record::Promise { .. }));
        let copy = &mut world.copies[at];
        let promise = copy.records.iter().position(is_promise).unwrap();
        copy.records.truncate(promise + 1);
    }
    world
}

#[test]
fn a_store_whose_beginning_was_interrupted_begins_though_a_directory_is_lost() {
    //= RS21 test
    //= RS24 test
    for lost in 0..3 {
        let mut world = begun_in_part();
        world.copies[lost] = Copy { starts: world.copies[lost].starts, ..Copy::default() };
        (0..3).for_each(|at| world.start(at));
        world.meet(vec![0, 1, 2]);
        settle(&mut world);
        assert_eq!(world.why(), [None, None, None], "copy {} is lost", lost + 1);
    }
    let mut world = begun_in_part();
    [0, 1].into_iter().for_each(|at| world.start(at));
    world.meet(vec![0, 1]);
    settle(&mut world);
    assert_eq!(world.why()[..2], [None, None], "the third one cannot have acknowledged anything by itself");
}

#[test]
fn a_directory_put_back_from_before_the_beginning_counts_as_an_empty_one() {
    //= RS24 test
    let mut world = begun(None);
    (0..3).for_each(|at| world.kill(at));
    for copy in &mut world.copies {
        copy.records.truncate(1);
    }
    world.copies[0].copied = 1;
    (0..3).for_each(|at| world.start(at));
    world.meet(vec![0, 1, 2]);
    settle(&mut world);
    assert_eq!(world.why(), [None, None, None]);
}

#[test]
fn a_log_whose_state_is_lost_still_serves_the_others() {
    //= RS23 test
    let mut world = begun(None);
    for _ in 0..20 {
        (0..10).for_each(|_| world.call(0));
        settle(&mut world);
        (0..3).for_each(|at| world.checkpoint(at));
    }
    world.kill(1);
    world.meet(vec![0, 2]);
    settle(&mut world);
    (0..5).for_each(|_| world.call(0));
    settle(&mut world);
    [0, 2].into_iter().for_each(|at| world.kill(at));
    // Its log is the longest, and it has no checkpoint any more.
    world.copies[0].kept = [0, 0];
    [0, 1].into_iter().for_each(|at| world.start(at));
    world.meet(vec![0, 1]);
    settle(&mut world);
    world.fetch(0);
    settle(&mut world);
    world.call(1);
    settle(&mut world);
    assert_eq!([0, 1].map(|at| world.copies[at].applied.len()), [206, 206], "{:?}", world.why());
}

#[test]
fn words_in_the_name_of_a_copy_that_is_not_there_do_not_count() {
    //= RS20 test
    let mut world = begun(None);
    let (term, ..) = world.copies[0].engine.as_ref().unwrap().in_force().unwrap();
    world.call(0);
    world.read(0, 100);
    let say = |world: &mut World, copy: u16| {
        world.copies[0].engine.as_mut().unwrap().on_said(Said::Synced { term, copy, index: 1 });
        world.act(0);
        world.copies[0].applied.len()
    };
    assert_eq!([4, 5, 0].map(|copy| say(&mut world, copy)), [0; 3], "there are three copies, from 1");
    assert_eq!([2, 3].map(|copy| say(&mut world, copy)), [0, 1]);
}

#[test]
fn each_broken_rule_of_durable_copies_is_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let notices = |mutant: Mutant| {
        // The random schedules lose a minority of the disks at a time.
        if std::panic::catch_unwind(|| a_majority_is_lost(Some(mutant))).is_err() {
            return Some(0);
        }
        (0..20_000).find(|seed| std::panic::catch_unwind(|| run(*seed, 1_200, Some(mutant))).is_err())
    };
    let found: Vec<_> = Mutant::ALL.iter().map(|mutant| (mutant.name(), notices(*mutant))).collect();
    std::panic::set_hook(hook);
    found.iter().for_each(|(name, seed)| println!("{name}: seed {seed:?}"));
    let missed: Vec<_> = found.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

//! A model of nodes that change keys: views, one order each, crashes, partitions, restarts with and without their state,
//! key files that are copied, lost and cut down. What is real are [`Rotation`] and [`Epochs`]; the network, membership
//! and operators are a few lines each.
use consort_node::KeyName;
use consort_node::rotation::{KeyMessage, Rotation, RotationStep};
use consort_seal::KeyEpoch;
use consort_seal::epochs::{Epochs, Taken};
use consort_types::{
    Duration, Incarnation, Instant, MemberId, NodeId, Primary, Rng, View, ViewCause, ViewId, ViewKind,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const NODES: usize = 4;
/// A member delivers what its view has ordered no later than so many seconds behind the first.
const LAG_MOST: u64 = 20;
const FOLLOWS_EVERY: u64 = 10;

type Said = (MemberId, KeyMessage);

/// The order of one view.
#[derive(Default)]
struct Order {
    number: u64,
    members: Vec<usize>,
    said: std::cell::RefCell<Vec<(u64, Said)>>,
}

/// One start of a node.
struct Start {
    me: MemberId,
    rotation: Rotation,
    epochs: Epochs,
    held: BTreeSet<u16>,
    view: Option<Rc<Order>>,
    delivered: usize,
    follow_at: u64,
}

/// A rule that is broken on purpose: the model must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// Nothing newer is taken before it is adopted.
    Promise,
    /// Nothing old is taken once another is adopted.
    Old,
    /// Nobody follows.
    Follow,
    /// A key that is promised may be let go of.
    Keep,
}

struct World {
    broken: Option<Broken>,
    /// What went wrong first.
    wrong: Option<String>,
    rng: Rng,
    now: u64,
    up: Vec<Option<Start>>,
    files: Vec<BTreeSet<u16>>,
    states: Vec<Option<u16>>,
    part: Vec<u8>,
    incarnations: u64,
    /// Which key each view adopted at which place.
    adopted: BTreeMap<(u64, usize), u16>,
    views: u64,
    adoptions: u64,
}

fn epoch(number: u16) -> KeyEpoch {
    KeyEpoch::new(number).unwrap()
}

fn name(epoch: u16) -> KeyName {
    KeyName { epoch, fingerprint: 7 }
}

fn at(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}

impl Start {
    fn in_use(&self) -> u16 {
        self.epochs.in_use().get()
    }

    /// Whether it takes what the other seals now.
    fn takes(&self, other: &Self, now: u64) -> bool {
        self.held.contains(&other.in_use()) && self.epochs.judge(other.epochs.in_use(), other.me, at(now)) == Taken::Yes
    }

    fn names(&self) -> Vec<KeyName> {
        let in_use = self.in_use();
        let newer = self.held.iter().filter(|epoch| **epoch > in_use);
        std::iter::once(in_use).chain(newer.copied()).map(name).collect()
    }

    fn install(&mut self, members: &[MemberId], kind: ViewKind) {
        let id = ViewId { number: 1, representative: members[0] };
        let (members, moved_together) = (members.to_vec(), members.to_vec());
        let (primary, cause, evidence) = (Primary::NoPolicy, ViewCause::Started, Vec::new());
        self.rotation.install(&View {
            id,
            kind,
            members,
            moved_together,
            primary,
            cause,
            evidence,
            missed_primary: false,
        });
    }
}

impl World {
    fn new(seed: u64, broken: Option<Broken>) -> Self {
        let mut world = Self {
            broken,
            wrong: None,
            rng: Rng::new(seed),
            now: 0,
            up: (0..NODES).map(|_| None).collect(),
            files: vec![BTreeSet::from([1]); NODES],
            states: vec![None; NODES],
            part: vec![0; NODES],
            incarnations: 0,
            adopted: BTreeMap::new(),
            views: 0,
            adoptions: 0,
        };
        (0..NODES).for_each(|node| world.start(node));
        world
    }

    fn start(&mut self, node: usize) {
        self.incarnations += 1;
        let me = MemberId { node: NodeId(node as u16 + 1), incarnation: Incarnation(self.incarnations) };
        let first = *self.files[node].first().unwrap();
        let kept = self.states[node].filter(|kept| self.files[node].contains(kept));
        let in_use = first.max(kept.unwrap_or(0));
        let held = self.files[node].iter().copied().filter(|epoch| *epoch >= in_use).collect();
        let (mut rotation, epochs) = (Rotation::new(me), Epochs::new(epoch(in_use)));
        rotation.configure(NODES);
        let mut start = Start { me, rotation, epochs, held, view: None, delivered: 0, follow_at: 0 };
        start.rotation.hold(start.names());
        self.up[node] = Some(start);
    }

    /// SIGHUP, as a driver takes it. False where the file is refused.
    fn reload(&mut self, node: usize) -> bool {
        let file = &self.files[node];
        let Some(start) = self.up[node].as_mut() else { return true };
        let names: Vec<_> = file.iter().map(|epoch| name(*epoch)).collect();
        let is_broken = self.broken == Some(Broken::Keep) && file.contains(&start.in_use());
        if start.rotation.may_hold(&names).is_err() && !is_broken {
            return false;
        }
        let (in_use, old) = (start.in_use(), start.epochs.old().map(KeyEpoch::get));
        let gone: Vec<_> = start.held.iter().filter(|held| **held > in_use && !file.contains(held)).copied().collect();
        gone.into_iter().for_each(|gone| start.epochs.forget(epoch(gone)));
        start.held = file.iter().copied().filter(|epoch| *epoch >= in_use).chain(old).collect();
        start.rotation.hold(start.names());
        true
    }

    fn steps(&mut self, node: usize) {
        let (now, states, broken) = (self.now, &mut self.states, self.broken);
        let Some(start) = self.up[node].as_mut() else { return };
        while let Some(step) = start.rotation.poll_step() {
            match step {
                RotationStep::Promise(Some(_)) if broken == Some(Broken::Promise) => {}
                RotationStep::Promise(Some(number)) => start.epochs.promise(epoch(number)),
                RotationStep::Promise(None) => start.epochs.release(),
                RotationStep::Adopt { key, members } => {
                    if !start.held.contains(&key.epoch) {
                        self.wrong.get_or_insert(format!("{} adopts what it lacks", start.me));
                    }
                    let heard = if broken == Some(Broken::Old) { &[] } else { &members[..] };
                    if let Some(old) = start.epochs.adopt(epoch(key.epoch), heard, at(now)) {
                        start.held.remove(&old.get());
                    }
                    start.rotation.hold(start.names());
                    states[node] = Some(key.epoch);
                    self.adoptions += 1;
                    if let Some(view) = start.view.as_ref().filter(|_| !members.is_empty()) {
                        let place = (view.number, start.delivered);
                        let known = *self.adopted.entry(place).or_insert(key.epoch);
                        if known != key.epoch {
                            self.wrong.get_or_insert(format!("epochs {known} and {} at one place", key.epoch));
                        }
                    }
                }
                RotationStep::Ended { .. } => {}
            }
        }
    }

    /// The member delivers the next thing that its view has ordered.
    fn deliver(&mut self, node: usize) -> bool {
        let Some(start) = self.up[node].as_mut() else { return false };
        let Some(view) = start.view.clone() else { return false };
        let Some((_, (sender, said))) = view.said.borrow().get(start.delivered).copied() else { return false };
        start.delivered += 1;
        start.rotation.deliver(sender, said);
        self.steps(node);
        true
    }

    /// What the member has to say is ordered.
    fn say(&mut self, node: usize) {
        let now = self.now;
        let Some(start) = self.up[node].as_mut() else { return };
        let Some(view) = start.view.clone() else { return };
        while let Some(said) = start.rotation.next_message() {
            start.rotation.has_said();
            view.said.borrow_mut().push((now, (start.me, said)));
        }
    }

    /// Whether two nodes that run hear each other.
    fn hear_each_other(&self, one: usize, other: usize) -> bool {
        let (Some(a), Some(b)) = (&self.up[one], &self.up[other]) else { return false };
        self.part[one] == self.part[other] && a.takes(b, self.now) && b.takes(a, self.now)
    }

    /// Views follow what is heard: those who go on together deliver the same first.
    fn gather(&mut self) {
        let mut left: Vec<_> = (0..NODES).filter(|node| self.up[*node].is_some()).collect();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        while let Some(first) = left.first().copied() {
            let mut group = vec![first];
            for other in left.iter().skip(1) {
                if group.iter().all(|one| self.hear_each_other(*one, *other)) {
                    group.push(*other);
                }
            }
            left.retain(|node| !group.contains(node));
            groups.push(group);
        }
        let starts = |world: &Self, node: usize| world.up[node].as_ref().and_then(|start| start.view.clone());
        for group in groups {
            let view = starts(self, group[0]);
            let stays = view.as_ref().is_some_and(|view| {
                view.members == group
                    && group.iter().all(|node| starts(self, *node).is_some_and(|other| Rc::ptr_eq(&other, view)))
            });
            if !stays {
                self.change_view(&group);
            }
        }
    }

    fn change_view(&mut self, group: &[usize]) {
        for node in group {
            let view = self.up[*node].as_ref().and_then(|start| start.view.clone());
            let Some(view) = view else { continue };
            let together = group.iter().filter(|other| {
                let theirs = self.up[**other].as_ref().and_then(|start| start.view.as_ref());
                theirs.is_some_and(|theirs| Rc::ptr_eq(theirs, &view))
            });
            let most = together.filter_map(|other| Some(self.up[*other].as_ref()?.delivered)).max().unwrap_or(0);
            while self.up[*node].as_ref().is_some_and(|start| start.delivered < most) {
                self.deliver(*node);
            }
        }
        self.views += 1;
        let order = Rc::new(Order { number: self.views, members: group.to_vec(), ..Order::default() });
        let members: Vec<_> = group.iter().filter_map(|node| Some(self.up[*node].as_ref()?.me)).collect();
        for node in group {
            if let Some(start) = self.up[*node].as_mut() {
                start.install(&members, ViewKind::Transitional);
                start.install(&members, ViewKind::Regular);
                (start.view, start.delivered) = (Some(Rc::clone(&order)), 0);
            }
            self.steps(*node);
        }
    }

    /// Greetings, and what is opened though it is not taken, say which keys others use; keys are followed and dropped.
    fn listen(&mut self) {
        let now = self.now;
        let used: Vec<_> = self.up.iter().map(|up| up.as_ref().map(Start::in_use)).collect();
        for node in 0..NODES {
            let part = self.part[node];
            let heard = (0..NODES).filter(|other| *other != node && self.part[*other] == part);
            let heard: Vec<_> = heard.filter_map(|other| Some((other, used[other]?))).collect();
            let Some(start) = self.up[node].as_mut() else { continue };
            for (other, used) in heard {
                if start.held.contains(&used) {
                    start.epochs.hear(epoch(used), NodeId(other as u16 + 1), at(now));
                }
            }
            if let Some(old) = start.epochs.expire(at(now)) {
                start.held.remove(&old.get());
            }
            let Some((newer, _, since)) = start.epochs.newer() else { continue };
            let has_view = start.view.is_some();
            if self.broken == Some(Broken::Follow) {
                continue;
            }
            if !has_view || now >= start.follow_at && at(now) >= since + Duration::from_secs(1) {
                start.follow_at = now + FOLLOWS_EVERY;
                start.rotation.follow(newer.get(), has_view);
                self.steps(node);
            }
        }
    }

    /// Members of one view take whatever each of them seals, however far each has come: nothing of a rotation is refused.
    fn check(&mut self) {
        let wrong = self.refusal();
        self.wrong = self.wrong.take().or(wrong);
    }

    fn refusal(&self) -> Option<String> {
        for (one, start) in self.up.iter().enumerate() {
            let Some((start, view)) = start.as_ref().and_then(|start| Some((start, start.view.as_ref()?))) else {
                continue;
            };
            for other in view.members.iter().filter(|other| **other != one && self.part[**other] == self.part[one]) {
                let Some(theirs) = self.up[*other].as_ref() else { continue };
                let same = theirs.view.as_ref().is_some_and(|theirs| Rc::ptr_eq(theirs, view));
                if same && !start.takes(theirs, self.now) {
                    return Some(format!("{} refuses epoch {} of {}", start.me, theirs.in_use(), theirs.me));
                }
            }
        }
        None
    }

    fn second(&mut self, lags: bool) {
        self.now += 1;
        self.listen();
        self.gather();
        for node in 0..NODES {
            self.say(node);
            while self.may_deliver(node, lags) && self.deliver(node) {
                self.say(node);
                self.check();
            }
        }
        self.check();
    }

    fn may_deliver(&mut self, node: usize, lags: bool) -> bool {
        let Some(start) = self.up[node].as_ref() else { return false };
        let next = start.view.as_ref().and_then(|view| view.said.borrow().get(start.delivered).map(|(when, _)| *when));
        let late = next.is_some_and(|when| when + LAG_MOST <= self.now);
        !lags || late || self.rng.chance(0.4)
    }

    /// Something happens that is nobody's plan, or an operator's.
    fn act(&mut self) {
        let node = self.rng.below(NODES as u64) as usize;
        match self.rng.below(14) {
            0 => self.part = (0..NODES).map(|_| self.rng.below(2) as u8).collect(),
            1 | 2 => self.part = vec![0; NODES],
            3 => {
                self.up[node] = None;
            }
            4 | 5 => {
                if self.rng.chance(0.3) {
                    self.states[node] = None;
                }
                self.start(node);
            }
            6 | 7 => {
                // The next key is made on one node, or copied from it.
                let source = self.files[self.rng.below(NODES as u64) as usize].clone();
                let next = source.last().map_or(1, |last| last + 1);
                let last = if source.len() < 2 { Some(next) } else { None };
                let before = std::mem::replace(&mut self.files[node], source.into_iter().chain(last).collect());
                if !self.reload(node) {
                    self.files[node] = before;
                }
            }
            8 => {
                // A disk of yesterday: the newest key is gone, unless it is in use, or promised, here.
                let before = self.files[node].clone();
                if before.len() > 1 {
                    self.files[node].pop_last();
                    if !self.reload(node) {
                        self.files[node] = before;
                    }
                }
            }
            9 => {
                // The old key is removed where it is not in use.
                let in_use = self.up[node].as_ref().map(Start::in_use);
                self.files[node].retain(|epoch| in_use.is_none_or(|in_use| *epoch >= in_use));
                self.reload(node);
            }
            10 => {
                let source = self.files[node].clone();
                for other in 0..NODES {
                    let before = std::mem::replace(&mut self.files[other], source.clone());
                    if !self.reload(other) {
                        self.files[other] = before;
                    }
                }
            }
            _ => {
                if let Some(start) = self.up[node].as_mut() {
                    let _ = start.rotation.ask();
                }
            }
        }
    }

    /// The operator mends what is left: all run, all are connected, all have the newest keys. They find each other.
    fn heal(&mut self) {
        self.part = vec![0; NODES];
        let newest = self.up.iter().flatten().map(Start::in_use).max().unwrap_or(1);
        let newest = self.states.iter().flatten().copied().max().unwrap_or(1).max(newest);
        let all: BTreeSet<u16> = if newest > 1 { [newest - 1, newest].into() } else { [1].into() };
        for node in 0..NODES {
            self.files[node] = all.clone();
            if self.up[node].is_none() || !self.reload(node) {
                self.start(node);
            }
        }
        (0..200).for_each(|_| self.second(false));
        let used: Vec<_> = self.up.iter().flatten().map(Start::in_use).collect();
        let members = self.up[0].as_ref().and_then(|start| start.view.as_ref()).map(|view| view.members.len());
        if used != [used[0]; NODES] || members != Some(NODES) {
            self.wrong.get_or_insert(format!("epochs {used:?} in the end, and {members:?} in one view"));
        }
    }
}

/// Runs one seed; returns how many starts adopted a key, or what went wrong.
fn run(seed: u64, broken: Option<Broken>) -> Result<u64, String> {
    let mut world = World::new(seed, broken);
    for _ in 0..300 {
        if world.rng.chance(0.5) {
            world.act();
        }
        world.second(true);
    }
    world.heal();
    world.wrong.map_or(Ok(world.adoptions), |wrong| Err(format!("seed {seed}: {wrong}")))
}

#[test]
fn whatever_happens_members_hear_each_other_and_all_end_with_one_key() {
    //= K03 test
    //= K05 test
    //= K06 test
    //= K07 test
    //= K08 test
    let adoptions: u64 = (0..300).map(|seed| run(seed, None).unwrap()).sum();
    assert!(adoptions > 1_000, "{adoptions}: keys change in these runs");
}

#[test]
fn each_rule_is_missed_where_it_is_broken() {
    for broken in [Broken::Promise, Broken::Old, Broken::Follow, Broken::Keep] {
        assert!((0..300).any(|seed| run(seed, Some(broken)).is_err()), "{broken:?}");
    }
}

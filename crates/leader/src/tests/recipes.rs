//! Barriers and work queues without clock or connection: members that lose their connection, and leaders that change at any
//! moment. One order, and one seed decides everything.
use crate::recipes::barrier::Arrivals;
use crate::recipes::desk::{Desk, DeskEffect, Recipe, SenderKey};
use crate::recipes::work_queue::Jobs;
use crate::{CandidateId, Fence, Job, JobId};
use consort::{ClientId, NodeId};
use consort_types::Rng;
use std::collections::{BTreeMap, BTreeSet};

const MEMBERS: usize = 4;

#[derive(Clone, Debug)]
enum Ordered {
    Said(usize, SenderKey, Vec<u8>),
    Decided(Fence, Vec<u8>),
    Members(Vec<SenderKey>),
}

struct Member<R> {
    desk: Desk,
    recipe: R,
    key: SenderKey,
    seen: usize,
    /// It takes somebody for the leader who is not, and misses what is decided.
    misled: bool,
}

struct Bus<R> {
    rng: Rng,
    order: Vec<Ordered>,
    members: Vec<Member<R>>,
    leader: Option<(usize, Fence)>,
    keys: u32,
}

fn name(at: usize) -> CandidateId {
    CandidateId([at as u8 + 1; 16])
}

impl<R: Recipe> Bus<R> {
    fn new(seed: u64, recipe: impl Fn(CandidateId) -> R) -> Self {
        let key = |at: usize| (NodeId(at as u16), ClientId(0));
        let members = (0..MEMBERS).map(|at| Member {
            desk: Desk::new(),
            recipe: recipe(name(at)),
            key: key(at),
            seen: 0,
            misled: false,
        });
        let mut bus =
            Self { rng: Rng::new(seed), order: Vec::new(), members: members.collect(), leader: None, keys: 0 };
        bus.tell_members();
        bus.elect();
        bus
    }

    fn tell_members(&mut self) {
        self.order.push(Ordered::Members(self.members.iter().map(|member| member.key).collect()));
    }

    fn elect(&mut self) {
        let at = self.rng.below(MEMBERS as u64) as usize;
        self.keys += 1;
        let fence = Fence::new(1, u128::from(self.keys));
        self.leader = Some((at, fence));
        self.put_right(at);
    }

    /// A member loses its connection: what was on its way to it is lost.
    fn cut(&mut self, at: usize) {
        self.keys += 1;
        let member = &mut self.members[at];
        member.key.1 = ClientId(self.keys);
        member.desk.handle_hole(&mut member.recipe);
        member.seen = self.order.len();
        self.tell_members();
    }

    /// A follower begins to take somebody for the leader who is not.
    fn mislead(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.misled = true;
        member.desk.handle_leader(&mut member.recipe, Fence::new(2, 1));
    }

    /// It finds out who leads: a renewal tells it.
    fn put_right(&mut self, at: usize) {
        let Some((_, fence)) = self.leader else { return };
        let member = &mut self.members[at];
        member.misled = false;
        member.desk.handle_leader(&mut member.recipe, fence);
    }

    fn step(&mut self, at: usize) {
        if self.members[at].misled && self.rng.chance(0.1) {
            self.put_right(at);
        }
        let member = &mut self.members[at];
        let mut effects = Vec::new();
        let fence = self.leader.filter(|(leader, _)| *leader == at).map(|(_, fence)| fence);
        member.desk.handle_lead(&mut member.recipe, fence);
        let behind = self.order.len() - member.seen;
        for _ in 0..self.rng.below(behind as u64 + 1) {
            let place = Fence::new(1, member.seen as u128);
            let ordered = self.order[member.seen].clone();
            member.seen += 1;
            match ordered {
                Ordered::Said(from, key, said) => member.desk.handle_said(&mut member.recipe, (name(from), key), &said),
                Ordered::Decided(..) if member.misled => {}
                Ordered::Decided(fence, decided) => {
                    effects.extend(member.desk.handle_decided(&mut member.recipe, (fence, place), &decided));
                }
                Ordered::Members(keys) => member.desk.handle_members(&mut member.recipe, keys),
            }
        }
        let late = self.rng.chance(0.01);
        while let Some(effect) = member.desk.poll(&mut member.recipe, late) {
            effects.push(effect);
        }
        let key = member.key;
        for effect in effects {
            match effect {
                DeskEffect::Say(said) => self.order.push(Ordered::Said(at, key, said)),
                // What an earlier leader decides too late is told nobody.
                DeskEffect::Decide(fence, decided) if self.leader == Some((at, fence)) => {
                    self.order.push(Ordered::Decided(fence, decided));
                }
                DeskEffect::Decide(..) => {}
            }
        }
    }

    fn shake(&mut self) {
        if self.rng.chance(0.02) {
            self.elect();
        }
        if self.rng.chance(0.02) {
            let at = self.rng.below(MEMBERS as u64) as usize;
            self.cut(at);
        }
        let at = self.rng.below(MEMBERS as u64) as usize;
        if self.leader.is_some_and(|(leader, _)| leader != at) && self.rng.chance(0.05) {
            self.mislead(at);
        }
    }
}

#[test]
fn each_job_is_finished_once_and_given_under_one_fence_to_one_worker() {
    //= L13 test
    //= L14 test
    //= L15 test
    //= L16 test
    let mut given_again = 0;
    for seed in 0..400 {
        let mut bus = Bus::new(seed, Jobs::new);
        let mut fences: BTreeMap<JobId, BTreeSet<Fence>> = BTreeMap::new();
        let mut hands: Vec<Option<Job>> = vec![None; MEMBERS];
        let (mut submitted, mut finished) = (Vec::new(), Vec::new());
        for turn in 0..4_000 {
            let calm = turn > 600;
            let at = bus.rng.below(MEMBERS as u64) as usize;
            if !calm {
                bus.shake();
                if at < 2 && bus.rng.chance(0.1) {
                    submitted.push(bus.members[at].recipe.submit(b"work"));
                }
            }
            bus.step(at);
            let jobs = &mut bus.members[at].recipe;
            while let Some((id, result)) = jobs.poll_finished() {
                assert_eq!(result, b"done");
                finished.push(id);
            }
            jobs.want(true);
            if let Some(job) = jobs.take_job() {
                // Who lags may take a job that another has by now: its fence is smaller.
                let all = fences.entry(job.id).or_default();
                assert!(all.insert(job.fence), "seed {seed}: {job:?} again");
                given_again += usize::from(all.len() > 1);
                hands[at] = Some(job);
            }
            if let Some(job) = hands[at].take_if(|_| bus.rng.chance(0.3)) {
                bus.members[at].recipe.done(&job, b"done");
            }
        }
        finished.sort_unstable();
        submitted.sort_unstable();
        let numbers = |jobs: &[JobId]| jobs.iter().map(|job| (job.submitter.0[0], job.number)).collect::<Vec<_>>();
        assert_eq!(numbers(&finished), numbers(&submitted), "seed {seed}");
    }
    assert!(given_again > 100, "{given_again} jobs were given again");
}

#[test]
fn nobody_passes_a_barrier_before_all_have_arrived() {
    let mut rounds = 0;
    for seed in 0..400 {
        let mut bus = Bus::new(seed, |me| Arrivals::new(me, MEMBERS));
        let mut waits = [0_u64; MEMBERS];
        let mut passed: Vec<Vec<u64>> = vec![Vec::new(); MEMBERS];
        bus.members.iter_mut().for_each(|member| member.recipe.arrive());
        for _ in 0..1_500 {
            if bus.rng.chance(0.3) {
                bus.shake();
            }
            let at = bus.rng.below(MEMBERS as u64) as usize;
            bus.step(at);
            if let Some(round) = bus.members[at].recipe.poll_opened() {
                waits[at] += 1;
                assert!(passed[at].last().is_none_or(|last| *last < round.number), "seed {seed}: {round:?} {passed:?}");
                passed[at].push(round.number);
                bus.members[at].recipe.arrive();
            }
        }
        rounds += waits.iter().min().unwrap();
    }
    assert!(rounds > 1_000, "{rounds} rounds");
}

#[test]
fn a_barrier_stays_shut_while_one_party_is_missing() {
    for seed in 0..100 {
        let mut bus = Bus::new(seed, |me| Arrivals::new(me, MEMBERS));
        bus.members.iter_mut().skip(1).for_each(|member| member.recipe.arrive());
        for _ in 0..500 {
            bus.shake();
            let at = bus.rng.below(MEMBERS as u64) as usize;
            bus.step(at);
            assert_eq!(bus.members[at].recipe.poll_opened(), None, "seed {seed}");
        }
        (0..MEMBERS)
            .filter(|at| bus.members[*at].misled)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|at| bus.put_right(at));
        bus.members[0].recipe.arrive();
        let mut numbers = Vec::new();
        for _ in 0..500 {
            let at = bus.rng.below(MEMBERS as u64) as usize;
            bus.step(at);
            numbers.extend(bus.members[at].recipe.poll_opened().map(|round| round.number));
        }
        assert_eq!(numbers, [1; MEMBERS], "seed {seed}");
    }
}

//! Replicas on a stage: each frame of one order to all of them, gifts, and machines that note what they took.
use crate::engine::{Base, Effect, Engine, Gift, Membership, Settings};
use crate::frame::{Frame, Peer};
use crate::line::{Line, Origin, Others, ReplicaId, Seen};
use bytes::Bytes;
use consort_types::{ClientId, MemberId};
use std::collections::VecDeque;

pub fn peer(id: u16) -> Peer {
    (MemberId::new(id, 1), ClientId(1))
}

pub fn settings(id: u16, founders: usize) -> Settings {
    let (replica, origin) = (ReplicaId(id.into()), Origin(id.into()));
    Settings { id: replica, origin, founders, forces: false, log_bytes: 10_000 }
}

pub fn engine(id: u16, founders: usize) -> Engine {
    let mut engine = Engine::new(settings(id, founders), Line::default(), Seen::default());
    engine.on_connected(peer(id));
    engine
}

pub fn membership(at: (u64, u64), members: &[u16], together: &[u16]) -> Membership {
    let set = |ids: &[u16]| ids.iter().copied().map(peer).collect();
    Membership { at, is_new_view: at.1 == 0, members: set(members), together: set(together) }
}

pub fn effects(engine: &mut Engine) -> Vec<Effect> {
    std::iter::from_fn(|| engine.next_effect()).collect()
}

/// What it says to the group.
pub fn said(engine: &mut Engine) -> Vec<Frame> {
    let sent = |effect| if let Effect::Send(frame) = effect { Some(frame) } else { None };
    effects(engine).into_iter().filter_map(sent).collect()
}

pub fn command(origin: u128, number: u64) -> Frame {
    Frame::Command { origin: Origin(origin), number, body: Bytes::from_static(b"x") }
}

/// What a machine took, by origin and number.
type Machine = Vec<(u128, u64)>;

/// A replica and its machine.
pub struct Actor {
    pub id: u16,
    pub engine: Engine,
    pub machine: Machine,
    /// How often it was told that it has parted, and whether from another history.
    pub parted: Vec<bool>,
    /// Its own commands of which it is told that they were applied.
    pub unseen: Vec<u64>,
    /// What its directory has of others.
    pub others: Option<Others>,
}

/// All replicas, and what is under way to them.
#[derive(Default)]
pub struct Stage {
    pub actors: Vec<Actor>,
    pub order: VecDeque<Frame>,
    /// Each with its donor and the one that gets it.
    gifts: VecDeque<(u16, Peer, Gift, Machine)>,
}

impl Stage {
    /// So many that found a history in view 1.
    pub fn founded(count: u16) -> Self {
        let ids: Vec<_> = (1..=count).collect();
        let mut stage = Self::default();
        ids.iter().for_each(|id| stage.enter(engine(*id, ids.len())));
        stage.change((1, 1), &ids, &[&ids[..]]);
        stage.settle();
        assert!(ids.iter().all(|id| stage.actor(*id).engine.is_current()));
        stage
    }

    pub fn enter(&mut self, engine: Engine) {
        let id = engine.id().0 as u16;
        let (parted, unseen) = Default::default();
        self.actors.push(Actor { id, engine, machine: Vec::new(), parted, unseen, others: None });
    }

    /// One that had ended is there again, with what its checkpoint has.
    pub fn restart(&mut self, id: u16, adjust: impl FnOnce(Settings) -> Settings) {
        let actor = self.actor(id);
        let (line, seen) = actor.engine.line_of_machine();
        let mut engine = Engine::new(adjust(settings(id, 3)), line, seen);
        engine.on_connected(peer(id));
        actor.engine = engine;
    }

    pub fn actor(&mut self, id: u16) -> &mut Actor {
        self.actors.iter_mut().find(|actor| actor.id == id).expect("it is on the stage")
    }

    /// All these get a membership in which these came together.
    pub fn change(&mut self, at: (u64, u64), members: &[u16], together: &[&[u16]]) {
        for set in together {
            set.iter().for_each(|id| self.actor(*id).engine.on_membership(membership(at, members, set)));
        }
        self.drain();
    }

    /// These are cut off from the others, in a view of their own in which nothing is ordered.
    pub fn cut_off(&mut self, at: (u64, u64), ids: &[u16]) {
        ids.iter().for_each(|id| self.actor(*id).engine.on_signal());
        self.change(at, ids, &[ids]);
    }

    /// These receive all that is in the order.
    pub fn deliver_to(&mut self, ids: &[u16]) {
        while let Some(frame) = self.order.pop_front() {
            ids.iter().for_each(|id| self.actor(*id).engine.on_frame(frame.clone()));
            self.drain();
        }
    }

    /// These receive all, and the gifts, until there is nothing more.
    pub fn settle_among(&mut self, ids: &[u16]) {
        loop {
            self.deliver_to(ids);
            let Some((_, to, gift, machine)) = self.gifts.pop_front() else { return };
            let there = |actor: &&mut Actor| peer(actor.id) == to && ids.contains(&actor.id);
            if let Some(actor) = self.actors.iter_mut().find(there) {
                actor.take_gift(gift, machine);
            }
            self.drain();
        }
    }

    pub fn settle(&mut self) {
        let ids: Vec<_> = self.actors.iter().map(|actor| actor.id).collect();
        self.settle_among(&ids);
    }

    /// Does what the engines say.
    pub fn drain(&mut self) {
        for at in 0..self.actors.len() {
            while let Some(effect) = self.actors[at].engine.next_effect() {
                match effect {
                    Effect::Send(frame) => self.order.push_back(frame),
                    Effect::Donate { peer, gift, .. } => {
                        let (from, machine) = (self.actors[at].id, self.actors[at].machine.clone());
                        self.gifts.push_back((from, peer, *gift, machine));
                    }
                    Effect::StopDonating { id } => {
                        let from = self.actors[at].id;
                        self.gifts.retain(|gift| gift.0 != from || gift.1 != peer(id.0 as u16));
                    }
                    Effect::Apply { entry, .. } => self.actors[at].machine.push((entry.origin.0, entry.number)),
                    Effect::Unseen { number } => self.actors[at].unseen.push(number),
                    Effect::Remember(others) => self.actors[at].others = Some(others),
                    _ => {}
                }
            }
        }
    }

    /// What is under way as gifts is lost with their donor.
    pub fn lose_gifts(&mut self) {
        self.gifts.clear();
    }

    /// What is under way to those that lag begins to come, from this one.
    pub fn begin_gifts(&mut self, from: u16) {
        let under_way: Vec<_> = self.gifts.iter().map(|(_, to, gift, _)| (*to, gift.ask)).collect();
        for (to, ask) in under_way {
            self.actors.iter_mut().filter(|actor| peer(actor.id) == to).for_each(|actor| {
                actor.engine.on_served(ask, peer(from));
            });
        }
    }

    /// What is under way to this one comes.
    pub fn take_gift(&mut self, id: u16) {
        self.receive_gift(id);
        self.drain();
    }

    fn receive_gift(&mut self, id: u16) {
        let at = self.gifts.iter().position(|gift| gift.1 == peer(id)).expect("it is sent what it lacks");
        let (_, _, gift, machine) = self.gifts.remove(at).expect("it is there");
        self.actor(id).take_gift(gift, machine);
    }

    /// The same, with a look at what the engine then wants, in its order.
    pub fn take_gift_into(&mut self, id: u16, look: impl FnOnce(&[Effect])) {
        self.receive_gift(id);
        look(&effects(&mut self.actor(id).engine));
    }

    /// The same, and what it then says comes to all.
    pub fn give_to(&mut self, id: u16) {
        self.take_gift(id);
        let ids: Vec<_> = self.actors.iter().map(|actor| actor.id).collect();
        self.deliver_to(&ids);
    }

    pub fn gifts(&self) -> usize {
        self.gifts.len()
    }

    /// All are up to date, and all machines alike.
    pub fn assert_one_state(&mut self, ids: &[u16], state: &[(u128, u64)]) {
        for id in ids {
            let actor = self.actor(*id);
            assert!(actor.engine.is_current(), "{id}: {}", actor.engine.waits_for());
            assert_eq!(actor.machine, state, "{id}");
        }
    }
}

impl Actor {
    fn take_gift(&mut self, gift: Gift, machine: Machine) {
        if !self.engine.awaits(gift.ask) {
            return;
        }
        if self.engine.has_parted(&gift) {
            self.parted.push(gift.line.history != self.engine.history());
        }
        if matches!(gift.base, Base::Snapshot { .. }) {
            self.machine = machine;
        }
        self.engine.on_gift(gift);
    }
}

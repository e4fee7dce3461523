//! Forming: the configured members find each other. Two rotations of one small packet: the first collects who lives, the
//! second tells everybody, so that no member numbers a message before all agree on who the members are.
//!
//! Leaves for Operational when the second rotation has come back (the representative), or with the first regular packet
//! of the agreed ring (the others). It never returns: a configured membership does not change.
use crate::RingId;
use crate::engine::Io;
use crate::packet::{Form, Packet};
use crate::timer::Timer;
use consort_order::To;
use consort_types::{Cause, Incarnation, Instant, MemberId, NodeId, Primary, View, ViewKind};
use consort_wire::Lane;
use std::collections::BTreeMap;

/// The state's data.
#[derive(Debug, Default)]
pub(crate) struct Forming {
    /// The proposal this node takes part in.
    ring: RingId,
    /// What this node passed on last, for sending again.
    sent: Option<Form>,
    /// The agreed members, once the second rotation came by.
    agreed: Option<Vec<MemberId>>,
    /// The latest life heard of each node.
    heard: BTreeMap<NodeId, Incarnation>,
}

impl Forming {
    /// Begins. A ring of one is complete at once.
    pub fn start(&mut self, io: &mut Io, now: Instant) -> Option<View> {
        //= R31
        if io.config.members.len() == 1 {
            self.ring = RingId { number: 1, representative: io.me };
            return Some(view(self.ring, vec![io.me], io.me));
        }
        if is_representative(io) {
            self.propose(io, now);
        }
        None
    }

    /// The representative proposes a ring with a number not used before in this life.
    pub fn propose(&mut self, io: &mut Io, now: Instant) {
        //= R2
        self.ring = RingId { number: self.ring.number + 1, representative: io.me };
        self.agreed = None;
        // Long enough for both rotations even if every packet must be sent twice.
        let patience = io.config.timers.token_loss + io.config.timers.form * 4 * io.config.members.len() as u32;
        io.timers.arm(Timer::Propose, now + patience);
        self.pass_on(io, now, Form { ring: self.ring, rotation: 1, members: vec![io.me] });
    }

    fn pass_on(&mut self, io: &mut Io, now: Instant, form: Form) {
        let successor = neighbours(io).1;
        io.send(To::One(successor), Lane::Token, Packet::Form(form.clone()));
        io.timers.arm(Timer::Form, now + io.config.timers.form);
        self.sent = Some(form);
    }

    /// No sign of progress since this node passed the packet on.
    pub fn on_form_again(&mut self, io: &mut Io, now: Instant) {
        if let Some(form) = self.sent.take() {
            self.pass_on(io, now, form);
        }
    }

    /// Takes part in a rotation; returns the view once the second has come back to the representative.
    pub fn on_form(&mut self, io: &mut Io, now: Instant, from: MemberId, form: Form) -> Option<View> {
        //= R3
        let latest = self.heard.entry(from.node).or_default();
        if from.incarnation < *latest {
            io.counters.old_incarnation += 1;
            return None;
        }
        *latest = from.incarnation;
        if from.node != neighbours(io).0 || form.ring.representative.node != io.config.members[0] {
            io.counters.wrong_sender += 1;
            return None;
        }
        if is_representative(io) { self.on_return(io, now, form) } else { self.on_visit(io, now, form) }
    }

    fn on_return(&mut self, io: &mut Io, now: Instant, form: Form) -> Option<View> {
        let complete = form.ring == self.ring && self.is_complete(io, &form.members);
        match (complete, form.rotation, &self.agreed) {
            (true, 1, None) => {
                self.agreed = Some(form.members.clone());
                self.pass_on(io, now, Form { rotation: 2, ..form });
                None
            }
            (true, 2, Some(agreed)) if *agreed == form.members => Some(view(self.ring, form.members, io.me)),
            _ => {
                io.counters.unexpected += 1;
                None
            }
        }
    }

    fn on_visit(&mut self, io: &mut Io, now: Instant, mut form: Form) -> Option<View> {
        let newer = newness(form.ring) > newness(self.ring);
        let place = io.config.members.iter().position(|node| *node == io.me.node).unwrap_or(0);
        let mine = match form.rotation {
            1 => newer && form.members.len() == place && self.matches(io, &form.members),
            _ => form.ring == self.ring && self.agreed.is_none() && self.is_complete(io, &form.members),
        };
        if !mine {
            io.counters.unexpected += 1;
            return None;
        }
        if form.rotation == 1 {
            self.ring = form.ring;
            self.agreed = None;
            form.members.push(io.me);
        } else {
            self.agreed = Some(form.members.clone());
        }
        self.pass_on(io, now, form);
        None
    }

    /// Whether the members found are the first of the configured ones.
    fn matches(&self, io: &Io, members: &[MemberId]) -> bool {
        members.iter().map(|member| member.node).eq(io.config.members.iter().copied().take(members.len()))
    }

    fn is_complete(&self, io: &Io, members: &[MemberId]) -> bool {
        members.len() == io.config.members.len() && self.matches(io, members) && members.contains(&io.me)
    }

    /// The view of this ring, if all its members are known to agree on it: its regular packets are proof that the
    /// second rotation went all the way round.
    pub fn agreed_view(&mut self, ring: RingId, me: MemberId) -> Option<View> {
        //= R4
        let members = self.agreed.take_if(|_| ring == self.ring)?;
        Some(view(self.ring, members, me))
    }

    /// For `status`.
    pub fn describe(&self, io: &Io) -> String {
        let silent: Vec<_> = io.config.members.iter().filter(|node| **node != io.me.node).collect();
        let silent: Vec<_> =
            silent.into_iter().filter(|node| !self.heard.contains_key(node)).map(|n| n.to_string()).collect();
        let (n, predecessor) = (io.config.members.len(), neighbours(io).0);
        match (&self.agreed, self.heard.get(&predecessor)) {
            (Some(_), _) => format!("forming: all {n} members agree, waiting for the first token"),
            (None, Some(_)) => format!("forming: {predecessor} is up, waiting for the rest of {n} members"),
            (None, None) => format!("forming: nothing heard yet from {}", silent.join(", ")),
        }
    }
}

/// A later life of the representative proposes anew from 1.
const fn newness(ring: RingId) -> (u64, u64) {
    (ring.representative.incarnation.0, ring.number)
}

fn is_representative(io: &Io) -> bool {
    //= R1
    io.config.members[0] == io.me.node
}

/// The nodes before and after this one on the ring.
fn neighbours(io: &Io) -> (NodeId, NodeId) {
    //= R1
    let members = &io.config.members;
    let place = members.iter().position(|node| *node == io.me.node).unwrap_or(0);
    let n = members.len();
    (members[(place + n - 1) % n], members[(place + 1) % n])
}

fn view(ring: RingId, members: Vec<MemberId>, me: MemberId) -> View {
    let moved_together = members.iter().copied().filter(|member| *member == me).collect();
    View { id: ring, kind: ViewKind::Regular, members, moved_together, primary: Primary::No, cause: Cause::Formed }
}

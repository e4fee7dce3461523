//! What nodes read, so that gateways need not send on the rest.
use super::{MultiRing, Stage};
use crate::carrier::{CarrierContent, Echo, READS, Reads};
use crate::key::RingNumber;
use crate::tree::Tree;
use consort_order::Topic;
use consort_types::{MemberId, View};
use std::collections::{BTreeMap, BTreeSet};

/// What this node reads.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnReads {
    /// Counts what it was told of that.
    version: u64,
    /// Since which version it reads each topic; none while it reads everything.
    topics: Option<BTreeMap<Topic, u64>>,
}

/// What the members of a view have told that they read.
#[derive(Clone, Debug)]
pub(super) struct Readership {
    /// This node, by its index.
    me: usize,
    /// What each member said last.
    told: Vec<Option<Reads>>,
    /// The other gateways, and which word of this node each of them has echoed.
    echoed: BTreeMap<usize, u64>,
    /// The first own word of this view: gateways never knew less.
    first: u64,
    /// The last own word.
    last: u64,
    /// It has not come back yet.
    telling: bool,
}

impl OwnReads {
    /// Takes up another set; false where it is the same.
    pub fn set(&mut self, topics: &[Topic]) -> bool {
        //= TM52
        let old = self.topics.as_ref();
        if old.is_some_and(|old| old.len() == topics.len() && topics.iter().all(|topic| old.contains_key(topic))) {
            return false;
        }
        self.version += 1;
        let since = |topic: &Topic| match old {
            Some(old) => old.get(topic).copied().unwrap_or(self.version),
            // Until now it read everything.
            None => 0,
        };
        self.topics = Some(topics.iter().map(|topic| (*topic, since(topic))).collect());
        true
    }
}

impl Readership {
    /// Nobody has told anything, so all read everything.
    pub fn new(tree: &Tree, view: &View, me: usize) -> Self {
        let gateways = view.members.iter().enumerate().filter(|(_, member)| tree.is_gateway(**member));
        let others = gateways.map(|(index, _)| (index, 0)).filter(|(index, _)| *index != me);
        let told = vec![None; view.members.len()];
        Self { me, told, echoed: others.collect(), first: 0, last: 0, telling: false }
    }

    /// Up to which own word all other gateways hold nothing back.
    fn heard(&self) -> u64 {
        self.echoed.values().copied().min().unwrap_or(u64::MAX)
    }
}

impl MultiRing {
    /// Whether all gateways hold nothing back of a topic, and what this node sends from here on stands behind what they did.
    pub(super) fn is_read(&self, topic: Topic) -> bool {
        //= TM53
        let Some(topics) = &self.own_reads.topics else { return true };
        let Some(since) = topics.get(&topic) else { return false };
        let at_once = crate::mutated!(self.config, ReadsAtOnce);
        self.room.as_ref().is_none_or(|room| {
            let readership = &room.readership;
            let nearest = readership.echoed.values().copied().max().unwrap_or(u64::MAX);
            let heard = if crate::mutated!(self.config, OneEcho) { nearest } else { readership.heard() };
            *since <= readership.first.max(heard) || at_once
        })
    }

    /// A view begins: what this node reads by now is told before anything is held back.
    pub(super) fn begin_reads(&mut self) {
        //= TM52
        let version = self.own_reads.version;
        if let Some(room) = &mut self.room {
            room.readership.first = version;
        }
        self.tell_reads();
    }

    /// Tells what this node reads, if that is news to gateways and the last word has come back.
    pub(super) fn tell_reads(&mut self) -> bool {
        //= TM52
        let version = self.own_reads.version;
        let Some(topics) = &self.own_reads.topics else { return false };
        let Some(room) = self.room.as_mut().filter(|_| matches!(self.stage, Stage::Open)) else { return false };
        let readership = &mut room.readership;
        if readership.echoed.is_empty() || readership.telling || readership.last == version {
            return false;
        }
        let Ok(member) = u16::try_from(readership.me) else { return false };
        (readership.last, readership.telling) = (version, true);
        let topics = (topics.len() <= READS).then(|| topics.keys().copied().collect());
        let (view, reads) = (room.view.id, Reads { member, version, topics });
        self.counters.reads_sent += 1;
        for ring in self.carried_but(None) {
            self.put(ring, view, CarrierContent::Reads(reads.clone()));
        }
        true
    }

    /// A member told what it reads: a gateway sends that on, and echoes.
    pub(super) fn on_reads(&mut self, (ring, sender): (RingNumber, MemberId), reads: Reads) {
        //= TM52
        //= TM53
        let me = self.me();
        let home = self.home();
        let others = self.carried_but(Some(ring));
        let Some(room) = &mut self.room else { return };
        let (view, member, readership) = (room.view.id, usize::from(reads.member), &mut room.readership);
        if sender == me {
            readership.telling &= member != readership.me || Some(ring) != home;
            return;
        }
        let Some(told) = readership.told.get_mut(member) else { return };
        if told.as_ref().is_some_and(|told| told.version >= reads.version) || others.is_empty() {
            return;
        }
        *told = Some(reads.clone());
        let (gateway, version) = (readership.me as u16, reads.version);
        self.count_readers(ring, member);
        for other in others {
            self.put(other, view, CarrierContent::Reads(reads.clone()));
        }
        if !crate::mutated!(self.config, EchoWithheld) {
            self.counters.echoes_sent += 1;
            self.put(ring, view, CarrierContent::Echo(Echo { gateway, member: reads.member, version }));
        }
    }

    /// A gateway has heard what a member reads: that goes on to the member.
    pub(super) fn on_echo(&mut self, (ring, sender): (RingNumber, MemberId), echo: Echo) {
        //= TM53
        let me = self.me();
        let Some(room) = self.room.as_mut().filter(|_| sender != me) else { return };
        let (view, member) = (room.view.id, usize::from(echo.member));
        if member == room.readership.me {
            if let Some(echoed) = room.readership.echoed.get_mut(&usize::from(echo.gateway)) {
                *echoed = echo.version.max(*echoed);
            }
            return;
        }
        let Some(member) = room.view.members.get(member).copied() else { return };
        if let Some(other) = self.carried_but(Some(ring)).into_iter().find(|other| self.lies_beyond(*other, member)) {
            self.put(other, view, CarrierContent::Echo(echo));
        }
    }

    /// Whether a member lies on the side of a ring by which messages come to this node.
    fn lies_beyond(&self, ring: RingNumber, member: MemberId) -> bool {
        let in_view = self.ports.get(&ring).and_then(|port| port.in_view);
        let tree = self.room.as_ref().map(|room| &room.tree);
        tree.zip(in_view).is_some_and(|(tree, number)| tree.is_beyond(number, member))
    }

    /// Who lies on the side of a ring has told something.
    fn count_readers(&mut self, ring: RingNumber, teller: usize) {
        //= TM50
        let last_only = crate::mutated!(self.config, LastTellerOnly);
        let blind = crate::mutated!(self.config, NextRingOnly);
        let deaf = crate::mutated!(self.config, UntoldReadNothing);
        let (Some(room), Some(port)) = (&self.room, self.ports.get_mut(&ring)) else { return };
        let members = room.view.members.iter().zip(&room.readership.told).enumerate();
        let Some(number) = port.in_view else { return };
        let beyond = members.filter(|(_, (member, _))| {
            let near = || room.tree.carrying(number).is_some_and(|near| near.contains(member));
            room.tree.is_beyond(number, **member) && (!blind || near())
        });
        let mut readers = Some(BTreeSet::new());
        for (_, (_, told)) in beyond.filter(|(index, _)| *index == teller || !last_only) {
            match told.as_ref().and_then(|told| told.topics.as_ref()) {
                Some(topics) => readers.iter_mut().for_each(|readers| readers.extend(topics.iter().copied())),
                None if deaf => {}
                None => readers = None,
            }
        }
        port.readers = readers;
    }
}

//! What must hold in each world.
use crate::NODES;
use bytes::Bytes;
use consort_paxos::Paxos;
use consort_paxos::ballot::{Ballot, Item};
use consort_paxos::packet::{Content, Packet};
use consort_paxos::record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// What has happened that later steps are judged by.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// What stands at each instance, for ever.
    chosen: BTreeMap<u64, Item>,
    /// Whose disk ever held an accept of an item at an instance by a ballot.
    accepts: BTreeMap<(u64, Ballot), (Item, BTreeSet<usize>)>,
    /// By what highest ballot each node has ever promised or voted, as far as others can know.
    told: [Ballot; NODES],
    broken: Option<String>,
    /// Something of this is new.
    changed: bool,
}

impl Judge {
    /// What is broken, if anything.
    ///
    /// # Errors
    /// What is broken.
    pub fn verdict(&self) -> Result<(), String> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Whether anything is new since this was asked last.
    pub const fn has_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }

    fn note(&mut self, holds: bool, how: impl FnOnce() -> String) {
        if !holds && self.broken.is_none() {
            self.broken = Some(how());
        }
    }

    /// A node has read its disk.
    pub fn started(&mut self, i: usize, engine: &Paxos) {
        let told = self.told[i];
        let promised = engine.acceptor().map_or(Ballot::ZERO, |acceptor| acceptor.promised);
        self.note(promised >= told, || format!("promises: n{i} spoke by {told} and starts with {promised}"));
    }

    /// A node has lost its disk: others that it asks remember for it.
    pub const fn forgot(&mut self, i: usize) {
        self.told[i] = Ballot::ZERO;
        self.changed = true;
    }

    /// A record is on a disk.
    pub fn written(&mut self, i: usize, record: &Bytes) {
        let Ok(Record::Accepted { ballot, at, item, .. }) = Record::decode(record) else { return };
        let (known, by) = self.accepts.entry((at, ballot)).or_insert_with(|| (item.clone(), BTreeSet::new()));
        self.changed |= by.insert(i);
        let same = *known == item;
        self.note(same, || format!("one value for a ballot: {ballot} proposes two items for instance {at}"));
    }

    /// A packet leaves a node.
    pub fn sent(&mut self, i: usize, packet: &Packet) {
        if let Content::Promise { ballot, .. } | Content::Vote { ballot, .. } = &packet.content {
            self.changed |= *ballot > self.told[i];
            self.told[i] = self.told[i].max(*ballot);
        }
    }

    /// What a node knows to be decided.
    pub fn look(&mut self, engine: &Paxos) {
        let learner = engine.learner();
        for at in 0..learner.next() + 2 {
            let Some(item) = learner.decided(at) else { continue };
            let known = self.chosen.get(&at).cloned();
            if known.is_none() {
                self.chosen.insert(at, item.clone());
                self.changed = true;
                let full = self.accepts.range((at, Ballot::ZERO)..).take_while(|((i, _), _)| *i == at);
                let full = full.map(|(_, held)| held).any(|(held, by)| held == item && by.len() > NODES / 2);
                self.note(full, || format!("quorum: {item:?} is decided at instance {at} without a majority of disks"));
            }
            let same = known.as_ref().is_none_or(|known| known == item);
            self.note(same, || format!("one value: instance {at} is {known:?}, at {} {item:?}", engine.me()));
        }
    }
}

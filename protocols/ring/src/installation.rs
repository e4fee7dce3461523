//! The ring a member has installed: what it delivers from, and what it owes.
use crate::config::RingConfig;
use crate::delivery::Deliverer;
use crate::packet::{DataPacket, RingPacket};
use crate::store::{Inserted, Store};
use consort_order::Output;
use consort_order::SubmitQueue;
use consort_types::{MemberId, NodeId, Seq, View};
use std::collections::{BTreeSet, VecDeque};

/// The view and how far its messages are delivered.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    pub view: View,
    pub deliverer: Deliverer,
    /// Whose messages must be delivered even after a hole: those that others may have delivered because of what this
    /// member acknowledged in recoveries since the install.
    pub obligations: BTreeSet<MemberId>,
}

/// The installed ring once its token is gone: what recovery works on.
#[derive(Clone, Debug)]
pub(crate) struct Old {
    pub installed: Installation,
    pub store: Store,
    pub stable: Seq,
    /// How many packets it held when that was told, and how many were recovered since.
    pub frozen: usize,
}

impl Installation {
    pub fn new(me: MemberId, view: View, recovered: Seq) -> Self {
        let deliverer = Deliverer::new(me, &view.members, recovered);
        Self { view, deliverer, obligations: [me].into() }
    }

    /// The member with this index, if there is one.
    pub fn member(&self, node: NodeId) -> Option<MemberId> {
        self.view.members.iter().copied().find(|member| member.node == node)
    }
}

impl Old {
    /// What is held is about to be told to others: from here on only what is recovered may change it.
    pub fn freeze(&mut self) {
        self.frozen = self.store.held();
    }

    /// Puts a recovered packet back into its place.
    pub fn put_back(&mut self, data: DataPacket) {
        self.frozen += usize::from(self.store.insert(data) == Inserted::New);
    }

    /// Whether nothing but recovered packets came in since it was frozen.
    pub const fn is_as_told(&self) -> bool {
        self.store.held() == self.frozen
    }

    /// Safe messages up to here were proven stable by this member.
    pub fn line(&self) -> Seq {
        //= M22
        self.stable.max(self.installed.deliverer.delivered())
    }

    /// Delivers what belongs to the old view itself: up to the first hole or the first safe message beyond `line`.
    pub fn deliver_regular(
        &mut self,
        config: &RingConfig,
        line: Seq,
        queue: &mut SubmitQueue,
        out: &mut VecDeque<Output<RingPacket>>,
    ) {
        //= M35
        self.installed.deliverer.advance(config, &self.store, line, queue, out);
    }

    /// Delivers the rest, in the transitional view: all up to the first hole; after it only what an obligated member
    /// numbered, for others may hold what is missing, and what it depends on with it.
    pub fn deliver_transitional(
        &mut self,
        config: &RingConfig,
        queue: &mut SubmitQueue,
        out: &mut VecDeque<Output<RingPacket>>,
    ) {
        //= M36
        let obligations = &self.installed.obligations;
        let all = crate::mutated!(config, GapIgnored);
        let owed = |member: MemberId| all || obligations.contains(&member);
        self.installed.deliverer.finish(config, &self.store, owed, queue, out);
    }
}

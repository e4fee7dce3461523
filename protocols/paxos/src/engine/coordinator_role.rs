//! This node as a coordinator.
use super::{Paxos, Peer, Then};
use crate::acceptor::{Answer, latest};
use crate::ballot::{Ballot, Incarnations, Item};
use crate::coordinator::{Leading, Open, Role};
use crate::packet::{Content, Lead, Told};
use crate::record::Record;
use consort_types::{Duration, Instant, MemberId, NodeId};

/// How far a node may be behind when it is let in.
pub(super) const CAUGHT_UP: u64 = 512;
/// More instances without anything accepted than the windows of earlier ballots leave.
const HOLES: usize = 4_096;

impl Paxos {
    pub(crate) fn begin_to_stand(&mut self, now: Instant) {
        //= X02
        //= X03
        if !self.has_room() {
            return;
        }
        let Some(acceptor) = &mut self.acceptor else { return };
        let known = self.round.max(acceptor.promised.round);
        let round = if crate::mutated!(self.config, RoundReused) { known.max(1) } else { known + 1 };
        let owner = if crate::mutated!(self.config, BallotWithoutIncarnation) {
            MemberId::new(self.me.node.0, 0)
        } else {
            self.me
        };
        let ballot = Ballot { generation: 0, round, owner };
        if acceptor.prepare(ballot) == Answer::Refused {
            return;
        }
        self.round = round;
        self.role = Role::Standing { ballot };
        self.keep(now, &Record::Promised(ballot), Then::Stand(ballot));
        if crate::mutated!(self.config, StandsUnkept) {
            self.stand(now, ballot);
        }
    }

    /// The own promise is kept: the ballot may be used.
    pub(super) fn stand(&mut self, now: Instant, ballot: Ballot) {
        let standing = matches!(self.role, Role::Standing { ballot: own } if own == ballot);
        let promised = self.acceptor.as_ref().is_some_and(|acceptor| acceptor.promised == ballot);
        if !(standing && promised) {
            return;
        }
        self.role = Role::Preparing { ballot, since: now, promises: std::collections::BTreeMap::new() };
        self.ask_for_promises(now);
    }

    pub(super) fn ask_for_promises(&mut self, now: Instant) {
        let Role::Preparing { ballot, since, promises } = &self.role else { return };
        let (ballot, from) = (*ballot, self.learner.next());
        if now.since(*since) > self.config.lease {
            return self.rest(now);
        }
        let told: Vec<_> = promises.keys().map(|incarnation| incarnation.node).collect();
        for node in self.config.acceptors.clone() {
            if !told.contains(&node) {
                self.send(node, Content::Prepare { ballot, from });
            }
        }
    }

    /// Gives up leading for a while, each time another.
    pub(super) fn rest(&mut self, now: Instant) {
        let some = Duration::from_nanos(self.rng.below(self.config.lease.as_nanos() as u64));
        self.role = Role::Follower { stand_at: now + self.config.beat + some };
    }

    pub(super) fn on_promise(&mut self, now: Instant, from: MemberId, ballot: Ballot, told: Told) {
        self.began.all.merge(&told.incarnations);
        if let Role::Preparing { ballot: own, promises, .. } = &mut self.role
            && *own == ballot
        {
            promises.insert(from, told);
            self.lead_if_promised(now);
        }
    }

    /// Leads once a majority has promised, all below is learnt, and the payloads of all that was accepted are held.
    pub(super) fn lead_if_promised(&mut self, now: Instant) {
        let Role::Preparing { ballot, promises, .. } = &self.role else { return };
        //= X31
        let all = crate::mutated!(self.config, OldPromisesCount);
        let counts = |(incarnation, _): &(&MemberId, &Told)| {
            all || !self.began.all.outdates(**incarnation) && !self.is_put_back(**incarnation)
        };
        let told: Vec<_> =
            promises.iter().filter(counts).map(|(incarnation, told)| (*incarnation, told.clone())).collect();
        if told.len() < self.config.quorum() {
            return;
        }
        let (mut from, best) = latest(told.iter().map(|(_, told)| told), self.learner.next());
        if crate::mutated!(self.config, StartsBelow) {
            from = self.learner.next();
        }
        if self.learner.next() < from {
            return self.learn(now);
        }
        //= X15
        let missing = self.missing(&best);
        if !missing.is_empty() && !crate::mutated!(self.config, InheritsUnheld) {
            let holders: Vec<_> = told.iter().map(|(incarnation, _)| incarnation.node).collect();
            return self.fetch(now, &missing, &holders);
        }
        let ballot = *ballot;
        let next = best.keys().next_back().map_or(from, |last| last + 1);
        //= X76
        if next - from > (HOLES.max(self.config.window * 4) + best.len()) as u64 {
            return self.rest(now);
        }
        self.counters.led += 1;
        self.advised.begins_to_lead(now);
        self.role = Role::Leading(Box::new(Leading::new(ballot, next)));
        self.grant_time(now);
        self.form_ring(now);
        for at in from..next {
            let known = best.get(&at).filter(|_| !crate::mutated!(self.config, AcceptedIgnored));
            let item = known.map_or(Item::Nothing, |(_, item)| item.clone());
            self.propose(now, at, item);
        }
        self.beat_at = now;
    }

    /// A coordinator that has just been chosen has a lease to make itself heard.
    fn grant_time(&mut self, now: Instant) {
        let acceptors = self.config.acceptors.clone();
        if let Role::Leading(leading) = &mut self.role {
            leading.heard = acceptors.into_iter().map(|node| (node, now)).collect();
        }
    }

    pub(super) fn on_nack(&mut self, now: Instant, ballot: Ballot, promised: Ballot) {
        self.round = self.round.max(promised.round);
        let own = match &self.role {
            Role::Follower { .. } => return,
            Role::Standing { ballot } | Role::Preparing { ballot, .. } => *ballot,
            Role::Leading(leading) => leading.ballot,
        };
        // One that leads is not stopped by an acceptor that only waits for somebody else's lease to end.
        if own == ballot && (promised > ballot || matches!(self.role, Role::Preparing { .. })) {
            self.rest(now);
        }
    }

    /// Another leads by a later ballot.
    pub(super) fn step_down_before(&mut self, now: Instant, later: Ballot) {
        let own = match &self.role {
            Role::Follower { .. } => return,
            Role::Standing { ballot } | Role::Preparing { ballot, .. } => *ballot,
            Role::Leading(leading) => leading.ballot,
        };
        if later > own {
            self.rest(now);
        }
    }

    /// What a coordinator says of itself.
    pub(super) fn lead(&self) -> Option<Lead> {
        let Role::Leading(leading) = &self.role else { return None };
        Some(Lead { ballot: leading.ballot, version: leading.version, ring: leading.ring.clone() })
    }

    pub(super) fn propose(&mut self, now: Instant, at: u64, item: Item) {
        let bytes = match &item {
            Item::Value(id) => self.payload(id).map_or(0, |body| body.as_bytes().len()),
            _ => 0,
        };
        let Role::Leading(leading) = &mut self.role else { return };
        let ballot = leading.ballot;
        let votes = Default::default();
        leading.open.insert(at, Open { item: item.clone(), bytes, votes, at: now });
        let hops = (leading.ring.len() as u16).saturating_sub(1);
        self.counters.proposed += 1;
        if hops > 0 {
            self.pass_on(Content::Accept { ballot, at, item: item.clone(), hops: hops - 1 });
        }
        self.loopback.push_back(Content::Accept { ballot, at, item, hops: 0 });
    }

    /// Proposes values in their senders' order, as far as the window allows.
    pub(super) fn propose_values(&mut self, now: Instant) {
        while let Some(id) = self.next_to_propose() {
            let Role::Leading(leading) = &mut self.role else { return };
            let at = leading.next;
            leading.next += 1;
            leading.offered.insert(id.sender, id.number);
            self.propose(now, at, Item::Value(id));
        }
    }

    fn next_to_propose(&self) -> Option<crate::ballot::ValueId> {
        //= X16
        //= X27
        let Role::Leading(leading) = &self.role else { return None };
        let untaken = leading.next.saturating_sub(self.learner.next()) as usize;
        let counted = if crate::mutated!(self.config, DecidedUncounted) { 0 } else { untaken };
        let open = leading.open.len().max(counted);
        let full = open >= self.config.window || leading.bytes() >= self.config.window_bytes;
        let full = full && !crate::mutated!(self.config, WindowIgnored);
        let inherits = self.learner.next() < leading.inherited && !crate::mutated!(self.config, InheritedOvertaken);
        if full || inherits || leading.changes() {
            return None;
        }
        let present = self.learner.present();
        let next = present.last.iter().map(|(sender, last)| {
            let number = leading.offered.get(sender).unwrap_or(last) + 1;
            crate::ballot::ValueId { sender: *sender, view: present.number, number }
        });
        // Those who have had least go first.
        let unheld = crate::mutated!(self.config, ProposesUnheld);
        next.filter(|id| self.pool.contains_key(id) || unheld && id.number == 1).min_by_key(|id| id.number)
    }

    pub(super) fn on_vote(
        &mut self,
        now: Instant,
        from: MemberId,
        ballot: Ballot,
        at: u64,
        incarnations: &Incarnations,
    ) {
        //= X31
        self.began.all.merge(incarnations);
        let quorum = self.config.quorum();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(open) = leading.open.get_mut(&at).filter(|_| leading.ballot == ballot) else { return };
        let twice = crate::mutated!(self.config, VotesCounted) && open.votes.holds(from);
        open.votes.add(if twice { nobody(from) } else { from });
        let old = crate::mutated!(self.config, OldVotesCount).then(Incarnations::default);
        //= X25
        if open.votes.count(old.as_ref().unwrap_or(&self.began.all)) < quorum {
            return;
        }
        let Some(open) = leading.open.remove(&at) else { return };
        let hops = (leading.ring.len() as u16).saturating_sub(1);
        self.counters.decided += 1;
        if hops > 0 {
            self.pass_on(Content::Decide { at, item: open.item.clone(), hops: hops - 1 });
        }
        self.on_decide(now, at, open.item, 0);
    }

    /// Whether it leads, and a quorum waits for it.
    pub(super) fn holds_lease(&self, now: Instant) -> bool {
        //= X70
        let Role::Leading(leading) = &self.role else { return false };
        now < leading.lease_until(self.config.quorum(), self.config.lease)
    }

    /// What a coordinator does at intervals.
    pub(super) fn lead_on(&mut self, now: Instant) {
        self.ask_for_promises(now);
        self.lead_if_promised(now);
        if !matches!(self.role, Role::Leading(_)) {
            return;
        }
        //= X71
        if !self.holds_lease(now) && !crate::mutated!(self.config, LeadsForEver) {
            return self.rest(now);
        }
        if self.hand_over(now) {
            return;
        }
        self.form_ring(now);
        self.ask_for_votes(now);
        self.propose_view(now);
        self.propose_values(now);
    }

    /// Votes that are missing are asked for directly: whatever happened to the ring, this gets through.
    pub(super) fn ask_for_votes(&mut self, now: Instant) {
        //= X24
        if crate::mutated!(self.config, AcceptsOnce) {
            return;
        }
        let Role::Leading(leading) = &mut self.role else { return };
        let (ballot, retry, mut asks) = (leading.ballot, self.config.retry, Vec::new());
        for (at, open) in leading.open.iter_mut().filter(|(_, open)| now.since(open.at) >= retry) {
            open.at = now;
            let incarnation = |node: &NodeId| self.began.all.iter().find(|incarnation| incarnation.node == *node);
            let lacks = |node: &&NodeId| !incarnation(node).is_some_and(|incarnation| open.votes.holds(incarnation));
            asks.extend(self.config.acceptors.iter().filter(lacks).map(|node| (*node, *at, open.item.clone())));
        }
        self.counters.retried += asks.len() as u64;
        for (node, at, item) in asks {
            self.send(node, Content::Accept { ballot, at, item, hops: 0 });
        }
    }

    /// Everybody who is heard and hears, each next to one that it hears.
    fn form_ring(&mut self, now: Instant) {
        //= X60
        let mut left: Vec<_> = self.peers.values().filter(|peer| self.is_ringed(peer, now)).collect();
        left.sort_by_key(|peer| self.advised.place(self.me.node, peer.member.node));
        let mut ring = vec![self.me.node];
        while !left.is_empty() {
            let last = *ring.last().unwrap_or(&self.me.node);
            let hears = |peer: &Peer, node| peer.beat.hears.iter().any(|incarnation| incarnation.node == node);
            let follows = |peer: &&Peer| {
                last == self.me.node
                    || hears(peer, last) && self.peers.get(&last).is_some_and(|before| hears(before, peer.member.node))
            };
            let Some(at) = left.iter().position(follows) else { break };
            ring.push(left.remove(at).member.node);
        }
        let Role::Leading(leading) = &mut self.role else { return };
        let stays = crate::mutated!(self.config, RingUnmended) && leading.version > 0;
        if leading.ring != ring && !stays {
            leading.ring = ring;
            leading.version += 1;
            self.leader = self.lead();
        }
    }

    pub(super) fn is_ringed(&self, peer: &Peer, now: Instant) -> bool {
        peer.log == self.log && self.is_mutual(peer, now) && now.since(peer.at) < self.config.lease
    }

    /// Proposes a view where others are there than the present one says.
    fn propose_view(&mut self, now: Instant) {
        //= X73
        let Role::Leading(leading) = &self.role else { return };
        if self.learner.next() < leading.inherited || leading.changes() {
            return;
        }
        let present = self.learner.present();
        let members = self.who_should_be(now);
        if members.is_empty() || members.iter().eq(present.last.keys()) {
            self.note_change(None);
            return self.propose_primary(now);
        }
        let since = leading.change_since.unwrap_or(now);
        let whole = members.len() == self.config.members.len();
        let wait = if present.number == 0 && !whole { self.config.lease } else { self.config.beat * 2 };
        if now.since(since) < wait {
            return self.note_change(Some(since));
        }
        //= X43
        let latest = members.iter().map(|incarnation| incarnation.incarnation.0).max().unwrap_or(0).clamp(1, 1 << 61);
        let number = latest.max(present.number + 1);
        let (item, at) = (Item::View { number, after: present.number, members }, leading.next);
        self.note_change(None);
        if let Role::Leading(leading) = &mut self.role {
            leading.next += 1;
        }
        self.propose(now, at, item);
    }

    /// Once every member has installed the view, that is decided, too.
    fn propose_primary(&mut self, now: Instant) {
        //= X47
        let present = self.learner.present();
        let in_view = |member: &MemberId| match self.peers.get(&member.node) {
            Some(peer) => peer.member == *member && peer.beat.view == present.number,
            None => *member == self.me && self.installed_view() == present.number,
        };
        let all = present.last.keys().all(in_view) || crate::mutated!(self.config, PrimaryUnasked);
        let Role::Leading(leading) = &mut self.role else { return };
        let asked = leading.open.values().any(|open| open.item == Item::Primary(present.number));
        if present.primary || asked || present.number == 0 || !all {
            return;
        }
        let at = leading.next;
        leading.next += 1;
        let number = present.number;
        self.propose(now, at, Item::Primary(number));
    }

    fn note_change(&mut self, since: Option<Instant>) {
        if let Role::Leading(leading) = &mut self.role {
            leading.change_since = since;
        }
    }

    fn who_should_be(&self, now: Instant) -> Vec<MemberId> {
        let present = self.learner.present();
        let stays = |peer: &&Peer| {
            let member = present.last.contains_key(&peer.member);
            let caught_up = peer.beat.next + CAUGHT_UP >= self.learner.next();
            peer.log == self.log && self.is_mutual(peer, now) && !peer.beat.leaving && (member || caught_up)
        };
        let mut members: Vec<_> = self.peers.values().filter(stays).map(|peer| peer.member).collect();
        if !self.is_leaving(now) {
            members.push(self.me);
        }
        members.sort_unstable();
        members
    }
}

/// One that is nobody: a broken rule counts its vote.
const fn nobody(incarnation: MemberId) -> MemberId {
    MemberId { node: NodeId(incarnation.node.0 ^ 0x4000), ..incarnation }
}

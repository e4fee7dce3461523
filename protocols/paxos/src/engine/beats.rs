//! Beats: who lives, who leads, and whose turn it is.
use super::{LeaveStage, Paxos, Peer};
use crate::ballot::LogId;
use crate::coordinator::Role;
use crate::packet::{Acceptance, Beat, Content, Lead, Packet};
use consort_order::{Destination, Lane, Output};
use consort_types::{Instant, MemberId, NodeId};

/// In so many beats before it goes a leaving node says so, whatever it still waits for.
const LAST_BEATS: u32 = 2;

impl Paxos {
    /// Whether a node was heard lately.
    pub(super) fn is_near(&self, peer: &Peer, now: Instant) -> bool {
        //= X74
        let (heard, silence) = (now.since(peer.at), self.config.silence);
        match self.links_down.get(&peer.member.node) {
            None => heard < silence,
            Some(since) => heard < self.config.lease && now.since(*since) < silence,
        }
    }

    /// Whether a node was heard lately and says that it hears this one.
    pub(super) fn is_mutual(&self, peer: &Peer, now: Instant) -> bool {
        self.is_near(peer, now) && peer.beat.hears.contains(&self.me)
    }

    pub(super) fn is_quorum_near(&self, now: Instant) -> bool {
        let near =
            |node: &&NodeId| **node == self.me.node || self.peers.get(node).is_some_and(|peer| self.is_near(peer, now));
        self.config.acceptors.iter().filter(near).count() >= self.config.quorum()
    }

    /// What is due at intervals: a beat, and whatever got lost.
    pub(super) fn on_beat_due(&mut self, now: Instant) {
        self.beat_at = now + self.config.beat;
        self.look_for_log(now);
        self.return_to_vote(now);
        self.lead_on(now);
        self.stand_if_due(now);
        self.catch_up(now);
        self.resend(now);
        self.mark();
        self.retain(now);
        self.say_good_bye(now);
        self.say_beat(now);
        if self.leave_stage == LeaveStage::Gone {
            self.output.push_back(Output::Left);
        }
    }

    fn say_beat(&mut self, now: Instant) {
        self.beat += 1;
        if let Role::Leading(leading) = &mut self.role {
            leading.beats.push_back((self.beat, now));
            if leading.beats.len() > 64 {
                leading.beats.pop_front();
            }
            leading.heard.insert(self.me.node, now);
        }
        let sample = self.next_sample();
        let near = |peer: &&Peer| self.is_near(peer, now);
        let content = Content::Beat(Box::new(Beat {
            number: self.beat,
            acceptor: self.acceptance(),
            leaving: self.is_leaving(now),
            reserved: self.leave_stage == LeaveStage::Stays && self.reserved,
            hangs: self.disk_hangs(now),
            promised: self.acceptor.as_ref().map_or(Default::default(), |acceptor| acceptor.promised),
            next: self.learner.next(),
            sample,
            view: self.installed_view(),
            hears: self.peers.values().filter(near).map(|peer| peer.member).collect(),
            follows: self.follows,
            began: self.began.clone(),
            noted: self.noted.voters(),
            echo: self.echo,
            lead: self.lead(),
            annotation: self.annotation.clone(),
        }));
        let packet = Packet { log: self.log, content };
        self.output.push_back(Output::Send { to: Destination::All, lane: Lane::Control, packet });
    }

    /// The number of the view that it has installed; 0 for none.
    pub(super) fn installed_view(&self) -> u64 {
        //= X94
        let read = self.inside.as_ref().map_or(0, |view| view.id.number);
        self.installed.map_or(read, |installed| installed.min(read))
    }

    pub(super) fn on_beat(&mut self, now: Instant, from: MemberId, log: LogId, beat: Beat) {
        self.note_incarnation(from, log, &beat);
        if !beat.annotation.is_empty() {
            self.output.push_back(Output::Beacon { from, annotation: beat.annotation.clone() });
        }
        self.heed_memory_of(now, log, &beat);
        self.note_voter(now, from, log, &beat);
        self.peers.insert(from.node, Peer { member: from, at: now, log, beat: beat.clone() });
        self.look_for_log(now);
        self.return_to_vote(now);
        if log != self.log || log == LogId::NONE {
            return;
        }
        self.compare(from, beat.sample);
        self.round = self.round.max(beat.promised.round);
        if let (Role::Leading(leading), Some((ballot, number))) = (&mut self.role, beat.echo)
            && leading.ballot == ballot
        {
            leading.on_echo(from.node, number);
        }
        if let Some(lead) = beat.lead.filter(|lead| lead.ballot.owner == from) {
            self.heed(now, lead, beat.number);
        }
        if self.is_outbid(now, from.node) && !crate::mutated!(self.config, OutbidIgnored) {
            self.begin_to_stand(now);
        }
    }

    /// Whether this node leads by a ballot that is below what a node has promised, though each hears the other.
    fn is_outbid(&self, now: Instant, node: NodeId) -> bool {
        //= X77
        let (Role::Leading(leading), Some(peer)) = (&self.role, self.peers.get(&node)) else { return false };
        peer.beat.promised > leading.ballot && self.is_mutual(peer, now)
    }

    /// A coordinator speaks: nobody else is heeded for a while.
    fn heed(&mut self, now: Instant, lead: Lead, number: u64) {
        self.round = self.round.max(lead.ballot.round);
        let promised = self.acceptor.as_ref().map(|acceptor| acceptor.promised);
        if promised.is_some_and(|promised| promised > lead.ballot) || self.advised.is_over(lead.ballot) {
            return;
        }
        //= X70
        if let Some(acceptor) = self.acceptor.as_mut().filter(|acceptor| acceptor.votes()) {
            acceptor.lease = Some((lead.ballot.owner, now + self.config.lease));
            self.echo = Some((lead.ballot, number));
        }
        self.step_down_before(now, lead.ballot);
        //= X60
        let known = self.leader.as_ref().map_or(Default::default(), |known| (known.ballot, known.version));
        if (lead.ballot, lead.version) > known {
            self.leader = Some(lead);
            if known.0 != self.leader.as_ref().map_or(known.0, |lead| lead.ballot) {
                self.hand_in_again(now);
            }
        }
    }

    /// Stands where nobody leads, a majority can be reached, and no acceptor below this one that could stand has done so.
    fn stand_if_due(&mut self, now: Instant) {
        //= X72
        let Role::Follower { stand_at } = self.role else { return };
        let Some(acceptor) = self.acceptor.as_ref().filter(|acceptor| acceptor.votes()) else { return };
        let able = |peer: &&Peer| {
            let votes = matches!(peer.beat.acceptor, Acceptance::Fresh | Acceptance::Ready);
            votes && peer.log == self.log && self.is_mutual(peer, now)
        };
        let able: Vec<_> = self.peers.values().filter(able).map(|peer| peer.member.node).collect();
        let rests = if acceptor.is_fresh() {
            self.is_superseded(now) && !crate::mutated!(self.config, BindsSuperseded)
        } else {
            now.since(self.started) < self.config.lease
        };
        let free = acceptor.is_free_for(self.me, now) || crate::mutated!(self.config, LeaseIgnored);
        if rests || able.len() + 1 < self.config.quorum() || !free {
            self.role = Role::Follower { stand_at: Instant::ZERO };
            return;
        }
        if stand_at == Instant::ZERO {
            let before = able.iter().filter(|node| self.turn(**node) < self.turn(self.me.node)).count() as u32;
            self.role = Role::Follower { stand_at: now + self.config.beat * (2 * before) };
        }
        if let Role::Follower { stand_at } = self.role
            && now >= stand_at
        {
            self.begin_to_stand(now);
        }
    }

    /// Whether this node is to be left out of the next view: it leaves, or has other logs to read first.
    pub(super) fn is_leaving(&self, now: Instant) -> bool {
        //= X75
        match self.leave_stage {
            LeaveStage::Stays => self.reserved || self.is_member_in_name(),
            LeaveStage::Gone => true,
            LeaveStage::Leaving { until } => {
                let last = now + self.config.beat * LAST_BEATS >= until;
                self.proposer.is_done() || last && !crate::mutated!(self.config, LeavesUnsaid)
            }
        }
    }

    fn say_good_bye(&mut self, now: Instant) {
        //= X75
        let LeaveStage::Leaving { until } = self.leave_stage else { return };
        let out = self.members().is_none() && self.proposer.is_done();
        if now >= until || out && (self.is_succeeded(now) || crate::mutated!(self.config, LeavesFirst)) {
            self.leave_stage = LeaveStage::Gone;
        }
    }

    /// Whether all members of the present view that are heard have installed it.
    fn is_succeeded(&self, now: Instant) -> bool {
        let present = self.learner.present();
        let knows = |member: &MemberId| match self.peers.get(&member.node) {
            Some(peer) if peer.member == *member && self.is_near(peer, now) => peer.beat.view >= present.number,
            _ => true,
        };
        present.last.keys().all(knows)
    }
}

//! An acceptor that comes back with records: are they the newest, or were they put back to an earlier state?
//!
//! Each voting incarnation writes its own name to its disk, and a majority less one of the others have it on theirs. So an
//! acceptor whose records end at an earlier incarnation is found out by any of them.
use super::{Paxos, Peer, Then};
use crate::acceptor::{Acceptor, Standing};
use crate::ballot::{Began, LogId};
use crate::config::Storage;
use crate::coordinator::Role;
use crate::packet::{Acceptance, Beat};
use crate::record::Record;
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId};
use std::collections::BTreeMap;

/// What the others know of the records that a node has come back with.
enum Records {
    /// Enough others know of no later vote.
    Newest,
    /// A later incarnation that had forgotten may have voted.
    Older { known: Incarnation },
    /// Too few have answered; or some know of an incarnation that had forgotten, and too few to say whether it voted.
    Doubtful { by: Option<(MemberId, Incarnation)>, known_to: usize },
}

/// What lasts longer is worth a warning.
const LASTS: Duration = Duration::from_secs(2);

impl Paxos {
    /// The disk had records, which the incarnation `follows` wrote last. In memory they were carried over, and where they
    /// name none there is nothing to ask for.
    pub(super) fn begin_to_ask(&mut self, follows: Incarnation) {
        let Some(acceptor) = &mut self.acceptor else { return };
        let is_named = follows.0 > 0 || self.config.copied_in.0 > 0;
        let trusts = self.config.storage == Storage::Memory || !is_named;
        let trusts = trusts || crate::mutated!(self.config, CopiesTrusted);
        self.follows = if trusts { Incarnation(0) } else { follows };
        acceptor.standing = if trusts { Standing::Voting } else { Standing::Asking { answered: false } };
        if trusts {
            self.began.note_voter(self.me, false);
        }
    }

    /// Whether the records were found to be copies, and nothing was written since that says what they lack.
    fn is_copy(&self) -> bool {
        self.follows < self.config.copied_in
    }

    /// Other acceptors that have received beats of this incarnation and hold this node's log: what they know counts.
    fn answers(&self, now: Instant) -> impl Iterator<Item = &Peer> {
        let knows = move |peer: &&Peer| {
            let has_log = !matches!(peer.beat.acceptor, Acceptance::None | Acceptance::Blank) && peer.log == self.log;
            has_log && self.config.is_acceptor(peer.member.node) && self.is_mutual(peer, now)
        };
        self.peers.values().filter(knows)
    }

    /// How many other acceptors must have said that they know of no later vote.
    fn answers_needed(&self) -> usize {
        //= X35
        //= X36
        let others = self.config.acceptors.len() - 1;
        if self.is_copy() { self.config.quorum().min(others) } else { self.config.quorum() - 1 }
    }

    /// Goes on as far as the others' answers allow.
    pub(super) fn return_to_vote(&mut self, now: Instant) {
        match self.acceptor.as_ref().map(|acceptor| &acceptor.standing) {
            Some(Standing::Asking { answered: false }) => self.end_asking(now),
            Some(Standing::Outdated { known }) => self.give_records_up(now, *known),
            Some(Standing::Announcing { .. }) => self.end_announcing(now),
            _ => {}
        }
    }

    /// Whether this incarnation of the node is later than its records, and earlier than what it is now.
    fn is_lacked(&self, known: Incarnation) -> bool {
        self.follows.0 > 0 && self.follows < known && known < self.me.incarnation
    }

    /// What the others know of the records that this node has come back with.
    fn judge_records(&self, now: Instant) -> Records {
        //= X109
        if crate::mutated!(self.config, PutBackVotes) {
            return Records::Newest;
        }
        let me = self.me.node;
        let adopter = |peer: &&Peer| self.is_lacked(peer.beat.began.adopted.latest(me));
        let (know, mut others): (Vec<_>, Vec<_>) = self.answers(now).partition(adopter);
        // Records that are older themselves cannot have it.
        others.retain(|peer| !self.is_older(peer, now));
        let waited = now.since(self.started) >= self.config.lease;
        let all = know.len() + others.len() == self.config.acceptors.len() - 1;
        match know.last() {
            Some(peer) if know.len() >= self.config.quorum() => {
                Records::Older { known: peer.beat.began.adopted.latest(me) }
            }
            // A quorum of the others would know of its votes.
            _ if others.len() >= self.answers_needed() && (waited || all) => Records::Newest,
            Some(peer) => {
                Records::Doubtful { by: Some((peer.member, peer.beat.began.adopted.latest(me))), known_to: know.len() }
            }
            None => Records::Doubtful { by: None, known_to: 0 },
        }
    }

    fn end_asking(&mut self, now: Instant) {
        match self.judge_records(now) {
            Records::Older { known } => return self.give_records_up(now, known),
            Records::Newest if self.has_room() => {}
            Records::Newest | Records::Doubtful { .. } => return,
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Asking { answered: true };
        }
        let record = if self.has_adopted() { Record::Adopter(self.me) } else { Record::Voter(self.me) };
        self.keep(now, &record, Then::Announce);
    }

    /// The records are older than a vote: they count as lost, once the others can make up for them.
    fn give_records_up(&mut self, now: Instant, known: Incarnation) {
        //= X35
        let votes = |peer: &&Peer| matches!(peer.beat.acceptor, Acceptance::Fresh | Acceptance::Ready);
        if self.answers(now).filter(votes).count() < self.config.quorum() && !crate::mutated!(self.config, GivenUpAlone)
        {
            return;
        }
        let Some(acceptor) = &mut self.acceptor else { return };
        acceptor.standing = Standing::Blank { answers: BTreeMap::new() };
        let cause = format!(
            "the records of this node end at its incarnation {}, and others know that incarnation {known} has voted, so that \
             they were put back from a copy or a snapshot: they count as lost, and the other acceptors are asked",
            self.follows
        );
        self.follows = Incarnation(0);
        self.keep(now, &Record::Empty, Then::StartAnew { cause });
    }

    /// Whether the records are of an incarnation that had forgotten, and may not have voted since: a quorum of the others may
    /// not know of it yet.
    fn has_adopted(&self) -> bool {
        //= X109
        let (me, noted) = (self.me.node, &self.noted);
        noted.adopted.latest(me) > noted.voted.latest(me) && !crate::mutated!(self.config, AdopterForgotten)
    }

    /// The records are the newest, and this incarnation's name is among them.
    pub(super) fn announce_return(&mut self, now: Instant) {
        if matches!(self.acceptor, Some(Acceptor { standing: Standing::Asking { answered: true }, .. })) {
            let (has_adopted, quorum) = (self.has_adopted(), self.config.quorum());
            self.announce(now, if has_adopted { quorum } else { quorum - 1 }, has_adopted);
        }
    }

    /// This incarnation's name is on the disk. It votes once this number of others has it on theirs.
    pub(super) fn announce(&mut self, now: Instant, witnesses: usize, has_forgotten: bool) {
        [&mut self.began, &mut self.noted].into_iter().for_each(|began| began.note_voter(self.me, has_forgotten));
        let witnesses = if crate::mutated!(self.config, Unannounced) { 0 } else { witnesses };
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Announcing { witnesses };
        }
        if has_forgotten {
            self.beat_at = now;
        }
        self.end_announcing(now);
    }

    fn end_announcing(&mut self, now: Instant) {
        //= X35
        let Some(Acceptor { standing: Standing::Announcing { witnesses }, .. }) = self.acceptor else { return };
        if self.witnesses(now).count() < witnesses {
            return;
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Voting;
        }
        if self.has_adopted() {
            self.began.note_voter(self.me, false);
            let then = Then::Note { voter: self.me, has_forgotten: false, log: self.log };
            self.keep(now, &Record::Voter(self.me), then);
        }
    }

    /// Other acceptors whose disks know that this incarnation is about to vote, and that have not forgotten since.
    fn witnesses(&self, now: Instant) -> impl Iterator<Item = &Peer> {
        //= X109
        let is_outdated = move |peer: &Peer| {
            let by_another = || self.answers(now).any(|other| other.beat.began.all.outdates(peer.member));
            self.began.all.outdates(peer.member) || by_another()
        };
        let has_noted =
            move |peer: &&Peer| peer.beat.noted.latest(self.me.node) == self.me.incarnation && !is_outdated(peer);
        self.answers(now).filter(has_noted)
    }

    /// Another node speaks: one that has forgotten makes its earlier votes count no more, one that votes its earlier records.
    pub(super) fn note_incarnation(&mut self, from: MemberId, log: LogId, beat: &Beat) {
        //= X31
        //= X109
        let asks = beat.acceptor == Acceptance::Asking || self.later_than_records(from, log, beat).is_some();
        if !self.config.is_acceptor(from.node) || asks {
            return;
        }
        self.began.all.note(from);
        let is_voter = beat.acceptor.is_voter() || crate::mutated!(self.config, AskersVote);
        if is_voter && (log == self.log || crate::mutated!(self.config, AnyLogsVoters)) {
            self.began.note_voter(from, beat.began.is_adopter(from));
        }
    }

    /// Another acceptor votes, or is about to: the disk knows of it before it counts.
    pub(super) fn note_voter(&mut self, now: Instant, from: MemberId, log: LogId, beat: &Beat) {
        //= X35
        let has_forgotten = beat.began.is_adopter(from);
        let known = self.noted.latest_voter(from.node, !has_forgotten);
        let is_being_noted = |then: &Then| {
            matches!(then, Then::Note { voter, has_forgotten: class, log }
                if (*voter, *class, *log) == (from, has_forgotten, self.log))
        };
        let is_known = known >= from.incarnation || self.writing.values().any(|writing| is_being_noted(&writing.then));
        // What it says would hide from this node's next incarnation that the sender's disk was put back.
        let is_put_back = self.later_than_records(from, log, beat).is_some();
        let is_of_log = log == self.log && log != LogId::NONE && self.config.storage != Storage::Memory;
        if !beat.acceptor.is_voter() || is_known || is_put_back || !is_of_log || !self.has_room() {
            return;
        }
        if self.keeps_notes() {
            let record = if has_forgotten { Record::Adopter(from) } else { Record::Voter(from) };
            self.keep(now, &record, Then::Note { voter: from, has_forgotten, log });
        }
    }

    /// Whether this node's disk is the one that it comes back with: not where its records may be given up, or where it has taken
    /// over what the others have and may come back with what it had before.
    fn keeps_notes(&self) -> bool {
        //= X109
        match self.acceptor.as_ref().map(|acceptor| &acceptor.standing) {
            Some(Standing::Voting) => true,
            Some(Standing::Announcing { .. }) => !self.has_adopted() || crate::mutated!(self.config, AnyWitness),
            _ => crate::mutated!(self.config, AnyWitness),
        }
    }

    /// Whether this node or another that answers knows of a later vote than a node's records have.
    fn is_older(&self, peer: &Peer, now: Instant) -> bool {
        let asks = peer.beat.acceptor == Acceptance::Asking;
        let lacks = |began: &Began| {
            let known = began.latest_voter(peer.member.node, !asks);
            peer.beat.follows.0 > 0 && peer.beat.follows < known && known < peer.member.incarnation
        };
        let by_another = || self.answers(now).any(|other| lacks(&other.beat.began));
        !crate::mutated!(self.config, OlderAnswers) && (lacks(&self.began) || by_another())
    }

    /// The incarnation of a node that this one knows to have voted after the records which that node has come back with.
    fn later_than_records(&self, from: MemberId, log: LogId, beat: &Beat) -> Option<Incarnation> {
        let known = self.began.latest_voter(from.node, beat.acceptor != Acceptance::Asking);
        let lacks = beat.follows.0 > 0 && beat.follows < known && known < from.incarnation;
        (lacks && log == self.log && self.config.is_acceptor(from.node)).then_some(known)
    }

    /// Whether a node does not know by itself that its disk was put back: its votes do not count.
    pub(super) fn is_put_back(&self, member: MemberId) -> bool {
        let peer = self.peers.get(&member.node).filter(|peer| peer.member == member);
        peer.is_some_and(|peer| self.later_than_records(member, peer.log, &peer.beat).is_some())
    }

    /// Another node knows of a vote of this one that its records lack: it votes no more.
    pub(super) fn heed_memory_of(&mut self, now: Instant, log: LogId, beat: &Beat) {
        //= X35
        let known = beat.began.latest_voter(self.me.node, !crate::mutated!(self.config, ConfirmedUndone));
        let is_of_log = log == self.log || crate::mutated!(self.config, AnyLogsVoters);
        let is_older = self.is_lacked(known) && is_of_log && beat.hears.contains(&self.me);
        let counts = |acceptor: &Acceptor| {
            matches!(acceptor.standing, Standing::Asking { .. } | Standing::Announcing { .. } | Standing::Voting)
        };
        if !is_older || !self.acceptor.as_ref().is_some_and(counts) || crate::mutated!(self.config, PutBackVotes) {
            return;
        }
        if !matches!(self.role, Role::Follower { .. }) {
            self.rest(now);
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Outdated { known };
        }
        // The one that knows of it may be away when this node starts again.
        self.keep(now, &Record::Outdated(MemberId { incarnation: known, ..self.me }), Then::Rest);
    }

    /// What keeps this node from taking part until a person does something, if anything does for long.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        let standing = &self.acceptor.as_ref()?.standing;
        if now.since(self.started) < LASTS {
            return None;
        }
        match standing {
            Standing::Asking { answered: false } => self.trouble_with(now, &self.judge_records(now)),
            Standing::Outdated { known } => self.trouble_with(now, &Records::Older { known: *known }),
            //= X109
            Standing::Announcing { witnesses } => Some(format!(
                "this node votes once {witnesses} of the other acceptors have noted that it is about to, and {} did{}",
                self.witnesses(now).count(),
                self.who_is_silent(now)
            )),
            _ => None,
        }
    }

    /// The other acceptors that do not answer, for a person to start them.
    fn who_is_silent(&self, now: Instant) -> String {
        let said: Vec<NodeId> = self.answers(now).map(|peer| peer.member.node).collect();
        let silent = self.config.acceptors.iter().filter(|node| **node != self.me.node && !said.contains(node));
        let silent: Vec<_> = silent.map(NodeId::to_string).collect();
        if silent.is_empty() { String::new() } else { format!("; start {}", silent.join(" and ")) }
    }

    fn trouble_with(&self, now: Instant, records: &Records) -> Option<String> {
        let (said, start) = (self.answers(now).count(), self.who_is_silent(now));
        let (needed, quorum) = (self.answers_needed(), self.config.quorum());
        match records {
            Records::Older { known } => Some(format!(
                "the votes of this node are older than its incarnation {known}, which others know to have voted: they count as \
                 lost once {quorum} of the other acceptors vote{start}; if incarnation {known} had another directory that is \
                 still there, end this daemon and give it that one"
            )),
            Records::Doubtful { by: Some((by, known)), known_to } => Some(format!(
                "incarnation {known} of this node began without these votes, took over what the others had, and may have voted: \
                 {by} knows of it. It votes again once {needed} of the other acceptors say that they do not, and begins without \
                 these votes once {quorum} do; {known_to} did, of {}{start}",
                said
            )),
            //= X36
            Records::Doubtful { by: None, .. } if self.is_copy() => Some(format!(
                "the votes of this node are a copy, which may be older than what it voted: it votes again once {needed} of the \
                 other acceptors say that they know of nothing later, and {} did{start}; where too few will ever come back, end \
                 this daemon and see `consort adopt --help`",
                said
            )),
            Records::Newest | Records::Doubtful { .. } => None,
        }
    }
}

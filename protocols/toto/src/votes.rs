//! The order: which messages stand next, decided by votes that every member reads off the same DAG.
//!
//! An *activation* begins after each release. A *candidate* is an ordered message that is not released and follows no other
//! such one; each member has at most one. The *vote* of a machine is its first message that follows any candidate; it
//! approves of those that it follows and of no other. What a machine has not voted yet is comparable to nothing, not even
//! to another unknown.
//!
//! # Why what is released is the same everywhere
//! With all n votes known, the candidates that none beats are a function of the DAG alone. Once the criterion holds, those
//! released are exactly these: a candidate that is not known here yet will have no approval of any machine that has voted,
//! so by external stability a source beats it, and it can get at most n - tail < n - phi <= phi preferences against any of
//! them; where all machines have voted, there is no such candidate. Votes never change once seen, because messages are
//! inserted in causal order.
use crate::config::TotoConfig;
use crate::dag::{Dag, DagMark};
use std::collections::VecDeque;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Votes {
    threshold: Threshold,
    /// Ordered messages of each member that are not released, by number.
    pending: Vec<VecDeque<u64>>,
    candidates: Vec<Candidate>,
    /// Who has voted in this activation.
    voted: Vec<bool>,
    tail: usize,
    /// `preferred[a][b]`: how many machines approve of candidate a and not of b.
    preferred: Vec<Vec<usize>>,
    /// How each machine votes where it has not, once the view is closed.
    closing: Vec<Closing>,
    /// Activations so far.
    pub activations: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<crate::mutant::Mutant>,
}

#[derive(Clone, Debug)]
struct Candidate {
    mark: DagMark,
    /// Machines that approve of it.
    approvals: usize,
}

/// How the votes stand for a candidate: what the paper calls Tail, VT and NVT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateStanding {
    /// The place of its sender.
    pub sender: usize,
    /// Its number among its sender's.
    pub k: u64,
    /// The places of those that sent anything that follows it.
    pub followers: Vec<usize>,
    /// The vote of each, by place.
    pub votes: Vec<CandidateVote>,
    /// How many voted for it.
    pub approvals: usize,
}

/// A machine's vote on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateVote {
    /// It has sent no message that votes.
    Open,
    /// For it, by the message of this number.
    For(u64),
    /// Not for it, but for another.
    Against,
}

/// How a machine that has sent its last message of the view votes where it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    /// Gone: for nobody.
    Gone,
    /// It holds everything, so whatever it sent now would follow every candidate: for all of them.
    Flushed,
}

/// n and Phi, compared in hundredths.
#[derive(Clone, Copy, Debug)]
struct Threshold {
    n: usize,
    percent: usize,
    /// Taken off in hundredths of one machine, to break the rule on purpose.
    off: usize,
    floor: bool,
}

impl Threshold {
    /// count > Phi.
    const fn exceeded(&self, count: usize) -> bool {
        count * 100 + self.off > self.n * self.percent
    }

    /// count >= n - Phi.
    const fn reaches_rest(&self, count: usize) -> bool {
        count * 100 + self.n * self.percent >= self.n * 100
    }
}

impl Votes {
    /// No messages yet, of `n` members.
    pub fn new(config: &TotoConfig, n: usize) -> Self {
        //= A20
        let off = if crate::mutated!(config, PhiBelowHalf) { 100 } else { 0 };
        let percent = config.phi.percent() as usize;
        Self {
            threshold: Threshold { n, percent, off, floor: config.ack_floor },
            pending: vec![VecDeque::new(); n],
            candidates: Vec::new(),
            voted: vec![false; n],
            tail: 0,
            preferred: Vec::new(),
            closing: Vec::new(),
            activations: 0,
            #[cfg(feature = "mutants")]
            mutant: config.mutant,
        }
    }

    /// How many approvals a message needs besides its sender's.
    pub fn needed_of_others(&self) -> usize {
        let Threshold { n, percent, .. } = self.threshold;
        (n * percent / 100).min(n - 1)
    }

    /// The first number of each member that is pending; beyond the end where none is.
    pub fn first_pending(&self) -> Vec<u64> {
        self.pending.iter().map(|pending| pending.front().copied().unwrap_or(u64::MAX)).collect()
    }

    /// How many messages wait for their place.
    pub fn waiting(&self) -> usize {
        self.pending.iter().map(VecDeque::len).sum()
    }

    /// The same of one member's.
    pub fn waiting_of(&self, place: usize) -> usize {
        self.pending[place].len()
    }

    /// The candidates.
    #[cfg(test)]
    pub fn candidates(&self) -> Vec<DagMark> {
        self.candidates.iter().map(|candidate| candidate.mark).collect()
    }

    /// How the votes stand for each candidate.
    pub fn standings(&self, dag: &Dag) -> Vec<CandidateStanding> {
        let all = 0..self.threshold.n;
        let first_of =
            |machine: usize| self.candidates.iter().filter_map(|c| dag.first_follower(machine, c.mark)).min();
        let standing = |candidate: &Candidate| {
            let (sender, k) = candidate.mark;
            let vote = |machine: usize| match first_of(machine).filter(|_| self.voted[machine]) {
                Some(first) if dag.first_follower(machine, candidate.mark) == Some(first) => CandidateVote::For(first),
                Some(_) => CandidateVote::Against,
                None => CandidateVote::Open,
            };
            CandidateStanding {
                sender,
                k,
                followers: all.clone().filter(|machine| dag.past(*machine)[sender] >= k).collect(),
                votes: all.clone().map(vote).collect(),
                approvals: candidate.approvals,
            }
        };
        self.candidates.iter().map(standing).collect()
    }

    /// A message was inserted.
    pub fn insert(&mut self, dag: &Dag, mark: DagMark, ordered: bool) {
        //= A10
        let Some(node) = dag.node(mark) else { return };
        if ordered {
            self.pending[mark.0].push_back(mark.1);
            if self.is_free(mark, &node.past) {
                self.add_candidate(mark);
            }
        }
        if !self.voted[mark.0] {
            self.vote_if(mark.0, |(place, k)| node.past[place] >= k);
        }
    }

    /// Whether a message follows no other pending one.
    fn is_free(&self, (place, k): DagMark, past: &[u64]) -> bool {
        //= A10
        let follows = |other: usize| self.pending[other].front().is_some_and(|first| past[other] >= *first);
        self.pending[place].front() == Some(&k) && !(0..past.len()).any(|other| other != place && follows(other))
    }

    /// A candidate that is seen late has no approval of those that have voted already.
    fn add_candidate(&mut self, mark: DagMark) {
        //= A12
        for (row, candidate) in self.preferred.iter_mut().zip(&self.candidates) {
            row.push(candidate.approvals);
        }
        self.candidates.push(Candidate { mark, approvals: 0 });
        self.preferred.push(vec![0; self.candidates.len()]);
    }

    /// A machine votes, if it approves of any candidate.
    fn vote_if(&mut self, machine: usize, approves: impl Fn(DagMark) -> bool) {
        //= A11
        let approved: Vec<bool> = self.candidates.iter().map(|candidate| approves(candidate.mark)).collect();
        if approved.contains(&true) {
            self.vote(machine, &approved);
        }
    }

    fn vote(&mut self, machine: usize, approved: &[bool]) {
        //= A11
        self.voted[machine] = true;
        self.tail += 1;
        for (a, _) in approved.iter().enumerate().filter(|(_, approved)| **approved) {
            self.candidates[a].approvals += 1;
            for (b, other) in approved.iter().enumerate() {
                self.preferred[a][b] += usize::from(!other);
            }
        }
    }

    /// The next messages of the order, in their order; empty if nothing is decided. To be called until it is.
    pub fn release(&mut self, dag: &Dag) -> Vec<DagMark> {
        //= A16
        let sources = self.sources();
        if sources.is_empty() || !self.is_decided(dag, &sources) {
            return Vec::new();
        }
        let mut released: Vec<_> = sources.iter().map(|source| self.candidates[*source].mark).collect();
        released.sort_unstable();
        for (place, _) in &released {
            self.pending[*place].pop_front();
        }
        self.activations += 1;
        self.activate(dag);
        released
    }

    /// Candidates that none can beat any more.
    fn sources(&self) -> Vec<usize> {
        //= A13
        let all = 0..self.candidates.len();
        all.clone().filter(|c| !all.clone().any(|other| other != *c && self.may_win(other, *c))).collect()
    }

    /// Whether the one beats the other.
    fn wins(&self, a: usize, b: usize) -> bool {
        //= A13
        self.threshold.exceeded(self.preferred[a][b])
    }

    /// Whether the one may still come to beat the other: with all votes that are not cast.
    fn may_win(&self, a: usize, b: usize) -> bool {
        //= A13
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::mutant::Mutant::StarsCompared) {
            return self.wins(a, b);
        }
        self.threshold.exceeded(self.preferred[a][b] + self.threshold.n - self.tail)
    }

    fn is_decided(&self, dag: &Dag, sources: &[usize]) -> bool {
        self.is_internally_stable(sources) && self.is_externally_stable(dag, sources)
    }

    /// Every candidate that is no source is beaten.
    fn is_internally_stable(&self, sources: &[usize]) -> bool {
        //= A14
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::mutant::Mutant::NoInternal) {
            return true;
        }
        let all = 0..self.candidates.len();
        let beaten = |c: usize| all.clone().any(|other| self.wins(other, c));
        all.clone().filter(|c| !sources.contains(c)).all(beaten)
    }

    /// No candidate that is not seen yet can come to stand beside the sources.
    fn is_externally_stable(&self, dag: &Dag, sources: &[usize]) -> bool {
        //= A15
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::mutant::Mutant::NoExternal) {
            return true;
        }
        let enough = |source: &usize| self.approved(self.candidates[*source].approvals);
        let floor = |source: &usize| self.threshold.reaches_rest(self.followers(dag, self.candidates[*source].mark));
        let floored = !self.threshold.floor || sources.iter().all(floor);
        self.tail == self.threshold.n || sources.iter().any(enough) && floored
    }

    fn approved(&self, approvals: usize) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::mutant::Mutant::PhiReached) {
            return approvals * 100 >= self.threshold.n * self.threshold.percent;
        }
        self.threshold.exceeded(approvals)
    }

    /// Machines with any message that follows a candidate.
    fn followers(&self, dag: &Dag, (place, k): DagMark) -> usize {
        (0..self.threshold.n).filter(|machine| dag.past(*machine)[place] >= k).count()
    }

    /// Begins an activation: candidates, votes and preferences anew, from the DAG alone.
    fn activate(&mut self, dag: &Dag) {
        //= A16
        self.candidates.clear();
        self.preferred.clear();
        self.voted.fill(false);
        self.tail = 0;
        for place in 0..self.pending.len() {
            let Some(k) = self.pending[place].front().copied() else { continue };
            if dag.node((place, k)).is_some_and(|node| self.is_free((place, k), &node.past)) {
                self.add_candidate((place, k));
            }
        }
        for machine in 0..self.voted.len() {
            let first = self.candidates.iter().filter_map(|c| dag.first_follower(machine, c.mark)).min();
            if let Some(node) = first.and_then(|k| dag.node((machine, k))) {
                self.vote_if(machine, |(place, k)| node.past[place] >= k);
            }
        }
        self.close_votes();
    }

    /// The view ends and nothing more is inserted: who is gone votes for nobody any more, who stays for all, where they
    /// have not voted.
    pub fn close(&mut self, stays: &[bool]) {
        //= A31
        let kind = |stays: &bool| if *stays { Closing::Flushed } else { Closing::Gone };
        self.closing = stays.iter().map(kind).collect();
        self.close_votes();
    }

    fn close_votes(&mut self) {
        //= A31
        //= A32
        for machine in 0..self.closing.len() {
            if !self.voted[machine] {
                let approves = self.closing[machine] == Closing::Flushed;
                self.vote(machine, &vec![approves; self.candidates.len()]);
            }
        }
    }
}

//! What can happen to nodes and to the ways between them, and how to judge what came of it.
use super::*;
use crate::packet::{Commit, Join, Recovered};
use consort_order::state_of;

impl Net {
    /// The node is gone from one moment to the next.
    pub fn crash(&mut self, i: usize) {
        if let Some(me) = self.incarnations[i].take() {
            self.traces.iter_mut().filter(|trace| trace.me == me).for_each(|trace| trace.over = true);
        }
        self.stopped[i] = None;
    }

    /// Starts a new incarnation of the node, with what the earlier one left on disk.
    pub fn restart(&mut self, i: usize) {
        self.restart_as(i, Incarnation(self.rings[i].incarnation().0 + 1_000));
    }

    /// The node starts again under that number, be it larger than the last one's or not.
    pub fn restart_as(&mut self, i: usize, incarnation: Incarnation) {
        self.crash(i);
        let config = self.rings[i].config().clone();
        self.rings[i] = Ring::new(config, incarnation).unwrap();
        self.start(i);
    }

    /// The node is not run any more, but goes on receiving.
    pub fn stop(&mut self, i: usize) {
        self.stopped[i].get_or_insert_default();
    }

    /// The node is run again: first it looks at the clock, then it reads what waits.
    pub fn go_on(&mut self, i: usize) {
        let Some(waiting) = self.stopped[i].take() else { return };
        if self.rings[i].poll_timeout().is_some_and(|at| at <= self.now) {
            let now = self.now;
            self.rings[i].handle_timeout(now);
            self.drain(i);
        }
        for (at, flying) in waiting {
            self.read(i, at, flying);
        }
    }

    /// Cuts the ways between two groups of nodes.
    pub fn cut(&mut self, a: &[u16], b: &[u16]) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    pub fn cut_one_way(&mut self, from: &[u16], to: &[u16]) {
        self.cuts.extend(from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b))));
    }

    /// Cuts some nodes off from all others.
    pub fn part(&mut self, part: &[u16]) {
        let others: Vec<_> = (1..=self.rings.len() as u16).filter(|node| !part.contains(node)).collect();
        self.cut(part, &others);
    }

    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// The incarnation of a node that runs.
    pub fn incarnation(&self, i: usize) -> MemberId {
        self.incarnations[i].unwrap()
    }

    /// A packet from one node to another, made by hand and handed over at once.
    pub fn hand(&mut self, from: usize, to: usize, packet: RingPacket) {
        let lane = match packet {
            RingPacket::Token(_)
            | RingPacket::Commit(_)
            | RingPacket::Ack(_)
            | RingPacket::TokenRequest(_)
            | RingPacket::Reach(_) => Lane::Token,
            RingPacket::Data(_) => Lane::Data,
            RingPacket::Join(_) | RingPacket::Beacon(_) | RingPacket::Late(_) => Lane::Control,
        };
        let flying = Flying { from: self.incarnation(from), to: NodeId(to as u16 + 1), lane, packet };
        self.hand_over(flying);
    }

    pub fn state(&self, i: usize) -> &'static str {
        self.rings[i].state()
    }

    /// Whether all that run are in one ring of exactly them, and it works.
    pub fn is_whole(&self) -> bool {
        let living: Vec<_> = self.incarnations.iter().flatten().copied().collect();
        let running: Vec<_> = (0..self.rings.len()).filter(|i| self.incarnations[*i].is_some()).collect();
        let id = running.first().and_then(|i| self.views[*i].last()).map(|view| view.id);
        running.iter().all(|i| {
            let view = self.views[*i].last();
            self.state(*i) == "operational" && view.is_some_and(|view| view.members == living && Some(view.id) == id)
        })
    }

    /// Runs until all that run are in one ring; it must come to be within `span`.
    pub fn run_until_whole(&mut self, span: Duration) {
        self.run_until(span, Self::is_whole);
    }

    pub fn last_members(&self, i: usize) -> Vec<u16> {
        self.views[i].last().unwrap().members.iter().map(|member| member.node.0).collect()
    }

    pub fn view(&self, i: usize) -> &View {
        self.views[i].last().unwrap()
    }

    /// The regular views a node has installed since it began to be looked at.
    pub fn regular_views(&self, i: usize) -> usize {
        self.views[i].iter().filter(|view| view.kind == consort_types::ViewKind::Regular).count()
    }

    pub fn describe(&self) -> String {
        let line = |i: usize| format!("\n  n{} {}", i + 1, state_of(&self.rings[i], self.now));
        (0..self.rings.len()).filter(|i| self.incarnations[*i].is_some()).map(line).collect()
    }

    /// Checks every promise that must hold at any time.
    pub fn check(&self) {
        if let Err(broken) = crate::evs::check(&self.traces) {
            panic!("{broken}{}", self.describe());
        }
        assert_eq!(self.total("assertion_failures"), 0);
    }

    /// Ends a scenario: heals everything, lets it come to rest, and checks every promise.
    pub fn end(&mut self) {
        self.heal();
        (0..self.rings.len()).for_each(|i| self.go_on(i));
        if !self.is_whole() {
            self.run_until_whole(Duration::from_secs(90));
        }
        self.run(Duration::from_millis(500));
        self.check();
        if let Err(broken) = crate::evs::check_end(&self.traces) {
            panic!("{broken}{}", self.describe());
        }
        for i in (0..self.rings.len()).filter(|i| self.incarnations[*i].is_some()) {
            assert_eq!(self.counter(i, "store_packets"), 0, "everything is stable in the end");
        }
    }
}

impl Flying {
    pub fn is_token(&self) -> bool {
        matches!(self.packet, RingPacket::Token(_))
    }

    /// Whether it is a token or a commit token, on whichever lane: copies go to all.
    pub fn is_any_token(&self) -> bool {
        matches!(self.packet, RingPacket::Token(_) | RingPacket::Commit(_))
    }

    pub fn is_data(&self) -> bool {
        matches!(self.packet, RingPacket::Data(_))
    }

    pub fn join(&self) -> Option<&Join> {
        if let RingPacket::Join(join) = &self.packet { Some(join) } else { None }
    }

    pub fn commit(&self) -> Option<&Commit> {
        if let RingPacket::Commit(commit) = &self.packet { Some(commit) } else { None }
    }

    /// The sequence number of a data packet.
    pub fn seq(&self) -> Option<u64> {
        if let RingPacket::Data(data) = &self.packet { Some(data.seq.0) } else { None }
    }

    pub fn recovered(&self) -> Option<&Recovered> {
        match &self.packet {
            RingPacket::Data(DataPacket { content: DataContent::Recovered(recovered), .. }) => Some(recovered),
            _ => None,
        }
    }
}

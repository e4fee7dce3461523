//! The members' streams of packets: each numbered from 1 in each view, each taken in without a gap.
//!
//! What is missing shows by what came behind it, or by its sender's status. Who holds what shows by everybody's status; what
//! all hold is stable, and nobody need keep it for others.
use crate::packet::{RetransmitRequest, StreamContent, StreamPacket, StreamStatus};
use crate::pipeline::PacketKey;
use consort_member::vs::missing;
use consort_types::{Instant, MemberId, NodeId, ViewId};
use std::collections::{BTreeMap, VecDeque};

/// How many packets are answered at once.
const ANSWERS_MAX: usize = 64;

/// A packet, and when it arrived.
pub(crate) type Came = (StreamPacket, Instant);

/// All streams of a view.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    view: ViewId,
    members: Vec<MemberId>,
    me: usize,
    streams: Vec<MemberStream>,
    /// How much of each stream each member is known to hold.
    reports: Vec<Vec<u64>>,
    /// How much of each all hold.
    stable: Vec<u64>,
    /// How far ahead of what is stable packets are believed.
    reach: u64,
    bytes: usize,
    #[cfg(feature = "mutants")]
    mutant: Option<crate::mutant::Mutant>,
}

#[derive(Clone, Debug, Default)]
struct MemberStream {
    /// How many packets are held without a gap.
    held: u64,
    /// How many are known to have been sent.
    sent: u64,
    /// Those behind a gap, with their arrival.
    parked: BTreeMap<u64, (StreamPacket, Instant)>,
    /// Those that others may still ask for; the first is `freed + 1`.
    kept: VecDeque<StreamPacket>,
    freed: u64,
    arrived: Instant,
    /// How often it was asked for what is missing.
    asked: u32,
}

impl Streams {
    /// Nothing is sent yet. A member has at most `window` packets of its own under way, and the sequencer one of places for each.
    pub fn new(view: ViewId, members: &[MemberId], me: MemberId, window: u32) -> Self {
        let n = members.len();
        Self {
            view,
            members: members.to_vec(),
            me: members.binary_search(&me).unwrap_or_default(),
            streams: vec![MemberStream::default(); n],
            reports: vec![vec![0; n]; n],
            stable: vec![0; n],
            reach: u64::from(window) * (n as u64 + 1) + 64,
            bytes: 0,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    #[cfg(feature = "mutants")]
    pub const fn mutate(mut self, mutant: Option<crate::mutant::Mutant>) -> Self {
        self.mutant = mutant;
        self
    }

    /// Whose stream a node's is.
    pub fn index(&self, node: NodeId) -> Option<usize> {
        self.members.binary_search_by_key(&node, |member| member.node).ok()
    }

    /// Appends an own packet; it is taken in at once.
    pub fn append(&mut self, now: Instant, data: StreamPacket) {
        //= P01
        let stream = &mut self.streams[self.me];
        stream.sent = data.key.seq;
        self.take_in(self.me, data, now);
    }

    /// The name of the next own packet.
    pub fn next_key(&self) -> PacketKey {
        PacketKey { origin: self.members[self.me].node, seq: self.streams[self.me].held + 1 }
    }

    /// Takes a packet of a stream; returns those that are now next, with their arrival. False where it came before or is
    /// too far ahead to be true. What is agreed on is true, however little is known here of what all hold.
    pub fn take(&mut self, index: usize, (data, arrived): Came, agreed: bool, next: &mut Vec<Came>) -> bool {
        //= P03
        let seq = data.key.seq;
        let reach = if agreed { u64::MAX } else { self.streams[index].freed + self.reach };
        let twice = crate::mutated!(self, TwiceTaken);
        let gaps = crate::mutated!(self, GapsTaken);
        let stream = &mut self.streams[index];
        let known = seq <= stream.held || stream.parked.contains_key(&seq);
        if index == self.me || known || seq > reach {
            if known && twice && index != self.me {
                next.push((data, arrived));
            }
            return false;
        }
        stream.sent = stream.sent.max(seq);
        if gaps && seq > stream.held + 1 {
            stream.held = seq - 1;
            stream.freed = seq - 1;
            stream.kept.clear();
        }
        stream.parked.insert(seq, (data, arrived));
        while let Some((data, arrived)) = self.streams[index].pop_next() {
            next.push((data.clone(), arrived));
            self.take_in(index, data, arrived);
        }
        true
    }

    fn take_in(&mut self, index: usize, data: StreamPacket, arrived: Instant) {
        let stream = &mut self.streams[index];
        stream.held += 1;
        stream.arrived = arrived;
        stream.asked = 0;
        self.bytes += data.weight();
        stream.kept.push_back(data);
        let held = stream.held;
        self.reports[self.me][index] = held;
        self.stabilise();
    }

    /// A member told how far it is.
    pub fn on_status(&mut self, from: usize, status: &StreamStatus) {
        //= P04
        if status.received.len() != self.members.len() || from == self.me {
            return;
        }
        let reach = self.reach;
        let stream = &mut self.streams[from];
        stream.sent = stream.sent.max(status.sent.min(stream.freed + reach));
        for (index, received) in status.received.iter().enumerate() {
            // Nobody holds more than was sent; more would make stable what is not.
            let stream = &self.streams[index];
            let sent = if index == self.me { stream.held } else { stream.freed + reach };
            let report = &mut self.reports[from][index];
            *report = (*report).max((*received).min(sent));
        }
        self.stabilise();
    }

    fn stabilise(&mut self) {
        //= P05
        for index in 0..self.members.len() {
            let least = self.reports.iter().map(|report| report[index]).min().unwrap_or_default();
            self.stable[index] = self.stable[index].max(least);
            let early = if crate::mutated!(self, FreedEarly) { self.streams[index].held } else { 0 };
            self.bytes -= self.streams[index].free(self.stable[index].max(early));
        }
    }

    /// What is missing of a stream, in at most so many runs, and whom to ask for it this time.
    pub fn request(&mut self, index: usize, last: u64, most: usize) -> Option<(MemberId, RetransmitRequest)> {
        //= P02
        let stream = &self.streams[index];
        let runs = missing(stream.held, stream.parked.keys().copied(), last, most);
        if runs.is_empty() {
            return None;
        }
        self.streams[index].asked += 1;
        let whom = self.whom(index, self.streams[index].asked)?;
        Some((whom, RetransmitRequest { view: self.view, origin: self.members[index].node, runs }))
    }

    /// The sender first, then in turn all that hold more than we.
    fn whom(&self, index: usize, asked: u32) -> Option<MemberId> {
        let held = self.streams[index].held;
        let others = (0..self.members.len()).filter(|other| *other != self.me);
        let holders = others.filter(|other| *other == index || self.reports[*other][index] > held);
        let mut holders: Vec<_> = holders.collect();
        holders.sort_by_key(|other| *other != index);
        let count = holders.len().max(1);
        holders.get((asked as usize - 1) % count).map(|other| self.members[*other])
    }

    /// The packets of a request that are kept here.
    pub fn answers(&self, request: &RetransmitRequest) -> Vec<StreamPacket> {
        let Some(stream) = self.index(request.origin).map(|index| &self.streams[index]) else { return Vec::new() };
        let kept = |seq: &u64| stream.kept.get(usize::try_from(seq.checked_sub(stream.freed + 1)?).ok()?).cloned();
        let runs = request.runs.iter().map(|(first, last)| (*first).max(stream.freed + 1)..=(*last).min(stream.held));
        let found = runs.flatten().filter_map(|seq| kept(&seq)).take(ANSWERS_MAX);
        found.map(|data| StreamPacket { repair: true, ..data }).collect()
    }

    /// The first stream with a gap.
    pub fn gaps(&self) -> impl Iterator<Item = usize> {
        let gap = |(index, stream): (usize, &MemberStream)| (stream.sent > stream.held).then_some(index);
        self.streams.iter().enumerate().filter_map(gap)
    }

    /// What was sent of a stream, as far as is known.
    pub fn sent(&self, index: usize) -> u64 {
        self.streams[index].sent
    }

    /// How much of each stream is held without a gap.
    pub fn held(&self) -> &[u64] {
        &self.reports[self.me]
    }

    /// How much of each all hold.
    pub fn stable(&self) -> &[u64] {
        &self.stable
    }

    /// What stands behind gaps is dropped: it does not count as held, and must not be taken in once a gap is closed.
    pub fn forget_parked(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.parked.clear());
    }

    /// Own packets that not all are known to hold.
    pub fn under_way(&self) -> u64 {
        self.streams[self.me].held - self.stable[self.me]
    }

    /// The bytes of those.
    pub fn bytes_under_way(&self) -> usize {
        self.streams[self.me].kept.iter().map(StreamPacket::weight).sum()
    }

    /// Own packets of places among those under way.
    pub fn own_orders(&self) -> u64 {
        let orders = |data: &&StreamPacket| matches!(data.content, StreamContent::Orders { .. });
        self.streams[self.me].kept.iter().filter(orders).count() as u64
    }

    /// How much of each stream each member is known to hold.
    pub fn reports(&self) -> &[Vec<u64>] {
        &self.reports
    }

    /// The place of this member.
    pub const fn me(&self) -> usize {
        self.me
    }

    /// Whether somebody may lack something that is held here.
    pub fn is_unstable(&self) -> bool {
        self.held() != self.stable()
    }

    /// How many packets are kept, and their bytes.
    pub fn kept(&self) -> (usize, usize) {
        let parked = |stream: &MemberStream| stream.parked.values().map(|(data, _)| data.weight()).sum::<usize>();
        let packets = self.streams.iter().map(|stream| stream.kept.len() + stream.parked.len()).sum();
        (packets, self.bytes + self.streams.iter().map(parked).sum::<usize>())
    }
}

impl MemberStream {
    /// The next one in turn, if it is there. It cannot have arrived before those that go before it.
    fn pop_next(&mut self) -> Option<(StreamPacket, Instant)> {
        let (data, arrived) = self.parked.remove(&(self.held + 1))?;
        Some((data, arrived.max(self.arrived)))
    }

    fn free(&mut self, stable: u64) -> usize {
        let mut bytes = 0;
        while self.freed < stable {
            let Some(data) = self.kept.pop_front() else { break };
            bytes += data.weight();
            self.freed += 1;
        }
        bytes
    }
}

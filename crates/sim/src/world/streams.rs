//! Reliable streams between hosts: first in, first out, until they break. Occurrence links lose comes later, and all that follows
//! it; what does not come through for long breaks the stream, and everything that is in it is lost.
use super::{SimWorld, WorldEvent};
use crate::machine::Machine;
use crate::network::{Departure, SimSocket};
use crate::world::DatagramView;
use bytes::Bytes;
use consort_order::Link;
use consort_types::{Duration, Instant, NodeId};
use consort_wire::Lane;
use std::collections::{BTreeMap, VecDeque};

/// After what time something lost is sent again.
const RETRANSMISSION: Duration = Duration::from_millis(20);
/// For how long a stream lives through which nothing comes.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often a connection that broke is dialled.
const REDIAL: Duration = Duration::from_millis(100);
/// How many bytes wait for a stream that does not move, before it is given up.
const BUDGET: usize = 64 << 20;
/// Occurrence acknowledges a frame, in bytes.
const ACK: usize = 60;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// How often it broke.
    pub breaks: u32,
    /// When its last frame arrives.
    latest: Instant,
    /// Frames that have to wait for one that was lost, that one first.
    waiting: VecDeque<Bytes>,
    bytes: usize,
    since: Option<Instant>,
}

/// All of them, by their ends.
pub(super) type Streams = BTreeMap<(u16, u16), Stream>;

impl<M: Machine> SimWorld<'_, M> {
    /// Puts a frame into a stream.
    pub(super) fn stream(&mut self, from: u16, to: NodeId, bytes: &Bytes) {
        if to.0 >= self.plan.nodes || to.0 == from || !self.passes(from, to, bytes) {
            return;
        }
        let stream = self.streams.entry((from, to.0)).or_default();
        if stream.since.is_some() {
            stream.bytes += bytes.len();
            stream.waiting.push_back(bytes.clone());
            if stream.bytes > BUDGET {
                self.break_stream(from, to.0);
            }
        } else if !self.carry(from, to.0, bytes) {
            let now = self.recorder.now;
            let stream = self.streams.entry((from, to.0)).or_default();
            (stream.since, stream.bytes) = (Some(now), bytes.len());
            stream.waiting.push_back(bytes.clone());
            let breaks = stream.breaks;
            self.schedule(now + RETRANSMISSION, WorldEvent::Resend { from, to: to.0, breaks });
        }
    }

    fn passes(&mut self, from: u16, to: NodeId, bytes: &Bytes) -> bool {
        let at = self.hosts[usize::from(from)].free;
        let frame = DatagramView { at, from: NodeId(from), to, lane: Lane::Reliable, bytes };
        self.fate.as_mut().is_none_or(|fate| fate(frame).is_some())
    }

    /// Whether a frame comes through now, and what acknowledges it comes back.
    fn carry(&mut self, from: u16, to: u16, bytes: &Bytes) -> bool {
        let host = &mut self.hosts[usize::from(from)];
        host.spend(host.model.send + host.model.bytes(bytes.len()));
        let (sender, receiver) = (NodeId(from), NodeId(to));
        let Departure { at_switch, sender_free } = self.network.leave(host.free, sender, bytes.len());
        host.free = sender_free;
        let cut = self.is_unicast_cut(sender, receiver) || self.is_unicast_cut(receiver, sender);
        let there = self.network.cross(at_switch, sender, receiver, SimSocket::Token, bytes.len());
        let back = self.network.cross(at_switch, receiver, sender, SimSocket::Token, ACK);
        // What strays is sent again, as what is lost: else a stream would stand still for seconds, as none does.
        let whole = there.iter().filter(|copy| copy.flip.is_none() && !copy.stray).map(|copy| copy.at).min();
        let Some(at) = whole.filter(|_| !back.is_empty() && !cut) else { return false };
        let stream = self.streams.entry((from, to)).or_default();
        stream.latest = stream.latest.max(at);
        let (at, breaks) = (stream.latest, stream.breaks);
        self.schedule(at, WorldEvent::Streamed { from, to, breaks, bytes: bytes.clone() });
        true
    }

    /// Something lost is sent again, and all that waited for it.
    pub(super) fn on_resend(&mut self, from: u16, to: u16, breaks: u32) {
        let now = self.recorder.now;
        loop {
            let stream = self.streams.entry((from, to)).or_default();
            let Some(since) = stream.since.filter(|_| stream.breaks == breaks) else { return };
            let Some(first) = stream.waiting.front().cloned() else {
                stream.since = None;
                return;
            };
            if !self.carry(from, to, &first) {
                if now.since(since) >= PATIENCE {
                    return self.break_stream(from, to);
                }
                return self.schedule(now + RETRANSMISSION, WorldEvent::Resend { from, to, breaks });
            }
            let stream = self.streams.entry((from, to)).or_default();
            stream.since = Some(now);
            stream.bytes -= first.len();
            stream.waiting.pop_front();
        }
    }

    /// A frame has come through.
    pub(super) fn on_streamed(&mut self, from: u16, to: u16, breaks: u32, bytes: Bytes) {
        let stands = self.streams.get(&(from, to)).is_some_and(|stream| stream.breaks == breaks);
        let host = &mut self.hosts[usize::from(to)];
        if stands && host.up {
            host.rouse(self.recorder.now);
            host.arrive_whole(self.recorder.now, bytes);
            self.schedule_wake(to);
        }
    }

    /// A connection breaks: what is in it is lost, and both ends hear of it.
    pub(super) fn break_stream(&mut self, a: u16, b: u16) {
        let now = self.recorder.now;
        for (from, to) in [(a, b), (b, a)] {
            let stream = self.streams.entry((from, to)).or_default();
            let breaks = stream.breaks + 1;
            *stream = Stream { breaks, latest: now, ..Stream::default() };
            self.schedule(now, WorldEvent::Link { host: from, peer: to, link: Link::Down });
        }
        if self.dialled.insert((a.min(b), a.max(b))) {
            self.schedule(now + REDIAL, WorldEvent::Redial { a: a.min(b), b: a.max(b) });
        }
    }

    /// Two hosts try to connect again; where they can, both hear of it.
    pub(super) fn on_redial(&mut self, a: u16, b: u16) {
        let now = self.recorder.now;
        if !self.connects(a, b) {
            return self.schedule(now + REDIAL, WorldEvent::Redial { a, b });
        }
        self.dialled.remove(&(a, b));
        for (host, peer) in [(a, b), (b, a)] {
            self.schedule(now, WorldEvent::Link { host, peer, link: Link::Up });
        }
    }

    /// Whether a frame gets from either to the other now.
    fn connects(&mut self, a: u16, b: u16) -> bool {
        let now = self.recorder.now;
        let up = |host: u16| self.hosts[usize::from(host)].up;
        up(a)
            && up(b)
            && [(a, b), (b, a)].into_iter().all(|(from, to)| {
                let (from, to) = (NodeId(from), NodeId(to));
                !self.is_unicast_cut(from, to) && !self.network.cross(now, from, to, SimSocket::Token, ACK).is_empty()
            })
    }

    /// A host has gone, and every stream to it with it.
    pub(super) fn break_streams(&mut self, host: u16) {
        let ends: Vec<_> = self.streams.keys().copied().filter(|(from, to)| *from == host || *to == host).collect();
        let peers = ends.into_iter().map(|(from, to)| if from == host { to } else { from });
        let peers: std::collections::BTreeSet<_> = peers.collect();
        peers.into_iter().for_each(|peer| self.break_stream(host, peer));
    }

    pub(super) fn on_link(&mut self, host: u16, peer: u16, link: Link) {
        if self.hosts[usize::from(host)].up {
            let now = self.clocks.read(host, self.recorder.now);
            self.machines[usize::from(host)].handle_link(now, NodeId(peer), link);
            self.drain(host);
            self.schedule_wake(host);
        }
    }
}

//! What native clients saw, as the checkers want it: events of sessions become events of a trace. Clients of
//! simulated daemons and of real ones go the same way.
//!
//! | type | what |
//! |---|---|
//! | [`SessionListener`] | sorts what one client is told: what counts, and what came before it was in its groups |
//! | [`NameBook`] | names for incarnations, clients and messages of a real run |
//! | [`Witness`] | a listener with a name: writes down what happens to it as events, with their times |
//! | [`Merge`] | the events of all witnesses as one trace |
//!
//! For a real run: one [`NameBook`], one [`Witness`] for each session, which is told of everything that goes in and comes out;
//! at the end (or whenever all is quiet) a [`Merge`] of what all have [taken down](Witness::take), and
//! [`judge`](crate::checkers::judge) on that.
//!
//! # What a trace of a real run can prove
//!
//! Times are those of one clock that all witnesses read, such as `CLOCK_MONOTONIC` of one machine. What a client sends must
//! be stamped before it is written, what it is given after it is read: then a message is never delivered before it was
//! submitted, and every process's own events stand in their true order. Between processes nothing else is known: a client
//! may read much later than its daemon wrote. So a checker that compares what processes were told, in whatever order, is
//! as sharp as in the simulator; one that asks who had done what *at this moment* is not:
//!
//! - SF2 and the second half of PR (all members have installed the view) are judged at the end, and not at the moment;
//! - SF4, TO1p, TO3 need to look into daemons: SF1, SF3, TO1, TO2 and VS say the same by what clients are told;
//! - NV and PL need bounds on time, which a machine that also does something else does not keep.
//!
//! What no client was told, such as messages to a group that nobody is in, is not judged at all.
use crate::checkers::must_stay_zero;
use crate::machine::{ReceivedMessage, SeenView};
use crate::message::index_of;
use crate::message::{HEADER, Mark, Pattern, Process, ProcessIncarnation, mark_of};
use crate::trace::{DeliveryRecord, DeliverySender, InstallRecord, Occurrence, Submitted, TraceEvent};
use consort_session as session;
use consort_types::{GroupName, Instant, MemberId, Service};
use consort_wire::Payload;
use std::collections::BTreeMap;

/// The promises that a trace of witnesses gives nothing to judge of: they need to look into daemons (SF4, TO1p, TO3, BM, NR),
/// bounds on time (NV, PL), offers (OF) or messages beside the workload (GM).
pub const UNSEEN: [&str; 9] = ["SF4", "TO1p", "TO3", "BM", "NR", "NV", "PL", "OF", "GM"];

mod listener;
mod merge;
#[cfg(test)]
mod tests;

pub use listener::{ListenerEvent, SessionListener};
pub use merge::Merge;

/// Names for the incarnations and clients of a real run, and payloads that name their messages.
#[derive(Clone, Debug, Default)]
pub struct NameBook {
    incarnations: BTreeMap<MemberId, ProcessIncarnation>,
    pattern: Pattern,
}

impl NameBook {
    /// The name of a daemon's incarnation; a node's incarnations are counted in the order in which they are asked for.
    pub fn incarnation(&mut self, member: MemberId) -> ProcessIncarnation {
        let met = self.incarnations.keys().filter(|known| known.node == member.node).count() as u16;
        *self.incarnations.entry(member).or_insert(ProcessIncarnation { node: member.node, count: met })
    }

    /// Someone who writes down what happens from now on to the client that was welcomed so, as far as it concerns these
    /// groups: it takes part from when it has joined all of them, and must stay in them as long as its session lasts.
    ///
    /// A client in several groups can have several witnesses, for each of them and for all together: each set of groups
    /// has a trace of its own. All that are witnesses for one set get all messages to any group of it.
    pub fn witness(&mut self, at: Instant, welcome: &session::Welcome, groups: &[GroupName]) -> Witness {
        let mut witness = self.bystander(welcome, groups);
        witness.takes_part = true;
        witness.note(at, Occurrence::Start { late: true });
        witness
    }

    /// Someone who only writes down what the client sends to these groups, for it is not in all of them. Others at its
    /// daemon are given its messages in its place: it should not send before they are in the groups.
    pub fn bystander(&mut self, welcome: &session::Welcome, groups: &[GroupName]) -> Witness {
        let process = Process::of(self.incarnation(welcome.daemon), index_of(welcome.client));
        let (mut listener, pattern) = (SessionListener::new(groups), self.pattern.clone());
        listener.welcomed(welcome);
        Witness { process, listener, takes_part: false, leaves: false, events: Vec::new(), pattern }
    }

    fn view(&mut self, seen: &SeenView) -> InstallRecord {
        installed(seen, |member| self.incarnation(member))
    }
}

/// A view with its members by their incarnations.
pub(crate) fn installed(seen: &SeenView, mut incarnation: impl FnMut(MemberId) -> ProcessIncarnation) -> InstallRecord {
    InstallRecord {
        id: seen.id,
        transitional: seen.transitional,
        members: seen.members.iter().map(|member| incarnation(*member)).collect(),
        together: seen.together.iter().map(|member| incarnation(*member)).collect(),
        pending: seen.pending,
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnding {
    /// Its daemon was killed, or broke down.
    Crashed,
    /// Its daemon has left in good order.
    Left,
}

/// Writes down what happens to one client, from its welcome to its end.
#[derive(Clone, Debug)]
pub struct Witness {
    process: Process,
    listener: SessionListener,
    takes_part: bool,
    leaves: bool,
    events: Vec<TraceEvent>,
    pattern: Pattern,
}

impl Witness {
    /// The client's name in the trace.
    pub const fn process(&self) -> Process {
        self.process
    }

    /// Whether the client is in all these groups, or need not be. Only then should it send to them: what was sent before is
    /// owed to it by nobody.
    pub fn is_joined(&self) -> bool {
        !self.takes_part || self.listener.is_joined()
    }

    /// The payload of the client's message number `count`, from 1: `len` bytes, at least 12, at most
    /// [`LARGEST`](crate::message::LARGEST). Only such messages are known again when they are delivered.
    pub fn payload(&self, count: u64, len: usize) -> Payload {
        self.pattern.payload(Mark { origin: self.process, count }, len.max(HEADER))
    }

    /// The client's message number `count` was sent to these groups as its session's request `increasing_views`, at a time read
    /// before it was written. Counts must grow; what is sent to other groups is passed over.
    pub fn submitted(&mut self, at: Instant, number: u64, count: u64, groups: &[GroupName], sent: (Service, usize)) {
        if groups.iter().any(|group| self.listener.wants(group.as_bytes())) {
            let (service, len) = (sent.0, sent.1 as u64);
            self.listener.sent(number, count);
            self.note(at, Occurrence::Submit(Submitted { count, id: None, class: None, service, len }));
        }
    }

    /// The client was told this. Progress must not be handed in before everything that was read before it.
    pub fn see(&mut self, at: Instant, event: &session::DaemonEvent, cast: &mut NameBook) {
        if !self.takes_part {
            return;
        }
        let mut heard = Vec::new();
        self.listener.hear(event, |one| heard.push(one));
        heard.into_iter().for_each(|one| self.on_heard(at, one, cast));
    }

    /// The client's daemon was asked to leave: what it refuses from here on is no wonder.
    pub const fn leaves(&mut self) {
        self.leaves = true;
    }

    /// A counter or gauge of the client's daemon has this value.
    pub fn gauge(&mut self, at: Instant, name: &str, value: u64) {
        self.note_own(at, Occurrence::Gauge { name: name.to_owned().into(), value });
    }

    /// The client's daemon told its status: of what it counts, that is written down which must never happen.
    pub fn status(&mut self, at: Instant, pairs: &[(String, String)]) {
        for (name, value) in pairs.iter().filter(|(name, _)| must_stay_zero(name)) {
            if let Ok(value) = value.parse() {
                self.gauge(at, name, value);
            }
        }
    }

    /// The session failed, though its daemon runs on and was not asked to leave: a broken promise in itself.
    pub fn refused(&mut self, at: Instant, why: impl Into<String>) {
        self.note_own(at, Occurrence::Refused(why.into().into()));
    }

    /// The session is over.
    pub fn ended(&mut self, at: Instant, end: SessionEnding) {
        self.note_own(at, if end == SessionEnding::Left { Occurrence::Left } else { Occurrence::Crash });
    }

    /// What was written down since the last time.
    pub fn take(&mut self) -> Vec<TraceEvent> {
        std::mem::take(&mut self.events)
    }

    fn note_own(&mut self, at: Instant, what: Occurrence) {
        if self.takes_part {
            self.note(at, what);
        }
    }

    fn note(&mut self, at: Instant, what: Occurrence) {
        self.events.push(TraceEvent { at, process: self.process, what });
    }

    fn on_heard(&mut self, at: Instant, heard: ListenerEvent, cast: &mut NameBook) {
        let what = match heard {
            ListenerEvent::View(seen) => Occurrence::View(Box::new(cast.view(&seen))),
            ListenerEvent::Network(_) => return,
            ListenerEvent::Primary(view) => Occurrence::Primary(view),
            ListenerEvent::Group(group) => {
                Occurrence::Group(Box::new(group.grouped(|member| cast.incarnation(member))))
            }
            ListenerEvent::Signal(group) => Occurrence::Signal(group.as_str().into()),
            ListenerEvent::Message(message) => Occurrence::Deliver(self.delivered(&message)),
            ListenerEvent::Ordered(count) => Occurrence::Ordered(count),
            ListenerEvent::Refused(_) if self.leaves => return,
            ListenerEvent::Refused(why) => Occurrence::Refused(why.into()),
        };
        self.note(at, what);
    }

    fn delivered(&self, message: &ReceivedMessage) -> DeliveryRecord {
        let mark = mark_of(&message.payload);
        let sender = DeliverySender { node: message.sender, incarnation: None, client: message.client };
        DeliveryRecord {
            mark,
            intact: mark.is_some_and(|mark| self.pattern.is_payload(mark, &message.payload)),
            sender: Some(sender),
            service: message.service,
            len: message.payload.len() as u64,
            ..DeliveryRecord::default()
        }
    }
}

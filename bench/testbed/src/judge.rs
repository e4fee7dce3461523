//! What clients of real daemons saw, written down for the checkers of the simulator, and what these may demand.
use crate::{Heard, Told};
use consort::{Event, GroupName, Welcome};
use consort_daemon::config::Protocol;
use consort_session as session;
use consort_sim::checkers::{Bounds, PromisedOrder, Suite, judge};
use consort_sim::message::Process;
use consort_sim::trace::witness::{Merge, NameBook, SessionEnding, UNSEEN, Witness};
use consort_sim::trace::{self, Occurrence, Trace};
use consort_types::Instant;
use std::collections::BTreeMap;

/// The clients' traces.
pub struct Notes {
    group: GroupName,
    cast: NameBook,
    clients: BTreeMap<u64, Client>,
    /// What concerns all.
    world: Vec<trace::TraceEvent>,
    /// Messages sent, and deliveries.
    pub sent: u64,
    pub delivered: u64,
}

struct Client {
    witness: Witness,
    /// The number of its last request, and up to which they are ordered.
    requests: u64,
    ordered: u64,
    hushed: bool,
}

impl Notes {
    /// Of the clients in this group.
    pub fn new(group: GroupName) -> Self {
        let (cast, clients, world) = (NameBook::default(), BTreeMap::new(), Vec::new());
        Self { group, cast, clients, world, sent: 0, delivered: 0 }
    }

    /// A client was welcomed; it is known by that number. Returns its witness, who knows what its messages look like.
    pub fn welcome(&mut self, number: u64, at: u64, welcome: &Welcome) -> Witness {
        let witness = self.cast.witness(Instant(at), welcome, std::slice::from_ref(&self.group));
        let client = Client { witness: witness.clone(), requests: 0, ordered: 0, hushed: false };
        self.clients.insert(number, client);
        witness
    }

    /// How many clients there were.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// A client tells something.
    pub fn see(&mut self, told: Told) {
        let Some(client) = self.clients.get_mut(&told.by) else { return };
        let at = Instant(told.at);
        match told.heard {
            Heard::Event(event) => {
                self.delivered += u64::from(matches!(event, Event::Message(_)));
                client.witness.see(at, &event.into(), &mut self.cast);
            }
            Heard::Progress(progress) => {
                client.ordered = progress.ordered;
                client.witness.see(at, &session::DaemonEvent::Progress(progress), &mut self.cast);
            }
            Heard::Sent { count, number, service, len } => {
                self.sent += 1;
                client.requests = number;
                client.witness.submitted(at, number, count, std::slice::from_ref(&self.group), (service, len));
            }
            Heard::Hushed => client.hushed = true,
            Heard::Ended(_) => client.witness.ended(at, SessionEnding::Crashed),
        }
    }

    /// Whether these clients send no more.
    pub fn are_hushed(&self, numbers: &[u64]) -> bool {
        numbers.iter().all(|number| self.clients.get(number).is_some_and(|client| client.hushed))
    }

    /// Whether all that these clients sent has its place.
    pub fn are_ordered(&self, numbers: &[u64]) -> bool {
        let done = |client: &Client| client.ordered >= client.requests;
        numbers.iter().all(|number| self.clients.get(number).is_some_and(done))
    }

    /// From here on nobody sends and nothing goes wrong.
    pub fn calm(&mut self, at: u64) {
        self.note(at, Occurrence::Calm);
    }

    /// All that was to come has come.
    pub fn quiet(&mut self, at: u64) {
        self.note(at, Occurrence::Quiet);
    }

    /// A client's daemon told its status.
    pub fn status(&mut self, number: u64, at: u64, pairs: &[(String, String)]) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.witness.status(Instant(at), pairs);
        }
    }

    fn note(&mut self, at: u64, what: Occurrence) {
        self.world.push(trace::TraceEvent { at: Instant(at), process: Process::WORLD, what });
    }

    /// All that was written down, in the order of time.
    pub fn trace(mut self) -> Trace {
        let mut events: Vec<_> = self.clients.values_mut().flat_map(|client| client.witness.take()).collect();
        events.extend(self.world);
        Trace { events: Merge::default().next(events) }
    }
}

/// What of all promises of a protocol is broken, a sentence each.
pub fn violations(trace: &Trace, protocol: Protocol) -> Vec<String> {
    judge(trace, bounds(protocol)).iter().map(ToString::to_string).collect()
}

/// How many promises of a protocol are watched over: those of which clients see something.
pub fn promises(protocol: Protocol) -> usize {
    Suite::new(bounds(protocol)).rules().count()
}

/// What daemons promise of the order: groups ride on agreed messages only.
pub fn promised(protocol: Protocol) -> PromisedOrder {
    let per_component = matches!(protocol, Protocol::Toto | Protocol::Plato);
    PromisedOrder { per_component, quorum: is_of_a_quorum(protocol), ..PromisedOrder::default() }
}

/// Whether a majority of acceptors decides the order.
const fn is_of_a_quorum(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Paxos | Protocol::MultiRingPaxos)
}

fn bounds(protocol: Protocol) -> Bounds {
    Bounds { promised: promised(protocol), unseen: UNSEEN.into(), ..Bounds::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort::{ClientId, ClientName, MemberId, Progress, Service};

    fn welcome(node: u16) -> Welcome {
        Welcome {
            version: 1,
            daemon: MemberId::new(node, 7),
            session: 1,
            client: ClientId(1),
            daemon_name: format!("n{node}"),
            name: ClientName::new(b"ann").unwrap(),
            message_max: 1_000,
            credit: 1_000,
            groups_max: 1,
        }
    }

    fn told(at: u64, heard: Heard) -> Told {
        Told { by: 5, at, heard }
    }

    /// A client that sends one message, is told that it has its place, and is never given it.
    fn notes() -> Notes {
        let mut notes = Notes::new(GroupName::new(b"g").unwrap());
        notes.welcome(5, 10, &welcome(1));
        notes.see(told(20, Heard::Sent { count: 1, number: 2, service: Service::Agreed, len: 120 }));
        assert!(!notes.are_ordered(&[5]) && !notes.are_hushed(&[5]) && !notes.are_ordered(&[4]));
        notes.see(told(30, Heard::Progress(Progress { accepted: 2, ordered: 2, credit: 0 })));
        notes.see(told(40, Heard::Hushed));
        assert!(notes.are_ordered(&[5]) && notes.are_hushed(&[5]) && !notes.are_hushed(&[4]));
        notes
    }

    #[test]
    fn a_message_that_is_called_ordered_and_never_comes_is_a_broken_promise() {
        let broken = violations(&notes().trace(), Protocol::Ring);
        assert!(broken.len() == 1 && broken[0].starts_with("AK (acknowledged means delivered) broken"), "{broken:?}");
        let all = Suite::new(Bounds::default()).rules().count();
        assert_eq!(promises(Protocol::Ring), all - UNSEEN.len(), "all that are unseen are known");
        assert!(promises(Protocol::Toto) > 20);
    }

    #[test]
    fn what_the_daemons_count_as_impossible_is_a_broken_promise() {
        for (name, how) in [
            ("assertion_failures", "2 assertions of the protocol failed"),
            ("group_hash_mismatches", "group_hash_mismatches is 2"),
            ("ordered_malformed", "ordered_malformed is 2"),
        ] {
            let mut notes = notes();
            notes.status(5, 50, &[("rotations".to_owned(), "9".to_owned()), (name.to_owned(), "2".to_owned())]);
            let broken = violations(&notes.trace(), Protocol::Ring);
            assert!(broken.iter().any(|broken| broken.contains(how)), "{broken:?}");
        }
    }

    #[test]
    fn what_strangers_tell_is_passed_over() {
        let mut notes = Notes::new(GroupName::new(b"g").unwrap());
        notes.see(told(20, Heard::Sent { count: 1, number: 2, service: Service::Agreed, len: 120 }));
        assert_eq!((notes.sent, notes.clients(), notes.trace().events.len()), (0, 0, 0));
    }
}

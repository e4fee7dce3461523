//! Which message a delivery is, judged by its bytes.
//!
//! Messages too short for a name are told by their turn: within a view a sender's messages come in their order and none
//! is left out, so whoever knows which came first knows all that follow.
use crate::machine::{CONTROL, ReceivedMessage};
use crate::message::{HEADER, Mark, Pattern, Process, ProcessIncarnation, mark_of};
use crate::trace::{DeliverySender, InstallRecord, PerProcess, Submitted};
use consort_types::{Class, NodeId, ViewId};
use std::collections::BTreeMap;

/// Knows all messages that were accepted.
#[derive(Debug, Default)]
pub(crate) struct Identify {
    pub pattern: Pattern,
    submitted: PerProcess<Vec<Submitted>>,
    /// By receiver and sender.
    turns: PerProcess<PerProcess<SenderTurn>>,
    standing: PerProcess<IdentityStanding>,
    /// Who was in which regular view.
    members: BTreeMap<ViewId, Vec<ProcessIncarnation>>,
    /// Which of a sender's messages is its first of a view: the one after all that it had been given back before.
    firsts: BTreeMap<(ViewId, Process), u64>,
}

/// The number of a sender's next message, as known in a receiver's so many-eth view.
#[derive(Clone, Copy, Debug, Default)]
struct SenderTurn {
    views: u32,
    next: u64,
}

#[derive(Clone, Debug, Default)]
struct IdentityStanding {
    views: u32,
    id: ViewId,
    members: Vec<ProcessIncarnation>,
    late: bool,
    alone: bool,
}

/// What is found out about a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryIdentity {
    pub mark: Option<Mark>,
    pub nameless: bool,
    pub intact: bool,
}

impl Identify {
    /// A message was accepted.
    pub fn submit(&mut self, process: Process, submitted: Submitted) {
        let sent = self.submitted.of(process);
        sent.push(submitted);
        if sent.len() == 1 {
            self.expect_first(process);
        }
    }

    /// Clients of one node that are there when another first sends anything will be given that.
    fn expect_first(&mut self, origin: Process) {
        let there = self.standing.iter().filter(|(process, standing)| {
            process.incarnation() == origin.incarnation() && *process != origin && standing.views > 0
        });
        for (process, standing) in there {
            let turn = self.turns.of(process).of(origin);
            *turn = SenderTurn { views: standing.views, next: turn.next.max(1) };
        }
    }

    /// A process has come into a view; `late` if it is in the middle of it.
    pub fn view(&mut self, process: Process, view: &InstallRecord, late: bool) {
        if view.transitional && !late {
            return;
        }
        if !view.transitional {
            self.members.entry(view.id).or_insert_with(|| view.members.clone());
        }
        // What a view that closes still gives comes from all that were in it, not from those alone that move on.
        let members = self.members.get(&view.id).unwrap_or(&view.members).clone();
        let standing = self.standing.of(process);
        let views = standing.views + 1;
        *standing = IdentityStanding { views, id: view.id, members, late, ..*standing };
        for origin in self.served(process) {
            let next = self.turns.of(process).of(origin).next.max(1);
            self.firsts.entry((view.id, origin)).or_insert(next);
        }
    }

    /// A process takes part; alone on its node, unless others are there to take their messages back themselves.
    pub fn start(&mut self, process: Process, alone: bool) {
        self.standing.of(process).alone = alone;
    }

    /// Whose messages come back to a process.
    fn served(&self, process: Process) -> impl Iterator<Item = Process> + use<> {
        let alone = self.standing.get(process).is_some_and(|standing| standing.alone);
        let control = alone.then_some(Process { client: CONTROL, ..process });
        [process].into_iter().chain(control)
    }

    /// The message that was delivered, if anybody submitted such a one.
    pub fn identify(
        &mut self,
        process: Process,
        message: &ReceivedMessage,
        sender: DeliverySender,
    ) -> DeliveryIdentity {
        if message.payload.len() < HEADER {
            return self.by_turn(process, message, sender);
        }
        let Some(mark) = mark_of(&message.payload).filter(|mark| self.sent(*mark).is_some()) else {
            return DeliveryIdentity::default();
        };
        self.note(process, mark);
        DeliveryIdentity { mark: Some(mark), nameless: false, intact: self.pattern.is_payload(mark, &message.payload) }
    }

    fn sent(&self, mark: Mark) -> Option<&Submitted> {
        self.submitted.get(mark.origin)?.get(usize::try_from(mark.count).ok()?.checked_sub(1)?)
    }

    fn note(&mut self, process: Process, mark: Mark) {
        let views = self.standing.of(process).views;
        *self.turns.of(process).of(mark.origin) = SenderTurn { views, next: mark.count + 1 };
    }

    fn by_turn(&mut self, process: Process, message: &ReceivedMessage, sender: DeliverySender) -> DeliveryIdentity {
        let nobody = DeliveryIdentity::default();
        let Some(origin) = self.origin(process, message, sender) else { return nobody };
        let next = self.next(process, origin);
        let turn = next.map(|count| Mark { origin, count });
        if let Some(mark) = turn.filter(|mark| self.is(*mark, message)) {
            self.note(process, mark);
            return DeliveryIdentity { mark: Some(mark), nameless: false, intact: true };
        }
        let sent = self.submitted.get(origin).map_or(0, |sent| sent.len() as u64);
        let alike = (1..=sent).map(|count| Mark { origin, count }).filter(|mark| self.is(*mark, message));
        let Some(next) = next else { return DeliveryIdentity { nameless: alike.count() > 0, ..nobody } };
        // Not the one whose turn it is: the next that looks the same, or the last before.
        let found = alike.fold(None, |found: Option<Mark>, mark| match found {
            Some(found) if found.count >= next => Some(found),
            _ => Some(mark),
        });
        DeliveryIdentity { mark: found, nameless: false, intact: true }
    }

    fn origin(&self, process: Process, message: &ReceivedMessage, sender: DeliverySender) -> Option<Process> {
        let by_class = message.class.map(|class| if class == Class::Control { CONTROL } else { 0 });
        let client = sender.client.or(by_class)?;
        let member =
            || self.standing.get(process)?.members.iter().find(|incarnation| incarnation.node == sender.node).copied();
        let incarnation =
            sender.incarnation.map(|count| ProcessIncarnation { node: sender.node, count }).or_else(member);
        incarnation
            .or_else(|| self.last_incarnation(sender.node, client))
            .map(|incarnation| Process::of(incarnation, client))
    }

    /// The last incarnation of a node in which that client sent anything.
    fn last_incarnation(&self, node: NodeId, client: u16) -> Option<ProcessIncarnation> {
        let sent = self.submitted.iter().filter(|(origin, sent)| origin.node == node && !sent.is_empty());
        sent.filter(|(origin, _)| origin.client == client).map(|(origin, _)| origin.incarnation()).last()
    }

    /// The number of the sender's next message; none where that cannot be known.
    fn next(&mut self, process: Process, origin: Process) -> Option<u64> {
        let turn = *self.turns.of(process).of(origin);
        if self.served(process).any(|served| served == origin) {
            return Some(turn.next.max(1));
        }
        let standing = self.standing.of(process);
        // Clients of one node move together always, however late they read it.
        let same = turn.views == standing.views || origin.incarnation() == process.incarnation();
        if same && turn.next > 0 {
            return Some(turn.next);
        }
        if standing.late { None } else { self.firsts.get(&(standing.id, origin)).copied() }
    }

    fn is(&self, mark: Mark, message: &ReceivedMessage) -> bool {
        let Some(sent) = self.sent(mark) else { return false };
        sent.len == message.payload.len() as u64 && self.pattern.is_payload(mark, &message.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::MemberId;

    const SENDER: Process = Process::new(NodeId(1), 0);
    const RECEIVER: Process = Process::new(NodeId(0), 0);

    fn view(number: u64) -> InstallRecord {
        let id = ViewId { number, representative: MemberId::new(0, 1) };
        InstallRecord { id, members: vec![RECEIVER.incarnation(), SENDER.incarnation()], ..InstallRecord::default() }
    }

    /// Sender and receiver are in a view, and these were sent.
    fn sent(lens: &[u64]) -> Identify {
        let mut identify = Identify::default();
        identify.start(SENDER, true);
        identify.view(SENDER, &view(1), false);
        identify.view(RECEIVER, &view(1), false);
        for (len, count) in lens.iter().zip(1..) {
            identify.submit(SENDER, Submitted { count, len: *len, ..Submitted::default() });
        }
        identify
    }

    /// What a process finds when it is given that message of the sender's.
    fn given(identify: &mut Identify, to: Process, count: u64, len: usize) -> Option<u64> {
        let payload = identify.pattern.payload(Mark { origin: SENDER, count }, len);
        let message =
            ReceivedMessage { sender: NodeId(1), payload, class: Some(Class::Client), ..ReceivedMessage::default() };
        let sender = DeliverySender { node: NodeId(1), incarnation: Some(0), client: None };
        identify.identify(to, &message, sender).mark.map(|mark| mark.count)
    }

    #[test]
    fn empty_messages_are_told_apart_by_their_turn() {
        let mut identify = sent(&[0, 0, 5, 0]);
        let got: Vec<_> =
            [(1, 0), (2, 0), (3, 5), (4, 0), (4, 0)].map(|(n, len)| given(&mut identify, RECEIVER, n, len)).into();
        assert_eq!(got, [Some(1), Some(2), Some(3), Some(4), Some(4)], "one too many counts as the last again");
    }

    #[test]
    fn whoever_missed_some_in_another_view_knows_which_is_the_first_of_this_one() {
        let mut identify = sent(&[0, 0, 0]);
        given(&mut identify, SENDER, 1, 0);
        given(&mut identify, SENDER, 2, 0);
        identify.view(SENDER, &view(2), false);
        identify.view(RECEIVER, &view(2), false);
        assert_eq!(given(&mut identify, RECEIVER, 3, 0), Some(3));
    }

    #[test]
    fn clients_of_one_node_need_not_have_read_of_a_view_to_know_each_others_turns() {
        let (mut identify, late) = (sent(&[]), Process { client: 1, ..SENDER });
        for count in 1..=2 {
            identify.submit(late, Submitted { count, len: 0, ..Submitted::default() });
        }
        identify.view(late, &view(1), false);
        let given = |identify: &mut Identify, count| {
            let payload = identify.pattern.payload(Mark { origin: late, count }, 0);
            let message = ReceivedMessage { sender: NodeId(1), payload, ..ReceivedMessage::default() };
            identify
                .identify(SENDER, &message, DeliverySender { node: NodeId(1), incarnation: None, client: Some(1) })
                .mark
        };
        assert_eq!(given(&mut identify, 1), Some(Mark { origin: late, count: 1 }));
        identify.view(SENDER, &view(2), false);
        assert_eq!(given(&mut identify, 2), Some(Mark { origin: late, count: 2 }));
    }

    #[test]
    fn clients_of_one_node_know_the_first_that_another_of_them_sends_in_whatever_view_it_comes() {
        let (mut identify, second) = (sent(&[]), Process { client: 1, ..SENDER });
        identify.view(SENDER, &view(2), true);
        identify.view(second, &view(2), true);
        for count in 1..=2 {
            identify.submit(second, Submitted { count, len: 1, ..Submitted::default() });
        }
        let given = |identify: &mut Identify, count| {
            let payload = identify.pattern.payload(Mark { origin: second, count }, 1);
            let message = ReceivedMessage { sender: NodeId(1), payload, ..ReceivedMessage::default() };
            identify
                .identify(SENDER, &message, DeliverySender { node: NodeId(1), incarnation: None, client: Some(1) })
                .mark
        };
        assert_eq!(given(&mut identify, 1), Some(Mark { origin: second, count: 1 }), "in the view it came late to");
        identify.view(SENDER, &view(3), false);
        assert_eq!(
            given(&mut identify, 2),
            Some(Mark { origin: second, count: 2 }),
            "the other has not read of it yet"
        );
    }

    #[test]
    fn whoever_came_late_finds_out_with_the_first_name() {
        let mut identify = sent(&[0, 0, 100, 0]);
        identify.view(RECEIVER, &view(1), true);
        assert_eq!(given(&mut identify, RECEIVER, 2, 0), None);
        assert_eq!(given(&mut identify, RECEIVER, 3, 100), Some(3));
        assert_eq!(given(&mut identify, RECEIVER, 4, 0), Some(4));
    }

    #[test]
    fn whoever_came_late_to_a_view_that_closes_is_given_messages_of_those_that_do_not_move_on() {
        let mut identify = sent(&[7]);
        let back = Process { incarnation: 1, ..SENDER };
        identify.submit(back, Submitted { count: 1, len: 9, ..Submitted::default() });
        let closing = InstallRecord { transitional: true, members: vec![RECEIVER.incarnation()], ..view(1) };
        let late = Process { client: 1, ..RECEIVER };
        identify.view(late, &closing, true);
        let payload = identify.pattern.payload(Mark { origin: SENDER, count: 1 }, 7);
        let message =
            ReceivedMessage { sender: NodeId(1), payload, class: Some(Class::Client), ..ReceivedMessage::default() };
        let found =
            identify.identify(late, &message, DeliverySender { node: NodeId(1), incarnation: None, client: None });
        assert!(
            found.nameless,
            "one of the incarnation that was in the view, not of the one that came back: {found:?}"
        );
    }

    #[test]
    fn what_nobody_sent_has_no_name() {
        let mut identify = sent(&[100]);
        assert_eq!(given(&mut identify, RECEIVER, 2, 100), None);
        assert_eq!(given(&mut identify, RECEIVER, 1, 3), None);
    }

    #[test]
    fn wrong_bytes_are_noticed() {
        let mut identify = sent(&[100]);
        let mut bytes = identify.pattern.payload(Mark { origin: SENDER, count: 1 }, 100).to_bytes().to_vec();
        let sender = DeliverySender { node: NodeId(1), incarnation: Some(0), client: None };
        for (flip, intact) in [(0, true), (1, false)] {
            bytes[50] ^= flip;
            let payload = bytes::Bytes::from(bytes.clone()).into();
            let message = ReceivedMessage { sender: NodeId(1), payload, ..ReceivedMessage::default() };
            let identity = identify.identify(RECEIVER, &message, sender);
            assert_eq!((identity.mark.is_some(), identity.intact), (true, intact));
        }
    }
}

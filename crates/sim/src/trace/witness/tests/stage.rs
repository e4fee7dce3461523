//! Clients on stage: what their sessions tell them, to be written down by witnesses.
use super::super::{Merge, NameBook, SessionEnding, Witness};
use crate::checkers::{Bounds, judge};
use crate::message::Process;
use crate::trace::{Occurrence, Trace, TraceEvent};
use bytes::Bytes;
use consort_session::MulticastLayout;
use consort_session::event::put_message;
use consort_session::{self as session, ChangeCause, ClientName, GroupViewId, Member, Progress, Welcome};
use consort_types::{ClientId, GroupName, Instant, MemberId, NodeId, Primary, Service, ViewId, ViewKind};
use std::collections::BTreeMap;

/// What a client sent, for all others to be given.
#[derive(Clone)]
pub struct Sent {
    from: (NodeId, ClientId),
    service: Service,
    groups: Vec<GroupName>,
    payload: Vec<u8>,
}

/// A client, its witnesses, and how much it sent.
struct Player {
    me: Member,
    witnesses: Vec<Witness>,
    sent: u64,
    requests: u64,
    /// Those that go on with it from the view that was closed last; before the first, all that are there.
    together: Option<Vec<MemberId>>,
}

/// All clients, by number; each has one witness for each set of groups that it is given.
pub struct Stage {
    cast: NameBook,
    now: Instant,
    players: BTreeMap<u16, Player>,
    past: Vec<Vec<TraceEvent>>,
}

fn group(name: &str) -> GroupName {
    GroupName::new(name.as_bytes()).unwrap()
}

pub fn member(node: u16) -> MemberId {
    MemberId::new(node, 100 + u64::from(node))
}

fn view_id(number: u64) -> ViewId {
    ViewId { number, representative: member(1) }
}

/// What receivers are told of a message: who sends, targets and payload.
fn told(sent: &Sent) -> Bytes {
    let mut bytes = sent.from.1.0.to_be_bytes().to_vec();
    bytes.extend(b"\x02me");
    bytes.extend((sent.groups.len() as u16).to_be_bytes());
    for group in &sent.groups {
        bytes.push(group.as_bytes().len() as u8);
        bytes.extend(group.as_bytes());
    }
    bytes.extend(&sent.payload);
    bytes.into()
}

impl Stage {
    pub fn new() -> Self {
        Self { cast: NameBook::default(), now: Instant::ZERO, players: BTreeMap::new(), past: Vec::new() }
    }

    /// A client is welcomed, and asks to join all groups of its witnesses; `-` before groups stands for a bystander.
    pub fn welcome(&mut self, key: u16, daemon: MemberId, scopes: &[&[&str]]) {
        let at = self.tick();
        let client = ClientId(self.players.values().filter(|player| player.me.daemon == daemon).count() as u32 + 1);
        let welcome = Welcome {
            version: 1,
            daemon,
            session: 1,
            client,
            daemon_name: daemon.node.to_string(),
            name: ClientName::new(b"it").unwrap(),
            message_max: 1 << 20,
            credit: 1 << 20,
            groups_max: 8,
        };
        let named = |scope: &&[&str]| scope.iter().map(|name| group(name)).collect::<Vec<_>>();
        let witness = |scope: &&[&str]| match scope.split_first() {
            Some((&"-", of)) => self.cast.bystander(&welcome, &named(&of)),
            _ => self.cast.witness(at, &welcome, &named(scope)),
        };
        let witnesses = scopes.iter().map(witness).collect();
        let me = Member { daemon, client, name: welcome.name };
        self.players.insert(key, Player { me, witnesses, sent: 0, requests: 1, together: None });
    }

    fn tick(&mut self) -> Instant {
        self.now = Instant(self.now.0 + 1_000);
        self.now
    }

    pub fn tell(&mut self, node: u16, event: &session::DaemonEvent) {
        let at = self.tick();
        let cast = &mut self.cast;
        self.players.get_mut(&node).unwrap().witnesses.iter_mut().for_each(|witness| witness.see(at, event, cast));
    }

    fn tell_all(&mut self, nodes: &[u16], event: &session::DaemonEvent) {
        nodes.iter().for_each(|node| self.tell(*node, event));
    }

    /// These are told that they are in a regular view together.
    pub fn install(&mut self, nodes: &[u16], number: u64, primary: Primary) {
        self.view(nodes, number, ViewKind::Regular, primary);
    }

    /// These are told that those of them go on together from a view.
    pub fn close(&mut self, nodes: &[u16], number: u64) {
        self.view(nodes, number, ViewKind::Transitional, Primary::No);
    }

    fn view(&mut self, nodes: &[u16], number: u64, kind: ViewKind, primary: Primary) {
        let mut members: Vec<_> = nodes.iter().map(|node| self.players[node].me.daemon).collect();
        members.dedup();
        for node in nodes {
            let player = self.players.get_mut(node).unwrap();
            if kind == ViewKind::Transitional {
                player.together = Some(members.clone());
            }
            let (members, moved_together) =
                (members.clone(), player.together.clone().unwrap_or_else(|| members.clone()));
            let (id, cause) = (view_id(number), String::new());
            self.tell(
                *node,
                &session::DaemonEvent::View(session::NetworkView { id, kind, primary, members, moved_together, cause }),
            );
        }
    }

    /// The last of these has just joined the others in a group, and all are told so.
    pub fn join(&mut self, name: &str, nodes: &[u16], view: u64, change: u64) {
        let sets = (0..nodes.len()).map(|at| u16::from(at > 0 && at + 1 == nodes.len())).collect();
        self.group(name, nodes, (view, change), ChangeCause::Join, sets);
    }

    /// The network has brought these together in a group, each from another side.
    pub fn regroup(&mut self, name: &str, nodes: &[u16], view: u64) {
        self.group(name, nodes, (view, 0), ChangeCause::Network, (0..nodes.len() as u16).collect());
    }

    /// This one is told that members of a group do not move along.
    pub fn signal(&mut self, name: &str, node: u16, view: u64, change: u64) {
        let id = GroupViewId { view: view_id(view), change };
        self.tell(node, &session::DaemonEvent::GroupSignal(session::GroupSignal { group: group(name), id }));
    }

    fn group(&mut self, name: &str, nodes: &[u16], (view, change): (u64, u64), cause: ChangeCause, sets: Vec<u16>) {
        let members: Vec<_> = nodes.iter().map(|node| self.players[node].me.clone()).collect();
        let id = GroupViewId { view: view_id(view), change };
        let who = members.last().cloned().into_iter().collect();
        let view = session::GroupView {
            group: group(name),
            id,
            cause,
            who,
            closed: false,
            primary: Primary::No,
            sets,
            members,
        };
        self.tell_all(nodes, &session::DaemonEvent::GroupView(view));
    }

    pub fn send(&mut self, node: u16, service: Service, groups: &[&str]) -> Sent {
        let at = self.tick();
        let groups: Vec<_> = groups.iter().map(|name| group(name)).collect();
        let player = self.players.get_mut(&node).unwrap();
        (player.sent, player.requests) = (player.sent + 1, player.requests + 1);
        let payload = player.witnesses[0].payload(player.sent, 40).to_bytes().to_vec();
        for witness in &mut player.witnesses {
            witness.submitted(at, player.requests, player.sent, &groups, (service, payload.len()));
        }
        Sent { from: (player.me.daemon.node, player.me.client), service, groups, payload }
    }

    pub fn deliver(&mut self, nodes: &[u16], sent: &Sent) {
        let mut frame = session::FrameQueue::default();
        let all = MulticastLayout { at: 0, targets_at: 0, batch: false, note: None };
        put_message(&mut frame, sent.from.0, sent.service, &told(sent).into(), &all);
        let mut replies = session::client::Replies::default();
        replies.feed(frame.pieces().flatten().copied().collect());
        let event = replies.next_event().unwrap().unwrap();
        self.tell_all(nodes, &event);
    }

    /// All that a client sent so far is acknowledged.
    pub fn acknowledge(&mut self, node: u16) {
        let ordered = self.players[&node].requests;
        let progress = Progress { accepted: ordered, ordered, credit: 0 };
        self.tell(node, &session::DaemonEvent::Progress(progress));
    }

    /// A request of a client is refused: this one, or else the last that it made.
    pub fn refuse(&mut self, node: u16, request: Option<u64>) {
        let request = request.unwrap_or(self.players[&node].requests);
        let refusal = session::Refusal::new(session::RefusalCause::Leaving, "leaving");
        self.tell(node, &session::DaemonEvent::Refused { request, refusal });
    }

    /// A daemon is gone, and its clients' sessions with it.
    pub fn end(&mut self, node: u16, end: SessionEnding) {
        let at = self.tick();
        let mut player = self.players.remove(&node).unwrap();
        player.witnesses.iter_mut().for_each(|witness| witness.ended(at, end));
        self.past.extend(player.witnesses.iter_mut().map(Witness::take));
    }

    pub fn witness(&mut self, node: u16) -> &mut Witness {
        &mut self.players.get_mut(&node).unwrap().witnesses[0]
    }

    /// The trace of the witnesses that stand at this place of their clients' lists, with a calm at its end.
    pub fn trace(&mut self, scope: usize) -> Trace {
        let at = self.tick();
        let living = self.players.values_mut().filter_map(|player| player.witnesses.get_mut(scope)).map(Witness::take);
        let mut events: Vec<_> = living.collect::<Vec<_>>().concat();
        events.extend(self.past.concat());
        events.push(TraceEvent { at, process: Process::WORLD, what: Occurrence::Calm });
        Trace { events: Merge::default().next(events) }
    }
}

/// The ids of the promises that a trace breaks, each once.
pub fn broken(trace: &Trace) -> Vec<&'static str> {
    let mut ids: Vec<_> = judge(trace, Bounds::default()).iter().map(|violation| violation.rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

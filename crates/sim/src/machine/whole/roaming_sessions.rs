//! Sessions that roam: each has a producer, one connection at a time, and an account of its own sends, which outlast the nodes
//! that it is connected to. The account is the simulator's own: client libraries keep another.
use super::candidate::{Candidate, ElectionTouch};
use crate::plan::RunPlan;
use bytes::{BufMut, Bytes, BytesMut};
use consort_leader::Timing;
use consort_session::{OpenRequest, ProducerId, RefusalCause};
use consort_types::{Duration, MemberId, NodeId, Rng};
use consort_wire::Reader;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// In this share of the runs there are such sessions.
const SHARE: f64 = 0.3;
/// A session has at most so many sends without a fate.
const KEPT: usize = 24;
/// After so many turns of each other node without one of its own, a session's node is taken for dead.
const UNHEARD: u64 = 8;
/// What their messages begin with.
const MAGIC: &[u8] = b"roaming:";

/// The sessions of a run, shared by all nodes.
#[derive(Clone, Debug)]
pub struct RoamingSessions(Rc<RefCell<Roaming>>);

/// All of them, and the chance by which they roam.
#[derive(Debug)]
pub(super) struct Roaming {
    pub rng: Rng,
    pub nodes: u16,
    pub sessions: Vec<RoamingSession>,
}

/// Where a session is connected: in an incarnation of a node, as which of its clients.
pub(super) type RoamingLink = (MemberId, usize);

/// Where a session is connected, and which node looks after it.
#[derive(Debug)]
pub(super) struct RoamingHome {
    node: NodeId,
    pub link: Option<RoamingLink>,
    /// How many turns the other nodes had since its node had one.
    unheard: u64,
}

/// What a node's turn comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeTurn {
    /// The session is another node's.
    Elsewhere,
    /// It is to be connected here.
    New,
    /// It is connected here.
    Here,
}

/// One of them.
#[derive(Debug)]
pub(super) struct RoamingSession {
    pub producer: ProducerId,
    /// The last of its openings of which it was told that it is open; 0 for none.
    opened: u64,
    /// No policy says which part goes on: it is over.
    pub over: bool,
    pub home: RoamingHome,
    made: u64,
    tried: u64,
    /// How often it asked to be opened.
    openings: u64,
    /// The number of the last that went under way.
    numbered: u64,
    sends: VecDeque<KeptSend>,
    /// It has lost its connection since its candidate was told.
    pub lost: bool,
    /// Who wants to lead through it, what it has yet to send for that, and what has a fate of what it sent: by serial.
    pub candidate: Option<Candidate>,
    pub commands: Vec<(u64, Bytes)>,
    pub settled: Vec<(u64, bool)>,
}

/// A send without a fate.
#[derive(Debug)]
struct KeptSend {
    send: u64,
    /// Under which number it went last, unless it is certain that it was not ordered under it.
    number: Option<u64>,
    /// Which request of the connection it is.
    request: Option<u64>,
    /// What it says of an election, and which of its candidate's messages it is.
    command: Option<(u64, Bytes)>,
}

/// What a message of theirs says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoamingMessage {
    /// Which of the sessions sent it.
    pub session: u16,
    pub send: u64,
    /// Every time that a send goes under way is another.
    pub attempt: u64,
    pub number: u64,
}

/// What a node does for a session at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoamingDeed {
    Connect,
    /// It goes on elsewhere; `stays` if the connection lives on and does not know.
    Move {
        stays: bool,
    },
    Send(usize),
    Nothing,
}

impl RoamingSessions {
    /// Those of a run, if it has any.
    pub fn draw(plan: &RunPlan) -> Option<Self> {
        Rng::new(plan.seed).fork(0x0a31).chance(SHARE).then(|| Self::senders(plan))
    }

    /// Those of a run that send.
    pub fn senders(plan: &RunPlan) -> Self {
        let mut rng = Rng::new(plan.seed).fork(0x0a31);
        let _ = rng.chance(SHARE);
        let count = rng.between(1, 3) as u8;
        let sessions = (1..=count).map(|n| RoamingSession::new(n, NodeId(rng.below(u64::from(plan.nodes)) as u16)));
        let sessions = sessions.collect();
        Self(Rc::new(RefCell::new(Roaming { sessions, nodes: plan.nodes, rng })))
    }

    /// The candidates of a run, if it has any.
    pub fn draw_candidates(plan: &RunPlan) -> Option<Self> {
        Rng::new(plan.seed).fork(0x1eac).chance(SHARE).then(|| Self::candidates(plan, None))
    }

    /// Candidates of one group, which agree how long a lease lasts and how far clocks err.
    pub fn candidates(plan: &RunPlan, touch: Option<&ElectionTouch>) -> Self {
        let mut rng = Rng::new(plan.seed).fork(0x1ead);
        let lease = Duration::from_millis([100, 200, 300, 600][rng.below(4) as usize]);
        let drift_ppm = [1_000, 50_000, 200_000][rng.below(3) as usize];
        let timing = Timing::new(lease, drift_ppm).unwrap_or_default();
        let count = rng.between(2, 4) as u8;
        let mut session = |n| {
            let mut session = RoamingSession::new(n, NodeId(rng.below(u64::from(plan.nodes)) as u16));
            session.candidate = Some(Candidate::new(u16::from(n), timing, drift_ppm, &mut rng, touch.cloned()));
            session
        };
        let sessions = (1..=count).map(&mut session).collect();
        Self(Rc::new(RefCell::new(Roaming { sessions, nodes: plan.nodes, rng })))
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Roaming) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }

    pub(super) fn session<T>(&self, at: usize, act: impl FnOnce(&mut RoamingSession) -> T) -> T {
        self.with(|roaming| act(&mut roaming.sessions[at]))
    }
}

impl Roaming {
    /// A node looks after a session.
    pub fn turn(&mut self, at: usize, me: MemberId, calm: bool) -> RoamingDeed {
        let Self { rng, nodes, sessions } = self;
        let session = &mut sessions[at];
        if session.over || calm && session.sends.is_empty() && session.candidate.is_none() {
            return RoamingDeed::Nothing;
        }
        match session.home.turn(me, *nodes) {
            HomeTurn::Elsewhere => return RoamingDeed::Nothing,
            HomeTurn::New => {
                session.leave(me.node);
                return RoamingDeed::Connect;
            }
            HomeTurn::Here => {}
        }
        let restless = if session.candidate.is_some() { 0.004 } else { 0.04 };
        if !calm && rng.chance(restless) {
            session.leave(NodeId(rng.below(u64::from(*nodes)) as u16));
            return RoamingDeed::Move { stays: rng.chance(0.5) };
        }
        if session.candidate.is_some() {
            return RoamingDeed::Send(0);
        }
        let room = KEPT.saturating_sub(session.sends.len()) as u64;
        RoamingDeed::Send(if calm { 0 } else { rng.below(5).min(room) as usize })
    }

    /// Whether any session still wants something once nothing new is sent.
    pub fn is_done(&self) -> bool {
        self.sessions.iter().all(|session| session.over || session.sends.is_empty())
    }
}

impl RoamingHome {
    pub const fn new(node: NodeId) -> Self {
        Self { node, link: None, unheard: 0 }
    }

    /// It has no connection, and is to have one at that node.
    pub const fn leave(&mut self, to: NodeId) {
        (self.node, self.link, self.unheard) = (to, None, 0);
    }

    /// A node has its turn. One that had none for long loses the session.
    pub fn turn(&mut self, me: MemberId, nodes: u16) -> HomeTurn {
        if self.node != me.node {
            self.unheard += 1;
            if self.unheard <= UNHEARD * u64::from(nodes) {
                return HomeTurn::Elsewhere;
            }
            self.leave(me.node);
        }
        self.unheard = 0;
        if self.link.is_some_and(|(incarnation, _)| incarnation == me) {
            return HomeTurn::Here;
        }
        self.leave(me.node);
        HomeTurn::New
    }
}

impl RoamingSession {
    const fn new(n: u8, home: NodeId) -> Self {
        Self {
            producer: ProducerId([n; ProducerId::LEN]),
            opened: 0,
            over: false,
            home: RoamingHome::new(home),
            made: 0,
            tried: 0,
            openings: 0,
            numbered: 0,
            sends: VecDeque::new(),
            lost: false,
            candidate: None,
            commands: Vec::new(),
            settled: Vec::new(),
        }
    }

    /// What its producer is opened with next.
    pub fn opening(&mut self) -> OpenRequest {
        self.openings += 1;
        let (producer, session) = (self.producer, u64::from(self.producer.0[0]));
        OpenRequest { producer, session, attempt: self.openings, opened: self.opened, known: self.opened > 0 }
    }

    /// It has no connection, and is to have one at that node.
    pub fn leave(&mut self, to: NodeId) {
        self.home.leave(to);
        self.lost = true;
        self.sends.iter_mut().for_each(|send| send.request = None);
    }

    /// It has lost its connection, and stays where it is.
    pub fn part(&mut self) {
        let node = self.home.node;
        self.leave(node);
    }

    /// A new send that is nobody's to settle: of a connection that the session has left.
    pub const fn make(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// A new send of its own.
    pub fn push(&mut self) -> u64 {
        let send = self.make();
        self.sends.push_back(KeptSend { send, number: None, request: None, command: None });
        send
    }

    /// A new send of its candidate, where there is one.
    pub fn push_command(&mut self) -> Option<u64> {
        let command = (!self.commands.is_empty()).then(|| self.commands.remove(0))?;
        let send = self.make();
        self.sends.push_back(KeptSend { send, number: None, request: None, command: Some(command) });
        Some(send)
    }

    /// What a send says of an election.
    pub fn command(&self, send: u64) -> Option<Bytes> {
        let kept = self.sends.iter().find(|kept| kept.send == send)?;
        kept.command.as_ref().map(|(_, command)| command.clone())
    }

    pub const fn attempt(&mut self) -> u64 {
        self.tried += 1;
        self.tried
    }

    /// What is to be sent next, and the number that it will have.
    pub fn next(&self) -> Option<(u64, u64)> {
        let next = self.sends.iter().find(|kept| kept.request.is_none())?;
        Some((next.send, self.numbered + 1))
    }

    /// That went as a request.
    pub fn sent(&mut self, request: u64) {
        if let Some(next) = self.sends.iter_mut().find(|kept| kept.request.is_none()) {
            self.numbered += 1;
            (next.number, next.request) = (Some(self.numbered), Some(request));
        }
    }

    /// It was opened: what went under a number up to `last` is ordered, nobody knows of what was forgotten, the rest goes
    /// again.
    pub fn open(&mut self, last: u64, forgotten: bool) {
        self.drop_sends(!forgotten, |kept| kept.number.is_some_and(|number| forgotten || number <= last));
        self.sends.iter_mut().for_each(|kept| (kept.number, kept.request) = (None, None));
        (self.numbered, self.opened) = (last, self.openings);
    }

    pub fn settle(&mut self, number: u64) {
        self.drop_sends(true, |kept| kept.number.is_some_and(|own| own <= number));
    }

    /// These have a fate.
    fn drop_sends(&mut self, ordered: bool, have: impl Fn(&KeptSend) -> bool) {
        let settled = self.sends.iter().filter(|kept| have(kept)).filter_map(|kept| kept.command.as_ref());
        self.settled.extend(settled.map(|(serial, _)| (*serial, ordered)));
        self.sends.retain(|kept| !have(kept));
    }

    /// A request was refused. What nobody will ever take is dropped.
    pub fn refuse(&mut self, request: u64, cause: RefusalCause) {
        let Some(at) = self.sends.iter().position(|kept| kept.request == Some(request)) else { return };
        if is_again(cause) {
            self.sends[at].number = None;
        } else {
            self.drop_sends(false, |kept| kept.request == Some(request));
        }
    }
}

/// Whether what was refused so may be sent again.
pub(super) const fn is_again(cause: RefusalCause) -> bool {
    matches!(
        cause,
        RefusalCause::Missing
            | RefusalCause::NotPrimary
            | RefusalCause::Forgotten
            | RefusalCause::Fenced
            | RefusalCause::Budget
            | RefusalCause::Leaving
    )
}

impl RoamingMessage {
    /// So many bytes it has.
    pub const LEN: usize = MAGIC.len() + 26;

    pub fn to_bytes(self, command: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(Self::LEN + command.len());
        out.put_slice(MAGIC);
        out.put_u16(self.session);
        out.put_u64(self.send);
        out.put_u64(self.attempt);
        out.put_u64(self.number);
        out.put_slice(command);
        out.freeze()
    }

    /// Reads what a message says; behind that stands what it says of an election.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC)?);
        Some(Self {
            session: reader.u16("session").ok()?,
            send: reader.u64("send").ok()?,
            attempt: reader.u64("attempt").ok()?,
            number: reader.u64("number").ok()?,
        })
    }
}

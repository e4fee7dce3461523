//! One client of a node: its session, and what it waits for.
use crate::clients::client_session::ClientSession;
use crate::clients::fairness::UnderWay;
use crate::clients::slow_terms::{SlowState, SlowTerms};
use consort_session::listing::{Connection, ConnectionStage, Transport};
use consort_session::{Limits, SlowPolicy};
use consort_types::{ClientId, Instant, OrderWait};

#[derive(Debug)]
pub(crate) struct ClientRecord {
    pub session: ClientSession,
    pub hello_by: Instant,
    /// When it is told next that this daemon is at work.
    pub heartbeat_at: Option<Instant>,
    pub paused: bool,
    /// Has as much under way as it may have.
    pub held_back: bool,
    /// Waits for room to go on with a large frame.
    pub wants_room: bool,
    /// Asked to join some group: its going must be ordered.
    pub joined: bool,
    pub transport: Transport,
    /// What is done if it does not read, and how that is now.
    pub terms: SlowTerms,
    pub slow: SlowState,
    /// Its next request waits for this client, which does not read.
    pub waits_for: Option<OrderWait>,
    /// Its next request waits until something is read here, and this keeps that from being read.
    pub unread_for: Option<OrderWait>,
    /// Who it is, for the log.
    pub identity: String,
    pub under_way: UnderWay,
    /// What its output costs.
    pub charge: usize,
    /// Its output was cut: what is left is the frame that it has begun, and why it is sent away.
    pub cut: bool,
    /// Reads no more.
    pub deaf: bool,
    /// Has begun a frame, or waits for room to go on with one.
    pub begun: bool,
}

impl ClientRecord {
    pub fn new(client: ClientId, hello_by: Instant, limits: &Limits) -> Self {
        Self {
            session: ClientSession::new(client),
            hello_by,
            heartbeat_at: None,
            paused: false,
            held_back: false,
            wants_room: false,
            joined: false,
            transport: Transport::Unknown,
            terms: SlowTerms::new(SlowPolicy::Disconnect, None, limits),
            slow: SlowState::default(),
            waits_for: None,
            unread_for: None,
            identity: String::new(),
            under_way: UnderWay::default(),
            charge: 0,
            cut: false,
            deaf: false,
            begun: false,
        }
    }

    /// Whether more may be read: it was not sent away, and does not wait for its own requests or for room.
    pub fn may_read(&self) -> bool {
        !self.session.is_closed() && !self.held_back && !self.wants_room && !self.under_way.waits
    }

    pub fn connection(&self, client: ClientId, limits: &Limits) -> Connection {
        Connection {
            client,
            name: self.session.named().cloned(),
            transport: self.transport,
            stage: self.stage(),
            groups: 0,
            waiting: self.session.output().len() as u64,
            under_way: u32::try_from(self.session.outstanding()).unwrap_or(u32::MAX),
            credit: u32::try_from(limits.credit).unwrap_or(u32::MAX),
            slow: self.terms.policy,
            spooled: self.session.output().spooled(),
        }
    }

    /// Counts what its output costs now, where all are counted.
    pub fn account(&mut self, all: &mut usize) {
        let charge = self.session.output().charge();
        *all = *all + charge - std::mem::replace(&mut self.charge, charge);
    }

    fn stage(&self) -> ConnectionStage {
        if self.session.is_closed() {
            ConnectionStage::Ending
        } else if !self.session.is_open() {
            ConnectionStage::Connecting
        } else if self.paused || self.held_back || self.wants_room || self.under_way.waits {
            ConnectionStage::Waiting
        } else {
            ConnectionStage::Open
        }
    }
}

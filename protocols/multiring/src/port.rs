//! One ring at this node: its engine, and how far it serves the view of the network.
use crate::carrier::{CarriedMessage, Carrier, CarrierContent, MESSAGE_COST, PASSED};
use crate::config::{Config, ConfigError};
use crate::horizon::Horizon;
use crate::key::RingNumber;
use crate::layout::RingNodes;
use consort_order::{Engine, Submission, Topic};
use consort_ring::Ring;
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Service, View, ViewId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One ring at this node.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its number.
    pub number: RingNumber,
    /// How far its nodes are from each other.
    pub delay: Duration,
    /// Its engine.
    pub ring: Ring,
    /// Its configuration.
    pub view: Option<View>,
    /// The configuration is being closed: only what belongs to it still comes.
    pub closing: bool,
    /// The number of the ring in the installed view; none where the view's messages do not come to this node by it.
    pub in_view: Option<RingNumber>,
    /// How far this node is with it in the installed view.
    pub part: Part,
    /// Who began which views in this configuration, and which of them somebody ended.
    marks: BTreeMap<ViewId, Marks>,
    /// The installed view.
    installed: Option<ViewId>,
    /// What waits for room in the ring's queue.
    pub out: VecDeque<Carrier>,
    /// The bytes of that.
    pub out_bytes: usize,
    /// What its nodes were told of the rings that lie behind this node.
    pub told: BTreeMap<RingNumber, Horizon>,
    /// What was told last is not handed out yet.
    pub telling: bool,
    /// What was not sent on here, and its nodes are yet to be told of.
    pub passed: Vec<CarriedMessage>,
    /// What was told last of that is not handed out yet.
    pub passing: bool,
    /// What the nodes on its side read; none where somebody reads everything, or has not told.
    pub readers: Option<BTreeSet<Topic>>,
    /// It said good-bye.
    pub left: bool,
    #[cfg(feature = "mutants")]
    mutant: Option<crate::Mutant>,
}

/// How far this node is with a ring in the view that it has installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The ring has another set of members than the view.
    Apart,
    /// It said that it begins.
    Begun,
    /// Nothing more of the view comes by this ring.
    Over,
}

/// How far a ring is with a view, by what stands in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all have begun.
    Forming,
    /// It carries the view's messages.
    Open,
    /// Somebody's view has ended.
    Shut,
}

/// What a ring's order says about one view.
#[derive(Clone, Debug, Default)]
struct Marks {
    begun: BTreeSet<MemberId>,
    ended: bool,
}

/// So many views are kept in mind: only the installed one and those that follow it matter.
const MARKS_MAX: usize = 16;

impl Port {
    /// A ring that is about to start.
    pub fn new(config: &Config, ring: &RingNodes, incarnation: Incarnation) -> Result<Self, ConfigError> {
        let engine = Ring::new(config.of_ring(ring), incarnation)
            .map_err(|error| ConfigError { setting: error.setting, problem: error.problem })?;
        Ok(Self {
            number: ring.id,
            delay: ring.delay,
            ring: engine,
            view: None,
            closing: false,
            in_view: None,
            part: Part::Apart,
            marks: BTreeMap::new(),
            installed: None,
            out: VecDeque::new(),
            out_bytes: 0,
            told: BTreeMap::new(),
            telling: false,
            passed: Vec::new(),
            passing: false,
            readers: None,
            left: false,
            #[cfg(feature = "mutants")]
            mutant: config.mutant,
        })
    }

    /// Whether this incarnation of a node is in the ring's configuration.
    pub fn has(&self, member: MemberId) -> bool {
        self.view.as_ref().is_some_and(|view| view.members.contains(&member))
    }

    /// Whether exactly these members of a view are in the ring's configuration. Others may be there, too: what they send belongs
    /// to views of their own.
    pub fn is_made_of(&self, standing: &BTreeSet<MemberId>, of: &View) -> bool {
        let Some(view) = &self.view else { return false };
        standing.iter().eq(view.members.iter().filter(|member| of.members.contains(member)))
    }

    /// Whether a node is in the ring's configuration, in any incarnation.
    pub fn hears(&self, node: NodeId) -> bool {
        self.view.as_ref().is_some_and(|view| view.members.iter().any(|member| member.node == node))
    }

    /// The ring's configuration, if messages of it are still delivered as its own.
    pub fn configuration(&self) -> Option<ViewId> {
        self.view.as_ref().filter(|_| !self.closing).map(|view| view.id)
    }

    /// The ring has another configuration: what was said of views in the last one is void.
    pub fn enter(&mut self, view: View) {
        //= TM31
        self.view = Some(view);
        self.closing = false;
        self.marks.clear();
    }

    /// Another view is installed: this ring has no part in it yet.
    pub fn begin_view(&mut self, view: ViewId, in_view: Option<RingNumber>) {
        self.in_view = in_view;
        //= TM11
        self.delay = self.ring.delay();
        self.installed = Some(view);
        self.part = Part::Apart;
        self.marks.retain(|other, _| other.number >= view.number);
        self.told.clear();
        self.drop_out();
        (self.telling, self.passing) = (false, false);
        //= TM52
        if !crate::mutated!(self, ReadersKept) {
            self.readers = None;
        }
    }

    /// Nothing that waits here is sent any more.
    pub fn drop_out(&mut self) {
        self.out.clear();
        self.passed.clear();
        self.out_bytes = 0;
    }

    /// Somebody began a view in this configuration.
    pub fn on_begin(&mut self, view: ViewId, member: MemberId) {
        //= TM30
        self.marks_of(view).begun.insert(member);
    }

    /// Somebody's view ended.
    pub fn on_end(&mut self, view: ViewId) {
        //= TM32
        self.marks_of(view).ended = true;
    }

    fn marks_of(&mut self, view: ViewId) -> &mut Marks {
        if self.marks.len() >= MARKS_MAX && !self.marks.contains_key(&view) {
            let oldest = self.marks.keys().copied().find(|other| Some(*other) != self.installed);
            oldest.map(|other| self.marks.remove(&other));
        }
        self.marks.entry(view).or_default()
    }

    /// How far the ring is with a view, of which these are the members that stand in it.
    pub fn phase(&self, view: ViewId, members: &BTreeSet<MemberId>) -> Phase {
        //= TM30
        //= TM32
        let Some(marks) = self.marks.get(&view) else { return Phase::Forming };
        match (marks.ended, self.part == Part::Begun && marks.begun.is_superset(members)) {
            (true, _) => Phase::Shut,
            (false, true) => Phase::Open,
            (false, false) => Phase::Forming,
        }
    }

    /// Whether nobody on its side reads a message.
    pub fn is_unread(&self, data: &CarriedMessage) -> bool {
        //= TM50
        let (Some(readers), Some(mut topics)) = (&self.readers, data.message.topics()) else { return false };
        let mut none = true;
        topics.all(|topic| {
            none = false;
            !readers.contains(&topic)
        }) && !none
    }

    /// Keeps a message in mind that is not sent on here.
    pub fn pass(&mut self, view: ViewId, data: &CarriedMessage) {
        //= TM51
        self.passed.push(CarriedMessage { message: data.message.without_bytes(), ..*data });
        if self.passed.len() >= PASSED {
            self.tell_passed(view);
        }
    }

    /// Puts what was not sent on here behind all that waits, without its bytes.
    pub fn tell_passed(&mut self, view: ViewId) {
        //= TM51
        if !self.passed.is_empty() {
            let content = CarrierContent::Passed(std::mem::take(&mut self.passed));
            self.push(Carrier { view, content });
        }
    }

    /// Puts something behind all that waits.
    pub fn push(&mut self, carrier: Carrier) {
        self.out_bytes += cost(&carrier);
        self.out.push_back(carrier);
    }

    /// Puts something before all that waits: messages may wait already for all to begin.
    pub fn push_first(&mut self, carrier: Carrier) {
        self.out_bytes += cost(&carrier);
        self.out.push_front(carrier);
    }

    /// Hands what waits to the ring, as far as it takes it; messages only where the view is `open` there. Whether anything went.
    pub fn send(&mut self, now: Instant, open: bool) -> bool {
        //= TM23
        let mut any = false;
        while let Some(carrier) = self.out.front() {
            if !open && !matches!(carrier.content, CarrierContent::Begin(_) | CarrierContent::End(_)) {
                break;
            }
            let places = matches!(carrier.content, CarrierContent::Passed(_));
            let as_agreed = places && crate::mutated!(self, PassedAsAgreed);
            let submission = Submission {
                class: Class::Client,
                service: if as_agreed { Service::Agreed } else { carrier.rides() },
                stream: OrderStream(0),
                payload: carrier.encode(),
            };
            if self.ring.submit(now, submission).is_err() {
                break;
            }
            self.out_bytes -= cost(carrier);
            self.out.pop_front();
            any = true;
        }
        any
    }
}

fn cost(carrier: &Carrier) -> usize {
    match &carrier.content {
        CarrierContent::Data(data) => data.message.cost(),
        CarrierContent::Passed(messages) => messages.len() * MESSAGE_COST,
        CarrierContent::Reads(reads) => 64 + 2 * reads.topics.as_ref().map_or(0, Vec::len),
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_a_view_begins_goes_before_messages_that_wait_for_all_to_begin() {
        //= TM30 test
        let rings = vec![RingNodes { id: RingNumber(1), nodes: vec![NodeId(1)], delay: Duration::ZERO }];
        let config = Config::new(NodeId(1), rings.clone());
        let mut port = Port::new(&config, &rings[0], Incarnation(1)).unwrap();
        let now = Instant::ZERO;
        port.ring.start(now, &[]);
        let view = ViewId { number: 4, representative: MemberId::new(1, 1) };
        // A gateway's other ring was open before this one.
        port.push(Carrier { view, content: CarrierContent::Horizons(Vec::new()) });
        assert!(!port.send(now, false), "not all have begun");
        port.push_first(Carrier { view, content: CarrierContent::Begin(view) });
        assert!(port.send(now, false));
        assert_eq!((port.out.len(), port.out_bytes), (1, 64), "the word is sent, the message waits");
        assert!(port.send(now, true) && port.out.is_empty());
    }
}

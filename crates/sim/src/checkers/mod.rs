//! One checker per promise. Each reads the events of a run one by one, knows nothing of any protocol, and says at once
//! when the promise is broken; some can only be judged when the run is over.
//!
//! | id | promise | file |
//! |---|---|---|
//! | W1 | regular and transitional views alternate | `view_alternation` |
//! | W2 | a view's name means the same members everywhere | `membership` |
//! | W3 | views are numbered upwards | `increasing_views` |
//! | W4 | who moves together agrees on it | `same_part` |
//! | W5 | in the end there is one ring of all that live | `one_ring` |
//! | NC | nothing is delivered that was not sent just so (D1) | `nothing_created` |
//! | ND | nothing is delivered twice (D1) | `duplicate` |
//! | D2 | a message belongs to one view | `one_view` |
//! | CC | changes reach everybody | `view_agreement` |
//! | SD | whoever stays delivers its own messages | `self_delivery` |
//! | AK | what is acknowledged is delivered | `acks_hold` |
//! | VS | who moves together delivers the same | `virtual_synchrony` |
//! | CA | a message comes after all that its sender knew of | `causal_order` |
//! | FIFO | a sender's messages stay in their order | `fifo` |
//! | TO1 | one total order, whatever the positions say | `total_order` |
//! | TO1p | positions increase and mean one message each | `position` |
//! | TO2 | no gap within a regular view | `no_gap` |
//! | TO3 | what is left out while a view is closed has no sender there | `no_sender_left_out` |
//! | SF1 | what one delivers as safe, all deliver | `safe_delivery` |
//! | SF2 | what one delivers as safe, all members have installed the view of | `safe_installation` |
//! | SF3 | what one delivers as safe while closing a view, all that move along deliver | `safe_transition` |
//! | SF4 | what one delivers as safe, all hold | `safe_possession` |
//! | UA | what a majority has ordered stands for all, in every view and incarnation | `uniform` |
//! | OF | offers are made once and closed once, and nothing overtakes them | `offers` |
//! | PR | there is one primary view at a time | `primary` |
//! | PG | a group is primary in one view, as one membership | `primary_group` |
//! | GV | group views are well formed and true | `groups` |
//! | GM | messages to groups go to members, once, in one order | `group_messages` |
//! | GS | who moved together was given the same of a group | `group_moves` |
//! | GH | daemons of a view have the same groups | `group_state` |
//! | RP | what is read by position is the order, without gaps | `position_order` |
//! | OL | never two lead at one time, leases end in time, and fences rise | `one_leader` |
//! | RE | replicas have one history, states are what it makes, and what was answered stays in it | `replicated_state` |
//! | RS | a reader that outlives its daemons is told each message once, in order, or what it is not told | `reader_resumption` |
//! | PF | what a session is told of its sends is true, and stays so | `fates` |
//! | PD | a producer's send is delivered once, in order, or not at all | `once` |
//! | PT | members of a view that counts have the same table of producers | `producer_tables` |
//! | LV | what was accepted is delivered once faults stop | `liveness` |
//! | BM | memory stays in its bounds and is given back | `bounded_memory` |
//! | NR | nothing is repeated where nothing was lost | `no_needless_repeat` |
//! | NV | views do not change needlessly | `needless_view` |
//! | AV | members that hear each other order messages, whatever is wrong elsewhere | `availability` |
//! | PL | a good-bye is heard at once | `prompt` |
//! | IW | waits in an idle run are short | `idle_waits` |
//! | AF | the protocol's own assertions hold | `assertion` |
//!
//! Letters and numbers are those of Extended Virtual Synchrony's own properties. D3, that nobody sends in a view it has
//! left, cannot be seen from outside: a message that was would break D2 or SD.
//!
//! That one seed gives one run (DET) is judged by running it twice and comparing digests.
use crate::trace::{DeliveryRecord, Trace, TraceEvent};
use consort_order::{AcrossPartitions, Capability};
use consort_types::Service;
use std::fmt;

mod acks_hold;
mod assertion;
mod availability;
mod bounded_memory;
mod causal_order;
mod duplicate;
mod fates;
mod fifo;
mod group_messages;
mod group_moves;
mod group_state;
mod groups;
mod history;
mod idle_waits;
mod increasing_views;
mod liveness;
mod membership;
mod needless_view;
mod no_gap;
mod no_needless_repeat;
mod no_sender_left_out;
mod nothing_created;
mod offers;
mod once;
mod one_leader;
mod one_ring;
mod one_view;
mod position;
mod position_order;
mod primary;
mod primary_group;
mod private_messages;
mod process_views;
mod producer_tables;
mod prompt;
mod reader_resumption;
mod replicated_state;
mod safe;
mod safe_delivery;
mod safe_installation;
mod safe_possession;
mod safe_transition;
mod same_part;
mod self_delivery;
mod total_order;
mod uniform;
mod view_agreement;
mod view_alternation;
mod virtual_synchrony;

#[cfg(test)]
mod tests;

pub(crate) use availability::KEPT_OUT;
pub use bounded_memory::{Bounds, Calmness, ConstantSpan, Core};
pub use idle_waits::IdleWaits;
pub use reader_resumption::Retained;

/// What a checker says of an event: nothing, or how the promise is broken.
pub type Verdict = Result<(), String>;

/// Whether a daemon counts under this name what must never happen, so that checkers want to see it (AF, GH).
pub fn must_stay_zero(name: &str) -> bool {
    name == assertion::GAUGE || group_state::GAUGES.contains(&name)
}

/// Watches over one promise.
pub trait Checker {
    /// Its id and its name.
    fn rule(&self) -> PromiseRule;

    /// Takes the next event.
    ///
    /// # Errors
    /// A sentence that says how the event breaks the promise.
    fn see(&mut self, event: &TraceEvent) -> Verdict;

    /// The run is over.
    ///
    /// # Errors
    /// A sentence that says what is still owed.
    fn end(&mut self) -> Verdict {
        Ok(())
    }
}

/// The id of a promise, as the documents cite it, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PromiseRule {
    /// Its id.
    pub id: &'static str,
    /// Its name, a few words.
    pub name: &'static str,
}

impl fmt::Display for PromiseRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// What an engine's capability record says of its order: which promises are judged, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromisedOrder {
    /// Parts of a network that fell apart close their common view each in an order of its own. Then the order, the
    /// positions and the completeness of what is delivered in a transitional view are judged among those that move
    /// together (VS), not across.
    pub per_component: bool,
    /// Messages below agreed are delivered before the one order, and stand nowhere in it.
    pub early: bool,
    /// A majority of voters keeps the order. Then views follow from the order, not from who was in the one before (PR),
    /// and safe means decided, not held (SF4) or installed (SF2) by all.
    pub quorum: bool,
    /// Positions leave gaps, the same for all: they are those of the order of many rings.
    pub gaps: bool,
}

impl PromisedOrder {
    /// Reads a capability record.
    pub fn of(capability: &Capability) -> Self {
        Self {
            per_component: capability.across_partitions == AcrossPartitions::PerComponent,
            early: capability.services.iter().any(|service| *service < Service::Agreed),
            quorum: capability.quorum,
            gaps: !capability.replays,
        }
    }

    /// Whether a delivered message stands in the one order.
    fn is_ordered(&self, delivered: &DeliveryRecord) -> bool {
        !self.early || delivered.service >= Service::Agreed
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: PromiseRule,
    /// The event that broke it; `None` where it was found at the end.
    pub event: Option<TraceEvent>,
    /// How.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Some(event) => write!(f, "{} broken at {} ms by {}: {}", self.rule, event.at, event.process, self.how),
            None => write!(f, "{} broken at the end: {}", self.rule, self.how),
        }
    }
}

/// All checkers over one run.
pub struct Suite {
    checkers: Vec<Box<dyn Checker>>,
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rules()).finish()
    }
}

impl Suite {
    /// Every checker that the engine's capabilities, and the run, give anything to judge.
    pub fn new(bounds: Bounds) -> Self {
        let (promised, unseen, nodes) = (bounds.promised, bounds.unseen.clone(), bounds.views.nodes);
        let mut suite = Self {
            checkers: vec![
                Box::<view_alternation::Alternate>::default(),
                Box::<membership::Members>::default(),
                Box::new(increasing_views::Numbers::new(bounds.disks_last)),
                Box::<same_part::Together>::default(),
                Box::<nothing_created::Created>::default(),
                Box::<duplicate::Duplicate>::default(),
                Box::<one_view::OneView>::default(),
                Box::new(total_order::TotalOrder::new(promised)),
                Box::new(position::Positions::new(promised)),
                Box::new(no_gap::Gap::new(promised)),
                Box::new(fifo::Fifo::new(promised)),
                Box::new(causal_order::Causal::new(promised)),
                Box::new(virtual_synchrony::VirtualSynchrony::new(promised)),
                Box::<safe_possession::SafePossession>::default(),
                Box::<safe_installation::SafeInstallation>::default(),
                Box::<safe_delivery::SafeDelivery>::default(),
                Box::<safe_transition::SafeTransition>::default(),
                Box::<self_delivery::SelfDelivery>::default(),
                Box::<acks_hold::Acknowledged>::default(),
                Box::<offers::OffersClosed>::default(),
                Box::new(primary::Primaries::new(promised)),
                Box::<primary_group::PrimaryGroups>::default(),
                Box::new(groups::GroupViews::new(promised)),
                Box::new(group_messages::GroupMessages::new(promised)),
                Box::<group_moves::GroupMoves>::default(),
                Box::<group_state::GroupState>::default(),
                Box::<position_order::PositionOrder>::default(),
                Box::new(one_leader::OneLeader::new(nodes, promised, bounds.disks_last)),
                Box::new(reader_resumption::ReaderResumption::new(bounds.retained)),
                Box::<replicated_state::ReplicatedState>::default(),
                Box::new(fates::Fates::new(nodes, promised)),
                Box::new(once::Once::new(nodes, promised)),
                Box::new(producer_tables::ProducerTables::new(nodes, promised)),
                Box::<assertion::Assertions>::default(),
                Box::new(no_needless_repeat::Needless(bounds.needless.clone())),
                Box::new(needless_view::NeedlessViews::new(bounds.views.clone())),
                Box::new(availability::Availability::new(&bounds.views)),
                Box::new(prompt::Prompt::new(bounds.goodbye)),
                Box::new(idle_waits::Idle::new(bounds.waits.clone())),
                Box::new(bounded_memory::Memory::new(bounds)),
                Box::<one_ring::OneRing>::default(),
                Box::<view_agreement::Changes>::default(),
                Box::new(liveness::Liveness::new(promised)),
            ],
        };
        if !promised.per_component {
            suite.checkers.push(Box::<no_sender_left_out::Holes>::default());
        }
        if promised.quorum {
            suite.checkers.retain(|checker| !["SF2", "SF4"].contains(&checker.rule().id));
            suite.checkers.push(Box::new(uniform::Uniform::new(promised.gaps)));
        }
        suite.checkers.retain(|checker| !unseen.contains(checker.rule().id));
        suite
    }

    /// What it watches over.
    pub fn rules(&self) -> impl Iterator<Item = PromiseRule> {
        self.checkers.iter().map(|checker| checker.rule())
    }

    /// Shows an event to all; returns what it broke.
    pub fn see(&mut self, event: &TraceEvent) -> Vec<Violation> {
        let judge = |checker: &mut Box<dyn Checker>| {
            let how = checker.see(event).err()?;
            Some(Violation { rule: checker.rule(), event: Some(event.clone()), how })
        };
        self.checkers.iter_mut().filter_map(judge).collect()
    }

    /// Ends the run; returns what was still owed.
    pub fn end(&mut self) -> Vec<Violation> {
        let judge = |checker: &mut Box<dyn Checker>| {
            let how = checker.end().err()?;
            Some(Violation { rule: checker.rule(), event: None, how })
        };
        self.checkers.iter_mut().filter_map(judge).collect()
    }
}

/// Judges a whole trace, of a simulation or of anything else.
pub fn judge(trace: &Trace, bounds: Bounds) -> Vec<Violation> {
    let mut suite = Suite::new(bounds);
    let mut broken: Vec<_> = trace.events.iter().flat_map(|event| suite.see(event)).collect();
    broken.extend(suite.end());
    broken
}

//! Messages on their way into the order: packed into values, kept until they are delivered, handed in again where a value did
//! not count.
use crate::ballot::ValueId;
use crate::config::Config;
use consort_order::SubmitQueue;
use consort_types::{Instant, MemberId, Service, ViewId};
use consort_wire::pack::Body;
use std::collections::VecDeque;

/// A value that is under way.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its name.
    pub id: ValueId,
    /// Its messages.
    pub body: Body,
    /// When it was sent last.
    pub at: Instant,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Proposer {
    /// What waits.
    pub queue: SubmitQueue,
    me: MemberId,
    /// The number of the view that this node is in.
    view: Option<u64>,
    number: u64,
    sent: VecDeque<Sent>,
    bytes: usize,
}

impl Proposer {
    /// Nothing waits, and this node is in no view.
    pub fn new(config: &Config, me: MemberId) -> Self {
        let queue = SubmitQueue::new(config.queue_bytes, config.message_max, |_| Service::Safe);
        Self { queue, me, view: None, number: 0, sent: VecDeque::new(), bytes: 0 }
    }

    /// From here on another view holds, or none: what is under way would not count any more.
    pub fn enter(&mut self, view: Option<ViewId>) {
        //= X54
        self.queue.take_back(std::mem::take(&mut self.sent).into_iter().map(|sent| sent.body));
        self.queue.close_gate(view.unwrap_or_default());
        self.view = view.map(|view| view.number);
        (self.number, self.bytes) = (0, 0);
    }

    /// The next value, if there is one and credit for it.
    pub fn next(&mut self, config: &Config, now: Instant) -> Option<Sent> {
        let view = self.view?;
        //= X49
        let most = config.value.max(self.queue.next_len()?);
        let has_credit = self.sent.len() < config.values && self.bytes + most <= config.credit
            || crate::mutated!(config, CreditIgnored);
        if !(has_credit || self.sent.is_empty()) {
            return None;
        }
        //= X48
        let body = self.queue.next_whole(config.value)?;
        self.number = if crate::mutated!(config, NamesReused) { self.sent.len() as u64 } else { self.number } + 1;
        self.bytes += body.as_bytes().len();
        let id = ValueId { sender: self.me, view, number: self.number };
        let sent = Sent { id, body, at: now };
        self.sent.push_back(sent.clone());
        Some(sent)
    }

    /// One of this node's values has its place. Values of one view get theirs in the order in which they were sent.
    pub fn placed(&mut self, id: ValueId) -> bool {
        let Some(first) = self.sent.front().filter(|first| first.id == id) else { return false };
        self.bytes -= first.body.as_bytes().len();
        self.sent.pop_front();
        true
    }

    /// What is under way.
    pub fn sent(&mut self) -> impl Iterator<Item = &mut Sent> {
        self.sent.iter_mut()
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_done(&self) -> bool {
        self.queue.is_empty() && self.sent.is_empty()
    }

    /// Bytes under way.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

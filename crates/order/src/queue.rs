//! Messages that were accepted and wait for their place: what every engine keeps before it sends.
use crate::{Refused, Submission};
use bytes::BytesMut;
use consort_types::{Class, MessageId, Service, ViewId};
use consort_wire::Bump;
use consort_wire::copy::STAGGER;
use consort_wire::pack::{Body, CHUNK_LEN, Chunk, OutgoingMessage};
use std::collections::VecDeque;

/// What an accepted message counts beside its bytes, so that empty ones are bounded too.
const OVERHEAD: usize = 64;
/// How much is taken from the allocator at once for the bodies of packets: four of the largest, wherever they begin.
const BODIES: usize = (256 << 10) + 4 * STAGGER;

/// As which level a message rides: an engine's levels are fewer than the senders'. A packet holds messages of one level.
pub type Rides = fn(Service) -> Service;

/// The same, shown as nothing: an address would make equal queues look different.
#[derive(Clone, Copy)]
struct Riding(Rides);

impl std::fmt::Debug for Riding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Riding")
    }
}

/// Two queues, control before client, and what of them is sent but not yet delivered here.
#[derive(Clone, Debug)]
pub struct SubmitQueue {
    control: QueuedMessage,
    client: QueuedMessage,
    next_id: u64,
    /// What each class may hold at most.
    limit: usize,
    message_max: usize,
    bodies: Bump,
    /// Client messages wait behind this gate until the layer above has settled into the view.
    gate: Gate,
    rides: Riding,
}

#[derive(Clone, Debug, Default)]
struct QueuedMessage {
    waiting: VecDeque<(MessageId, OutgoingMessage)>,
    /// What has left, by whether it is delivered in the one order: what is delivered before it has an order of its own.
    ordered: VecDeque<MessageId>,
    early: VecDeque<MessageId>,
    bytes: usize,
    /// The largest message that found no room since it was told that there is some, with its overhead.
    refused: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Closed { until: Option<ViewId> },
    Open,
}

impl SubmitQueue {
    /// An empty queue: `limit` bytes for each class, messages of at most `message_max` bytes.
    pub fn new(limit: usize, message_max: usize, rides: Rides) -> Self {
        let (control, client) = (QueuedMessage::default(), QueuedMessage::default());
        let gate = Gate::Closed { until: None };
        let bodies = Bump::new(BODIES);
        Self { control, client, next_id: 1, limit, message_max, bodies, gate, rides: Riding(rides) }
    }

    /// Checks limits that come from a configuration, before [`SubmitQueue::new`] is given them.
    ///
    /// # Errors
    /// The setting that cannot work, by its name in the configuration file, with what is wrong and what to do.
    pub fn check(limit: usize, message_max: usize) -> Result<(), (&'static str, String)> {
        let largest = consort_wire::pack::LARGEST;
        if !(1..=largest).contains(&message_max) {
            return Err(("limits.message", format!("{message_max} bytes is out of range; use 1 to {largest}")));
        }
        if limit < message_max {
            let problem = format!("{limit} is below the largest message {message_max}; raise it");
            return Err(("limits.queue", problem));
        }
        Ok(())
    }

    /// Accepts a message or says why not.
    ///
    /// # Errors
    /// [`Refused::TooLarge`] and [`Refused::Full`]; nothing changed.
    pub fn push(&mut self, submission: Submission) -> Result<MessageId, Refused> {
        //= R33
        let len = submission.payload.len();
        if len > self.message_max {
            return Err(Refused::TooLarge { len, max: self.message_max });
        }
        // Clients' messages cannot leave before control messages: they must not take their room.
        let (id, limit) = (MessageId(self.next_id), self.limit);
        let line = self.line(submission.class);
        if line.bytes > 0 && line.bytes + len + OVERHEAD > limit {
            line.refused = line.refused.max(Some(len + OVERHEAD));
            return Err(Refused::Full { queued: line.bytes, limit });
        }
        line.bytes += len + OVERHEAD;
        let outgoing = OutgoingMessage::new(submission.class, submission.service, submission.payload);
        line.waiting.push_back((id, outgoing));
        self.next_id += 1;
        Ok(id)
    }

    fn line(&mut self, class: Class) -> &mut QueuedMessage {
        match class {
            Class::Control => &mut self.control,
            Class::Client => &mut self.client,
        }
    }

    /// Packs the next packet's body; `None` if nothing may be sent now. Control messages go first; messages of different
    /// levels never share a packet, so that a packet is either wholly held back or not at all.
    pub fn next_body(&mut self, room: usize) -> Option<Body> {
        //= R10
        let mut bodies = std::mem::replace(&mut self.bodies, Bump::new(BODIES));
        let packed = self.pack_into(bodies.room(room), room);
        let body = if packed { Body::new(bodies.take()).ok() } else { None };
        self.bodies = bodies;
        body
    }

    /// Packs what goes next into `body`; false if nothing may be sent now.
    fn pack_into(&mut self, body: &mut BytesMut, room: usize) -> bool {
        let (mut level, Riding(rides)) = (None, self.rides);
        while let Some(line) = self.next_line() {
            let Some((_, front)) = line.waiting.front_mut() else { break };
            if level.is_some_and(|level| level != rides(front.service)) {
                break;
            }
            let before = body.len();
            let complete = front.pack(body, room - before);
            if body.len() > before {
                level = Some(rides(front.service));
            }
            if !complete {
                break;
            }
            self.retire_front();
        }
        !body.is_empty()
    }

    /// The bytes that the next message takes in a body by itself; `None` if nothing may be sent now.
    pub fn next_len(&mut self) -> Option<usize> {
        Some(self.next_line()?.waiting.front()?.1.payload.len() + CHUNK_LEN)
    }

    /// Packs whole messages, as many as fit into `room`, or one that is larger; `None` if nothing may be sent now.
    pub fn next_whole(&mut self, room: usize) -> Option<Body> {
        let first = self.next_len()?;
        let mut body = BytesMut::with_capacity(first.max(room.min(self.client.bytes + self.control.bytes)));
        while let Some((_, front)) = self.next_line().and_then(|line| line.waiting.front_mut()) {
            let len = front.payload.len() + CHUNK_LEN;
            if !body.is_empty() && body.len() + len > room {
                break;
            }
            front.pack(&mut body, len);
            self.retire_front();
        }
        Body::new(body.freeze()).ok()
    }

    /// Takes back all that left and was not delivered: these bodies, whole messages in the order in which they left. They
    /// stand before all that waits.
    pub fn take_back(&mut self, bodies: impl DoubleEndedIterator<Item = Body>) {
        for body in bodies.rev() {
            let chunks: Vec<_> = body.chunks().collect();
            for Chunk { class, service, bytes, .. } in chunks.into_iter().rev() {
                let line = self.line(class);
                let Some(id) = line.ordered.pop_back() else { continue };
                line.bytes += bytes.len() + OVERHEAD;
                line.waiting.push_front((id, OutgoingMessage::new(class, service, bytes.into())));
            }
        }
    }

    fn next_line(&mut self) -> Option<&mut QueuedMessage> {
        if !self.control.waiting.is_empty() {
            return Some(&mut self.control);
        }
        (self.gate == Gate::Open && !self.client.waiting.is_empty()).then_some(&mut self.client)
    }

    fn retire_front(&mut self) {
        let Riding(rides) = self.rides;
        let Some(line) = self.next_line() else { return };
        let Some((id, outgoing)) = line.waiting.pop_front() else { return };
        match rides(outgoing.service) {
            Service::Agreed | Service::Safe => line.ordered.push_back(id),
            _ => line.early.push_back(id),
        }
        line.bytes -= outgoing.payload.len() + OVERHEAD;
    }

    /// The own message that was just delivered: those of one class in the one order, and those delivered before it, are
    /// each delivered as they were sent.
    pub fn delivered(&mut self, class: Class, service: Service) -> Option<MessageId> {
        let level = self.rides.0(service);
        let line = self.line(class);
        match level {
            Service::Agreed | Service::Safe => line.ordered.pop_front(),
            _ => line.early.pop_front(),
        }
    }

    /// The old view is done: a message that was only partly sent is sent anew, whole.
    pub fn begin_anew(&mut self) {
        //= M37
        for line in [&mut self.control, &mut self.client] {
            if let Some((_, front)) = line.waiting.front_mut() {
                front.restart();
            }
        }
    }

    /// Whether every own message that left was delivered here.
    pub fn all_delivered(&self) -> bool {
        [&self.control, &self.client].iter().all(|line| line.ordered.is_empty() && line.early.is_empty())
    }

    /// Whether nothing waits for its place.
    pub fn is_empty(&self) -> bool {
        self.control.waiting.is_empty() && self.client.waiting.is_empty()
    }

    /// Whether anything may be sent now.
    pub fn is_ready(&self) -> bool {
        !self.control.waiting.is_empty() || (self.gate == Gate::Open && !self.client.waiting.is_empty())
    }

    /// Whether client messages wait behind the gate.
    pub fn is_gated(&self) -> bool {
        self.gate != Gate::Open && !self.client.waiting.is_empty()
    }

    /// Holds client messages back until `resume` names this view.
    pub fn close_gate(&mut self, view: ViewId) {
        //= R34
        self.gate = Gate::Closed { until: Some(view) };
    }

    /// Opens the gate; returns whether it was this view's.
    pub fn open_gate(&mut self, view: ViewId) -> bool {
        let opens = self.gate == Gate::Closed { until: Some(view) };
        if opens {
            self.gate = Gate::Open;
        }
        opens
    }

    /// True once after a refusal, when half of the budget is free again and what was refused fits.
    pub fn has_room_again(&mut self) -> bool {
        let limit = self.limit;
        let told = |line: &mut QueuedMessage| {
            // Not before the largest that was refused fits: whoever tries at once would be refused without end.
            let room = line.refused.is_some_and(|len| line.bytes <= (limit / 2).min(limit.saturating_sub(len)));
            line.refused = line.refused.filter(|_| !room);
            room
        };
        told(&mut self.control) | told(&mut self.client)
    }

    /// Bytes that wait, with their overhead.
    pub const fn bytes(&self) -> usize {
        self.control.bytes + self.client.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use consort_types::OrderStream;

    const VIEW: ViewId = ViewId { number: 1, representative: consort_types::MemberId::new(1, 1) };

    fn submission(class: Class, service: Service, len: usize) -> Submission {
        Submission { class, service, stream: OrderStream(0), payload: Bytes::from(vec![1; len]).into() }
    }

    fn rides(service: Service) -> Service {
        service.max(Service::Agreed)
    }

    fn open() -> SubmitQueue {
        let mut queue = SubmitQueue::new(10_000, 5_000, rides);
        queue.close_gate(VIEW);
        assert!(queue.open_gate(VIEW));
        queue
    }

    #[test]
    fn small_messages_share_a_packet_but_safe_ones_only_with_safe_ones() {
        //= R10 test
        let mut queue = open();
        for service in [Service::Agreed, Service::Fifo, Service::Safe, Service::Safe, Service::Agreed] {
            queue.push(submission(Class::Client, service, 10)).unwrap();
        }
        let counts: Vec<_> = std::iter::from_fn(|| queue.next_body(1000)).map(|body| body.chunks().count()).collect();
        assert_eq!(counts, [2, 2, 1]);
        assert!(queue.next_body(1000).is_none());
        assert_eq!(queue.bytes(), 0);
        let ids: Vec<_> = (0..5).map(|_| queue.delivered(Class::Client, Service::Agreed).unwrap().0).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_delivered_before_the_order_has_packets_and_names_of_its_own() {
        let mut queue = SubmitQueue::new(10_000, 5_000, |service| service.max(Service::Causal));
        queue.close_gate(VIEW);
        queue.open_gate(VIEW);
        for service in [Service::Agreed, Service::Causal, Service::Fifo, Service::Agreed] {
            queue.push(submission(Class::Client, service, 10)).unwrap();
        }
        let counts: Vec<_> = std::iter::from_fn(|| queue.next_body(1000)).map(|body| body.chunks().count()).collect();
        assert_eq!(counts, [1, 2, 1]);
        let mut delivered = |service| queue.delivered(Class::Client, service).unwrap().0;
        assert_eq!([delivered(Service::Causal), delivered(Service::Agreed), delivered(Service::Fifo)], [2, 1, 3]);
    }

    #[test]
    fn large_messages_are_cut_and_packets_are_full() {
        //= R10 test
        let mut queue = open();
        queue.push(submission(Class::Client, Service::Agreed, 2_500)).unwrap();
        queue.push(submission(Class::Client, Service::Agreed, 2_500)).unwrap();
        let lens: Vec<_> = std::iter::from_fn(|| queue.next_body(1000)).map(|body| body.as_bytes().len()).collect();
        let (last, full) = lens.split_last().unwrap();
        assert!(full.iter().all(|len| *len == 1000), "{lens:?}");
        // Two headers of a first piece, one of each further piece: the second message begins within the third packet.
        assert_eq!(full.len() * 1000 + last, 5_000 + 2 * 8 + 5 * 4);
    }

    #[test]
    fn whole_messages_are_taken_back_and_leave_again_in_their_order() {
        let mut queue = open();
        for (class, len) in [(Class::Client, 10), (Class::Control, 20), (Class::Client, 900), (Class::Client, 30)] {
            queue.push(submission(class, Service::Agreed, len)).unwrap();
        }
        let lens = |body: &Body| body.chunks().map(|chunk| chunk.bytes.len()).collect::<Vec<_>>();
        let sent: Vec<_> = std::iter::from_fn(|| queue.next_whole(100)).collect();
        assert_eq!(sent.iter().map(lens).collect::<Vec<_>>(), [vec![20, 10], vec![900], vec![30]]);
        assert_eq!(queue.delivered(Class::Control, Service::Agreed).map(|id| id.0), Some(2));
        assert_eq!(queue.delivered(Class::Client, Service::Agreed).map(|id| id.0), Some(1));
        queue.take_back(sent[1..].iter().cloned());
        assert!(queue.all_delivered());
        assert_eq!(queue.bytes(), 900 + 30 + 2 * OVERHEAD);
        assert_eq!(queue.next_whole(1_000).map(|body| lens(&body)), Some(vec![900, 30]));
        assert_eq!(queue.delivered(Class::Client, Service::Agreed).map(|id| id.0), Some(3));
    }

    #[test]
    fn the_gate_holds_client_messages_back_until_this_very_view_resumes() {
        //= R34 test
        let mut queue = SubmitQueue::new(10_000, 5_000, rides);
        queue.close_gate(VIEW);
        queue.push(submission(Class::Client, Service::Agreed, 10)).unwrap();
        assert!(!queue.is_ready());
        queue.push(submission(Class::Control, Service::Agreed, 20)).unwrap();
        assert_eq!(queue.next_body(1000).unwrap().chunks().count(), 1);
        assert!(!queue.open_gate(ViewId { number: 2, ..VIEW }));
        assert!(queue.next_body(1000).is_none());
        assert!(queue.open_gate(VIEW));
        assert_eq!(queue.next_body(1000).unwrap().chunks().count(), 1);
    }

    #[test]
    fn a_message_that_was_partly_numbered_is_sent_anew_and_whole() {
        //= M37 test
        let mut queue = open();
        queue.push(submission(Class::Client, Service::Agreed, 2_500)).unwrap();
        queue.next_body(1_000).unwrap();
        queue.begin_anew();
        let bodies: Vec<_> = std::iter::from_fn(|| queue.next_body(1_000)).collect();
        let bytes: usize = bodies.iter().map(|body| body.as_bytes().len()).sum();
        assert_eq!(bytes, 2_500 + 8 + 2 * 4);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn a_full_queue_refuses_says_why_and_tells_when_there_is_room() {
        //= R33 test
        let mut queue = open();
        assert_eq!(
            queue.push(submission(Class::Client, Service::Agreed, 5_001)),
            Err(Refused::TooLarge { len: 5_001, max: 5_000 })
        );
        queue.push(submission(Class::Client, Service::Agreed, 5_000)).unwrap();
        let full = queue.push(submission(Class::Client, Service::Agreed, 5_000));
        assert_eq!(full, Err(Refused::Full { queued: 5_064, limit: 10_000 }));
        assert!(!queue.has_room_again());
        while queue.next_body(1_000).is_some() {}
        assert!(queue.has_room_again());
        assert!(!queue.has_room_again(), "told once");
    }

    #[test]
    fn room_is_told_when_what_was_refused_fits() {
        //= R33 test
        let mut queue = open();
        let message = |len| submission(Class::Client, Service::Agreed, len);
        queue.push(message(4_800)).unwrap();
        queue.push(message(30)).unwrap();
        // Half of the budget is free, but not enough; and what is refused later and is smaller does not change that.
        for len in [5_000, 4_990] {
            assert_eq!(queue.push(message(len)), Err(Refused::Full { queued: 4_958, limit: 10_000 }), "{len}");
        }
        assert!(!queue.has_room_again());
        queue.next_body(4_810).unwrap();
        assert!(queue.has_room_again());
        queue.push(message(5_000)).unwrap();
    }

    #[test]
    fn each_class_has_a_budget_of_its_own() {
        //= R33 test
        let mut queue = open();
        assert!((0..2).all(|_| queue.push(submission(Class::Client, Service::Agreed, 4_900)).is_ok()));
        assert!(queue.push(submission(Class::Client, Service::Agreed, 100)).is_err());
        assert!((0..2).all(|_| queue.push(submission(Class::Control, Service::Agreed, 4_900)).is_ok()));
        let full = queue.push(submission(Class::Control, Service::Agreed, 100));
        assert_eq!(full, Err(Refused::Full { queued: 9_928, limit: 10_000 }));
        assert_eq!(queue.bytes(), 2 * 9_928);
        while queue.bytes() > 9_928 {
            queue.next_body(1_000).unwrap();
        }
        assert!(queue.has_room_again(), "for control messages: they went first");
        assert!(!queue.has_room_again());
    }
}

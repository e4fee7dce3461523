//! Own messages: those that wait for their rings, those that their rings have, until each is handed out.
use crate::config::Reads;
use crate::slot::RingId;
use crate::turns::HELD_MAX;
use consort_order::Refused;
use consort_types::{Class, MessageId, Service};
use consort_wire::Payload;
use std::collections::{BTreeMap, VecDeque};

/// What a message counts beside its bytes.
pub const OVERHEAD: usize = 64;

/// A message of this node.
#[derive(Clone, Debug)]
pub struct Own {
    /// Its name.
    pub id: MessageId,
    /// The ring that it goes to.
    pub ring: RingId,
    /// The level that was asked for.
    pub service: Service,
    /// Its bytes.
    pub payload: Payload,
}

/// Messages that are handed out in the order in which they were accepted: those of a class, and of a ring where each node reads
/// the rings that it needs.
pub type OwnLine = (Class, Option<RingId>);

#[derive(Clone, Debug, Default)]
struct Line {
    waiting: VecDeque<Own>,
    sent: VecDeque<Own>,
    /// So many went to rings in this view.
    numbered: u64,
    sent_bytes: usize,
}

/// What waits of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    bytes: usize,
    /// The largest that found no room since it was told that there is some.
    refused: Option<usize>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Outgoing {
    reads: Reads,
    lines: BTreeMap<OwnLine, Line>,
    waiting: BTreeMap<Class, Waiting>,
    limit: usize,
    message_max: usize,
    /// How many bytes the rings may have of a line at once; one message always.
    credit: usize,
    next: u64,
}

impl Outgoing {
    /// Nothing waits. Each class may take `limit` bytes, a message `message_max`; rings may have `credit` bytes of each, as far
    /// as others hold so much.
    pub fn new(reads: Reads, limit: usize, message_max: usize, credit: usize) -> Self {
        let credit = credit.min(HELD_MAX);
        Self { reads, lines: BTreeMap::new(), waiting: BTreeMap::new(), limit, message_max, credit, next: 1 }
    }

    /// The line of what goes to a ring.
    pub fn line_of(&self, class: Class, ring: RingId) -> OwnLine {
        //= MP72
        (class, (self.reads == Reads::Groups).then_some(ring))
    }

    /// Accepts a message or says why not.
    ///
    /// # Errors
    /// [`Refused::TooLarge`] and [`Refused::Full`]; nothing changed.
    pub fn push(
        &mut self,
        class: Class,
        ring: RingId,
        service: Service,
        payload: Payload,
    ) -> Result<MessageId, Refused> {
        let (len, limit, max) = (payload.len(), self.limit, self.message_max);
        if len > max {
            return Err(Refused::TooLarge { len, max });
        }
        let waiting = self.waiting.entry(class).or_default();
        if waiting.bytes > 0 && waiting.bytes + len + OVERHEAD > limit {
            waiting.refused = waiting.refused.max(Some(len + OVERHEAD));
            return Err(Refused::Full { queued: waiting.bytes, limit });
        }
        waiting.bytes += len + OVERHEAD;
        let (id, line) = (MessageId(self.next), self.line_of(class, ring));
        self.lines.entry(line).or_default().waiting.push_back(Own { id, ring, service, payload });
        self.next += 1;
        Ok(id)
    }

    /// That there is no room, whatever waits.
    pub fn full(&self) -> Refused {
        Refused::Full { queued: self.bytes(), limit: self.limit }
    }

    /// The lines of a class.
    pub fn lines(&self, class: Class) -> Vec<OwnLine> {
        self.lines.keys().filter(|(of, _)| *of == class).copied().collect()
    }

    /// The next message of a line, if it may go, with its number in this view.
    pub fn next(&self, line: OwnLine) -> Option<(u64, &Own)> {
        let line = self.lines.get(&line)?;
        let next = line.waiting.front()?;
        //= MP58
        let fits = line.sent.is_empty() || line.sent_bytes + next.payload.len() + OVERHEAD <= self.credit;
        fits.then_some((line.numbered + 1, next))
    }

    /// A ring has taken the next one.
    pub fn sent(&mut self, of: OwnLine) {
        let Some(line) = self.lines.get_mut(&of) else { return };
        if let Some(own) = line.waiting.pop_front() {
            let bytes = own.payload.len() + OVERHEAD;
            self.waiting.entry(of.0).or_default().bytes -= bytes;
            line.sent_bytes += bytes;
            line.sent.push_back(own);
            //= MP51
            line.numbered += 1;
        }
    }

    /// The first of those that a ring has is handed out.
    pub fn placed(&mut self, line: OwnLine) -> Option<MessageId> {
        let line = self.lines.get_mut(&line)?;
        let own = line.sent.pop_front()?;
        line.sent_bytes -= own.payload.len() + OVERHEAD;
        Some(own.id)
    }

    /// Another view holds: what the rings have does not count any more, and goes to them again, before all that waits.
    pub fn take_back(&mut self) {
        //= MP52
        for ((class, _), line) in &mut self.lines {
            let waiting = self.waiting.entry(*class).or_default();
            while let Some(own) = line.sent.pop_back() {
                waiting.bytes += own.payload.len() + OVERHEAD;
                line.waiting.push_front(own);
            }
            (line.sent_bytes, line.numbered) = (0, 0);
        }
    }

    /// Whether something that was refused would find room; asked once for each time.
    pub fn has_room_again(&mut self) -> bool {
        let (limit, mut any) = (self.limit, false);
        for waiting in self.waiting.values_mut() {
            if waiting.refused.is_some_and(|len| waiting.bytes == 0 || waiting.bytes + len <= limit) {
                (waiting.refused, any) = (None, true);
            }
        }
        any
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.waiting.values().map(|waiting| waiting.bytes).sum()
    }

    /// Whether nothing waits and no ring has anything.
    pub fn is_empty(&self) -> bool {
        self.lines.values().all(|line| line.waiting.is_empty() && line.sent.is_empty())
    }

    /// The same for what goes to a ring by itself.
    pub fn is_empty_for(&self, ring: RingId) -> bool {
        let of_it = self.lines.iter().filter(|((_, of), _)| *of == Some(ring));
        of_it.map(|(_, line)| line).all(|line| line.waiting.is_empty() && line.sent.is_empty())
    }
}

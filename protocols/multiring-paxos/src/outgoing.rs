//! Own messages until they are handed out here: those that no ring has, and those that one has.
use crate::slot::RingId;
use crate::turns::HELD_MAX;
use consort_order::Refused;
use consort_types::{Class, MessageId, Service};
use consort_wire::Payload;
use std::collections::VecDeque;

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

#[derive(Clone, Debug, Default)]
struct Line {
    waiting: VecDeque<Own>,
    sent: VecDeque<Own>,
    /// So many went to rings in this view.
    numbered: u64,
    /// Bytes of those that wait, and of those that a ring has.
    bytes: usize,
    sent_bytes: usize,
    /// The largest that found no room since it was told that there is some.
    refused: Option<usize>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Outgoing {
    control: Line,
    client: Line,
    limit: usize,
    message_max: usize,
    /// How many bytes the rings may have at once, for each class; one message always.
    credit: usize,
    next: u64,
}

impl Outgoing {
    /// Nothing waits. Each class may take `limit` bytes, a message `message_max`; rings may have `credit` bytes of each, as far
    /// as others hold so much.
    pub fn new(limit: usize, message_max: usize, credit: usize) -> Self {
        let credit = credit.min(HELD_MAX);
        Self { control: Line::default(), client: Line::default(), limit, message_max, credit, next: 1 }
    }

    fn line(&mut self, class: Class) -> &mut Line {
        match class {
            Class::Control => &mut self.control,
            Class::Client => &mut self.client,
        }
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
        let id = MessageId(self.next);
        let line = self.line(class);
        if line.bytes > 0 && line.bytes + len + OVERHEAD > limit {
            line.refused = line.refused.max(Some(len + OVERHEAD));
            return Err(Refused::Full { queued: line.bytes, limit });
        }
        line.bytes += len + OVERHEAD;
        line.waiting.push_back(Own { id, ring, service, payload });
        self.next += 1;
        Ok(id)
    }

    /// The next message of a class, if it may go, with its number in this view.
    pub fn next(&self, class: Class) -> Option<(u64, &Own)> {
        let line = match class {
            Class::Control => &self.control,
            Class::Client => &self.client,
        };
        let next = line.waiting.front()?;
        //= MP58
        let fits = line.sent.is_empty() || line.sent_bytes + next.payload.len() + OVERHEAD <= self.credit;
        fits.then_some((line.numbered + 1, next))
    }

    /// A ring has taken the next one.
    pub fn sent(&mut self, class: Class) {
        let line = self.line(class);
        if let Some(own) = line.waiting.pop_front() {
            line.bytes -= own.payload.len() + OVERHEAD;
            line.sent_bytes += own.payload.len() + OVERHEAD;
            line.sent.push_back(own);
            //= MP51
            line.numbered += 1;
        }
    }

    /// The first of those that a ring has is handed out.
    pub fn placed(&mut self, class: Class) -> Option<MessageId> {
        let line = self.line(class);
        let own = line.sent.pop_front()?;
        line.sent_bytes -= own.payload.len() + OVERHEAD;
        Some(own.id)
    }

    /// Another view holds: what the rings have does not count any more, and goes to them again, before all that waits.
    pub fn take_back(&mut self) {
        //= MP52
        for line in [&mut self.control, &mut self.client] {
            while let Some(own) = line.sent.pop_back() {
                line.bytes += own.payload.len() + OVERHEAD;
                line.waiting.push_front(own);
            }
            (line.sent_bytes, line.numbered) = (0, 0);
        }
    }

    /// Whether something that was refused would find room; asked once for each time.
    pub fn has_room_again(&mut self) -> bool {
        let limit = self.limit;
        let again = |line: &mut Line| {
            let fits = line.refused.is_some_and(|len| line.bytes == 0 || line.bytes + len <= limit);
            if fits {
                line.refused = None;
            }
            fits
        };
        let (control, client) = (again(&mut self.control), again(&mut self.client));
        control || client
    }

    /// Bytes that wait.
    pub const fn bytes(&self) -> usize {
        self.control.bytes + self.client.bytes
    }

    /// Whether nothing waits and no ring has anything.
    pub fn is_empty(&self) -> bool {
        [&self.control, &self.client].iter().all(|line| line.waiting.is_empty() && line.sent.is_empty())
    }
}

//! Which message a delivery is, judged by its bytes.
use crate::machine::Received;
use crate::message::{Mark, Pattern, Process, mark_of};
use crate::trace::{PerProcess, Submitted};
use consort_types::NodeId;

/// Knows all messages that were accepted.
#[derive(Debug, Default)]
pub(crate) struct Identify {
    pub pattern: Pattern,
    submitted: PerProcess<Vec<Submitted>>,
    /// By node: messages too short for a name, in the order in which they were submitted.
    nameless: PerProcess<Vec<(Mark, Submitted)>>,
    /// By receiver and sender's node: which of those it was given.
    given: PerProcess<PerProcess<Given>>,
    /// By receiver and origin: the last message it was given.
    latest: PerProcess<PerProcess<u64>>,
}

/// All before `from`, and some after it.
#[derive(Clone, Debug, Default)]
struct Given {
    from: usize,
    after: Vec<bool>,
}

impl Given {
    fn has(&self, at: usize) -> bool {
        at < self.from || self.after.get(at - self.from).copied().unwrap_or(false)
    }

    fn add(&mut self, at: usize) {
        let offset = at - self.from;
        if self.after.len() <= offset {
            self.after.resize(offset + 1, false);
        }
        self.after[offset] = true;
        let done = self.after.iter().take_while(|given| **given).count();
        self.after.drain(..done);
        self.from += done;
    }
}

const fn place(node: NodeId) -> Process {
    Process::new(node, 0)
}

impl Identify {
    /// A message was accepted.
    pub fn submit(&mut self, process: Process, submitted: Submitted) {
        self.submitted.of(process).push(submitted);
        if (submitted.len as usize) < crate::message::HEADER {
            let mark = Mark { origin: process, count: submitted.count };
            self.nameless.of(place(process.node)).push((mark, submitted));
        }
    }

    /// The message that was delivered, if anybody submitted such a one, and whether all its bytes are right.
    pub fn identify(&mut self, process: Process, message: &Received) -> (Option<Mark>, bool) {
        let (mark, intact) = self.judge(process, message);
        if let Some(mark) = mark {
            *self.latest.of(process).of(mark.origin) = mark.count;
        }
        (mark, intact)
    }

    fn judge(&mut self, process: Process, message: &Received) -> (Option<Mark>, bool) {
        if message.payload.len() < crate::message::HEADER {
            return (self.nameless(process, message), true);
        }
        let known = mark_of(&message.payload).filter(|mark| self.knows(*mark));
        known.map_or((None, false), |mark| (Some(mark), self.pattern.is_payload(mark, &message.payload)))
    }

    fn knows(&self, mark: Mark) -> bool {
        self.submitted.get(mark.origin).is_some_and(|sent| (1..=sent.len() as u64).contains(&mark.count))
    }

    /// The sender's first message with these bytes that this process was not given yet; if all were given, the last of
    /// them. Where several have the same bytes, the delivery's other fields decide, then whether it would stand in its
    /// sender's order: whoever came late was never given the first ones.
    fn nameless(&mut self, process: Process, message: &Received) -> Option<Mark> {
        let Self { pattern, nameless, given, latest, .. } = self;
        let sent = nameless.of(place(message.sender.node));
        let given = given.of(process).of(place(message.sender.node));
        let latest = latest.of(process);
        let same = |mark: Mark, submitted: &Submitted| {
            submitted.len == message.payload.len() as u64 && pattern.is_payload(mark, &message.payload)
        };
        let alike = |mark: Mark, submitted: &Submitted| {
            submitted.service == message.service
                && (message.client.is_none() || message.client == Some(mark.origin.client))
                && (message.class.is_none() || message.class == submitted.class)
                && (message.own.is_none() || message.own == submitted.id)
        };
        let in_order = |mark: Mark| latest.get(mark.origin).is_none_or(|latest| mark.count > *latest);
        let first = |fits: &dyn Fn(Mark, &Submitted) -> bool| {
            let fits = |(mark, submitted): &(Mark, Submitted)| fits(*mark, submitted) && same(*mark, submitted);
            (given.from..sent.len()).find(|at| !given.has(*at) && fits(&sent[*at]))
        };
        let best = first(&|mark, submitted| alike(mark, submitted) && in_order(mark));
        if let Some(at) = best.or_else(|| first(&alike)).or_else(|| first(&|_, _| true)) {
            given.add(at);
            return Some(sent[at].0);
        }
        sent.iter().rev().find(|(mark, submitted)| same(*mark, submitted)).map(|(mark, _)| *mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::MemberId;

    const SENDER: Process = Process::new(NodeId(1), 0);
    const RECEIVER: Process = Process::new(NodeId(0), 0);

    fn sent(lens: &[u64]) -> Identify {
        let mut identify = Identify::default();
        for (len, count) in lens.iter().zip(1..) {
            identify.submit(SENDER, Submitted { count, len: *len, ..Submitted::default() });
        }
        identify
    }

    fn received(identify: &Identify, count: u64, len: usize) -> Received {
        let payload = identify.pattern.payload(Mark { origin: SENDER, count }, len);
        Received { sender: MemberId::new(1, 1), payload, ..Received::default() }
    }

    fn counts(identify: &mut Identify, messages: &[Received]) -> Vec<Option<u64>> {
        messages.iter().map(|message| identify.identify(RECEIVER, message).0.map(|mark| mark.count)).collect()
    }

    #[test]
    fn empty_messages_are_told_apart_by_their_turn() {
        let mut identify = sent(&[0, 0, 5]);
        let empty = received(&identify, 1, 0);
        let tiny = received(&identify, 3, 5);
        let got = counts(&mut identify, &[empty.clone(), tiny, empty.clone(), empty]);
        assert_eq!(got, [Some(1), Some(3), Some(2), Some(2)], "one too many counts as the last again");
    }

    #[test]
    fn a_late_comer_is_given_later_messages_of_the_same_bytes() {
        let mut identify = sent(&[0, 50, 0]);
        let (named, empty) = (received(&identify, 2, 50), received(&identify, 1, 0));
        assert_eq!(counts(&mut identify, &[named, empty]), [Some(2), Some(3)]);
    }

    #[test]
    fn what_nobody_sent_has_no_name() {
        let mut identify = sent(&[100]);
        let never = received(&identify, 2, 100);
        let tiny = received(&identify, 1, 3);
        assert_eq!(counts(&mut identify, &[never, tiny]), [None, None]);
    }

    #[test]
    fn wrong_bytes_are_noticed() {
        let mut identify = sent(&[100]);
        let mut message = received(&identify, 1, 100);
        assert!(identify.identify(RECEIVER, &message).1);
        let mut bytes = message.payload.to_bytes().to_vec();
        bytes[50] ^= 1;
        message.payload = bytes::Bytes::from(bytes).into();
        let (mark, intact) = identify.identify(RECEIVER, &message);
        assert!(mark.is_some() && !intact);
    }
}

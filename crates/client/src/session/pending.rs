//! Sends that have no fate yet: what they say, and under which number they went.
use super::Fate;
use crate::{Bytes, Refusal, RefusalCause, Service, Target};
use consort_session::HistoryPlace;
use std::collections::VecDeque;

/// What a send costs beside its payload, in bytes.
const COST: usize = 128;

/// A send without a fate.
#[derive(Debug)]
pub(super) struct PendingSend {
    /// What the program calls it.
    pub send: u64,
    pub service: Service,
    pub to: Vec<Target>,
    pub payload: Bytes,
    /// Under which number it went last, unless it is certain that it was not ordered under it.
    number: Option<u64>,
    /// Which request of the connection it is.
    request: Option<u64>,
}

impl PendingSend {
    fn cost(&self) -> usize {
        COST + self.payload.len()
    }
}

/// What a refusal means for the sends behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedAs {
    /// None of these sends.
    Foreign,
    /// It has its fate; the producer must be opened again for those behind it.
    Final,
    /// It may be sent again, once the producer was opened again.
    Again,
    /// Another session sends as this producer.
    TakenOver,
}

/// Sends without a fate, in their order.
#[derive(Debug, Default)]
pub(super) struct PendingSends {
    sends: VecDeque<PendingSend>,
    bytes: usize,
    /// How many sends there were.
    made: u64,
    /// The number of the last that went under way.
    numbered: u64,
}

impl PendingSends {
    /// Keeps a send; returns what it is called.
    pub fn push(&mut self, service: Service, to: Vec<Target>, payload: Bytes) -> u64 {
        self.made += 1;
        let pending = PendingSend { send: self.made, service, to, payload, number: None, request: None };
        self.bytes += pending.cost();
        self.sends.push_back(pending);
        self.made
    }

    /// Whether one of so many bytes may be kept, too. A large one may go alone.
    pub fn has_room(&self, payload: usize, most: usize) -> bool {
        self.sends.is_empty() || self.bytes + COST + payload <= most
    }

    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Whether this one has no fate.
    pub fn has(&self, send: u64) -> bool {
        self.sends.binary_search_by_key(&send, |pending| pending.send).is_ok()
    }

    /// How many have no fate.
    pub fn len(&self) -> usize {
        self.sends.len()
    }

    /// The next one to be sent.
    pub fn next_unsent(&self) -> Option<&PendingSend> {
        let sent = self.sends.partition_point(|send| send.request.is_some());
        self.sends.get(sent)
    }

    /// It went as this request.
    pub fn sent(&mut self, request: u64) {
        let sent = self.sends.partition_point(|send| send.request.is_some());
        if let Some(next) = self.sends.get_mut(sent) {
            self.numbered += 1;
            (next.number, next.request) = (Some(self.numbered), Some(request));
        }
    }

    /// The next one to be sent cannot be.
    pub fn refuse_unsent(&mut self) -> Option<u64> {
        let sent = self.sends.partition_point(|send| send.request.is_some());
        self.take(sent).map(|refused| refused.send)
    }

    /// All up to a number are ordered, the last of them at a place.
    pub fn settle(&mut self, number: u64, at: HistoryPlace, tell: &mut impl FnMut(u64, Fate)) {
        while self.sends.front().and_then(|send| send.number).is_some_and(|own| own <= number) {
            if let Some(settled) = self.take(0) {
                // Those before the last of a batch stand at its place, too.
                tell(settled.send, Fate::Ordered { at: Some(at) });
            }
        }
    }

    /// The producer was opened: what went under a number up to `last` is ordered, the rest is to be sent again. Where all
    /// was forgotten nobody knows of those that were under way.
    pub fn open(&mut self, last: u64, at: HistoryPlace, forgotten: bool, tell: &mut impl FnMut(u64, Fate)) {
        //= E06
        let mut index = 0;
        while let Some(send) = self.sends.get_mut(index) {
            let fate = match send.number {
                Some(_) if forgotten => Fate::Forgotten,
                Some(number) if number <= last => Fate::Ordered { at: (number == last).then_some(at) },
                _ => {
                    (send.number, send.request) = (None, None);
                    index += 1;
                    continue;
                }
            };
            if let Some(known) = self.take(index) {
                tell(known.send, fate);
            }
        }
        self.numbered = last;
    }

    /// A request was refused.
    pub fn refuse(&mut self, request: u64, refusal: &Refusal, tell: &mut impl FnMut(u64, Fate)) -> RefusedAs {
        let Some(index) = self.sends.iter().position(|send| send.request == Some(request)) else {
            return RefusedAs::Foreign;
        };
        match refusal.cause {
            RefusalCause::Fenced => RefusedAs::TakenOver,
            RefusalCause::Missing
            | RefusalCause::NotPrimary
            | RefusalCause::Forgotten
            | RefusalCause::Budget
            | RefusalCause::Leaving => {
                // It is certain that it was not ordered, and nothing behind it either.
                self.sends.range_mut(index..).for_each(|send| send.number = None);
                RefusedAs::Again
            }
            _ => {
                if let Some(refused) = self.take(index) {
                    tell(refused.send, Fate::Refused(refusal.clone()));
                }
                RefusedAs::Final
            }
        }
    }

    /// The connection is gone: its requests mean nothing any more.
    pub fn disconnect(&mut self) {
        self.sends.iter_mut().for_each(|send| send.request = None);
    }

    fn take(&mut self, index: usize) -> Option<PendingSend> {
        let taken = self.sends.remove(index)?;
        self.bytes -= taken.cost();
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_session::Refusal;
    use consort_types::Position;

    fn place(at: u64) -> HistoryPlace {
        HistoryPlace { view: 1, at: Position(at) }
    }

    fn pending(count: u64, sent: u64) -> PendingSends {
        let mut pending = PendingSends::default();
        for _ in 0..count {
            pending.push(Service::Agreed, Vec::new(), Bytes::from_static(b"xyz"));
        }
        (1..=sent).for_each(|request| pending.sent(100 + request));
        pending
    }

    fn fates(mut act: impl FnMut(&mut dyn FnMut(u64, Fate))) -> Vec<(u64, Fate)> {
        let mut told = Vec::new();
        act(&mut |send, fate| told.push((send, fate)));
        told
    }

    fn refusal(cause: RefusalCause) -> Refusal {
        Refusal { cause, text: "no".to_owned() }
    }

    #[test]
    fn what_is_settled_has_its_place_and_leaves_room() {
        let mut sends = pending(3, 2);
        let full = sends.bytes;
        assert!(!sends.has_room(1, full) && sends.has_room(1, full + COST + 1));
        let told = fates(|mut tell| sends.settle(1, place(7), &mut tell));
        assert_eq!(told, [(1, Fate::Ordered { at: Some(place(7)) })]);
        assert!(sends.has_room(3, full) && sends.len() == 2);
        assert_eq!([0, 1, 2, 3, 4].map(|send| sends.has(send)), [false, false, true, true, false]);
        assert_eq!(sends.next_unsent().map(|send| send.send), Some(3));
    }

    #[test]
    fn an_answer_tells_the_fate_of_what_was_under_way_and_the_rest_is_numbered_behind_it() {
        //= E06 test
        let mut sends = pending(4, 3);
        sends.disconnect();
        let told = fates(|mut tell| sends.open(2, place(9), false, &mut tell));
        assert_eq!(told, [(1, Fate::Ordered { at: None }), (2, Fate::Ordered { at: Some(place(9)) })]);
        sends.sent(1);
        assert_eq!((sends.sends[0].send, sends.sends[0].number), (3, Some(3)));
        let told = fates(|mut tell| sends.settle(3, place(12), &mut tell));
        assert_eq!(told, [(3, Fate::Ordered { at: Some(place(12)) })]);
    }

    #[test]
    fn what_was_forgotten_is_said_so_unless_it_is_certain_that_it_was_not_ordered() {
        let mut sends = pending(4, 3);
        let again = fates(|mut tell| {
            assert_eq!(sends.refuse(102, &refusal(RefusalCause::NotPrimary), &mut tell), RefusedAs::Again);
        });
        assert_eq!(again, []);
        let told = fates(|mut tell| sends.open(0, place(1), true, &mut tell));
        assert_eq!(told, [(1, Fate::Forgotten)]);
        assert_eq!(sends.next_unsent().map(|send| send.send), Some(2));
    }

    #[test]
    fn a_refusal_is_final_or_not_by_its_cause() {
        let mut sends = pending(2, 2);
        let told = fates(|mut tell| {
            assert_eq!(sends.refuse(9, &refusal(RefusalCause::Closed), &mut tell), RefusedAs::Foreign);
            assert_eq!(sends.refuse(101, &refusal(RefusalCause::Closed), &mut tell), RefusedAs::Final);
            assert_eq!(sends.refuse(102, &refusal(RefusalCause::Missing), &mut tell), RefusedAs::Again);
        });
        assert_eq!(told, [(1, Fate::Refused(refusal(RefusalCause::Closed)))]);
        let told = fates(|mut tell| sends.open(0, place(1), false, &mut tell));
        assert_eq!((told, sends.len()), (Vec::new(), 1));
        sends.sent(103);
        assert_eq!(sends.sends[0].number, Some(1), "a refusal takes no number");
        let mut tell = |_, _| {};
        assert_eq!(sends.refuse(103, &refusal(RefusalCause::Fenced), &mut tell), RefusedAs::TakenOver);
    }
}

//! The messages of one view: those that wait for their turn, and those that some member may lack yet.
use crate::carrier::Message;
use crate::key::Key;
use std::collections::{BTreeMap, VecDeque};

/// What is held of the members of a view, who go by their index.
#[derive(Clone, Debug)]
pub struct Store {
    me: usize,
    /// For each member: the messages that are held, and how many before them were let go.
    members: Vec<HeldMessages>,
    /// How many messages of each member came here.
    held: Vec<u64>,
    /// How many of each every member is known to have handed out: the row of this node is what it has itself.
    handed_out: Vec<Vec<u64>>,
    /// What is not handed out, in its order.
    waiting: BTreeMap<Key, (usize, u64)>,
    /// The last that was handed out.
    handed: Option<Key>,
    bytes: usize,
    own_bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct HeldMessages {
    gone: u64,
    held: VecDeque<(Key, Message)>,
}

/// What became of a message that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the next of its sender.
    New,
    /// It was held before.
    Known,
    /// One before it is missing, or it stands where something was handed out already.
    Refused,
}

impl Store {
    /// Nothing of a view of `n` members, of which this node is one.
    pub fn new(n: usize, me: usize) -> Self {
        let members = vec![HeldMessages::default(); n];
        let (held, handed_out) = (vec![0; n], vec![vec![0; n]; n]);
        Self { me, members, held, handed_out, waiting: BTreeMap::new(), handed: None, bytes: 0, own_bytes: 0 }
    }

    /// A message came, the `number`-th of a member.
    pub fn take(&mut self, member: usize, number: u64, key: Key, message: Message) -> Taken {
        //= TM20
        let Some(held) = self.held.get_mut(member) else { return Taken::Refused };
        if number <= *held {
            return Taken::Known;
        }
        if number != *held + 1 || self.handed >= Some(key) || self.waiting.contains_key(&key) {
            return Taken::Refused;
        }
        *held = number;
        self.bytes += message.cost();
        if member == self.me {
            self.own_bytes += message.cost();
        }
        self.waiting.insert(key, (member, number));
        self.members[member].held.push_back((key, message));
        Taken::New
    }

    /// A member told how many messages of each it has handed out.
    pub fn note(&mut self, member: usize, numbers: &[u64]) {
        let Some(known) = self.handed_out.get_mut(member).filter(|known| known.len() == numbers.len()) else { return };
        known.iter_mut().zip(numbers).for_each(|(known, number)| *known = (*known).max(*number));
    }

    /// A member told up to which of its messages all have handed them out. What this node has not is not believed.
    pub fn note_done(&mut self, member: usize, done: u64) {
        //= TM21
        for (of, known) in self.handed_out.iter_mut().enumerate() {
            if let Some(known) = known.get_mut(member).filter(|_| of != self.me) {
                *known = (*known).max(done);
            }
        }
    }

    /// Lets go of what all members have handed out. Says whether anything went.
    pub fn release(&mut self) -> bool {
        //= TM21
        let stable = self.stable();
        let before = self.bytes;
        for (index, (member, stable)) in self.members.iter_mut().zip(stable).enumerate() {
            while member.gone < stable
                && let Some((_, message)) = member.held.pop_front()
            {
                member.gone += 1;
                self.bytes -= message.cost();
                if index == self.me {
                    self.own_bytes -= message.cost();
                }
            }
        }
        self.bytes < before
    }

    /// How much of each member all are known to have handed out.
    pub fn stable(&self) -> Vec<u64> {
        (0..self.members.len()).map(|of| self.done(of)).collect()
    }

    /// How much of a member all are known to have handed out.
    pub fn done(&self, member: usize) -> u64 {
        self.handed_out.iter().filter_map(|known| known.get(member).copied()).min().unwrap_or_default()
    }

    /// How many messages of each member came here.
    pub fn held(&self) -> &[u64] {
        &self.held
    }

    /// How many of each member were handed out here.
    pub fn handed_out(&self) -> &[u64] {
        &self.handed_out[self.me]
    }

    /// The next to be handed out: where it stands, whose it is, and itself.
    pub fn next(&self) -> Option<(Key, usize, &Message)> {
        let (key, (member, number)) = self.waiting.first_key_value()?;
        Some((*key, *member, self.message(*member, *number)?.1))
    }

    /// The next was handed out.
    pub fn hand_out(&mut self) {
        if let Some((key, (member, number))) = self.waiting.pop_first() {
            self.handed = Some(key);
            self.handed_out[self.me][member] = number;
        }
    }

    /// A message that is held, and where it stands.
    pub fn message(&self, member: usize, number: u64) -> Option<(Key, &Message)> {
        let member = self.members.get(member)?;
        let index = usize::try_from(number.checked_sub(member.gone + 1)?).ok()?;
        member.held.get(index).map(|(key, message)| (*key, message))
    }

    /// Whether it has only the places of some that it holds.
    pub fn is_hollow(&self) -> bool {
        self.members.iter().flat_map(|member| &member.held).any(|(_, message)| message.passed)
    }

    /// How many messages wait to be handed out.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The bytes of all that is held, and of what this node sent of it.
    pub const fn bytes(&self) -> (usize, usize) {
        (self.bytes, self.own_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RingNumber;
    use consort_types::{Class, Service};

    fn message(text: &'static str) -> Message {
        let payload = bytes::Bytes::from_static(text.as_bytes()).into();
        Message { class: Class::Client, service: Service::Agreed, makes_primary: false, passed: false, payload }
    }

    const fn key(stamp: u64, ring: u8) -> Key {
        Key { stamp, ring: RingNumber(ring) }
    }

    #[test]
    fn messages_are_taken_in_their_senders_order_and_none_below_what_was_handed_out() {
        //= TM20 test
        let mut store = Store::new(2, 0);
        assert_eq!(store.take(1, 2, key(7, 1), message("b")), Taken::Refused);
        assert_eq!(store.take(1, 1, key(5, 1), message("a")), Taken::New);
        assert_eq!(store.take(1, 1, key(5, 1), message("a")), Taken::Known);
        assert_eq!(store.take(0, 1, key(5, 2), message("c")), Taken::New);
        assert_eq!(store.next().map(|(key, ..)| key), Some(key(5, 1)));
        store.hand_out();
        store.hand_out();
        assert_eq!(store.take(1, 2, key(4, 2), message("late")), Taken::Refused);
        assert_eq!(store.take(1, 2, key(5, 2), message("same")), Taken::Refused);
        assert_eq!(store.take(9, 1, key(9, 2), message("of no member")), Taken::Refused);
    }

    #[test]
    fn what_all_have_handed_out_is_let_go() {
        //= TM21 test
        let mut store = Store::new(2, 0);
        assert_eq!(store.take(0, 1, key(1, 1), message("mine")), Taken::New);
        assert_eq!(store.take(1, 1, key(2, 1), message("yours")), Taken::New);
        store.note(1, &[1, 0]);
        assert!(!store.release(), "nothing was handed out here");
        store.hand_out();
        store.hand_out();
        assert!(store.release());
        assert_eq!((store.message(0, 1), store.stable()), (None, vec![1, 0]));
        assert!(store.message(1, 1).is_some(), "the other has it yet to hand out");
        store.note(1, &[1, 1]);
        assert!(store.release());
        assert_eq!(store.bytes(), (0, 0));
        store.note(1, &[9]);
        assert_eq!(store.stable(), [1, 1], "a row of another length means nothing");
    }

    #[test]
    fn a_sender_tells_what_all_have_handed_out_and_nobody_lets_go_of_more_than_it_has() {
        //= TM21 test
        let mut store = Store::new(3, 0);
        for number in 1..=3 {
            assert_eq!(store.take(1, number, key(number, 1), message("one")), Taken::New);
        }
        store.hand_out();
        store.note_done(1, 2);
        assert_eq!((store.done(1), store.release()), (1, true));
        store.hand_out();
        assert!(store.release() && store.message(1, 2).is_none() && store.message(1, 3).is_some());
    }
}

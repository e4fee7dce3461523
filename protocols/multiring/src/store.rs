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
    /// What each member is known to hold of each: the row of this node is what it holds itself.
    known: Vec<Vec<u64>>,
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
        let known = vec![vec![0; n]; n];
        Self { me, members, known, waiting: BTreeMap::new(), handed: None, bytes: 0, own_bytes: 0 }
    }

    /// A message came, the `number`-th of a member.
    pub fn take(&mut self, member: usize, number: u64, key: Key, message: Message) -> Taken {
        //= TM20
        let Some(held) = self.known[self.me].get_mut(member) else { return Taken::Refused };
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

    /// A member told what it holds.
    pub fn note(&mut self, member: usize, held: &[u64]) {
        let Some(known) = self.known.get_mut(member).filter(|known| known.len() == held.len()) else { return };
        known.iter_mut().zip(held).for_each(|(known, held)| *known = (*known).max(*held));
    }

    /// Lets go of what all members hold and what was handed out here. Says whether anything went.
    pub fn release(&mut self) -> bool {
        //= TM21
        let stable = self.stable();
        let before = self.bytes;
        for (index, (member, stable)) in self.members.iter_mut().zip(stable).enumerate() {
            while member.gone < stable && member.held.front().is_some_and(|(key, _)| Some(*key) <= self.handed) {
                let Some((_, message)) = member.held.pop_front() else { break };
                member.gone += 1;
                self.bytes -= message.cost();
                if index == self.me {
                    self.own_bytes -= message.cost();
                }
            }
        }
        self.bytes < before
    }

    /// How much of each member all are known to hold.
    pub fn stable(&self) -> Vec<u64> {
        (0..self.members.len()).map(|of| self.known.iter().map(|known| known[of]).min().unwrap_or_default()).collect()
    }

    /// How much of each member is held here.
    pub fn held(&self) -> &[u64] {
        &self.known[self.me]
    }

    /// The next to be handed out: where it stands, whose it is, and itself.
    pub fn next(&self) -> Option<(Key, usize, &Message)> {
        let (key, (member, number)) = self.waiting.first_key_value()?;
        Some((*key, *member, self.message(*member, *number)?.1))
    }

    /// The next was handed out.
    pub fn hand_out(&mut self) {
        if let Some((key, _)) = self.waiting.pop_first() {
            self.handed = Some(key);
        }
    }

    /// A message that is held, and where it stands.
    pub fn message(&self, member: usize, number: u64) -> Option<(Key, &Message)> {
        let member = self.members.get(member)?;
        let index = usize::try_from(number.checked_sub(member.gone + 1)?).ok()?;
        member.held.get(index).map(|(key, message)| (*key, message))
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
        Message { class: Class::Client, service: Service::Agreed, makes_primary: false, payload }
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
    fn what_all_hold_is_let_go_once_it_was_handed_out() {
        //= TM21 test
        let mut store = Store::new(2, 0);
        assert_eq!(store.take(0, 1, key(1, 1), message("mine")), Taken::New);
        assert_eq!(store.take(1, 1, key(2, 1), message("yours")), Taken::New);
        store.note(1, &[1, 1]);
        assert!(!store.release(), "nothing was handed out");
        store.hand_out();
        assert!(store.release());
        assert_eq!((store.message(0, 1), store.stable()), (None, vec![1, 1]));
        assert!(store.message(1, 1).is_some());
        store.hand_out();
        assert!(store.release());
        assert_eq!(store.bytes(), (0, 0));
        store.note(1, &[9]);
        assert_eq!(store.stable(), [1, 1], "a row of another length means nothing");
    }
}

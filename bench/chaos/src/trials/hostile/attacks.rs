//! The attacks: what a hostile client sends at each door, with the arguments that cost most.
//!
//! ```text
//! session   the session protocol of a daemon
//! spread    the protocol of Spread's clients, at the same daemon
//! store     RESP2, at a server of a key-value store that joins at this daemon
//! ```
use bytes::{BufMut, BytesMut};
use consort::GroupName;
use consort_spread::name_field;
use consort_types::Rng;

use crate::trials::stage::text;
pub use store::stored;

mod session;
mod spread;
mod store;

/// The group that has many members.
pub const CROWD: &str = "crowd";
/// How many bytes are made at once, unless one request has more.
pub const ROOM: usize = 64 << 10;
/// One in this number of existing groups has a name that a client of Spread can say.
const SHORT: usize = 10;

/// Where a connection is made, and which protocol it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The socket of a daemon, by the session protocol.
    Session,
    /// The socket of this daemon for Spread's clients.
    Spread,
    /// The port of a store's server.
    Store,
}

/// How the connections of an attack go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each says hello, where there is one, and sends requests until the attack is over.
    Requests,
    /// The same with the requests of all those attacks at this door in any order.
    Mixed,
    /// The same, but the hello says that the client only asks.
    Questions,
    /// The same, but no answer is read.
    Deaf,
    /// The other end closes the connection because of the requests, and it is made again.
    Ends,
    /// The last byte of a large request or of a handshake never comes.
    Unfinished,
    /// Each says nothing or half a hello, is closed at once, and is made again.
    Silent,
}

type Frame = fn(&mut Source<'_>, &mut BytesMut);

/// One attack.
#[derive(Debug)]
pub struct Attack {
    pub name: &'static str,
    pub door: Door,
    pub kind: Kind,
    /// Appends what is sent first.
    front: Frame,
    /// Appends the next request, or the next few that belong together.
    frame: Frame,
}

/// All attacks at all doors.
pub fn all() -> impl Iterator<Item = &'static Attack> {
    [session::ATTACKS, spread::ATTACKS, store::ATTACKS].into_iter().flatten()
}

/// What one connection makes its requests of.
#[derive(Debug)]
pub struct Source<'a> {
    rng: Rng,
    /// This number is in its new names, so that no other connection has them.
    own: u64,
    number: u64,
    /// The bytes of an unfinished request that are still to be sent, once it has begun.
    left: Option<usize>,
    /// Groups that exist, in the order of their names.
    names: &'a [GroupName],
}

/// Names of groups in their order, each as long as it may be: those that clients of Spread can say, and then the others.
///
/// # Errors
/// A mistake in this file.
pub fn existing(count: usize) -> Result<Vec<GroupName>, String> {
    let name = |number: usize| match number < count / SHORT {
        true => format!("s{number:0>30}"),
        false => format!("z{number:0>63}"),
    };
    (0..count).map(|number| GroupName::new(name(number)).map_err(text)).collect()
}

impl Attack {
    /// What is sent first.
    pub fn opening(&self, source: &mut Source<'_>) -> BytesMut {
        let mut out = BytesMut::new();
        (self.front)(source, &mut out);
        out
    }

    /// Appends as many requests as there is room for, and one in any case.
    pub fn fill(&self, source: &mut Source<'_>, out: &mut BytesMut) {
        let begun = out.len();
        loop {
            let before = out.len();
            (self.frame)(source, out);
            if out.len() > ROOM && before > begun {
                out.truncate(before);
            }
            if out.len() == before {
                return;
            }
        }
    }

    /// Whether something must come back. A store says nothing before a request is whole.
    pub fn is_answered(&self) -> bool {
        match self.kind {
            Kind::Silent | Kind::Deaf => false,
            Kind::Unfinished => self.door != Door::Store,
            Kind::Requests | Kind::Mixed | Kind::Questions | Kind::Ends => true,
        }
    }
}

impl<'a> Source<'a> {
    pub fn new(mut rng: Rng, names: &'a [GroupName]) -> Self {
        let own = rng.next_u64();
        Self { rng, own, number: 0, left: None, names }
    }

    const fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// A name that was never used, as long as a name may be.
    fn new_name(&mut self) -> String {
        let number = self.next_number();
        format!("y{:016x}{number:0>47}", self.own)
    }

    /// The same, as long as a client of Spread may say one.
    fn new_short_name(&mut self) -> String {
        let number = self.next_number();
        format!("w{:016x}{number:0>14}", self.own)
    }

    /// The existing groups whose names a client of Spread can say.
    fn short_names(&self) -> &'a [GroupName] {
        let count = self.names.partition_point(|name| name.as_bytes().len() <= name_field::MAX);
        &self.names[..count]
    }

    /// Appends as much as there is room for of a request whose last byte never comes. `begin` appends its front, and returns
    /// how many bytes follow but for the last.
    fn leave_unfinished(&mut self, out: &mut BytesMut, begin: impl FnOnce(&mut BytesMut) -> usize) {
        let left = self.left.unwrap_or_else(|| begin(out));
        let now = left.min(ROOM.saturating_sub(out.len()));
        out.put_bytes(0, now);
        self.left = Some(left - now);
    }
}

fn nothing(_: &mut Source<'_>, _: &mut BytesMut) {}

/// The next request of any attack of these that goes on and on.
fn any_of(attacks: &[Attack], source: &mut Source<'_>, out: &mut BytesMut) {
    let mut all = attacks.iter().filter(|attack| attack.kind == Kind::Requests);
    let at = source.rng.below(all.clone().count() as u64) as usize;
    if let Some(attack) = all.nth(at) {
        (attack.frame)(source, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attack_has_a_name_and_each_door_has_attacks_of_most_kinds() {
        let mut names: Vec<_> = all().map(|attack| attack.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for door in [Door::Session, Door::Spread, Door::Store] {
            for kind in [Kind::Requests, Kind::Mixed, Kind::Ends, Kind::Unfinished, Kind::Silent] {
                assert!(all().any(|attack| attack.door == door && attack.kind == kind), "{door:?} {kind:?}");
            }
        }
    }

    #[test]
    fn the_last_byte_of_what_is_unfinished_never_comes() {
        for attack in all().filter(|attack| attack.kind == Kind::Unfinished) {
            let mut source = Source::new(Rng::new(1), &[]);
            let mut out = attack.opening(&mut source);
            let mut sent = 0;
            loop {
                attack.fill(&mut source, &mut out);
                sent += out.len();
                if out.is_empty() {
                    break;
                }
                out.clear();
            }
            assert!((30..20 << 20).contains(&sent), "{}: {sent}", attack.name);
            assert_eq!(source.left.unwrap_or_default(), 0, "{}", attack.name);
        }
    }

    #[test]
    fn names_are_as_long_as_they_may_be_and_no_two_are_the_same() {
        let names = existing(20_000).unwrap();
        let mut rng = Rng::new(1);
        let mut sources = [0, 1].map(|salt| Source::new(rng.fork(salt), &names));
        let (short, long) = names.split_at(sources[0].short_names().len());
        assert!(names.is_sorted() && short.len() == names.len() / SHORT);
        assert!(short.iter().all(|name| name.as_bytes().len() == name_field::MAX));
        assert!(long.iter().all(|name| name.as_bytes().len() == GroupName::MAX));
        let mut new: Vec<_> = (0..10).map(|n| sources[n % 2].new_name()).collect();
        let short: Vec<_> = (0..10).map(|n| sources[n % 2].new_short_name()).collect();
        assert!(new.iter().all(|name| name.len() == GroupName::MAX));
        assert!(short.iter().all(|name| name.len() == name_field::MAX));
        new.extend(short);
        new.sort_unstable();
        new.dedup();
        assert_eq!(new.len(), 20);
    }
}

//! The list of names that a multicast carries, of groups and of clients, from the sender's frame to the receiver's, byte for
//! byte.
//!
//! | size | field |
//! |---|---|
//! | 2 | how many names, 1 to 1000 |
//! | 1, n | each name: its length, then its bytes |
use crate::private::PrivateName;
use bytes::{BufMut, BytesMut};
use consort_types::GroupName;
use consort_wire::{Malformed, Payload, Reader};

/// What a message may be sent to.
pub trait Addressee {
    /// The name as it travels in a list of targets.
    fn target(&self) -> &[u8];
}

impl Addressee for GroupName {
    fn target(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Addressee for PrivateName {
    fn target(&self) -> &[u8] {
        self.as_str().as_bytes()
    }
}

/// A group or one client: for lists of both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All members of a group.
    Group(GroupName),
    /// One client.
    Client(PrivateName),
}

impl Target {
    /// Reads a name as an [`Addressee`] gives it; `None` where it is none.
    pub fn read(name: &[u8]) -> Option<Self> {
        if name.first() == Some(&b'#') {
            return PrivateName::parse(std::str::from_utf8(name).ok()?).map(Self::Client);
        }
        GroupName::new(name).ok().map(Self::Group)
    }
}

impl Addressee for Target {
    fn target(&self) -> &[u8] {
        match self {
            Self::Group(group) => group.target(),
            Self::Client(client) => client.target(),
        }
    }
}

/// A list whose lengths were checked, read where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets<'a> {
    count: usize,
    names: &'a [u8],
}

impl<'a> Targets<'a> {
    //= G05
    /// How many groups and clients one multicast may name.
    pub const MAX: usize = 1_000;
    /// The bytes of the longest list.
    pub const MAX_LEN: usize = 2 + Self::MAX * (1 + GroupName::MAX);

    /// Reads a list off the front. What the names say is not checked: one that is no group's name has no members.
    ///
    /// # Errors
    /// [`Malformed`] where the count or a length is wrong.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let bad = |what, at| Err(Malformed { what, at });
        let Some((count, rest)) = bytes.split_first_chunk() else { return bad("group count", bytes.len()) };
        let count = usize::from(u16::from_be_bytes(*count));
        if count == 0 || count > Self::MAX {
            return bad("group count", 2);
        }
        let mut len = 0;
        for _ in 0..count {
            len += match rest.get(len) {
                Some(0) | None => return bad("group name", 2 + len),
                Some(name) => 1 + usize::from(*name),
            };
        }
        match rest.get(..len) {
            Some(names) => Ok(Self { count, names }),
            None => bad("group name", bytes.len()),
        }
    }

    /// Calls `see` with the list that stands at byte `at` of a rope, and returns its answer. Only a list that was cut
    /// is copied together.
    ///
    /// # Errors
    /// [`Malformed`] where there is no list.
    pub fn of<T>(payload: &Payload, at: usize, see: impl FnOnce(Targets<'_>) -> T) -> Result<T, Malformed> {
        let part = rest_of_part(payload, at);
        match Targets::read(part) {
            Ok(targets) => Ok(see(targets)),
            Err(_) if at + part.len() < payload.len() => {
                let mut copy = Vec::new();
                payload.for_each(at, Self::MAX_LEN, |part| copy.extend_from_slice(part));
                Targets::read(&copy).map(see)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that every name is one that a group or a client can have. What was checked where it came in need not be again.
    ///
    /// # Errors
    /// [`Malformed`] names the first that is not; its place is counted from the start of the list.
    pub fn check(self) -> Result<(), Malformed> {
        let mut at = 2;
        for name in self.names() {
            if !is_group_name(name) && PrivateName::read(name).is_none() {
                return Err(Malformed { what: "group name", at });
            }
            at += 1 + name.len();
        }
        Ok(())
    }

    /// All of it but the count, as it travels: the same list has the same bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.names
    }

    /// The names, in the sender's order.
    pub fn names(self) -> impl Iterator<Item = &'a [u8]> {
        let mut left = self.names;
        std::iter::from_fn(move || {
            let (len, rest) = left.split_first()?;
            let (name, rest) = rest.split_at_checked(usize::from(*len))?;
            left = rest;
            Some(name)
        })
    }

    /// How many names there are.
    pub const fn count(self) -> usize {
        self.count
    }

    /// The bytes of the whole list.
    pub const fn encoded_len(self) -> usize {
        2 + self.names.len()
    }
}

/// Appends a list; returns false and appends nothing if there are none or too many.
pub fn encode<'a, T: Addressee + 'a>(targets: impl ExactSizeIterator<Item = &'a T>, out: &mut BytesMut) -> bool {
    let Some(count) = u16::try_from(targets.len()).ok().filter(|n| (1..=Targets::MAX).contains(&usize::from(*n)))
    else {
        return false;
    };
    out.put_u16(count);
    targets.for_each(|target| put_name(target.target(), out));
    true
}

/// Appends a name of at most 255 bytes behind its length.
pub fn put_name(name: &[u8], out: &mut BytesMut) {
    out.put_u8(name.len() as u8);
    out.put_slice(name);
}

/// Reads one group name.
///
/// # Errors
/// [`Malformed`] where it is none.
pub fn read_group(reader: &mut Reader<'_>) -> Result<GroupName, Malformed> {
    let before = reader.clone();
    let len = reader.u8("group name")?;
    let name = reader.take(usize::from(len), "group name")?;
    GroupName::new(name).map_err(|_| before.bad("group name"))
}

/// The same rule as [`GroupName::new`], without making one.
fn is_group_name(name: &[u8]) -> bool {
    let good = (1..=GroupName::MAX).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
    good && name[0] != b'#'
}

fn rest_of_part(payload: &Payload, at: usize) -> &[u8] {
    let mut skip = at;
    for part in payload.parts() {
        match part.get(skip..) {
            Some(rest) if !rest.is_empty() => return rest,
            _ => skip -= part.len(),
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use consort_types::Rng;

    fn list(names: &[&str]) -> BytesMut {
        let names: Vec<_> = names.iter().map(|name| GroupName::new(name.as_bytes()).unwrap()).collect();
        let mut out = BytesMut::new();
        assert!(encode(names.iter(), &mut out));
        out
    }

    fn texts(targets: Targets<'_>) -> Vec<String> {
        targets.names().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
    }

    #[test]
    fn what_is_written_is_read_wherever_the_rope_was_cut() {
        let mut bytes = list(&["orders", "b", "a-long-name-of-a-group"]);
        bytes.put_slice(b"payload");
        let bytes = bytes.freeze();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let cut = [bytes.slice(..first), bytes.slice(first..second), bytes.slice(second..)];
                let rope: Payload = [Bytes::from_static(b"12345")].into_iter().chain(cut).collect();
                let (names, len) = Targets::of(&rope, 5, |t| (texts(t), t.encoded_len())).unwrap();
                assert_eq!(names, ["orders", "b", "a-long-name-of-a-group"]);
                assert_eq!(len, bytes.len() - 7);
            }
        }
    }

    #[test]
    fn none_and_too_many_are_refused_on_both_sides() {
        let mut out = BytesMut::new();
        let name = GroupName::new(b"g").unwrap();
        assert!(!encode(std::iter::empty::<&GroupName>().collect::<Vec<_>>().into_iter(), &mut out));
        assert!(!encode(vec![&name; 1_001].into_iter(), &mut out));
        assert!(out.is_empty());
        assert!(encode(vec![&name; 1_000].into_iter(), &mut out));
        assert_eq!(Targets::read(&out).unwrap().count(), 1_000);
        out[..2].copy_from_slice(&[0, 0]);
        assert_eq!(Targets::read(&out), Err(Malformed { what: "group count", at: 2 }));
    }

    #[test]
    fn the_quick_check_agrees_with_the_noun() {
        let mut rng = Rng::new(5);
        for _ in 0..20_000 {
            let name: Vec<u8> = (0..rng.below(70)).map(|_| rng.between(0x1f, 0x80) as u8).collect();
            assert_eq!(is_group_name(&name), GroupName::new(&name).is_ok(), "{name:?}");
        }
        assert!(!is_group_name(b"#private"));
    }

    #[test]
    fn no_mutation_panics_and_what_is_accepted_has_good_names() {
        consort_wire::mutate::each(&list(&["orders", "b", "c"]), 5_000, |bytes| {
            let Ok(targets) = Targets::read(bytes) else { return };
            assert_eq!(targets.names().count(), targets.count());
            let good = |name: &[u8]| GroupName::new(name).is_ok() || PrivateName::read(name).is_some();
            assert_eq!(targets.check().is_ok(), targets.names().all(good));
            assert!(targets.encoded_len() <= bytes.len());
        });
    }
}

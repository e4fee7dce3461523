//! Which of an engine's streams a group's messages stand in.
//!
//! An engine of many streams hands out one merged order, so groups and views do not ask in which of them something stood. What
//! this says must be equal at all nodes nevertheless: else one refuses what another takes.
use crate::lines::LineDesk;
use crate::{Node, STREAM};
use consort_group::ordered::{self, Ordered};
use consort_group::{PrivateName, Targets};
use consort_order::Engine;
use consort_session::{Refusal, RefusalCause};
use consort_types::{ClientId, GroupName, OrderStream};
use consort_wire::Payload;
use std::fmt;

/// One of an engine's streams, and whose messages stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGroups {
    /// Its number for the engine.
    pub stream: OrderStream,
    /// What it is called where clients are told of it, such as `ring 2`.
    pub name: String,
    /// Groups by name, or by the beginning of their names and a `*`. Without any it takes its share of the groups that no
    /// stream names.
    pub patterns: Vec<String>,
    /// Whether it takes messages to groups of several streams, and the groups that no other one takes.
    pub global: bool,
}

/// See the module. Without streams all stands in the engine's only one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStreams {
    all: Vec<StreamGroups>,
    /// Those that share what nobody names, by number.
    sharing: Vec<usize>,
    global: Option<usize>,
}

/// A message to groups of two streams, where no stream takes such messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// A group and the name of its stream, twice.
    between: [(String, String); 2],
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(one, its), (other, others)] = &self.between;
        write!(
            f,
            "{one} is on {its} and {other} on {others}, and none is global: send to each by itself, or make one global = true"
        )
    }
}

impl GroupStreams {
    /// Of these streams. Where patterns of two fit a name, the first one counts.
    pub fn new(mut all: Vec<StreamGroups>) -> Self {
        all.sort_by_key(|stream| stream.stream);
        let shares = |stream: &StreamGroups| !stream.global && stream.patterns.is_empty();
        let sharing = all.iter().enumerate().filter(|(_, stream)| shares(stream)).map(|(at, _)| at).collect();
        let global = all.iter().position(|stream| stream.global);
        Self { all, sharing, global }
    }

    /// Whether there are several.
    pub const fn are_many(&self) -> bool {
        self.all.len() > 1
    }

    /// Whether every group has a stream, whatever it is called.
    pub fn take_all(&self) -> bool {
        let is_rest = |stream: &StreamGroups| stream.patterns.iter().any(|pattern| pattern == "*");
        self.global.is_some() || !self.sharing.is_empty() || self.all.iter().any(is_rest)
    }

    /// The streams, by number.
    pub fn iter(&self) -> impl Iterator<Item = &StreamGroups> {
        self.all.iter()
    }

    fn place(&self, group: &[u8]) -> Option<usize> {
        //= MP61
        let names = |stream: &StreamGroups| stream.patterns.iter().any(|pattern| fits(pattern, group));
        let shared = || {
            let share = spread(group).checked_rem(self.sharing.len() as u64)?;
            self.sharing.get(share as usize).copied()
        };
        self.all.iter().position(names).or_else(shared).or(self.global)
    }

    fn stream(&self, at: Option<usize>) -> OrderStream {
        at.and_then(|at| self.all.get(at)).map_or(STREAM, |stream| stream.stream)
    }

    /// The stream of a group.
    pub fn of(&self, group: &[u8]) -> OrderStream {
        self.stream(self.place(group))
    }

    /// Whether it takes messages to groups of several streams.
    fn is_global(&self, stream: OrderStream) -> bool {
        self.global.is_some_and(|at| self.stream(Some(at)) == stream)
    }

    /// The stream of a message to these: that of all its groups, or the global one. Where clients are named alone, the
    /// engine chooses.
    ///
    /// # Errors
    /// Two groups whose streams differ, where none is global.
    pub fn of_all<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Result<OrderStream, Box<Apart>> {
        //= MP60
        let mut found: Option<(&[u8], Option<usize>)> = None;
        for name in names.filter(|name| PrivateName::read(name).is_none()) {
            let place = self.place(name);
            match found {
                Some((first, other)) if other != place => match self.global {
                    Some(_) => return Ok(self.stream(self.global)),
                    None => return Err(Box::new(self.apart([(first, other), (name, place)]))),
                },
                Some(_) => {}
                None => found = Some((name, place)),
            }
        }
        Ok(found.map_or(STREAM, |(_, place)| self.stream(place)))
    }

    fn apart(&self, between: [(&[u8], Option<usize>); 2]) -> Apart {
        let name = |at: Option<usize>| at.and_then(|at| self.all.get(at)).map_or("no ring", |stream| &stream.name);
        Apart { between: between.map(|(group, at)| (String::from_utf8_lossy(group).into_owned(), name(at).to_owned())) }
    }
}

impl<E: Engine> Node<E> {
    /// Says in which of the engine's streams groups stand, before it starts; the same at all nodes.
    pub fn set_streams(&mut self, streams: GroupStreams) {
        self.lines = LineDesk::new(self.engine.filters() && streams.are_many());
        self.streams = streams;
    }

    /// The stream of a join or a leave.
    pub(crate) fn stream_of_step(&self, group: &GroupName) -> OrderStream {
        //= MP59
        //= MP77
        if self.lines.is_on() { STREAM } else { self.streams.of(group.as_bytes()) }
    }

    /// The stream of a client's message; `None` where it was refused.
    #[cold]
    pub(crate) fn stream_or_refuse(&mut self, client: ClientId, payload: &Payload) -> Option<OrderStream> {
        let Ok(Ordered::Multicast { told, numbered, .. }) = ordered::decode(payload) else { return Some(STREAM) };
        //= MP77
        let to_client = |targets: Targets<'_>| targets.names().any(|name| PrivateName::read(name).is_some());
        if self.lines.is_on()
            && (numbered.is_some() || Targets::of(payload, told.targets_at, to_client).unwrap_or(true))
        {
            return Some(STREAM);
        }
        match Targets::of(payload, told.targets_at, |targets| self.streams.of_all(targets.names())) {
            // One that goes where joins go follows them at once.
            Ok(Ok(stream)) if self.lines.is_on() && self.streams.is_global(stream) => Some(STREAM),
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(apart)) => {
                self.clients.refuse(client, &Refusal::new(RefusalCause::AcrossRings, apart.to_string()));
                None
            }
            // What is malformed is refused where it has its place.
            Err(_) => Some(STREAM),
        }
    }
}

/// Whether a name, or the beginning of one and a `*`, fits a group.
pub fn fits(pattern: &str, group: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(front) => group.starts_with(front.as_bytes()),
        None => pattern.as_bytes() == group,
    }
}

/// Whether some group fits both patterns.
pub fn overlap(one: &str, other: &str) -> bool {
    match (one.strip_suffix('*'), other.strip_suffix('*')) {
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
        (Some(_), None) => fits(one, other.as_bytes()),
        (None, _) => fits(other, one.as_bytes()),
    }
}

/// A number of a name that is the same at all nodes and in all versions: FNV-1a of 64 bits, with the high half folded in.
pub(crate) fn spread(name: &[u8]) -> u64 {
    let hash = name
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn stream(number: u16, patterns: &[&str], global: bool) -> StreamGroups {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        StreamGroups { stream: OrderStream(number), name: format!("ring {number}"), patterns, global }
    }

    fn all(streams: &GroupStreams, names: &[&str]) -> Result<u16, String> {
        let names = names.iter().map(|name| name.as_bytes());
        streams.of_all(names).map(|stream| stream.0).map_err(|apart| apart.to_string())
    }

    #[test]
    fn without_streams_all_stands_in_the_only_one() {
        let one = GroupStreams::default();
        assert_eq!((one.are_many(), one.of(b"orders"), all(&one, &["a", "b"])), (false, STREAM, Ok(0)));
    }

    #[test]
    fn a_group_is_where_it_is_named_or_shared_or_on_the_global_one() {
        //= MP61 test
        let named = GroupStreams::new(vec![stream(2, &["eu.*", "stock"], false), stream(1, &[], true)]);
        let of = |name: &str| named.of(name.as_bytes()).0;
        assert_eq!([of("eu.a"), of("stock"), of("stocks"), of("eu")], [2, 2, 1, 1]);
        let shared = GroupStreams::new(vec![stream(4, &[], false), stream(9, &[], false), stream(1, &["a*"], true)]);
        let mut counts = BTreeMap::<u16, u32>::new();
        for at in 0..2_000 {
            *counts.entry(shared.of(format!("group-{at}").as_bytes()).0).or_default() += 1;
        }
        assert_eq!((counts.len(), shared.of(b"a7").0), (2, 1));
        assert!(counts.values().all(|count| (900..1_100).contains(count)), "{counts:?}");
        // Whoever runs an older version must find the same.
        assert_eq!((shared.of(b"orders").0, shared.of(b"lobby").0, spread(b"orders")), (4, 9, 0x125d9250acd6de));
    }

    #[test]
    fn a_message_to_groups_of_two_streams_goes_to_the_global_one_or_is_refused_with_both() {
        let rings = vec![stream(1, &["a*"], false), stream(2, &["b*"], false), stream(3, &[], true)];
        let with = GroupStreams::new(rings.clone());
        assert_eq!((all(&with, &["a1", "a2"]), all(&with, &["a1", "b1"])), (Ok(1), Ok(3)));
        assert_eq!((all(&with, &["#bob#n1"]), all(&with, &["#bob#n1", "b1"])), (Ok(0), Ok(2)), "clients are anywhere");
        let without = GroupStreams::new(rings[..2].to_vec());
        let told =
            "a1 is on ring 1 and b1 on ring 2, and none is global: send to each by itself, or make one global = true";
        assert_eq!((all(&without, &["a1", "b1"]), all(&without, &["b1", "b2"])), (Err(told.into()), Ok(2)));
    }

    #[test]
    fn whether_every_group_has_a_stream_is_known() {
        let of = |streams: &[StreamGroups]| GroupStreams::new(streams.to_vec()).take_all();
        assert!(!of(&[stream(1, &["a*"], false)]));
        assert!(of(&[stream(1, &["*"], false)]) && of(&[stream(1, &[], false)]) && of(&[stream(1, &["a"], true)]));
    }

    #[test]
    fn patterns_overlap_where_a_name_fits_both() {
        for (one, other, both) in [
            ("a*", "ab*", true),
            ("ab*", "a*", true),
            ("a*", "b*", false),
            ("a*", "abc", true),
            ("abc", "a*", true),
            ("abc", "ab", false),
            ("abc", "abc", true),
            ("*", "x", true),
            ("a*", "a", true),
        ] {
            assert_eq!(overlap(one, other), both, "{one} {other}");
        }
    }
}

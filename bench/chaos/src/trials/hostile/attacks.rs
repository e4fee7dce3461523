//! The requests of a hostile client: each one of the session protocol, with the arguments that cost a daemon most.
use bytes::{BufMut, BytesMut};
use consort::GroupName;
use consort_session::reading::{Place, put_read, put_read_on};
use consort_session::{
    DeclareRequest, Hello, ListQuery, OpenRequest, PrivateName, ProducerId, Targets, ViewTrail, copies, frame, keys,
    numbering, request,
};
use consort_types::{Binding, ClientId, Holder, MemberId, Position, Rng, Service};

use crate::trials::stage::text;

/// The group that has many members.
pub const CROWD: &str = "crowd";
/// How many bytes are made at once.
pub const ROOM: usize = 64 << 10;
/// A page has fewer entries, whatever is asked for.
const MOST: u16 = u16::MAX;
/// The groups behind the name that is near the end.
const BEHIND: usize = 600;
/// The groups of one reading.
const READ: usize = 64;
/// The kind of a frame with an agreed multicast.
const AGREED: u8 = 0x14;

/// How the connections of an attack go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each says hello and sends requests until the attack is over.
    Requests,
    /// The same with the requests of all those attacks in any order.
    Mixed,
    /// The same, but the hello says that the client only asks.
    Questions,
    /// The daemon ends the session because of the requests, and the connection is made again.
    Ends,
    /// The last byte of a large request never comes.
    Unfinished,
    /// Each says nothing, is closed at once, and is made again.
    Silent,
}

type Frame = fn(&mut Source<'_>, &mut BytesMut);

/// One attack.
#[derive(Debug)]
pub struct Attack {
    pub name: &'static str,
    pub kind: Kind,
    /// Appends the next request, or the next few that belong together.
    frame: Frame,
}

const fn requests(name: &'static str, frame: Frame) -> Attack {
    Attack { name, kind: Kind::Requests, frame }
}

pub static ATTACKS: &[Attack] = &[
    requests("status", status),
    requests("groups from the first", groups_from_the_first),
    requests("groups near the last", groups_near_the_last),
    requests("clients", clients),
    requests("members of a large group", members),
    requests("joins and leaves", joins_and_leaves),
    requests("joins of new groups", joins_of_new_groups),
    requests("joins of known groups", joins_of_known_groups),
    requests("new producers", new_producers),
    requests("forgotten producers", forgotten_producers),
    requests("readings of no group", readings),
    requests("readings with a trail", readings_with_a_trail),
    requests("multicasts to many groups", multicasts_to_many_groups),
    requests("multicasts to no client", multicasts_to_no_client),
    requests("holders", holders),
    requests("copies", asked_copies),
    requests("bindings", bindings),
    requests("the next key", |_, out| keys::put_rotate(out)),
    requests("pings", |source, out| request::put_ping(out, source.next_number())),
    Attack { name: "hellos", kind: Kind::Ends, frame: |_, out| Hello::default().put(out) },
    Attack { name: "goodbyes", kind: Kind::Ends, frame: |_, out| request::put_goodbye(out) },
    Attack { name: "only questions", kind: Kind::Questions, frame: questions },
    Attack { name: "unfinished requests", kind: Kind::Unfinished, frame: unfinished },
    Attack { name: "silent connections", kind: Kind::Silent, frame: |_, _| {} },
    Attack { name: "all in any order", kind: Kind::Mixed, frame: mixed },
];

/// What one connection makes its requests of.
#[derive(Debug)]
pub struct Source<'a> {
    rng: Rng,
    /// This number is in its new names, so that no other connection has them.
    own: u64,
    number: u64,
    /// The bytes of an unfinished request that are still to be sent, once it has begun.
    left: Option<usize>,
    /// Groups that exist.
    names: &'a [GroupName],
}

/// Names of groups, each as long as a name may be, in their order.
///
/// # Errors
/// A mistake in this file.
pub fn existing(count: usize) -> Result<Vec<GroupName>, String> {
    (0..count).map(|number| GroupName::new(format!("z{number:0>63}")).map_err(text)).collect()
}

impl Attack {
    /// What is sent first.
    pub fn opening(&self) -> BytesMut {
        let mut out = BytesMut::new();
        if self.kind != Kind::Silent {
            Hello { only_asks: self.kind == Kind::Questions, ..Hello::default() }.put(&mut out);
        }
        out
    }

    /// Appends as many requests as there is room for.
    pub fn fill(&self, source: &mut Source<'_>, out: &mut BytesMut) {
        loop {
            let before = out.len();
            (self.frame)(source, out);
            if out.len() > ROOM {
                out.truncate(before);
            }
            if out.len() == before {
                return;
            }
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

    fn new_group(&mut self) -> Option<GroupName> {
        GroupName::new(self.new_name()).ok()
    }

    fn new_holder(&mut self) -> Option<Holder> {
        self.new_name().parse().ok()
    }

    /// A request to open a producer that was never opened.
    fn new_producer(&mut self) -> OpenRequest {
        let id = u128::from(self.own) << 64 | u128::from(self.next_number());
        let (producer, session) = (ProducerId(id.to_be_bytes()), self.rng.next_u64());
        OpenRequest { producer, session, attempt: 1, known: false, opened: 0 }
    }

    /// Any service, so that the daemon cannot take several messages together.
    fn service(&mut self) -> Service {
        Service::ALL[self.next_number() as usize % Service::ALL.len()]
    }
}

fn status(_: &mut Source<'_>, out: &mut BytesMut) {
    request::put_status(out);
}

fn groups_from_the_first(_: &mut Source<'_>, out: &mut BytesMut) {
    ListQuery::Groups { after: None, most: MOST }.put(out);
}

fn groups_near_the_last(source: &mut Source<'_>, out: &mut BytesMut) {
    let after = source.names.get(source.names.len().saturating_sub(BEHIND)).cloned();
    ListQuery::Groups { after, most: MOST }.put(out);
}

fn clients(_: &mut Source<'_>, out: &mut BytesMut) {
    ListQuery::Clients { after: ClientId(0), most: MOST }.put(out);
}

fn members(_: &mut Source<'_>, out: &mut BytesMut) {
    if let Ok(group) = GroupName::new(CROWD) {
        ListQuery::Members { group, after: (MemberId::new(0, 0), ClientId(0)), most: MOST }.put(out);
    }
}

fn joins_and_leaves(source: &mut Source<'_>, out: &mut BytesMut) {
    if let Some(group) = source.new_group() {
        request::put_join(out, &group, source.number.is_multiple_of(2));
        request::put_leave(out, &group);
    }
}

fn joins_of_new_groups(source: &mut Source<'_>, out: &mut BytesMut) {
    source.new_group().into_iter().for_each(|group| request::put_join(out, &group, false));
}

fn joins_of_known_groups(source: &mut Source<'_>, out: &mut BytesMut) {
    let at = source.next_number() as usize % source.names.len().max(1);
    source.names.get(at).into_iter().for_each(|group| request::put_join(out, group, false));
}

fn new_producers(source: &mut Source<'_>, out: &mut BytesMut) {
    numbering::put_open(&source.new_producer(), out);
}

fn forgotten_producers(source: &mut Source<'_>, out: &mut BytesMut) {
    numbering::put_open(&source.new_producer(), out);
    numbering::put_forget(out);
}

/// A reading from the oldest message on, and its end.
fn readings(source: &mut Source<'_>, out: &mut BytesMut) {
    let groups: Vec<_> = (0..READ).filter_map(|_| source.new_group()).collect();
    put_read(out, 0, Place::default(), &groups);
    put_read(out, 0, Place::default(), &[]);
}

/// A reading that goes on behind as many views as it may name, and its end.
fn readings_with_a_trail(source: &mut Source<'_>, out: &mut BytesMut) {
    let groups: Vec<_> = (0..READ).filter_map(|_| source.new_group()).collect();
    let trail = ViewTrail { before: vec![Default::default(); ViewTrail::MOST], ..ViewTrail::default() };
    put_read_on(out, &trail, Place::at(source.number), &groups);
    put_read(out, 0, Place::default(), &[]);
}

fn multicasts_to_many_groups(source: &mut Source<'_>, out: &mut BytesMut) {
    let service = source.service();
    let count = Targets::MAX.min(source.names.len());
    let from = source.rng.below((source.names.len() - count + 1) as u64) as usize;
    if count > 0 {
        request::put_multicast(out, service, &source.names[from..from + count], &[]);
    }
}

fn multicasts_to_no_client(source: &mut Source<'_>, out: &mut BytesMut) {
    if let Some(client) = PrivateName::parse("#none#n1") {
        request::put_multicast(out, source.service(), &[client], &[]);
    }
}

/// A holder is declared, also under an epoch, and withdrawn.
fn holders(source: &mut Source<'_>, out: &mut BytesMut) {
    let Some(holder) = source.new_holder() else { return };
    let declared = DeclareRequest { order: 0, holder, from: Some(Position(1)), epoch: 0 };
    declared.put(out);
    DeclareRequest { epoch: 1, ..declared.clone() }.put(out);
    DeclareRequest { from: None, ..declared }.put(out);
}

fn asked_copies(source: &mut Source<'_>, out: &mut BytesMut) {
    source.new_holder().into_iter().for_each(|holder| copies::put_ask_copies(&holder, out));
}

fn bindings(source: &mut Source<'_>, out: &mut BytesMut) {
    let Some(holder) = source.new_holder() else { return };
    let token = u128::from(source.rng.next_u64()) + 1;
    let label = "x".repeat(Binding::LABEL_MAX);
    copies::put_bind(&Binding { order: 0, holder, token, replaces: 0, from: Position(1), copies: 1, label }, out);
}

/// All that a client may ask that only asks.
fn questions(source: &mut Source<'_>, out: &mut BytesMut) {
    let all: [Frame; 6] = [status, groups_from_the_first, groups_near_the_last, clients, members, asked_copies];
    all[source.rng.below(all.len() as u64) as usize](source, out);
}

/// A multicast as large as it may be, without its last byte.
fn unfinished(source: &mut Source<'_>, out: &mut BytesMut) {
    let left = source.left.unwrap_or_else(|| {
        frame::put_head(out, AGREED, 2 + 1 + CROWD.len() + consort_wire::MESSAGE_MAX);
        out.put_u16(1);
        out.put_u8(CROWD.len() as u8);
        out.put_slice(CROWD.as_bytes());
        consort_wire::MESSAGE_MAX - 1
    });
    let now = left.min(ROOM.saturating_sub(out.len()));
    out.put_bytes(0, now);
    source.left = Some(left - now);
}

fn mixed(source: &mut Source<'_>, out: &mut BytesMut) {
    let mut all = ATTACKS.iter().filter(|attack| attack.kind == Kind::Requests);
    let at = source.rng.below(all.clone().count() as u64) as usize;
    if let Some(attack) = all.nth(at) {
        (attack.frame)(source, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_session::{Ask, DaemonEnd, DisconnectReason, Limits};

    /// The lengths of the frames, by what their first bytes say, up to one that is not whole.
    fn lengths(bytes: &[u8]) -> Vec<usize> {
        let (mut rest, mut lengths) = (bytes, Vec::new());
        while let Some(length) = rest.first_chunk() {
            let len = 4 + u32::from_be_bytes(*length) as usize;
            let Some(behind) = rest.get(len..) else { break };
            lengths.push(len);
            rest = behind;
        }
        lengths
    }

    /// What a daemon's end of the connection reads, until the session ends.
    fn asked(end: &mut DaemonEnd) -> (usize, Option<DisconnectReason>) {
        let (limits, mut count) = (Limits::default(), 0);
        loop {
            match end.next(&limits) {
                Ok(Some(Ask::Join { .. } | Ask::Leave(_) | Ask::Multicast { .. })) => drop(end.accept()),
                Ok(Some(Ask::Goodbye)) => return (count, Some(DisconnectReason::Goodbye)),
                Ok(Some(_)) => {}
                Ok(None) => return (count, None),
                Err(disconnect) => return (count, Some(disconnect.reason)),
            }
            count += 1;
        }
    }

    #[test]
    fn each_attack_fills_its_room_with_whole_requests_that_a_daemon_reads() {
        let names = existing(2_000).unwrap();
        for attack in ATTACKS {
            let mut source = Source::new(Rng::new(1), &names);
            let (mut out, mut end) = (attack.opening(), DaemonEnd::new(ClientId(1)));
            let hello = out.len();
            attack.fill(&mut source, &mut out);
            let name = attack.name;
            assert!(out.len() <= ROOM, "{name}: {}", out.len());
            let is_whole = lengths(&out).iter().sum::<usize>() == out.len();
            end.feed(out.clone().freeze());
            let (count, reason) = asked(&mut end);
            match attack.kind {
                Kind::Silent => assert!(out.is_empty()),
                Kind::Unfinished => assert!(!is_whole && out.len() == ROOM && (count, reason) == (1, None), "{name}"),
                Kind::Ends => assert!(is_whole && out.len() > ROOM - 1_000 && count == 1 && reason.is_some(), "{name}"),
                Kind::Requests | Kind::Mixed | Kind::Questions => {
                    assert!(is_whole && out.len() > hello + 100, "{name}: {}", out.len());
                    assert_eq!((end.input_held(), reason), (0, None), "{name}: all is read");
                }
            }
        }
    }

    #[test]
    fn the_last_byte_of_an_unfinished_request_never_comes() {
        let mut source = Source::new(Rng::new(1), &[]);
        let (mut sent, mut out) = (0, BytesMut::new());
        let wanted = loop {
            out.clear();
            ATTACKS.iter().find(|attack| attack.kind == Kind::Unfinished).unwrap().fill(&mut source, &mut out);
            if sent == 0 {
                assert!(lengths(&out).is_empty());
            }
            if out.is_empty() {
                break 5 + 2 + 1 + CROWD.len() + consort_wire::MESSAGE_MAX;
            }
            sent += out.len();
        };
        assert_eq!(sent, wanted - 1);
    }

    #[test]
    fn names_are_as_long_as_they_may_be_and_no_two_are_the_same() {
        let names = existing(20_000).unwrap();
        assert!(names.is_sorted() && names.iter().all(|name| name.as_bytes().len() == GroupName::MAX));
        let mut rng = Rng::new(1);
        let mut sources = [0, 1].map(|salt| Source::new(rng.fork(salt), &names));
        let mut new: Vec<_> = (0..10).map(|n| sources[n % 2].new_group().unwrap()).collect();
        assert!(new.iter().all(|name| name.as_bytes().len() == GroupName::MAX));
        new.sort_unstable();
        new.dedup();
        assert_eq!(new.len(), 10);
    }
}

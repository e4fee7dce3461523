//! Each request of the session protocol.
use bytes::{BufMut, BytesMut};
use consort::GroupName;
use consort_session::reading::{Place, put_read, put_read_on};
use consort_session::{
    DeclareRequest, Hello, ListQuery, OpenRequest, PrivateName, ProducerId, Targets, ViewTrail, copies, frame, keys,
    numbering, request,
};
use consort_types::{Binding, ClientId, Holder, MemberId, Position, Service};

use super::{Attack, CROWD, Door, Frame, Kind, Source, any_of, nothing};

/// A page has fewer entries, whatever is asked for.
const MOST: u16 = u16::MAX;
/// The groups behind the name that is near the end.
const BEHIND: usize = 600;
/// The groups of one reading.
const READ: usize = 64;
/// The kind of a frame with an agreed multicast.
const AGREED: u8 = 0x14;

const fn attack(name: &'static str, kind: Kind, frame: Frame) -> Attack {
    Attack { name, door: Door::Session, kind, front: hello, frame }
}

const fn requests(name: &'static str, frame: Frame) -> Attack {
    attack(name, Kind::Requests, frame)
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
    attack("hellos", Kind::Ends, hello),
    attack("goodbyes", Kind::Ends, |_, out| request::put_goodbye(out)),
    Attack {
        name: "only questions",
        door: Door::Session,
        kind: Kind::Questions,
        front: |_, out| Hello { only_asks: true, ..Hello::default() }.put(out),
        frame: questions,
    },
    attack("unfinished requests", Kind::Unfinished, unfinished),
    Attack { name: "silent connections", door: Door::Session, kind: Kind::Silent, front: nothing, frame: nothing },
    attack("all in any order", Kind::Mixed, mixed),
];

impl Source<'_> {
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

fn hello(_: &mut Source<'_>, out: &mut BytesMut) {
    Hello::default().put(out);
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

fn mixed(source: &mut Source<'_>, out: &mut BytesMut) {
    any_of(ATTACKS, source, out);
}

/// A multicast as large as it may be, without its last byte.
fn unfinished(source: &mut Source<'_>, out: &mut BytesMut) {
    source.leave_unfinished(out, |out| {
        frame::put_head(out, AGREED, 2 + 1 + CROWD.len() + consort_wire::MESSAGE_MAX);
        out.put_u16(1);
        out.put_u8(CROWD.len() as u8);
        out.put_slice(CROWD.as_bytes());
        consort_wire::MESSAGE_MAX - 1
    });
}

#[cfg(test)]
mod tests {
    use super::super::{ROOM, existing};
    use super::*;
    use consort_session::{Ask, DaemonEnd, DisconnectReason, Limits};
    use consort_types::Rng;

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
            let (mut out, mut end) = (attack.opening(&mut source), DaemonEnd::new(ClientId(1)));
            let hello = out.len();
            attack.fill(&mut source, &mut out);
            let name = attack.name;
            assert!(out.len() <= ROOM, "{name}: {}", out.len());
            let is_whole = lengths(&out).iter().sum::<usize>() == out.len();
            end.feed(out.clone().freeze());
            let (count, reason) = asked(&mut end);
            match attack.kind {
                Kind::Silent | Kind::Deaf => assert!(out.is_empty()),
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
    fn an_unfinished_multicast_lacks_its_last_byte() {
        let mut source = Source::new(Rng::new(1), &[]);
        let (mut sent, mut out) = (0, BytesMut::new());
        while sent == 0 || !out.is_empty() {
            out.clear();
            unfinished(&mut source, &mut out);
            sent += out.len();
        }
        assert_eq!(sent, 5 + 2 + 1 + CROWD.len() + consort_wire::MESSAGE_MAX - 1);
    }
}

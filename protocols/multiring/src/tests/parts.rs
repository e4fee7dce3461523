//! Settings, packets, and input that nobody should send.
use super::cluster::{Cluster, config, rings};
use crate::carrier::{CarriedMessage, Carrier, CarrierContent, Echo, Message, Reads};
use crate::config::Config;
use crate::horizon::Horizon;
use crate::key::{Key, RingNumber};
use crate::layout::{Layout, RingNodes};
use crate::packet::{Content, Packet, Piece, Relayed, RelayedContent};
use bytes::{Bytes, BytesMut};
use consort_member::vs::MembershipPacket;
use consort_order::{Arrival, Engine, Lane, Topic};
use consort_ring::packet::{RingPacket, TokenRequest};
use consort_types::{Class, Duration, Instant, MemberId, NodeId, Service, ViewId};
use consort_wire::{DatagramSize, Packet as _};

const VIEW: ViewId = ViewId { number: 8, representative: MemberId::new(1, 2) };
const RING: RingNumber = RingNumber(2);

fn refusal(adjust: impl Fn(&mut Config)) -> String {
    let mut config = config(&[&[1, 2, 3], &[3, 4]]);
    adjust(&mut config);
    config.validate().unwrap_err().to_string()
}

#[test]
fn settings_that_cannot_work_are_refused_and_say_why() {
    //= TM01 test
    let with = |layout: &'static [&'static [u16]]| refusal(move |config| config.rings = rings(layout));
    assert_eq!(refusal(|config| config.rings.clear()), "ring: there is none; describe at least one");
    let zero = refusal(|config| config.rings[0].id = RingNumber(0));
    assert_eq!(zero, "ring.id: 0 is no ring; use 1 to 255");
    let twice = refusal(|config| config.rings[1].id = RingNumber(1));
    assert_eq!(twice, "ring.id: ring 1 is described twice; number each ring once");
    assert_eq!(with(&[&[1, 2, 3, 4], &[]]), "ring.nodes: ring 2 has none; list the nodes that stand in it");
    assert_eq!(with(&[&[1, 2, 3, 4, 4]]), "ring.nodes: n4 is listed twice in ring 1; list it once");
    assert_eq!(with(&[&[1, 2, 3]]), "ring.nodes: n4 stands in no ring; add it to one");
    assert_eq!(with(&[&[1, 2, 3, 4, 9]]), "node: a ring has a node that is not described; describe each node");
    let apart = "ring.nodes: no gateway leads from ring 1 to ring 2; let a node stand in rings of both sides";
    assert_eq!(with(&[&[1, 2], &[3, 4]]), apart);
    let many = refusal(|config| {
        let ring = |id| RingNodes { id: RingNumber(id), nodes: config.ring.members.clone(), delay: Duration::ZERO };
        config.rings = (1..=128).map(ring).collect();
    });
    assert_eq!(many, "ring: there are 128; describe at most 127");
    assert_eq!(refusal(|config| config.credit = 0), "multiring.credit: 0; let at least one message be under way");
    assert!(refusal(|config| config.tell = Duration::ZERO).starts_with("multiring.tell: 0; "));
    assert!(refusal(|config| config.membership.heartbeat = Duration::ZERO).starts_with("heartbeat: 0; "));
    assert!(refusal(|config| config.timers_percent = 0).starts_with("heartbeat: 0; "));
    let small = refusal(|config| config.ring.datagram = DatagramSize::new(576).unwrap());
    assert_eq!(small, "datagram: 576 bytes leave no room for a ring's number; use 578 or more");
    assert!(config(&[&[4, 3], &[3, 2], &[2, 1]]).validate().is_ok());
    assert!(config(&[&[1, 2, 3], &[3, 4, 1]]).validate().is_ok(), "there may be several ways");
}

#[test]
fn nodes_with_other_rings_do_not_talk() {
    let shared = |layout| config(layout).shared_settings();
    assert_ne!(shared(&[&[1, 2, 3], &[3, 4]]), shared(&[&[1, 2], &[2, 3, 4]]));
    assert_eq!(shared(&[&[1, 2, 3], &[3, 4]]), shared(&[&[3, 2, 1], &[4, 3]]));
}

#[test]
fn what_lies_beyond_a_ring_is_reached_by_it_without_this_node() {
    let layout = Layout::new(NodeId(3), &rings(&[&[1, 2, 3], &[3, 4, 5], &[5, 6]]));
    let beyond = |layout: &Layout, ring| (1..=7).filter(|n| layout.is_beyond(RingNumber(ring), NodeId(*n))).collect();
    let sides = |layout: &Layout| [1, 2].map(|ring| -> Vec<u16> { beyond(layout, ring) });
    assert_eq!(sides(&layout), [vec![1, 2], vec![4, 5, 6]], "and a node lies on no side of itself");
    let looped = Layout::new(NodeId(3), &rings(&[&[1, 2, 3], &[3, 4, 5], &[5, 1], &[7, 3]]));
    assert_eq!(sides(&looped), [vec![1, 2, 4, 5], vec![1, 2, 4, 5]]);
}

fn message(payload: &'static [u8]) -> Message {
    let payload = Bytes::from_static(payload).into();
    Message { class: Class::Control, service: Service::Safe, makes_primary: false, passed: false, payload }
}

fn horizons() -> Vec<(RingNumber, Horizon)> {
    vec![(RingNumber(1), Horizon { reached: 7, held: 5 }), (RING, Horizon::default())]
}

fn carriers() -> Vec<Carrier> {
    let carried = |stamp, message| CarriedMessage { member: 3, number: 9, done: 8, ring: RING, stamp, message };
    let data = |stamp, message| CarrierContent::Data(carried(stamp, message));
    let contents = [
        data(0, message(b"\x02\x00\x07\x01\x00text")),
        data(77, message(b"\0")),
        CarrierContent::Passed(vec![carried(5, message(b"\x01\x00\x07text").without_bytes())]),
        CarrierContent::Reads(Reads { member: 1, version: 4, topics: Some(vec![Topic(3), Topic(0x300)]) }),
        CarrierContent::Reads(Reads { member: 2, version: 5, topics: None }),
        CarrierContent::Echo(Echo { gateway: 2, member: 1, version: 4 }),
        CarrierContent::Horizons(horizons()),
        CarrierContent::Begin(VIEW),
        CarrierContent::End(VIEW),
    ];
    contents.map(|content| Carrier { view: VIEW, content }).into()
}

fn packets() -> Vec<Packet> {
    let said = |to, content| Content::Relayed(Relayed { from: MemberId::new(4, 7), number: 9, to, content });
    let key = Key { stamp: 12, ring: RING };
    let piece = Piece {
        member: 1,
        number: 3,
        key,
        level: message(b"").level(),
        len: 10,
        offset: 4,
        last: true,
        bytes: Bytes::from_static(b"piece"),
    };
    let pieces = vec![Piece { number: 2, len: 0, offset: 0, last: false, bytes: Bytes::new(), ..piece.clone() }, piece];
    let contents = [
        Content::Ring(RingPacket::TokenRequest(TokenRequest { ring: VIEW })),
        said(None, RelayedContent::Member(MembershipPacket::Install { view: VIEW })),
        said(None, RelayedContent::HandedOut { view: VIEW, numbers: vec![1, 0, 9] }),
        said(Some(NodeId(2)), RelayedContent::Known { view: VIEW, asks: true, horizons: horizons() }),
        said(Some(NodeId(2)), RelayedContent::Wants { view: VIEW, member: 1, number: 3, offset: 4, strict: true }),
        said(None, RelayedContent::Parted { view: VIEW, ring: RING, members: vec![0, 2] }),
        said(Some(NodeId(2)), RelayedContent::Pieces { view: VIEW, pieces }),
    ];
    contents.map(|content| Packet { ring: RING, content }).into()
}

fn bytes(packet: &Packet) -> Bytes {
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    head.extend_from_slice(&body);
    head.freeze()
}

#[test]
fn packets_and_carriers_read_back() {
    for packet in packets() {
        assert_eq!(Packet::decode(bytes(&packet)).as_ref(), Ok(&packet));
    }
    for carrier in carriers() {
        assert_eq!(Carrier::decode(carrier.encode()).as_ref(), Ok(&carrier));
    }
}

#[test]
fn no_mutation_panics_and_what_is_accepted_encodes_to_itself() {
    for packet in packets() {
        consort_wire::mutate::each(&bytes(&packet), 3_000, |mutated| {
            let mutated = Bytes::copy_from_slice(mutated);
            if let Ok(read) = Packet::decode(mutated.clone()) {
                assert_eq!(bytes(&read), mutated);
            }
        });
    }
    for carrier in carriers() {
        consort_wire::mutate::each(&carrier.encode().to_bytes(), 3_000, |mutated| {
            let mutated = Bytes::copy_from_slice(mutated);
            if let Ok(read) = Carrier::decode(mutated.clone().into()) {
                assert_eq!(read.encode().to_bytes(), mutated);
            }
        });
    }
}

#[test]
fn packets_that_nobody_should_send_do_no_harm() {
    //= TM05 test
    let mut cluster = Cluster::new(5, config(&[&[1, 2, 3], &[3, 4, 5]]));
    cluster.run(4_000);
    let view = cluster.hosts[&1].view.clone().unwrap().id;
    for packet in packets() {
        let mut text = bytes(&packet).to_vec();
        let old: Vec<u8> = [&VIEW.number.to_be_bytes()[..], &1u16.to_be_bytes(), &2u64.to_be_bytes()].concat();
        let new =
            [&view.number.to_be_bytes()[..], &view.representative.node.0.to_be_bytes(), &1u64.to_be_bytes()].concat();
        if let Some(at) = text.windows(old.len()).position(|window| window == old) {
            text[at..at + new.len()].copy_from_slice(&new);
        }
        consort_wire::mutate::each(&text, 200, |mutated| {
            let Ok(packet) = Packet::decode(Bytes::copy_from_slice(mutated)) else { return };
            for (to, from) in [(3, 4), (4, 5), (1, 3), (1, 9)] {
                let arrival = Arrival { at: Instant(cluster.now), from: MemberId::new(from, 1), lane: Lane::Control };
                cluster.with(to, |engine| engine.handle_packet(arrival.at, arrival, packet.clone()));
            }
        });
    }
    cluster.run(6_000);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    cluster.submit(1, Service::Safe, 10);
    cluster.run(500);
    assert_eq!(cluster.texts(5).len(), 1);
    assert!(cluster.total("unrelated_packets") > 0);
}

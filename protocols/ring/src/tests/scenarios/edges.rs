//! The ends of numbers, the gate after a view, and packets of other clusters, settings and keys.
use super::*;
use consort_types::{ClusterId, ConfigHash};
use consort_wire::{Identity, Packet as _, Rejected, envelope};

#[test]
fn f35_a_ring_is_formed_anew_before_its_places_run_out() {
    //= R37 test
    let mut net = Net::formed(3, |config| {
        config.renew_after = 40;
        config.windows =
            crate::Windows { global: 20, personal: 8, accelerated: 5, store: 80, ..crate::Windows::SPREAD };
    });
    let begun = net.now;
    for i in 0..3 {
        net.submit_packets(i, Service::Safe, 150);
    }
    net.run_until(ms(2_000), |net| net.delivered.iter().all(|delivered| delivered.len() == 450));
    assert!(net.regular_views(0) >= 6, "{}", net.regular_views(0));
    assert!(net.now.since(begun) < ms(900), "no timer is waited for");
    assert_eq!(net.total("token_losses"), 0);
    net.end();
    assert!((0..3).all(|i| net.texts(i) == net.texts(0)));
}

#[test]
fn f35_numbers_at_their_ends_are_read_or_refused_but_never_wrapped() {
    //= R37 test
    use crate::packet::{Beacon, NUMBER_MAX, SEQ_END, Token};
    let ring = |number| crate::RingId { number, representative: member(1) };
    let reads = |packet: RingPacket| {
        let mut head = bytes::BytesMut::new();
        let body = packet.encode(&mut head);
        head.extend_from_slice(&body);
        RingPacket::decode(head.freeze()) == Ok(packet)
    };
    for seq in [1 << 30, (1 << 30) + 1, 1 << 32, SEQ_END - 1] {
        assert!(reads(RingPacket::Data(data(seq))));
        assert!(reads(RingPacket::Token(Token {
            ring: ring(1),
            token_seq: u64::MAX,
            seq: Seq(seq),
            ..Token::default()
        })));
    }
    for seq in [0, SEQ_END, u64::MAX] {
        assert!(!reads(RingPacket::Data(data(seq))), "{seq}");
    }
    assert!(!reads(RingPacket::Token(Token { seq: Seq(SEQ_END), ..Token::default() })));
    let beacon = |number| {
        let (members, heard, annotation) = (vec![member(1)], BTreeSet::new(), Bytes::new());
        RingPacket::Beacon(Beacon {
            view: ring(number),
            members,
            heard,
            wants: None,
            settled: true,
            clocks: Box::default(),
            annotation,
            padding: 0,
        })
    };
    assert!(reads(beacon(NUMBER_MAX)));
    assert!(!reads(beacon(NUMBER_MAX + 1)), "believed, it would use up all numbers");
}

#[test]
fn f37_a_reliable_message_is_as_late_as_any_other_while_the_layer_above_settles() {
    //= R34 test
    //= R19 test
    let mut net = Net::formed(3, |_| {});
    net.resumes = false;
    net.lose_the_token();
    net.run_until_whole(ms(400));
    net.try_submit(0, Class::Client, Service::Reliable, Bytes::from_static(b"reliable")).unwrap();
    net.run(ms(20));
    net.try_submit(1, Class::Control, Service::Agreed, Bytes::from_static(b"state of the groups")).unwrap();
    net.run(ms(20));
    assert!((0..3).all(|i| net.texts(i) == ["state of the groups"]), "{:?}", net.texts(0));
    for i in 0..3 {
        let (now, view) = (net.now, net.view(i).id);
        net.rings[i].resume(now, view);
        net.drain(i);
    }
    net.resumes = true;
    net.end();
    assert!((0..3).all(|i| net.texts(i) == ["state of the groups", "reliable"]));
}

/// A datagram with this node's packet in it.
fn sealed(identity: &Identity) -> Vec<u8> {
    let mut head = bytes::BytesMut::new();
    envelope::reserve(&mut head);
    let body = RingPacket::Data(data(1)).encode(&mut head);
    envelope::seal(identity, Lane::Data, &mut head, &body);
    head.extend_from_slice(&body);
    head.to_vec()
}

const HERE: Identity = Identity { cluster: ClusterId(1), config: ConfigHash(2), me: member_here(1) };

const fn member_here(node: u16) -> MemberId {
    MemberId::new(node, 1)
}

#[test]
fn f50_nodes_with_other_settings_are_never_heard() {
    //= R24 test
    // Every setting that the members must share is in the text that the configuration hash is made of.
    let base = || RingConfig::new(NodeId(1), vec![NodeId(1), NodeId(2)]);
    let adjusted: [&dyn Fn(&mut RingConfig); 6] = [
        &|config| config.members.push(NodeId(3)),
        &|config| config.windows.store += 1,
        &|config| config.acceleration = crate::Acceleration::Original,
        &|config| config.message_max -= 1,
        &|config| config.renew_after -= 1,
        &|config| config.primary = consort_member::Policy::Majority,
    ];
    for adjust in adjusted {
        let mut config = base();
        adjust(&mut config);
        assert_ne!(config.shared_settings(), base().shared_settings());
    }
    let other = Identity { config: ConfigHash(3), me: member_here(2), ..HERE };
    let opened = envelope::open(&HERE, sealed(&other).into());
    assert_eq!(opened.unwrap_err(), Rejected::Configuration(ConfigHash(3)));
}

#[test]
fn f54_packets_under_a_key_we_do_not_have_are_ignored_and_are_no_foreign_ring() {
    //= R35 test
    let peer = Identity { me: member_here(2), ..HERE };
    let mut datagram = sealed(&peer);
    assert!(envelope::open(&HERE, datagram.clone().into()).is_ok());
    datagram[22..24].copy_from_slice(&7_u16.to_be_bytes());
    let rejected = envelope::open(&HERE, datagram.into()).unwrap_err();
    assert_eq!((rejected, rejected.name()), (Rejected::KeyEpoch(7), "key_epoch"));
    // So no engine ever sees it: a ring that hears nothing else stays as it is, and tells of no other ring.
    let mut net = Net::formed(2, |_| {});
    let foreign = net.total("foreign_ring");
    net.run(ms(1_000));
    assert_eq!((net.total("foreign_ring"), net.total("views")), (foreign, 2));
}

#[test]
fn f32_a_token_of_the_right_ring_from_another_or_of_another_ring_from_the_right_one_is_dropped() {
    //= R5 test
    let mut net = Net::formed(3, |_| {});
    let (ring, visits) = (net.view(0).id, net.counter(0, "visits"));
    // Meanwhile no real token comes: what is dropped must not put the watch for token loss off.
    let begun = net.now;
    let mut k = 0;
    while net.state(0) == "operational" {
        k += 1;
        let token = |number| crate::packet::Token {
            ring: crate::RingId { number, ..ring },
            token_seq: 1_000 + k,
            ..Default::default()
        };
        net.hand(1, 0, RingPacket::Token(token(ring.number)));
        net.hand(2, 0, RingPacket::Token(token(ring.number + 4)));
        net.hand(2, 0, RingPacket::Token(token(ring.number - 4)));
        net.run_dropping(ms(5), &mut Flying::is_token);
    }
    assert!(net.now.since(begun) <= net.rings[0].config().timers.patience() + ms(10));
    assert_eq!((net.counter(0, "wrong_sender"), net.counter(0, "foreign_ring")), (k, 2 * k));
    assert!(net.counter(0, "visits") <= visits + 2, "that of the ring, and the first of the next");
    net.end();
}

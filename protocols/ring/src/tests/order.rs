use super::*;
use crate::packet::Token;
use crate::requests::Requests;
use consort_order::Pressure;

#[test]
fn all_members_deliver_one_order() {
    //= R10 test
    //= R11 test
    //= R19 test
    let mut net = Net::formed(3, |_| {});
    for k in 0..100 {
        for i in 0..3 {
            net.submit(i, Service::Agreed, format!("{i}:{k}"));
        }
        net.run(Duration::from_micros(100));
    }
    net.run(Duration::from_millis(50));
    net.agree_on(300);
    assert!((0..3).all(|i| net.counter(i, "needless_retransmissions") == 0));
}

#[test]
fn own_messages_carry_the_id_that_submit_returned() {
    //= R19 test
    let mut net = Net::formed(2, |_| {});
    (0..5).for_each(|k| net.submit(0, Service::Agreed, format!("{k}")));
    net.run(Duration::from_millis(50));
    let ids: Vec<_> = net.delivered[0].iter().map(|d| d.id.unwrap().0).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    assert!(net.delivered[1].iter().all(|d| d.id.is_none()));
}

#[test]
fn stamps_rise_in_the_order_and_above_what_nodes_were_told() {
    //= R49 test
    let mut net = Net::formed(3, |config| config.stamped = true);
    for k in 0..90 {
        if k == 30 {
            net.rings[1].raise_clock(1 << 20);
        }
        net.submit(k % 3, Service::Agreed, format!("{k}"));
        if k % 4 == 0 {
            net.run(Duration::from_micros(300));
        }
    }
    net.run_dropping(Duration::from_millis(50), &mut |flying| flying.lane == Lane::Data && flying.to == NodeId(3));
    net.run(Duration::from_millis(100));
    net.agree_on(90);
    let stamps: Vec<_> = net.delivered[2].iter().map(|d| d.position.0).collect();
    assert!(stamps.is_sorted_by(|a, b| a < b) && stamps[0] == 1, "{stamps:?}");
    let place = |text: &str| net.texts(2).iter().position(|said| said == text).unwrap();
    assert!(stamps[place("31")] > 1 << 20, "what was told counts from then on");
    assert!(stamps[89] < (1 << 20) + 100, "and stamps go up one by one");
}

#[test]
fn packets_that_are_recovered_keep_their_stamps() {
    //= R49 test
    let mut net = Net::formed(3, |config| (config.stamped, config.renew_after) = (true, 3));
    (0..6).for_each(|k| net.submit(k % 3, Service::Agreed, format!("{k}")));
    let mut deaf = |flying: &Flying| flying.lane == Lane::Data && flying.to == NodeId(3);
    let gathers = |net: &Net| net.rings.iter().any(|ring| ring.state() == "gather");
    net.run_dropping_until(Duration::from_secs(1), &mut deaf, &mut |net: &Net| gathers(net));
    net.run(Duration::from_secs(2));
    net.agree_on(6);
    let stamps = |i: usize| net.delivered[i].iter().map(|d| d.position).collect::<Vec<_>>();
    assert_eq!(stamps(2), stamps(0));
    assert!(stamps(2).is_sorted_by(|a, b| a < b) && net.total("gathers") > 3, "a ring was formed anew");
}

#[test]
fn a_safe_message_waits_for_two_visits_and_holds_back_what_follows() {
    //= R20 test
    //= R21 test
    let mut net = Net::formed(3, |config| config.idling = crate::IdleHold::CIRCULATE);
    net.submit(1, Service::Safe, "safe");
    net.submit(1, Service::Agreed, "after");
    let (mut holds_when_delivered, mut visits_when_numbered) = (Vec::new(), None);
    for _ in 0..2_000 {
        let before: Vec<_> = net.delivered.iter().map(Vec::len).collect();
        net.step(&mut |_| false);
        if net.counter(1, "packets_sent") > 0 {
            visits_when_numbered.get_or_insert_with(|| net.counter(1, "visits"));
        }
        for (i, (delivered, before)) in net.delivered.iter().zip(before).enumerate() {
            if delivered.len() > before {
                let position = delivered[0].position;
                holds_when_delivered.push(net.rings.iter().all(|ring| ring.holds(position)));
                let visits = net.counter(1, "visits") - visits_when_numbered.unwrap();
                assert!(i != 1 || visits >= 2, "its sender delivers it after {visits} visits");
            }
        }
    }
    net.agree_on(2);
    assert_eq!(net.texts(2), ["safe", "after"]);
    assert!(holds_when_delivered.iter().all(|all| *all));
}

#[test]
fn what_is_stable_is_let_go() {
    //= R22 test
    let mut net = Net::formed(3, |_| {});
    (0..50).for_each(|k| net.submit(k % 3, Service::Agreed, vec![0; 2_000]));
    net.run(Duration::from_millis(100));
    net.agree_on(50);
    for i in 0..3 {
        for gauge in ["store_packets", "store_bytes", "queued_bytes", "assembly_bytes"] {
            assert_eq!(net.counter(i, gauge), 0, "{gauge} at {i}");
        }
    }
}

#[test]
fn messages_of_every_size_arrive_whole() {
    //= R10 test
    let sizes = [0, 1, 1_300, 1_374, 1_375, 1_376, 1_400, 5_000, 100_000, 3_000_000];
    let mut net = Net::formed(2, |_| {});
    for (k, size) in sizes.into_iter().enumerate() {
        net.submit(k % 2, if k % 3 == 0 { Service::Safe } else { Service::Agreed }, vec![k as u8; size]);
    }
    net.run(Duration::from_secs(1));
    net.agree_on(sizes.len());
    let mut got: Vec<_> = net.delivered[0].iter().map(|d| d.payload.len()).collect();
    got.sort_unstable();
    assert_eq!(got, sizes);
}

#[test]
fn tokens_of_the_wrong_ring_sender_or_age_are_dropped() {
    //= R5 test
    let mut net = Net::formed(3, |_| {});
    let ring = net.views[0][0].id;
    let token = |ring, token_seq| Token { ring, token_seq, requests: Requests::default(), ..Token::default() };
    let to_first = |from, token| Flying { from, to: NodeId(1), lane: Lane::Token, packet: RingPacket::Token(token) };
    let other = crate::RingId { number: 99, ..ring };
    let visits = net.counter(0, "visits");
    net.hand_over(to_first(member(3), token(other, 1_000)));
    net.hand_over(to_first(member(2), token(ring, 1_000)));
    net.hand_over(to_first(member(3), token(ring, 1)));
    assert_eq!(net.counter(0, "foreign_ring"), 1);
    assert_eq!(net.counter(0, "wrong_sender"), 1);
    assert_eq!(net.counter(0, "duplicate_tokens"), 1);
    assert_eq!(net.counter(0, "visits"), visits);
}

#[test]
fn data_beyond_the_windows_is_not_kept() {
    //= R24 test
    let mut net = Net::formed(2, |_| {});
    let ring = net.views[0][0].id;
    let reach = crate::flow::reach(&net.rings[0].config().windows);
    for (seq, kept) in [(reach, 1), (reach + 1, 1)] {
        let packet = RingPacket::Data(DataPacket { ring, originator: NodeId(2), ..data(seq) });
        net.hand_over(Flying { from: member(2), to: NodeId(1), lane: Lane::Data, packet });
        assert_eq!(net.counter(0, "store_packets"), kept);
    }
    assert_eq!(net.counter(0, "beyond_window"), 1);
}

#[test]
fn the_count_of_a_rotation_never_exceeds_the_windows() {
    //= R8 test
    //= R15 test
    let mut net = Net::formed(4, |config| {
        config.windows =
            crate::Windows { global: 20, personal: 8, accelerated: 5, store: 80, ..crate::Windows::SPREAD };
    });
    (0..400).for_each(|k| net.submit(k % 4, Service::Agreed, vec![0; 1_300]));
    net.run(Duration::from_millis(200));
    net.agree_on(400);
    let tokens = tokens(&net.sent);
    assert!(tokens.iter().all(|token| token.fcc.packets <= 28), "global and personal window");
    assert!(tokens.iter().any(|token| token.fcc.packets >= 20), "the window is used");
    assert_eq!(tokens.last().unwrap().fcc.packets, 0, "and given back");
}

#[test]
fn the_least_room_of_all_becomes_the_window_of_the_next_rotation() {
    //= R9 test
    let mut net = Net::formed(3, |config| config.receive_room = if config.me == NodeId(3) { 60_000 } else { 1 << 20 });
    (0..300).for_each(|_| net.submit(0, Service::Agreed, vec![0; 1_300]));
    net.run(Duration::from_millis(100));
    net.agree_on(300);
    let tokens = tokens(&net.sent);
    assert!(tokens.iter().skip(6).all(|token| token.window == 30_000), "{:?}", tokens.last());
    assert!(tokens.iter().skip(6).all(|token| token.fcc.bytes <= 30_000 + 256 * 1024));
}

#[test]
fn a_ring_waits_for_the_member_whose_clients_are_behind_but_never_stands_still() {
    //= R9 test
    let mut net = Net::formed(3, |_| {});
    net.rings[2].handle_pressure(Pressure::Room(0));
    net.run(Duration::from_millis(100));
    net.sent.clear();
    (0..300).for_each(|_| net.submit(0, Service::Agreed, vec![0; 1_300]));
    net.run(Duration::from_millis(5));
    let slow = tokens(&net.sent);
    assert!(slow.iter().skip(6).all(|token| token.window == 0 && token.fcc.packets <= 1), "{:?}", slow.last());
    assert!(net.delivered[1].len() > 10, "{} messages", net.delivered[1].len());
    net.rings[2].handle_pressure(Pressure::Room(usize::MAX));
    net.run(Duration::from_millis(50));
    net.agree_on(300);
}

#[test]
fn a_token_beyond_the_windows_is_not_accepted() {
    //= R24 test
    let mut net = Net::formed(2, |_| {});
    let ring = net.views[0].last().unwrap().id;
    let token = Token { ring, token_seq: 1 << 40, seq: Seq(1 << 47), aru: Seq(0), ..Token::default() };
    let visits = net.counter(0, "visits");
    net.hand_over(Flying { from: member(2), to: NodeId(1), lane: Lane::Token, packet: RingPacket::Token(token) });
    assert_eq!((net.counter(0, "beyond_window"), net.counter(0, "visits")), (1, visits));
}

//! Nodes that are not run for a while, packets that come late, and tokens that rest.
use super::*;
use consort_types::{ViewCause, ViewKind};

/// The third of three is stopped for a while.
fn stop_third(net: &mut Net, span: Duration) {
    net.stop(2);
    net.run(span);
}

#[test]
fn f14_a_node_that_was_stopped_for_long_drops_what_is_stale_and_merges_once() {
    //= M54 test
    let mut net = Net::formed(3, |_| {});
    net.chatter("before", 3);
    net.run(ms(5));
    stop_third(&mut net, ms(2_000));
    assert_eq!(net.last_members(0), [1, 2]);
    net.chatter("meanwhile", 3);
    net.run(ms(20));
    let (views, stale) = (net.regular_views(0), net.counter(2, "stale_membership"));
    net.go_on(2);
    assert!(net.counter(2, "pauses") >= 1);
    assert!(net.counter(2, "stale_membership") > stale, "JOINs that lay in its queue say nothing");
    net.run_until_whole(ms(2_500));
    assert_eq!(net.regular_views(0), views + 1, "{:?}", net.views[0]);
    let closing = net.views[2].iter().find(|view| view.kind == ViewKind::Transitional).unwrap();
    assert_eq!(closing.members, [member(3)], "it learns from its own view who did not come along");
    net.end();
}

/// Stops a node for long, asks it for something, and lets it go on; the layer above takes its time with the new view.
fn ask_while_stopped(net: &mut Net, stopped: usize) {
    net.stop(stopped);
    net.run(ms(1_500));
    net.resumes = false;
    (0..5).for_each(|k| net.submit(stopped, Service::Safe, format!("asked while stopped {k}")));
    net.go_on(stopped);
    net.run_until_whole(ms(2_500));
    net.run(ms(200));
    assert!((0..3).all(|i| net.texts(i).iter().all(|text| !text.starts_with("asked"))), "nothing goes before the gate");
    let ids: Vec<_> = (0..3).map(|i| net.view(i).id).collect();
    net.resumes = true;
    for (i, id) in ids.into_iter().enumerate() {
        let now = net.now;
        net.rings[i].resume(now, id);
        net.drain(i);
    }
    net.end();
    for i in 0..3 {
        let asked = net.texts(i).iter().filter(|text| text.starts_with("asked")).count();
        assert_eq!(asked, 5, "also n{}, in the view of all three", i + 1);
    }
}

#[test]
fn f15_what_clients_asked_of_a_stopped_node_is_sent_in_the_new_view_after_its_gate() {
    //= M54 test
    //= R34 test
    let mut net = Net::formed(3, |_| {});
    // Stopped while the token is on its way to it: it finds a valid token in its queue.
    net.submit(1, Service::Agreed, "keeps the token moving");
    while net.flying.iter().all(|flying| !(flying.is_token() && flying.to == NodeId(3))) {
        net.step(&mut |_| false);
    }
    ask_while_stopped(&mut net, 2);
}

#[test]
fn f15_the_same_where_the_token_rested_at_the_stopped_node() {
    //= M54 test
    let mut net = Net::formed(3, |_| {});
    let holds = net.counter(0, "holds");
    net.run_until(ms(50), |net| net.counter(0, "holds") > holds);
    ask_while_stopped(&mut net, 0);
}

#[test]
fn f16_a_short_stop_changes_no_view() {
    //= M54 test
    for (stopped, load) in (0..3).flat_map(|i| [(i, 0), (i, 20)]) {
        let mut net = Net::formed(3, |_| {});
        for round in 0..5 {
            net.chatter(&format!("round {round}"), load);
            net.run(Duration::from_micros(137 * (round + 1)));
            net.stop(stopped);
            net.run(ms(100));
            net.go_on(stopped);
            net.run(ms(10));
        }
        assert!((0..3).all(|i| net.regular_views(i) == 1), "n{} {load}: {:?}", stopped + 1, net.views[0]);
        net.end();
    }
}

#[test]
fn f17_a_join_that_comes_with_the_token_is_looked_at_when_the_visit_is_over() {
    //= R16 test
    //= M05 test
    let mut net = Net::formed(3, |config| {
        config.windows = crate::Windows::SPREAD;
        config.idling = crate::IdleHold::CIRCULATE;
    });
    net.submit(1, Service::Agreed, "keeps the token moving");
    while net.flying.front().is_none_or(|flying| !(flying.is_token() && flying.to == NodeId(1))) {
        net.step(&mut |_| false);
    }
    let token = net.flying.pop_front().unwrap();
    net.submit_packets(0, Service::Agreed, 20);
    let join = net.join_of(1);
    // Both are handed in before a single output is taken out.
    let now = net.now;
    let arrival = |from, lane| Arrival { at: now, from, lane };
    net.rings[0].handle_packet(now, arrival(token.from, Lane::Token), token.packet);
    net.rings[0].handle_packet(now, arrival(member(2), Lane::Control), RingPacket::Join(join));
    net.sent.clear();
    net.drain(0);
    let kinds: String = net
        .sent
        .iter()
        .map(|f| {
            if f.is_data() {
                'd'
            } else if f.is_token() {
                't'
            } else {
                'j'
            }
        })
        .collect();
    assert_eq!(kinds, "dddddtdddddddddddddddj", "five, the token, fifteen; then it gathers");
    assert_eq!(net.state(0), "gather");
    net.end();
    net.agree_on(21);
}

#[test]
fn f19_requests_that_nobody_can_fill_neither_storm_nor_last() {
    //= M53 test
    //= R36 test
    let mut net = Net::formed(3, |_| {});
    net.run(ms(50));
    net.submit(0, Service::Agreed, "not heard by the third");
    let begun = net.now;
    let mut deaf = |flying: &Flying| flying.is_data() && flying.to == NodeId(3);
    net.run_dropping_until(ms(400), &mut deaf, &mut |net| net.state(0) == "gather");
    let took = net.now.since(begun);
    assert!(took < ms(250), "noticed after {took:?}");
    assert!(net.total("retransmissions_sent") < 200, "{} retransmissions", net.total("retransmissions_sent"));
    net.run_dropping(ms(500), &mut deaf);
    assert_eq!(net.last_members(0), [1, 2]);
    let deaf = ViewCause::Deaf { nodes: vec![NodeId(3)] };
    assert!((0..2).any(|i| net.view(i).evidence.contains(&deaf)), "who noticed says so: {}", net.view(1).why());
    net.end();
}

#[test]
fn f20_data_that_comes_a_second_after_its_token_excludes_nobody() {
    //= M53 test
    //= R26 test
    let mut net = Net::formed(3, |config| {
        config.timers.token_loss = ms(1_000);
        config.timers.consensus = ms(1_250);
    });
    net.chatter("slow", 10);
    let mut late = VecDeque::new();
    let end = net.now + ms(4_000);
    while net.now < end {
        while net.flying.front().is_some_and(Flying::is_data)
            && let Some(flying) = net.flying.pop_front()
        {
            late.push_back((net.now + ms(1_000), flying));
        }
        while late.front().is_some_and(|(at, _)| *at <= net.now)
            && let Some((_, flying)) = late.pop_front()
        {
            net.hand_over(flying);
        }
        net.step(&mut |_| false);
    }
    assert!((0..3).all(|i| net.regular_views(i) == 1), "{:?}", net.views[0]);
    net.end();
    net.agree_on(30);
}

#[test]
fn f36_a_message_that_comes_while_the_token_is_being_parked_waits_five_milliseconds_at_most() {
    //= R30 test
    for (i, offset) in (0..3).flat_map(|i| (0..40).map(move |k| (i, k))) {
        let mut net = Net::formed(3, |_| {});
        net.run(Duration::from_micros(18_000 + 11 * offset));
        // The first wake-up may even be lost.
        let mut lost = 0;
        let mut drop = |flying: &Flying| {
            let hit = matches!(flying.packet, RingPacket::TokenRequest(_)) && lost == 0;
            lost += u32::from(hit);
            hit
        };
        let begun = net.now;
        net.submit(i, Service::Agreed, "hurry");
        net.run_dropping_until(ms(20), &mut drop, &mut |net| net.delivered.iter().all(|d| d.len() == 1));
        let took = net.now.since(begun);
        assert!(took <= ms(5) + Duration::from_micros(500), "n{} at {offset}: {took:?}", i + 1);
    }
}

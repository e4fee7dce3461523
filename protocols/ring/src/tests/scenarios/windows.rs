//! Windows that follow what the ring can take.
use super::*;
use crate::{WindowTuning, Windows};
use consort_order::Pressure;

const TUNING: WindowTuning = WindowTuning { least: 4, most: 60, brisk: Duration::from_millis(50) };

fn tuned(config: &mut RingConfig) {
    config.windows = Windows {
        personal: 20,
        global: 60,
        accelerated: 0,
        store: 4 * 180,
        tuning: Some(TUNING),
        ..Windows::default()
    };
}

/// Submits messages that fill a packet each, and are told apart by a word.
fn fill(net: &mut Net, i: usize, word: &str, n: usize) {
    for k in 0..n {
        net.submit(i, Service::Agreed, format!("{word} {k} of n{} {:.>1270}", i + 1, ""));
    }
}

/// All always have something to send, and this node's sockets run over all the time, or not.
fn press(net: &mut Net, rounds: usize, runs_over: Option<usize>) {
    for round in 0..rounds {
        let word = format!("{round} {}", runs_over.is_some());
        (0..3).for_each(|i| fill(net, i, &word, 30));
        for _ in 0..10 {
            runs_over.into_iter().for_each(|i| net.rings[i].handle_pressure(Pressure::Overflow));
            net.run(Duration::from_micros(300));
        }
    }
}

/// How many new packets each visit sent of those that do not set the window, and what their tokens said.
fn visits(net: &Net) -> Vec<(usize, u32)> {
    let (mut visits, mut sent) = (Vec::new(), [0; 4]);
    for flying in &net.sent {
        let node = usize::from(flying.from.node.0);
        match &flying.packet {
            RingPacket::Data(data) if !data.retransmission => sent[node] += 1,
            RingPacket::Token(token) => {
                let new = std::mem::take(&mut sent[node]);
                visits.extend((node > 1).then_some((new, u32::from(token.personal))));
            }
            _ => {}
        }
    }
    visits
}

#[test]
fn f55_one_member_whose_sockets_run_over_makes_all_send_less_and_a_new_ring_remembers() {
    //= R40 test
    //= R41 test
    //= R43 test
    let mut net = Net::formed(3, tuned);
    press(&mut net, 40, None);
    assert!((0..3).all(|i| net.counter(i, "personal_window") > 20), "{:?}", visits(&net));
    press(&mut net, 60, Some(2));
    assert!((0..3).all(|i| net.counter(i, "personal_window") < 8), "{:?}", visits(&net).last());
    net.sent.clear();
    net.lose_the_token();
    net.run_until_whole(ms(500));
    let first = tokens(&net.sent).into_iter().find(|token| token.ring == net.view(0).id).unwrap();
    assert!(first.personal < 8, "{first:?}");
    net.end();
}

#[test]
fn f56_no_visit_sends_more_than_its_token_says_and_what_it_says_is_clamped() {
    //= R41 test
    //= R42 test
    let mut net = Net::formed(3, tuned);
    press(&mut net, 60, Some(2));
    let all = visits(&net);
    assert!(all.iter().any(|(new, personal)| *new as u32 == *personal), "windows bind");
    assert!(all.iter().all(|(new, personal)| *new as u32 <= *personal), "{all:?}");
    // A token that lies: nobody sends more than the largest window.
    let mut held = None;
    (0..3).for_each(|i| fill(&mut net, i, "held", 200));
    net.run_dropping(ms(2), &mut |flying| {
        let token = matches!(&flying.packet, RingPacket::Token(_)) && flying.to == NodeId(2);
        if token && held.is_none() {
            held = Some(flying.packet.clone());
        }
        token
    });
    let Some(RingPacket::Token(token)) = held else { panic!("no token in {:?}", ms(2)) };
    net.sent.clear();
    net.hand(0, 1, RingPacket::Token(crate::packet::Token { personal: u16::MAX, ..token }));
    net.run(ms(200));
    assert!(visits(&net).iter().all(|(new, _)| *new as u32 <= TUNING.most));
    assert!((0..3).all(|i| net.counter(i, "personal_window") <= u64::from(TUNING.most)));
    net.end();
}

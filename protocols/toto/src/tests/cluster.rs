//! Whole engines over a network of their own: perfect but for what a test takes away.
mod hostile;

use crate::config::{Early, Phi, TotoConfig};
use crate::engine::Toto;
use crate::packet::TotoPacket;
use bytes::Bytes;
use consort_order::{Arrival, Destination, Engine, Lane, Output, Refused, Submission};
use consort_types::{
    Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Position, Service, ViewKind,
};
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;

/// What a member was told, in one line each.
#[derive(Debug)]
struct Node {
    engine: Toto,
    up: bool,
    told: Vec<String>,
}

struct Cluster {
    now: Instant,
    nodes: BTreeMap<NodeId, Node>,
    flight: BTreeMap<(Instant, u64), (MemberId, NodeId, TotoPacket)>,
    count: u64,
    cuts: BTreeSet<(u16, u16)>,
    /// Packets from one node to another that are lost, by what they are.
    lost: Option<fn(&TotoPacket) -> bool>,
}

impl Cluster {
    fn new(n: u16, adjust: impl Fn(&mut TotoConfig)) -> Self {
        let members: Vec<_> = (1..=n).map(NodeId).collect();
        let make = |node: &NodeId| {
            let mut config = TotoConfig::new(*node, members.clone());
            adjust(&mut config);
            let engine = Toto::new(super::break_a_rule(config), Incarnation(1)).unwrap();
            (*node, Node { engine, up: true, told: Vec::new() })
        };
        let nodes = members.iter().map(make).collect();
        let (flight, cuts) = (BTreeMap::new(), BTreeSet::new());
        let mut cluster = Self { now: Instant::ZERO, nodes, flight, count: 0, cuts, lost: None };
        for node in &members {
            cluster.nodes.get_mut(node).unwrap().engine.start(Instant::ZERO, &[]);
            cluster.drain(*node);
        }
        cluster.run(1_500);
        cluster.nodes.values_mut().for_each(|node| node.told.clear());
        cluster
    }

    fn drain(&mut self, id: NodeId) {
        let now = self.now;
        while let Some(output) = self.nodes.get_mut(&id).unwrap().engine.poll_output() {
            let me = MemberId { node: id, incarnation: Incarnation(1) };
            let told = match output {
                Output::Send { to, packet, .. } => {
                    self.transmit(me, to, &packet);
                    continue;
                }
                Output::Persist { ticket, .. } => {
                    self.nodes.get_mut(&id).unwrap().engine.handle_persisted(now, ticket);
                    continue;
                }
                Output::Install(view) => {
                    let names: Vec<_> = view.members.iter().map(|member| member.node.0.to_string()).collect();
                    let closes = view.kind == ViewKind::Transitional;
                    if !closes {
                        self.nodes.get_mut(&id).unwrap().engine.resume(now, view.id);
                    }
                    format!("{} {}", if closes { "closing" } else { "view" }, names.concat())
                }
                Output::Deliver(delivery) => {
                    let outside = if delivery.position == Position::OUTSIDE { " early" } else { "" };
                    format!("{}{outside}", String::from_utf8_lossy(&delivery.payload.to_bytes()))
                }
                Output::Primary(_) => "primary".into(),
                Output::Left => "left".into(),
                _ => continue,
            };
            self.nodes.get_mut(&id).unwrap().told.push(told);
        }
    }

    fn transmit(&mut self, from: MemberId, to: Destination, packet: &TotoPacket) {
        for node in self.nodes.keys().copied().filter(|node| *node != from.node) {
            let reaches = to == Destination::All || to == Destination::One(node);
            let cut = self.cuts.contains(&(from.node.0, node.0)) && self.lost.is_none_or(|lost| lost(packet));
            if reaches && !cut && self.nodes[&from.node].up {
                self.count += 1;
                let at = Instant(self.now.0 + MS / 10);
                self.flight.insert((at, self.count), (from, node, packet.clone()));
            }
        }
    }

    fn submit(&mut self, node: u16, service: Service, text: &str) {
        let payload = Bytes::copy_from_slice(text.as_bytes()).into();
        let submission = Submission { class: Class::Client, service, stream: OrderStream(0), payload };
        let now = self.now;
        self.nodes.get_mut(&NodeId(node)).unwrap().engine.submit(now, submission).unwrap();
        self.drain(NodeId(node));
    }

    fn run(&mut self, ms: u64) {
        let end = Instant(self.now.0 + ms * MS);
        while self.now < end {
            self.step();
        }
    }

    /// Until a node describes itself with this word.
    fn run_until(&mut self, node: u16, word: &str) {
        let describes = |cluster: &Self| cluster.nodes[&NodeId(node)].engine.describe(cluster.now).contains(word);
        let end = Instant(self.now.0 + 2_000 * MS);
        while !describes(self) {
            assert!(self.now < end, "never {word}");
            self.step();
        }
    }

    fn step(&mut self) {
        self.now = Instant(self.now.0 + MS / 10);
        while let Some(entry) = self.flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (from, to, packet) = entry.remove();
            let (now, node) = (self.now, self.nodes.get_mut(&to).unwrap());
            if node.up {
                node.engine.handle_packet(now, Arrival { at: now, from, lane: Lane::Data }, packet);
                self.drain(to);
            }
        }
        let now = self.now;
        let due = |(_, node): &(&NodeId, &Node)| node.up && node.engine.poll_timeout().is_some_and(|at| at <= now);
        for id in self.nodes.iter().filter(due).map(|(id, _)| *id).collect::<Vec<_>>() {
            self.nodes.get_mut(&id).unwrap().engine.handle_timeout(now);
            self.drain(id);
        }
    }

    fn told(&self, node: u16) -> Vec<&str> {
        self.nodes[&NodeId(node)].told.iter().map(String::as_str).collect()
    }

    fn gauge(&self, node: u16, name: &str) -> u64 {
        let mut found = 0;
        self.nodes[&NodeId(node)]
            .engine
            .each_counter(&mut |known, value| found = if known == name { value } else { found });
        found
    }

    fn crash(&mut self, node: u16) {
        self.nodes.get_mut(&NodeId(node)).unwrap().up = false;
    }
}

#[test]
fn members_deliver_one_order_and_give_back_what_they_kept() {
    //= A05 test
    //= A25 test
    let mut cluster = Cluster::new(3, |_| {});
    for round in 0..20 {
        for node in 1..=3 {
            cluster.submit(node, Service::Agreed, &format!("{node}.{round}"));
        }
        cluster.run(1);
    }
    cluster.run(200);
    assert_eq!(cluster.told(1).len(), 60);
    assert!((2..=3).all(|node| cluster.told(node) == cluster.told(1)));
    for node in 1..=3 {
        assert_eq!((cluster.gauge(node, "store_packets"), cluster.gauge(node, "undecided")), (0, 0));
    }
}

#[test]
fn votes_that_are_awaited_are_cast_at_once_and_others_wait_unless_the_time_is_fixed() {
    //= A26 test
    let nulls = |cluster: &Cluster| [1, 2, 3].map(|node| cluster.gauge(node, "nulls_sent"));
    for (ack, soon, nulls_soon) in [(None, "tea", [0, 1, 0]), (Some(Duration::from_millis(2)), "", [0, 0, 0])] {
        let mut cluster = Cluster::new(3, |config| config.ack = ack);
        cluster.submit(1, Service::Agreed, "tea");
        cluster.run(1);
        assert!((1..=3).all(|node| cluster.told(node).concat() == soon), "{ack:?}");
        assert_eq!(nulls(&cluster), nulls_soon);
        cluster.run(4);
        assert!((1..=3).all(|node| cluster.told(node) == ["tea"]) && nulls(&cluster)[2] == 1, "{ack:?}");
    }
}

#[test]
fn under_load_votes_are_bundled() {
    //= A26 test
    let mut cluster = Cluster::new(3, |_| {});
    for n in 0..100 {
        cluster.submit(1, Service::Agreed, &n.to_string());
        cluster.step();
    }
    let nulls = cluster.gauge(2, "nulls_sent");
    assert!((10_000 / 600 - 1..=10_000 / 500 + 1).contains(&nulls), "{nulls} in 10 ms");
    cluster.run(10);
    assert_eq!(cluster.told(1).len(), 100);
}

#[test]
fn half_do_not_wait_for_the_slowest_and_all_do() {
    //= A20 test
    for (phi, waits) in [(Phi::Half, false), (Phi::All, true)] {
        let mut cluster = Cluster::new(5, |config| config.phi = phi);
        cluster.cuts.extend((1..=4).map(|node| (5, node)));
        cluster.submit(1, Service::Agreed, "tea");
        cluster.run(20);
        assert_eq!(cluster.told(2).is_empty(), waits, "{phi:?}");
    }
}

#[test]
fn a_safe_message_waits_until_all_hold_it_and_holds_back_what_follows() {
    //= A21 test
    //= A04 test
    let mut cluster = Cluster::new(3, |_| {});
    cluster.lost = Some(|packet| matches!(packet, TotoPacket::Message(_) | TotoPacket::Status(_)));
    cluster.cuts.insert((3, 1));
    cluster.submit(1, Service::Safe, "safe");
    cluster.submit(1, Service::Agreed, "after");
    cluster.run(10);
    assert_eq!(cluster.told(1), Vec::<&str>::new(), "nothing shows that node 3 holds it");
    cluster.cuts.clear();
    cluster.run(60);
    assert_eq!(cluster.told(1), ["safe", "after"]);
}

#[test]
fn causal_messages_may_be_delivered_before_the_order() {
    //= A22 test
    let mut cluster = Cluster::new(3, |config| (config.early, config.phi) = (Early::Causal, Phi::All));
    cluster.cuts.extend([(3, 1), (3, 2)]);
    cluster.submit(1, Service::Agreed, "agreed");
    cluster.submit(1, Service::Causal, "causal");
    cluster.run(10);
    assert_eq!(cluster.told(2), ["causal early"]);
    cluster.cuts.clear();
    cluster.run(100);
    assert_eq!(cluster.told(2), ["causal early", "agreed"]);
}

#[test]
fn who_acknowledges_what_was_let_go_has_acknowledged_all_before_it() {
    //= A03 test
    //= A25 test
    let slow = Duration::from_millis(100);
    let mut cluster = Cluster::new(3, |config| (config.early, config.ack) = (Early::Causal, Some(slow)));
    cluster.submit(1, Service::Causal, "one");
    cluster.run(1);
    cluster.submit(2, Service::Causal, "two");
    cluster.run(70);
    assert_eq!(cluster.gauge(3, "store_packets"), 0, "all hold both, before node 3 has acknowledged any");
    cluster.run(1_000);
    assert_eq!(cluster.gauge(3, "nulls_sent"), 1);
}

#[test]
fn what_is_lost_is_asked_for_and_sent_again() {
    //= A02 test
    //= A03 test
    //= A06 test
    //= A07 test
    let mut cluster = Cluster::new(3, |_| {});
    cluster.lost = Some(|packet| matches!(packet, TotoPacket::Message(_)));
    cluster.cuts.insert((1, 3));
    cluster.submit(1, Service::Agreed, "one");
    cluster.run(1);
    cluster.cuts.clear();
    cluster.submit(1, Service::Agreed, "two");
    cluster.run(100);
    assert_eq!(cluster.told(3), ["one", "two"]);
    assert!(cluster.gauge(3, "naks_sent") >= 1 && cluster.gauge(1, "retransmissions_sent") >= 1);
    assert_eq!(cluster.gauge(2, "naks_sent"), 0);
}

#[test]
fn a_member_sends_only_what_its_window_allows() {
    //= A09 test
    let mut cluster = Cluster::new(3, |config| config.window = 2);
    cluster.cuts.extend([(1, 2), (1, 3)]);
    for n in 0..5 {
        cluster.submit(1, Service::Agreed, &"x".repeat(1_000 + n));
    }
    assert_eq!(cluster.gauge(1, "messages_sent"), 2);
}

#[test]
fn a_member_that_gets_statuses_but_no_votes_sends_only_what_its_window_allows() {
    //= A09 test
    let mut cluster = Cluster::new(3, |config| config.window = 4);
    cluster.lost = Some(|packet| matches!(packet, TotoPacket::Message(_)));
    cluster.cuts.extend([(2, 1), (3, 1)]);
    for n in 0..10 {
        cluster.submit(1, Service::Agreed, &"x".repeat(1_000 + n));
        cluster.run(40);
    }
    assert_eq!((cluster.gauge(1, "messages_sent"), cluster.told(1).len()), (4, 0));
}

#[test]
fn what_an_acknowledgement_makes_room_for_is_sent_at_once() {
    //= A09 test
    let mut cluster = Cluster::new(2, |config| {
        config.window = 1;
        (config.window_all, config.ack_every) = if config.me == NodeId(1) { (1, 1) } else { (9, 99) };
    });
    cluster.submit(1, Service::Agreed, "a");
    cluster.submit(1, Service::Agreed, "z");
    cluster.step();
    cluster.submit(2, Service::Agreed, "y");
    assert_eq!(cluster.gauge(1, "messages_sent"), 1);
    cluster.step();
    assert_eq!((cluster.gauge(1, "nulls_sent"), cluster.gauge(1, "messages_sent")), (1, 3));
}

#[test]
fn large_messages_are_cut_and_put_together() {
    //= A23 test
    let mut cluster = Cluster::new(3, |_| {});
    let large = "large ".repeat(20_000);
    cluster.submit(2, Service::Agreed, &large);
    cluster.submit(1, Service::Agreed, "small");
    cluster.run(300);
    for node in 1..=3 {
        let told = cluster.told(node);
        assert!(told.contains(&large.as_str()) && told.contains(&"small"), "node {node}");
        assert_eq!(told, cluster.told(1));
        assert_eq!(cluster.gauge(node, "assembly_bytes"), 0);
    }
}

#[test]
fn what_a_dead_member_said_to_one_is_delivered_by_all_while_the_view_is_closed() {
    //= A30 test
    //= A33 test
    let mut cluster = Cluster::new(4, |config| config.phi = Phi::All);
    cluster.cuts.extend([(3, 2), (3, 4)]);
    cluster.submit(3, Service::Agreed, "last words");
    cluster.run(1);
    cluster.crash(3);
    cluster.crash(4); // without having voted
    cluster.run(1_000);
    assert_eq!(cluster.told(1), ["closing 12", "last words", "view 12"]);
    assert_eq!(cluster.told(2), cluster.told(1));
}

#[test]
fn what_was_parked_and_does_not_belong_to_the_agreed_set_is_not_taken_in_with_what_is_fetched() {
    //= A30 test
    let mut cluster = Cluster::new(4, |_| {});
    cluster.cuts.extend([(4, 1)]);
    cluster.submit(4, Service::Agreed, "one");
    cluster.cuts = [(4, 2), (4, 3)].into();
    cluster.submit(4, Service::Agreed, "two"); // reaches node 1 only, which lacks what stands before it
    cluster.crash(4);
    cluster.lost = Some(|packet| matches!(packet, TotoPacket::Nak(_)));
    cluster.cuts = [(1, 2), (1, 3)].into();
    cluster.run_until(1, "fetching");
    cluster.cuts.clear();
    cluster.run(1_000);
    assert_eq!(cluster.told(1), ["one", "closing 123", "view 123"], "nobody else holds the second");
    assert!((2..=3).all(|node| cluster.told(node) == cluster.told(1)));
}

#[test]
fn what_comes_after_a_member_has_told_what_it_holds_is_not_taken_in() {
    //= A30 test
    let mut cluster = Cluster::new(4, |_| {});
    cluster.cuts.extend([(4, 2), (4, 3)]);
    cluster.submit(4, Service::Agreed, "late");
    let late = std::mem::take(&mut cluster.flight).into_iter().filter(|(_, (from, ..))| from.node == NodeId(4));
    let late: Vec<_> = late.collect();
    cluster.crash(4);
    cluster.run_until(1, "forming");
    cluster.flight.extend(late);
    cluster.run(1_000);
    assert_eq!(cluster.told(1), ["closing 123", "view 123"]);
    assert!((2..=3).all(|node| cluster.told(node) == cluster.told(1)));
}

#[test]
fn parts_close_their_view_each_by_itself_and_come_together() {
    let mut cluster = Cluster::new(4, |config| config.phi = Phi::All);
    let parts = [(1, 3), (1, 4), (2, 3), (2, 4)];
    cluster.cuts.extend(parts.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]));
    cluster.submit(1, Service::Agreed, "here");
    cluster.submit(3, Service::Agreed, "there");
    cluster.run(600);
    assert_eq!(cluster.told(2), ["closing 12", "here", "view 12"]);
    assert_eq!(cluster.told(4), ["closing 34", "there", "view 34"]);
    cluster.cuts.clear();
    cluster.run(2_000);
    assert_eq!(cluster.told(1).last(), Some(&"view 1234"));
}

#[test]
fn a_view_becomes_primary_once_all_have_installed_it() {
    //= A24 test
    let mut cluster = Cluster::new(3, |config| config.primary = crate::Policy::Majority);
    cluster.crash(3);
    cluster.run(600);
    for node in [1, 2] {
        assert_eq!(cluster.told(node), ["closing 12", "view 12", "primary"]);
    }
}

#[test]
fn a_member_that_takes_nothing_in_is_left_out() {
    //= A08 test
    let mut cluster = Cluster::new(3, |_| {});
    cluster.lost = Some(|packet| matches!(packet, TotoPacket::Message(_)));
    cluster.cuts.extend([(1, 3), (2, 3)]);
    cluster.submit(1, Service::Agreed, "tea");
    cluster.run(1_900);
    assert!(cluster.told(1).contains(&"view 12"), "{:?}", cluster.told(1));
}

#[test]
fn nobody_is_called_deaf_by_what_was_known_before_a_pause() {
    //= M54 test
    let mut cluster = Cluster::new(3, |_| {});
    cluster.lost = Some(|packet| matches!(packet, TotoPacket::Message(_)));
    cluster.cuts.insert((1, 3));
    cluster.submit(1, Service::Agreed, "tea");
    cluster.cuts.clear();
    cluster.run(1);
    cluster.now += Duration::from_millis(5_000);
    cluster.run(1_000);
    assert!((1..=3).all(|node| cluster.told(node) == ["tea"]), "{:?}", cluster.told(1));
}

#[test]
fn a_leaving_member_goes_when_all_have_what_it_said() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.submit(2, Service::Agreed, "good-bye");
    let now = cluster.now;
    cluster.nodes.get_mut(&NodeId(2)).unwrap().engine.leave(now);
    cluster.drain(NodeId(2));
    cluster.run(30);
    assert_eq!(cluster.told(2), ["good-bye", "left"]);
    assert_eq!(cluster.told(1), ["good-bye", "closing 13", "view 13"]);
    let payload = Bytes::from_static(b"late").into();
    let late = Submission { class: Class::Client, service: Service::Agreed, stream: OrderStream(0), payload };
    let answer = cluster.nodes.get_mut(&NodeId(2)).unwrap().engine.submit(now, late);
    assert_eq!(answer, Err(Refused::Leaving));
}

#[test]
fn settings_that_cannot_work_are_refused_and_say_why() {
    let why = |adjust: &dyn Fn(&mut TotoConfig)| {
        let mut config = TotoConfig::new(NodeId(1), vec![NodeId(1), NodeId(2)]);
        adjust(&mut config);
        Toto::new(config, Incarnation(1)).unwrap_err().to_string()
    };
    assert!(why(&|config| config.phi = Phi::Percent(49)).contains("below half"));
    assert!(why(&|config| config.window = 0).contains("toto.window: 0"));
    assert!(why(&|config| config.window_all = 1).contains("below window"));
    assert!(why(&|config| config.ack = Some(std::time::Duration::ZERO)).contains("toto.ack"));
    assert!(why(&|config| config.message_max = 0).contains("limits.message"));
    assert!(why(&|config| config.queue_bytes = 9).contains("limits.queue"));
    assert!(why(&|config| config.members.push(NodeId(2))).contains("listed twice"));
}

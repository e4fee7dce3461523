//! What a node has on offer, judged; and messages that are used before their places are known.
use super::cluster::{Cluster, MS, at_rest, config, formed, sound};
use crate::key::RingNumber;
use consort_order::EarlyDelivery;
use consort_types::{Duration, OfferId, Service};
use std::collections::BTreeMap;

/// The offers of one incarnation.
#[derive(Debug, Default)]
pub struct Offers {
    open: BTreeMap<OfferId, String>,
    /// The number that each sender's last offered message has among its own.
    last: BTreeMap<String, u64>,
    /// When each was offered, and what.
    pub made: Vec<(u64, String)>,
    pub revoked: u64,
}

/// Who sent a message, and its number.
fn parsed(text: &str) -> (String, u64) {
    let (from, rest) = text.split_once(':').unwrap_or((text, ""));
    (from.to_owned(), rest.split(['/', '.']).next().and_then(|number| number.parse().ok()).unwrap_or_default())
}

impl Offers {
    pub fn offer(&mut self, now: u64, offer: &EarlyDelivery, text: String) -> Option<String> {
        //= TM70 test
        let (from, number) = parsed(&text);
        let last = self.last.insert(from, number).unwrap_or_default();
        let weak = offer.delivery.service < Service::Causal;
        let again = self.open.values().any(|open| *open == text);
        self.made.push((now, text.clone()));
        self.open.insert(offer.id, text.clone());
        if again || number <= last || !weak {
            let service = offer.delivery.service;
            return Some(format!("offers: {text} of service {service:?} is offered behind {last}, on offer: {again}"));
        }
        None
    }

    /// The message has its place.
    pub fn place(&mut self, offer: Option<OfferId>, text: &str) -> Option<String> {
        //= TM71 test
        match offer {
            Some(offer) if self.open.remove(&offer).as_deref() == Some(text) => None,
            Some(_) => Some(format!("offers: {text} is confirmed, which is not on offer")),
            None => {
                self.open.values().any(|open| open == text).then(|| format!("offers: {text} is delivered on offer"))
            }
        }
    }

    pub fn revoke(&mut self, offer: OfferId) -> Option<String> {
        self.revoked += 1;
        let Some(text) = self.open.remove(&offer) else {
            return Some("offers: what is not on offer is revoked".into());
        };
        let (from, number) = parsed(&text);
        let last = self.last.entry(from).or_default();
        *last = (*last).min(number.saturating_sub(1));
        None
    }

    pub fn end(&self) -> Option<String> {
        //= TM71 test
        self.open.values().next().map(|text| format!("offers: a view begins while {text} is on offer"))
    }
}

/// Two sites of three nodes each, whose gateways are far apart. Nobody tells them.
fn sites(one_way: u64) -> Cluster {
    let mut cluster = Cluster::new(1, config(&[&[1, 2, 3], &[3, 4], &[4, 5, 6]]));
    cluster.slow.insert(RingNumber(2), one_way * MS);
    cluster.run(12_000);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    cluster
}

#[test]
fn messages_in_their_senders_order_come_as_fast_as_in_one_ring_though_sites_are_far_apart() {
    //= TM70 test
    //= TM71 test
    let mut cluster = sites(50);
    let mut sent = BTreeMap::new();
    for number in 1..=400 {
        sent.insert(format!("1.1:{number}"), cluster.now);
        cluster.submit(1, [Service::Fifo, Service::Reliable][number % 2], 100);
        // In whatever part of the line's rotation: where its token is there, messages have their places at once.
        cluster.run(10 + number as u64 % 3);
    }
    let offered = |cluster: &Cluster, node: u16| -> Vec<u64> {
        let made = cluster.hosts[&node].offers.made.iter();
        made.map(|(at, text)| (at - sent[text]) / 1_000).collect()
    };
    let near = offered(&cluster, 2);
    assert!(near.len() > 350, "{}", near.len());
    assert!(near.iter().all(|us| *us < 2_000), "{near:?} us");
    at_rest(&mut cluster);
    let far = offered(&cluster, 6);
    assert!(!far.is_empty() && far.iter().all(|us| (50_000..200_000).contains(us)), "{far:?} us");
    assert!(cluster.hosts.values().all(|host| host.offers.revoked == 0));
    let order = cluster.texts(1);
    assert!(order.len() == 400 && cluster.nodes().into_iter().all(|node| cluster.texts(node) == order));
}

/// The middle one of what 200 messages take until their sender's node has them from its ring.
fn middle(mut took: Vec<u64>) -> u64 {
    took.sort_unstable();
    assert_eq!(took.len(), 200);
    took[100] / 1_000
}

#[test]
fn an_offer_takes_no_longer_than_a_delivery_in_a_ring_alone() {
    //= TM70 test
    let sent = |cluster: &mut Cluster| -> BTreeMap<String, u64> {
        let send = |number: u64| {
            let at = cluster.now;
            cluster.submit(1, Service::Fifo, 100);
            cluster.run(3 + number % 7);
            (format!("1.1:{number}"), at)
        };
        (1..=200).map(send).collect()
    };
    let mut alone = formed(&[&[1, 2, 3]]);
    sent(&mut alone);
    let alone = middle(alone.took.values().map(|(sent, came)| came - sent).collect());
    let mut apart = sites(50);
    let sent = sent(&mut apart);
    let apart = middle(apart.hosts[&1].offers.made.iter().map(|(at, text)| at - sent[text]).collect());
    assert!(apart * 10 <= alone * 11, "{apart} us, alone {alone} us");
}

#[test]
fn a_gateway_sends_on_the_nearer_of_its_rings() {
    //= TM11 test
    let mut cluster = sites(50);
    for _ in 0..20 {
        cluster.submit(4, Service::Fifo, 100);
        cluster.submit(3, Service::Fifo, 100);
        let before = [2, 5].map(|node| cluster.hosts[&node].offers.made.len());
        cluster.run(2);
        let offered = [2, 5].map(|node| cluster.hosts[&node].offers.made.len());
        assert!(offered[0] > before[0] && offered[1] > before[1], "each within its site");
        cluster.run(20);
    }
    at_rest(&mut cluster);
}

#[test]
fn a_ring_forms_however_far_its_nodes_are() {
    //= TM06 test
    //= M60 test
    for (delay, nodes, told) in
        [(1_000, 3..=5, true), (250, 3..=12, true), (50, 3..=12, false), (100, 3..=4, false), (100, 3..=12, false)]
    {
        let second: Vec<u16> = nodes.collect();
        let mut settings = config(&[&[1, 2, 3], &second]);
        settings.rings[1].delay = Duration::from_millis(if told { delay } else { 0 });
        let mut cluster = Cluster::new(1, settings);
        cluster.slow.insert(RingNumber(2), delay * MS);
        cluster.run(40_000);
        assert_eq!(cluster.together().len(), 1, "{delay} ms: {}", cluster.states());
    }
}

/// Runs until there are so many views, each of all its members, and says how long that took.
fn until_views(cluster: &mut Cluster, views: usize, most: u64) -> u64 {
    let begun = cluster.now;
    let are_parted = |cluster: &Cluster| {
        let together = cluster.together();
        together.len() == views && together.iter().map(Vec::len).sum::<usize>() == cluster.nodes().len()
    };
    while !are_parted(cluster) {
        assert!(cluster.now - begun < most * MS, "liveness: not {views} after {most} ms: {}", cluster.states());
        cluster.run(10);
    }
    (cluster.now - begun) / MS
}

#[test]
fn a_line_between_sites_forms_is_missed_where_it_is_cut_and_forms_again_with_nothing_in_the_file() {
    //= TM06 test
    //= M60 test
    for (one_way, most) in [(0, 1_500), (10, 2_000), (50, 3_500), (100, 6_000)] {
        let mut cluster = Cluster::new(1, config(&[&[1, 2, 3], &[3, 4], &[4, 5, 6]]));
        cluster.slow.insert(RingNumber(2), one_way * MS);
        let formed = until_views(&mut cluster, 1, most);
        cluster.run(20_000);
        let views = cluster.total("views");
        cluster.run(20_000);
        assert_eq!(cluster.total("views"), views, "liveness: views change though nothing went wrong");
        cluster.cut(2, &[4]);
        let parted = until_views(&mut cluster, 2, most);
        cluster.heal();
        let healed = until_views(&mut cluster, 1, 3 * most);
        println!(
            "{one_way} ms one way: one view after {formed} ms, two {parted} ms after the cut, one {healed} ms later"
        );
        at_rest(&mut cluster);
    }
}

#[test]
fn what_asks_for_more_than_its_senders_order_is_not_offered() {
    //= TM70 test
    let mut cluster = sites(20);
    for service in [Service::Causal, Service::Agreed, Service::Safe] {
        cluster.submit(1, service, 100);
    }
    at_rest(&mut cluster);
    assert!(cluster.hosts.values().all(|host| host.offers.made.is_empty()));
    // And nothing where it has its place at once.
    let mut cluster = formed(&[&[1, 2, 3]]);
    cluster.submit(1, Service::Fifo, 100);
    at_rest(&mut cluster);
    assert!(cluster.hosts.values().all(|host| host.offers.made.is_empty()));
}

#[test]
fn what_is_on_offer_where_the_line_is_cut_has_its_place_on_each_side() {
    //= TM71 test
    let mut cluster = sites(20);
    for _ in 0..10 {
        cluster.nodes().into_iter().for_each(|node| cluster.submit(node, Service::Fifo, 100));
        cluster.run(3);
    }
    cluster.cut(2, &[4]);
    cluster.run(6_000);
    sound(cluster.check());
    assert_eq!(cluster.together(), [vec![1, 2, 3], vec![4, 5, 6]].into(), "{}", cluster.states());
    let offers = |node: u16| &cluster.hosts[&node].offers;
    assert!([1, 2, 5, 6].into_iter().all(|node| offers(node).made.len() >= 10), "{}", offers(1).made.len());
    for node in [1, 6] {
        let given = cluster.texts(node);
        assert!(offers(node).made.iter().all(|(_, text)| given.contains(text)), "n{node}: what was offered stands");
    }
    cluster.heal();
    cluster.run(8_000);
    at_rest(&mut cluster);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
}

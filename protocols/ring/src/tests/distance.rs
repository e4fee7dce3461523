//! Rings whose packets take a while, all of them at once.
use super::*;
use std::collections::BTreeMap;

/// A net in which packets that travel at the same time do not wait for each other.
pub(super) struct Far {
    pub net: Net,
    /// How long packets take; and some ways, from node to node, on which they take otherwise.
    pub delay: Duration,
    pub ways: BTreeMap<(u16, u16), Duration>,
    on_the_way: BTreeMap<(Instant, u64), Flying>,
    sent: u64,
    /// How many messages were submitted, where a test counts them.
    pub said: u64,
}

impl Far {
    pub fn new(n: u16, delay: Duration, adjust: impl Fn(&mut RingConfig)) -> Self {
        Self { net: Net::new(n, adjust), delay, ways: BTreeMap::new(), on_the_way: BTreeMap::new(), sent: 0, said: 0 }
    }

    pub fn formed(n: u16, delay: Duration, adjust: impl Fn(&mut RingConfig)) -> Self {
        let mut far = Self::new(n, delay, adjust);
        (0..usize::from(n)).for_each(|i| far.net.start(i));
        far.run(Duration::from_secs(2));
        let whole = |views: &Vec<View>| views.last().is_some_and(|view| view.members.len() == usize::from(n));
        assert!(far.net.views.iter().all(whole), "{:?}", far.net.views);
        far
    }

    pub fn run(&mut self, span: Duration) {
        self.run_dropping(span, &mut |_| false);
    }

    pub fn run_dropping(&mut self, span: Duration, drop: &mut dyn FnMut(&Flying) -> bool) {
        let end = self.net.now + span;
        loop {
            while let Some(flying) = self.net.flying.pop_front() {
                self.sent += 1;
                let way = self.ways.get(&(flying.from.node.0, flying.to.0)).copied().unwrap_or(self.delay);
                self.on_the_way.insert((self.net.now + way, self.sent), flying);
            }
            let arrives = self.on_the_way.first_key_value().map(|((at, _), _)| *at);
            let running = (0..self.net.rings.len()).filter(|i| self.net.runs(*i));
            let wakes = running.filter_map(|i| self.net.rings[i].poll_timeout()).min();
            let next = arrives.into_iter().chain(wakes).min().filter(|next| *next <= end);
            let Some(next) = next else {
                self.net.now = end;
                return;
            };
            self.net.now = self.net.now.max(next);
            if arrives == Some(next) {
                let (_, flying) = self.on_the_way.pop_first().unwrap();
                if !self.net.cuts.contains(&(flying.from.node.0, flying.to.0)) && !drop(&flying) {
                    self.net.hand_over(flying);
                }
            } else {
                self.net.wake();
            }
        }
    }
}

/// What a ring of `n` with packets that take a millisecond counts while one member says something now and then.
fn sends_now_and_then(n: u16, sender: usize) -> (Vec<u64>, u64) {
    let mut far = Far::formed(n, Duration::from_millis(1), never_granted);
    let mut again = 0;
    for k in 0..60 {
        if k == 20 {
            again = far.net.total("tokens_retransmitted");
        }
        far.net.submit(sender, if k % 2 == 0 { Service::Safe } else { Service::Agreed }, "x");
        far.run(Duration::from_millis(33));
    }
    assert!(far.net.delivered.iter().all(|delivered| delivered.len() == 60));
    let rotations = (0..usize::from(n)).map(|i| far.net.counter(i, "rotation_us")).collect();
    (rotations, far.net.total("tokens_retransmitted") - again)
}

#[test]
fn every_member_measures_rotations_whoever_sends() {
    //= R45 test
    for (n, sender) in [(2, 0), (3, 0), (3, 2), (5, 0), (5, 2), (5, 4), (7, 6)] {
        let (rotations, _) = sends_now_and_then(n, sender);
        let all = 900 * u64::from(n)..=1100 * u64::from(n);
        assert!(rotations.iter().all(|us| all.contains(us)), "{n} members, sent by {sender}: {rotations:?}");
    }
}

#[test]
fn a_token_that_only_rested_is_not_sent_again() {
    //= R25 test
    for (n, sender) in [(2, 0), (3, 0), (3, 2), (5, 0), (5, 2), (5, 4)] {
        let (_, again) = sends_now_and_then(n, sender);
        assert_eq!(again, 0, "{n} members, sent by {sender}");
    }
}

#[test]
fn a_token_that_rests_between_long_rotations_is_not_sent_again() {
    //= R25 test
    for (n, delay) in [(5, 700), (8, 450), (16, 220)] {
        for service in [Service::Agreed, Service::Safe] {
            let mut far = Far::formed(n, Duration::from_micros(delay), |_| {});
            far.run(Duration::from_millis(300));
            let before = far.net.total("tokens_retransmitted");
            for _ in 0..20 {
                far.net.submit(0, service, "x");
                far.run(Duration::from_millis(37));
            }
            assert!(far.net.delivered.iter().all(|delivered| delivered.len() == 20));
            let again = far.net.total("tokens_retransmitted") - before;
            assert_eq!(again, 0, "{n} members, {delay} us a hop, {service:?}");
        }
    }
}

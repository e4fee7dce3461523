//! Rings whose nodes are far apart, with the timers of a LAN in their settings.
use super::distance::Far;
use super::*;
use consort_types::Rng;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// How soon all are together at the latest, whatever went wrong before.
const TOGETHER: Duration = Duration::from_secs(30);

impl Far {
    fn lan(n: u16) -> Self {
        Self::new(n, STEP, |_| {})
    }

    /// Runs until all that run are one ring, and says how long that took.
    fn until_whole(&mut self) -> Duration {
        let begun = self.net.now;
        while !self.net.is_whole() {
            let took = self.net.now.since(begun);
            assert!(took < TOGETHER, "liveness: no common view after {took:?}{}", self.net.describe());
            self.run(ms(5));
        }
        self.net.now.since(begun)
    }

    /// Runs until all are one ring and none of them misses anything any more.
    fn until_at_rest(&mut self) {
        self.until_whole();
        self.run(ms(8_000));
        self.until_whole();
    }

    fn views(&self) -> usize {
        self.net.views.iter().map(Vec::len).sum()
    }

    /// Runs for so long, in which nobody may get another view.
    fn keeps_its_view(&mut self, span: Duration) {
        let views = self.views();
        self.run(span);
        let (more, state) = (self.views() - views, self.net.describe());
        assert!(more == 0 && self.net.is_whole(), "liveness: {more} more views though nothing went wrong{state}");
    }

    /// Draws a way for each two nodes, the same there and back.
    fn draw_ways(&mut self, rng: &mut Rng, most: u64) {
        for a in 1..=self.net.rings.len() as u16 {
            for b in 1..a {
                let way = Duration::from_micros(rng.between(100, most * 1_000));
                self.ways.extend([((a, b), way), ((b, a), way)]);
            }
        }
    }

    /// Whoever runs says something now and then.
    fn chat(&mut self, rng: &mut Rng, n: u64, loss: f64) {
        for k in 0..n {
            let i = rng.below(self.net.rings.len() as u64) as usize;
            if self.net.incarnations[i].is_some() {
                let service = if rng.chance(0.4) { Service::Safe } else { Service::Agreed };
                self.said += 1;
                self.net.submit(i, service, format!("{}", self.said));
            }
            let (span, mut lost) = (ms(rng.below(100)), rng.fork(k));
            self.run_dropping(span, &mut |_| lost.chance(loss));
        }
    }

    fn start_all(&mut self, rng: &mut Rng, apart: u64) {
        for i in 0..self.net.rings.len() {
            self.net.start(i);
            self.run(ms(rng.below(apart + 1)));
        }
    }

    fn token_losses(&self) -> Vec<u64> {
        self.net.rings.iter().map(|ring| ring.io().timeouts.token_loss.as_millis() as u64).collect()
    }

    /// Whether every node has the timers that its settings give it, to the byte.
    fn has_lan_timers(&self) -> bool {
        self.net.rings.iter().all(|ring| ring.io().timeouts == ring.config().timers)
    }

    /// One thing that goes wrong.
    fn disturb(&mut self, rng: &mut Rng) {
        let n = self.net.rings.len() as u16;
        let i = rng.below(n.into()) as usize;
        match rng.below(7) {
            0 if self.net.incarnations[i].is_some() => self.net.restart(i),
            1 => self.net.crash(i),
            2 => {
                let part: Vec<u16> = (1..=n).filter(|_| rng.chance(0.4)).collect();
                self.net.part(&part);
            }
            3 if self.net.incarnations[i].is_some() => {
                self.net.stop(i);
                self.run(ms(rng.below(1_500)));
                self.net.go_on(i);
            }
            4 => self.draw_ways(rng, 120),
            5 => drop(self.net.cuts.insert((i as u16 + 1, rng.between(1, n.into()) as u16))),
            _ => {}
        }
    }

    fn heal(&mut self) {
        self.net.heal();
        let gone: Vec<_> = (0..self.net.rings.len()).filter(|i| self.net.incarnations[*i].is_none()).collect();
        gone.into_iter().for_each(|i| self.net.restart(i));
    }
}

#[test]
fn a_ring_forms_with_the_timers_of_a_lan_however_far_its_nodes_are() {
    //= M60 test
    for n in [2, 3, 5, 8] {
        for (delay, most) in [(0, 200), (10, 700), (50, 2_000), (100, 4_000), (120, 5_000), (500, 20_000)] {
            let mut rng = Rng::new(u64::from(n) * delay);
            let mut far = Far::lan(n);
            far.delay = ms(delay).max(STEP);
            far.start_all(&mut rng, 0);
            let took = far.until_whole();
            println!("{n} nodes, {delay} ms one way: together after {took:?}");
            assert!(took <= ms(most), "liveness: {n} nodes {delay} ms apart are together only after {took:?}");
            far.keeps_its_view(ms(60_000));
            far.chat(&mut rng, 40, 0.0);
            far.keeps_its_view(ms(5_000));
            far.net.check();
        }
    }
}

#[test]
fn nodes_at_any_distances_come_together_whenever_they_start_and_stay_together() {
    //= M60 test
    let mut longest = Duration::ZERO;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut far = Far::lan(rng.between(2, 8) as u16);
        far.draw_ways(&mut rng, 120);
        let apart = [0, 300, 3_000][rng.below(3) as usize];
        far.start_all(&mut rng, apart);
        longest = longest.max(far.until_whole());
        far.keeps_its_view(ms(60_000));
        far.chat(&mut rng, 60, 0.0);
        far.keeps_its_view(ms(5_000));
        far.net.check();
    }
    println!("together after {longest:?} at most");
}

/// Crashes, restarts, cuts, stalls, losses, and ways that change, among nodes at any distances; then all is well again.
fn play(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut far = Far::lan(rng.between(2, 8) as u16);
    far.draw_ways(&mut rng, 120);
    far.start_all(&mut rng, 500);
    for _ in 0..6 {
        let loss = [0.0, 0.01, 0.05, 0.2][rng.below(4) as usize];
        far.disturb(&mut rng);
        let n = rng.below(30);
        far.chat(&mut rng, n, loss);
        let (span, mut lost) = (ms(rng.below(4_000)), rng.fork(8));
        far.run_dropping(span, &mut |_| lost.chance(loss));
        if rng.chance(0.5) {
            far.heal();
            far.until_at_rest();
            far.keeps_its_view(ms(12_000));
        }
    }
    far.heal();
    far.until_at_rest();
    far.net.check();
}

#[test]
fn far_nodes_keep_their_promises_and_come_together_again_whatever_went_wrong() {
    //= M60 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let (first, seeds): (u64, u64) = (read("FIRST_SEED", 0), read("SEEDS", 150));
    for seed in first..first + seeds {
        if let Err(said) = std::panic::catch_unwind(|| play(seed)) {
            let text = said.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("{text}\nseed {seed}");
        }
    }
}

#[test]
fn a_line_that_is_cut_is_noticed_within_the_stretched_timers_and_heals() {
    //= M60 test
    for delay in [50, 100] {
        let mut far = Far::lan(4);
        far.start_all(&mut Rng::new(1), 0);
        for a in 1..=2 {
            for b in 3..=4 {
                far.ways.extend([((a, b), ms(delay)), ((b, a), ms(delay))]);
            }
        }
        far.run(ms(15_000));
        far.until_at_rest();
        let timers = far.net.rings[0].io().timeouts;
        assert!(timers.token_loss >= ms(delay * 12), "liveness: {timers:?} for {delay} ms");
        let told = far.net.rings[0].describe(far.net.now);
        assert!(told.ends_with(&format!("; {delay} ms one way")), "{told}");
        far.net.part(&[1, 2]);
        let begun = far.net.now;
        let parted = |net: &Net| [0, 1].iter().all(|i| net.last_members(*i) == [1, 2]) && net.last_members(3) == [3, 4];
        while !parted(&far.net) {
            far.run(ms(5));
            let took = far.net.now.since(begun);
            let most = timers.patience() + timers.consensus + ms(500);
            assert!(took < most, "liveness: no views of each side after {took:?}{}", far.net.describe());
        }
        far.run(ms(1_000));
        assert!(far.has_lan_timers(), "each side is near: {:?}", far.token_losses());
        far.net.heal();
        far.until_at_rest();
        far.net.check();
    }
}

#[test]
fn near_nodes_keep_the_timers_of_their_settings_whatever_stops_for_a_second() {
    //= M60 test
    //= M59 test
    let mut far = Far::lan(4);
    far.delay = ms(4);
    far.start_all(&mut Rng::new(1), 0);
    far.until_whole();
    for round in 0..20 {
        let i = round % 4;
        far.net.stop(i);
        far.run(ms(150 + 50 * round as u64));
        far.net.go_on(i);
        far.run(ms(1_000));
        far.until_whole();
        assert!(far.has_lan_timers(), "round {round}: {:?}", far.token_losses());
    }
    assert!(far.views() > 20, "some stopped for long enough to be left out");
}

#[test]
fn timers_follow_ways_that_become_longer_or_shorter() {
    //= M60 test
    //= M59 test
    for (n, from, to) in [(3, 0, 100), (4, 0, 100), (8, 10, 100), (4, 100, 10), (3, 100, 0), (5, 0, 500)] {
        let mut far = Far::lan(n);
        far.delay = ms(from).max(STEP);
        far.start_all(&mut Rng::new(1), 0);
        far.until_at_rest();
        far.delay = ms(to).max(STEP);
        far.run(ms(15_000));
        far.until_at_rest();
        far.keeps_its_view(ms(30_000));
        let stretched = far.net.rings[0].config().timers.far(n.into(), ms(to)).token_loss;
        let all = far.token_losses();
        let like = |told: &u64| told.abs_diff(stretched.as_millis() as u64) <= 1;
        assert!(all.iter().all(like), "{n} nodes from {from} to {to} ms: {all:?}, not {stretched:?}");
        far.net.check();
    }
}

#[test]
fn what_one_member_makes_up_stretches_no_timer_beyond_the_bound() {
    //= M59 test
    let mut net = Net::formed(3, |_| {});
    let most = net.rings[0].config().timers.far(3, consort_member::DELAY_MOST);
    let mut rng = Rng::new(7);
    for _ in 0..2_000 {
        let echoes = (1..=3).map(|node| (NodeId(node), rng.below(1 << 32) as u32)).collect();
        let [stamp, delay] = [rng.below(1 << 32), rng.below(1 << 32)].map(|drawn| drawn as u32);
        let clocks = Box::new(consort_member::Clocks { stamp, delay, echoes });
        let view = net.view(0).clone();
        let beacon = crate::packet::Beacon {
            view: view.id,
            members: view.members,
            heard: [1, 2, 3].map(NodeId).into(),
            wants: None,
            settled: true,
            clocks,
            annotation: Bytes::new(),
            padding: 0,
        };
        net.hand(2, 0, RingPacket::Beacon(beacon));
        let timers = net.rings[0].io().timeouts;
        assert!(timers.token_loss <= most.token_loss && timers.consensus <= most.consensus, "{timers:?}");
    }
    // And no longer than it is there.
    net.crash(2);
    net.run(Duration::from_secs(30));
    assert_eq!(net.last_members(0), [1, 2]);
    assert_eq!(net.rings[0].io().timeouts, net.rings[0].config().timers);
    net.check();
}

#[test]
fn a_delay_that_is_known_is_where_timers_begin() {
    //= M60 test
    let config = |delay| RingConfig { delay, ..RingConfig::new(NodeId(1), vec![NodeId(1), NodeId(2)]) };
    let (lan, known) = (config(Duration::ZERO), config(ms(50)));
    assert_eq!(lan.timeouts(2, Duration::ZERO), lan.timers);
    assert_eq!(lan.timeouts(2, ms(50)), known.timeouts(2, Duration::ZERO));
    assert_eq!(known.timeouts(2, ms(20)), known.timers.far(2, ms(50)));
    assert_eq!(known.timeouts(2, ms(80)), known.timers.far(2, ms(80)));
}

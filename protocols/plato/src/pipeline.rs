//! What a receiver believes of the order before it knows it: the three queues of PLATO.
//!
//! ```text
//!  data ----> pending --------> suspicious ----> placed
//!                 (withheld)     (offered)         ^
//!  orders --> sequencing ------------------------- |
//!                 (places whose packets are still to come)
//! ```
use consort_types::{Duration, Instant, NodeId};
use std::collections::{BTreeSet, VecDeque};

/// Names a packet in a view: its sender, and its number among that sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketKey {
    /// Who sent it first.
    pub origin: NodeId,
    /// Counted from 1 for each sender.
    pub seq: u64,
}

/// What to do with a packet, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineStep {
    /// Its place is likely behind all that was offered before; who waits until then need not undo.
    Offer(PacketKey, Instant),
    /// It stands elsewhere than where it was offered. Carries until when that is for nothing.
    Revoke(PacketKey, Instant),
    /// It is the next one of the order. It is on offer, or not.
    Place(PacketKey),
}

/// A packet without a place.
#[derive(Clone, Copy, Debug)]
struct Item {
    key: PacketKey,
    arrived: Instant,
    free_until: Instant,
    suspected: bool,
}

/// The queues of one view.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// Withheld, by arrival.
    pending: VecDeque<Item>,
    /// On offer, in the order in which they were offered.
    suspicious: VecDeque<Item>,
    /// Places that are known, of packets that are not there.
    sequencing: VecDeque<PacketKey>,
    awaited: BTreeSet<PacketKey>,
    last: Option<(PacketKey, Instant)>,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::mutant::Mutant>,
}

impl Pipeline {
    /// A packet arrived. Two that come within `delta` of each other may have been swapped; without one, nothing is offered.
    pub fn on_data(
        &mut self,
        key: PacketKey,
        arrived: Instant,
        delta: Option<Duration>,
        steps: &mut Vec<PipelineStep>,
    ) {
        let previous = self.last.replace((key, arrived));
        //= P20
        let free_until = arrived + delta.unwrap_or_default();
        let item = Item { key, arrived, free_until, suspected: true };
        if self.awaited.contains(&key) {
            //= P21
            self.withhold(item);
            self.drain(steps);
            return;
        }
        let close = previous.is_some_and(|(_, before)| delta.is_some_and(|delta| arrived.since(before) < delta));
        if delta.is_none() || close {
            //= P22
            self.withhold(item);
            previous.into_iter().for_each(|(previous, _)| self.suspect(previous, steps));
        } else if self.pending.is_empty() {
            //= P23
            self.offer(item, steps);
        } else {
            self.withhold(Item { suspected: false, ..item });
        }
    }

    /// The next place of the order is this packet's.
    pub fn on_order(&mut self, key: PacketKey, steps: &mut Vec<PipelineStep>) {
        self.sequencing.push_back(key);
        self.awaited.insert(key);
        self.drain(steps);
    }

    /// Places whose packets are not there are void.
    pub fn forget_places(&mut self) {
        self.sequencing.clear();
        self.awaited.clear();
    }

    /// What waits for its place, by arrival.
    #[cfg(feature = "mutants")]
    pub fn by_arrival(&self) -> Vec<PacketKey> {
        let mut items: Vec<_> = self.suspicious.iter().chain(&self.pending).collect();
        items.sort_by_key(|item| item.arrived);
        items.into_iter().map(|item| item.key).collect()
    }

    /// The order is closed: what has no place by now gets none here.
    pub fn close(&mut self, steps: &mut Vec<PipelineStep>) {
        //= P44
        if !crate::mutated!(self, OffersLeftOpen) {
            self.take_back(self.suspicious.len(), steps);
        }
        self.pending.clear();
        self.suspicious.clear();
        self.forget_places();
        self.last = None;
    }

    /// How many packets wait for their place here.
    pub fn len(&self) -> usize {
        self.pending.len() + self.suspicious.len()
    }

    /// How many places wait for their packets.
    pub fn awaited(&self) -> usize {
        self.sequencing.len()
    }

    /// Whether neither packets nor places wait.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.sequencing.is_empty()
    }

    fn drain(&mut self, steps: &mut Vec<PipelineStep>) {
        while let Some(key) = self.sequencing.front().copied() {
            if !self.place(key, steps) {
                break;
            }
            self.sequencing.pop_front();
            self.awaited.remove(&key);
        }
        self.release(steps);
    }

    fn place(&mut self, key: PacketKey, steps: &mut Vec<PipelineStep>) -> bool {
        let at = |queue: &VecDeque<Item>| queue.iter().position(|item| item.key == key);
        if let Some(at) = at(&self.pending) {
            //= P24
            self.pending.remove(at);
            self.take_back(self.suspicious.len(), steps);
        } else if let Some(at) = at(&self.suspicious) {
            //= P25
            self.suspicious.remove(at);
            self.take_back(at, steps);
        } else {
            return false;
        }
        steps.push(PipelineStep::Place(key));
        true
    }

    /// What was offered first was shown too early: it is withheld again.
    fn take_back(&mut self, count: usize, steps: &mut Vec<PipelineStep>) {
        if crate::mutated!(self, ConflictsStand) {
            return;
        }
        let behind = self.suspicious.split_off(count);
        let before = std::mem::replace(&mut self.suspicious, behind);
        before.into_iter().rev().for_each(|item| self.withdraw(item, steps));
    }

    fn withdraw(&mut self, item: Item, steps: &mut Vec<PipelineStep>) {
        steps.push(PipelineStep::Revoke(item.key, item.free_until));
        self.withhold(Item { suspected: true, ..item });
    }

    /// What is withheld only because of others need not wait for its place any more.
    fn release(&mut self, steps: &mut Vec<PipelineStep>) {
        //= P26
        while self.pending.front().is_some_and(|item| !item.suspected) {
            self.pending.pop_front().into_iter().for_each(|item| self.offer(item, steps));
        }
    }

    fn offer(&mut self, item: Item, steps: &mut Vec<PipelineStep>) {
        steps.push(PipelineStep::Offer(item.key, item.free_until));
        self.suspicious.push_back(item);
    }

    fn withhold(&mut self, item: Item) {
        //= P27
        let behind = self.pending.iter().rposition(|other| other.arrived <= item.arrived).map_or(0, |at| at + 1);
        self.pending.insert(behind, item);
    }

    /// The packet before one that came too soon may stand behind it.
    fn suspect(&mut self, key: PacketKey, steps: &mut Vec<PipelineStep>) {
        if let Some(item) = self.pending.iter_mut().rfind(|item| item.key == key) {
            item.suspected = true;
        } else if self.suspicious.back().is_some_and(|item| item.key == key) {
            self.suspicious.pop_back().into_iter().for_each(|item| self.withdraw(item, steps));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;
    use std::collections::BTreeMap;

    const DELTA: Duration = Duration::from_micros(100);

    /// Writes packets as letters: `a` to `z` by sender 1 to 26, each with its first packet.
    struct Play {
        pipeline: Pipeline,
        now: u64,
        delta: Option<Duration>,
        steps: Vec<PipelineStep>,
    }

    const fn key(letter: char) -> PacketKey {
        PacketKey { origin: NodeId(letter as u16), seq: 1 }
    }

    impl Play {
        fn new() -> Self {
            Self { pipeline: Pipeline::default(), now: 1_000, delta: Some(DELTA), steps: Vec::new() }
        }

        /// Plays a script, a word each: `a+50` a arrives 50 us after the last, `=a` the next place is a's.
        fn play(&mut self, script: &str) -> String {
            for word in script.split_whitespace() {
                match word.strip_prefix('=') {
                    Some(letters) => letters.chars().for_each(|c| self.pipeline.on_order(key(c), &mut self.steps)),
                    None => {
                        let (letter, after) = word.split_once('+').unwrap();
                        self.now += after.parse::<u64>().unwrap();
                        let arrived = Instant(self.now * 1_000);
                        let key = key(letter.chars().next().unwrap());
                        self.pipeline.on_data(key, arrived, self.delta, &mut self.steps);
                    }
                }
            }
            self.told()
        }

        /// `+a` offered, `-a` revoked, `a` placed.
        fn told(&mut self) -> String {
            let letter = |key: PacketKey| char::from(key.origin.0 as u8);
            let words = self.steps.drain(..).map(|step| match step {
                PipelineStep::Offer(key, _) => format!("+{}", letter(key)),
                PipelineStep::Revoke(key, _) => format!("-{}", letter(key)),
                PipelineStep::Place(key) => letter(key).to_string(),
            });
            words.collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn packets_far_apart_are_offered_at_once_and_placed_when_their_orders_come() {
        //= P20 test
        //= P23 test
        let mut play = Play::new();
        assert_eq!(play.play("a+0 b+100 c+500"), "+a +b +c");
        assert_eq!(play.play("=ab =c"), "a b c");
        assert!(play.pipeline.is_empty());
        play.play("d+500");
        let free = |step: &PipelineStep| matches!(step, PipelineStep::Offer(_, until) if *until == Instant(5_100_000));
        play.pipeline.on_data(key('e'), Instant(5_000_000), Some(DELTA), &mut play.steps);
        assert!(play.steps.iter().all(free), "{:?}", play.steps);
    }

    #[test]
    fn two_that_come_close_together_wait_for_their_orders() {
        //= P22 test
        let mut play = Play::new();
        assert_eq!(play.play("a+0 b+99"), "+a -a", "a is taken back for nothing: it is still free");
        assert_eq!(play.play("c+50"), "");
        assert_eq!(play.play("=b"), "b");
        assert_eq!(play.play("=ac"), "a c");
        // One that was placed before is not touched.
        assert_eq!(play.play("d+500 =d e+10"), "+d d");
        assert_eq!(play.play("=e"), "e");
    }

    #[test]
    fn what_waits_behind_a_suspected_one_is_offered_once_that_has_its_place() {
        //= P26 test
        let mut play = Play::new();
        assert_eq!(play.play("a+0 b+50 c+200 d+200"), "+a -a");
        assert_eq!(play.play("=b"), "b", "a is suspected still");
        assert_eq!(play.play("=a"), "a +c +d");
        assert_eq!(play.play("e+200 =cd"), "+e c d");
    }

    #[test]
    fn a_place_before_what_was_offered_takes_it_back_the_latest_first() {
        //= P24 test
        //= P25 test
        let mut play = Play::new();
        assert_eq!(play.play("a+0 b+200 c+200"), "+a +b +c");
        assert_eq!(play.play("=c"), "-b -a c");
        assert_eq!(play.play("=a"), "a");
        assert_eq!(play.play("d+200"), "", "b is withheld and before it");
        assert_eq!(play.play("=b"), "b +d");
        // From the withheld: all that is on offer was shown too early.
        assert_eq!(play.play("e+200 f+200 g+10"), "+e +f -f");
        assert_eq!(play.play("=g"), "-e -d g");
        assert_eq!(play.play("=def"), "d e f");
    }

    #[test]
    fn the_packet_that_was_waited_for_goes_before_all_that_is_on_offer() {
        //= P21 test
        let mut play = Play::new();
        assert_eq!(play.play("a+0 =xy b+200"), "+a +b");
        assert_eq!(play.play("y+200"), "", "x is missing still");
        assert_eq!(play.play("x+200"), "-b -a x y");
        assert_eq!(play.pipeline.awaited(), 0);
        assert_eq!(play.play("=ab"), "a b");
    }

    #[test]
    fn what_is_withheld_stands_by_arrival() {
        //= P27 test
        let mut play = Play::new();
        assert_eq!(play.play("a+0 b+200 c+200 d+10"), "+a +b +c -c");
        assert_eq!(play.play("=d"), "-b -a d");
        let order: Vec<_> = play.pipeline.pending.iter().map(|item| item.key).collect();
        assert_eq!(order, ['a', 'b', 'c'].map(key));
    }

    #[test]
    fn what_is_on_offer_is_taken_back_when_the_order_is_closed() {
        //= P44 test
        let mut play = Play::new();
        assert_eq!(play.play("a+0 b+200 =x c+200"), "+a +b +c");
        play.pipeline.close(&mut play.steps);
        assert_eq!(play.told(), "-c -b -a");
        assert!(play.pipeline.is_empty());
        assert_eq!(play.play("d+0"), "+d", "nothing is remembered");
    }

    #[test]
    fn without_prediction_nothing_is_offered_and_with_none_to_fear_nothing_is_withheld() {
        let mut play = Play { delta: None, ..Play::new() };
        assert_eq!(play.play("a+0 b+10000 c+10 =bac"), "b a c");
        let mut play = Play { delta: Some(Duration::ZERO), ..Play::new() };
        assert_eq!(play.play("a+0 b+0 c+0 =bac"), "+a +b +c -a b -c a c");
    }

    /// Chance: whatever comes in whatever order, every packet gets its place in the order's order, offers are closed once, and
    /// no place is given while something offered before is still open.
    #[test]
    fn every_play_keeps_the_rules_of_offers() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let count = rng.between(1, 20) as usize;
            let mut order: Vec<PacketKey> =
                (0..count).map(|n| PacketKey { origin: NodeId(n as u16), seq: 1 }).collect();
            for at in 1..count {
                if rng.chance(0.3) {
                    order.swap(at, at - 1);
                }
            }
            let (mut pipeline, mut steps, mut now) = (Pipeline::default(), Vec::new(), 0);
            let mut arriving: VecDeque<_> =
                (0..count).map(|n| PacketKey { origin: NodeId(n as u16), seq: 1 }).collect();
            let mut ordering: VecDeque<_> = order.iter().copied().collect();
            while !arriving.is_empty() || !ordering.is_empty() {
                if rng.chance(0.5) {
                    ordering.pop_front().into_iter().for_each(|key| pipeline.on_order(key, &mut steps));
                } else if let Some(key) = arriving.pop_front() {
                    now += rng.below(200);
                    pipeline.on_data(key, Instant(now * 1_000), Some(DELTA), &mut steps);
                }
            }
            judge(seed, &steps, &order);
            assert!(pipeline.is_empty());
        }
    }

    fn judge(seed: u64, steps: &[PipelineStep], order: &[PacketKey]) {
        let (mut open, mut placed): (Vec<PacketKey>, Vec<PacketKey>) = (Vec::new(), Vec::new());
        let mut offers: BTreeMap<PacketKey, u32> = BTreeMap::new();
        for step in steps {
            match step {
                PipelineStep::Offer(key, _) => {
                    assert!(!open.contains(key) && !placed.contains(key), "seed {seed}: {key:?} offered twice");
                    *offers.entry(*key).or_default() += 1;
                    open.push(*key);
                }
                PipelineStep::Revoke(key, _) => {
                    open.remove(open.iter().position(|other| other == key).expect("open"));
                }
                PipelineStep::Place(key) => {
                    let at = open.iter().position(|other| other == key);
                    assert!(at.is_none_or(|at| at == 0), "seed {seed}: {key:?} before what was offered first");
                    assert!(at.is_some() || open.is_empty(), "seed {seed}: {key:?} behind what is on offer");
                    open.retain(|other| other != key);
                    placed.push(*key);
                }
            }
        }
        assert!(open.is_empty() && placed == order, "seed {seed}");
    }
}

//! How far the others are: round trips, measured by what members send each other anyway.
//!
//! A JOIN or a beacon says what its sender's clock shows, and for each node that it hears what that node's clock should show
//! by now if nothing took time. What the node's own clock shows more when it reads that is the round trip. Clocks need not
//! agree, and however long a packet was held counts for nothing.
use bytes::{BufMut, BytesMut};
use consort_types::{Duration, Instant, MemberId, NodeId};
use consort_wire::{Malformed, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

/// The longest way that timers follow, one way; whatever is measured or told beyond it does not count.
pub const DELAY_MOST: Duration = Duration::from_secs(1);

/// A shorter way counts as none: the timers for a LAN leave room for it.
pub const DELAY_LEAST: Duration = Duration::from_millis(5);

/// How long a round trip counts at least; it counts twice as long at most.
const WINDOW: Duration = Duration::from_secs(5);

/// How long the ones before a gathering count at most: longer than what is paused or busy makes all of them longer.
const AFRESH: Duration = Duration::from_secs(2);

/// A packet that was read later than this after it came says nothing about the way.
const READ_LATE: Duration = Duration::from_millis(5);

/// Clocks of different hosts do not run equally fast: so much is forgiven where an echo is ahead, in microseconds.
const AHEAD: i32 = -1_000;

/// What JOINs and beacons carry so that their receivers learn how far they are.
///
/// Bytes: stamp 4, delay 4, counted echoes (6 each: node 2, clock 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// What the sender's clock shows, in microseconds, of which only the lowest 32 bits are told. 0 says nothing.
    pub stamp: u32,
    /// How far the farthest member is that the sender is in a view with or gathers with, one way, in microseconds. 0 in a LAN.
    pub delay: u32,
    /// What the clocks of others show as the sender knows them: what they told last, and the time since.
    pub echoes: BTreeMap<NodeId, u32>,
}

/// The bytes of clocks without echoes, and of one echo.
pub(crate) const CLOCKS_LEN: usize = 10;
pub(crate) const ECHO_LEN: usize = 6;

impl Clocks {
    pub(crate) fn encode(&self, head: &mut BytesMut) {
        head.put_u32(self.stamp);
        head.put_u32(self.delay);
        head.put_count(self.echoes.len());
        for (node, clock) in &self.echoes {
            head.put_u16(node.0);
            head.put_u32(*clock);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (stamp, delay) = (reader.u32("stamp")?, reader.u32("delay")?);
        let n = reader.count(ECHO_LEN, "echoes")?;
        let echo = |_| Ok((NodeId(reader.u16("node")?), reader.u32("clock")?));
        let echoes = (0..n).map(echo).collect::<Result<Vec<_>, _>>()?;
        if !echoes.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(reader.bad("echoes"));
        }
        Ok(Self { stamp, delay, echoes: echoes.into_iter().collect() })
    }
}

/// How far the others are, as far as is known here.
#[derive(Clone, Debug)]
pub struct Distances {
    me: MemberId,
    others: BTreeMap<MemberId, Way>,
    /// How far the farthest is that matters now, by what was measured here.
    measured: Duration,
}

/// The way to one other member.
#[derive(Clone, Debug)]
struct Way {
    /// What its clock showed last, and when that was read.
    stamp: (u32, Instant),
    /// The farthest way that it told of.
    told: Duration,
    /// The least round trip of this window, and of the one before.
    least: Option<Duration>,
    before: Option<Duration>,
    begun: Instant,
    /// From when on nothing counts that is older than this window, where a gathering began in it.
    afresh: Option<Instant>,
}

impl Way {
    const fn new(stamp: u32, now: Instant) -> Self {
        Self { stamp: (stamp, now), told: Duration::ZERO, least: None, before: None, begun: now, afresh: None }
    }

    /// The least of the last round trips counts: whatever is paused makes some longer, but nothing makes one shorter.
    fn note(&mut self, now: Instant, took: Duration) {
        //= M59
        let age = now.since(self.begun);
        if age >= WINDOW {
            self.before = self.least.filter(|_| age < WINDOW * 2);
            (self.least, self.begun, self.afresh) = (None, now, None);
        }
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        if self.afresh.is_some_and(|at| now >= at) {
            (self.before, self.afresh) = (None, None);
        }
    }

    fn measure_anew(&mut self, now: Instant) {
        // Gatherings that fail one after the other are one.
        if self.afresh.is_none() {
            self.before = self.before.into_iter().chain(self.least).min();
            (self.least, self.begun, self.afresh) = (None, now, Some(now + AFRESH));
        }
    }

    fn one_way(&self) -> Duration {
        self.least.into_iter().chain(self.before).min().unwrap_or_default() / 2
    }
}

impl Distances {
    pub(crate) const fn new(me: MemberId) -> Self {
        Self { me, others: BTreeMap::new(), measured: Duration::ZERO }
    }

    /// Notes what a packet tells that has come at `at`, and is read now.
    pub fn note(&mut self, now: Instant, at: Instant, from: MemberId, clocks: &Clocks) {
        //= M59
        if clocks.stamp == 0 {
            return;
        }
        let round_trip = clocks.echoes.get(&self.me.node).and_then(|echo| self.since(now, *echo));
        self.others.retain(|member, _| member.node != from.node || *member == from);
        let way = self.others.entry(from).or_insert(Way::new(clocks.stamp, now));
        way.told = Duration::from_micros(clocks.delay.into()).min(DELAY_MOST);
        if now.since(at) > READ_LATE {
            return;
        }
        way.stamp = (clocks.stamp, now);
        if let Some(took) = round_trip {
            way.note(now, took);
        }
    }

    /// How long ago this node's clock showed that, if a packet can have taken so long.
    fn since(&self, now: Instant, echo: u32) -> Option<Duration> {
        //= M59
        let micros = self.stamp(now).wrapping_sub(echo).cast_signed();
        let took = Duration::from_micros(u64::try_from(micros.max(0)).unwrap_or_default());
        (micros >= AHEAD && took <= DELAY_MOST * 2).then_some(took)
    }

    /// What this node's clock shows. Each incarnation has a clock of its own, for what an earlier one told says nothing of this.
    fn stamp(&self, now: Instant) -> u32 {
        let apart = self.me.incarnation.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((now.0 / 1_000).wrapping_add(apart) as u32).max(1)
    }

    /// What to tell now, of the nodes that are heard.
    pub(crate) fn clocks(&self, now: Instant, heard: &BTreeSet<NodeId>) -> Clocks {
        let heard = self.others.iter().filter(|(member, _)| heard.contains(&member.node));
        let shows = |way: &Way| way.stamp.0.wrapping_add(now.since(way.stamp.1).as_micros() as u32);
        let echoes = heard.map(|(member, way)| (member.node, shows(way))).collect();
        Clocks { stamp: self.stamp(now), delay: self.measured.as_micros() as u32, echoes }
    }

    /// A gathering begins: ways may be others than before.
    pub fn measure_anew(&mut self, now: Instant) {
        //= M59
        self.others.values_mut().for_each(|way| way.measure_anew(now));
    }

    /// These members matter from now on: how far the farthest two of them are, one way, by what was measured here or told by
    /// one of them. Nothing in a LAN.
    pub fn among(&mut self, members: &[MemberId]) -> Duration {
        //= M59
        let ways = || members.iter().filter_map(|member| self.others.get(member));
        let (measured, told) = (ways().map(Way::one_way).max(), ways().map(|way| way.told).max());
        let far = |way: Option<Duration>| way.filter(|way| *way >= DELAY_LEAST).unwrap_or_default().min(DELAY_MOST);
        self.measured = far(measured);
        self.measured.max(far(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const A: MemberId = MemberId::new(1, 10);
    const B: MemberId = MemberId::new(2, 20);

    /// Two nodes whose clocks began at other times, with a way of so many milliseconds between them.
    struct Pair {
        a: Distances,
        b: Distances,
        now: Instant,
        ahead: Duration,
    }

    impl Pair {
        fn new() -> Self {
            // The lowest 32 bits of microseconds are used up while they talk.
            let now = Instant(4_294_960_000_000);
            Self { a: Distances::new(A), b: Distances::new(B), now, ahead: MS(987_654) }
        }

        /// One tells, and the other hears it so much later; then it is quiet for a while.
        fn tell(&mut self, from_a: bool, way: u64, then: u64) {
            let heard = [NodeId(1), NodeId(2)].into();
            let (sent, came) = (self.now, self.now + MS(way));
            if from_a {
                let clocks = self.a.clocks(sent, &heard);
                self.b.note(came + self.ahead, came + self.ahead, A, &clocks);
            } else {
                let clocks = self.b.clocks(sent + self.ahead, &heard);
                self.a.note(came, came, B, &clocks);
            }
            self.now = came + MS(then);
        }

        fn exchange(&mut self, there: u64, back: u64) -> u64 {
            self.tell(true, there, 170);
            self.tell(false, back, 10);
            self.a.among(&[A, B]).as_millis() as u64
        }
    }

    #[test]
    fn a_round_trip_is_measured_whatever_the_clocks_show_and_however_long_it_was_held() {
        //= M59 test
        let mut pair = Pair::new();
        assert_eq!(pair.exchange(100, 100), 100);
        assert_eq!(pair.exchange(60, 140), 100, "half of both ways");
        assert_eq!(pair.b.among(&[A, B]).as_millis(), 100, "told, where it was not measured");
        assert_eq!(pair.a.among(&[A]), Duration::ZERO);
    }

    #[test]
    fn what_a_lan_and_one_that_is_paused_take_counts_for_nothing() {
        //= M59 test
        let mut pair = Pair::new();
        assert_eq!(pair.exchange(4, 5), 0);
        for paused in [0, 900, 0, 1_500, 300, 0, 900, 900, 0] {
            assert_eq!(pair.exchange(1, 1 + paused), 0, "{paused}");
        }
        assert_eq!(Pair::new().exchange(5, 5), 5);
    }

    #[test]
    fn a_way_that_becomes_longer_is_known_in_two_windows_or_where_a_gathering_begins() {
        //= M59 test
        for gathers in [false, true] {
            let mut pair = Pair::new();
            assert_eq!(pair.exchange(10, 10), 10);
            let begun = pair.now;
            if gathers {
                pair.a.measure_anew(begun);
            }
            while pair.exchange(100, 100) < 100 {}
            let took = pair.now.since(begun);
            assert!(took < if gathers { AFRESH + MS(1_000) } else { WINDOW * 2 + MS(1_000) }, "{took:?}");
            assert_eq!(pair.exchange(20, 20), 20, "and a shorter one at once");
        }
    }

    #[test]
    fn a_packet_that_lay_in_a_queue_says_nothing() {
        //= M59 test
        let mut pair = Pair::new();
        pair.exchange(100, 100);
        let clocks = pair.b.clocks(pair.now + pair.ahead, &[NodeId(1)].into());
        pair.a.note(pair.now + MS(300), pair.now, B, &clocks);
        assert_eq!(pair.a.among(&[A, B]).as_millis(), 100);
    }

    #[test]
    fn no_echo_of_an_earlier_incarnation_and_none_that_cannot_be_counts() {
        //= M59 test
        let (later, now) = (MemberId::new(1, 11), Instant(5_000_000_000));
        let old = Distances::new(A).stamp(now + MS(0));
        let mut me = Distances::new(later);
        let mut told = |echo, delay| {
            let clocks = Clocks { stamp: 1, delay, echoes: [(NodeId(1), echo)].into() };
            me.note(now, now, B, &clocks);
            me.among(&[later, B])
        };
        assert_eq!(told(old, 0), Duration::ZERO);
        let mine = Distances::new(later).stamp(now);
        assert_eq!(told(mine.wrapping_sub(3_000_000), 0), Duration::ZERO, "too long ago");
        assert_eq!(told(mine.wrapping_add(500_000), 0), Duration::ZERO, "not yet");
        assert_eq!(told(0, u32::MAX), DELAY_MOST);
        assert_eq!(told(mine.wrapping_sub(400_000), 0).as_millis(), 200);
    }
}

//! What happens to a frame on its way. Pure: time and chance are handed in, so that one model serves the simulator and
//! the real-time switch of `cargo chaos lines`.
use consort_types::{Duration, Instant, Rng};
use smallvec::SmallVec;

/// The properties of one direction of a connection. The default is perfect: no delay, no limit, no loss.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// Bits per second; `None` for no limit.
    pub rate: Option<u64>,
    /// What every frame needs on its way, after it was serialised.
    pub delay: Duration,
    /// Up to so much more, chosen anew for each frame: frames overtake each other where they follow more closely.
    pub jitter: Duration,
    /// And so much more on average, now and then far more: drawn from an exponential distribution.
    pub tail: Duration,
    /// Bytes that may wait for a limited rate; a frame that finds no room is dropped. An idle link takes any frame.
    pub queue: usize,
    /// The probability that a frame is lost.
    pub loss: f64,
    /// The probability that a frame arrives twice.
    pub duplicate: f64,
    /// The probability that a frame comes once more much later, up to [`ECHO`] after the first time.
    pub echo: f64,
    /// The probability that a frame is held back so that later ones overtake it.
    pub reorder: f64,
    /// The probability that a frame comes late by up to [`STRAY`], and only then.
    pub stray: f64,
    /// The probability that one bit of a frame is flipped.
    pub corrupt: f64,
    /// Frames that are longer vanish, in bytes: what lies between takes no larger ones and does not say so.
    pub frame_max: usize,
    /// Nothing passes.
    pub cut: bool,
}

impl Default for LinkModel {
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            tail: Duration::ZERO,
            queue: usize::MAX,
            loss: 0.0,
            duplicate: 0.0,
            echo: 0.0,
            reorder: 0.0,
            stray: 0.0,
            corrupt: 0.0,
            frame_max: usize::MAX,
            cut: false,
        }
    }
}

/// A frame that comes out at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// When it arrives.
    pub at: Instant,
    /// Which bit of it to flip (0 is the highest bit of the first byte); always below eight times its length.
    pub flip: Option<usize>,
    /// Whether it comes so late that whoever awaits an acknowledgement has sent it again long before.
    pub stray: bool,
}

/// How often a link did what. Every number but `carried` counts a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames handed in.
    pub carried: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Lost because the link was cut, or too long for it.
    pub cut: u64,
    /// Arrived twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Arrived with a flipped bit.
    pub corrupted: u64,
}

impl LinkCounts {
    /// How many times the link did something else than carry.
    pub const fn faults(&self) -> u64 {
        self.lost + self.overflowed + self.cut + self.duplicated + self.reordered + self.corrupted
    }
}

impl std::ops::Add for LinkCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            carried: self.carried + other.carried,
            lost: self.lost + other.lost,
            overflowed: self.overflowed + other.overflowed,
            cut: self.cut + other.cut,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            corrupted: self.corrupted + other.corrupted,
        }
    }
}

/// How late an echo comes at most.
pub const ECHO: Duration = Duration::from_secs(2);

/// How late a stray comes at most.
pub const STRAY: Duration = Duration::from_secs(8);

/// How long a frame is held back at least by `reorder`, besides what the link's own delays suggest.
const HELD_BACK: Duration = Duration::from_micros(200);

/// One direction of a connection.
#[derive(Clone, Debug)]
pub struct SimLink {
    /// How it behaves; may be changed at any time, and holds for frames handed in from then on.
    pub model: LinkModel,
    rng: Rng,
    idle_at: Instant,
    counts: LinkCounts,
}

impl SimLink {
    /// A link on which nothing is under way. All its chance comes from `rng`.
    pub fn new(model: LinkModel, rng: Rng) -> Self {
        Self { model, rng, idle_at: Instant::ZERO, counts: LinkCounts::default() }
    }

    /// What becomes of a frame of `len` bytes handed in at `now`, which must not run backwards: none, one, two or
    /// three copies, in no particular order.
    pub fn carry(&mut self, now: Instant, len: usize) -> SmallVec<[Copy; 2]> {
        self.counts.carried += 1;
        let mut copies = SmallVec::new();
        if self.model.cut || len > self.model.frame_max {
            self.counts.cut += 1;
            return copies;
        }
        let Some(sent) = self.serialise(now, len) else {
            self.counts.overflowed += 1;
            return copies;
        };
        if self.happens(self.model.loss) {
            self.counts.lost += 1;
            return copies;
        }
        copies.push(self.copy(sent, len));
        if self.happens(self.model.duplicate) {
            self.counts.duplicated += 1;
            copies.push(self.copy(sent, len));
        }
        if self.happens(self.model.echo) {
            self.counts.duplicated += 1;
            let late = sent + self.up_to(ECHO);
            copies.push(self.copy(late, len));
        }
        copies
    }

    /// How often it did what so far.
    pub const fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// When the frame's last bit has left; `None` where the queue has no room for it.
    fn serialise(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(rate) = self.model.rate else { return Some(now) };
        let rate = u128::from(rate.max(1));
        let waiting = self.idle_at.since(now).as_nanos() * rate / 8_000_000_000;
        if waiting > 0 && waiting.saturating_add(len as u128) > self.model.queue as u128 {
            return None;
        }
        let nanos = (len as u128 * 8_000_000_000).div_ceil(rate);
        self.idle_at = self.idle_at.max(now) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(self.idle_at)
    }

    fn copy(&mut self, sent: Instant, len: usize) -> Copy {
        let mut at = sent + self.model.delay + self.up_to(self.model.jitter) + self.tail();
        if self.happens(self.model.reorder) {
            self.counts.reordered += 1;
            at += self.up_to((self.model.delay + self.model.jitter) * 2 + HELD_BACK);
        }
        let stray = self.happens(self.model.stray);
        if stray {
            self.counts.reordered += 1;
            at += self.up_to(STRAY);
        }
        let mut flip = None;
        if len > 0 && self.happens(self.model.corrupt) {
            self.counts.corrupted += 1;
            flip = Some(self.rng.below(len as u64 * 8) as usize);
        }
        Copy { at, flip, stray }
    }

    /// Draws only where there is a choice, so that a perfect link costs nothing.
    fn happens(&mut self, p: f64) -> bool {
        p > 0.0 && self.rng.chance(p)
    }

    fn tail(&mut self) -> Duration {
        match self.model.tail.as_nanos() as u64 {
            0 => Duration::ZERO,
            mean => Duration::from_nanos(self.rng.exponential(mean as f64) as u64),
        }
    }

    fn up_to(&mut self, span: Duration) -> Duration {
        match span.as_nanos() as u64 {
            0 => Duration::ZERO,
            nanos => Duration::from_nanos(self.rng.below(nanos.saturating_add(1))),
        }
    }
}

/// Flips the bit that [`Copy::flip`] names. Beyond the end nothing happens.
pub fn flip(frame: &mut [u8], bit: usize) {
    if let Some(byte) = frame.get_mut(bit / 8) {
        *byte ^= 0x80 >> (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 20_000;

    fn link(model: LinkModel) -> SimLink {
        SimLink::new(model, Rng::new(3))
    }

    fn micros(n: u64) -> Instant {
        Instant(n * 1_000)
    }

    /// One frame of 100 bytes every 100 µs; the arrivals of each.
    fn run(link: &mut SimLink) -> Vec<SmallVec<[Copy; 2]>> {
        (0..FRAMES).map(|i| link.carry(micros(100 * i), 100)).collect()
    }

    #[test]
    fn a_perfect_link_carries_everything_at_once() {
        let mut link = link(LinkModel::default());
        let arrived = run(&mut link);
        let expected = (0..FRAMES).map(|i| Copy { at: micros(100 * i), flip: None, stray: false });
        assert!(arrived.iter().zip(expected).all(|(got, want)| got[..] == [want]));
        assert_eq!((link.counts().carried, link.counts().faults()), (FRAMES, 0));
    }

    #[test]
    fn frames_too_long_for_a_link_vanish() {
        let mut link = link(LinkModel { frame_max: 1_000, ..LinkModel::default() });
        let copies = [1_001, 1_000, 9_000, 60].map(|len| link.carry(micros(0), len).len());
        assert_eq!((copies, link.counts().cut), ([0, 1, 0, 1], 2));
    }

    #[test]
    fn a_rate_spaces_frames_and_a_full_queue_drops_the_tail() {
        let rate = Some(8_000_000); // one byte per microsecond
        let mut link = link(LinkModel { rate, queue: 250, delay: Duration::from_micros(5), ..LinkModel::default() });
        let at: Vec<_> = (0..4).map(|_| link.carry(micros(0), 100).first().map(|copy| copy.at)).collect();
        assert_eq!(at, [Some(micros(105)), Some(micros(205)), None, None]);
        assert_eq!(link.carry(micros(60), 100)[0].at, micros(305), "140 bytes wait, 100 more have room");
        assert_eq!(link.carry(micros(1_000), 9_000)[0].at, micros(10_005), "an idle link takes any frame");
        assert_eq!(link.counts().overflowed, 2);
    }

    #[test]
    fn loss_and_duplication_happen_as_often_as_asked() {
        let mut link = link(LinkModel { loss: 0.3, duplicate: 0.1, ..LinkModel::default() });
        let arrived = run(&mut link);
        let count = |n: usize| arrived.iter().filter(|copies| copies.len() == n).count() as u64;
        assert_eq!((count(0), count(2)), (link.counts().lost, link.counts().duplicated));
        assert!((5_700..6_300).contains(&count(0)), "{}", count(0));
        assert!((1_250..1_550).contains(&count(2)), "{}", count(2));
    }

    #[test]
    fn a_stray_comes_once_and_late() {
        let mut link = link(LinkModel { stray: 0.02, ..LinkModel::default() });
        let arrived = run(&mut link);
        assert!(arrived.iter().all(|copies| copies.len() == 1));
        let late = arrived.iter().zip(0..).map(|(copies, i)| copies[0].at.since(micros(100 * i)));
        let late: Vec<_> = late.filter(|late| !late.is_zero()).collect();
        assert!(
            (300..500).contains(&late.len()) && late.iter().max() > Some(&Duration::from_secs(7)),
            "{}",
            late.len()
        );
    }

    fn overtaken(model: LinkModel) -> usize {
        let at: Vec<_> = run(&mut link(model)).iter().map(|copies| copies[0].at).collect();
        at.windows(2).filter(|pair| pair[1] < pair[0]).count()
    }

    #[test]
    fn frames_overtake_by_reordering_and_by_jitter_larger_than_their_spacing() {
        let (near, far) = (Duration::from_micros(90), Duration::from_micros(500));
        assert_eq!(overtaken(LinkModel { jitter: near, ..LinkModel::default() }), 0);
        assert!(overtaken(LinkModel { jitter: far, ..LinkModel::default() }) > 1_000);
        assert!(overtaken(LinkModel { reorder: 0.2, ..LinkModel::default() }) > 1_000);
    }

    #[test]
    fn jitter_stays_in_its_bounds() {
        let delay = Duration::from_micros(30);
        let mut link = link(LinkModel { delay, jitter: delay, ..LinkModel::default() });
        let late = run(&mut link).into_iter().zip(0..).map(|(copies, i)| copies[0].at.since(micros(100 * i)));
        assert!(late.into_iter().all(|late| (delay..=delay * 2).contains(&late)));
    }

    #[test]
    fn a_tail_is_as_long_as_asked_on_average_and_often_far_longer() {
        let (delay, tail) = (Duration::from_micros(30), Duration::from_micros(20));
        let mut link = link(LinkModel { delay, tail, ..LinkModel::default() });
        let late = run(&mut link).into_iter().zip(0..).map(|(copies, i)| copies[0].at.since(micros(100 * i)));
        let late: Vec<_> = late.map(|late| late.as_secs_f64() * 1e6 - 30.0).collect();
        let mean = late.iter().sum::<f64>() / FRAMES as f64;
        let beyond = late.iter().filter(|late| **late > 60.0).count() as f64 / FRAMES as f64;
        assert!(late.iter().all(|late| *late >= -1e-6) && (19.5..20.5).contains(&mean), "{mean}");
        assert!((0.045..0.055).contains(&beyond), "1 in e^3 is three times the mean: {beyond}");
    }

    #[test]
    fn a_flipped_bit_lies_in_the_frame_and_changes_it_once() {
        let mut link = link(LinkModel { corrupt: 0.5, ..LinkModel::default() });
        let flips: Vec<_> = run(&mut link).iter().filter_map(|copies| copies[0].flip).collect();
        assert_eq!(flips.len() as u64, link.counts().corrupted);
        assert!((9_700..10_300).contains(&flips.len()));
        for bit in flips {
            let mut frame = [0; 100];
            flip(&mut frame, bit);
            assert_eq!(frame.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        }
        assert!(link.carry(micros(10_000_000), 0)[0].flip.is_none(), "an empty frame has no bit");
    }

    #[test]
    fn an_echo_comes_later_and_once() {
        let mut link = link(LinkModel { echo: 1.0, ..LinkModel::default() });
        let copies = link.carry(Instant::ZERO, 100);
        assert_eq!((copies.len(), copies[0].at), (2, Instant::ZERO));
        assert!(copies[1].at > Instant::ZERO && copies[1].at <= Instant::ZERO + ECHO);
    }

    #[test]
    fn nothing_passes_a_cut_until_it_heals() {
        let mut link = link(LinkModel { cut: true, ..LinkModel::default() });
        assert!(link.carry(micros(0), 100).is_empty());
        link.model.cut = false;
        assert_eq!(link.carry(micros(1), 100).len(), 1);
        assert_eq!(link.counts().cut, 1);
    }

    #[test]
    fn the_same_seed_gives_the_same_fate() {
        let model = LinkModel { loss: 0.2, duplicate: 0.2, reorder: 0.2, corrupt: 0.2, ..LinkModel::default() };
        assert_eq!(run(&mut link(model.clone())), run(&mut link(model)));
    }
}

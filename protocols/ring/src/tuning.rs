//! How the windows follow what the ring can take: members put signs on the token, the representative turns those of one
//! rotation into the windows of the next.
use crate::config::{RingConfig, WindowTuning};
use crate::load::{RotationSigns, SentLoad};
use consort_types::Duration;

/// How long the oldest packet waited in this node's sockets that it has taken since its last visit, and whether any found
/// no room there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketBacklog {
    /// The longest wait.
    pub waited: Duration,
    /// Packets found no room.
    pub overflowed: bool,
}

impl SocketBacklog {
    /// What it says of a ring that sends so much in a rotation of such a length.
    pub fn signs(self, config: &RingConfig, rotation: Duration, sent: SentLoad) -> RotationSigns {
        //= R39
        let rotation = rotation.as_nanos().max(1);
        // What came in while the oldest waited is what the queue held.
        let depth = (u128::from(sent.bytes) * self.waited.as_nanos().min(rotation) / rotation) as usize;
        let room = config.receive_room;
        RotationSigns {
            deep: depth > room / 2,
            overflowed: self.overflowed || depth > room - room / 8,
            ..RotationSigns::default()
        }
    }
}

/// What the last rotation was like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RotationSample {
    /// What members saw.
    pub signs: RotationSigns,
    /// How many packets were sent in it.
    pub packets: u32,
    /// How long it took.
    pub took: Duration,
    /// How long they take, smoothed.
    pub usual: Duration,
    /// After how long a token is called lost.
    pub token_loss: Duration,
}

/// What the representative remembers between rotations.
#[derive(Clone, Debug)]
pub(crate) struct Tuner {
    /// The share of packets that were lost, smoothed, in 65536ths.
    loss: u32,
    /// For how many rotations signs speak of the windows before.
    settles: u32,
    /// The window that was too large, and is approached with care.
    ceiling: Option<u32>,
    /// How many rotations a step takes near the ceiling.
    patience: u32,
    /// Rotations in a row in which all was well and more was wanted.
    clean: u32,
    /// The shortest rotation there was: the network's delays, and hardly anything else.
    shortest: Duration,
}

/// For so many rotations after a window was lowered, losses are those of the larger one: asked for a rotation later.
const SETTLES: u32 = 4;
/// A fiftieth of all packets lost is too much. Less costs less than smaller windows would.
const LOSS_MAX: u32 = 65_536 / 50;
/// In how many rotations one step is made towards a ceiling, at first and at most.
const PATIENCE: (u32, u32) = (16, 1024);
/// A rotation so many times the shortest spends little on anything but data.
const FULL: u32 = 8;
/// One that takes so many times longer than is worth filling is too long.
const TOO_LONG: u32 = 4;

impl Default for Tuner {
    fn default() -> Self {
        let (patience, _) = PATIENCE;
        Self { loss: 0, settles: 0, ceiling: None, patience, clean: 0, shortest: Duration::MAX }
    }
}

impl Tuner {
    /// The personal window of the next rotation, in packets.
    pub fn tune(&mut self, config: &RingConfig, personal: u32, last: RotationSample) -> u32 {
        //= R40
        let Some(tuning) = config.windows.tuning else { return personal };
        if !last.took.is_zero() {
            self.shortest = self.shortest.min(last.took);
        }
        self.note_loss(last);
        let next = if self.settles > 0 {
            self.settles -= 1;
            personal
        } else if last.signs.overflowed || self.loss > LOSS_MAX {
            self.lower(config, personal)
        } else if last.usual > self.too_long(last, tuning) {
            self.clean = 0;
            personal - personal / 16
        } else {
            self.raise(personal, last, self.worth_filling(last, tuning))
        };
        next.clamp(tuning.least, tuning.most)
    }

    fn note_loss(&mut self, last: RotationSample) {
        let sent = last.packets.max(1);
        let now = u32::from(last.signs.lost).min(sent) as u64 * 65_536 / u64::from(sent);
        self.loss = self.loss - self.loss / 8 + now as u32 / 8;
    }

    fn lower(&mut self, config: &RingConfig, personal: u32) -> u32 {
        let (first, most) = PATIENCE;
        let again = self.ceiling.is_some_and(|ceiling| personal > ceiling - ceiling / 4);
        self.patience = if again { (self.patience * 2).min(most) } else { first };
        self.ceiling = Some(personal);
        (self.settles, self.loss, self.clean) = (SETTLES, 0, 0);
        if crate::mutated!(config, WindowNeverLowered) { personal } else { personal - personal.div_ceil(4) }
    }

    fn raise(&mut self, personal: u32, last: RotationSample, worth_filling: Duration) -> u32 {
        let signs = last.signs;
        if signs.deep || signs.lost > 0 || !signs.hungry || last.usual >= worth_filling {
            return personal;
        }
        self.clean += 1;
        let near = self.ceiling.is_some_and(|ceiling| personal >= ceiling - ceiling / 8);
        if !near {
            return personal + (personal / 16).max(1);
        }
        if self.ceiling.is_some_and(|ceiling| personal > ceiling + ceiling / 8) {
            (self.ceiling, self.patience) = (None, PATIENCE.0);
        }
        personal + u32::from(self.clean.is_multiple_of(self.patience))
    }

    /// A shorter rotation is worth filling: most of it may be spent on passing the token.
    fn worth_filling(&self, last: RotationSample, tuning: WindowTuning) -> Duration {
        let by_delays = self.shortest.min(last.token_loss) * FULL;
        // The token must stay far from being called lost, unless the network's delays alone bring it near.
        let bound = (last.token_loss / 16).max(self.shortest.min(last.token_loss) * 2);
        tuning.brisk.max(by_delays).min(bound)
    }

    fn too_long(&self, last: RotationSample, tuning: WindowTuning) -> Duration {
        self.worth_filling(last, tuning) * TOO_LONG
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Windows;
    use consort_types::NodeId;

    const HUNGRY: RotationSigns = RotationSigns { hungry: true, deep: false, overflowed: false, lost: 0 };

    fn config() -> RingConfig {
        RingConfig::new(NodeId(1), vec![NodeId(1), NodeId(2)])
    }

    fn rotation(signs: RotationSigns) -> RotationSample {
        let took = Duration::from_micros(500);
        RotationSample { signs, packets: 500, took, usual: took, token_loss: config().timers.token_loss }
    }

    /// The window after so many rotations like this.
    fn after(tuner: &mut Tuner, from: u32, rotations: u32, last: RotationSample) -> u32 {
        (0..rotations).fold(from, |personal, _| tuner.tune(&config(), personal, last))
    }

    #[test]
    fn signs_add_up_travel_as_flags_and_unknown_flags_are_refused() {
        //= R39 test
        let lost = RotationSigns { lost: 7, deep: true, ..RotationSigns::default() };
        let both = HUNGRY.and(lost).and(RotationSigns { lost: 3, overflowed: true, ..RotationSigns::default() });
        assert_eq!(both, RotationSigns { hungry: true, deep: true, overflowed: true, lost: 7 });
        assert_eq!(RotationSigns::new(both.flags(), 7), Some(both));
        assert_eq!(RotationSigns::new(8, 0), None);
    }

    #[test]
    fn a_queue_is_as_deep_as_what_came_in_while_its_oldest_packet_waited() {
        //= R39 test
        let config = RingConfig { receive_room: 1_000_000, ..config() };
        let (rotation, sent) = (Duration::from_millis(10), SentLoad { packets: 900, bytes: 1_200_000 });
        let signs = |waited_ms| {
            let backlog = SocketBacklog { waited: Duration::from_millis(waited_ms), overflowed: false };
            let signs = backlog.signs(&config, rotation, sent);
            (signs.deep, signs.overflowed)
        };
        assert_eq!([signs(4), signs(5), signs(8)], [(false, false), (true, false), (true, true)]);
        let full = SocketBacklog { overflowed: true, ..SocketBacklog::default() };
        assert!(full.signs(&config, Duration::ZERO, sent).overflowed);
    }

    #[test]
    fn windows_rise_only_while_somebody_wants_more_and_nobody_suffers() {
        //= R40 test
        let mut tuner = Tuner::default();
        assert_eq!(after(&mut tuner, 180, 100, rotation(HUNGRY)), 320, "up to the bound");
        let others = [
            RotationSigns { hungry: false, ..HUNGRY },
            RotationSigns { deep: true, ..HUNGRY },
            RotationSigns { lost: 1, ..HUNGRY },
        ];
        for signs in others {
            assert_eq!(after(&mut Tuner::default(), 180, 3, rotation(signs)), 180, "{signs:?}");
        }
    }

    #[test]
    fn windows_fall_when_a_queue_runs_over_or_much_is_lost_and_then_settle() {
        //= R40 test
        let over = rotation(RotationSigns { overflowed: true, ..HUNGRY });
        let mut tuner = Tuner::default();
        assert_eq!(after(&mut tuner, 180, 1, over), 135);
        assert_eq!(after(&mut tuner, 135, SETTLES, over), 135, "these signs are of the larger window");
        assert_eq!(after(&mut tuner, 135, 200, over), 20, "down to the bound");
        let lossy = |lost| rotation(RotationSigns { lost, ..HUNGRY });
        assert!(after(&mut Tuner::default(), 180, 20, lossy(30)) < 180);
        assert_eq!(after(&mut Tuner::default(), 180, 1_000, lossy(5)), 180, "one in a hundred is borne");
    }

    #[test]
    fn a_window_that_was_too_large_is_approached_ever_more_slowly() {
        //= R40 test
        let over = rotation(RotationSigns { overflowed: true, ..HUNGRY });
        let mut tuner = Tuner::default();
        let mut last = 0;
        for _ in 0..3 {
            let mut personal = after(&mut tuner, 180, 1, over);
            let mut rotations = 0;
            while personal < 180 {
                personal = tuner.tune(&config(), personal, rotation(HUNGRY));
                rotations += 1;
            }
            assert!(rotations > last, "{rotations} after {last}");
            last = rotations;
        }
        assert!(last > 1_000, "{last}");
    }

    #[test]
    fn rotations_that_last_long_are_made_shorter() {
        //= R40 test
        let slow = Duration::from_millis(40);
        let mut tuner = Tuner::default();
        after(&mut tuner, 180, 1, rotation(RotationSigns::default()));
        let long = RotationSample { took: slow, usual: slow, ..rotation(HUNGRY) };
        assert!(after(&mut tuner, 180, 10, long) < 120);
        let fixed = RingConfig { windows: Windows { tuning: None, ..Windows::default() }, ..config() };
        assert_eq!(tuner.tune(&fixed, 180, long), 180);
    }

    #[test]
    fn whatever_a_token_says_windows_stay_within_their_bounds() {
        //= R42 test
        let w = Windows::default();
        let (least, most) = (w.tuned(0, 1472), w.tuned(u32::MAX, 1472));
        assert_eq!([least.personal, least.global, least.accelerated], [20, 60, 15]);
        assert_eq!([most.personal, most.global, most.accelerated], [320, 960, 240]);
        assert_eq!(w.tuned(180, 1472), w);
        assert_eq!(w.largest(), most);
        assert_eq!(w.tuned(90, 1472).global_bytes, 384 << 10);
        assert_eq!(Windows::SPREAD.tuned(3, 1472), Windows::SPREAD);
        let tiny = Windows { personal_bytes: 2_000, global_bytes: 2_000, ..w };
        assert_eq!((tiny.tuned(20, 1472).personal_bytes, tiny.tuned(20, 1472).global_bytes), (1472, 1472));
    }
}

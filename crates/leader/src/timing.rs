//! How long a lease lasts, and how long a successor waits.
use std::time::Duration;

/// The shortest lease, and the longest.
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(3_600);
/// The worst clocks that are borne: one second in four.
const DRIFT_MAX: u32 = 250_000;

/// How long a lease lasts, and how well clocks keep time. All candidates of a group must say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    drift_ppm: u32,
}

/// Why a [`Timing`] is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The lease is too short or too long.
    #[error(
        "a lease of {given:?} is out of range: choose 100 ms to one hour, and several times what a view change takes"
    )]
    Lease {
        /// What was given.
        given: Duration,
    },
    /// The clocks are too bad.
    #[error(
        "clocks that err by {given} millionths are out of range: choose 0 to 250000; 1000 suits machines that run NTP"
    )]
    Drift {
        /// What was given.
        given: u32,
    },
}

impl Default for Timing {
    /// Two seconds, and clocks that err by at most one in a thousand.
    fn default() -> Self {
        Self { lease: Duration::from_secs(2), drift_ppm: 1_000 }
    }
}

impl Timing {
    /// A lease of this length, 100 ms to 1 h, among clocks that run too fast or too slow by at most so many millionths.
    ///
    /// # Errors
    /// [`TimingError`] names what is out of range.
    pub fn new(lease: Duration, drift_ppm: u32) -> Result<Self, TimingError> {
        if !(LEAST..=MOST).contains(&lease) {
            return Err(TimingError::Lease { given: lease });
        }
        if drift_ppm > DRIFT_MAX {
            return Err(TimingError::Drift { given: drift_ppm });
        }
        Ok(Self { lease, drift_ppm })
    }

    /// How long a lease lasts.
    pub const fn lease(self) -> Duration {
        self.lease
    }

    /// How long a successor waits: as long as a lease that a slow clock measures, on a fast clock.
    pub fn wait(self) -> Duration {
        //= L07
        let (slow, fast) = (1_000_000 - u128::from(self.drift_ppm), 1_000_000 + u128::from(self.drift_ppm));
        let nanos = (self.lease.as_nanos() * fast).div_ceil(slow) + 1;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// When a lease is renewed, counted from its beginning.
    pub(crate) fn renew(self) -> Duration {
        self.lease / 4
    }
}

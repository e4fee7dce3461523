//! How long the token takes to go round, asked of a daemon again and again while a round runs.
use super::job::Go;
use super::native::said;
use consort::{Address, Client, ConnectOptions, Status};
use consort_daemon::clock::now_ns;
use consort_daemon::failure::Outcome;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often a daemon is asked: rarely enough to cost nothing.
const EVERY: Duration = Duration::from_millis(25);
/// How long it may take to answer; a saturated one is slow.
const PATIENCE: Duration = Duration::from_secs(5);
/// The name of the figure in a daemon's status.
const FIGURE: &str = "rotation_us";

/// What was heard so far.
#[derive(Debug)]
pub struct Rotations {
    /// When, and how many microseconds.
    heard: Arc<Mutex<Vec<(u64, f64)>>>,
    end: Arc<AtomicBool>,
}

impl Rotations {
    /// Of daemons that know no token.
    pub fn unheard() -> Self {
        Self { heard: Arc::default(), end: Arc::default() }
    }

    /// Asks the daemon at a socket from now on, until this is dropped.
    pub fn watch(socket: PathBuf) -> Outcome<Self> {
        let mut client = Client::connect(&Address::Unix(socket), &ConnectOptions::default()).map_err(said)?;
        let watch = Self::unheard();
        let (heard, end) = (Arc::clone(&watch.heard), Arc::clone(&watch.end));
        std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let Ok(status) = client.status(PATIENCE) else { return };
                if let Some(us) = value(&status) {
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push((now_ns(), us));
                }
                std::thread::sleep(EVERY);
            }
        });
        Ok(watch)
    }

    /// The median within the measured span, in microseconds; `None` where no token goes round.
    pub fn median_us(&self, go: Go) -> Option<f64> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut within: Vec<f64> =
            heard.iter().filter(|(at, _)| (go.from..go.until).contains(at)).map(|(_, us)| *us).collect();
        within.sort_by(f64::total_cmp);
        within.get(within.len() / 2).copied().filter(|us| *us > 0.0)
    }
}

impl Drop for Rotations {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn value(status: &Status) -> Option<f64> {
    status.get(FIGURE)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_what_was_heard_in_the_span_counts() {
        let heard = vec![(5, 999.0), (10, 80.0), (11, 100.0), (12, 90.0), (20, 1.0)];
        let rotations = Rotations { heard: Arc::new(Mutex::new(heard)), end: Arc::default() };
        let go = |from, until| Go { start: 0, from, until };
        assert_eq!(rotations.median_us(go(10, 20)), Some(90.0));
        assert_eq!(rotations.median_us(go(30, 40)), None);
        let status = [("visits", "3"), ("rotation_us", "81")];
        assert_eq!(value(&status.into_iter().collect()), Some(81.0));
        assert_eq!(value(&status.into_iter().take(1).collect()), None);
    }
}

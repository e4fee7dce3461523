//! How late this machine runs a thread that only wants to sleep for a moment: what a process that must answer soon can
//! expect here, whatever it is.
use consort_daemon::clock::now_ns;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the thread wants to sleep each time.
const NAP: Duration = Duration::from_millis(1);

/// Watches from a thread of its own, until this is dropped.
#[derive(Debug)]
pub struct Stalls {
    longest: Arc<AtomicU64>,
}

impl Stalls {
    /// Watches from now on.
    pub fn watch() -> Self {
        let longest = Arc::new(AtomicU64::new(0));
        let watched = Arc::downgrade(&longest);
        std::thread::spawn(move || {
            while let Some(longest) = watched.upgrade() {
                let due = now_ns() + NAP.as_nanos() as u64;
                std::thread::sleep(NAP);
                longest.fetch_max(now_ns().saturating_sub(due), Ordering::Relaxed);
            }
        });
        Self { longest }
    }

    /// The longest delay since this was asked last.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sleeper_is_a_little_late_and_each_delay_is_told_once() {
        let stalls = Stalls::watch();
        let mut told = Duration::ZERO;
        while told.is_zero() {
            std::thread::sleep(NAP);
            told = stalls.longest();
        }
        let watched = Arc::downgrade(&stalls.longest);
        drop(stalls);
        while watched.upgrade().is_some() {
            std::thread::sleep(NAP);
        }
    }
}

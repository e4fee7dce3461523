//! One line on a terminal that says how far long work is.
use crate::clock;
use crate::figures::thousands;
use std::io::{self, IsTerminal, Write};

/// Work that takes no longer shows no line, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;
/// How often the line changes, in nanoseconds.
const STEP: u64 = 200_000_000;

/// The line. Nothing is written where nobody sits.
pub struct Progress {
    began: u64,
    next: u64,
    shown: bool,
    wanted: bool,
}

impl Progress {
    /// Work begins now; `wanted` is false where the user asked for silence.
    pub fn new(wanted: bool) -> Self {
        let began = clock::now_ns();
        Self { began, next: began + PATIENCE, shown: false, wanted: wanted && io::stderr().is_terminal() }
    }

    /// So many messages are done, and this share of the work if that is known.
    pub fn show(&mut self, count: u64, share: Option<f64>) {
        if !self.wanted {
            return;
        }
        let now = clock::now_ns();
        if now < self.next {
            return;
        }
        self.next = now + STEP;
        self.shown = true;
        let mut err = io::stderr();
        // A line that is not seen is no failure of the work.
        let _ =
            write!(err, "\r{}\x1b[K", line(count, share, (now - self.began) as f64 / 1e9)).and_then(|()| err.flush());
    }

    /// Takes the line away, so that something else can be said.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `1,200 messages, 400/s, 40 %, 5 s to go`.
fn line(count: u64, share: Option<f64>, seconds: f64) -> String {
    let rate = thousands((count as f64 / seconds.max(1e-9)) as u64);
    let mut line = format!("{} messages, {rate}/s", thousands(count));
    if let Some(share) = share.filter(|share| *share > 0.0).map(|share| share.min(1.0)) {
        let left = seconds * (1.0 - share) / share;
        line += &format!(", {:.0} %, {left:.0} s to go", share * 100.0);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_count_rate_and_what_is_left() {
        assert_eq!(line(1_200, Some(0.4), 3.0), "1,200 messages, 400/s, 40 %, 4 s to go");
        assert_eq!(line(1_200, None, 3.0), "1,200 messages, 400/s");
        assert_eq!(line(0, Some(0.0), 1.0), "0 messages, 0/s");
        assert_eq!(line(5, Some(1.5), 0.0), "5 messages, 5,000,000,000/s, 100 %, 0 s to go");
    }

    #[test]
    fn who_wants_silence_is_shown_nothing() {
        let mut progress = Progress { wanted: false, next: 0, ..Progress::new(false) };
        progress.show(1, None);
        assert!(!progress.shown);
    }
}

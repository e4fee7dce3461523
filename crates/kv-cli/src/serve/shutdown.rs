//! The end of a server: the last checkpoint of each partition, which is waited for as long as it comes on.
use super::LOOK;
use crate::failure::{Failure, Outcome, note};
use consort_kv::Store;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Checkpoints that have not grown for this time are given up, because the disk hangs.
const STALLED: Duration = Duration::from_secs(30);
/// The time between two lines that say how far they are.
const REMIND: Duration = Duration::from_secs(5);

/// Ends the replicas. If `asked`, a signal has asked for it before, so that the next one ends it at once.
pub(super) fn shut_down(store: &Arc<Store>, stops: &Receiver<()>, asked: bool) -> Outcome {
    let (done, ends) = channel();
    let stopped = Arc::clone(store);
    thread::spawn(move || stopped.stop(|partition, ended| drop(done.send((partition, ended)))));
    let mut left: BTreeSet<usize> = store.all().map(|at| at + 1).collect();
    let (mut failed, mut asked, mut progress) = (BTreeSet::new(), asked, Progress::begin(Instant::now()));
    while !left.is_empty() {
        if let Ok((partition, ended)) = ends.recv_timeout(LOOK) {
            left.remove(&partition);
            if let Err(error) = ended {
                tracing::error!("partition {partition} has not ended well: {error}");
                failed.insert(partition);
            }
        }
        if stops.try_recv().is_ok() && std::mem::replace(&mut asked, true) {
            return Err(lost("ended at once by a second signal", &left));
        }
        if progress.has_stalled(Instant::now(), store.checkpoint_bytes(), left.len()) {
            let why = format!("ended after {STALLED:?} in which no checkpoint grew, so look at the disk of --state");
            return Err(lost(&why, &left));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let failed = list(&failed);
    Err(Failure::new(format!("partition {failed} has not ended well, as the log says; all others are whole")))
}

/// What the end costs while the last checkpoints of these partitions are not written.
fn lost(why: &str, left: &BTreeSet<usize>) -> Failure {
    let left = list(left);
    Failure::new(format!(
        "{why}: the last checkpoint of partition {left} is not written. What it took since the one before is lost here; \
         started again, this server takes it from the others"
    ))
}

fn list(partitions: &BTreeSet<usize>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How the last checkpoints come on.
struct Progress {
    bytes: u64,
    left: usize,
    since: Instant,
    last_line: Instant,
}

impl Progress {
    const fn begin(now: Instant) -> Self {
        Self { bytes: 0, left: 0, since: now, last_line: now }
    }

    /// Whether nothing has changed for too long; says now and then how far they are.
    fn has_stalled(&mut self, now: Instant, bytes: u64, left: usize) -> bool {
        if (bytes, left) != (self.bytes, self.left) {
            (self.bytes, self.left, self.since) = (bytes, left, now);
        }
        if now - self.last_line >= REMIND {
            self.last_line = now;
            note(format!(
                "waits for the last checkpoints: {left} partitions are left, {} MiB are written",
                bytes >> 20
            ));
        }
        now - self.since >= STALLED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_that_grow_are_waited_for_and_others_are_not() {
        let begin = Instant::now();
        let mut progress = Progress::begin(begin);
        let mut stalls = |seconds, bytes, left| progress.has_stalled(begin + Duration::from_secs(seconds), bytes, left);
        assert!(!stalls(0, 1, 2));
        for seconds in 1..100 {
            assert!(!stalls(seconds, seconds, 2), "it grows");
        }
        assert!(!stalls(128, 99, 2) && !stalls(128, 99, 1), "another partition is done");
        assert!(!stalls(157, 99, 1) && stalls(158, 99, 1));
    }
}

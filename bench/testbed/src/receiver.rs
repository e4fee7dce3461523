//! The receiving client of a measurement.
use super::ends;
use super::job::{Go, Job, Received, Report};
use super::message::{Kind, Stamp};
use super::sequence::Sequence;
use super::system::System;
use super::times::Times;
use super::watch::Starter;
use consort_daemon::clock::now_ns;
use consort_daemon::failure::{Failure, Outcome};

/// How often progress is told, in nanoseconds.
const TELL: u64 = 100_000_000;

/// Runs a receiver until the end of its measurement.
pub fn run(job: &Job, starter: &dyn Starter, systems: &[&dyn System]) -> Outcome {
    let outcome = receive_all(job, starter, systems);
    if let Err(failure) = &outcome {
        starter.tell(&Report::Failed(format!("the receiver at node {}: {}", job.index + 1, failure.message)))?;
    }
    outcome
}

fn receive_all(job: &Job, starter: &dyn Starter, systems: &[&dyn System]) -> Outcome {
    let mut listener = ends::listen(job, systems)?;
    starter.tell(&Report::Ready)?;
    let go = starter.go()?;
    let mut seen = Seen::new(job, go)?;
    while !seen.sequence.is_complete() {
        listener.receive(&mut |now, payload| seen.take(now, payload))?;
        if let Some(progress) = seen.progress(now_ns()) {
            starter.tell(&progress)?;
        }
    }
    starter.tell(&Report::Received(seen.finish()))?;
    starter.stay();
    Ok(())
}

/// What came so far.
pub struct Seen {
    go: Go,
    sequence: Sequence,
    times: Times,
    received: Received,
    told: u64,
}

impl Seen {
    /// Nothing yet.
    pub fn new(job: &Job, go: Go) -> Outcome<Self> {
        let sequence = Sequence::new(job.senders, job.digest);
        Ok(Self { go, sequence, times: Times::new()?, received: Received::default(), told: now_ns() })
    }

    /// The next message, which came at this time.
    pub fn take(&mut self, now: u64, payload: &[u8]) -> Outcome {
        let Some(stamp) = Stamp::read(payload) else {
            return Err(Failure::new("a message came that no sender of this measurement sent"));
        };
        self.sequence.take(stamp, payload);
        if stamp.kind == Kind::End {
            return Ok(());
        }
        if stamp.kind == Kind::Measured {
            self.times.record(now.saturating_sub(stamp.at));
        }
        self.count(now, payload.len() as u64);
        Ok(())
    }

    fn count(&mut self, now: u64, len: u64) {
        let received = &mut self.received;
        received.messages += 1;
        if (self.go.from..self.go.until).contains(&now) {
            received.in_span += 1;
            received.bytes_in_span += len;
        }
        if received.first == 0 {
            received.first = now;
        }
        received.last = now;
    }

    /// How far it is, when that is to be told.
    fn progress(&mut self, now: u64) -> Option<Report> {
        if now < self.told + TELL {
            return None;
        }
        self.told = now;
        Some(Report::Progress(self.received.messages))
    }

    /// What all came to.
    pub fn finish(self) -> Received {
        let mut received = Received { times: self.times.pack(), ..self.received };
        self.sequence.finish(&mut received);
        received
    }
}

//! The receiving client of a measurement.
use super::figures::Times;
use super::helper::tell;
use super::job::{Go, Job, Received, Report};
use super::message::{Kind, Stamp};
use super::sender::said;
use super::sequence::Sequence;
use super::watch;
use crate::clock::now_ns;
use crate::failure::{Failure, Outcome, Trying};
use consort::{Address, Client, ConnectOptions, Event, GroupName, Message};

/// How often progress is told, in nanoseconds.
const TELL: u64 = 100_000_000;

/// Runs a receiver until the end of its measurement.
pub fn run(job: &Job) -> Outcome {
    let outcome = receive_all(job);
    if let Err(failure) = &outcome {
        tell(&Report::Failed(format!("the receiver at node {}: {}", job.index + 1, failure.message)))?;
    }
    outcome
}

fn receive_all(job: &Job) -> Outcome {
    let options = ConnectOptions { shares_memory: !job.sockets, ..ConnectOptions::default() };
    let mut client = Client::connect(&Address::Unix(job.door.clone()), &options).map_err(said)?;
    let group = GroupName::new(job.group.as_bytes()).trying(|| "group".into())?;
    client.join(&group).map_err(said)?;
    await_members(&mut client, job.clients)?;
    tell(&Report::Ready)?;
    let go = watch::go()?;
    watch::end_with_stdin();
    let mut seen = Seen::new(job, go)?;
    while !seen.sequence.is_complete() {
        let mut event = client.receive(None).map_err(said)?;
        // What was read together came at one time.
        let now = now_ns();
        while let Some(some) = event {
            if let Event::Message(message) = some {
                seen.take(now, &message)?;
            }
            event = client.receive_read().map_err(said)?;
        }
        seen.tell_progress(now)?;
    }
    tell(&Report::Received(seen.finish()))?;
    watch::stay();
    Ok(())
}

/// Waits until all receivers are in the group.
fn await_members(client: &mut Client, members: u16) -> Outcome {
    loop {
        match client.receive(None).map_err(said)? {
            Some(Event::GroupView(view)) if view.members.len() == usize::from(members) => return Ok(()),
            Some(Event::Refused { refusal, .. }) => return Err(Failure::new(refusal.to_string())),
            _ => {}
        }
    }
}

struct Seen {
    go: Go,
    sequence: Sequence,
    times: Times,
    received: Received,
    told: u64,
}

impl Seen {
    fn new(job: &Job, go: Go) -> Outcome<Self> {
        let sequence = Sequence::new(job.clients, job.digest);
        Ok(Self { go, sequence, times: Times::new()?, received: Received::default(), told: now_ns() })
    }

    fn take(&mut self, now: u64, message: &Message) -> Outcome {
        let payload = message.payload();
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

    fn tell_progress(&mut self, now: u64) -> Outcome {
        if now < self.told + TELL {
            return Ok(());
        }
        self.told = now;
        tell(&Report::Progress(self.received.messages))
    }

    fn finish(self) -> Received {
        let mut received = Received { times: self.times.pack(), ..self.received };
        self.sequence.finish(&mut received);
        received
    }
}

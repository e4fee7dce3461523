//! The sending client of a measurement.
use super::ends;
use super::job::{Go, Job, Load, Report, Sent};
use super::lines_of;
use super::message::{HEADER, Kind, Stamp};
use super::schedule::Schedule;
use super::system::{Speaker, System};
use super::watch::Starter;
use consort_daemon::clock::now_ns;
use consort_daemon::failure::{Outcome, Trying};
use std::fs;
use std::num::NonZeroU64;
use std::time::Duration;

/// Below this wait, in nanoseconds, one looks at the clock instead of sleeping.
const NAP: u64 = 10_000;

/// Runs a sender until the end of its measurement.
pub fn run(job: &Job, starter: &dyn Starter, systems: &[&dyn System]) -> Outcome {
    let outcome = send_all(job, starter, systems);
    if let Err(failure) = &outcome {
        starter.tell(&Report::Failed(format!("the sender at node {}: {}", job.index + 1, failure.message)))?;
    }
    outcome
}

fn send_all(job: &Job, starter: &dyn Starter, systems: &[&dyn System]) -> Outcome {
    wake_precisely();
    let mut sender = Sender::connect(job, systems)?;
    let bodies = Bodies::read(&job.load)?;
    starter.tell(&Report::Ready)?;
    let go = starter.go()?;
    let by_daemon = sender.speaker.send_all(go);
    let sent = by_daemon.unwrap_or_else(|| sender.send_all(go, &bodies))?;
    starter.tell(&Report::Sent(sent))?;
    starter.stay();
    Ok(())
}

/// What the messages carry behind their stamps.
enum Bodies {
    Lines(Vec<Vec<u8>>),
    Made(Vec<u8>),
}

impl Bodies {
    fn read(load: &Load) -> Outcome<Self> {
        Ok(match load {
            Load::Made(size) => Self::Made(vec![b'.'; size.saturating_sub(HEADER)]),
            Load::Lines(file) => {
                let text = fs::read(file).trying(|| format!("cannot read {}", file.display()))?;
                Self::Lines(lines_of(&text).map(<[u8]>::to_vec).collect())
            }
        })
    }

    fn get(&self, number: u64) -> Option<&[u8]> {
        match self {
            Self::Lines(lines) => lines.get(number as usize).map(Vec::as_slice),
            Self::Made(body) => Some(body),
        }
    }
}

struct Sender<'j> {
    job: &'j Job,
    speaker: Box<dyn Speaker + 'j>,
    message: Vec<u8>,
    /// How many were sent.
    number: u64,
}

impl<'j> Sender<'j> {
    fn connect(job: &'j Job, systems: &[&dyn System]) -> Outcome<Self> {
        Ok(Self { job, speaker: ends::speak(job, systems)?, message: Vec::new(), number: 0 })
    }

    /// Sends all that is due, and waits until it is ordered.
    fn send_all(&mut self, go: Go, bodies: &Bodies) -> Outcome<Sent> {
        let mut schedule = Schedule::new(self.job, go);
        while let Some(body) = bodies.get(self.number) {
            let Some(at) = self.wait_turn(&mut schedule)? else { break };
            self.send(at, go, body)?;
        }
        let sent = Sent { messages: self.number, unsent: schedule.unsent() };
        self.finish()?;
        Ok(sent)
    }

    /// Waits until the next message is due, and says when that was; `None` once time is up. Messages that are due
    /// already are sent together.
    fn wait_turn(&mut self, schedule: &mut Schedule) -> Outcome<Option<u64>> {
        let now = now_ns();
        let due = schedule.next(now);
        if let Some(due) = due.filter(|due| *due > now) {
            self.speaker.flush()?;
            sleep_until(due);
        }
        Ok(due)
    }

    fn send(&mut self, at: u64, go: Go, body: &[u8]) -> Outcome {
        let kind = if (go.from..go.until).contains(&at) { Kind::Measured } else { Kind::Unmeasured };
        self.put(Stamp { at, number: self.number, sender: self.job.index, kind }, body)?;
        self.number += 1;
        Ok(())
    }

    fn put(&mut self, stamp: Stamp, body: &[u8]) -> Outcome {
        let (is_made, len) = (matches!(self.job.load, Load::Made(_)), HEADER + body.len());
        // Made messages of one length differ in their stamps alone.
        if !is_made || self.message.len() != len {
            self.message.resize(HEADER, 0);
            self.message.extend_from_slice(body);
        }
        stamp.write(&mut self.message[..HEADER]);
        self.speaker.multicast(&self.message)
    }

    /// Marks the end and waits until all has its place.
    fn finish(&mut self) -> Outcome {
        self.put(Stamp { at: now_ns(), number: self.number, sender: self.job.index, kind: Kind::End }, &[])?;
        self.speaker.finish()
    }
}

/// Makes this thread wake up when it wanted to, not up to 50 us later: else a load generator measures its own sleep.
fn wake_precisely() {
    // Where the kernel does not grant it, figures are a little higher and no less true.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

fn sleep_until(at: u64) {
    while let Some(left) = at.checked_sub(now_ns()).filter(|left| *left > 0) {
        match left {
            0..NAP => std::hint::spin_loop(),
            _ => std::thread::sleep(Duration::from_nanos(left - NAP / 2)),
        }
    }
}

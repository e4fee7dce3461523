//! The sending client of a measurement.
use super::helper::tell;
use super::job::{Go, Job, Load, Report, Sent};
use super::message::{HEADER, Kind, Stamp};
use super::{lines_of, watch};
use crate::clock::{now_ns, wake_precisely};
use crate::failure::{Failure, Outcome, Trying};
use consort::{Address, Client, ConnectOptions, Error, GroupName, Service};
use std::fs;
use std::time::Duration;

/// Below this wait, in nanoseconds, one looks at the clock instead of sleeping.
const NAP: u64 = 10_000;

/// Runs a sender until the end of its measurement.
pub fn run(job: &Job) -> Outcome {
    let outcome = send_all(job);
    if let Err(failure) = &outcome {
        tell(&Report::Failed(format!("the sender at node {}: {}", job.index + 1, failure.message)))?;
    }
    outcome
}

fn send_all(job: &Job) -> Outcome {
    wake_precisely();
    let mut sender = Sender::connect(job)?;
    let bodies = Bodies::read(&job.load)?;
    tell(&Report::Ready)?;
    let go = watch::go()?;
    watch::end_with_stdin();
    while let Some(body) = bodies.get(sender.number) {
        let Some(at) = sender.wait_turn(go)? else { break };
        sender.send(at, go, body)?;
    }
    let sent = Sent { messages: sender.number };
    sender.finish()?;
    tell(&Report::Sent(sent))?;
    watch::stay();
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
    sender: consort::Sender,
    service: Service,
    groups: [GroupName; 1],
    message: Vec<u8>,
    /// How many were sent.
    number: u64,
}

impl<'j> Sender<'j> {
    fn connect(job: &'j Job) -> Outcome<Self> {
        let options =
            ConnectOptions { unbatched: job.unbatched, shares_memory: !job.sockets, ..ConnectOptions::default() };
        let client = Client::connect(&Address::Unix(job.door.clone()), &options).map_err(said)?;
        let (sender, mut receiver) = client.split();
        // A thread of its own hears of free credit: this one sleeps until the next message is due, to the microsecond.
        std::thread::spawn(move || while receiver.receive(None).is_ok() {});
        let service = job.service.parse().map_err(Failure::new)?;
        let groups = [GroupName::new(job.group.as_bytes()).trying(|| "group".into())?];
        Ok(Self { job, sender, service, groups, message: Vec::new(), number: 0 })
    }

    /// Waits until the next message is due, and says when that was; `None` once time is up. Messages that are due
    /// already are sent together.
    fn wait_turn(&mut self, go: Go) -> Outcome<Option<u64>> {
        let Some(rate) = self.job.rate else {
            let now = now_ns();
            if now < go.start {
                sleep_until(go.start);
            }
            return Ok((now < go.until).then_some(now.max(go.start)));
        };
        let share = f64::from(self.job.index) / f64::from(self.job.clients);
        let due = go.start + ((self.number as f64 + share) * 1e9 / rate) as u64;
        if due >= go.until {
            return Ok(None);
        }
        if due > now_ns() {
            self.sender.flush().map_err(said)?;
            sleep_until(due);
        }
        Ok(Some(due))
    }

    fn send(&mut self, at: u64, go: Go, body: &[u8]) -> Outcome {
        let kind = if (go.from..go.until).contains(&at) { Kind::Measured } else { Kind::Unmeasured };
        self.put(Stamp { at, number: self.number, sender: self.job.index, kind }, body)?;
        self.number += 1;
        Ok(())
    }

    fn put(&mut self, stamp: Stamp, body: &[u8]) -> Outcome {
        self.message.resize(HEADER, 0);
        stamp.write(&mut self.message);
        self.message.extend_from_slice(body);
        self.sender.multicast(self.service, &self.groups, &self.message).map(drop).map_err(said)
    }

    /// Marks the end and waits until all has its place.
    fn finish(&mut self) -> Outcome {
        self.put(Stamp { at: now_ns(), number: self.number, sender: self.job.index, kind: Kind::End }, &[])?;
        self.sender.wait_ordered(Duration::from_secs(60)).map_err(said)
    }
}

fn sleep_until(at: u64) {
    while let Some(left) = at.checked_sub(now_ns()).filter(|left| *left > 0) {
        match left {
            0..NAP => std::hint::spin_loop(),
            _ => std::thread::sleep(Duration::from_nanos(left - NAP / 2)),
        }
    }
}

/// An error of the client library, as it stands.
pub fn said(error: Error) -> Failure {
    Failure::new(error.to_string())
}

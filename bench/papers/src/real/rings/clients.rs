//! Clients of a measurement: at each daemon one that sends and one that receives, each on a thread of its own.
use crate::real::fleet::Fleet;
use crate::real::{Clock, text};
use crate::traffic::{Pace, Traffic};
use consort::{ChangeCause, Client, ConnectOptions, Event, GroupName, Service};
use consort_types::{Duration, Instant, Rng};
use hdrhistogram::Histogram;
use std::num::NonZeroU64;
use std::thread::{ScopedJoinHandle, scope, sleep};

/// The bytes of a message; one fills a packet.
pub const LEN: usize = 1_350;
/// Where all messages go.
const GROUP: &[u8] = b"rings";
/// How long a client waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a client that hears nothing looks at the clock.
const TURN: Duration = Duration::from_millis(100);
/// After so many messages a sender reads what its daemon told it.
const UNREAD: u64 = 64;
/// What is said of a sender's last message, where a message has the time at which it was due.
const LAST: u64 = u64::MAX;
/// The longest latency that is told apart, in nanoseconds.
const LATENCY_MAX: u64 = 60_000_000_000;

/// How all senders together send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As fast as they may.
    Full,
    /// So many messages a second, at random times that are fixed beforehand.
    Rate(f64),
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub service: Service,
    pub load: Load,
    pub seed: u64,
    /// When the senders begin.
    pub start: Instant,
    /// The measured span.
    pub from: Instant,
    pub until: Instant,
}

/// What the receivers were told.
#[derive(Clone, Debug)]
pub struct Heard {
    /// From when a message was due until a receiver had it, in nanoseconds, all receivers together.
    pub latency: Histogram<u64>,
    /// Payload that came to the slowest receiver in the measured span.
    pub bytes: u64,
}

/// The clients of a fleet.
pub struct Cast {
    clock: Clock,
    group: GroupName,
    speakers: Vec<Client>,
    ears: Vec<Client>,
}

impl Cast {
    /// Two clients at each daemon, those that receive in the group.
    ///
    /// # Errors
    /// The library's.
    pub fn new(clock: Clock, fleet: &Fleet<'_>, nodes: usize) -> Result<Self, String> {
        let options = ConnectOptions::default().send_within(PATIENCE);
        let group = GroupName::new(GROUP).map_err(text)?;
        let speakers = (0..nodes).map(|node| fleet.client(node, &options)).collect::<Result<_, _>>()?;
        let ears = (0..nodes).map(|node| fleet.client(node, &options)).collect::<Result<_, _>>()?;
        let mut cast = Self { clock, group, speakers, ears };
        for ear in &mut cast.ears {
            ear.join(&cast.group).and_then(|_| ear.flush()).map_err(text)?;
        }
        cast.ears.iter_mut().try_for_each(|ear| await_members(ear, nodes))?;
        Ok(cast)
    }

    /// All send, and hear everything; `meanwhile` is done at once.
    ///
    /// # Errors
    /// What a client met, or that the receivers did not hear the same.
    pub fn round<T>(
        &mut self,
        round: &Round,
        meanwhile: impl FnOnce() -> Result<T, String>,
    ) -> Result<(Heard, T), String> {
        let (clock, group) = (self.clock, &self.group);
        let senders = self.speakers.len();
        let (sent, heard, done) = scope(|scope| {
            let ears = self.ears.iter_mut().map(|ear| scope.spawn(move || listen(ear, clock, round, senders)));
            let ears: Vec<_> = ears.collect();
            let speakers = self.speakers.iter_mut().enumerate();
            let speakers: Vec<_> = speakers
                .map(|(number, client)| {
                    let speaker = Speaker { client, clock, group, number, senders };
                    scope.spawn(move || speaker.speak(round))
                })
                .collect();
            let done = meanwhile();
            (all(speakers), all(ears), done)
        });
        let sent = sent?.iter().sum();
        Ok((together(round, sent, &heard?)?, done?))
    }
}

/// What all threads came to, or the first error.
fn all<T>(threads: Vec<ScopedJoinHandle<'_, Result<T, String>>>) -> Result<Vec<T>, String> {
    let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    ended.into_iter().map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
}

fn await_members(ear: &mut Client, members: usize) -> Result<(), String> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match ear.receive(TURN).map_err(text)? {
            Some(Event::GroupView(view)) if view.members.len() == members => return Ok(()),
            Some(Event::Refused { refusal, .. }) => return Err(format!("a receiver cannot join: {refusal}")),
            _ if std::time::Instant::now() > deadline => {
                return Err(format!("the receivers are not in one group within {PATIENCE:?}"));
            }
            _ => {}
        }
    }
}

/// A client that sends.
struct Speaker<'a> {
    client: &'a mut Client,
    clock: Clock,
    group: &'a GroupName,
    number: usize,
    senders: usize,
}

impl Speaker<'_> {
    /// Sends what is due and says how much that was.
    fn speak(mut self, round: &Round) -> Result<u64, String> {
        // Or the kernel may let this thread sleep 50 us too long. Where it refuses, latency is so much longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let number = self.number + 1;
        let told = |error: String| format!("sender {number}: {error}");
        self.sleep_until(round.start);
        let (mut sent, mut turns) = (0, self.turns(round));
        while let Some(due) = turns.next(self.clock.now()) {
            if due > self.clock.now() {
                self.client.flush().map_err(text).map_err(told)?;
                self.sleep_until(due);
            }
            self.send(round, due.0, sent).map_err(told)?;
            sent += 1;
            if sent % UNREAD == 0 {
                self.client.receive(Duration::ZERO).map_err(text).map_err(told)?;
            }
        }
        self.send(round, LAST, sent).map_err(told)?;
        self.client.wait_ordered(PATIENCE).map_err(text).map_err(told)?;
        Ok(sent)
    }

    fn turns(&self, round: &Round) -> Turns {
        let Load::Rate(rate) = round.load else { return Turns::Always { until: round.until } };
        let mut traffic = Traffic::new(Rng::new(round.seed).fork(self.number as u64));
        traffic.add(self.number, Pace::Poisson, rate / self.senders as f64, round.start, Some(round.until));
        Turns::Due(traffic)
    }

    fn send(&mut self, round: &Round, due: u64, number: u64) -> Result<(), String> {
        let mut message = [0; LEN];
        message[..8].copy_from_slice(&due.to_le_bytes());
        message[8..16].copy_from_slice(&number.to_le_bytes());
        message[16..24].copy_from_slice(&(self.number as u64).to_le_bytes());
        let to = std::slice::from_ref(self.group);
        self.client.multicast(round.service, to, &message).map(drop).map_err(text)
    }

    fn sleep_until(&self, at: Instant) {
        sleep(at.since(self.clock.now()));
    }
}

/// When a sender sends.
enum Turns {
    Always { until: Instant },
    Due(Traffic),
}

impl Turns {
    /// When the next message is due; none once time is up.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Always { until } => Some(now).filter(|now| now < until),
            Self::Due(traffic) => traffic.next().map(|(due, _)| due),
        }
    }
}

/// What one receiver was told.
struct Ear {
    latency: Histogram<u64>,
    messages: u64,
    bytes: u64,
    last: usize,
    /// Of all that came, in its order.
    digest: u64,
}

fn listen(client: &mut Client, clock: Clock, round: &Round, senders: usize) -> Result<Ear, String> {
    let latency = Histogram::new_with_max(LATENCY_MAX, 3).map_err(text)?;
    let mut ear = Ear { latency, messages: 0, bytes: 0, last: 0, digest: 0 };
    let deadline = round.until + PATIENCE;
    while ear.last < senders {
        let mut event = client.receive(TURN).map_err(text)?;
        // What was read together came at one time.
        let now = clock.now();
        if now > deadline {
            let heard = ear.messages;
            return Err(format!(
                "a receiver was told {heard} messages, and not the last ones within {PATIENCE:?}: the ring does not \
                 carry so much for so long; lower --loads or --millis"
            ));
        }
        while let Some(some) = event {
            ear.take(some, now, round)?;
            event = client.receive_buffered().map_err(text)?;
        }
    }
    Ok(ear)
}

impl Ear {
    fn take(&mut self, event: Event, now: Instant, round: &Round) -> Result<(), String> {
        let message = match event {
            Event::Message(message) => message,
            Event::GroupView(view) if view.cause != ChangeCause::Primary => {
                return Err(format!("the group changed meanwhile: {:?}", view.cause));
            }
            _ => return Ok(()),
        };
        let word = |at: usize| message.payload().get(at..at + 8).and_then(|word| word.try_into().ok());
        let [Some(due), Some(number), Some(sender)] = [0, 8, 16].map(|at| word(at).map(u64::from_le_bytes)) else {
            return Err("a message came that nobody here sent".into());
        };
        self.digest = digest(digest(self.digest, sender), number);
        if due == LAST {
            self.last += 1;
            return Ok(());
        }
        self.messages += 1;
        let measured = round.from.0..round.until.0;
        if measured.contains(&due) {
            self.latency.saturating_record(now.0.saturating_sub(due));
        }
        if measured.contains(&now.0) {
            self.bytes += message.payload().len() as u64;
        }
        Ok(())
    }
}

/// Takes one more word into a digest (FNV-1a, a word at a time).
fn digest(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
}

/// All receivers' figures, where they heard the same and all of it.
fn together(round: &Round, sent: u64, ears: &[Ear]) -> Result<Heard, String> {
    let differs = |ear: &&Ear| ear.messages != sent || Some(ear.digest) != ears.first().map(|first| first.digest);
    if let Some(ear) = ears.iter().find(differs) {
        return Err(format!("{} messages were sent; a receiver was told {}, or in another order", sent, ear.messages));
    }
    let mut latency = Histogram::new_with_max(LATENCY_MAX, 3).map_err(text)?;
    ears.iter().try_for_each(|ear| latency.add(&ear.latency)).map_err(text)?;
    if latency.is_empty() && round.load != Load::Full {
        return Err("no message was due in the measured time; measure for longer (--millis)".into());
    }
    Ok(Heard { latency, bytes: ears.iter().map(|ear| ear.bytes).min().unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ear(messages: u64, digest: u64, bytes: u64) -> Ear {
        let mut latency = Histogram::new_with_max(LATENCY_MAX, 3).unwrap();
        latency.record(1_000).unwrap();
        Ear { latency, messages, bytes, last: 0, digest }
    }

    fn round() -> Round {
        let [start, from, until] = [0, 10, 20].map(Instant);
        Round { service: Service::Agreed, load: Load::Full, seed: 1, start, from, until }
    }

    #[test]
    fn the_slowest_receiver_counts_and_all_must_have_heard_the_same() {
        let heard = together(&round(), 5, &[ear(5, 7, 300), ear(5, 7, 200)]).unwrap();
        assert_eq!((heard.bytes, heard.latency.len()), (200, 2));
        assert!(together(&round(), 5, &[ear(5, 7, 300), ear(5, 8, 300)]).is_err(), "another order");
        assert!(together(&round(), 6, &[ear(5, 7, 300), ear(5, 7, 300)]).is_err(), "one is missing");
    }

    #[test]
    fn a_digest_knows_the_order() {
        assert_ne!(digest(digest(0, 1), 2), digest(digest(0, 2), 1));
        assert_ne!(digest(digest(0, 0), 0), digest(digest(0, 0), 1));
    }

    #[test]
    fn full_senders_send_until_time_is_up() {
        let mut turns = Turns::Always { until: Instant(20) };
        assert_eq!([turns.next(Instant(3)), turns.next(Instant(20))], [Some(Instant(3)), None]);
    }
}

//! Clients that measure: one at each daemon listens, and one of them says something at equal distances of time.
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, Event, GroupName, Service};
use consort_types::{ViewId, ViewKind};

use crate::chaos::board::held;
use crate::chaos::fleet::address;

/// How long a listener waits before it looks up.
const TURN: Duration = Duration::from_millis(10);
/// How long a connection may take before it is tried again.
const CONNECT: Duration = Duration::from_secs(2);

/// What is said.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// By a client of this node.
    pub node: usize,
    /// How often.
    pub every: Duration,
    /// How it is delivered.
    pub service: Service,
}

/// A regular view, as a client was told of it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub nodes: Vec<u16>,
    pub cause: String,
}

/// What the listener at one daemon knows.
#[derive(Debug, Default)]
struct Ear {
    views: Vec<Seen>,
    /// The nodes of its last view, while it is connected.
    now: Vec<u16>,
    /// Its last view.
    view: Option<ViewId>,
    /// When it heard something last, on this connection.
    last: Option<Instant>,
    pause: Duration,
    /// When the last message was sent of those that came, and how many came that were sent no later, or by nobody.
    sent: Option<Instant>,
    unexpected: usize,
}

/// What all listeners know.
#[derive(Debug)]
pub struct Watch {
    epoch: Instant,
    beat: Beat,
    group: GroupName,
    ears: Vec<Mutex<Ear>>,
    stop: AtomicBool,
}

impl Watch {
    /// For so many daemons.
    ///
    /// # Errors
    /// A mistake in this file.
    pub fn new(nodes: usize, beat: Beat) -> Result<Self, String> {
        let group = GroupName::new(b"pulse").map_err(|error| error.to_string())?;
        let ears = (0..nodes).map(|_| Mutex::default()).collect();
        Ok(Self { epoch: Instant::now(), beat, group, ears, stop: AtomicBool::new(false) })
    }

    /// Begins to speak and to listen; until [`Self::end`].
    pub fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, directory: &'scope Path) {
        for node in 0..self.ears.len() {
            scope.spawn(move || self.with_each(directory, node, |client| self.listen(node, client)));
        }
        scope.spawn(move || self.with_each(directory, self.beat.node, |client| self.speak(client)));
    }

    /// Ends all threads.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Forgets views and pauses so far.
    pub fn mark(&self) {
        for ear in &self.ears {
            let mut ear = held(ear);
            ear.views.clear();
            (ear.pause, ear.unexpected) = (Duration::ZERO, 0);
            ear.last = ear.last.map(|_| Instant::now());
        }
    }

    /// Whether these nodes are in one view of just them, as far as each was told.
    pub fn is_one_view(&self, nodes: &[usize]) -> bool {
        let wanted: Vec<u16> = nodes.iter().map(|node| *node as u16 + 1).collect();
        nodes.iter().all(|node| {
            let ear = held(&self.ears[*node]);
            ear.now == wanted && ear.last.is_some()
        })
    }

    /// The views that a node was told of.
    pub fn views(&self, node: usize) -> Vec<Seen> {
        held(&self.ears[node]).views.clone()
    }

    /// The longest time in which a node heard nothing though something was said, up to now.
    pub fn pause(&self, node: usize) -> Duration {
        let ear = held(&self.ears[node]);
        ear.pause.max(ear.last.map_or(Duration::ZERO, |last| last.elapsed().saturating_sub(self.beat.every)))
    }

    /// Whether a node has received something that was sent since.
    pub fn receives_since(&self, node: usize, from: Instant) -> bool {
        held(&self.ears[node]).sent.is_some_and(|sent| sent > from)
    }

    /// How many messages came to a node that came before, out of order, or from somebody else.
    pub fn unexpected(&self, node: usize) -> usize {
        held(&self.ears[node]).unexpected
    }

    /// One connection after the other; a daemon may be killed and come back.
    fn with_each(
        &self,
        directory: &Path,
        node: usize,
        mut live: impl FnMut(&mut Client) -> Result<(), consort::Error>,
    ) {
        let options = ConnectOptions::default().with_views().connect_within(CONNECT).send_within(CONNECT);
        while !self.stop.load(Ordering::Relaxed) {
            if let Ok(mut client) = Client::connect(&address(directory, node), &options) {
                // However it ended: the next connection is tried.
                let _ = live(&mut client);
            }
            std::thread::sleep(TURN);
        }
    }

    fn listen(&self, node: usize, client: &mut Client) -> Result<(), consort::Error> {
        let heard = client.join(&self.group).and_then(|_| self.hear(node, client));
        let mut ear = held(&self.ears[node]);
        (ear.now, ear.view, ear.last) = (Vec::new(), None, None);
        heard
    }

    fn hear(&self, node: usize, client: &mut Client) -> Result<(), consort::Error> {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(event) = client.receive(TURN)? else { continue };
            let now = Instant::now();
            let mut ear = held(&self.ears[node]);
            match event {
                // A view is told again when it becomes primary.
                Event::View(view) if view.kind == ViewKind::Regular && ear.view.replace(view.id) != Some(view.id) => {
                    ear.now = view.members.iter().map(|member| member.node.0).collect();
                    let nodes = ear.now.clone();
                    ear.views.push(Seen { at: now, nodes, cause: view.cause });
                }
                Event::Message(message) => ear.beat(now, self.said(message.payload()), self.beat.every),
                _ => {}
            }
        }
        Ok(())
    }

    fn speak(&self, client: &mut Client) -> Result<(), consort::Error> {
        let to = std::slice::from_ref(&self.group);
        let mut next = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let now = self.epoch.elapsed().as_nanos() as u64;
            client.multicast(self.beat.service, to, &now.to_be_bytes())?;
            client.flush()?;
            next += self.beat.every;
            while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                client.receive(left)?;
            }
            next = next.max(Instant::now() - self.beat.every);
        }
        Ok(())
    }

    /// When a message was sent.
    fn said(&self, payload: &[u8]) -> Option<Instant> {
        Some(self.epoch + Duration::from_nanos(u64::from_be_bytes(payload.try_into().ok()?)))
    }
}

impl Ear {
    fn beat(&mut self, now: Instant, said: Option<Instant>, every: Duration) {
        // Nobody sent it yet: it is forged, and tells nothing of those that follow.
        let said = said.filter(|said| *said <= now);
        self.unexpected += usize::from(said <= self.sent);
        self.sent = self.sent.max(said);
        let under_way =
            said.map_or(Duration::ZERO, |said| now.saturating_duration_since(said.max(self.last.unwrap_or(now))));
        let silent = self.last.map_or(Duration::ZERO, |last| (now - last).saturating_sub(every));
        self.pause = self.pause.max(under_way).max(silent);
        self.last = Some(now);
    }
}

/// Sees to it that the threads end, however the trial does.
pub struct EndAtEnd<'a>(pub &'a Watch);

impl Drop for EndAtEnd<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_how_long_a_message_was_under_way_or_how_much_later_than_due_the_next_came() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let every = Duration::from_millis(100);
        let mut ear = Ear::default();
        ear.beat(at(1), Some(at(0)), every);
        ear.beat(at(101), Some(at(100)), every);
        assert!(ear.pause <= Duration::from_millis(1), "{:?}", ear.pause);
        ear.beat(at(501), Some(at(200)), every);
        assert_eq!(ear.pause, Duration::from_millis(301), "sent at 200, heard at 501");
        ear.beat(at(1_501), None, every);
        assert_eq!(ear.pause, Duration::from_millis(900), "silent from 501 on, and due at 601");
        assert_eq!(ear.unexpected, 1, "who sent it is not known");
        ear.beat(at(1_601), Some(at(200)), every);
        assert_eq!(ear.unexpected, 2, "it came before");
        ear.beat(at(1_701), Some(at(9_000)), every);
        ear.beat(at(1_801), Some(at(1_800)), every);
        assert_eq!(ear.unexpected, 3, "one was of a time to come");
    }
}

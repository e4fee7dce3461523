//! Clients: one thread sends for all of them when it is time, and each that listens has a thread of its own.
use super::fleet::Fleet;
use super::{Clock, World, text};
use crate::net::{Heard, Told, read, written};
use crate::samples::Samples;
use consort::{Client, ConnectOptions, Event, GroupName, Receiver, Sender, Service};
use consort_types::{Instant, OfferId};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a thread that listens looks up.
const TURN: Duration = Duration::from_millis(50);
/// How long a join may take.
const JOINED: Duration = Duration::from_secs(20);
/// Where all messages go.
const GROUP: &[u8] = b"lab";

/// What a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It sends.
    Speak,
    /// It hears what is sent, and may send.
    Listen,
}

/// How a thread that listens tells what it heard.
type Tell = mpsc::Sender<Result<Told, String>>;

/// Clients at some daemons of a fleet, one at each.
pub struct Stage {
    clock: Clock,
    group: GroupName,
    senders: BTreeMap<usize, Sender>,
    told: mpsc::Receiver<Result<Told, String>>,
    ears: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Who sent which message, and when.
    pub sent: Vec<(usize, Instant)>,
    /// How much later than they should messages were sent.
    pub late: Samples,
}

impl Stage {
    /// A client at each of these nodes, connected so; some send, and some join the group and listen.
    ///
    /// # Errors
    /// What a client met.
    pub fn new(
        world: &World,
        fleet: &Fleet<'_>,
        clients: &[(usize, Part)],
        how: &ConnectOptions,
    ) -> Result<Self, String> {
        // Or the kernel may let this thread sleep 50 us too long. Where it refuses, `late` tells.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let group = GroupName::new(GROUP).map_err(text)?;
        let (tell, told) = mpsc::channel();
        let mut stage = Self {
            clock: world.clock,
            group,
            senders: BTreeMap::new(),
            told,
            ears: Vec::new(),
            stop: Arc::default(),
            sent: Vec::new(),
            late: Samples::default(),
        };
        let listens = how.clone().with_views();
        let mut open = Vec::new();
        for (node, part) in clients {
            let mut client = fleet.client(*node, if *part == Part::Speak { how } else { &listens })?;
            if *part != Part::Speak {
                client.join(&stage.group).and_then(|_| client.flush()).map_err(text)?;
            }
            open.push((*node, client));
        }
        // Joined at once, they need not wait for each other's acknowledgements one by one.
        for (node, client) in &mut open {
            client.wait_ordered(JOINED).map_err(|error| format!("joining at daemon {}: {error}", *node + 1))?;
        }
        open.into_iter().try_for_each(|(node, client)| stage.hear(client, node, tell.clone()))?;
        Ok(stage)
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sends a message of so many bytes once it is time.
    ///
    /// # Errors
    /// The library's.
    pub fn send(&mut self, at: Instant, member: usize, len: usize) -> Result<(), String> {
        std::thread::sleep(at.since(self.clock.now()));
        let message = written(self.sent.len() as u64, len);
        let now = self.clock.now();
        let sender = self.senders.get_mut(&member).ok_or("nobody sends there")?;
        let to = std::slice::from_ref(&self.group);
        sender.try_multicast(Service::Agreed, to, &message).and_then(|_| sender.flush()).map_err(text)?;
        self.sent.push((member, now));
        self.late.add(now.since(at));
        Ok(())
    }

    /// What was heard since this was asked last.
    ///
    /// # Errors
    /// What a client met that listens.
    pub fn take_told(&mut self) -> Result<Vec<Told>, String> {
        self.told.try_iter().collect()
    }

    /// A thread that reads what a client is told: who only sends must hear of credit, too.
    fn hear(&mut self, client: Client, member: usize, tell: Tell) -> Result<(), String> {
        let (sender, receiver) = client.split();
        self.senders.insert(member, sender);
        let ear = Ear { clock: self.clock, member, receiver, offers: BTreeMap::new() };
        let stop = Arc::clone(&self.stop);
        let named = std::thread::Builder::new().name(format!("ear-{}", member + 1));
        self.ears.push(named.spawn(move || ear.live(&stop, &tell)).map_err(text)?);
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One that panicked has said so where it did.
        self.ears.drain(..).for_each(|ear| drop(ear.join()));
    }
}

/// A client that listens.
struct Ear {
    clock: Clock,
    member: usize,
    receiver: Receiver,
    /// Which message each open offer is of.
    offers: BTreeMap<u64, u64>,
}

impl Ear {
    /// Until told to stop, or until nobody wants to hear it.
    fn live(mut self, stop: &AtomicBool, tell: &Tell) {
        let mut current = None;
        while !stop.load(Ordering::Relaxed) {
            let heard = match self.receiver.receive(TURN) {
                // A view is told again when it becomes primary.
                Ok(Some(Event::View(view))) if *current.get_or_insert(view.id) == view.id => continue,
                Ok(Some(Event::View(view))) => Err(format!("the view changed meanwhile: {}", view.cause)),
                Ok(Some(event)) => Ok(self.heard(event)),
                Ok(None) => Ok(None),
                Err(error) => Err(text(error)),
            };
            let failed = heard.is_err();
            let Some(told) = heard.transpose() else { continue };
            if tell.send(told).is_err() || failed {
                return;
            }
        }
    }

    fn heard(&mut self, event: Event) -> Option<Told> {
        let at = self.clock.now();
        let heard = match event {
            Event::Offer(offer) => {
                let message = read(offer.message.payload());
                self.offers.insert(offer.number, message);
                Heard::Offered { offer: OfferId(offer.number), message, free_until: at + offer.free }
            }
            Event::Revoke { offer } => {
                self.offers.remove(&offer);
                return None;
            }
            Event::Confirm { offer } => {
                Heard::Confirmed { offer: OfferId(offer), message: self.offers.remove(&offer)? }
            }
            Event::Message(message) => Heard::Delivered(read(message.payload())),
            _ => return None,
        };
        Some(Told { at, member: self.member, heard })
    }
}

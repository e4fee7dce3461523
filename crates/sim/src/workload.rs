//! Who sends how much, how large, how often.
use crate::message::{self, Process};
use consort_types::{Class, Duration, Instant, Rng, Service};

/// When a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPace {
    /// One message at equal intervals.
    Every(Duration),
    /// One message at random intervals of this mean.
    Poisson(Duration),
    /// Several at once, at random intervals of this mean.
    Burst {
        /// The mean.
        every: Duration,
        /// How many at most.
        most: u32,
    },
}

/// How large messages are: how often each kind occurs, in parts of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// No byte at all.
    pub empty: u32,
    /// Too few bytes for a name.
    pub tiny: u32,
    /// Up to 200 bytes.
    pub small: u32,
    /// About as large as a datagram, so that all edges of packing are met.
    pub packet: u32,
    /// Several datagrams.
    pub several: u32,
    /// 100 KB and more.
    pub large: u32,
}

impl Sizes {
    /// Some of everything.
    pub const MIXED: Self = Self { empty: 4, tiny: 15, small: 55, packet: 15, several: 10, large: 1 };
    /// Small ones only.
    pub const SMALL: Self = Self { empty: 1, tiny: 10, small: 89, packet: 0, several: 0, large: 0 };

    fn draw(&self, datagram: usize, rng: &mut Rng) -> usize {
        let datagram = datagram as u64;
        let parts = [self.empty, self.tiny, self.small, self.packet, self.several, self.large];
        let mut at = rng.below(parts.iter().map(|part| u64::from(*part)).sum());
        let kind = parts.iter().position(|part| {
            let here = at < u64::from(*part);
            at = at.saturating_sub(u64::from(*part));
            here
        });
        let len = match kind {
            Some(0) => 0,
            Some(1) => rng.between(1, message::HEADER as u64 - 1),
            Some(3) => rng.between(datagram.saturating_sub(160), datagram + 20),
            Some(4) => rng.between(datagram, datagram.min(12_000) * 5),
            Some(5) => rng.between(100_000, 200_000),
            _ => rng.between(message::HEADER as u64, 200),
        };
        (len as usize).min(message::LARGEST)
    }
}

/// One sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderPlan {
    /// Who.
    pub process: Process,
    /// When it sends.
    pub pace: SendPace,
    /// How large its messages are.
    pub sizes: Sizes,
    /// Which levels it asks for, each as often as it stands here; never empty.
    pub services: Vec<Service>,
    /// In which class.
    pub class: Class,
}

/// A message that is to be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    pub class: Class,
    pub service: Service,
    pub len: usize,
}

/// A sender at work. It makes a message only when it can submit it, and keeps one that was refused for want of room.
#[derive(Debug)]
pub(crate) struct WorkloadSender {
    pub plan: SenderPlan,
    /// How many messages were accepted.
    pub accepted: u64,
    /// Whether it waits for room.
    pub waits: bool,
    kept: Option<Draft>,
    unsent: u32,
    datagram: usize,
    rng: Rng,
}

/// How many messages a sender that is held up makes up for.
const OWED_MAX: u32 = 1_000;

impl WorkloadSender {
    pub const fn new(plan: SenderPlan, datagram: usize, rng: Rng) -> Self {
        Self { plan, accepted: 0, waits: false, kept: None, unsent: 0, datagram, rng }
    }

    /// When it acts next.
    pub fn next(&mut self, now: Instant) -> Instant {
        let mean = match self.plan.pace {
            SendPace::Every(interval) => return now + interval,
            SendPace::Poisson(mean) | SendPace::Burst { every: mean, .. } => mean.as_nanos() as f64,
        };
        now + Duration::from_nanos(self.rng.exponential(mean) as u64 + 1)
    }

    /// It acts: how many more messages it wants to submit now.
    pub fn tick(&mut self) -> u32 {
        let more = match self.plan.pace {
            SendPace::Every(_) | SendPace::Poisson(_) => 1,
            SendPace::Burst { most, .. } => self.rng.between(1, u64::from(most)) as u32,
        };
        let before = self.unsent;
        self.unsent = (self.unsent + more).min(OWED_MAX);
        self.unsent - before
    }

    /// How many messages it wants to submit.
    pub const fn unsent(&self) -> u32 {
        self.unsent
    }

    /// It makes no new messages any more.
    pub const fn calm(&mut self) {
        self.unsent = if self.kept.is_some() { 1 } else { 0 };
    }

    /// What it submits now, if anything.
    pub fn draft(&mut self) -> Option<Draft> {
        if self.unsent == 0 || self.waits {
            return None;
        }
        let kept = self.kept.take();
        let draft = kept.unwrap_or_else(|| Draft {
            class: self.plan.class,
            service: self.plan.services[self.rng.below(self.plan.services.len() as u64) as usize],
            len: self.plan.sizes.draw(self.datagram, &mut self.rng),
        });
        Some(draft)
    }

    /// Its node has stopped: it begins anew, as another process.
    pub fn begin_anew(&mut self) {
        (self.accepted, self.unsent, self.waits, self.kept) = (0, 0, false, None);
    }

    /// The draft was accepted.
    pub const fn accept(&mut self) {
        self.unsent -= 1;
        self.accepted += 1;
    }

    /// The draft was refused for good.
    pub const fn give_up(&mut self) {
        self.unsent -= 1;
    }

    /// The draft found no room.
    pub const fn keep(&mut self, draft: Draft) {
        self.kept = Some(draft);
        self.waits = true;
    }
}

/// Draws the senders of a run: most clients send, one at least, each with its own pace and mix; here and there somebody
/// sends control messages.
pub fn draw(nodes: u16, clients: u16, control: Option<u16>, rng: &mut Rng) -> Vec<SenderPlan> {
    let mut senders = Vec::new();
    for node in 0..nodes {
        for client in 0..clients {
            if rng.chance(0.85) || (node == 0 && client == 0) {
                let process = Process::new(consort_types::NodeId(node), client);
                senders.push(sender(process, Class::Client, clients, rng));
            }
        }
        if let Some(client) = control.filter(|_| rng.chance(0.2)) {
            let process = Process::new(consort_types::NodeId(node), client);
            let mut sender = sender(process, Class::Control, 1, rng);
            sender.pace = SendPace::Poisson(Duration::from_millis(rng.between(20, 300)));
            senders.push(sender);
        }
    }
    senders
}

/// The more clients there are on a node, the less often each of them sends.
fn sender(process: Process, class: Class, clients: u16, rng: &mut Rng) -> SenderPlan {
    let micros = [rng.between(2_000, 10_000), rng.between(10_000, 200_000)][rng.below(2) as usize];
    let every = Duration::from_micros(micros) * u32::from(clients);
    let pace = match rng.below(3) {
        0 => SendPace::Every(every),
        1 => SendPace::Poisson(every),
        _ => SendPace::Burst { every: every * 20, most: [8, 40, 300][rng.below(3) as usize] },
    };
    let sizes = if rng.chance(0.3) { Sizes::SMALL } else { Sizes::MIXED };
    let services = match rng.below(4) {
        0 => vec![Service::Agreed],
        1 => vec![Service::Safe],
        2 => vec![Service::Agreed, Service::Agreed, Service::Agreed, Service::Safe],
        _ => Service::ALL.to_vec(),
    };
    SenderPlan { process, pace, sizes, services, class }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    #[test]
    fn all_sizes_occur_and_none_is_too_large() {
        let mut rng = Rng::new(1);
        let sizes: Vec<_> = (0..20_000).map(|_| Sizes::MIXED.draw(1_440, &mut rng)).collect();
        for range in [0..=0, 1..=11, 12..=200, 1_280..=1_460, 3_000..=7_200, 100_000..=200_000] {
            assert!(sizes.iter().any(|len| range.contains(len)), "{range:?}");
        }
        let jumbo = Sizes { empty: 0, tiny: 0, small: 0, packet: 1, several: 1, large: 0 };
        assert!((0..1_000).all(|_| jumbo.draw(65_000, &mut rng) <= message::LARGEST));
    }

    #[test]
    fn a_refused_message_is_kept_and_sent_again_even_when_calm() {
        let plan = SenderPlan {
            process: Process::new(NodeId(0), 0),
            pace: SendPace::Burst { every: Duration::from_millis(1), most: 5 },
            sizes: Sizes::MIXED,
            services: Service::ALL.to_vec(),
            class: Class::Client,
        };
        let mut sender = WorkloadSender::new(plan, 1_440, Rng::new(2));
        while sender.unsent() < 3 {
            sender.tick();
        }
        let draft = sender.draft().unwrap();
        sender.keep(draft);
        assert_eq!(sender.draft(), None, "it waits for room");
        sender.calm();
        sender.waits = false;
        assert_eq!(sender.draft(), Some(draft));
        sender.accept();
        assert_eq!((sender.draft(), sender.accepted), (None, 1));
    }
}

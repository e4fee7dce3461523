//! What clients do beside sending: they join and leave groups, send to several of them and to each other, go and come. All
//! of it follows from the seed, and all of it ends when the run calms down.
use crate::message::Process;
use crate::plan::RunPlan;
use bytes::{BufMut, Bytes, BytesMut};
use consort_session::{ClientName, PrivateName, Target};
use consort_types::{ClientId, Duration, GroupName, Instant, MemberId, NodeId, Rng, Service};
use consort_wire::Reader;

/// Some groups with few members that change all the time …
const FEW: u64 = 4;
/// … and, in some runs, many that one client of each node joins at once: more than fit into one part of an exchange.
const MANY: u64 = 260;

/// Decides what the clients of one node do next.
#[derive(Debug)]
pub(super) struct Side {
    rng: Rng,
    next: Instant,
    every: Duration,
    until: Instant,
    nodes: u16,
    many: bool,
}

/// What a client is to do.
#[derive(Debug)]
pub(super) enum Deed {
    Join {
        group: GroupName,
        closed: bool,
    },
    JoinMany(Vec<GroupName>),
    Leave(GroupName),
    Send {
        service: Service,
        to: Vec<Target>,
    },
    /// Its connection ends without a word, and another client comes.
    Vanish,
}

impl Side {
    pub fn new(plan: &RunPlan, node: NodeId) -> Self {
        let mut rng = Rng::new(plan.seed).fork(0x51de ^ u64::from(node.0) << 16);
        let mut run = Rng::new(plan.seed).fork(0x51de);
        let every = Duration::from_millis([5, 20, 60][run.below(3) as usize]);
        let many = run.chance(0.2);
        let next = Instant(rng.below(50_000_000));
        Self { rng, next, every, until: plan.calm, nodes: plan.nodes, many }
    }

    /// Whether it is time for a deed; how many places there are to choose the doer from is for the caller to know.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if now < self.next || now >= self.until {
            return false;
        }
        self.next = now + Duration::from_nanos(self.rng.exponential(self.every.as_nanos() as f64) as u64 + 1);
        true
    }

    pub fn choose(&mut self, places: usize) -> usize {
        self.rng.below(places as u64) as usize
    }

    /// What a client does now; only visitors vanish.
    pub fn deed(&mut self, visits: bool) -> Deed {
        match self.rng.below(20) {
            0..=5 => Deed::Join { group: few(self.rng.below(FEW)), closed: self.rng.chance(0.2) },
            6..=8 => Deed::Leave(few(self.rng.below(FEW))),
            9 if visits => Deed::Vanish,
            10 if visits && std::mem::take(&mut self.many) => Deed::JoinMany((0..MANY).map(one_of_many).collect()),
            11 => {
                let node = NodeId(self.rng.below(u64::from(self.nodes)) as u16);
                let name = ClientName::unchosen(ClientId(self.rng.between(1, 3) as u32));
                self.send(vec![Target::Client(PrivateName::new(&name, node))])
            }
            _ => {
                let groups = 1 + self.rng.below(3);
                let to = (0..groups).map(|_| Target::Group(few(self.rng.below(FEW)))).collect();
                self.send(to)
            }
        }
    }

    fn send(&mut self, to: Vec<Target>) -> Deed {
        let service = if self.rng.chance(0.2) { Service::Safe } else { Service::Agreed };
        Deed::Send { service, to }
    }
}

/// Names are made of characters that need no second look.
fn named(text: &str) -> GroupName {
    GroupName::new(text.as_bytes()).unwrap_or_else(|error| unreachable!("{error}"))
}

fn few(n: u64) -> GroupName {
    named(&format!("few{n}"))
}

fn one_of_many(n: u64) -> GroupName {
    named(&format!("many-of-them-{n:03}"))
}

/// The bytes of a message that is none of the workload's: which client of which incarnation sent it, and how many it
/// had sent.
pub(super) fn payload(incarnation: MemberId, client: u16, count: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(20);
    out.put_u16(incarnation.node.0);
    out.put_u64(incarnation.incarnation.0);
    out.put_u16(client);
    out.put_u64(count);
    out.freeze()
}

/// Reads [`payload`] back.
pub(super) fn read(bytes: &[u8]) -> Option<(MemberId, u16, u64)> {
    let mut reader = Reader::new(bytes);
    let incarnation = reader.member("incarnation").ok()?;
    Some((incarnation, reader.u16("client").ok()?, reader.u64("count").ok()?))
}

/// The private name of a process of the first clients of a node, as its daemon knows it.
pub(crate) fn private(process: Process) -> String {
    format!("#c{}#{}", u32::from(process.client) + 1, process.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_its_sender_and_what_is_done_follows_from_the_seed() {
        let incarnation = MemberId::new(3, 77);
        assert_eq!(read(&payload(incarnation, 2, 9)), Some((incarnation, 2, 9)));
        assert_eq!(read(b"short"), None);
        assert_eq!(private(Process::new(NodeId(4), 1)), "#c2#n4");
        let plan = RunPlan::perfect(3);
        let story = |plan: &RunPlan| {
            let mut side = Side::new(plan, NodeId(1));
            (0..200).map(|_| format!("{:?}", side.deed(true))).collect::<Vec<_>>()
        };
        assert_eq!(story(&plan), story(&plan));
        assert_ne!(story(&plan), story(&RunPlan { seed: 1, ..plan.clone() }));
        let told = story(&plan).concat();
        assert!(
            ["Join {", "Leave", "Vanish", "Client", "closed: true"].iter().all(|deed| told.contains(deed)),
            "{told}"
        );
    }
}

//! One look at all daemons that are meant. Those that went away are asked again at the next.
use crate::failure::{Failure, Outcome};
use crate::runtime_dir::Card;
use crate::words::without_incarnations;
use crate::{clock, usage};
use consort::Address;
use consort_inquiry::connect::Wanted;
use consort_inquiry::inquiry::Inquiry;
use consort_session::listing::{Connection, GroupEntry};
use std::collections::BTreeMap;

/// No more groups, and no more clients of a daemon, are asked for at each look.
const MOST: usize = 1_000;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// When, on the machine's own clock, in nanoseconds.
    pub at_ns: u64,
    /// The cluster's name.
    pub cluster: String,
    /// By node.
    pub daemons: Vec<DaemonLook>,
}

/// One daemon.
#[derive(Clone, Debug)]
pub struct DaemonLook {
    /// Its node; 0 where only its address is known, and it never answered.
    pub node: u16,
    /// Where it serves clients.
    pub address: String,
    /// Its process, if it is one of this machine.
    pub pid: Option<u32>,
    /// What that has resident, in bytes.
    pub resident: Option<u64>,
    /// What it says, or why it does not.
    pub told: Result<Told, String>,
}

/// What a daemon says.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Its status.
    pub status: BTreeMap<String, String>,
    /// The groups, and how many there are: told by one daemon for all.
    pub groups: Option<(Vec<GroupEntry>, u32)>,
    /// Its clients without the one that asks, and how many there are.
    pub clients: (Vec<Connection>, u32),
}

impl Told {
    /// The nodes in its view.
    pub fn members(&self) -> Vec<u16> {
        let members = self.status.get("members").map(String::as_str).unwrap_or_default();
        members
            .split_whitespace()
            .filter_map(|member| without_incarnations(member).strip_prefix('n')?.parse().ok())
            .collect()
    }
}

impl Look {
    /// Why nobody says anything; `None` where somebody does.
    pub fn nobody_answers(&self) -> Option<String> {
        let answers = self.daemons.iter().any(|daemon| daemon.told.is_ok());
        let problem = self.daemons.iter().find_map(|daemon| daemon.told.as_ref().err().cloned());
        if answers { None } else { problem }
    }
}

/// Looks.
pub struct Looker {
    wanted: Wanted,
    cluster: String,
    known: BTreeMap<u16, KnownDaemon>,
}

struct KnownDaemon {
    address: Address,
    pid: Option<u32>,
    /// Open as long as it answers.
    inquiry: Option<Inquiry>,
}

impl KnownDaemon {
    fn new(address: Address, pid: Option<u32>) -> Self {
        Self { address, pid, inquiry: None }
    }
}

impl Looker {
    /// For the daemons that are meant.
    ///
    /// # Errors
    /// There is none, or there are some of several clusters.
    pub fn new(wanted: Wanted) -> Outcome<Self> {
        let mut looker = Self { wanted, cluster: String::new(), known: BTreeMap::new() };
        match looker.wanted.given() {
            Some(address) => {
                let known = KnownDaemon::new(address.clone(), None);
                looker.known.insert(0, known);
            }
            None => looker.find()?,
        }
        Ok(looker)
    }

    /// Asks all.
    pub fn look(&mut self) -> Look {
        // Where none is left, those that are known say why.
        let _ = self.find();
        // All know the same groups: one that answered at the last look is asked, if there is any.
        let open = self.known.iter().find(|(_, known)| known.inquiry.is_some());
        let lists = open.or_else(|| self.known.first_key_value()).map(|(node, _)| *node);
        let at_ns = clock::now_ns();
        // One that does not answer keeps nobody waiting for the others.
        let daemons: Vec<DaemonLook> = std::thread::scope(|threads| {
            let ask = |(node, known): (&u16, &mut KnownDaemon)| known.look(*node, lists == Some(*node));
            let asked: Vec<_> = self.known.iter_mut().map(|known| threads.spawn(move || ask(known))).collect();
            asked.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        Look { at_ns, cluster: self.cluster(&daemons), daemons }
    }

    /// Takes in daemons of this machine that are new, or new processes.
    fn find(&mut self) -> Outcome {
        if self.wanted.given().is_some() {
            return Ok(());
        }
        for card in self.wanted.candidates()? {
            self.take_in(card)?;
        }
        Ok(())
    }

    fn take_in(&mut self, card: Card) -> Outcome {
        if self.cluster.is_empty() {
            self.cluster.clone_from(&card.cluster);
        }
        if self.cluster != card.cluster {
            return Err(Failure::usage(format!(
                "daemons of several clusters run here, {} and {} among them; choose one with --cluster NAME",
                self.cluster, card.cluster
            )));
        }
        let known = self.known.get(&card.node);
        if known.is_none_or(|known| known.pid != Some(card.pid)) {
            self.known.insert(card.node, KnownDaemon::new(Address::Unix(card.socket), Some(card.pid)));
        }
        Ok(())
    }

    fn cluster(&self, daemons: &[DaemonLook]) -> String {
        let told = daemons.iter().find_map(|daemon| daemon.told.as_ref().ok()?.status.get("cluster").cloned());
        if self.cluster.is_empty() { told.unwrap_or_default() } else { self.cluster.clone() }
    }
}

fn node_of(told: &Told) -> Option<u16> {
    told.status.get("node")?.strip_prefix('n')?.parse().ok()
}

impl KnownDaemon {
    fn look(&mut self, node: u16, groups: bool) -> DaemonLook {
        let told = self.ask(groups).map_err(|failure| failure.message);
        let resident = self.pid.and_then(usage::resident);
        let node = told.as_ref().ok().and_then(node_of).unwrap_or(node);
        DaemonLook { node, address: self.address.to_string(), pid: self.pid, resident, told }
    }

    fn ask(&mut self, groups: bool) -> Outcome<Told> {
        let mut inquiry = match self.inquiry.take() {
            Some(inquiry) => inquiry,
            None => Inquiry::open(&self.address)?,
        };
        let told = ask(&mut inquiry, groups)?;
        self.inquiry = Some(inquiry);
        Ok(told)
    }
}

fn ask(inquiry: &mut Inquiry, groups: bool) -> Outcome<Told> {
    let status = inquiry.status()?.into_iter().collect();
    let groups = if groups { Some(inquiry.first_groups(MOST)?) } else { None };
    let (mut clients, total) = inquiry.first_clients(MOST)?;
    clients.retain(|client| client.client != inquiry.own);
    Ok(Told { status, groups, clients: (clients, total.saturating_sub(1)) })
}

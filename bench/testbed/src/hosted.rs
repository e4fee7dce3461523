//! Somebody else's daemons, run for a comparison and gone with it.
use super::{ClientAddress, Process, Testbed};
use consort_daemon::clock;
use consort_daemon::failure::{Failure, Outcome, Trying};
use std::path::Path;

/// How long they may take until clients can connect.
const START: u64 = 30_000_000_000;

/// A script that starts daemons, says `pid NUMBER` for each and then `ready`, and ends them when its input ends; and
/// where their clients connect.
#[derive(Debug)]
pub struct Hosted {
    pub words: Vec<String>,
    pub addresses: Vec<ClientAddress>,
    /// Whether only members of a group may send to it.
    pub members_only: bool,
}

/// Somebody else's daemons that run.
#[derive(Debug)]
pub(crate) struct Running {
    pub addresses: Vec<ClientAddress>,
    pub ids: Vec<u32>,
    pub members_only: bool,
}

impl Testbed {
    /// Runs such daemons, one for each node. `script` is told a directory that goes away with them.
    pub fn host(name: &str, nodes: u16, script: impl FnOnce(&Path) -> Outcome<Hosted>) -> Outcome<Self> {
        let mut testbed = Self::new(nodes, &[])?;
        let Hosted { words, addresses, members_only } = script(testbed.directory())?;
        let process = Process::start_parent(0, name, &words, testbed.directory.path(), &testbed.tell)?;
        testbed.daemons.insert(0, process);
        testbed.started = 1;
        let ids = testbed.await_hosted(name)?;
        if ids.len() != usize::from(nodes) || addresses.len() != ids.len() {
            return Err(Failure::new(format!("{name}: {} daemons run instead of {nodes}", ids.len())));
        }
        testbed.hosted = Some(Running { addresses, ids, members_only });
        Ok(testbed)
    }

    fn await_hosted(&mut self, name: &str) -> Outcome<Vec<u32>> {
        let (deadline, mut ids) = (clock::now_ns() + START, Vec::new());
        loop {
            let line = self.line(deadline, &format!("the daemons of {name} to start"))?;
            match line.text.as_deref().map(|text| text.split_once(' ').unwrap_or((text, ""))) {
                Some(("pid", id)) => ids.push(id.parse().trying(|| format!("{name} said `{id}`"))?),
                Some(("ready", _)) => return Ok(ids),
                Some(_) => {}
                None => return Err(self.daemons.get_mut(&0).map_or_else(|| Failure::new(name), Process::ended)),
            }
        }
    }
}

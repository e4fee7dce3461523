//! Somebody else's daemons, run for a comparison and gone with it.
use super::{Door, Lab, Process};
use crate::clock;
use crate::failure::{Failure, Outcome, Trying};
use std::path::Path;

/// How long they may take until clients can connect.
const START: u64 = 30_000_000_000;

/// A script that starts daemons, says `pid NUMBER` for each and then `ready`, and ends them when its input ends; and
/// where their clients connect.
#[derive(Debug)]
pub struct Hosted {
    pub words: Vec<String>,
    pub doors: Vec<Door>,
}

impl Lab {
    /// Runs such daemons, one for each node. `script` is told a directory that goes away with them.
    pub fn host(name: &str, nodes: u16, script: impl FnOnce(&Path) -> Outcome<Hosted>) -> Outcome<Self> {
        let mut lab = Self::new(nodes, &[])?;
        let Hosted { words, doors } = script(lab.directory())?;
        let process = Process::start_parent(0, name, &words, lab.directory.path(), &lab.tell)?;
        lab.daemons.insert(0, process);
        lab.started = 1;
        let ids = lab.await_hosted(name)?;
        if ids.len() != usize::from(nodes) || doors.len() != ids.len() {
            return Err(Failure::new(format!("{name}: {} daemons run instead of {nodes}", ids.len())));
        }
        lab.hosted = Some((doors, ids));
        Ok(lab)
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

//! Servers that go down and come back, and what a replica that lacks the state is sent.
use super::host::Host;
use super::plan::node;
use super::{Happens, Streams};
use bytes::Bytes;
use consort_order::Link;

impl Streams<'_> {
    /// A server goes down with all its processes; others hear of it as soon as word comes.
    pub fn kill(&mut self, server: usize) {
        for peer in self.processes_of(server) {
            let host = &mut self.hosts[peer];
            host.up = false;
            let waiting: Vec<_> = host.cores.values_mut().flat_map(|core| core.waiting.drain(..)).collect();
            waiting.iter().for_each(|frame| self.note_read(frame));
            self.tell_others(server, peer, Link::Down);
        }
    }

    /// A server that went down comes back. Its processes have forgotten all, and begin new incarnations.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn restart(&mut self, server: usize) -> Result<(), String> {
        for process in self.processes_of(server) {
            let incarnation = self.hosts[process].incarnation.0 + 1;
            self.hosts[process] = Host::new(self.plan, process, incarnation)?;
            self.schedule(self.now, Happens::Start { process });
            self.tell_others(server, process, Link::Up);
        }
        Ok(())
    }

    /// How many members the view of a process has.
    pub fn members(&self, process: usize) -> usize {
        self.hosts[process].members
    }

    /// What a process says of itself.
    pub fn describe(&self, process: usize) -> String {
        consort_order::state_of(&self.hosts[process].engine, self.now)
    }

    /// A process sends a part of its state, of so many bytes.
    pub fn send_state(&mut self, process: usize, ring: u8, len: usize) {
        self.send_message(process, ring, Bytes::from(vec![0; len.saturating_sub(8)]), false);
    }

    fn processes_of(&self, server: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|at| self.plan.processes[*at].server == server).collect()
    }

    fn tell_others(&mut self, server: usize, peer: usize, link: Link) {
        for process in (0..self.hosts.len()).filter(|process| *process != peer) {
            let at = self.now + (self.plan.delay)(server, self.plan.processes[process].server);
            self.schedule(at, Happens::Hears { process, peer: node(peer), link });
        }
    }
}

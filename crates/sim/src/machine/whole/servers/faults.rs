//! What goes wrong with servers, and what their operators do then.
use super::directory::Directory;
use super::lasting::End;
use super::process::Process;
use super::{BACKUP, Fleet};
use crate::trace::{ReplicaRecord, ReplicaStep};
use consort_replica::simulated::forgetting::ReplicaId;
use consort_types::{Duration, NodeId};
use std::collections::BTreeSet;

impl Fleet {
    /// What goes wrong with a server, or with all of them.
    pub(super) fn disturb(&mut self, at: usize, told: &mut Vec<ReplicaRecord>) {
        self.turns += 1;
        if self.turns.is_multiple_of(BACKUP) {
            self.servers.iter_mut().for_each(|server| server.backup = server.directory.clone());
        }
        match self.rng.below(2_000) {
            0..3 => self.kill(at, told),
            3 => (0..self.servers.len()).for_each(|at| self.kill(at, told)),
            4..6 => {
                let server = &mut self.servers[at];
                if let Some(process) = &mut server.process {
                    process.keep_last(&mut server.directory);
                }
                self.kill(at, told);
            }
            6..12 => self.send_away(at),
            12..20 if self.servers[at].stalled.is_none() => {
                let long = if self.rng.chance(0.5) { 100e6 } else { 800e6 };
                let long = self.rng.exponential(long).min(1.5e9) as u64;
                self.servers[at].stalled = Some(self.time + Duration::from_nanos(long));
            }
            _ => {}
        }
    }

    /// It goes on at another node, or comes back.
    pub fn send_away(&mut self, at: usize) {
        let to = NodeId(self.rng.below(u64::from(self.nodes)) as u16);
        self.servers[at].lose();
        self.servers[at].home.leave(to);
    }

    /// The connection of a server is over.
    pub fn part(&mut self, at: usize) {
        self.send_away(at);
    }

    /// A server is killed. What becomes of its disk until it starts again follows from chance.
    fn kill(&mut self, at: usize, told: &mut Vec<ReplicaRecord>) {
        if self.servers[at].process.is_none() || !self.may_kill(at) {
            return;
        }
        told.extend(self.told(at));
        told.push(ReplicaRecord::of(ReplicaStep::Ends, at as u16));
        let mean = if self.rng.chance(0.7) { 50e6 } else { 900e6 };
        let long = self.rng.exponential(mean).min(3e9) as u64;
        let mark = u128::from(self.number());
        let server = &mut self.servers[at];
        if let Some(mut process) = server.process.take() {
            process.crash(&mut server.directory, &mut self.rng);
        }
        server.lose();
        server.down_until = self.time + Duration::from_nanos(long);
        match self.rng.below(10) {
            0 | 1 => server.directory.damage(),
            2 | 3 if server.forgetful => server.directory = Directory { mark, ..Directory::default() },
            4 if server.forgetful => server.directory = Directory { mark, ..server.backup.clone() },
            _ => {}
        }
    }

    /// What replicas in memory answered lives as long as most of those do that are up to date and have received it. So one
    /// is killed only if the others of these are more than half, and if it is known again by a checkpoint. Before they have
    /// begun none is: one that was counted among the first would be waited for.
    fn may_kill(&self, at: usize) -> bool {
        let replicas = self.servers.iter().filter_map(|server| match &server.process {
            Some(Process::Forgetting(process)) => Some(process),
            _ => None,
        });
        let known: Vec<_> = replicas.map(|process| (process.id(), process.line())).collect();
        let Some((_, line)) = known.iter().max_by_key(|(_, line)| (line.epoch, line.step)) else { return true };
        let Some(Process::Forgetting(process)) = &self.servers[at].process else { return true };
        let is_known = self.servers[at].directory.newest_of_replica().is_some();
        let furthest = known.iter().map(|(_, line)| line.end.position).max().unwrap_or(0);
        let left = |of: &BTreeSet<ReplicaId>| {
            let others = known.iter().filter(|(id, line)| *id != process.id() && line.end.position == furthest);
            2 * others.filter(|(id, _)| of.contains(id)).count() > of.len()
        };
        is_known && left(&line.up_to_date()) && left(line.counts())
    }

    /// The node of a machine has crashed, and perhaps the machine.
    pub fn crash(&mut self, node: NodeId, everything: bool, told: &mut Vec<ReplicaRecord>) {
        let is_machine = everything && self.machines > 0.0 || self.rng.chance(self.machines);
        for at in 0..self.servers.len() {
            if is_machine && self.servers[at].machine == node {
                self.kill(at, told);
            }
        }
    }

    /// The number of a copy that no directory of another server is of. If a server lost its directory while its first binding
    /// was under way, and bound another copy at its next start, it has bound two: all are bound then, and an operator who
    /// looks at the directories finds the one that is left over.
    fn left_over(&self, at: usize) -> Option<u16> {
        let others = self.servers.iter().enumerate().filter(|(other, _)| *other != at);
        let used: Vec<_> = others.filter_map(|(_, other)| copy_of(&other.directory)).collect();
        (1..=self.settings.copies).find(|copy| !used.contains(copy))
    }

    /// A server ends by itself: what its operator does then.
    pub(super) fn end(&mut self, at: usize, end: &End, told: &mut Vec<ReplicaRecord>) {
        told.extend(self.told(at));
        let mark = u128::from(self.number());
        let left = self.left_over(at);
        let server = &mut self.servers[at];
        let is_own = server.directory.is_own();
        let (takes, may_be) = match end {
            End::Directory(_) if !is_own => (copy_of(&server.directory), true),
            End::Directory(why) if why.contains("all are bound") && left.is_some() => {
                server.takes = left;
                (None, false)
            }
            End::Directory(why) | End::Order(why) => {
                self.wrong.push(format!("server {at} ends: {why}"));
                (None, false)
            }
        };
        // An operator who reads that the directory is a copy has it be the copy, or begins with an empty one.
        if takes.is_some() && self.rng.chance(0.5) {
            server.takes = takes;
        } else if may_be {
            server.directory = Directory { mark, ..Directory::default() };
        }
        told.push(ReplicaRecord::of(ReplicaStep::Refused, at as u16));
        told.push(ReplicaRecord::of(ReplicaStep::Ends, at as u16));
        server.process = None;
        server.lose();
        server.down_until = self.time + Duration::from_millis(100);
    }
}

/// Which copy a directory is of.
fn copy_of(directory: &Directory) -> Option<u16> {
    directory.identity.as_ref()?.seat.as_str().rsplit('/').next()?.parse().ok()
}

//! RE: replicas of a state have one history of commands. A command has one number in it, and it is behind all that was
//! answered before it was called; it is applied once everywhere, and every state is what the commands up to there make of the
//! first one. A response, or what is read, is the state's at its number, which is no earlier than what was answered before:
//! so calls and reads are linearizable. What was answered stays in the history, whatever is killed. No server takes
//! a directory that was put back for its own. In the end all servers have come to the same number, and nothing waits for an answer.
use super::{Checker, PromiseRule, Verdict};
use crate::digest::TraceDigest;
use crate::trace::{Occurrence, REGISTERS, RegisterCommand, ReplicaRecord, ReplicaStep, TraceEvent};
use std::collections::{BTreeMap, BTreeSet};

/// A state: what the registers are, and a sum of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    registers: [u64; REGISTERS],
    sum: u64,
}

/// A command of the history.
#[derive(Clone, Copy, Debug)]
struct Placed {
    call: u64,
    response: u64,
    state: State,
}

/// What was called.
#[derive(Clone, Copy, Debug)]
struct Call {
    command: RegisterCommand,
    /// The greatest number that was answered before.
    floor: u64,
    at: Option<u64>,
}

/// A server, as far as it was seen.
#[derive(Clone, Debug, Default)]
struct ServerSeen {
    serves: bool,
    at: u64,
    /// Calls and reads that wait for an answer.
    waits: BTreeSet<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReplicatedState {
    history: Vec<Placed>,
    calls: BTreeMap<u64, Call>,
    servers: BTreeMap<u16, ServerSeen>,
    /// The greatest number that was answered.
    answered: u64,
    calm: bool,
}

impl Checker for ReplicatedState {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "RE", name: "replicated state" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Replica(step) => self.on_step(step),
            Occurrence::Calm => {
                self.calm = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> Verdict {
        if !self.calm {
            return Ok(());
        }
        for (number, server) in &self.servers {
            if !server.serves {
                return Err(format!("server {number} does not serve in the end"));
            }
            if let Some(call) = server.waits.first() {
                return Err(format!("server {number} never answers {call}"));
            }
            if server.at != self.history.len() as u64 {
                let all = self.history.len();
                return Err(format!("server {number} has come to {} in the end, and the history to {all}", server.at));
            }
        }
        Ok(())
    }
}

impl ReplicatedState {
    fn on_step(&mut self, step: &ReplicaRecord) -> Verdict {
        let ReplicaRecord { server: number, call, at, sum, command, .. } = *step;
        let server = self.servers.entry(number).or_default();
        match step.step {
            ReplicaStep::Starts => *server = ServerSeen { at, ..ServerSeen::default() },
            ReplicaStep::Ends => *server = ServerSeen { at: server.at, ..ServerSeen::default() },
            ReplicaStep::Refused => {}
            ReplicaStep::Serves => {
                server.serves = true;
                if at == 1 {
                    return Err(format!("server {number} serves from a directory that was put back"));
                }
            }
            ReplicaStep::Called | ReplicaStep::Reads => {
                server.waits.insert(call);
                self.calls.insert(call, Call { command, floor: self.answered, at: None });
            }
            ReplicaStep::Answered | ReplicaStep::Lost | ReplicaStep::Read => drop(server.waits.remove(&call)),
            ReplicaStep::Applied if at != server.at + 1 => {
                return Err(format!("server {number} applies {at} behind {}", server.at));
            }
            ReplicaStep::Restored if at < server.at => {
                return Err(format!("server {number} goes back from {} to {at}", server.at));
            }
            ReplicaStep::Applied | ReplicaStep::Restored => server.at = at,
        }
        match step.step {
            ReplicaStep::Applied => self.on_applied(number, call, at, sum),
            ReplicaStep::Starts | ReplicaStep::Restored => self.is_state(number, at, sum),
            ReplicaStep::Answered => self.on_answered(call, at, sum),
            ReplicaStep::Read => self.on_read(call, at, usize::from(command.key), sum),
            ReplicaStep::Lost if at == 1 => self.is_placed(number, call),
            _ => Ok(()),
        }
    }

    fn state_at(&self, at: u64) -> Option<State> {
        match at.checked_sub(1) {
            None => Some(State { sum: sum_of(&[0; REGISTERS]), ..State::default() }),
            Some(index) => self.history.get(index as usize).map(|placed| placed.state),
        }
    }

    fn is_state(&self, server: u16, at: u64, sum: u64) -> Verdict {
        match self.state_at(at) {
            None => Err(format!("server {server} has the state at {at}, where no history has come")),
            Some(state) if state.sum != sum => Err(format!("server {server} has another state at {at}")),
            Some(_) => Ok(()),
        }
    }

    /// A state takes a command: the next of the history, or the one that others took there.
    fn on_applied(&mut self, server: u16, call: u64, at: u64, sum: u64) -> Verdict {
        if at == self.history.len() as u64 + 1 {
            self.place(call, at)?;
        }
        match self.history.get(at as usize - 1) {
            None => Err(format!("server {server} applies {at}, and the history has come to {}", self.history.len())),
            Some(placed) if placed.call != call => {
                Err(format!("server {server} applies {call} at {at}, where others applied {}", placed.call))
            }
            Some(_) => self.is_state(server, at, sum),
        }
    }

    fn place(&mut self, call: u64, at: u64) -> Verdict {
        let Some(mut state) = self.state_at(at - 1) else { return Ok(()) };
        let Some(known) = self.calls.get_mut(&call) else { return Err(format!("{call} was never called")) };
        if let Some(before) = known.at.replace(at) {
            return Err(format!("{call} is applied at {before} and at {at}"));
        }
        if at <= known.floor {
            return Err(format!("{call} is at {at}, and {} was answered before it was called", known.floor));
        }
        let response = known.command.apply(&mut state.registers);
        state.sum = sum_of(&state.registers);
        self.history.push(Placed { call, response, state });
        Ok(())
    }

    fn on_answered(&mut self, call: u64, at: u64, response: u64) -> Verdict {
        let placed = at.checked_sub(1).and_then(|index| self.history.get(index as usize));
        match placed {
            Some(placed) if placed.call == call && placed.response == response => {
                self.answered = self.answered.max(at);
                Ok(())
            }
            Some(placed) if placed.call == call => {
                Err(format!("{call} at {at} is answered {response}, not {}", placed.response))
            }
            _ => Err(format!("{call} is answered as if it were at {at}")),
        }
    }

    fn on_read(&mut self, call: u64, at: u64, key: usize, value: u64) -> Verdict {
        let floor = self.calls.get(&call).map_or(0, |call| call.floor);
        if at < floor {
            return Err(format!("{call} reads the state at {at}, and {floor} was answered before"));
        }
        match self.state_at(at) {
            Some(state) if state.registers[key % REGISTERS] == value => {
                self.answered = self.answered.max(at);
                Ok(())
            }
            _ => Err(format!("{call} reads {value}, which is not in the state at {at}")),
        }
    }

    /// What is said to be applied is in this server's state.
    fn is_placed(&self, server: u16, call: u64) -> Verdict {
        let at = self.calls.get(&call).and_then(|call| call.at);
        let has = self.servers.get(&server).map_or(0, |server| server.at);
        match at {
            Some(at) if at <= has => Ok(()),
            _ => Err(format!("server {server} says that {call} is applied, and it is not in its state")),
        }
    }
}

/// A sum of a state, as servers make it.
fn sum_of(registers: &[u64; REGISTERS]) -> u64 {
    let mut sum = TraceDigest::default();
    registers.iter().for_each(|register| sum.add(*register));
    sum.0
}

//! Cores that processes share: who runs, who waits for a core, and who sleeps.
use consort_types::{Duration, Instant};
use std::collections::VecDeque;

/// How long a process keeps its core while others wait for one.
const SLICE: Duration = Duration::from_millis(3);

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sleeping,
    /// It has work, and no core yet.
    Waiting,
    /// It has a core, and has had it for so long.
    Running(Duration),
}

/// How a process got its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The core was idle for so long.
    Idle(usize, Duration),
    /// Another process had it until now.
    Busy(usize),
    /// The process goes on.
    On(usize),
}

/// So many cores, and all processes.
pub struct Cores {
    /// Since when each core is idle that is; the last one first to be used again.
    idle: Vec<Instant>,
    waiting: VecDeque<usize>,
    states: Vec<State>,
    /// Since when each process sleeps that does.
    asleep: Vec<Instant>,
}

impl Cores {
    /// All processes sleep.
    pub fn new(cores: usize, processes: usize) -> Self {
        Self {
            idle: vec![Instant::ZERO; cores],
            waiting: VecDeque::new(),
            states: vec![State::Sleeping; processes],
            asleep: vec![Instant::ZERO; processes],
        }
    }

    /// Something came for a process. If it slept, it runs on an idle core, or waits for its turn.
    pub fn wake(&mut self, now: Instant, process: usize) -> Option<Start> {
        if self.states[process] != State::Sleeping {
            return None;
        }
        let Some(since) = self.idle.pop() else {
            self.states[process] = State::Waiting;
            self.waiting.push_back(process);
            return None;
        };
        self.states[process] = State::Running(Duration::ZERO);
        Some(Start::Idle(process, now.since(since)))
    }

    /// A process that runs has done something that took so long. Returns who runs next on its core, if anybody does.
    pub fn done(&mut self, now: Instant, process: usize, took: Duration, has_more: bool) -> Option<Start> {
        let State::Running(ran) = self.states[process] else { return None };
        let ran = ran + took;
        if has_more && (self.waiting.is_empty() || ran < SLICE) {
            self.states[process] = State::Running(ran);
            return Some(Start::On(process));
        }
        if has_more {
            self.states[process] = State::Waiting;
            self.waiting.push_back(process);
        } else {
            self.states[process] = State::Sleeping;
            self.asleep[process] = now;
        }
        let Some(next) = self.waiting.pop_front() else {
            self.idle.push(now);
            return None;
        };
        self.states[next] = State::Running(Duration::ZERO);
        Some(Start::Busy(next))
    }

    /// How many cores have been idle for so long.
    pub fn idle_for(&self, now: Instant, long: Duration) -> usize {
        self.idle.iter().filter(|since| now.since(**since) >= long).count()
    }

    /// Since when a process sleeps, or slept when it did last.
    pub fn asleep_since(&self, process: usize) -> Instant {
        self.asleep[process]
    }

    /// Whether nothing has come for it.
    pub fn sleeps(&self, process: usize) -> bool {
        self.states[process] == State::Sleeping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_micros(10);
    const AT: Instant = Instant(5_000);

    fn idle(process: usize) -> Option<Start> {
        Some(Start::Idle(process, AT.since(Instant::ZERO)))
    }

    #[test]
    fn a_process_waits_while_all_cores_are_taken() {
        let mut cores = Cores::new(2, 3);
        assert_eq!([0, 1, 2].map(|process| cores.wake(AT, process)), [idle(0), idle(1), None]);
        assert_eq!(cores.wake(AT, 0), None, "it runs already");
        assert!(!cores.sleeps(2) && cores.idle_for(AT, Duration::ZERO) == 0, "it waits for a core");
        assert_eq!(cores.done(AT, 0, STEP, true), Some(Start::On(0)), "who has more to do keeps its core for a slice");
        assert_eq!(cores.done(AT, 1, STEP, false), Some(Start::Busy(2)));
        assert!(cores.sleeps(1) && cores.asleep_since(1) == AT);
        assert_eq!((cores.done(AT, 2, STEP, false), cores.done(AT, 0, STEP, false)), (None, None));
        let later = AT + STEP;
        assert_eq!((cores.idle_for(later, STEP), cores.idle_for(later, STEP * 2)), (2, 0));
        assert_eq!(cores.wake(later, 1), Some(Start::Idle(1, STEP)), "a core is idle again");
    }

    #[test]
    fn who_runs_for_a_slice_lets_others_run() {
        let mut cores = Cores::new(1, 2);
        cores.wake(AT, 0);
        cores.wake(AT, 1);
        assert_eq!(cores.done(AT, 0, SLICE, true), Some(Start::Busy(1)));
        assert_eq!(cores.done(AT, 1, SLICE, true), Some(Start::Busy(0)), "in turn");
        assert_eq!(cores.done(AT, 0, STEP, false), Some(Start::Busy(1)));
        assert_eq!(cores.done(AT, 1, SLICE, true), Some(Start::On(1)), "nobody waits");
    }
}

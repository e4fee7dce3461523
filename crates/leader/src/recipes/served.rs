//! The thread of a recipe: between a candidate and its desk, so that the desk serves while the program works.
use super::desk::{Desk, DeskEffect, Recipe};
use crate::{CandidateId, Error, Leadership, LeadershipEvent, LeadershipOptions};
use consort::{Address, GroupName};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long what the program does waits for the thread at most.
const TICK: Duration = Duration::from_millis(5);

/// A recipe, and the thread that serves it.
#[derive(Debug)]
pub struct Served<R> {
    shared: Arc<Shared<R>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<R> {
    recipe: R,
    ends: bool,
    ended: Option<Error>,
}

impl<R> Shared<R> {
    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Recipe> Served<R> {
    pub fn start(
        addresses: &[Address],
        group: &GroupName,
        options: LeadershipOptions,
        recipe: impl FnOnce(CandidateId) -> R,
    ) -> Result<Self, Error> {
        let grace = options.timing.lease();
        let leadership = Leadership::join(addresses, group, options)?;
        let state = State { recipe: recipe(leadership.candidate()), ends: false, ended: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let ended = serve(&leadership, &seen, grace);
            drop(leadership);
            seen.state().ended = Some(ended.err().unwrap_or(Error::Gone));
            seen.changed.notify_all();
        });
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Looks at the recipe, or changes it.
    pub fn with<T>(&self, act: impl FnOnce(&mut R) -> T) -> T {
        act(&mut self.shared.state().recipe)
    }

    /// Waits until there is something to find; `None` if there was not in time.
    pub fn wait<T>(
        &self,
        within: Option<Duration>,
        mut find: impl FnMut(&mut R) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let deadline = within.and_then(|within| Instant::now().checked_add(within));
        let mut state = self.shared.state();
        loop {
            if let Some(found) = find(&mut state.recipe) {
                return Ok(Some(found));
            }
            if let Some(ended) = &state.ended {
                return Err(ended.clone());
            }
            let left =
                deadline.map_or(Duration::from_secs(1), |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<R> Drop for Served<R> {
    fn drop(&mut self) {
        self.shared.state().ends = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve<R: Recipe>(leadership: &Leadership, shared: &Shared<R>, grace: Duration) -> Result<(), Error> {
    let mut desk = Desk::new();
    let mut leads_since = None;
    loop {
        let event = leadership.receive(TICK)?;
        let mut state = shared.state();
        if state.ends {
            return Ok(());
        }
        let fence = leadership.lease().map(|lease| lease.fence);
        leads_since = fence.map(|fence| match leads_since {
            Some((before, since)) if before == fence => (before, since),
            _ => (fence, Instant::now()),
        });
        desk.handle_lead(&mut state.recipe, fence);
        let answer = event.map_or(Ok(None), |event| take(&mut desk, &mut state.recipe, event))?;
        let late = leads_since.is_some_and(|(_, since)| since.elapsed() > grace);
        let mut effects: Vec<_> = answer.into_iter().collect();
        while let Some(effect) = desk.poll(&mut state.recipe, late) {
            effects.push(effect);
        }
        drop(state);
        shared.changed.notify_all();
        for effect in effects {
            pass(leadership, effect)?;
        }
    }
}

fn take<R: Recipe>(desk: &mut Desk, recipe: &mut R, event: LeadershipEvent) -> Result<Option<DeskEffect>, Error> {
    match event {
        LeadershipEvent::Said { candidate, sender, fence: None, payload, .. } => {
            desk.handle_said(recipe, (candidate, sender), &payload);
        }
        LeadershipEvent::Said { fence: Some(fence), place, payload, .. } => {
            return Ok(desk.handle_decided(recipe, (fence, place), &payload));
        }
        LeadershipEvent::Members(members) => {
            let keys = members.iter().map(|member| (member.key().0.node, member.key().1));
            desk.handle_members(recipe, keys.collect());
        }
        LeadershipEvent::Leader { fence, .. } => desk.handle_leader(recipe, fence),
        LeadershipEvent::Disconnected { .. } => desk.handle_hole(recipe),
        LeadershipEvent::Ended(error) => return Err(error),
        _ => {}
    }
    Ok(None)
}

fn pass(leadership: &Leadership, effect: DeskEffect) -> Result<(), Error> {
    match effect {
        DeskEffect::Say(said) => leadership.say(&said),
        DeskEffect::Decide(fence, decided) => match leadership.decide(fence, &decided) {
            // The next leader decides; what this one meant to is reported to it.
            Err(Error::NotLeader { .. }) => Ok(()),
            passed => passed,
        },
    }
}

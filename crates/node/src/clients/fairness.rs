//! How much the clients of each identity have under way while those of another want something ordered, too.
//!
//! A daemon's messages are ordered one behind the other. Without a bound for each identity, a message waits for all that a
//! hundred connections of another identity may have under way, which is seconds.
use super::Sessions;
use consort_types::{ClientId, Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// What an identity may have under way while another one asks, too. A request counts 1, a join or leave [`STEP`]. Each
/// [`BYTES`] count 1 more: of a request, and of the lists of members that a join or leave sends to all members. This is about
/// how long they take.
const SHARE: u64 = 1_024;
const STEP: u64 = 32;
const BYTES: usize = 512;
/// The size of such a list without members, and of each member.
const CHANGE: usize = 64;
const MEMBER: usize = 32;
/// Another identity asks, too, as long as its last request is not older.
const CONTEST: Duration = Duration::from_millis(100);
/// What a connection that is gone had under way counts as long as this.
const LINGERS: Duration = Duration::from_millis(100);

/// All identities that have connections.
#[derive(Debug, Default)]
pub(super) struct Fairness {
    numbers: BTreeMap<String, usize>,
    all: Vec<Turnout>,
    unused: Vec<usize>,
    /// Who asked last, and when.
    latest: (usize, Instant),
    /// Until then another one than that counts as asking, too.
    contested_until: Instant,
    held_back: u64,
}

/// What one identity has.
#[derive(Debug, Default)]
struct Turnout {
    name: String,
    clients: usize,
    weight: u64,
    /// What connections had under way that are gone, and until when it counts.
    gone: (u64, Instant),
    /// Those of its clients that wait until less is under way.
    waiting: VecDeque<ClientId>,
}

/// What one client has under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// The number of its identity, for which this is counted.
    pub identity: Option<usize>,
    requests: u64,
    /// The joins and leaves among them, and what these count.
    steps: u64,
    step_weight: u64,
    /// What all that counts, as it is contained in the identity's.
    weight: u64,
    /// It waits until its identity has less under way.
    pub waits: bool,
}

impl UnderWay {
    fn weigh(&self, bytes: usize) -> u64 {
        self.requests + self.step_weight + (bytes / BYTES) as u64
    }
}

impl Fairness {
    fn enter(&mut self, now: Instant, name: &str) -> usize {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                self.forget_unused(now);
                let number = self.unused.pop().unwrap_or(self.all.len());
                self.all.resize_with(self.all.len().max(number + 1), Turnout::default);
                self.numbers.insert(name.to_owned(), number);
                self.all[number] = Turnout { name: name.to_owned(), ..Turnout::default() };
                number
            }
        };
        self.all[number].clients += 1;
        number
    }

    fn leave(&mut self, now: Instant, under_way: &UnderWay) {
        let Some(number) = under_way.identity else { return };
        let Some(turnout) = self.all.get_mut(number) else { return };
        turnout.clients = turnout.clients.saturating_sub(1);
        turnout.weight -= under_way.weight;
        if under_way.weight > 0 {
            turnout.gone = (turnout.gone(now) + under_way.weight, now + LINGERS);
        }
        if turnout.clients == 0 && now >= turnout.gone.1 {
            self.numbers.remove(&turnout.name);
            self.unused.push(number);
        }
    }

    /// Forgets identities without connections of which something still counted when the last one went. It looks only where
    /// another number would be needed, so there are never many more of them than there were identities at a time.
    fn forget_unused(&mut self, now: Instant) {
        if !self.unused.is_empty() {
            return;
        }
        let Self { numbers, all, unused, .. } = self;
        numbers.retain(|_, number| {
            let is_used = all.get(*number).is_some_and(|turnout| turnout.clients > 0 || now < turnout.gone.1);
            if !is_used {
                unused.push(*number);
            }
            is_used
        });
    }

    /// A client asks for something. Whether its identity has its share, and others ask, too.
    pub fn is_over(&mut self, now: Instant, under_way: &UnderWay) -> bool {
        let Some(identity) = under_way.identity else { return false };
        let (before, at) = std::mem::replace(&mut self.latest, (identity, now));
        if identity != before {
            self.contested_until = at + CONTEST;
        }
        let is_contested = now < self.contested_until;
        is_contested && self.all.get(identity).is_some_and(|turnout| turnout.weight + turnout.gone(now) >= SHARE)
    }

    /// Counts what a client has under way, which has changed. Its identity, if others of it wait and may go on.
    pub fn count(&mut self, under_way: &mut UnderWay, bytes: usize) -> Option<usize> {
        let (identity, weight) = (under_way.identity?, under_way.weigh(bytes));
        let turnout = self.all.get_mut(identity)?;
        turnout.weight = turnout.weight + weight - under_way.weight;
        under_way.weight = weight;
        (turnout.weight < SHARE && !turnout.waiting.is_empty()).then_some(identity)
    }
}

impl Turnout {
    fn gone(&self, now: Instant) -> u64 {
        if now < self.gone.1 { self.gone.0 } else { 0 }
    }
}

impl Sessions {
    /// A client is one of this identity's now.
    pub(super) fn count_for(&mut self, now: Instant, client: ClientId, identity: &str) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let before = std::mem::take(&mut entry.under_way);
        self.fairness.leave(now, &before);
        entry.under_way = UnderWay { identity: Some(self.fairness.enter(now, identity)), weight: 0, ..before };
        self.fairness.count(&mut entry.under_way, entry.session.outstanding());
    }

    /// A client's connection is gone.
    pub(super) fn count_no_more(&mut self, now: Instant, under_way: &UnderWay) {
        self.fairness.leave(now, under_way);
        if let Some(identity) = under_way.identity {
            self.go_on_within_share(identity);
        }
    }

    /// Has a client wait until its identity has less under way.
    #[cold]
    pub(super) fn hold_to_share(&mut self, client: ClientId) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let Some(identity) = entry.under_way.identity else { return };
        let Some(turnout) = self.fairness.all.get_mut(identity) else { return };
        self.fairness.held_back += 1;
        if turnout.weight < SHARE {
            let until = turnout.gone.1;
            self.pause_until(until, client);
        } else if !entry.under_way.waits {
            entry.under_way.waits = true;
            turnout.waiting.push_back(client);
        }
    }

    /// Has those of an identity go on that wait: one of them, or all where little is under way, because some have nothing to
    /// send any more.
    #[cold]
    pub(super) fn go_on_within_share(&mut self, identity: usize) {
        loop {
            let Some(turnout) = self.fairness.all.get_mut(identity) else { return };
            let one_is_enough = turnout.weight >= SHARE / 2;
            let Some(client) = turnout.waiting.pop_front() else { return };
            let Some(entry) = self.all.get_mut(&client) else { continue };
            entry.under_way.waits = false;
            self.pause(client);
            if one_is_enough {
                return;
            }
        }
    }

    pub(super) fn observe_fairness(&self, see: &mut dyn FnMut(&str, u64)) {
        see("clients_held_back", self.fairness.held_back);
        see("identity_under_way_most", self.fairness.all.iter().map(|turnout| turnout.weight).max().unwrap_or(0));
    }
}

impl UnderWay {
    /// More requests were accepted. One that joins or leaves a group counts more, by the number of members of that.
    pub fn accept(&mut self, requests: u64, joins_or_leaves: Option<usize>) {
        self.requests += requests;
        if let Some(members) = joins_or_leaves {
            self.steps += 1;
            self.step_weight += STEP + ((members + 1) * (CHANGE + members * MEMBER) / BYTES) as u64;
        }
    }

    /// Requests are ordered. Which of the joins and leaves it is, is not looked at: it counts as much as the others.
    pub fn order(&mut self, requests: u64, is_step: bool) {
        self.requests = self.requests.saturating_sub(requests);
        if is_step && self.steps > 0 {
            self.step_weight -= self.step_weight / self.steps;
            self.steps -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_that_went_with_something_under_way_are_forgotten_later() {
        let (mut fairness, mut now) = (Fairness::default(), Instant::ZERO);
        for number in 0..1_000 {
            let identity = fairness.enter(now, &format!("address:{number}"));
            let mut under_way = UnderWay { identity: Some(identity), requests: 1, ..UnderWay::default() };
            fairness.count(&mut under_way, 0);
            fairness.leave(now, &under_way);
            now += LINGERS / 10;
        }
        assert!(fairness.all.len() <= 12 && fairness.numbers.len() <= 12, "{}", fairness.all.len());
        assert!(fairness.all.iter().all(|turnout| turnout.weight == 0));
    }
    #[test]
    fn a_join_counts_by_what_all_members_are_told_and_nothing_is_left_of_it() {
        let mut under_way = UnderWay::default();
        let weigh = |under_way: &UnderWay| under_way.weigh(0);
        under_way.accept(1, Some(0));
        let small = weigh(&under_way);
        assert_eq!(small, 1 + STEP);
        under_way.accept(1, Some(100));
        assert!((500..1_000).contains(&(weigh(&under_way) - small)), "{}", weigh(&under_way));
        under_way.accept(1, Some(1_000));
        assert!(weigh(&under_way) > 50 * SHARE);
        (0..3).for_each(|_| under_way.order(1, true));
        assert_eq!(weigh(&under_way), 0);
    }
}

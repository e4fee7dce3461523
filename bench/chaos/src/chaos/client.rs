//! A client: connects, joins, sends and receives, and writes down what it sees, for one daemon's incarnation after another.
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use consort::{Address, Client, ConnectOptions, DisconnectReason, Error, GroupName, Service};
use consort_session as session;
use consort_sim::message::HEADER;
use consort_sim::trace::witness::{SessionEnding, Witness};
use consort_types::{Instant, Rng, ViewKind};

use super::board::{Board, held};
use super::reread::{Digest, digest};

/// How long a client waits for news before it looks at something else.
const TURN: Duration = Duration::from_millis(10);
/// How long it waits for its daemon before it tries again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a connection or an answer may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long nothing may be heard of its daemon over TCP. Daemons are stopped for 2 s in a storm, which ends such a session by
/// default, and behind it for 5 s and longer, until they have been asked. An order is judged as a whole.
const SILENCE: Duration = Duration::from_secs(15);
/// How many messages a client sends in a second of storm, in the mean.
const RATE: f64 = 25.0;
/// How many it sends as last words.
const LAST_WORDS: u32 = 3;

/// What a client is, whatever becomes of its daemons.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its node, from 0.
    pub node: usize,
    /// Its number among all clients.
    pub number: usize,
    /// Where its daemon serves it.
    pub address: Address,
    /// The groups it joins; it sends to any of them.
    pub groups: Vec<GroupName>,
    /// The sets of groups that it sends to or is in.
    pub scopes: Vec<Scope>,
    /// Whether it asks its daemon for its counters.
    pub asks: bool,
    /// What its chance comes from.
    pub seed: u64,
}

/// A set of groups for which a client is a witness.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The set's number.
    pub number: usize,
    /// The set.
    pub groups: Vec<GroupName>,
    /// Whether the client is in all of them; else it only sends to some.
    pub takes_part: bool,
}

/// Lives until it is told to stop.
pub fn live(role: &Role, board: &Board) {
    let mut rng = Rng::new(role.seed);
    while !board.stop.load(Ordering::Relaxed) {
        match connect(role, board) {
            Some((incarnation, client)) => Session::new(role, board, incarnation, client).run(&mut rng),
            None => std::thread::sleep(AGAIN),
        }
        keep_up(role, board);
    }
}

/// Whoever has nothing to hand over and nothing to say does not keep others waiting.
fn keep_up(role: &Role, board: &Board) {
    let mut state = board.state(role.number);
    state.incarnation = None;
    state.round = board.round.load(Ordering::Relaxed);
}

/// A connection that certainly is to this incarnation of the daemon.
fn connect(role: &Role, board: &Board) -> Option<(u64, Client)> {
    let incarnation = board.incarnation(role.node)?;
    let options = ConnectOptions::default().with_views().connect_within(PATIENCE).host_timeout(SILENCE);
    let client = Client::connect(&role.address, &options).ok()?;
    (board.incarnation(role.node) == Some(incarnation)).then_some((incarnation, client))
}

/// One connection.
struct Session<'a> {
    role: &'a Role,
    board: &'a Board,
    incarnation: u64,
    client: Client,
    witnesses: Vec<(usize, Witness)>,
    /// Its messages so far.
    count: u64,
    ordered: u64,
    /// What it sent and does not know to be ordered, by the numbers of its requests.
    waits: BTreeMap<u64, (Digest, String)>,
    last_word: u64,
    next: Instant,
}

impl<'a> Session<'a> {
    fn new(role: &'a Role, board: &'a Board, incarnation: u64, client: Client) -> Self {
        let now = board.now();
        let mut cast = held(&board.cast);
        let witness = |scope: &Scope| {
            let (groups, welcome) = (&scope.groups, client.welcome());
            let witness =
                if scope.takes_part { cast.witness(now, welcome, groups) } else { cast.bystander(welcome, groups) };
            (scope.number, witness)
        };
        let witnesses = role.scopes.iter().map(witness).collect();
        drop(cast);
        let last_word = board.last_word.load(Ordering::Relaxed);
        *board.state(role.number) =
            super::board::State { incarnation: Some(incarnation), heard: now, last_word, ..Default::default() };
        Self {
            role,
            board,
            incarnation,
            client,
            witnesses,
            count: 0,
            ordered: 0,
            waits: BTreeMap::new(),
            last_word,
            next: now,
        }
    }

    fn run(mut self, rng: &mut Rng) {
        let joined = self.role.groups.iter().try_for_each(|group| self.client.join(group).map(drop));
        let end = match joined {
            Ok(()) => self.take_part(rng),
            Err(error) => Some(error),
        };
        if let Some(error) = end {
            self.on_end(&error);
        }
        self.hand_over();
    }

    /// Until told to stop, or until the session ends with this error.
    fn take_part(&mut self, rng: &mut Rng) -> Option<Error> {
        loop {
            match self.client.receive(TURN) {
                Ok(Some(event)) => self.on_event(event),
                Ok(None) => self.on_progress(),
                Err(error) => {
                    self.on_progress();
                    return Some(error);
                }
            }
            self.speak_in_time(rng);
            self.hand_over_in_time();
            if self.board.stop.load(Ordering::Relaxed) {
                return None;
            }
        }
    }

    fn on_event(&mut self, event: consort::Event) {
        if self.board.end(self.role.node, self.incarnation) == Some(SessionEnding::Left) {
            self.witnesses.iter_mut().for_each(|(_, witness)| witness.leaves());
        }
        // Its place in the progress is one that it never had in the order.
        if let consort::Event::Refused { send, .. } = &event {
            self.waits.remove(send);
        }
        self.see(&event.into());
    }

    fn see(&mut self, event: &session::DaemonEvent) {
        let at = self.board.now();
        let mut cast = held(&self.board.cast);
        self.witnesses.iter_mut().for_each(|(_, witness)| witness.see(at, event, &mut cast));
        drop(cast);
        let mut state = self.board.state(self.role.number);
        state.heard = at;
        if let session::DaemonEvent::View(view) = event {
            state.view = (view.kind == ViewKind::Regular).then(|| (view.id, view.members.clone()));
        }
        state.joined = self.witnesses.iter().all(|(_, witness)| witness.is_joined());
    }

    /// All that was told before has been received: what the library knows of progress came after it.
    fn on_progress(&mut self) {
        let progress = self.client.progress();
        if progress.ordered > self.ordered {
            // The first requests were the joins.
            let known = self.ordered.max(self.role.groups.len() as u64);
            self.board.acknowledged.fetch_add(progress.ordered.saturating_sub(known), Ordering::Relaxed);
            self.ordered = progress.ordered;
            let rest = self.waits.split_off(&(progress.ordered + 1));
            let known = std::mem::replace(&mut self.waits, rest).into_values();
            if let Some(said) = &self.board.said {
                held(said).extend(known);
            }
            self.see(&session::DaemonEvent::Progress(progress));
        }
        self.board.state(self.role.number).owed = self.client.sent() - progress.ordered;
    }

    fn speak_in_time(&mut self, rng: &mut Rng) {
        if !self.board.is_complete(self.role.node, self.incarnation) {
            return;
        }
        let asked = self.board.last_word.load(Ordering::Relaxed);
        if asked > self.last_word {
            self.last_word = asked;
            (0..LAST_WORDS).for_each(|_| self.speak(rng));
            self.board.state(self.role.number).last_word = asked;
        }
        let now = self.board.now();
        if self.board.talk.load(Ordering::Relaxed) && now >= self.next {
            let burst = if rng.chance(0.02) { 40 } else { 1 };
            (0..burst).for_each(|_| self.speak(rng));
            self.next = now + Duration::from_secs_f64(rng.exponential(f64::from(burst) / RATE));
        }
    }

    /// Which of its requests this is.
    fn describe(&self, number: u64, len: usize) -> String {
        let (client, incarnation) = (self.role.number, self.incarnation);
        format!("request {number} of client {client} in incarnation {incarnation} of its daemon, {len} bytes")
    }

    /// Sends a message, if there is credit for it. Where the session is over, that is found out when it is read.
    fn speak(&mut self, rng: &mut Rng) {
        let (service, groups, len) = draft(&self.role.groups, rng);
        let Some((_, first)) = self.witnesses.first() else { return };
        let payload = first.payload(self.count + 1, len).to_bytes();
        let (at, before) = (self.board.now(), self.client.sent());
        let sent = self.client.try_multicast(service, &groups, &payload);
        if sent.is_ok() || self.client.sent() > before {
            self.count += 1;
            let (number, count) = (self.client.sent(), self.count);
            if self.board.said.is_some() {
                self.waits.insert(number, (digest(&payload), self.describe(number, payload.len())));
            }
            for (_, witness) in &mut self.witnesses {
                witness.submitted(at, number, count, &groups, (service, payload.len()));
            }
            self.board.state(self.role.number).owed = number - self.client.progress().ordered;
        }
    }

    fn hand_over_in_time(&mut self) {
        let round = self.board.round.load(Ordering::Relaxed);
        if self.board.state(self.role.number).round < round {
            if self.role.asks {
                self.ask();
            }
            self.hand_over();
            self.board.state(self.role.number).round = round;
        }
    }

    fn hand_over(&mut self) {
        for (scope, witness) in &mut self.witnesses {
            self.board.hand_over(*scope, witness.take());
        }
    }

    /// Asks the daemon for its counters; those that a checker watches are written down.
    fn ask(&mut self) {
        let Ok(status) = self.client.status(PATIENCE) else { return };
        let pairs = status.into_pairs();
        let at = self.board.now();
        self.witnesses.iter_mut().for_each(|(_, witness)| witness.status(at, &pairs));
    }

    /// The session is over: because its daemon was ended, or it should not be.
    fn on_end(&mut self, error: &Error) {
        let at = self.board.now();
        let how = self.board.end(self.role.node, self.incarnation);
        let said = match error {
            Error::Disconnected { farewell, .. } => Some(farewell.reason),
            _ => None,
        };
        let is_due = match said {
            // Whether it may start anew is judged by what daemons log.
            Some(DisconnectReason::Restarting) => true,
            None | Some(DisconnectReason::Stopping) => how.is_some(),
            _ => false,
        };
        for (_, witness) in &mut self.witnesses {
            if !is_due {
                witness.refused(at, format!("its session ended: {error}"));
            }
            witness.ended(at, how.unwrap_or(SessionEnding::Crashed));
        }
    }
}

/// A message to some of these groups: at which level, to which, and of how many bytes.
fn draft(groups: &[GroupName], rng: &mut Rng) -> (Service, Vec<GroupName>, usize) {
    let mut to: Vec<_> = groups.iter().filter(|_| rng.chance(0.6)).cloned().collect();
    if to.is_empty() {
        to.push(groups[rng.below(groups.len() as u64) as usize].clone());
    }
    let service = match rng.below(10) {
        0..4 => Service::Safe,
        4..8 => Service::Agreed,
        other => [Service::Causal, Service::Fifo][other as usize - 8],
    };
    let most = [200, 200, 200, 200, 200, 200, 200, 3_000, 3_000, 40_000][rng.below(10) as usize];
    let most = if rng.chance(0.005) { 200_000 } else { most };
    (service, to, rng.between(HEADER as u64, most) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_name_one_group_at_least_and_have_room_for_their_name() {
        let groups = [GroupName::new(b"a").unwrap(), GroupName::new(b"b").unwrap()];
        let mut rng = Rng::new(1);
        let drafts: Vec<_> = (0..2_000).map(|_| draft(&groups, &mut rng)).collect();
        assert!(drafts.iter().all(|(_, to, len)| !to.is_empty() && *len >= HEADER && *len <= 200_000));
        let some = |service| drafts.iter().any(|draft| draft.0 == service);
        assert!([Service::Safe, Service::Agreed, Service::Causal, Service::Fifo].into_iter().all(some));
        assert!(drafts.iter().any(|(_, to, _)| to.len() == 2) && drafts.iter().any(|(.., len)| *len > 40_000));
    }
}

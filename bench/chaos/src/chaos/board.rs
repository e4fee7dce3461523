//! What the one who makes trouble and the clients know of each other.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use consort_sim::trace::TraceEvent;
use consort_sim::trace::witness::{NameBook, SessionEnding};
use consort_types::{Instant, MemberId, ViewId};

use super::reread::Digest;

/// Everything shared. Threads read it at every turn of theirs and write what is theirs.
#[derive(Debug)]
pub struct Board {
    epoch: std::time::Instant,
    /// All threads are to end.
    pub stop: AtomicBool,
    /// Clients may send.
    pub talk: AtomicBool,
    /// All is at rest, and daemons end next: guests who stay through calms are to hear the last of their words, and go.
    pub last_call: AtomicBool,
    /// How many such guests there are.
    pub seated: AtomicU64,
    /// How often all clients were asked for a last word before a calm.
    pub last_word: AtomicU64,
    /// How often all clients were asked to hand over what they wrote down.
    pub round: AtomicU64,
    /// How many messages their senders know to be ordered.
    pub acknowledged: AtomicU64,
    /// Where the order is read again at the end: of each of them its SHA-256, for its payload names client and number; and
    /// which it is.
    pub said: Option<Mutex<BTreeMap<Digest, String>>>,
    /// Names for incarnations and clients.
    pub cast: Mutex<NameBook>,
    nodes: Vec<Mutex<Home>>,
    clients: Vec<Mutex<State>>,
    /// What was handed over, for each set of groups.
    notes: Vec<Mutex<Vec<TraceEvent>>>,
}

/// A node as its clients know it.
#[derive(Debug, Default)]
struct Home {
    /// How often its daemon was started.
    incarnation: u64,
    up: bool,
    /// How its daemons were ended, by their incarnations.
    ended: BTreeMap<u64, SessionEnding>,
}

/// How a client is doing.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The incarnation of its node's daemon to which it is connected.
    pub incarnation: Option<u64>,
    /// It is in all its groups.
    pub joined: bool,
    /// The network as it was told last, if that is a regular view.
    pub view: Option<(ViewId, Vec<MemberId>)>,
    /// How many of its sends are not known to be ordered.
    pub owed: u64,
    /// When it was told anything last.
    pub heard: Instant,
    /// The last words it has said, and the rounds it has taken part in.
    pub last_word: u64,
    pub round: u64,
}

impl Board {
    /// For so many nodes with so many clients each, and so many sets of groups.
    pub fn new(nodes: u16, clients: usize, scopes: usize) -> Self {
        let nodes = usize::from(nodes);
        Self {
            epoch: std::time::Instant::now(),
            stop: AtomicBool::new(false),
            talk: AtomicBool::new(false),
            last_call: AtomicBool::new(false),
            seated: AtomicU64::new(0),
            last_word: AtomicU64::new(0),
            round: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            said: None,
            cast: Mutex::default(),
            nodes: (0..nodes).map(|_| Mutex::default()).collect(),
            clients: (0..nodes * clients).map(|_| Mutex::default()).collect(),
            notes: (0..scopes).map(|_| Mutex::default()).collect(),
        }
    }

    /// The same, for a run that reads the order again.
    pub fn reread(self) -> Self {
        Self { said: Some(Mutex::default()), ..self }
    }

    /// The time, on the one clock of all traces.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }

    /// A node's daemon was started.
    pub fn begins(&self, node: usize) {
        let mut home = held(&self.nodes[node]);
        home.incarnation += 1;
        home.up = true;
    }

    /// A node's daemon is about to be ended so.
    pub fn ends(&self, node: usize, how: SessionEnding) {
        let mut home = held(&self.nodes[node]);
        home.up = false;
        let incarnation = home.incarnation;
        home.ended.insert(incarnation, how);
    }

    /// The incarnation that a node's daemon is in, if it was not ended.
    pub fn incarnation(&self, node: usize) -> Option<u64> {
        let home = held(&self.nodes[node]);
        home.up.then_some(home.incarnation)
    }

    /// How an incarnation of a node's daemon was ended, if it was.
    pub fn end(&self, node: usize, incarnation: u64) -> Option<SessionEnding> {
        held(&self.nodes[node]).ended.get(&incarnation).copied()
    }

    /// A client's state, for itself to change.
    pub fn state(&self, client: usize) -> MutexGuard<'_, State> {
        held(&self.clients[client])
    }

    /// Whether all clients of a node are connected to this incarnation of its daemon, and in all their groups.
    pub fn is_complete(&self, node: usize, incarnation: u64) -> bool {
        let clients = self.clients.len() / self.nodes.len();
        let mut here = self.clients[node * clients..][..clients].iter();
        here.all(|state| {
            let state = held(state);
            state.joined && state.incarnation == Some(incarnation)
        })
    }

    /// A client hands over what it wrote down for a set of groups.
    pub fn hand_over(&self, scope: usize, events: Vec<TraceEvent>) {
        held(&self.notes[scope]).extend(events);
    }

    /// All that was handed over for a set of groups.
    pub fn collect(&self, scope: usize) -> Vec<TraceEvent> {
        std::mem::take(&mut held(&self.notes[scope]))
    }

    /// Asks all clients for what they wrote down, or for a last word.
    pub fn ask(&self, number: &AtomicU64) -> u64 {
        number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether all clients have done something.
    pub fn have_all(&self, done: impl Fn(&State) -> bool) -> bool {
        self.clients.iter().all(|state| done(&held(state)))
    }

    /// What keeps all from being at rest, in words; `None` once nothing has been told to anybody for some time, all
    /// clients are in all their groups and in one view of all nodes, and nothing is owed to anybody.
    pub fn unrest(&self, quiet: std::time::Duration) -> Option<String> {
        let mut views = BTreeSet::new();
        let clients = self.clients.len() / self.nodes.len();
        for (number, state) in self.clients.iter().enumerate() {
            let name = format!("client {} of node {}", number % clients + 1, number / clients + 1);
            let state = held(state).clone();
            if state.incarnation.is_none() || state.incarnation != self.incarnation(number / clients) {
                return Some(format!("{name} is not connected"));
            }
            if !state.joined {
                return Some(format!("{name} is not in all its groups"));
            }
            let Some((view, members)) = state.view else { return Some(format!("{name} is between views")) };
            if members.len() != self.nodes.len() {
                return Some(format!("{name} is in view {view} of {} nodes", members.len()));
            }
            views.insert(view);
            if state.owed > 0 {
                return Some(format!("{name} waits for {} of its sends", state.owed));
            }
            if self.now().since(state.heard) < quiet {
                return Some(format!("{name} is still told news"));
            }
        }
        let list = || views.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        (views.len() != 1).then(|| format!("there are several views: {}", list()))
    }
}

/// What is known stays true though a thread panicked while it looked.
pub fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to it that the threads end, however their maker's work ends.
pub struct StopAtEnd<'a>(pub &'a Board);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Two nodes with a client each, both at rest.
    fn at_rest() -> Board {
        let board = Board::new(2, 1, 1);
        for node in 0..2 {
            board.begins(node);
            let id = ViewId { number: 5, representative: MemberId::new(1, 1) };
            let view = Some((id, vec![MemberId::new(1, 1), MemberId::new(2, 1)]));
            *board.state(node) = State { incarnation: Some(1), joined: true, view, ..State::default() };
        }
        board
    }

    fn unrest(change: impl FnOnce(&Board)) -> String {
        let board = at_rest();
        change(&board);
        board.unrest(Duration::ZERO).unwrap_or_default()
    }

    #[test]
    fn rest_is_one_view_of_all_and_nothing_owed() {
        assert_eq!(unrest(|_| ()), "");
        assert_eq!(unrest(|board| board.state(1).owed = 3), "client 1 of node 2 waits for 3 of its sends");
        assert_eq!(unrest(|board| board.state(0).joined = false), "client 1 of node 1 is not in all its groups");
        assert_eq!(unrest(|board| board.state(0).view = None), "client 1 of node 1 is between views");
        let alone = |board: &Board| board.state(0).view.as_mut().unwrap().1.truncate(1);
        assert_eq!(unrest(alone), "client 1 of node 1 is in view 5@n1.1 of 1 nodes");
        let other = |board: &Board| board.state(0).view.as_mut().unwrap().0.number = 9;
        assert_eq!(unrest(other), "there are several views: 5@n1.1, 9@n1.1");
        assert!(at_rest().unrest(Duration::from_secs(3_600)).unwrap().ends_with("is still told news"));
    }

    #[test]
    fn whoever_is_connected_to_an_earlier_incarnation_is_not_at_rest() {
        let restarted = |board: &Board| {
            board.ends(0, SessionEnding::Crashed);
            assert_eq!((board.incarnation(0), board.end(0, 1)), (None, Some(SessionEnding::Crashed)));
            board.begins(0);
            assert_eq!((board.incarnation(0), board.end(0, 2)), (Some(2), None));
        };
        assert_eq!(unrest(restarted), "client 1 of node 1 is not connected");
    }

    #[test]
    fn a_node_is_complete_once_all_its_clients_are_in() {
        let board = Board::new(1, 2, 1);
        *board.state(0) = State { incarnation: Some(1), joined: true, ..State::default() };
        *board.state(1) = State { incarnation: Some(1), ..State::default() };
        assert!(!board.is_complete(0, 1));
        board.state(1).joined = true;
        assert!(board.is_complete(0, 1) && !board.is_complete(0, 2));
    }

    #[test]
    fn threads_end_though_their_maker_panics() {
        let board = Board::new(1, 1, 1);
        let panicked = std::panic::catch_unwind(|| {
            std::thread::scope(|scope| {
                let _stop_at_end = StopAtEnd(&board);
                scope.spawn(|| {
                    while !board.stop.load(Ordering::Relaxed) {
                        std::thread::yield_now()
                    }
                });
                std::panic::resume_unwind(Box::new("wanted"));
            })
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn notes_are_collected_once() {
        let board = at_rest();
        let event = TraceEvent {
            at: Instant(1),
            process: consort_sim::message::Process::WORLD,
            what: consort_sim::trace::Occurrence::Calm,
        };
        board.hand_over(0, vec![event.clone()]);
        assert_eq!((board.collect(0), board.collect(0)), (vec![event], vec![]));
    }
}

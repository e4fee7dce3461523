//! A random model: daemons that part, meet, crash and lag, candidates that move, pause and crash, clocks that drift. No real
//! time, and one seed decides everything.
use crate::{CandidateId, Command, Effect, Election, Fence, Mutant, Timing};
use consort_types::{Instant, Rng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const MS: u64 = 1_000_000;
const LEASE: Duration = Duration::from_millis(1_000);
/// Clocks err by at most one in ten.
const DRIFT: f64 = 0.1;
const STEPS: u64 = 1_500;

/// What the environment does wrong, or how leaders are chosen instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Messages are delivered before all hold them.
    Agreed,
    /// Messages have their effect in any part.
    AnyPart,
    /// The lowest of a view that counts leads, without a lease, for as long as it knows no other view.
    LatePrimary,
    /// The lowest of each part leads.
    LongestTogether,
}

#[derive(Clone, Debug)]
enum Entry {
    Complete,
    Said { client: usize, command: Command },
}

/// One view of the daemons, and what is ordered in it.
#[derive(Debug)]
struct View {
    number: u64,
    members: BTreeSet<usize>,
    log: Vec<Entry>,
    /// How much of the log each member has received; frozen once it left.
    held: BTreeMap<usize, usize>,
}

#[derive(Debug, Default)]
struct Daemon {
    up: bool,
    view: Option<usize>,
    /// The greatest number of a view it has seen; it is kept on disk.
    seen: u64,
    delivered: usize,
    /// How far all members hold the log, as it knows.
    stable: usize,
    stuck_until: u64,
}

#[derive(Clone, Debug)]
enum Told {
    View(u64, Vec<usize>),
    Closing,
    Counts,
    Command(u128, Command),
    Settled(u64),
    Hole,
}

#[derive(Debug)]
struct Client {
    election: Election,
    home: usize,
    connected: bool,
    /// On its way to the client.
    stream: VecDeque<Told>,
    /// Not yet handed to the daemon.
    out: VecDeque<Command>,
    /// Without a fate.
    pending: Vec<Command>,
    rate: f64,
    offset: u64,
    paused_until: u64,
    incarnations: u64,
    /// Leads by the order alone, in the variants without lease.
    naive: bool,
    group: Vec<usize>,
}

/// What came of a run.
#[derive(Debug, Default)]
struct Outcome {
    elections: u64,
    views: u64,
    problem: Option<String>,
}

struct World {
    rng: Rng,
    now: u64,
    daemons: Vec<Daemon>,
    views: Vec<View>,
    clients: Vec<Client>,
    wrong: Option<Wrong>,
    mutant: Option<Mutant>,
    last: Option<Fence>,
    outcome: Outcome,
}

impl View {
    fn counts_at(&self, at: usize, of: usize, any: bool) -> bool {
        // They stand before all else.
        let complete = self.log[..at].iter().filter(|entry| matches!(entry, Entry::Complete)).count();
        (any || self.members.len() * 2 > of) && complete == self.members.len()
    }
}

impl Client {
    fn clock(&self, now: u64) -> Instant {
        Instant(self.offset + (now as f64 * self.rate) as u64)
    }
}

impl World {
    fn new(seed: u64, mutant: Option<Mutant>, wrong: Option<Wrong>) -> Self {
        let mut rng = Rng::new(seed);
        let daemons = rng.between(3, 5) as usize;
        let count = rng.between(2, 4) as usize;
        let mut world = Self {
            daemons: (0..daemons).map(|_| Daemon { up: true, ..Daemon::default() }).collect(),
            views: Vec::new(),
            clients: Vec::new(),
            now: 0,
            wrong,
            mutant,
            last: None,
            outcome: Outcome::default(),
            rng,
        };
        for at in 0..count {
            let client = world.client(at, 0);
            world.clients.push(client);
        }
        world.form((0..daemons).collect());
        world
    }

    fn client(&mut self, at: usize, incarnations: u64) -> Client {
        let mut name = [at as u8; 16];
        name[1] = incarnations as u8;
        let timing = Timing::new(LEASE, (DRIFT * 1e6) as u32).unwrap();
        let mut election = Election::new(CandidateId(name), timing).with_mutant(self.mutant);
        let (rate, offset) = (1.0 + DRIFT * (2.0 * self.rng.unit() - 1.0), self.rng.below(1 << 40));
        let rate = if self.rng.chance(0.3) { if rate > 1.0 { 1.0 + DRIFT } else { 1.0 - DRIFT } } else { rate };
        election.stand(Instant(offset));
        let home = self.rng.below(self.daemons.len() as u64) as usize;
        Client {
            election,
            home,
            connected: false,
            stream: VecDeque::new(),
            out: VecDeque::new(),
            pending: Vec::new(),
            rate,
            offset,
            paused_until: 0,
            incarnations,
            naive: false,
            group: Vec::new(),
        }
    }

    /// These daemons leave their views and form one.
    fn form(&mut self, members: BTreeSet<usize>) {
        self.outcome.views += 1;
        let old: BTreeMap<usize, usize> =
            members.iter().filter_map(|at| self.daemons[*at].view.map(|view| (*at, view))).collect();
        for (view, at) in old.iter().map(|(at, view)| (*view, *at)).collect::<BTreeSet<_>>() {
            self.tell(at, &Told::Closing);
            // Those that move together share what they hold.
            let together = old.iter().filter(|(_, other)| **other == view).map(|(other, _)| *other);
            let most = together.map(|other| self.views[view].held[&other]).max().unwrap_or(0);
            self.deliver(at, most);
        }
        for (at, view) in &old {
            let together = old.iter().filter(|(_, other)| *other == view).map(|(other, _)| *other);
            let most = together.map(|other| self.daemons[other].delivered).max().unwrap_or(0);
            *self.views[*view].held.get_mut(at).unwrap() = most;
        }
        let number = members.iter().map(|at| self.daemons[*at].seen).max().unwrap_or(0) + 1;
        let held = members.iter().map(|at| (*at, 0)).collect();
        let log = members.iter().map(|_| Entry::Complete).collect();
        self.views.push(View { number, members: members.clone(), log, held });
        for at in members {
            let daemon = &mut self.daemons[at];
            (daemon.seen, daemon.view) = (number, Some(self.views.len() - 1));
            (daemon.delivered, daemon.stable) = (0, 0);
            let group = self.group_of(self.views.len() - 1);
            self.tell(at, &Told::View(number, group));
            self.send_again(at);
        }
    }

    fn group_of(&self, view: usize) -> Vec<usize> {
        let members = &self.views[view].members;
        (0..self.clients.len()).filter(|at| members.contains(&self.clients[*at].home)).collect()
    }

    fn tell(&mut self, daemon: usize, told: &Told) {
        for client in self.clients.iter_mut().filter(|client| client.home == daemon && client.connected) {
            client.stream.push_back(told.clone());
        }
    }

    /// Sessions send again what has no fate.
    fn send_again(&mut self, daemon: usize) {
        for client in self.clients.iter_mut().filter(|client| client.home == daemon && client.connected) {
            client.out = client.pending.iter().cloned().collect();
        }
    }

    fn deliver(&mut self, at: usize, to: usize) {
        let Some(view) = self.daemons[at].view else { return };
        let any = matches!(self.wrong, Some(Wrong::AnyPart | Wrong::LongestTogether));
        while self.daemons[at].delivered < to {
            let place = self.daemons[at].delivered;
            self.daemons[at].delivered += 1;
            let of = self.daemons.len();
            match self.views[view].log[place].clone() {
                Entry::Complete => {
                    if self.views[view].counts_at(place + 1, of, any) {
                        self.tell(at, &Told::Counts);
                    }
                }
                Entry::Said { client, command } => {
                    if self.views[view].counts_at(place, of, any) {
                        self.tell(at, &Told::Command(place as u128 + 1, command.clone()));
                        let sender = &mut self.clients[client];
                        let waits = sender.pending.contains(&command);
                        if sender.home == at && sender.connected && waits {
                            sender.pending.retain(|kept| *kept != command);
                            sender.out.retain(|kept| *kept != command);
                            sender.stream.push_back(Told::Settled(command.serial));
                        }
                    } else if self.clients[client].home == at && self.clients[client].connected {
                        let again = self.clients[client].pending.contains(&command);
                        if again && !self.clients[client].out.contains(&command) {
                            self.clients[client].out.push_back(command);
                        }
                    }
                }
            }
        }
    }

    /// A daemon takes what its clients send, receives and delivers.
    fn run_daemon(&mut self, at: usize) {
        let Some(view) = self.daemons[at].view.filter(|_| self.now >= self.daemons[at].stuck_until) else { return };
        for client in 0..self.clients.len() {
            let own = self.clients[client].home == at && self.clients[client].connected;
            if own
                && self.rng.chance(0.7)
                && let Some(command) = self.clients[client].out.pop_front()
            {
                self.views[view].log.push(Entry::Said { client, command });
            }
        }
        let len = self.views[view].log.len();
        let held = self.views[view].held.get_mut(&at).unwrap();
        *held += self.rng.below((len - *held) as u64 + 1) as usize;
        let (held, least) = (*held, *self.views[view].held.values().min().unwrap());
        if self.rng.chance(0.7) {
            self.daemons[at].stable = if self.wrong == Some(Wrong::Agreed) { held } else { least };
        }
        let to = self.daemons[at].stable.min(held).max(self.daemons[at].delivered);
        self.deliver(at, to);
    }

    /// A client reads, and does what is due.
    fn run_client(&mut self, at: usize) {
        if self.now < self.clients[at].paused_until {
            return;
        }
        if !self.clients[at].connected && self.rng.chance(0.3) {
            self.connect(at);
        }
        let read = self.rng.below(self.clients[at].stream.len() as u64 + 1);
        for _ in 0..read {
            let now = self.clients[at].clock(self.now);
            let Some(told) = self.clients[at].stream.pop_front() else { break };
            self.take(at, now, told);
            self.act(at);
        }
        let now = self.clients[at].clock(self.now);
        self.clients[at].election.handle_timeout(now);
        if self.clients[at].election.leads(now).is_some() && self.rng.chance(0.003) {
            self.clients[at].election.resign(now);
            self.clients[at].election.stand(now);
        }
        self.act(at);
        self.judge();
    }

    fn take(&mut self, at: usize, now: Instant, told: Told) {
        let client = &mut self.clients[at];
        match told {
            Told::View(number, group) => {
                client.election.handle_view(now, number);
                (client.naive, client.group) = (false, group);
            }
            Told::Closing => {
                client.election.handle_closing(now);
                client.naive = false;
            }
            Told::Counts => client.naive = client.group.first() == Some(&at),
            Told::Command(position, command) => client.election.handle_command(now, position, &command),
            Told::Settled(serial) => client.election.handle_settled(now, serial, true),
            Told::Hole => {
                client.election.handle_hole(now);
                client.naive = false;
            }
        }
    }

    /// Takes the effects of one input, and sees whether it has been elected.
    fn act(&mut self, at: usize) {
        while let Some(effect) = self.clients[at].election.poll_effect() {
            match effect {
                Effect::Send(command) => {
                    self.clients[at].pending.push(command.clone());
                    self.clients[at].out.push_back(command);
                }
                Effect::Tell(crate::Notice::Elected { fence, .. }) => self.elected(at, fence),
                Effect::Tell(_) => {}
            }
        }
        self.judge();
    }

    fn elected(&mut self, at: usize, fence: Fence) {
        self.outcome.elections += 1;
        if self.last.is_some_and(|last| fence <= last) {
            self.fail(format!("{at} was elected with {fence:?} behind {:?}", self.last));
        }
        self.last = self.last.max(Some(fence));
    }

    fn fail(&mut self, problem: String) {
        let at = self.now / MS;
        self.outcome.problem.get_or_insert_with(|| format!("at {at} ms: {problem}"));
    }

    /// Never two leaders with valid leases, each by its own clock.
    fn judge(&mut self) {
        let naive = matches!(self.wrong, Some(Wrong::LatePrimary | Wrong::LongestTogether));
        let leads = |client: &Client| {
            if naive { client.naive } else { client.election.leads(client.clock(self.now)).is_some() }
        };
        let leaders: Vec<_> = (0..self.clients.len()).filter(|at| leads(&self.clients[*at])).collect();
        if leaders.len() > 1 {
            self.fail(format!("{leaders:?} lead"));
        }
    }

    fn connect(&mut self, at: usize) {
        let home = self.rng.below(self.daemons.len() as u64) as usize;
        let Some(view) = self.daemons[home].view.filter(|_| self.daemons[home].up) else { return };
        let (number, group) = (self.views[view].number, self.group_of(view));
        let client = &mut self.clients[at];
        (client.home, client.connected) = (home, true);
        client.stream.push_back(Told::View(number, group));
        client.out = client.pending.iter().cloned().collect();
    }

    fn disconnect(&mut self, at: usize) {
        if self.clients[at].connected {
            // What was on its way may still be read.
            if self.rng.chance(0.5) {
                self.clients[at].stream.clear();
            }
            self.clients[at].stream.push_back(Told::Hole);
            self.clients[at].connected = false;
        }
    }

    fn pick(&mut self) -> usize {
        self.rng.below(self.clients.len() as u64) as usize
    }

    fn fault(&mut self) {
        let daemon = self.rng.below(self.daemons.len() as u64) as usize;
        let (client, span) = (self.pick(), self.rng.below(3_000) * MS);
        match self.rng.below(12) {
            0..=4 => self.part(),
            5 => self.crash_daemon(daemon),
            6 | 7 => self.disconnect(client),
            8 => self.clients[client].paused_until = self.now + span,
            9 => {
                let incarnations = self.clients[client].incarnations + 1;
                self.clients[client] = self.client(client, incarnations);
            }
            10 => self.daemons[daemon].stuck_until = self.now + span,
            _ => self.form_all(),
        }
    }

    fn part(&mut self) {
        let members: BTreeSet<_> =
            (0..self.daemons.len()).filter(|at| self.daemons[*at].up && self.rng.chance(0.6)).collect();
        if !members.is_empty() {
            self.form(members);
        }
    }

    fn form_all(&mut self) {
        for daemon in &mut self.daemons {
            daemon.up = true;
        }
        self.form((0..self.daemons.len()).collect());
    }

    fn crash_daemon(&mut self, at: usize) {
        if !self.daemons[at].up {
            self.daemons[at].up = true;
            return;
        }
        (0..self.clients.len())
            .filter(|client| self.clients[*client].home == at)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|client| self.disconnect(client));
        let seen = self.daemons[at].seen;
        self.daemons[at] = Daemon { seen, ..Daemon::default() };
    }

    fn run(mut self) -> Outcome {
        for _ in 0..STEPS {
            self.now += self.rng.below(40 * MS);
            (0..self.daemons.len()).for_each(|at| self.run_daemon(at));
            (0..self.clients.len()).for_each(|at| self.run_client(at));
            if self.rng.chance(0.02) {
                self.fault();
            }
            if self.outcome.problem.is_some() {
                break;
            }
        }
        self.outcome
    }
}

fn seeds() -> u64 {
    std::env::var("CONSORT_MODEL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

fn noticed(mutant: Option<Mutant>, wrong: Option<Wrong>) -> Option<(u64, String)> {
    (0..seeds().max(20_000))
        .find_map(|seed| World::new(seed, mutant, wrong).run().problem.map(|problem| (seed, problem)))
}

/// The rule that the environment breaks, for `cargo xtask mutants`.
fn broken() -> Option<Mutant> {
    let name = std::env::var("CONSORT_LEADER_MUTANT").ok()?;
    Some(*Mutant::ALL.iter().find(|mutant| mutant.name() == name).unwrap())
}

#[test]
fn never_two_lead_and_fences_rise() {
    let (mut elections, mut views) = (0, 0);
    let most = if broken().is_some() { seeds().max(20_000) } else { seeds() };
    for seed in 0..most {
        let outcome = World::new(seed, broken(), None).run();
        assert_eq!(outcome.problem, None, "seed {seed}");
        elections += outcome.elections;
        views += outcome.views;
    }
    println!("{} seeds: {elections} elections, {views} views", seeds());
    assert!(elections > 2 * seeds() && views > 10_000, "{elections} elections in {views} views");
}

#[test]
fn each_broken_rule_is_noticed() {
    let missed: Vec<_> = Mutant::ALL
        .iter()
        .filter(|mutant| {
            let noticed = noticed(Some(**mutant), None);
            println!("{}: {noticed:?}", mutant.name());
            noticed.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn each_known_wrong_way_is_noticed() {
    for wrong in [Wrong::Agreed, Wrong::AnyPart, Wrong::LatePrimary, Wrong::LongestTogether] {
        let noticed = noticed(None, Some(wrong));
        println!("{wrong:?}: {noticed:?}");
        assert!(noticed.is_some(), "{wrong:?}");
    }
}

//! What every client does, told to it line by line.
mod ending;
mod groups;
mod messages;
mod opening;
mod sessions;

use crate::daemon::Daemon;
use crate::player::{Player, Program};
use std::path::Path;

/// What a scenario comes to: nothing, or what was wrong.
pub type Outcome = Result<(), String>;

/// One thing that every client does.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it does, as a sentence.
    pub name: &'static str,
    run: fn(&Stage) -> Outcome,
    /// What not every client has: the request by which it is used.
    needs: Option<&'static str>,
    /// What it takes that Spread's session protocol does not have, whatever a program says.
    pub beyond_spread: Option<&'static str>,
}

const fn scenario(name: &'static str, run: fn(&Stage) -> Outcome) -> Scenario {
    Scenario { name, run, needs: None, beyond_spread: None }
}

impl Scenario {
    const fn needs(self, request: &'static str) -> Self {
        Self { needs: Some(request), ..self }
    }

    const fn beyond_spread(self, needed: &'static str) -> Self {
        Self { beyond_spread: Some(needed), ..self }
    }

    fn is_for(&self, program: &Program, by: Listener) -> bool {
        let spoken = !by.is_spread() || self.beyond_spread.is_none();
        // A program that cannot even be asked fails by itself.
        spoken && self.needs.is_none_or(|request| has(program, request).unwrap_or(true))
    }
}

/// Whether a program has what not every client has.
fn has(program: &Program, what: &str) -> Result<bool, String> {
    Ok(program.start()?.ask(&format!("has {what}"))?.kind() == "ok")
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    scenario("connects under a name, or is given one", opening::connects),
    scenario("says where nobody is", opening::nobody),
    scenario("says when its name is taken", opening::name_taken),
    scenario("refuses what is no name", opening::bad_names),
    scenario("is told the view of the network where it asks", opening::views).beyond_spread("views of the network"),
    scenario("hears nothing in time without a failure", opening::nothing),
    scenario("joins, and all see it", groups::joins),
    scenario("leaves, and all see it", groups::leaves),
    scenario("is told whether a group is open, of the primary part, and who remains where it leaves", groups::in_full)
        .beyond_spread("group views with all of that"),
    scenario("is told which send was refused, and why", groups::refusals).beyond_spread("refusals with a cause"),
    scenario("is kept out of a closed group", groups::closed).beyond_spread("closed groups"),
    scenario("sends with each service, in one order", messages::services),
    scenario("sends to several groups at once, once to each member", messages::several_groups),
    scenario("sends to one client alone", messages::private),
    scenario("sends payloads of every byte, and of none", messages::payloads),
    scenario("sends the largest payload, and no larger one", messages::largest),
    scenario("sends to nobody only with a failure", messages::no_target),
    scenario("sends more than its credit without losing any", messages::more_than_credit),
    scenario("is told positions where it asks", messages::positions).beyond_spread("positions"),
    scenario("closes, and all see it", ending::closes),
    scenario("is told that its daemon stops", ending::daemon_stops).beyond_spread("reasons"),
    scenario("notices that its daemon has stopped, and connects again", ending::connects_again),
    scenario("is told that its daemon is gone", ending::daemon_dies),
    scenario("is told that its daemon is silent", ending::daemon_freezes).beyond_spread("heartbeats"),
    scenario("goes on at another daemon, with each message once", sessions::fails_over)
        .needs("session")
        .beyond_spread("sessions over several daemons"),
];

/// Where a scenario plays: a daemon of its own, and the program that is tried.
#[derive(Debug)]
pub struct Stage<'a> {
    program: &'a Program,
    consort: &'a Path,
    daemon: Daemon,
    by: Listener,
}

/// How clients connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    Unix,
    Tcp,
    SpreadUnix,
    SpreadTcp,
}

/// Where scenarios are played: by a program that speaks Spread's session protocol at the latter two, by any other at the
/// former.
const LISTENERS: [(Listener, &str); 4] = [
    (Listener::Unix, "unix"),
    (Listener::Tcp, "tcp"),
    (Listener::SpreadUnix, "spread unix"),
    (Listener::SpreadTcp, "spread tcp"),
];

/// What may be no longer at a listener, in bytes: names of clients and groups; and what the largest message has at least.
#[derive(Clone, Copy, Debug)]
struct Limits {
    name: usize,
    group: usize,
    message: u64,
}

impl Listener {
    const fn is_spread(self) -> bool {
        matches!(self, Self::SpreadUnix | Self::SpreadTcp)
    }

    const fn limits(self) -> Limits {
        match self {
            Self::Unix | Self::Tcp => Limits { name: 23, group: 64, message: 1_000_000 },
            Self::SpreadUnix | Self::SpreadTcp => Limits { name: 10, group: 31, message: 143_120 },
        }
    }

    /// Starts a daemon that has this listener.
    fn daemon(self, consort: &Path) -> Result<Daemon, String> {
        let daemon = if self.is_spread() { Daemon::start_with_spread(consort) } else { Daemon::start(consort) };
        daemon.map_err(|error| error.to_string())
    }
}

impl Stage<'_> {
    /// Where the daemon is.
    fn address(&self) -> String {
        self.address_of(&self.daemon)
    }

    fn address_of(&self, daemon: &Daemon) -> String {
        match self.by {
            Listener::Unix => daemon.unix().display().to_string(),
            Listener::Tcp => daemon.tcp().to_owned(),
            Listener::SpreadUnix => daemon.spread_unix().display().to_string(),
            Listener::SpreadTcp => daemon.spread_tcp().to_owned(),
        }
    }

    /// A program that did nothing yet.
    fn player(&self) -> Result<Player, String> {
        self.program.start()
    }

    /// A program that has connected with these further words: `name=ann`.
    fn client(&self, words: &str) -> Result<Player, String> {
        let mut player = self.player()?;
        player.expect(&format!("connect {} {words}", self.address()), "ok node=1")?;
        Ok(player)
    }

    /// Programs under these names, all in the group `g`, each told of all.
    fn members<const N: usize>(&self, names: [&str; N]) -> Result<[Player; N], String> {
        let mut players = Vec::new();
        for (name, so_far) in names.iter().zip(1..) {
            let mut player = self.client(&format!("name={name}"))?;
            player.expect("join g", "ok send=1")?;
            players.push(player);
            let all: Vec<_> = names[..so_far].iter().map(|name| format!("#{name}#n1")).collect();
            for player in &mut players {
                player.receive(&format!("group_view group=g cause=join members={}", all.join(",")))?;
            }
        }
        players.try_into().map_err(|_| "another number of players".to_owned())
    }

    /// Another daemon, to be ended.
    fn another_daemon(&self) -> Result<Daemon, String> {
        self.by.daemon(self.consort)
    }
}

/// Plays those scenarios whose names contain `filter`, at each listener that the program uses, and tells each outcome as
/// it comes, none where the client or its protocol lacks what the scenario needs; how many failed.
///
/// # Errors
/// If no daemon starts, or none was played.
pub fn play(
    program: &Program,
    consort: &Path,
    filter: &str,
    mut tell: impl FnMut(&str, &Scenario, Option<&Outcome>),
) -> Result<usize, String> {
    let chosen: Vec<_> = SCENARIOS.iter().filter(|scenario| scenario.name.contains(filter)).collect();
    if chosen.is_empty() {
        return Err(format!("no scenario is called like `{filter}`"));
    }
    let spread = has(program, "spread").unwrap_or(false);
    let mut failed = 0;
    for (by, listener) in LISTENERS.into_iter().filter(|(by, _)| by.is_spread() == spread) {
        for scenario in &chosen {
            if !scenario.is_for(program, by) {
                tell(listener, scenario, None);
                continue;
            }
            let daemon = by.daemon(consort)?;
            let outcome = (scenario.run)(&Stage { program, consort, daemon, by });
            failed += usize::from(outcome.is_err());
            tell(listener, scenario, Some(&outcome));
        }
    }
    Ok(failed)
}

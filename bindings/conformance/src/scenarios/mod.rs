//! What every client does, told to it line by line.
mod ending;
mod groups;
mod messages;
mod opening;
mod sessions;

use crate::daemon::Daemon;
use crate::player::{Player, Program};
use std::path::{Path, PathBuf};

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
}

const fn scenario(name: &'static str, run: fn(&Stage) -> Outcome) -> Scenario {
    Scenario { name, run, needs: None }
}

impl Scenario {
    const fn needs(self, request: &'static str) -> Self {
        Self { needs: Some(request), ..self }
    }

    fn is_for(&self, program: &Program) -> Result<bool, String> {
        let Some(request) = self.needs else { return Ok(true) };
        Ok(program.start()?.ask(&format!("has {request}"))?.kind() == "ok")
    }
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    scenario("connects under a name, or is given one", opening::connects),
    scenario("says where nobody is", opening::nobody),
    scenario("says when its name is taken", opening::name_taken),
    scenario("refuses what is no name", opening::bad_names),
    scenario("is told the view of the network where it asks", opening::views),
    scenario("hears nothing in time without a failure", opening::nothing),
    scenario("joins, and all see it", groups::joins),
    scenario("leaves, and all see it", groups::leaves),
    scenario("is told which send was refused, and why", groups::refusals),
    scenario("is kept out of a closed group", groups::closed),
    scenario("sends with each service, in one order", messages::services),
    scenario("sends to several groups at once, once to each member", messages::several_groups),
    scenario("sends to one client alone", messages::private),
    scenario("sends payloads of every byte, and of none", messages::payloads),
    scenario("sends the largest payload, and no larger one", messages::largest),
    scenario("sends to nobody only with a failure", messages::no_target),
    scenario("sends more than its credit without losing any", messages::more_than_credit),
    scenario("is told positions where it asks", messages::positions),
    scenario("closes, and all see it", ending::closes),
    scenario("is told that its daemon stops", ending::daemon_stops),
    scenario("is told that its daemon is gone", ending::daemon_dies),
    scenario("is told that its daemon is silent", ending::daemon_freezes),
    scenario("goes on at another daemon, with each message once", sessions::fails_over).needs("session"),
];

/// Where a scenario plays: a daemon of its own, and the program that is tried.
#[derive(Debug)]
pub struct Stage<'a> {
    program: &'a Program,
    consort: &'a Path,
    daemon: Daemon,
    by: Door,
}

/// How clients connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Unix,
    Tcp,
}

/// The doors through which all scenarios are played.
const DOORS: [(Door, &str); 2] = [(Door::Unix, "unix"), (Door::Tcp, "tcp")];

impl Stage<'_> {
    /// Where the daemon is.
    fn address(&self) -> String {
        self.address_of(&self.daemon)
    }

    fn address_of(&self, daemon: &Daemon) -> String {
        match self.by {
            Door::Unix => daemon.unix().display().to_string(),
            Door::Tcp => daemon.tcp().to_owned(),
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
                player.receive(&format!("group_view group=g cause=join closed=no members={}", all.join(",")))?;
            }
        }
        players.try_into().map_err(|_| "another number of players".to_owned())
    }

    /// Another daemon, to be ended.
    fn another_daemon(&self) -> Result<Daemon, String> {
        Daemon::start(self.consort).map_err(|error| error.to_string())
    }
}

/// Plays those scenarios whose names contain `filter`, through each door, and tells each outcome as it comes, none where the
/// client lacks what the scenario needs; how many failed.
///
/// # Errors
/// If no daemon starts, or none was played.
pub fn play(
    program: &Program,
    consort: &Path,
    filter: &str,
    mut tell: impl FnMut(&str, &Scenario, Option<&Outcome>),
) -> Result<usize, String> {
    let consort: PathBuf = consort.into();
    let chosen: Vec<_> = SCENARIOS.iter().filter(|scenario| scenario.name.contains(filter)).collect();
    if chosen.is_empty() {
        return Err(format!("no scenario is called like `{filter}`"));
    }
    let mut failed = 0;
    for (by, door) in DOORS {
        for scenario in &chosen {
            // A program that cannot even be asked fails by itself.
            if !scenario.is_for(program).unwrap_or(true) {
                tell(door, scenario, None);
                continue;
            }
            let daemon = Daemon::start(&consort).map_err(|error| error.to_string())?;
            let outcome = (scenario.run)(&Stage { program, consort: &consort, daemon, by });
            failed += usize::from(outcome.is_err());
            tell(door, scenario, Some(&outcome));
        }
    }
    Ok(failed)
}

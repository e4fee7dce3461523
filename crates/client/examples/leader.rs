//! A leader without an election: the lowest member of a group. Everybody sees the same views at the same places of the
//! order, so nobody has to be asked.
//!
//! When the network is parted each part has a leader. Where there may be only one, it acts only while the group view says
//! that its members are the primary part; when that changes, the group view is told once more.
//!
//! `cargo run -p consort --example leader -- 127.0.0.1:4840 tea ann`
pub mod common;
use common::Arguments;
use consort::{Client, Error, Event, GroupName, GroupView, Member, Primary};
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let watched = Arguments::connect("leader")
        .and_then(|(client, group)| watch(client, &group).map_err(|error| error.to_string()));
    if let Err(problem) = watched {
        eprintln!("leader: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn watch(client: Client, group: &GroupName) -> Result<(), Error> {
    let mut watcher = Watcher::join(client, group)?;
    loop {
        if let Some(leader) = watcher.step(None)? {
            println!("{leader}");
        }
    }
}

/// Who leads, as one member sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The lowest member.
    pub member: Member,
    /// Whether it is the one who asks.
    pub is_me: bool,
    /// Whether it may act as the only one, as far as the order has been received: a part that was cut off and does not know
    /// it yet may still have one.
    pub primary: Primary,
}

impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let me = if self.is_me { ", that is me" } else { "" };
        let only = match self.primary {
            Primary::Yes => "",
            Primary::Pending | Primary::No => "; this part of the network is not primary",
            Primary::NoPolicy => "; no policy says which part may act alone",
        };
        write!(f, "{} leads{me}{only}", self.member)
    }
}

/// Follows who leads a group.
pub struct Watcher {
    client: Client,
    view: Option<GroupView>,
}

impl Watcher {
    /// Joins.
    pub fn join(mut client: Client, group: &GroupName) -> Result<Self, Error> {
        client.join(group)?;
        client.flush()?;
        Ok(Self { client, view: None })
    }

    /// Takes the next event; the leader if it was a view.
    pub fn step(&mut self, within: impl Into<Option<Duration>>) -> Result<Option<Leader>, Error> {
        match self.client.receive(within)? {
            Some(Event::GroupView(view)) => self.view = Some(view),
            Some(Event::Refused { refusal, .. }) => eprintln!("leader: the join was refused: {refusal}"),
            _ => return Ok(None),
        }
        Ok(self.leader())
    }

    /// Who leads; nobody until the join stands in the order.
    pub fn leader(&self) -> Option<Leader> {
        let view = self.view.as_ref()?;
        let member = view.members.first()?.clone(); // the lowest stands first
        let is_me = member.key() == (self.client.welcome().daemon, self.client.welcome().client);
        Some(Leader { member, is_me, primary: view.primary })
    }
}

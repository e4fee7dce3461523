//! What the examples have in common: their arguments and their input.
#![allow(dead_code, reason = "each example uses its part")]
#![allow(clippy::disallowed_methods, reason = "a thread waits for standard input")]

use consort::{Address, Client, ClientName, ConnectOptions, GroupName};
use std::sync::mpsc::{Receiver, channel};

/// What an example was told.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    /// Where its daemon listens.
    pub daemon: Address,
    /// Which group it joins.
    pub group: GroupName,
    /// What it is called; the daemon finds a name where there is none.
    pub name: Option<ClientName>,
}

impl Arguments {
    /// Reads `<daemon> <group> [<name>]`; an error names the word that is wrong.
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let daemon = words.next().ok_or("<daemon> is missing: a path with a slash in it, or host:port")?;
        let daemon = daemon.parse().map_err(|problem| format!("<daemon>: {problem}"))?;
        let group = words.next().ok_or("<group> is missing")?;
        let group = GroupName::new(&group).map_err(|problem| format!("<group> `{group}`: {problem}"))?;
        let name = words.next().map(|name| client_name(&name)).transpose()?;
        match words.next() {
            Some(word) => Err(format!("`{word}` is one word too many")),
            None => Ok(Self { daemon, group, name }),
        }
    }

    /// Reads the program's own words and connects.
    pub fn connect(example: &str) -> Result<(Client, GroupName), String> {
        Self::connect_with(example, ConnectOptions::default())
    }

    /// The same with more options.
    pub fn connect_with(example: &str, options: ConnectOptions) -> Result<(Client, GroupName), String> {
        let usage = |problem| format!("{problem}\nusage: {example} <daemon> <group> [<name>]");
        let Self { daemon, group, name } = Self::read(std::env::args().skip(1)).map_err(usage)?;
        let client = Client::connect(&daemon, &options.named(name)).map_err(|error| error.to_string())?;
        Ok((client, group))
    }
}

fn client_name(name: &str) -> Result<ClientName, String> {
    let rule = || format!("<name> `{name}`: 1 to {} printable ASCII characters, no space, no #", ClientName::MAX);
    ClientName::new(name.as_bytes()).ok_or_else(rule)
}

/// The lines of standard input, read by a thread.
pub fn lines_of_stdin() -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

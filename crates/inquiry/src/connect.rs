//! Finding a daemon on this machine, and talking to it.
use crate::args::Args;
use crate::failure::{Code, Failure, Outcome, note};
use crate::runtime_dir::{self, Card};
use consort::{Address, Client, ClientTls, ConnectOptions, Error};
use consort_types::GroupName;
use std::io::ErrorKind;
use std::path::Path;

/// Which daemon is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    address: Option<Address>,
    node: Option<u16>,
    cluster: Option<String>,
}

impl Wanted {
    /// Takes `--daemon`, `--node` or `--cluster`; false for any other option.
    pub fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--daemon" => self.address = Some(address(args)?),
            "--node" => self.node = Some(args.number(1..=u64::from(u16::MAX))? as u16),
            "--cluster" => self.cluster = Some(args.cluster()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Connects to the wanted daemon, else to the one with the lowest node on this machine.
    pub fn connect(&self, options: &ConnectOptions) -> Outcome<Client> {
        connect(&self.one()?, options)
    }

    /// Where the wanted daemon serves clients, else the one with the lowest node on this machine.
    pub fn one(&self) -> Outcome<Address> {
        match &self.address {
            Some(address) => Ok(address.clone()),
            None => Ok(Address::Unix(self.choose(note)?.socket)),
        }
    }

    /// Where all daemons serve clients that could be meant, each with its cluster if that is known.
    pub fn all(&self) -> Outcome<Vec<(Option<String>, Address)>> {
        match &self.address {
            Some(address) => Ok(vec![(None, address.clone())]),
            None => Ok(self
                .candidates()?
                .into_iter()
                .map(|card| (Some(card.cluster), Address::Unix(card.socket)))
                .collect()),
        }
    }

    /// The daemons on this machine that could be meant.
    pub fn candidates(&self) -> Outcome<Vec<Card>> {
        let runtime = runtime_dir::runtime_directory();
        check_owner(&runtime)?;
        let all = runtime_dir::all_running(&runtime);
        let fits = |card: &&Card| {
            self.cluster.as_ref().is_none_or(|name| *name == card.cluster)
                && self.node.is_none_or(|node| node == card.node)
        };
        let found: Vec<Card> = all.iter().filter(fits).cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let message = match all[..] {
            [] => nothing_runs(&runtime),
            _ => format!("no such daemon runs on this machine, but {}; start one with `consort daemon`", list(&all)),
        };
        Err(Failure::new(message).with(Code::NoDaemon))
    }

    /// The address that was given, if one was.
    pub fn given(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// The daemon that is meant: the one with the lowest node, which is said where there are others.
    pub fn choose(&self, say: impl Fn(String)) -> Outcome<Card> {
        let mut found = self.candidates()?;
        if found.iter().any(|card| card.cluster != found[0].cluster) {
            return Err(Failure::usage(format!(
                "daemons of several clusters run here: {}; choose one with --cluster NAME",
                list(&found)
            )));
        }
        if found.len() > 1 {
            say(format!("using node {} of {} (others with --node)", found[0].node, list(&found)));
        }
        Ok(found.swap_remove(0))
    }
}

/// Refuses a runtime directory in which another user could pose as a daemon, and be sent tokens and messages.
fn check_owner(runtime: &Path) -> Outcome {
    // One that is named may be that of another user's daemons.
    let is_named = std::env::var_os(runtime_dir::VARIABLE).is_some_and(|value| !value.is_empty());
    let own = [0, rustix::process::geteuid().as_raw()];
    let message = match consort::owner_of(runtime) {
        Ok(Some(owner)) if is_named || own.contains(&owner) => return Ok(()),
        Ok(_) => format!(
            "{} may be another user's, who could pose as a daemon there; remove it, or name another by {}",
            runtime.display(),
            runtime_dir::VARIABLE
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => nothing_runs(runtime),
        Err(error) => format!("cannot look at {}: {error}", runtime.display()),
    };
    Err(Failure::new(message).with(Code::NoDaemon))
}

fn nothing_runs(runtime: &Path) -> String {
    format!("no daemon runs on this machine (none in {}); start one with `consort daemon`", runtime.display())
}

/// Connects, or says who does not answer.
pub fn connect(address: &Address, options: &ConnectOptions) -> Outcome<Client> {
    let mut shown = options.clone();
    shown.token = shown.token.or_else(shown_token);
    shown.tls = match shown.tls {
        None => shown_tls()?,
        tls => tls,
    };
    Client::connect(address, &shown).map_err(|error| match error {
        Error::Connect { .. } if !error.is_of_tls() => absent(&error.to_string()),
        Error::TimedOut { .. } => {
            Failure::new(format!("{address} is open, but no daemon answers in time; is it stopped, or starved of CPU?"))
                .with(Code::NoDaemon)
        }
        other => Failure::new(other.to_string()).with(Code::NoDaemon),
    })
}

/// The token that commands show: that in the variable CONSORT_TOKEN, if there is one.
pub fn shown_token() -> Option<String> {
    std::env::var("CONSORT_TOKEN").ok().filter(|token| !token.is_empty())
}

/// How commands speak TLS with daemons at TCP addresses: if the variable CONSORT_TLS_AUTHORITY names the file of an authority
/// that they believe. CONSORT_TLS_CERTIFICATE and CONSORT_TLS_KEY name what they show.
///
/// # Errors
/// A file cannot be read, or is of no use.
pub fn shown_tls() -> Outcome<Option<ClientTls>> {
    let named = |variable: &str| std::env::var_os(variable).filter(|path| !path.is_empty());
    let Some(authority) = named("CONSORT_TLS_AUTHORITY") else { return Ok(None) };
    let own = match (named("CONSORT_TLS_CERTIFICATE"), named("CONSORT_TLS_KEY")) {
        (Some(chain), Some(key)) => Some((chain, key)),
        (None, None) => None,
        _ => return Err(Failure::usage("give CONSORT_TLS_CERTIFICATE and CONSORT_TLS_KEY, or neither")),
    };
    let own = own.as_ref().map(|(chain, key)| (Path::new(chain), Path::new(key)));
    ClientTls::from_files(Path::new(&authority), own)
        .map(Some)
        .map_err(|error| Failure::usage(format!("the files of CONSORT_TLS_ are of no use: {error}")))
}

/// There is no daemon, as `why` says; its last word is followed by what to do.
pub fn absent(why: &str) -> Failure {
    Failure::new(format!("{why} start one with `consort daemon`")).with(Code::NoDaemon)
}

/// The group for those who name none.
pub fn usual_group() -> Outcome<GroupName> {
    GroupName::new(b"lobby").map_err(|problem| Failure::new(problem.to_string()))
}

/// Reads a group's name.
pub fn group(args: &mut Args) -> Outcome<GroupName> {
    let name = args.text()?;
    GroupName::new(name).map_err(|problem| Failure::usage(format!("--group: {problem}")))
}

fn address(args: &mut Args) -> Outcome<Address> {
    let text = args.text()?;
    text.parse().map_err(|problem| Failure::usage(format!("--daemon: {problem}")))
}

fn list(cards: &[Card]) -> String {
    let names: Vec<String> = cards.iter().map(|card| format!("{}/{}", card.cluster, card.node)).collect();
    names.join(", ")
}

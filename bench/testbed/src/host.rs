//! A node in one process with its clients: what such a process does, and how a testbed talks with it.
//!
//! The node runs as programs run it that embed one; each client has a thread of its own and connects at
//! the node's client address.
use super::Testbed;
use super::client::be_client;
use super::job::{Go, Job, Report};
use super::watch::{Starter, tell};
use consort::embedded::{Builder, EmbedError};
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_daemon::{log, options, run};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

/// What the names of clients' threads begin with, and those of the threads that clients start.
pub const CLIENTS: &str = "client-";

/// What such a process is told, one a line.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// A client with this number is to start.
    Start(usize, Job),
    /// All clients that have started are to go.
    Go(Go),
    /// No client is wanted any more.
    Over,
}

/// What one of its clients tells: all of them share one standard output.
#[derive(Debug, Serialize, Deserialize)]
pub struct Said {
    /// The number it was started with.
    pub by: usize,
    pub report: Report,
}

impl Testbed {
    /// As [`Testbed::start`], but each node is embedded in a process in which its clients will be threads.
    pub fn embed(nodes: u16, options: &[String]) -> Outcome<Self> {
        Self::start_all(nodes, options, true)
    }

    /// Whether the nodes are embedded.
    pub const fn embeds(&self) -> bool {
        self.embedded
    }

    /// Tells the process of an embedded node.
    pub fn order(&mut self, node: u16, order: &Order) -> Outcome {
        let text = serde_json::to_string(order).trying(|| "cannot write an order".into())?;
        self.daemons.get_mut(&node).ok_or_else(|| super::absent(node))?.tell(&text)
    }

    /// Tells all of them.
    pub fn order_all(&mut self, order: &Order) -> Outcome {
        let nodes: Vec<u16> = self.daemons.keys().copied().collect();
        nodes.into_iter().try_for_each(|node| self.order(node, order))
    }
}

/// Runs a node with these options of a daemon, and clients as they are ordered, until the input ends.
pub fn run(words: Vec<String>) -> Outcome {
    let options = options::read(words.into_iter().map(OsString::from).collect())?;
    let settings = options.settings()?;
    let _log = log::start(options.log.as_deref(), options.log_format)?;
    end_with_any_thread();
    run::open_many_files(settings.limits.clients_most);
    let mut builder = Builder::from_settings(settings);
    if let Some(node) = options.node {
        builder = builder.node(node);
    }
    let node = builder.start().map_err(said)?;
    writeln!(io::stdout(), "ready")?;
    obey(io::stdin().lock())?;
    node.leave().map_err(said)
}

fn obey(input: impl BufRead) -> Outcome {
    let mut clients: Vec<Sender<Go>> = Vec::new();
    for line in input.lines() {
        let line = line.trying(|| "cannot read the standard input".into())?;
        match serde_json::from_str(&line).trying(|| format!("`{line}` is not an order"))? {
            Order::Start(number, job) => clients.push(start(number, job)?),
            Order::Go(go) => clients.iter().for_each(|client| {
                // One that has failed before has said so.
                let _ = client.send(go);
            }),
            Order::Over => clients.clear(),
        }
    }
    Ok(())
}

/// Starts a client. It goes when it is sent the signal, and ends when it was told all and what is returned is dropped.
fn start(number: usize, job: Job) -> Outcome<Sender<Go>> {
    let (tell, hear) = channel();
    let starter = Host { number, orders: hear };
    let thread = std::thread::Builder::new().name(format!("{CLIENTS}{number}"));
    // Why it failed it has told.
    let spawned = thread.spawn(move || drop(be_client(&job, &starter, &[])));
    spawned.map(|_| tell).trying(|| "cannot start a thread".into())
}

/// A thread that panics ends the process, as it would one of its own: nobody waits for its reports in vain.
fn end_with_any_thread() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::exit(101);
    }));
}

fn said(error: EmbedError) -> Failure {
    Failure::new(error.to_string())
}

/// The process that a client's thread is in.
struct Host {
    number: usize,
    orders: Receiver<Go>,
}

impl Starter for Host {
    fn tell(&self, report: &Report) -> Outcome {
        tell(&Said { by: self.number, report: report.clone() })
    }

    fn go(&self) -> Outcome<Go> {
        self.orders.recv().trying(|| "no signal to go came".into())
    }

    fn stay(&self) {
        while self.orders.recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_order_and_what_is_no_option_is_told() {
        assert!(obey(&b"\"Over\"\n{\"Go\":{\"start\":1,\"from\":2,\"until\":3}}\n"[..]).is_ok());
        let problem = obey(&b"go\n"[..]).unwrap_err().message;
        assert!(problem.starts_with("`go` is not an order: "), "{problem}");
        let problem = run(vec!["--nods".into(), "3".into()]).unwrap_err().message;
        assert_eq!(problem, "--nods: there is no such option; did you mean --nodes?");
    }

    #[test]
    fn a_client_that_is_not_wanted_any_more_does_not_go() {
        let (go, orders) = channel();
        let host = Host { number: 7, orders };
        go.send(Go { start: 1, from: 2, until: 3 }).unwrap();
        assert_eq!(host.go().unwrap().from, 2);
        drop(go);
        host.stay();
        assert!(host.go().unwrap_err().message.starts_with("no signal to go came"));
    }
}

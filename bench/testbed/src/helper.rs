//! The far end of `testbed::process`: what this program does when a demonstration or measurement starts it as a helper.
use super::client::be_client;
use super::floods::FloodPlan;
use super::host;
use super::job::Job;
use super::system::System;
use super::watch::{Parent, end_with_stdin, tell};
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_net::raw::{self, HopWait};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The command's name; it is in no help text.
pub const COMMAND: &str = "testbed-helper";

/// What a helper has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Be a client of a daemon.
    Client(Job),
    /// Be a node with these options of a daemon, and its clients.
    Embed(Vec<String>),
    /// Be one of a ring that passes datagrams on; says at which address.
    PassHopsOn {
        next: SocketAddr,
        /// Looks again and again instead of sleeping.
        spin: bool,
    },
    /// Take what is multicast; says how much came.
    ReceiveFlood(FloodPlan),
    /// Connect to a socket, say so, and read to the end; says how many bytes came.
    ReadStream { path: PathBuf },
}

impl Task {
    /// The words that start a helper with this task.
    pub fn words(&self) -> Outcome<Vec<String>> {
        let text = serde_json::to_string(self).trying(|| "cannot write a task".into())?;
        Ok(vec![COMMAND.into(), text])
    }
}

/// Runs the command; its clients may be of these other systems.
pub fn main(words: &[OsString], systems: &[&dyn System]) -> Outcome {
    let text = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let task = serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("{COMMAND} serves demo and bench only: {error}")))?;
    match task {
        Task::Client(job) => be_client(&job, &Parent, systems),
        Task::Embed(words) => host::run(words),
        Task::PassHopsOn { next, spin } => pass_hops_on(next, spin),
        Task::ReceiveFlood(plan) => receive_flood(&plan),
        Task::ReadStream { path } => read_stream(&path),
    }
}

fn pass_hops_on(next: SocketAddr, spin: bool) -> Outcome {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).trying(|| "cannot bind a UDP socket on 127.0.0.1".into())?;
    tell(&socket.local_addr().trying(|| "cannot read a socket's address".into())?)?;
    // The datagram that ends the ring may be lost, or whoever sends it killed.
    end_with_stdin();
    let passed = raw::pass_hops_on(&socket, next, waiting(spin), Duration::from_secs(10));
    passed.map(drop).trying(|| format!("cannot pass a datagram on to {next}"))
}

/// How the floor waits.
pub const fn waiting(spin: bool) -> HopWait {
    if spin { HopWait::Spin } else { HopWait::Sleep }
}

fn receive_flood(plan: &FloodPlan) -> Outcome {
    let flooded = raw::receive_flood(&plan.flood()).trying(|| "cannot receive the raw multicast".into())?;
    tell(&flooded.packets_per_second())
}

fn read_stream(path: &Path) -> Outcome {
    let mut stream = UnixStream::connect(path).trying(|| format!("cannot connect to {}", path.display()))?;
    tell(&true)?;
    let (mut room, mut sum) = (vec![0; 256 << 10], 0u64);
    loop {
        match stream.read(&mut room).trying(|| "cannot read a stream".into())? {
            0 => break,
            len => sum += len as u64,
        }
    }
    tell(&sum)
}

//! What starting other systems takes: programs, words of a shell, free addresses.
use consort_daemon::failure::{Failure, Outcome, Trying};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a program runs, and ends well.
pub fn runs(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// As one word of a shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Addresses that are free at this moment.
pub fn free_addresses(count: usize) -> Outcome<Vec<SocketAddr>> {
    let bound: Result<Vec<TcpListener>, _> = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    let bound = bound.trying(|| "cannot find free ports".into())?;
    let addresses: Result<Vec<SocketAddr>, _> = bound.iter().map(TcpListener::local_addr).collect();
    addresses.map_err(|error| Failure::new(format!("cannot find free ports: {error}")))
}

/// Reads the address of a daemon.
pub fn address(at: &str) -> Outcome<SocketAddr> {
    at.parse().trying(|| format!("`{at}` is no address"))
}

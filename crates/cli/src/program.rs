//! Which command.
use crate::failure::{Failure, Outcome};
use crate::{
    abandon, adopt, clients, companion, daemon, explain, groups, key, keygen, receive, send, status, token, withdraw,
    words,
};
use consort_testbed::helper;
use std::ffi::OsString;
use std::process::ExitCode;

const HELP: &str = "\
Consort: many programs on several machines, one order of messages for all.

Usage: consort COMMAND [options]

  daemon    run one node; several make a cluster
  send      multicast lines to a group
  receive   print what a group is told, in the one order
  status    how the daemons on this machine are doing
  groups    which groups there are, and who is in them
  clients   who is connected, and what waits for whom
  explain   the last changes among the daemons, and why they came
  keygen    write a key: daemons that have it seal what they say to each other
  key       change that key while messages flow
  token     make a token, by which a client proves who it is
  withdraw  retain nothing any more for a reader that declares checkpoints
  abandon   begin another order, where a majority of acceptors lost its disks
  adopt     say that copied votes are the newest that a node has
  kv        a replicated key-value store, which speaks the protocol of Redis
  demo      see it work: three daemons, one order, a few seconds
  top       all of that on one screen; a program of its own, as the next two
  bench     measure it, beside the bare sockets of this machine
  lab       measure again what the papers measured

  consort COMMAND --help    what a command can do
  consort --version         which version this is

To begin, type `consort demo`. Or in three terminals:
  consort daemon
  consort receive
  consort send hello

Exit codes: 0 all is well, 1 it could not be done, 2 wrong command line or
configuration, 3 no daemon to talk to, 4 the daemon went away and some sends are
of unknown fate, 5 the time ran out, 130 interrupted.
";

/// Runs the command that the words name.
pub fn run(words: Vec<OsString>) -> ExitCode {
    match dispatch(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn dispatch(mut words: Vec<OsString>) -> Outcome {
    if words.is_empty() {
        return Err(Failure::usage(format!("no command was given\n\n{}", HELP.trim_end())));
    }
    let command = words.remove(0);
    match command.to_str() {
        Some("daemon") => daemon::main(words),
        Some("send") => send::main(words),
        Some("receive") => receive::main(words),
        Some("status") => status::main(words),
        Some("groups") => groups::main(words),
        Some("clients") => clients::main(words),
        Some("explain") => explain::main(words),
        Some("keygen") => keygen::main(words),
        Some("key") => key::main(words),
        Some("withdraw") => withdraw::main(words),
        Some("abandon") => abandon::main(words),
        Some("adopt") => adopt::main(words),
        Some("token") => token::main(words),
        Some("kv") => consort_kv_cli::main(words),
        Some("demo") => consort_demo::main(words),
        Some(helper::COMMAND) => helper::main(&words, &[]),
        Some("help") if !words.is_empty() => {
            words.truncate(1);
            words.push("--help".into());
            dispatch(words)
        }
        Some("--help" | "-h" | "help") => Err(Failure::shown(HELP)),
        Some("--version" | "-V") => Err(Failure::shown(format!("consort {}\n", env!("CARGO_PKG_VERSION")))),
        _ => {
            let command = command.to_string_lossy();
            Err(companion::start(&command, &words).unwrap_or_else(|| unknown(&command)))
        }
    }
}

fn unknown(command: &str) -> Failure {
    let commands = [
        "daemon",
        "send",
        "receive",
        "status",
        "groups",
        "clients",
        "explain",
        "keygen",
        "key",
        "withdraw",
        "token",
        "abandon",
        "adopt",
        "kv",
        "demo",
        "top",
        "bench",
        "lab",
        "--help",
        "--version",
    ];
    let near = words::nearest(command, commands).map(|near| format!("; did you mean {near}?"));
    Failure::usage(format!(
        "`{command}` is not a command{}",
        near.unwrap_or_else(|| "; consort --help lists them".into())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(words: &[&str]) -> Failure {
        dispatch(words.iter().map(OsString::from).collect()).unwrap_err()
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        assert_eq!(failure(&["recieve"]).message, "`recieve` is not a command; did you mean receive?");
        assert_eq!(failure(&["zebra"]).message, "`zebra` is not a command; consort --help lists them");
        assert!(failure(&[]).message.starts_with("no command was given"));
    }

    #[test]
    fn version_and_help_end_well() {
        assert_eq!(failure(&["--version"]).message, format!("consort {}\n", env!("CARGO_PKG_VERSION")));
        let plain = ["daemon", "send", "receive", "status", "groups", "clients", "explain", "keygen", "key", "token"];
        for command in plain.into_iter().chain(["withdraw", "kv", "demo"]) {
            let help = failure(&[command, "--help"]);
            assert_eq!(help.code, crate::failure::Code::Fine);
            assert!(help.message.starts_with(&format!("Usage: consort {command}")), "{command}");
            let long: Vec<_> = help.message.lines().filter(|line| line.len() > 80).collect();
            assert!(long.is_empty(), "{command}: {long:?}");
        }
    }
}

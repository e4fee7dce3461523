//! What there is before the attacks begin: many groups, and one that has many members.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, GroupName};

use super::ATTACKED;
use super::attacks::CROWD;
use crate::chaos::fleet::address;
use crate::trials::stage::{Stage, text};

/// How long the joins may take, and how often the members read.
const GATHER: Duration = Duration::from_secs(120);
const TURN: Duration = Duration::from_millis(20);

/// Connects the members of one group, of which the first one joins all these groups, too.
///
/// # Errors
/// One is sent away, or the joins are not ordered in time.
pub fn gather(stage: &mut Stage<'_>, names: &[GroupName], members: usize) -> Result<Vec<Client>, String> {
    let options = ConnectOptions::default().without_shared_memory().daemon_timeout(None).send_within(GATHER);
    let at = address(stage.directory, ATTACKED);
    let (large, mut crowd) = (GroupName::new(CROWD).map_err(text)?, Vec::new());
    for _ in 0..members {
        let mut client = Client::connect(&at, &options).map_err(text)?;
        client.join(&large).and_then(|_| client.flush()).map_err(text)?;
        crowd.push(client);
        drain(&mut crowd)?;
    }
    let deadline = Instant::now() + GATHER;
    for some in names.chunks(64) {
        some.iter().try_for_each(|name| crowd[0].join(name).map(drop)).map_err(text)?;
        drain(&mut crowd)?;
    }
    while crowd[0].progress().ordered < crowd[0].sent() {
        if Instant::now() > deadline {
            return Err(format!("{} joins are not ordered within {GATHER:?}", names.len()));
        }
        drain(&mut crowd)?;
        stage.pass(TURN)?;
    }
    Ok(crowd)
}

/// Receives all that has come to these clients.
fn drain(clients: &mut [Client]) -> Result<(), String> {
    for client in clients {
        while client.receive(Duration::ZERO).map_err(text)?.is_some() {}
    }
    Ok(())
}

/// The members of the large group read, because clients that do not read are another trial.
///
/// # Errors
/// One was sent away.
pub fn read_until(crowd: &mut [Client], over: &AtomicBool) -> Result<(), String> {
    while !over.load(Ordering::Relaxed) {
        drain(crowd).map_err(|problem| format!("the members of the group `{CROWD}`: {problem}"))?;
        std::thread::sleep(TURN);
    }
    Ok(())
}

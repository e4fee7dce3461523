//! Which daemon coordinates Ring Paxos, as the daemons themselves say.
use super::Testbed;
use consort::{Address, Client, ConnectOptions, Status};
use consort_daemon::clock;
use consort_daemon::failure::{Code, Failure, Outcome};
use std::time::Duration;

/// By then one must lead, in nanoseconds.
const PATIENCE: u64 = 15_000_000_000;
/// How long a daemon may take for an answer.
const ANSWER: Duration = Duration::from_secs(2);
/// What the status of a daemon that leads contains.
const LEADS: &str = ", leads with ";

impl Testbed {
    /// The node whose daemon is the coordinator; waits until one is.
    pub fn coordinator(&mut self) -> Outcome<u16> {
        let deadline = clock::now_ns() + PATIENCE;
        while clock::now_ns() < deadline {
            self.check()?;
            let leads = |node: &&u16| status(self, **node).is_some_and(|status| does_lead(&status));
            if let Some(node) = self.daemons.keys().find(leads) {
                return Ok(*node);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Failure::new("waited too long for a coordinator: no daemon's status says that it leads")
            .with(Code::Timeout))
    }
}

/// One that does not answer does not lead.
fn status(testbed: &Testbed, node: u16) -> Option<Status> {
    let options = ConnectOptions::default().connect_within(ANSWER);
    Client::connect(&Address::Unix(testbed.socket_path(node)), &options).and_then(|mut me| me.status(ANSWER)).ok()
}

fn does_lead(status: &Status) -> bool {
    status.get("state").is_some_and(|state| state.contains(LEADS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coordinator_is_known_by_its_status() {
        let said = |role: &str| {
            let state = format!("acceptor, {role}, led by 1.1.n1.7, in view 3, knows 9 instances from 0 on, hears 2");
            does_lead(&[("nodes", "3"), ("state", &state)].into_iter().collect())
        };
        assert!(said("leads with 0 open up to 9") && !said("follows") && !said("stands"));
    }
}

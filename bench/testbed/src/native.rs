//! Clients of this program's daemons.
use super::job::Job;
use super::system::{Listener, Speaker, Take};
use consort::{Address, Client, ConnectOptions, Error, Event, GroupName, Service, Shown};
use consort_daemon::clock::now_ns;
use consort_daemon::failure::{Failure, Outcome, Trying};
use std::path::Path;
use std::time::Duration;

/// How many messages are sent before what came meanwhile is read, though there is credit.
const UNREAD: u32 = 64;

/// A client that sends. It reads what it needs to know of its sends when it is short of credit, and is woken for nothing else.
pub struct Native {
    client: Client,
    unread: u32,
    service: Service,
    groups: [GroupName; 1],
}

/// A client that receives.
pub struct Ear {
    client: Client,
}

impl Native {
    /// Connects.
    pub fn connect(job: &Job, path: &Path) -> Outcome<Self> {
        let mut options = ConnectOptions::default();
        (options.unbatched, options.shares_memory) = (job.unbatched, !job.sockets);
        let client = Client::connect(&Address::Unix(path.into()), &options).map_err(said)?;
        let service = job.service.parse().map_err(Failure::new)?;
        let groups = [GroupName::new(job.group.as_bytes()).trying(|| "group".into())?];
        Ok(Self { client, unread: 0, service, groups })
    }
}

impl Speaker for Native {
    fn multicast(&mut self, message: &[u8]) -> Outcome {
        self.client.multicast(self.service, &self.groups, message).map_err(said)?;
        self.unread += 1;
        if self.unread >= UNREAD { self.read() } else { Ok(()) }
    }

    fn flush(&mut self) -> Outcome {
        self.client.flush().map_err(said)
    }

    fn finish(&mut self) -> Outcome {
        self.client.wait_ordered(Duration::from_secs(60)).map_err(said)
    }
}

impl Native {
    /// Reads what the daemon has told, so that it need not keep it.
    fn read(&mut self) -> Outcome {
        self.unread = 0;
        self.client.receive(Duration::ZERO).map(drop).map_err(said)
    }
}

impl Ear {
    /// Connects, joins, and waits until all receivers are in the group.
    pub fn join(job: &Job, path: &Path) -> Outcome<Self> {
        let mut options = ConnectOptions::default();
        options.shares_memory = !job.sockets;
        let mut client = Client::connect(&Address::Unix(path.into()), &options).map_err(said)?;
        let group = GroupName::new(job.group.as_bytes()).trying(|| "group".into())?;
        client.join(&group).map_err(said)?;
        loop {
            match client.receive(None).map_err(said)? {
                Some(Event::GroupView(view)) if view.members.len() == usize::from(job.receivers) => break,
                Some(Event::Refused { refusal, .. }) => return Err(Failure::new(refusal.to_string())),
                _ => {}
            }
        }
        Ok(Self { client })
    }
}

impl Listener for Ear {
    fn receive(&mut self, take: Take<'_>) -> Outcome {
        // What came together came at one time.
        let (mut now, mut taken) = (None, Ok(()));
        let shown = self.client.receive_borrowed(None, |shown| {
            let now = *now.get_or_insert_with(now_ns);
            if let (Shown::Message(message), Ok(())) = (shown, &taken) {
                taken = take(now, message.payload());
            }
        });
        shown.map_err(said)?;
        taken
    }
}

/// An error of the client library, as it stands.
pub fn said(error: Error) -> Failure {
    Failure::new(error.to_string())
}

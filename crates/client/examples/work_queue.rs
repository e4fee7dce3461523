//! A work queue without a master. A job's place in the order says who does it: the members take turns, counted from the
//! last view, so everybody who was there knows whose it is. Whoever did one says so to all. The jobs of a member that is
//! gone are taken over by those that were there when the job was ordered.
//!
//! Each job is done at least once: one that was done by a member which is gone before it said so is done again. A job is
//! lost only with all that were there when it was ordered.
//!
//! `cargo run -p consort --example work_queue -- 127.0.0.1:4840 tea`, and then jobs on standard input, one a line.
pub mod common;
use common::Arguments;
use consort::{ChangeCause, Client, ClientId, Error, Event, GroupName, GroupView, MemberId, Message, Service};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let worked = Arguments::connect("work_queue")
        .and_then(|(client, group)| work_on_lines(client, group).map_err(|error| error.to_string()));
    if let Err(problem) = worked {
        eprintln!("work_queue: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Works until the input has ended and no job is open.
fn work_on_lines(client: Client, group: GroupName) -> Result<(), Error> {
    let lines = common::lines_of_stdin();
    let mut worker = Worker::join(client, group)?;
    let mut asked = 0;
    loop {
        match lines.try_recv() {
            Ok(job) => {
                worker.ask(&job)?;
                asked += 1;
            }
            Err(TryRecvError::Disconnected) if worker.ordered() >= asked && worker.open() == 0 => return Ok(()),
            Err(_) => {}
        }
        worker.step(STEP, &mut |job| println!("done here: {job}"))?;
    }
}

type Key = (MemberId, ClientId);

struct Job {
    text: String,
    /// Its place since the view.
    place: usize,
    owner: Key,
    /// Those that know of it: the members when it was ordered, as far as they are still there.
    witnesses: Vec<Key>,
}

/// A member that does its share.
pub struct Worker {
    client: Client,
    group: GroupName,
    view: Option<GroupView>,
    /// How many jobs were ordered since that view.
    place: usize,
    ordered: usize,
    jobs: BTreeMap<String, Job>,
}

impl Worker {
    /// Joins those that work on a group's jobs.
    pub fn join(mut client: Client, group: GroupName) -> Result<Self, Error> {
        client.join(&group)?;
        client.flush()?;
        Ok(Self { client, group, view: None, place: 0, ordered: 0, jobs: BTreeMap::new() })
    }

    /// Puts a job into the queue.
    pub fn ask(&mut self, job: &str) -> Result<(), Error> {
        self.say(&format!("job {job}"))
    }

    /// How many jobs of this member are ordered, or were refused.
    pub const fn ordered(&self) -> usize {
        self.ordered
    }

    /// How many jobs are known that nobody has done.
    pub fn open(&self) -> usize {
        self.jobs.len()
    }

    /// How many members there are.
    pub fn members(&self) -> usize {
        self.view.as_ref().map_or(0, |view| view.members.len())
    }

    /// Takes the next event and does what falls to this member; true if there was one.
    pub fn step(&mut self, within: Duration, work: &mut dyn FnMut(&str)) -> Result<bool, Error> {
        match self.client.receive(within)? {
            Some(Event::GroupView(view)) if view.cause == ChangeCause::Primary => {} // the same members
            Some(Event::GroupView(view)) => self.on_view(view, work)?,
            Some(Event::Message(message)) => self.on_message(&message, work)?,
            Some(Event::Refused { send, refusal }) => {
                eprintln!("work_queue: send {send} was refused: {refusal}");
                self.ordered += 1;
            }
            other => return Ok(other.is_some()),
        }
        Ok(true)
    }

    fn on_view(&mut self, view: GroupView, work: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let here: Vec<Key> = view.members.iter().map(|member| member.key()).collect();
        (self.view, self.place) = (Some(view), 0);
        for job in self.jobs.values_mut() {
            job.witnesses.retain(|witness| here.contains(witness));
            if !job.witnesses.contains(&job.owner) && !job.witnesses.is_empty() {
                job.owner = job.witnesses[job.place % job.witnesses.len()];
            }
        }
        let ids: Vec<String> = self.jobs.keys().cloned().collect();
        ids.iter().try_for_each(|id| self.do_if_mine(id, work))
    }

    fn on_message(&mut self, message: &Message, work: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let text = String::from_utf8_lossy(message.payload());
        match (text.split_once(' '), &self.view) {
            (Some(("done", id)), _) => drop(self.jobs.remove(id)),
            (Some(("job", job)), Some(view)) => {
                let witnesses: Vec<Key> = view.members.iter().map(|member| member.key()).collect();
                // Parts of a network count on from the same view; the sender tells them apart.
                let id = format!("{} {} {:?}", view.id, self.place, message.sender());
                let Some(&owner) = witnesses.get(self.place % witnesses.len().max(1)) else { return Ok(()) };
                self.jobs.insert(id.clone(), Job { text: job.to_owned(), place: self.place, owner, witnesses });
                self.place += 1;
                self.ordered += usize::from(message.sender() == (self.me().0.node, self.me().1));
                self.do_if_mine(&id, work)?;
            }
            _ => {} // a stranger's words
        }
        Ok(())
    }

    fn do_if_mine(&mut self, id: &str, work: &mut dyn FnMut(&str)) -> Result<(), Error> {
        if let Some(job) = self.jobs.get(id).filter(|job| job.owner == self.me()) {
            work(&job.text);
            self.say(&format!("done {id}"))?;
        }
        Ok(())
    }

    fn me(&self) -> Key {
        (self.client.welcome().daemon, self.client.welcome().client)
    }

    fn say(&mut self, words: &str) -> Result<(), Error> {
        self.client.multicast(Service::Agreed, std::slice::from_ref(&self.group), words.as_bytes())?;
        self.client.flush()
    }
}

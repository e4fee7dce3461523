//! A replicated counter. Its value is a fold over the ordered stream: everybody adds the same numbers in the same order.
//! A newcomer does not know what was added before it came: at each view the lowest member that knows says what the value
//! was there, and whoever does not know it adds what was ordered since then.
//!
//! After a partition each part has a value of its own. Each part's lowest member tells it; the one that the order puts
//! first counts for all, and what the other part added meanwhile is lost. A program that cannot lose it stops outside
//! the primary part of the network.
//!
//! `cargo run -p consort --example counter -- 127.0.0.1:4840 tea`, and then numbers on standard input.
pub mod common;
use common::Arguments;
use consort::{ChangeCause, Client, ClientId, Error, Event, GroupName, GroupView, MemberId, Message, Service};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(50);
const LAST_WORDS: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let counted = Arguments::connect("counter")
        .and_then(|(client, group)| count_lines(client, group).map_err(|error| error.to_string()));
    if let Err(problem) = counted {
        eprintln!("counter: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn count_lines(client: Client, group: GroupName) -> Result<(), Error> {
    let lines = common::lines_of_stdin();
    let mut counter = Counter::join(client, group)?;
    loop {
        match lines.try_recv().map(|line| (line.trim().parse(), line)) {
            Ok((Ok(number), _)) => counter.add(number)?,
            Ok((Err(_), line)) => eprintln!("counter: `{line}` is no whole number"),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return counter.close(),
        }
        if counter.step(STEP)? {
            println!("{}", counter.value().map_or("not known yet".into(), |value| value.to_string()));
        }
    }
}

type Key = (MemberId, ClientId);

/// One replica.
pub struct Counter {
    client: Client,
    group: GroupName,
    /// The value, once it is known.
    value: Option<i64>,
    /// The view that holds, and what was added since it came.
    view: String,
    since: i64,
    members: BTreeSet<Key>,
    /// Those that know the value; for one who does not know it, those that may.
    knowing: Option<BTreeSet<Key>>,
    /// Whether the value at the view that holds was told.
    told: bool,
}

impl Counter {
    /// Joins the counter that the members of a group share.
    pub fn join(mut client: Client, group: GroupName) -> Result<Self, Error> {
        client.join(&group)?;
        let (members, view) = (BTreeSet::new(), String::new());
        Ok(Self { client, group, value: None, view, since: 0, members, knowing: None, told: false })
    }

    /// The value as far as the order was received; `None` until a member told it.
    pub const fn value(&self) -> Option<i64> {
        self.value
    }

    /// Adds a number, for all.
    pub fn add(&mut self, number: i64) -> Result<(), Error> {
        self.say(&format!("add {number}"))
    }

    /// Takes the next event; true if there was one.
    pub fn step(&mut self, within: Duration) -> Result<bool, Error> {
        match self.client.receive(within)? {
            Some(Event::GroupView(view)) if view.cause == ChangeCause::Primary => {} // the same members
            Some(Event::GroupView(view)) => self.on_view(&view)?,
            Some(Event::Message(message)) => self.on_message(&message),
            Some(Event::Refused { send, refusal }) => eprintln!("counter: send {send} was refused: {refusal}"),
            other => return Ok(other.is_some()),
        }
        Ok(true)
    }

    /// Leaves once all additions are ordered.
    pub fn close(mut self) -> Result<(), Error> {
        self.client.wait_ordered(LAST_WORDS)?;
        self.client.close(LAST_WORDS)
    }

    fn on_view(&mut self, view: &GroupView) -> Result<(), Error> {
        let me = (self.client.welcome().daemon, self.client.welcome().client);
        let together: BTreeSet<Key> = view.together_with(me).map(|member| member.key()).collect();
        self.members = view.members.iter().map(|member| member.key()).collect();
        let others = || self.members.iter().copied().filter(|other| *other != me).collect();
        let mut knowing = self.knowing.take().unwrap_or_else(others);
        // What somebody knows who was elsewhere is another value.
        knowing.retain(
            |member| if self.value.is_some() { together.contains(member) } else { self.members.contains(member) },
        );
        if knowing.is_empty() {
            // Nobody is left who could tell: it begins here.
            self.value = self.value.or(Some(0));
            knowing.insert(me);
        }
        let speaks = self.value.is_some() && knowing.first() == Some(&me);
        (self.knowing, self.view, self.since, self.told) = (Some(knowing), view.id.to_string(), 0, false);
        match self.value {
            Some(value) if speaks => self.say(&format!("value {} {value}", self.view)),
            _ => Ok(()),
        }
    }

    fn on_message(&mut self, message: &Message) {
        let text = String::from_utf8_lossy(message.payload());
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["add", number] => self.on_add(number.parse().unwrap_or(0)),
            ["value", view, value] if view == self.view && !self.told => self.on_value(value.parse().ok()),
            _ => {} // a value that another view has overtaken, or a stranger's words
        }
    }

    fn on_add(&mut self, number: i64) {
        self.since = self.since.wrapping_add(number);
        self.value = self.value.map(|value| value.wrapping_add(number));
    }

    fn on_value(&mut self, at_view: Option<i64>) {
        let Some(at_view) = at_view else { return };
        self.value = Some(at_view.wrapping_add(self.since));
        self.knowing = Some(self.members.clone());
        self.told = true;
    }

    fn say(&mut self, words: &str) -> Result<(), Error> {
        self.client.multicast(Service::Agreed, std::slice::from_ref(&self.group), words.as_bytes())?;
        self.client.flush()
    }
}

//! The part that only Ring Paxos has: its coordinator is killed, then a majority of the acceptors. What was ordered is read
//! again afterwards, from the start, at two nodes.
use super::outcome::{Majority, Reread};
use super::story::Story;
use crate::clock;
use crate::failure::{Failure, Outcome, Trying};
use consort::{Address, Client, ConnectOptions, Error, Event, GroupName, ReadFrom, ReadingStatus, Service};
use consort_testbed::Testbed;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

/// So many daemons at least: of fewer than three acceptors none may be missing.
pub const NODES_MIN: u16 = 3;
const GROUP: &str = "majority";
/// How many messages a client sends each time.
const SOME: u64 = 100;
/// How long a client waits for its sends while no majority runs.
const IN_VAIN: Duration = Duration::from_secs(2);
/// By then must be ordered what can be.
const PATIENCE: Duration = Duration::from_secs(15);
/// The message behind which nothing is read.
const END: &str = "end";

/// A client that sends, and counts its messages.
struct Speaker {
    client: Client,
    group: GroupName,
    node: u16,
    count: u64,
}

/// Plays it.
pub fn play(testbed: &mut Testbed, nodes: u16, story: &Story) -> Outcome<Majority> {
    let mut majority = Majority { acceptors: acceptors(nodes), ..Majority::default() };
    majority.coordinator = testbed.coordinator()?;
    let rest = (1..=nodes).rev().find(|node| *node != majority.coordinator);
    let mut survivor = Speaker::at(testbed, rest.unwrap_or(nodes))?;
    let mut other = Speaker::at(testbed, majority.coordinator)?;
    survivor.say(SOME)?;
    other.say(SOME)?;
    other.is_heard()?;
    survivor.is_heard()?;

    story.coordinator(&majority)?;
    let at = testbed.kill(majority.coordinator)?;
    majority.again_ms = survivor.heard_since(at)?;
    survivor.say(SOME)?;
    survivor.is_heard()?;
    majority.next = testbed.coordinator()?;
    story.minority(&majority)?;

    majority.killed = victims(&majority, survivor.node);
    majority.killed[1..].iter().try_for_each(|node| testbed.kill(*node).map(drop))?;
    match survivor.calls_in_vain()? {
        Some(told) => majority.in_vain = told,
        None => majority.violations.push(format!("n{} ordered a message without a majority", survivor.node)),
    }
    story.back(&majority)?;
    let at = clock::now_ns();
    majority.killed.iter().try_for_each(|node| testbed.revive(*node).map(drop))?;
    survivor.is_heard()?;
    majority.back_ms = ms_since(at);
    survivor.say(SOME)?;
    survivor.is_heard()?;

    let acknowledged: Vec<_> = [&survivor, &other].into_iter().flat_map(Speaker::acknowledged).collect();
    survivor.end()?;
    for node in [survivor.node, majority.coordinator] {
        majority.read.push(Reread::at(testbed, node, &survivor.group)?);
    }
    majority.acknowledged = acknowledged.len();
    majority.violations.extend(violations(&acknowledged, &majority.read));
    story.reread(&majority)?;
    Ok(majority)
}

/// The acceptors of so many nodes, where nothing else is configured: the first of them.
const fn acceptors(nodes: u16) -> u16 {
    match nodes {
        7.. => 7,
        _ => nodes - 1 + nodes % 2,
    }
}

/// The coordinator, and as many further acceptors as leave no majority without them; never this node.
fn victims(majority: &Majority, spared: u16) -> Vec<u16> {
    let others = (1..=majority.acceptors).filter(|node| ![majority.coordinator, spared].contains(node));
    [majority.coordinator].into_iter().chain(others).take(usize::from(majority.acceptors / 2 + 1)).collect()
}

impl Speaker {
    fn at(testbed: &Testbed, node: u16) -> Outcome<Self> {
        let group = GroupName::new(GROUP.as_bytes()).trying(|| "group".into())?;
        Ok(Self { client: connect(testbed, node)?, group, node, count: 0 })
    }

    fn send(&mut self, text: &str) -> Outcome {
        let group = std::slice::from_ref(&self.group);
        let sent = self.client.multicast_within(Service::Agreed, group, text.as_bytes(), PATIENCE);
        sent.trying(|| format!("the client at node {} cannot send", self.node))?;
        Ok(())
    }

    /// Sends so many messages.
    fn say(&mut self, messages: u64) -> Outcome {
        (0..messages).try_for_each(|_| {
            self.count += 1;
            self.send(&name(self.node, self.count))
        })
    }

    /// Waits until all that it sent is ordered.
    fn is_heard(&mut self) -> Outcome {
        self.client.wait_ordered(PATIENCE).trying(|| format!("the client at node {} waits for its sends", self.node))
    }

    /// Sends a message and says how long after this time it was ordered, in milliseconds.
    fn heard_since(&mut self, at: u64) -> Outcome<f64> {
        self.say(1)?;
        self.is_heard()?;
        Ok(ms_since(at))
    }

    /// Sends a message and waits a while; returns what it is told when that was in vain.
    fn calls_in_vain(&mut self) -> Outcome<Option<String>> {
        self.say(1)?;
        match self.client.wait_ordered(IN_VAIN) {
            Ok(()) => Ok(None),
            Err(error @ Error::TimedOut { .. }) => Ok(Some(error.to_string())),
            Err(error) => Err(Failure::new(format!("the client at node {} lost its session: {error}", self.node))),
        }
    }

    /// Sends what nothing is read behind.
    fn end(&mut self) -> Outcome {
        self.send(END)?;
        self.is_heard()
    }

    /// The messages that are known to be ordered.
    fn acknowledged(&self) -> impl Iterator<Item = String> + use<> {
        let node = self.node;
        (1..=self.client.progress().ordered).map(move |count| name(node, count))
    }
}

/// What a message says: the how manieth it is of the client at a node.
fn name(node: u16, count: u64) -> String {
    format!("n{node} {count}")
}

fn connect(testbed: &Testbed, node: u16) -> Outcome<Client> {
    Client::connect(&Address::Unix(testbed.socket_path(node)), &ConnectOptions::default())
        .trying(|| format!("cannot connect to node {node}"))
}

impl Reread {
    /// Reads at a node from the start of the order to the end.
    fn at(testbed: &Testbed, node: u16, group: &GroupName) -> Outcome<Self> {
        let mut client = connect(testbed, node)?;
        client.read(std::slice::from_ref(group), ReadFrom::Start).trying(|| format!("cannot read at node {node}"))?;
        let mut words = Vec::new();
        while words.last().is_none_or(|last| last != END) {
            match client.receive(PATIENCE).trying(|| format!("cannot read at node {node}"))? {
                Some(Event::Read(message)) => words.push(String::from_utf8_lossy(message.payload()).into_owned()),
                Some(Event::Reading(ReadingStatus::Lost { from, to })) => {
                    return Err(Failure::new(format!("node {node} cannot tell the positions from {from} to {to}")));
                }
                Some(Event::Reading(ReadingStatus::Ended(end))) => {
                    return Err(Failure::new(format!("node {node} tells nothing: {end}")));
                }
                Some(_) => {}
                None => {
                    return Err(Failure::new(format!("node {node} tells nothing more after {} messages", words.len())));
                }
            }
        }
        Ok(Self::of(node, words))
    }

    fn of(node: u16, words: Vec<String>) -> Self {
        let mut hash = Sha256::new();
        words.iter().for_each(|word| hash.update(format!("{word}\n")));
        let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { node, messages: words.len(), digest, words }
    }
}

/// What was read must be the same at all nodes, each message once, and all that was acknowledged.
fn violations(acknowledged: &[String], read: &[Reread]) -> Vec<String> {
    let mut found = Vec::new();
    for Reread { node, words, .. } in read {
        let there: BTreeSet<_> = words.iter().collect();
        if there.len() < words.len() {
            found.push(format!("node {node} tells messages twice"));
        }
        let missing: Vec<_> = acknowledged.iter().filter(|word| !there.contains(word)).collect();
        if let Some(first) = missing.first() {
            found.push(format!("node {node} lacks {} acknowledged messages, the first: {first}", missing.len()));
        }
    }
    if read.windows(2).any(|pair| pair[0].words != pair[1].words) {
        found.push("the nodes tell different sequences".into());
    }
    found
}

fn ms_since(at: u64) -> f64 {
    (clock::now_ns().saturating_sub(at) / 1_000) as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(acknowledged: &[&str], read: &[&[&str]]) -> Vec<String> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let read: Vec<_> = (1..).zip(read).map(|(node, words)| Reread::of(node, owned(words))).collect();
        violations(&owned(acknowledged), &read)
    }

    #[test]
    fn only_equal_sequences_with_all_that_was_acknowledged_are_well() {
        assert_eq!(
            judged(&["n3 1", "n1 1"], &[&["n1 1", "n3 1", "n3 2"][..]; 2]),
            [""; 0],
            "more may have been ordered"
        );
        let lacks = judged(&["n3 1", "n1 1"], &[&["n3 1", "n1 1"], &["n3 1"]]);
        assert_eq!(
            lacks,
            ["node 2 lacks 1 acknowledged messages, the first: n1 1", "the nodes tell different sequences"]
        );
        assert_eq!(judged(&[], &[&["n1 1", "n3 1"], &["n3 1", "n1 1"]]), ["the nodes tell different sequences"]);
        assert_eq!(
            judged(&[], &[&["n1 1", "n1 1"][..]; 2]),
            [1, 2].map(|node| format!("node {node} tells messages twice"))
        );
    }

    #[test]
    fn a_majority_of_the_acceptors_falls_and_the_client_that_tells_of_it_stays() {
        let fallen = |nodes, coordinator, spared| {
            victims(&Majority { acceptors: acceptors(nodes), coordinator, ..Majority::default() }, spared)
        };
        assert_eq!([3, 4, 5, 6, 7, 8, 16].map(acceptors), [3, 3, 5, 5, 7, 7, 7]);
        assert_eq!((fallen(3, 1, 3), fallen(3, 3, 2), fallen(4, 2, 4)), (vec![1, 2], vec![3, 1], vec![2, 1]));
        assert_eq!((fallen(5, 2, 5), fallen(7, 7, 6)), (vec![2, 1, 3], vec![7, 1, 2, 3]));
    }
}

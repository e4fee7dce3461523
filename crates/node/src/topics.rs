//! Which topics this node reads, where its engine may spare it the messages of others.
//!
//! A topic stands for the names of groups. A node reads those of the groups that its own clients are in, or are about to join:
//! a join is handed to the engine once all that stands behind it will come here, and a topic is read until the last leave has
//! had its place.
use crate::mutant::mutated;
use crate::streams::spread;
use crate::{Node, STREAM};
use consort_group::Targets;
use consort_group::ordered::{self, Ordered};
use consort_order::{Engine, Refused, Submission, Topic};
use consort_types::{ClientId, Duration, GroupName, Instant, MessageId};
use consort_wire::Payload;
use std::collections::{BTreeMap, BTreeSet};

/// How soon a client that waits until its node reads what it needs is looked at again.
const LOOK: Duration = Duration::from_millis(2);
/// So many groups are named in a status.
const NAMED: usize = 8;
/// A stream is read for so long after a client here sent to it, or was the last to leave its groups: to come and go costs others.
const USED_FOR: Duration = Duration::from_secs(30);
/// The same where the stream is stalled, and holds up all that is read with it.
const STALLED_FOR: Duration = Duration::from_millis(250);
/// That one did is noted once in this time.
const USED_EACH: Duration = Duration::from_secs(1);
/// Who was not looked at for so long waits no more.
const FORGOTTEN: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TopicDesk {
    on: bool,
    /// How many groups with members here have each topic.
    members: BTreeMap<Topic, u32>,
    /// How many joins are on their way to their places.
    joining: BTreeMap<Topic, u32>,
    /// Joins that have their places; the groups may not have followed yet.
    placed: Vec<Topic>,
    /// What clients wait for to join, and when they were last looked at.
    waiting: BTreeMap<Topic, Instant>,
    /// Streams that clients used, and when they last did.
    used: BTreeMap<Topic, Instant>,
    /// Something of this may have changed.
    changed: bool,
    /// What the engine was told.
    told: Option<BTreeSet<Topic>>,
}

impl TopicDesk {
    fn note(counts: &mut BTreeMap<Topic, u32>, topic: Topic, more: bool) {
        let count = counts.entry(topic).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            counts.remove(&topic);
        }
    }

    /// All that is read by now.
    fn wanted(&self) -> BTreeSet<Topic> {
        let joined = self.members.keys().chain(self.joining.keys()).chain(self.waiting.keys());
        joined.chain(self.used.keys()).copied().collect()
    }
}

impl<E: Engine> Node<E> {
    /// What stands for a group: its stream, where there are several.
    fn topic_of(&self, group: &[u8]) -> Topic {
        if self.lines.is_on() {
            return Topic(self.streams.of(group).0);
        }
        let hash = spread(group);
        Topic((hash ^ hash >> 16) as u16)
    }

    /// Has the engine spare this node what none of its clients reads, if it can. What others read is not kept for them then.
    pub fn spare_unread(&mut self) {
        if self.engine.filters() {
            (self.topics.on, self.topics.changed) = (true, true);
            self.groups.watch_local();
            self.retention = crate::reading::Retention::new(0, Duration::ZERO);
        }
    }

    /// Whom a message concerns: the topics of its groups. None where it concerns all.
    fn topics(&self, payload: &Payload) -> Vec<Topic> {
        let Ok(Ordered::Multicast { told, numbered: None, .. }) = ordered::decode(payload) else { return Vec::new() };
        let groups_of = |targets: Targets<'_>| {
            let alone = targets.names().all(|name| name.first() != Some(&b'#'));
            let topics: BTreeSet<_> = targets.names().map(|name| self.topic_of(name)).collect();
            if alone { topics.into_iter().collect() } else { Vec::new() }
        };
        Targets::of(payload, told.targets_at, groups_of).unwrap_or_default()
    }

    /// What a gateway sends on, by the names of groups.
    pub(crate) fn sent_on(&self, topics: Option<&[Topic]>) -> String {
        let Some(topics) = topics else { return "everything".into() };
        let read = |group: &GroupName| topics.contains(&self.topic_of(group.as_bytes()));
        let mut groups = self.groups.all().map(|(group, ..)| group).filter(|group| read(group));
        let named: Vec<_> = groups.by_ref().take(NAMED).map(|group| group.to_string()).collect();
        match (named.is_empty(), groups.count()) {
            (true, _) => "only what is for all".into(),
            (false, 0) => format!("what is for all, and groups {}", named.join(" ")),
            (false, more) => format!("what is for all, and groups {} and {more} more", named.join(" ")),
        }
    }

    /// Hands a client's message or step to the engine.
    pub(crate) fn submit_to_topics(&mut self, submission: Submission) -> Result<MessageId, Refused> {
        if !self.topics.on || self.lines.is_on() || submission.stream != STREAM {
            return self.engine.submit(self.now, submission);
        }
        let topics = self.topics(&submission.payload);
        self.engine.submit_to(self.now, submission, &topics)
    }

    /// Whether all that is sent to a group behind a client's join will come here. If not, the client waits for that.
    pub(crate) fn may_join(&mut self, client: ClientId, group: &GroupName) -> bool {
        if !self.topics.on && !self.lines.is_on() {
            return true;
        }
        let topic = self.topic_of(group.as_bytes());
        if self.is_read(topic) || mutated!(self, JoinsUnread) {
            return true;
        }
        if self.topics.on && self.topics.waiting.insert(topic, self.now).is_none() {
            // One trip to the gateways and back does for all joins that it has asked for.
            let ahead = self.clients.get(client).map(|session| session.joins_ahead()).unwrap_or_default();
            let ahead: Vec<_> = ahead.iter().map(|group| (self.topic_of(group.as_bytes()), self.now)).collect();
            self.topics.waiting.extend(ahead);
            self.topics.changed = true;
        }
        self.look_again(client, topic);
        false
    }

    /// A client waits until what it needs is read.
    pub(crate) fn look_again(&mut self, client: ClientId, topic: Topic) {
        self.watch_waits();
        let cause = self.engine.stalled(topic);
        self.clients.pause_unread(self.now + LOOK, client, cause);
    }

    fn is_read(&self, topic: Topic) -> bool {
        self.topics.told.as_ref().is_none_or(|told| told.contains(&topic)) && self.engine.reads(topic)
    }

    /// Whether this node reads a stream that a client sends to; it begins to where it does not.
    pub(crate) fn reads_to_send(&mut self, topic: Topic) -> bool {
        //= MP74
        let (now, on) = (self.now, self.topics.on);
        let said = self.topics.used.get(&topic).is_some_and(|at| now.since(*at) < USED_EACH);
        if on && !said {
            self.topics.changed |= self.topics.used.insert(topic, now).is_none();
        }
        self.is_read(topic)
    }

    /// A client's join is on its way to its place, or had no room after all.
    pub(crate) fn note_joining(&mut self, group: &GroupName, goes: bool) {
        if self.topics.on {
            let topic = self.topic_of(group.as_bytes());
            TopicDesk::note(&mut self.topics.joining, topic, goes);
            self.topics.waiting.remove(&topic);
            if !goes {
                self.topics.waiting.insert(topic, self.now);
            }
            self.topics.changed = true;
        }
    }

    /// An own client asks to leave: its group is read until that has its place.
    pub(crate) fn note_leaving(&mut self, group: &GroupName) {
        //= TM54
        if self.topics.on && mutated!(self, UnreadAtLeave) {
            let topic = self.topic_of(group.as_bytes());
            TopicDesk::note(&mut self.topics.members, topic, false);
            self.topics.changed = true;
        }
    }

    /// An own client's join has its place.
    pub(crate) fn note_placed(&mut self, payload: &Payload, group: &GroupName) {
        if self.topics.on && ordered::is_join(payload) {
            let topic = self.topic_of(group.as_bytes());
            self.topics.placed.push(topic);
        }
    }

    /// Tells the engine what is read, if that has changed. Whether it did.
    pub(crate) fn tell_topics(&mut self) -> bool {
        if !self.topics.on {
            return false;
        }
        for (group, joined) in self.groups.take_local_changes() {
            let topic = self.topic_of(group.as_bytes());
            TopicDesk::note(&mut self.topics.members, topic, joined);
            if self.lines.is_on() {
                self.topics.used.insert(topic, self.now);
            }
            self.topics.changed = true;
        }
        if !self.groups.has_work() {
            for topic in std::mem::take(&mut self.topics.placed) {
                TopicDesk::note(&mut self.topics.joining, topic, false);
                self.topics.changed = true;
            }
        }
        let (now, known) = (self.now, self.topics.waiting.len() + self.topics.used.len());
        self.topics.waiting.retain(|_, at| now.since(*at) < FORGOTTEN);
        //= MP74
        let engine = &self.engine;
        let needed = |topic: Topic| if engine.stalled(topic).is_some() { STALLED_FOR } else { USED_FOR };
        self.topics.used.retain(|topic, at| now.since(*at) < needed(*topic));
        let forgot = self.topics.waiting.len() + self.topics.used.len() < known;
        if !std::mem::take(&mut self.topics.changed) && !forgot {
            return false;
        }
        let wanted = self.topics.wanted();
        if self.topics.told.as_ref() == Some(&wanted) {
            return false;
        }
        let topics: Vec<_> = wanted.iter().copied().collect();
        self.topics.told = Some(wanted);
        self.engine.read(now, &topics);
        self.drain_engine();
        true
    }
}

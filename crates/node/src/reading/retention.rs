//! What this node keeps of what its clients were told, where the engine retains nothing that lasts beyond a view.
use crate::mutant::mutated;
use bytes::Bytes;
use consort_group::ordered::{MulticastLayout, READS_MAX};
use consort_group::{Histories, Targets, ViewPlace};
use consort_order::Delivery;
use consort_types::{ClientId, Duration, GroupName, Instant, MemberId, Position, Service, View, ViewKind};
use consort_wire::Payload;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What keeping a message costs beside its bytes.
const EACH: usize = 128;
/// What is read is said again no more often.
const SWEEP_LEAST: Duration = Duration::from_secs(1);
/// So many groups are read at most.
const GROUPS_MOST: usize = 4_096;

/// A place in this node's own history: which of its views, and where in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LocalPlace {
    pub view: u64,
    pub at: u64,
    pub index: u16,
}

/// A message that is kept.
#[derive(Debug)]
pub(crate) struct KeptMessage {
    pub at: LocalPlace,
    since: Instant,
    pub sender: MemberId,
    pub client: ClientId,
    pub service: Service,
    pub messages: usize,
    pub payload: Payload,
    pub told: MulticastLayout,
}

/// A group that clients read, here or elsewhere.
#[derive(Clone, Copy, Debug)]
struct ReadGroup {
    /// From here on all that was sent to it is kept.
    since: LocalPlace,
    said: Instant,
}

//= E25
/// What was sent to groups that are read, or were lately.
#[derive(Debug)]
pub(crate) struct Retention {
    bytes_max: usize,
    keep: Duration,
    pub histories: Histories,
    groups: BTreeMap<GroupName, ReadGroup>,
    kept: VecDeque<KeptMessage>,
    bytes: usize,
    /// Grows with all that readers may wait for.
    version: u64,
    /// A reader waits for this position.
    awaited: u64,
    /// Groups that all are to know are read; some are on their way into the order.
    to_say: BTreeSet<GroupName>,
    asked: BTreeSet<GroupName>,
    /// There are members that may not know which groups are read.
    newcomers: bool,
    swept: Option<Instant>,
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::mutant::Mutant>,
}

impl Default for Retention {
    fn default() -> Self {
        Self::new(16 << 20, Duration::from_secs(60))
    }
}

impl Retention {
    /// Keeps so many bytes for so long; nothing if one of them is zero.
    pub const fn new(bytes_max: usize, keep: Duration) -> Self {
        Self {
            bytes_max,
            keep,
            histories: Histories::new(),
            groups: BTreeMap::new(),
            kept: VecDeque::new(),
            bytes: 0,
            version: 0,
            awaited: u64::MAX,
            to_say: BTreeSet::new(),
            asked: BTreeSet::new(),
            newcomers: false,
            swept: None,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    pub fn is_off(&self) -> bool {
        self.bytes_max == 0 || self.keep == Duration::ZERO
    }

    /// Changes whenever there is something new for readers.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// A message has its place, whatever it says.
    #[inline]
    pub const fn note(&mut self, at: Position) {
        self.histories.deliver(at);
        if at.0 >= self.awaited {
            (self.awaited, self.version) = (u64::MAX, self.version + 1);
        }
    }

    pub fn install(&mut self, view: &View) {
        match view.kind {
            ViewKind::Transitional => self.histories.close(&view.members),
            ViewKind::Regular => {
                self.histories.begin(view.id, &view.moved_together);
                self.newcomers = true;
            }
        }
        self.version += 1;
    }

    /// All members of the view know the same; `missed` if the history that counts is another's.
    pub fn settle(&mut self, missed: bool) {
        self.histories.settle(missed);
        self.version += 1;
    }

    /// Where the order goes on.
    pub fn end(&self) -> Option<LocalPlace> {
        Some(LocalPlace { view: self.histories.last()?, at: self.histories.end().0, index: 0 })
    }

    /// A place as others know it.
    pub fn place_of(&self, place: LocalPlace) -> ViewPlace {
        let view = self.histories.view(place.view).unwrap_or_default();
        ViewPlace { view, at: Position(place.at), index: place.index }
    }

    /// Whether anybody reads.
    #[inline]
    pub fn is_of_use(&self) -> bool {
        !self.groups.is_empty()
    }

    /// A reader waits until the order has come to this place.
    pub fn wait_for(&mut self, at: u64) {
        self.awaited = self.awaited.min(at.saturating_sub(1));
    }

    /// A message was told to its receivers: it is kept if it names a group that is read.
    #[cold]
    pub fn take(
        &mut self,
        delivery: &Delivery,
        client: ClientId,
        messages: usize,
        told: MulticastLayout,
        now: Instant,
    ) {
        if delivery.position == Position::OUTSIDE || !self.names(&delivery.payload, told) {
            return;
        }
        let Some(view) = self.histories.last() else { return };
        let Delivery { sender, position, service, payload, .. } = delivery;
        let payload = own(payload);
        let at = LocalPlace { view, at: position.0, index: 0 };
        self.bytes += EACH + payload.len();
        let (sender, service) = (*sender, *service);
        self.kept.push_back(KeptMessage { at, since: now, sender, client, service, messages, payload, told });
        self.version += 1;
        self.trim(now);
    }

    fn names(&self, payload: &Payload, told: MulticastLayout) -> bool {
        let groups = &self.groups;
        let is_read = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| groups.contains_key(name));
        Targets::of(payload, told.targets_at, |targets| targets.names().any(is_read)).unwrap_or(false)
    }

    /// Lets go of what is too much, or too old.
    fn trim(&mut self, now: Instant) {
        while let Some(first) = self.kept.front()
            && (self.is_over(self.bytes) || self.is_old(first.since, now))
        {
            let Some(KeptMessage { at, payload, told, .. }) = self.kept.pop_front() else { return };
            self.bytes -= EACH + payload.len();
            let behind = LocalPlace { at: at.at.saturating_add(1), ..at };
            if mutated!(self, TrimUnmarked) {
                continue;
            }
            let groups = &mut self.groups;
            //= E26
            let _ = Targets::of(&payload, told.targets_at, |targets| {
                for name in targets.names().filter_map(|name| std::str::from_utf8(name).ok()) {
                    if let Some(group) = groups.get_mut(name) {
                        group.since = group.since.max(behind);
                    }
                }
            });
            self.version += 1;
        }
    }

    fn is_over(&self, bytes: usize) -> bool {
        bytes > self.bytes_max && !mutated!(self, KeptOverBudget)
    }

    fn is_old(&self, since: Instant, now: Instant) -> bool {
        now.since(since) >= self.keep && !mutated!(self, KeptForEver)
    }

    /// The first place from which on all that was sent to these groups is kept; the end for one that nobody is known to read.
    pub fn kept_from(&self, groups: &[GroupName]) -> Option<LocalPlace> {
        let end = self.end()?;
        let from = groups.iter().map(|group| self.groups.get(group).map_or(end, |group| group.since));
        if mutated!(self, KeptFromEarliest) { from.min() } else { from.max() }
    }

    /// What is kept from a place on.
    pub fn from(&self, place: LocalPlace) -> impl Iterator<Item = &KeptMessage> {
        let first = self.kept.partition_point(|kept| (kept.at.view, kept.at.at) < (place.view, place.at));
        self.kept.range(first..)
    }

    /// It stands in the order that groups are read; `settled` unless clients' messages of this view are yet to come.
    pub fn on_reads(&mut self, groups: Vec<GroupName>, settled: bool, now: Instant) {
        let Some(end) = self.end().filter(|_| !self.is_off()) else { return };
        let since = if settled { end } else { LocalPlace { at: 0, ..end } };
        for group in groups {
            self.asked.remove(&group);
            self.to_say.remove(&group);
            if self.groups.len() < GROUPS_MOST || self.groups.contains_key(&group) {
                self.groups.entry(group).or_insert(ReadGroup { since, said: now }).said = now;
            }
        }
        self.swept.get_or_insert(now);
        self.version += 1;
    }

    /// Whether all know that these groups are read, and do not forget it soon; they are told if not. An error if there are
    /// too many.
    pub fn is_read(&mut self, groups: &[GroupName], now: Instant) -> Result<bool, usize> {
        //= E27
        let lasts = |group: &ReadGroup| now.since(group.said) < self.forgotten_after() / 2;
        let is_known = |group: &&GroupName| self.groups.get(*group).is_some_and(lasts);
        let to_say: Vec<_> = groups.iter().filter(|group| !is_known(group)).cloned().collect();
        let unknown = to_say.iter().filter(|group| !self.groups.contains_key(*group)).count();
        if self.groups.len() + unknown > GROUPS_MOST {
            return Err(GROUPS_MOST);
        }
        let all = to_say.is_empty();
        self.say(to_say);
        Ok(all)
    }

    fn say(&mut self, groups: impl IntoIterator<Item = GroupName>) {
        let asked = &self.asked;
        self.to_say.extend(groups.into_iter().filter(|group| !asked.contains(group)));
    }

    /// Members that come from elsewhere do not know which groups are read: they are told before all else.
    pub fn tell_newcomers(&mut self) {
        //= E27
        if std::mem::take(&mut self.newcomers) && !mutated!(self, ReadsUntold) {
            self.asked.clear();
            self.to_say.extend(self.groups.keys().cloned());
        }
    }

    /// Whether there are groups that all are to know are read.
    #[inline]
    pub fn has_to_say(&self) -> bool {
        !self.to_say.is_empty()
    }

    /// Some of the groups that are to be said, if there are any.
    pub fn next_to_say(&self) -> Vec<GroupName> {
        self.to_say.iter().take(READS_MAX).cloned().collect()
    }

    /// They are on their way into the order.
    pub fn has_said(&mut self, groups: Vec<GroupName>) {
        for group in groups {
            self.to_say.remove(&group);
            self.asked.insert(group);
        }
    }

    /// There was no room for them.
    pub fn has_not_said(&mut self, groups: Vec<GroupName>) {
        for group in groups {
            self.asked.remove(&group);
            self.to_say.insert(group);
        }
    }

    fn sweep_each(&self) -> Duration {
        (self.keep / 3).max(SWEEP_LEAST)
    }

    fn forgotten_after(&self) -> Duration {
        (self.keep * 2).max(SWEEP_LEAST * 6)
    }

    pub fn next_sweep(&self) -> Option<Instant> {
        self.swept.map(|swept| swept + self.sweep_each())
    }

    /// Says again what is read here, and forgets what nobody has read for long: not what is read here, whose word may wait
    /// for its place in the order.
    pub fn sweep(&mut self, read_here: impl Iterator<Item = GroupName>, now: Instant) {
        if self.next_sweep().is_none_or(|at| now < at) {
            return;
        }
        self.trim(now);
        self.asked.clear();
        let (read_here, bound) = (read_here.collect::<BTreeSet<_>>(), self.forgotten_after());
        //= E27
        self.groups.retain(|name, group| read_here.contains(name) || now.since(group.said) < bound);
        self.say(read_here);
        if self.groups.is_empty() {
            self.kept.clear();
            self.bytes = 0;
        }
        self.swept = (!self.groups.is_empty() || !self.to_say.is_empty()).then_some(now);
    }

    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        see("groups_read", self.groups.len() as u64);
        see("messages_retained", self.kept.len() as u64);
        see("bytes_retained", self.bytes as u64);
    }
}

/// The same bytes in memory of their own: what they came in may be much larger.
fn own(payload: &Payload) -> Payload {
    let mut bytes = Vec::with_capacity(payload.len());
    payload.for_each(0, payload.len(), |part| bytes.extend_from_slice(part));
    Bytes::from(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_does_not_keep_what_it_came_in() {
        let chunk = Bytes::from(vec![7; 1 << 20]);
        let kept = own(&chunk.slice(9..20_009).into());
        assert_eq!((kept.len(), chunk.is_unique()), (20_000, true));
    }
}

//! Path MTU discovery: which size of datagram reaches which node, found by probes. Pure: time is handed in.
//!
//! Each node sends rounds of probes: one as long as datagrams may be, and a short one. Whoever gets the short one of a round
//! but not the long one begins to doubt, and says so in its own probes; then rounds follow each other quickly, with sizes in
//! between. What `AGREE` rounds in a row agree on is believed. So one lost probe changes nothing, a round of which nothing
//! arrives says nothing, and a size that has begun to vanish is known within two seconds.
mod group_path;
mod inward_path;

use consort_types::{Duration, Instant, MemberId, NodeId};
use consort_wire::DatagramSize;
use consort_wire::path_mtu::{ALWAYS, PathReport, Probe, REPORTS_MAX};
use group_path::GroupPath;
use inward_path::Inward;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How often a node probes while nobody doubts.
const PERIOD: Duration = Duration::from_secs(1);
/// And how often at the start, for whoever appears, and while somebody doubts.
const QUICK: Duration = Duration::from_millis(100);
/// So many rounds are quick at the start, and for whoever appears.
const OPENING: u32 = 10;
/// A node from which no probe came for so long is not there: what it cannot get is of no account.
const SILENT: Duration = Duration::from_millis(3_500);
/// The sizes between the longest and the shortest, in bytes of UDP payload, longest first: what fits usual packets of IP,
/// from jumbo frames by tunnels down to what IPv6 demands, and some below.
const SIZES: [usize; 13] = [32_000, 16_000, 8_972, 4_052, 1_472, 1_452, 1_448, 1_422, 1_392, 1_372, 1_252, 972, 740];

/// What the outbox has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathLimits {
    /// How long a datagram to a node may be at most, in bytes, for those that do not get all.
    pub(crate) each: BTreeMap<NodeId, usize>,
    /// How long one to all may be, if it is best cut once for all. Else it leaves whole, and in fragments to each that would
    /// not get it.
    pub(crate) all: Option<usize>,
    /// Who gets what is multicast.
    pub(crate) group: GroupReach,
    /// Those that have not said lately that it arrives: a round of probes goes to each of them by itself, too.
    pub(crate) unsure: BTreeSet<NodeId>,
}

impl PathLimits {
    /// Whether every datagram leaves as it is, and by multicast where that is used.
    pub(crate) fn is_wide(&self) -> bool {
        self.each.is_empty() && !matches!(self.group, GroupReach::AllBut(_))
    }
}

/// Who gets what this node multicasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum GroupReach {
    /// All, as far as is known.
    #[default]
    All,
    /// Not these: data goes to each of them by itself, too.
    AllBut(BTreeSet<NodeId>),
    /// No node: data goes to each by itself alone.
    None,
}

/// Something to tell people: other datagrams reach a node than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) node: NodeId,
    /// The longest that arrives, in bytes.
    pub(crate) passes: usize,
    /// Whether that is all of them.
    pub(crate) all: bool,
}

/// A round to be sent: the same probe in each of these sizes, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeRound {
    pub(crate) probe: Probe,
    pub(crate) sizes: Vec<usize>,
}

/// The paths to and from all other nodes.
#[derive(Debug)]
pub(crate) struct PathMtus {
    me: NodeId,
    full: u16,
    states: BTreeMap<NodeId, PathState>,
    round: u32,
    last_round: Instant,
    next_round: Instant,
    /// How many more rounds are quick.
    opening: u32,
    settles: Option<Instant>,
    /// Somebody is in the view who sends no probes, and so may not know fragments.
    mute: bool,
    limits: PathLimits,
    news: VecDeque<News>,
    changed: bool,
    /// Multicast is taken to arrive where no node has said that it does not: a datagram came back at the start.
    trusts_group: bool,
}

/// The path to one node, and the path from it.
#[derive(Debug)]
struct PathState {
    heard: Option<Instant>,
    inward: Inward,
    inward_group: GroupPath,
    /// Whether it said that our multicast arrives there, and when.
    outward_group: Option<(bool, Instant)>,
    /// The longest of our datagrams that it gets; `None` while it does not know.
    outward: Option<u16>,
    doubts: bool,
    wants_all: bool,
    told: u16,
}

impl PathState {
    fn new(full: u16) -> Self {
        Self {
            heard: None,
            inward: Inward::new(full),
            inward_group: GroupPath::default(),
            outward_group: None,
            outward: None,
            doubts: false,
            wants_all: false,
            told: full,
        }
    }

    fn is_present(&self, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) < SILENT)
    }

    /// Whether our multicast arrives there, by what it said lately.
    fn gets_group(&self, now: Instant) -> Option<bool> {
        self.outward_group.filter(|(_, at)| now.since(*at) < SILENT).map(|(gets, _)| gets)
    }

    fn report(&self, now: Instant, node: NodeId) -> PathReport {
        let (path, by_group) = (self.inward.report(node), self.inward_group.believed(now));
        PathReport { doubts: path.doubts || self.inward_group.doubts(), by_group, ..path }
    }

    /// The longest datagram that gets there, if not all do.
    fn limit(&self, full: u16) -> Option<usize> {
        self.outward.filter(|passes| *passes < full).map(|passes| usize::from(passes).max(ALWAYS))
    }
}

impl PathMtus {
    /// Between `me` and `others`, where no datagram is longer than `full`. The first round is due at once. `trusts_group`
    /// says whether multicast is used for those who have not said yet whether it arrives.
    pub(crate) fn new(
        me: NodeId,
        others: impl Iterator<Item = NodeId>,
        full: DatagramSize,
        trusts_group: bool,
        now: Instant,
    ) -> Self {
        let full = u16::try_from(full.get()).unwrap_or(u16::MAX);
        let mut paths = Self {
            me,
            full,
            states: others.filter(|node| *node != me).map(|node| (node, PathState::new(full))).collect(),
            round: 0,
            last_round: now,
            next_round: now,
            opening: OPENING,
            settles: None,
            mute: false,
            limits: PathLimits::default(),
            news: VecDeque::new(),
            changed: false,
            trusts_group,
        };
        paths.judge(now);
        paths
    }

    /// A probe of `size` bytes came, by multicast or by itself.
    pub(crate) fn handle_probe(&mut self, now: Instant, from: MemberId, size: usize, by_group: bool, probe: &Probe) {
        let Some(path) = self.states.get_mut(&from.node) else { return };
        let appeared = !path.is_present(now);
        path.heard = Some(now);
        let size = u16::try_from(size).unwrap_or(u16::MAX).min(self.full);
        let unsure = path.inward.arrived(now, from.incarnation, probe.round, size);
        path.inward_group.arrived(now, from.incarnation, probe.round, by_group);
        if let Some(report) = probe.reports.iter().find(|report| report.node == self.me) {
            path.outward = report.passes.map(|passes| passes.min(self.full)).or(path.outward);
            (path.doubts, path.wants_all) = (report.doubts, report.wants_all);
            path.outward_group = report.by_group.map(|gets| (gets, now));
        }
        let hurry = unsure || path.doubts || path.inward_group.doubts();
        self.settles = self.settles.into_iter().chain(path.inward.settles()).min();
        if appeared {
            self.opening = OPENING;
        }
        if appeared || hurry {
            self.hurry();
        }
        self.judge(now);
    }

    /// The kernel dropped datagrams for want of room: what of a round did not come says nothing about the path.
    pub(crate) fn note_overflow(&mut self) {
        for path in self.states.values_mut() {
            path.inward.forget();
            path.inward_group.forget();
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.settles.map_or(self.next_round, |settles| settles.min(self.next_round))
    }

    /// The time that [`Self::poll_timeout`] named has come. Returns the round to be sent, if it is time for one. `members`
    /// are those of the view.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        mut members: impl Iterator<Item = NodeId>,
    ) -> Option<ProbeRound> {
        self.settle(now);
        if now < self.next_round {
            return None;
        }
        self.mute = members.any(|node| self.states.get(&node).is_some_and(|path| !path.is_present(now)));
        self.judge(now);
        self.round = self.round.wrapping_add(1);
        self.last_round = now;
        self.opening = self.opening.saturating_sub(1);
        let quick = self.opening > 0
            || self.present(now).any(|path| path.doubts || path.inward.doubts() || path.inward_group.doubts());
        //= W04
        self.next_round = now + if quick { QUICK } else { PERIOD };
        Some(ProbeRound { probe: Probe { round: self.round, reports: self.reports(now) }, sizes: self.sizes(now) })
    }

    /// What the outbox has to know, if that is something else than before.
    pub(crate) fn poll_narrow(&mut self) -> Option<PathLimits> {
        std::mem::take(&mut self.changed).then(|| self.limits.clone())
    }

    /// What is to be told to people.
    pub(crate) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// The longest datagram that gets to each node, where that is known and the node is there.
    pub(crate) fn known(&self, now: Instant) -> impl Iterator<Item = (NodeId, u16)> {
        let present = self.states.iter().filter(move |(_, path)| path.is_present(now));
        present.filter_map(|(node, path)| Some((*node, path.outward?)))
    }

    /// The longest datagram that nodes send, in bytes.
    pub(crate) const fn full(&self) -> u16 {
        self.full
    }

    fn present(&self, now: Instant) -> impl Iterator<Item = &PathState> {
        self.states.values().filter(move |path| path.is_present(now))
    }

    /// Ends rounds of which nothing more is to be expected.
    fn settle(&mut self, now: Instant) {
        if self.settles.is_none_or(|at| at > now) {
            return;
        }
        let mut unsure = false;
        self.states.values_mut().for_each(|path| unsure |= path.inward.settle(now));
        self.settles = self.states.values().filter_map(|path| path.inward.settles()).min();
        if unsure {
            self.hurry();
        }
    }

    /// The next round is sent as soon as a quick one may.
    fn hurry(&mut self) {
        self.next_round = self.next_round.min(self.last_round + QUICK);
    }

    //= W05
    fn sizes(&self, now: Instant) -> Vec<usize> {
        let full = usize::from(self.full);
        let all = self.present(now).any(|path| path.wants_all || path.limit(self.full).is_some());
        let between = SIZES.into_iter().filter(|size| all && *size < full);
        // The longest first: who gets the shortest of a round has seen them all, if they did not overtake each other.
        [full].into_iter().chain(between).chain([ALWAYS]).collect()
    }

    /// What arrives from those that are there. In a large cluster each probe tells of some, in turn.
    //= W07
    fn reports(&self, now: Instant) -> Vec<PathReport> {
        let present: Vec<_> = self.states.iter().filter(|(_, path)| path.is_present(now)).collect();
        let parts = present.len().div_ceil(REPORTS_MAX).max(1);
        let part = present.chunks(REPORTS_MAX).nth(self.round as usize % parts).unwrap_or_default();
        part.iter().map(|(node, path)| path.report(now, **node)).collect()
    }

    /// Who gets what is multicast. A node that is not there is of no account.
    //= W15
    fn group_reach(&self, now: Instant) -> GroupReach {
        let gets = |path: &PathState| path.gets_group(now).unwrap_or(self.trusts_group);
        let present = || self.states.iter().filter(|(_, path)| path.is_present(now));
        let without: BTreeSet<_> = present().filter(|(_, path)| !gets(path)).map(|(node, _)| *node).collect();
        match (without.is_empty(), present().any(|(_, path)| gets(path))) {
            (true, false) if !self.trusts_group => GroupReach::None,
            (true, _) => GroupReach::All,
            (false, true) => GroupReach::AllBut(without),
            (false, false) => GroupReach::None,
        }
    }

    /// Compares what is known with what was told.
    fn judge(&mut self, now: Instant) {
        let full = self.full;
        let mut each = BTreeMap::new();
        for (node, path) in self.states.iter_mut().filter(|(_, path)| path.is_present(now)) {
            each.extend(path.limit(full).map(|limit| (*node, limit)));
            if let Some(passes) = path.outward.filter(|passes| *passes != path.told) {
                path.told = passes;
                self.news.push_back(News { node: *node, passes: passes.into(), all: passes == full });
            }
        }
        // To cut once for all is better than to each, unless only one would need it, or somebody could not join.
        //= W09
        let all = if self.mute || each.len() < 2 { None } else { each.values().min().copied() };
        let unsure = self.states.iter().filter(|(_, path)| path.gets_group(now) != Some(true));
        let unsure = unsure.map(|(node, _)| *node).collect();
        let narrow = PathLimits { each, all, group: self.group_reach(now), unsure };
        if narrow != self.limits {
            (self.limits, self.changed) = (narrow, true);
        }
    }
}

#[cfg(test)]
mod tests;

use super::inward_path::AGREE;
use super::*;
use consort_types::Incarnation;

const STEP: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_secs(1);

/// Nodes whose probes arrive at once, where the network lets them pass.
struct World {
    paths: Vec<PathMtus>,
    narrow: Vec<PathLimits>,
    news: Vec<(usize, News)>,
    members: Vec<NodeId>,
    incarnation: u64,
    now: Instant,
    rounds: usize,
    /// From which node to which multicast is lost.
    without_group: Vec<(usize, usize)>,
    /// How many probes went to one node by itself.
    alone: usize,
}

impl World {
    fn new(nodes: u16, full: usize) -> Self {
        Self::that_trusts(nodes, full, true)
    }

    fn that_trusts(nodes: u16, full: usize, trusts_group: bool) -> Self {
        let members: Vec<_> = (0..nodes).map(NodeId).collect();
        let full = DatagramSize::new(full).unwrap();
        let paths = |me: &NodeId| PathMtus::new(*me, members.iter().copied(), full, trusts_group, Instant::ZERO);
        let mut paths: Vec<_> = members.iter().map(paths).collect();
        let narrow = paths.iter_mut().map(|paths| paths.poll_narrow().unwrap_or_default()).collect();
        Self {
            paths,
            narrow,
            news: Vec::new(),
            members,
            incarnation: 1,
            now: Instant::ZERO,
            rounds: 0,
            without_group: Vec::new(),
            alone: 0,
        }
    }

    /// Lets time pass; `passes` says from whom to whom a datagram of which size gets.
    fn run(&mut self, span: Duration, mut passes: impl FnMut(usize, usize, usize) -> bool) {
        let end = self.now + span;
        while self.now < end {
            self.now += STEP;
            for from in 0..self.paths.len() {
                if self.paths[from].poll_timeout() <= self.now {
                    self.step(from, &mut passes);
                }
            }
            for node in 0..self.paths.len() {
                self.narrow[node] = self.paths[node].poll_narrow().unwrap_or_else(|| self.narrow[node].clone());
                self.news.extend(std::iter::from_fn(|| self.paths[node].poll_news()).map(|news| (node, news)));
            }
        }
    }

    fn step(&mut self, from: usize, passes: &mut impl FnMut(usize, usize, usize) -> bool) {
        let (now, incarnation) = (self.now, Incarnation(self.incarnation));
        let Some(round) = self.paths[from].handle_timeout(now, self.members.iter().copied()) else { return };
        self.rounds += 1;
        let sender = MemberId { node: NodeId(from as u16), incarnation };
        for size in round.sizes {
            for to in (0..self.paths.len()).filter(|to| *to != from) {
                let alone = self.narrow[from].unsure.contains(&NodeId(to as u16));
                self.alone += usize::from(alone);
                for by_group in [true, false] {
                    let leaves = if by_group { !self.without_group.contains(&(from, to)) } else { alone };
                    if leaves && passes(from, to, size) {
                        self.paths[to].handle_probe(now, sender, size, by_group, &round.probe);
                    }
                }
            }
        }
    }

    fn each(&self, node: usize) -> Vec<(u16, usize)> {
        self.narrow[node].each.iter().map(|(node, limit)| (node.0, *limit)).collect()
    }
}

/// Only what is not longer than this passes to node 2.
fn hole(limit: usize) -> impl FnMut(usize, usize, usize) -> bool {
    move |_, to, size| to != 2 || size <= limit
}

const fn all(_: usize, _: usize, _: usize) -> bool {
    true
}

#[test]
fn where_all_passes_nothing_is_narrow_and_two_probes_a_second_are_sent() {
    //= W04 test
    let mut world = World::new(3, 1_472);
    world.run(SECOND * 3, all);
    assert!(
        world.narrow.iter().all(|narrow| *narrow == PathLimits::default()) && world.news.is_empty(),
        "{:?}",
        world.narrow
    );
    for paths in &world.paths {
        assert!(paths.known(world.now).map(|(_, passes)| passes).eq([1_472; 2]));
    }
    let (mut sizes, before) = (Vec::new(), world.rounds);
    world.run(SECOND * 10, |from, to, size| {
        sizes.extend((from == 0 && to == 1).then_some(size));
        true
    });
    assert_eq!(world.rounds - before, 30);
    assert_eq!(sizes, [1_472, ALWAYS].repeat(10));
}

#[test]
fn a_way_that_swallows_large_ones_from_the_start_is_known_before_a_second_has_passed() {
    //= W05 test
    for (full, limit, found) in [(8_900, 1_000, 972), (1_472, 1_000, 972), (1_472, 1_471, 1_452), (65_000, 508, 508)] {
        let mut world = World::new(3, full);
        world.run(Duration::from_millis(700), hole(limit));
        assert_eq!((world.each(0), world.each(1), world.each(2)), (vec![(2, found)], vec![(2, found)], vec![]));
        let told = News { node: NodeId(2), passes: found, all: false };
        assert_eq!(world.news, [(0, told), (1, told)], "once each");
    }
}

#[test]
fn one_that_narrows_at_rest_is_known_within_two_seconds_and_so_is_its_mending() {
    let mut world = World::new(3, 8_972);
    world.run(SECOND * 5, all);
    world.run(SECOND * 2, hole(1_500));
    assert_eq!((world.each(0), world.each(1), world.each(2)), (vec![(2, 1_472)], vec![(2, 1_472)], vec![]));
    world.news.clear();
    world.run(SECOND * 10, hole(1_500));
    assert!(world.news.is_empty(), "nothing new: {:?}", world.news);
    world.run(SECOND * 2, all);
    assert!(world.narrow.iter().all(|narrow| *narrow == PathLimits::default()));
    let healed = News { node: NodeId(2), passes: 8_972, all: true };
    assert_eq!(world.news, [(0, healed), (1, healed)]);
}

#[test]
fn one_that_narrows_further_or_widens_a_little_is_followed() {
    let mut world = World::new(3, 8_972);
    for (limit, found) in [(4_100, 4_052), (1_300, 1_252), (600, 508), (1_480, 1_472)] {
        world.run(SECOND * 3, hole(limit));
        assert_eq!(world.each(0), [(2, found)]);
    }
}

#[test]
fn rounds_are_rare_again_once_a_narrow_way_is_known() {
    let mut world = World::new(3, 1_472);
    world.run(SECOND * 3, hole(1_000));
    let before = world.rounds;
    world.run(SECOND * 10, hole(1_000));
    assert_eq!(world.rounds - before, 30);
}

#[test]
fn probes_that_are_lost_by_chance_change_nothing() {
    //= W06 test
    let mut world = World::new(3, 1_472);
    let mut rng = consort_types::Rng::new(7);
    world.run(SECOND * 300, |_, _, _| !rng.chance(0.05));
    assert!(world.news.is_empty(), "{:?}", world.news);
    let mut sent = [[0; 3]; 3];
    world.run(SECOND * 60, |from, to, size| {
        sent[from][to] += usize::from(size == 1_472);
        size < 1_472 || !usize::is_multiple_of(sent[from][to], 3)
    });
    assert!(world.news.is_empty(), "every third long one is lost: {:?}", world.news);
}

#[test]
fn rounds_of_which_nothing_comes_say_nothing() {
    let mut world = World::new(3, 1_472);
    world.run(SECOND * 3, all);
    world.run(SECOND * 10, |_, to, _| to != 2);
    world.run(SECOND * 3, all);
    assert!(world.news.is_empty());
}

#[test]
fn who_is_not_there_is_of_no_account_and_what_was_known_holds_as_soon_as_it_is_back() {
    let mut world = World::new(3, 1_472);
    world.run(SECOND * 3, hole(1_000));
    assert_eq!(world.each(0), [(2, 972)]);
    world.run(SECOND * 6, |from, to, size| from != 2 && hole(1_000)(from, to, size));
    assert_eq!((world.each(0), world.paths[0].known(world.now).count()), (vec![], 1));
    world.news.clear();
    world.run(Duration::from_millis(1_200), hole(1_000));
    assert_eq!(world.each(0), [(2, 972)]);
    assert!(world.news.is_empty(), "that was said");
}

#[test]
fn a_new_incarnation_begins_with_what_was_known_of_the_way() {
    let mut world = World::new(3, 1_472);
    world.run(SECOND * 3, hole(1_000));
    world.news.clear();
    world.incarnation += 1;
    world.run(SECOND * 3, hole(1_000));
    assert!(world.each(0) == [(2, 972)] && world.news.is_empty());
}

#[test]
fn for_two_it_is_cut_once_for_all_unless_a_member_might_not_join() {
    //= W09 test
    let narrow_to_two = |_: usize, to: usize, size: usize| to == 0 || size <= 1_400 - to * 100;
    let mut world = World::new(3, 1_472);
    world.run(SECOND * 3, narrow_to_two);
    assert_eq!((world.each(0), world.narrow[0].all), (vec![(1, 1_252), (2, 972)], Some(972)));
    assert_eq!((world.each(1), world.narrow[1].all), (vec![(2, 972)], None), "one alone gets its own");
    let mut world = World::new(4, 1_472);
    world.run(SECOND * 3, |from, to, size| from != 3 && narrow_to_two(from, to, size));
    assert_eq!((world.each(0), world.narrow[0].all), (vec![(1, 1_252), (2, 972)], None), "node 3 never sent a probe");
    world.members.pop();
    world.run(SECOND, |from, to, size| from != 3 && narrow_to_two(from, to, size));
    assert_eq!(world.narrow[0].all, Some(972), "it is not in the view");
}

#[test]
fn who_sends_no_probes_gets_all_as_ever() {
    let mut world = World::new(2, 1_472);
    world.run(SECOND * 10, |from, _, _| from == 0);
    assert_eq!((world.each(0), world.paths[0].known(world.now).count()), (vec![], 0));
}

#[test]
fn what_the_kernel_dropped_is_no_fault_of_the_way() {
    let mut world = World::new(2, 1_472);
    world.run(SECOND * 3, all);
    for _ in 0..50 {
        world.run(Duration::from_millis(250), |_, _, size| size < 1_472);
        world.paths.iter_mut().for_each(PathMtus::note_overflow);
    }
    assert!(world.news.is_empty());
}

#[test]
fn in_a_large_cluster_everybody_is_told_of_in_turn() {
    //= W07 test
    let mut world = World::new(100, 1_472);
    world.run(SECOND * 5, |from, to, size| from > 2 && to > 2 || to != 2 || size <= 1_000);
    for paths in &world.paths {
        assert_eq!(paths.known(world.now).count(), 99);
    }
    assert_eq!((world.each(0), world.each(1), world.each(50)), (vec![(2, 972)], vec![(2, 972)], vec![(2, 972)]));
}

#[test]
fn a_stranger_and_absurd_reports_do_no_harm() {
    let mut world = World::new(2, 1_472);
    let lie =
        |passes| PathReport { node: NodeId(0), passes: Some(passes), doubts: true, wants_all: true, by_group: None };
    let probe = |passes| Probe { round: u32::MAX, reports: vec![lie(passes); 3] };
    for (from, passes) in [(9, 600), (0, 600), (1, u16::MAX)] {
        world.paths[0].handle_probe(world.now, MemberId::new(from, 1), usize::MAX, true, &probe(passes));
    }
    assert_eq!(world.paths[0].poll_narrow(), None);
    world.paths[0].handle_probe(world.now, MemberId::new(1, 1), 0, true, &probe(1));
    let narrow = world.paths[0].poll_narrow().unwrap();
    assert_eq!(narrow.each, [(NodeId(1), ALWAYS)].into(), "never below what every path carries");
}

#[test]
fn a_long_probe_that_is_overtaken_by_far_clears_the_doubt_it_made() {
    let mut inward = Inward::new(1_472);
    let (incarnation, ms) = (Incarnation(1), |ms: u64| Instant::ZERO + Duration::from_millis(ms));
    for round in 0..10 * AGREE {
        let at = u64::from(round) * 100;
        inward.arrived(ms(at), incarnation, round, 508);
        assert!(!inward.settle(ms(at + 29)) && inward.settle(ms(at + 30)));
        assert!(inward.doubts());
        inward.arrived(ms(at + 60), incarnation, round, 1_472);
        let report = inward.report(NodeId(0));
        assert_eq!((report.passes, report.doubts), (Some(1_472), false));
    }
}

#[test]
fn rounds_are_counted_round_and_round() {
    let mut inward = Inward::new(1_472);
    for round in [u32::MAX - 1, u32::MAX, 0, 1] {
        inward.arrived(Instant(1), Incarnation(1), round, 508);
    }
    inward.arrived(Instant(1), Incarnation(1), u32::MAX, 1_472);
    inward.arrived(Instant(1), Incarnation(1), 2, 508);
    assert_eq!(inward.report(NodeId(0)).passes, Some(508), "an old round says nothing any more");
}

/// Who gets what a node multicasts, as it knows.
fn reach(world: &World, node: usize) -> &GroupReach {
    &world.narrow[node].group
}

fn all_but(nodes: &[u16]) -> GroupReach {
    GroupReach::AllBut(nodes.iter().copied().map(NodeId).collect())
}

#[test]
fn where_multicast_arrives_no_probe_goes_to_one_node_by_itself() {
    //= W14 test
    let mut world = World::new(3, 1_472);
    world.run(SECOND, all);
    world.alone = 0;
    world.run(SECOND * 20, all);
    assert_eq!((world.alone, reach(&world, 0)), (0, &GroupReach::All));
}

#[test]
fn multicast_that_one_node_does_not_get_is_found_within_five_seconds_and_so_is_its_mending() {
    //= W15 test
    let mut world = World::new(3, 1_472);
    world.run(SECOND * 5, all);
    world.without_group = vec![(0, 2), (1, 2)];
    world.run(SECOND * 5, all);
    assert_eq!([reach(&world, 0), reach(&world, 1)], [&all_but(&[2]), &all_but(&[2])]);
    assert_eq!(reach(&world, 2), &GroupReach::All, "its own arrives");
    world.without_group.clear();
    world.run(SECOND * 5, all);
    assert!((0..3).all(|node| *reach(&world, node) == GroupReach::All));
}

#[test]
fn where_no_multicast_is_forwarded_from_the_start_each_node_is_soon_sent_data_by_itself() {
    //= W15 test
    let mut world = World::new(3, 1_472);
    world.without_group = (0..9).map(|pair| (pair / 3, pair % 3)).collect();
    world.run(SECOND * 2, all);
    assert!((0..3).all(|node| *reach(&world, node) == GroupReach::None));
    assert!(world.narrow.iter().all(|narrow| narrow.each.is_empty()), "sizes are another matter");
    world.without_group.clear();
    world.run(SECOND * 7, all);
    assert!((0..3).all(|node| *reach(&world, node) == GroupReach::All));
}

#[test]
fn a_group_that_did_not_work_at_the_start_is_used_once_the_others_say_that_they_get_it() {
    let mut world = World::that_trusts(3, 1_472, false);
    assert_eq!(reach(&world, 0), &GroupReach::None);
    world.run(SECOND * 3, |from, _, _| from == 0);
    assert_eq!(reach(&world, 0), &GroupReach::None, "no node has said so");
    world.run(SECOND * 3, all);
    assert!((0..3).all(|node| *reach(&world, node) == GroupReach::All));
}

#[test]
fn probes_that_are_lost_by_chance_say_nothing_of_multicast() {
    let mut world = World::new(3, 1_472);
    let mut rng = consort_types::Rng::new(11);
    for _ in 0..300 {
        world.run(SECOND, |_, _, _| !rng.chance(0.3));
        assert!((0..3).all(|node| *reach(&world, node) == GroupReach::All), "{:?}", world.now);
    }
}

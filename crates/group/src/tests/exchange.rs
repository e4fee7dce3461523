//! Daemons that meet and part.
mod closing;

use super::*;
use crate::part::{PART_MAX, PartWriter};
use bytes::BytesMut;
use consort_types::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Daemons of which each is in some view with some others.
pub(super) struct Cluster {
    daemons: Vec<Groups>,
    /// Who is with whom, by daemon.
    view: Vec<Vec<u16>>,
    number: u64,
    /// Those that missed a view which was primary, as the next one says.
    pub(super) missed: BTreeSet<u16>,
    told: Vec<Vec<String>>,
}

impl Cluster {
    pub(super) fn new(n: u16) -> Self {
        let daemons: Vec<_> = (0..n).map(at).collect();
        let view = (0..n).map(|me| vec![me]).collect();
        let mut cluster =
            Self { daemons, view, number: 0, missed: BTreeSet::new(), told: vec![Vec::new(); usize::from(n)] };
        (0..n).for_each(|me| cluster.form(&[me]));
        cluster
    }

    pub(super) fn groups(&mut self, at: u16) -> &mut Groups {
        &mut self.daemons[usize::from(at)]
    }

    fn drain(&mut self, at: u16) {
        let lines = drain(&mut self.daemons[usize::from(at)]);
        self.told[usize::from(at)].extend(lines);
    }

    /// What a daemon has told its clients since it was asked last.
    pub(super) fn told(&mut self, at: u16) -> Vec<String> {
        std::mem::take(&mut self.told[usize::from(at)])
    }

    /// A daemon closes its view; these come along.
    fn close(&mut self, me: u16, together: &[u16]) {
        let groups = &mut self.daemons[usize::from(me)];
        let members = together.iter().map(|other| daemon(*other)).collect();
        groups.install(&View { kind: ViewKind::Transitional, members, ..view(self.number, &[me]) });
        self.drain(me);
    }

    /// Installs a view everywhere in it, without any exchange.
    pub(super) fn install(&mut self, nodes: &[u16]) {
        self.number += 1;
        let before = self.view.clone();
        for me in nodes {
            let mine = &before[usize::from(*me)];
            let together = |other: &u16| *mine == before[usize::from(*other)] && mine.contains(other);
            let together: Vec<_> = nodes.iter().copied().filter(together).collect();
            if self.daemons[usize::from(*me)].closing.is_none() {
                self.close(*me, &together);
            }
            let moved_together = together.iter().map(|other| daemon(*other)).collect();
            let missed_primary = self.missed.remove(me);
            let regular = View { moved_together, missed_primary, ..view(self.number, nodes) };
            self.daemons[usize::from(*me)].install(&regular);
            self.drain(*me);
            self.view[usize::from(*me)] = nodes.to_vec();
        }
    }

    /// What a daemon has to say.
    pub(super) fn parts(&mut self, at: u16) -> Vec<Payload> {
        let groups = &mut self.daemons[usize::from(at)];
        std::iter::from_fn(|| groups.next_part()).map(Payload::from).collect()
    }

    /// Who is with a daemon in its view.
    pub(super) fn with(&self, at: u16) -> Vec<u16> {
        self.view[usize::from(at)].clone()
    }

    /// A daemon starts anew, alone.
    pub(super) fn restart(&mut self, me: u16) {
        let with = self.with(me);
        self.daemons[usize::from(me)] = super::at(me);
        self.view[usize::from(me)] = Vec::new();
        for other in with.into_iter().filter(|other| *other != me) {
            self.view[usize::from(other)].retain(|node| *node != me);
        }
        self.form(&[me]);
    }

    pub(super) fn become_primary(&mut self, at: u16) {
        self.daemons[usize::from(at)].become_primary();
        self.drain(at);
    }

    /// What the members of a view say to each other until nobody has more to say.
    pub(super) fn exchange(&mut self, nodes: &[u16]) {
        for sender in nodes {
            for part in self.parts(*sender) {
                self.deliver(nodes, *sender, &part);
            }
        }
    }

    /// A view that is primary, its whole exchange, and its completion.
    pub(super) fn count(&mut self, nodes: &[u16]) {
        self.form(nodes);
        nodes.iter().for_each(|me| self.become_primary(*me));
        self.exchange(nodes);
    }

    /// The network parts into these nodes and the others; the majority's view counts if it can.
    pub(super) fn part(&mut self, nodes: &[u16]) {
        let all = 0..self.daemons.len() as u16;
        let others: Vec<_> = all.filter(|node| !nodes.contains(node)).collect();
        for part in [nodes, &others[..]] {
            match 2 * part.len() > self.daemons.len() {
                true => self.count(part),
                false if part.is_empty() => {}
                false => self.form(part),
            }
        }
    }

    /// Delivers a payload to all daemons of a view.
    pub(super) fn deliver(&mut self, nodes: &[u16], sender: u16, payload: &Payload) {
        for me in nodes {
            let groups = &mut self.daemons[usize::from(*me)];
            let next = Position(groups.at.0 + 1);
            let _ = groups.deliver(daemon(sender), next, payload);
            self.drain(*me);
        }
    }

    /// A view and its whole exchange.
    fn form(&mut self, nodes: &[u16]) {
        self.install(nodes);
        for sender in nodes {
            for part in self.parts(*sender) {
                self.deliver(nodes, *sender, &part);
            }
        }
        self.agree(nodes);
    }

    fn agree(&self, nodes: &[u16]) {
        let state = |at: &u16| {
            let groups = &self.daemons[usize::from(*at)];
            assert!(groups.is_settled());
            (format!("{:?}", groups.all().collect::<Vec<_>>()), groups.hash(), groups.bytes())
        };
        let states: Vec<_> = nodes.iter().map(state).collect();
        assert!(states.iter().all(|other| *other == states[0]), "{states:#?}");
    }

    pub(super) fn join(&mut self, at: u16, client: u32, name: &str) {
        let nodes = self.view[usize::from(at)].clone();
        self.deliver(&nodes, at, &join(client, name));
    }

    fn names(&self, at: u16, name: &str) -> Vec<String> {
        let members = self.daemons[usize::from(at)].members(name.as_bytes()).unwrap_or_default();
        members.iter().map(|member| format!("{}{}", member.daemon.node, member.client)).collect()
    }
}

fn quiet(cluster: &mut Cluster) {
    cluster.told.iter_mut().for_each(Vec::clear);
}

#[test]
fn daemons_that_meet_tell_each_other_their_groups_and_only_changed_ones_are_told() {
    //= G16 test
    //= G17 test
    //= G18 test
    //= G20 test
    let mut cluster = Cluster::new(3);
    cluster.form(&[0, 1]);
    for (at, client, name) in [(0, 1, "shared"), (1, 1, "shared"), (2, 1, "shared"), (0, 2, "left"), (2, 2, "right")] {
        cluster.join(at, client, name);
    }
    let ids = |cluster: &Cluster, at: usize| {
        cluster.daemons[at].all().map(|(name, id, _)| (name.to_string(), id)).collect::<BTreeMap<_, _>>()
    };
    let (left, right) = (ids(&cluster, 0)["left"], ids(&cluster, 2)["right"]);
    quiet(&mut cluster);
    cluster.form(&[0, 1, 2]);
    let view = "0 shared network n2c1 -> [n0c1 n1c1 n2c1/1] tell [c1]";
    assert_eq!((cluster.told(0), cluster.told(1)), (vec![view.to_owned()], vec![view.to_owned()]));
    assert_eq!(cluster.told(2), ["0 shared network n0c1 n1c1 -> [n0c1 n1c1 n2c1/1] tell [c1]"]);
    let now = ids(&cluster, 1);
    assert_eq!((now["left"], now["right"]), (left, right), "nobody in them noticed anything");
    assert_eq!(now["shared"].change, 0);
    cluster.join(1, 5, "right");
    assert_eq!(cluster.told(2), ["1 right join n1c5 -> [n1c5/1 n2c2] tell [c2]"]);
}

#[test]
fn without_newcomers_there_is_no_exchange() {
    //= G13 test
    let mut cluster = Cluster::new(3);
    cluster.form(&[0, 1, 2]);
    (0..3).for_each(|at| cluster.join(at, 1, "g"));
    cluster.join(0, 2, "h");
    quiet(&mut cluster);
    cluster.install(&[0, 1]);
    assert!(!cluster.daemons[0].has_part());
    assert_eq!(cluster.told(0), ["g closing tell [c1]", "0 g network n2c1 -> [n0c1 n1c1] tell [c1]"]);
    cluster.agree(&[0, 1]);
}

#[test]
fn who_goes_and_comes_again_departs_first_and_is_told_once() {
    //= G10 test
    //= G12 test
    let mut cluster = Cluster::new(3);
    cluster.form(&[0, 1, 2]);
    (0..3).for_each(|at| cluster.join(at, 1, "g"));
    cluster.join(2, 2, "gone");
    quiet(&mut cluster);
    // Daemon 2 was away, and missed a join; all three form the next view.
    cluster.view[2] = vec![2];
    cluster.view[0] = vec![0, 1];
    cluster.view[1] = vec![0, 1];
    (0..2).for_each(|at| {
        step(&mut cluster.daemons[at], 0, &join(7, "g"));
    });
    cluster.form(&[0, 1, 2]);
    let all = "[n0c1 n0c7 n1c1 n2c1/1]";
    assert_eq!(cluster.told(0), ["g closing tell [c1 c7]", &format!("0 g network n2c1 -> {all} tell [c1 c7]")]);
    let twos = cluster.told(2);
    assert_eq!(twos, ["g closing tell [c1]", &format!("0 g network n0c1 n0c7 n1c1 -> {all} tell [c1]")]);
}

#[test]
fn an_exchange_that_is_cut_short_leaves_nothing_behind() {
    //= G11 test
    //= G15 test
    //= G16 test
    let mut cluster = Cluster::new(3);
    for at in 0..3 {
        cluster.join(at, 1, "g");
        cluster.join(at, 2, &format!("own{at}"));
    }
    quiet(&mut cluster);
    cluster.install(&[0, 1, 2]);
    let stale = [cluster.parts(0), cluster.parts(1), cluster.parts(2)].concat();
    // Everybody has heard daemon 2, and daemon 0 itself, when daemon 2 goes.
    cluster.deliver(&[0, 1, 2], 2, &stale[2]);
    cluster.deliver(&[0, 1, 2], 0, &stale[0]);
    assert!(cluster.daemons.iter().all(|groups| !groups.is_settled() && groups.len() == 2));
    cluster.install(&[0, 1]);
    assert!(cluster.daemons[0].has_part(), "they came along, but never knew the same");
    cluster.deliver(&[0, 1], 1, &stale[1]);
    assert_eq!((cluster.told(0), cluster.told(1)), (vec![], vec![]), "a part of another view");
    for at in 0..2 {
        for part in cluster.parts(at) {
            cluster.deliver(&[0, 1], at, &part);
        }
    }
    cluster.agree(&[0, 1]);
    assert_eq!(cluster.told(0), ["0 g network n1c1 -> [n0c1 n1c1/1] tell [c1]"]);
    assert_eq!(cluster.names(0, "own2"), [""; 0], "no ghost");
    assert_eq!(cluster.names(1, "own0"), ["n0c2"]);
}

#[test]
fn many_groups_and_many_clients_are_told_in_parts_of_bounded_size() {
    //= G14 test
    //= G21 test
    let mut cluster = Cluster::new(2);
    (0..2_000).for_each(|n| cluster.join(0, 1, &format!("group-{n}")));
    (0..1_000).for_each(|client| cluster.join(0, client, "crowd"));
    cluster.install(&[0, 1]);
    let parts = cluster.parts(0);
    assert!(parts.len() > 10 && parts.iter().all(|part| part.len() <= PART_MAX), "{}", parts.len());
    parts.iter().for_each(|part| cluster.deliver(&[0, 1], 0, part));
    let last = cluster.parts(1);
    assert_eq!(last.len(), 1);
    let two = &mut cluster.daemons[1];
    deliver(two, 1, &last[0]);
    let steps = std::iter::from_fn(|| two.advance().map(drop)).count();
    assert!(steps > 2_000, "one group at a time");
    cluster.deliver(&[0], 1, &last[0]);
    cluster.agree(&[0, 1]);
    assert_eq!(cluster.names(1, "crowd").len(), 1_000);
}

#[test]
fn a_daemon_that_talks_nonsense_is_not_waited_for_and_the_others_agree() {
    //= G15 test
    let nonsense = |cluster: &Cluster, which: u32| -> Payload {
        let id = cluster.daemons[2].view;
        let mut writer =
            PartWriter::new(id, if which == 2 { daemon(7) } else { daemon(2) }, if which == 1 { 5 } else { 0 });
        if which == 0 {
            return Bytes::from_static(&[ordered::PART, 1, 2]).into();
        }
        assert!(writer.group(&group("ghost"), false, false, crate::GroupViewId::default()));
        assert!(writer.client(ClientId(1), &ClientName::unchosen(ClientId(1))));
        writer.finish(true).into()
    };
    for which in 0..3 {
        let mut cluster = Cluster::new(3);
        (0..3).for_each(|at| cluster.join(at, 1, "g"));
        cluster.install(&[0, 1, 2]);
        let broken = nonsense(&cluster, which);
        cluster.deliver(&[0, 1], 2, &broken);
        for at in 0..2 {
            for part in cluster.parts(at) {
                cluster.deliver(&[0, 1], at, &part);
            }
        }
        cluster.agree(&[0, 1]);
        assert_eq!(cluster.names(0, "g"), ["n0c1", "n1c1"]);
        assert_eq!(cluster.names(0, "ghost"), [""; 0]);
    }
}

#[test]
fn a_group_that_is_closed_anywhere_is_closed_where_daemons_meet() {
    //= G07 test
    let mut cluster = Cluster::new(2);
    cluster.deliver(&[0], 0, &join_closed(1, "g"));
    cluster.join(1, 1, "g");
    cluster.form(&[0, 1]);
    assert!(cluster.daemons.iter().all(|groups| groups.is_closed(b"g")));
}

#[test]
fn a_daemon_with_another_table_is_noticed() {
    //= G31 test
    let mut cluster = Cluster::new(2);
    cluster.form(&[0, 1]);
    cluster.join(0, 1, "g");
    let digest = digest_of(&cluster.daemons[1]);
    assert_eq!(cluster.daemons[0].on_digest(daemon(1), &digest), Ok(None));
    cluster.deliver(&[0], 0, &join(2, "g"));
    cluster.deliver(&[1], 0, &join(3, "g"));
    let digest = digest_of(&cluster.daemons[1]);
    let mismatch = cluster.daemons[0].on_digest(daemon(1), &digest).unwrap().unwrap();
    assert_eq!(mismatch.member, daemon(1));
    assert!(cluster.daemons[0].on_digest(daemon(1), b"nonsense").is_err());
    let mut counted = 0;
    cluster.daemons[0].observe(&mut |name, value| counted += if name == "group_hash_mismatches" { value } else { 0 });
    assert_eq!(counted, 1);
    cluster.install(&[0]);
    cluster.install(&[0, 1]);
    assert_eq!(digest_of(&cluster.daemons[0]), b""[..], "nothing is claimed before it is settled");
}

/// Chance: daemons meet and part, now and then before an exchange is complete; whoever is settled knows the truth.
#[test]
fn whatever_meets_and_parts_all_that_settle_know_the_same_and_the_truth() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let n = 4;
        let mut cluster = Cluster::new(n);
        let mut truth: BTreeSet<(String, u16, u32)> = BTreeSet::new();
        for _ in 0..30 {
            for _ in 0..rng.below(6) {
                change(&mut cluster, &mut truth, &mut rng, n);
            }
            let nodes: Vec<_> = (0..n).filter(|_| rng.chance(0.6)).collect();
            if nodes.is_empty() {
                continue;
            }
            cluster.install(&nodes);
            let mut parts: Vec<_> = nodes.iter().map(|at| (*at, cluster.parts(*at))).collect();
            let stop = if rng.chance(0.4) { rng.below(nodes.len() as u64) as usize } else { parts.len() };
            for (sender, parts) in parts.drain(..).take(stop) {
                parts.iter().for_each(|part| cluster.deliver(&nodes, sender, part));
            }
            if cluster.daemons[usize::from(nodes[0])].is_settled() {
                cluster.agree(&nodes);
                let known: BTreeSet<_> = cluster.daemons[usize::from(nodes[0])]
                    .all()
                    .flat_map(|(name, _, members)| {
                        members.iter().map(|member| (name.to_string(), member.daemon.node.0, member.client.0))
                    })
                    .collect();
                let wanted: BTreeSet<_> = truth.iter().filter(|(_, node, _)| nodes.contains(node)).cloned().collect();
                assert_eq!(known, wanted, "seed {seed}");
            }
        }
    }
}

/// A client of chance joins or leaves where its daemon is settled.
fn change(cluster: &mut Cluster, truth: &mut BTreeSet<(String, u16, u32)>, rng: &mut Rng, n: u16) {
    let at = rng.below(u64::from(n)) as u16;
    let nodes = cluster.view[usize::from(at)].clone();
    let with =
        |other: &u16| cluster.view[usize::from(*other)] == nodes && cluster.daemons[usize::from(*other)].is_settled();
    if !nodes.iter().all(with) {
        return;
    }
    let (client, name) = (rng.below(3) as u32, ["a", "b", "c"][rng.below(3) as usize].to_owned());
    let payload = if rng.chance(0.6) {
        truth.insert((name.clone(), at, client));
        join(client, &name)
    } else {
        truth.remove(&(name.clone(), at, client));
        leave(client, &name)
    };
    cluster.deliver(&nodes, at, &payload);
}

fn digest_of(groups: &Groups) -> Bytes {
    let mut digest = BytesMut::new();
    groups.put_state_digest(&mut digest);
    digest.freeze()
}

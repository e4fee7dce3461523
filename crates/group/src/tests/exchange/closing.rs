//! Views that close while daemons tell each other what they know.
use super::*;
use crate::GroupViewId;

#[test]
fn an_exchange_goes_on_while_its_view_is_closing() {
    //= G10 test
    //= G15 test
    //= G16 test
    let mut cluster = Cluster::new(2);
    (0..2).for_each(|at| cluster.join(at, 1, "g"));
    cluster.join(0, 2, "own");
    cluster.install(&[0, 1]);
    let (first, second) = (cluster.parts(0), cluster.parts(1));
    cluster.deliver(&[0, 1], 0, &first[0]);
    cluster.deliver(&[1], 1, &second[0]);
    cluster.close(0, &[0]);
    quiet(&mut cluster);
    assert!(!cluster.daemons[0].has_part());
    // What others sent behind the exchange comes behind it here, too.
    cluster.deliver(&[0], 1, &second[0]);
    let settled = ["0 g network n1c1 -> [n0c1 n1c1/1] tell [c1]", "g closing tell [c1]"];
    assert_eq!(cluster.told(0), settled);
    let id = |cluster: &Cluster, at: usize| cluster.daemons[at].all().next().map(|(_, id, _)| id);
    assert_eq!(id(&cluster, 0), id(&cluster, 1), "it has one name everywhere");
    cluster.deliver(&[0], 1, &leave(1, "g"));
    assert_eq!(cluster.names(0, "g"), ["n0c1"]);
    let told = cluster.told(0);
    assert!(told.len() == 1 && told[0].ends_with("g leave n1c1 -> [n0c1] tell [c1]"), "{told:?}");
    cluster.install(&[0]);
    cluster.agree(&[0]);
    assert_eq!(cluster.told(0), [""; 0]);
}

/// Who sends a payload.
type Sent = (u16, Payload);

/// What the members of a new view say: their parts, and what clients change behind them.
fn said(cluster: &mut Cluster, rng: &mut Rng, nodes: &[u16]) -> Vec<Sent> {
    let mut said: Vec<Sent> = Vec::new();
    for node in nodes {
        said.extend(cluster.parts(*node).into_iter().map(|part| (*node, part)));
    }
    for _ in 0..rng.below(8) {
        let node = nodes[rng.below(nodes.len() as u64) as usize];
        let (client, name) = (rng.below(3) as u32, ["a", "b", "c"][rng.below(3) as usize]);
        said.push((node, if rng.chance(0.6) { join(client, name) } else { leave(client, name) }));
    }
    said
}

/// Chance: each side of a view that parts closes it at another place, and has delivered more or less of what was said.
#[test]
fn views_that_close_while_daemons_tell_each_other_leave_them_the_same_and_the_truth() {
    //= G02 test
    //= G16 test
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut cluster = Cluster::new(4);
        let mut named: BTreeMap<(String, GroupViewId), Vec<String>> = BTreeMap::new();
        let mut sides: Vec<Vec<u16>> = (0..4).map(|me| vec![me]).collect();
        for _ in 0..12 {
            // Some sides meet.
            let at = rng.below(sides.len() as u64) as usize;
            let mut nodes = sides.swap_remove(at);
            sides.retain(|side| {
                let stays = rng.chance(0.4);
                if !stays {
                    nodes.extend(side);
                }
                stays
            });
            nodes.sort_unstable();
            cluster.install(&nodes);
            let said = said(&mut cluster, &mut rng, &nodes);
            // They part again, each side at a place of its own; it has what its own members said.
            let (one, other): (Vec<u16>, Vec<u16>) = nodes.iter().partition(|_| rng.chance(0.6));
            let settles = |of: &[u16]| said.iter().rposition(|(from, _)| of.contains(from)).map_or(0, |last| last + 1);
            for side in [one, other].into_iter().filter(|side| !side.is_empty()) {
                let parts = said.iter().take_while(|(_, payload)| payload.first() == Some(ordered::PART)).count();
                let own = if settles(&side) > parts { settles(&side) } else { 0 };
                let end = rng.between(own as u64, said.len() as u64) as usize;
                let closes = rng.below(end as u64 + 1) as usize;
                for (number, (from, payload)) in said[..end].iter().enumerate() {
                    if number == closes {
                        side.iter().for_each(|me| cluster.close(*me, &side));
                    }
                    cluster.deliver(&side, *from, payload);
                    note_names(&cluster, &side, &mut named, seed);
                }
                side.iter().for_each(|me| cluster.view[usize::from(*me)].clone_from(&side));
                sides.push(side);
            }
        }
        let all = [0, 1, 2, 3];
        let truth = local(&cluster, &all);
        cluster.form(&all);
        assert_eq!(local(&cluster, &all), truth, "seed {seed}");
        let known = cluster.daemons[0].all().flat_map(|(name, _, members)| {
            members.iter().map(|member| (name.to_string(), member.daemon.node.0, member.client.0))
        });
        assert_eq!(known.collect::<BTreeSet<_>>(), truth, "seed {seed}");
        for groups in &cluster.daemons {
            groups.observe(&mut |name, value| assert!(name != "group_early_messages" || value == 0, "seed {seed}"));
        }
    }
}

/// What daemons know of their own clients.
fn local(cluster: &Cluster, nodes: &[u16]) -> BTreeSet<(String, u16, u32)> {
    let of = |me: u16| {
        let groups = &cluster.daemons[usize::from(me)];
        groups.all().flat_map(move |(name, _, members)| {
            let own = members.iter().filter(move |member| member.daemon.node.0 == me);
            own.map(move |member| (name.to_string(), me, member.client.0))
        })
    };
    nodes.iter().flat_map(|me| of(*me)).collect()
}

/// A name of a membership means one.
fn note_names(cluster: &Cluster, side: &[u16], named: &mut BTreeMap<(String, GroupViewId), Vec<String>>, seed: u64) {
    for me in side.iter().filter(|me| cluster.daemons[usize::from(**me)].settled) {
        for (name, id, _) in cluster.daemons[usize::from(*me)].all() {
            let members = cluster.names(*me, name.as_str());
            let known = named.entry((name.to_string(), id)).or_insert_with(|| members.clone());
            assert_eq!(*known, members, "seed {seed}: {name} {id:?} at n{me}");
        }
    }
}

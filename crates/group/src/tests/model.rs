//! Chance against a model too simple to be wrong, at three daemons at once.
use super::*;
use crate::Member;
use consort_types::Rng;
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Default)]
struct Model(BTreeMap<&'static str, BTreeSet<(u16, u32)>>);

impl Model {
    fn remove(&mut self, gone: impl Fn(&(u16, u32)) -> bool) {
        self.0.values_mut().for_each(|members| members.retain(|member| !gone(member)));
    }
}

fn keys(members: &[Member]) -> Vec<(u16, u32)> {
    members.iter().map(|member| (member.daemon.node.0, member.client.0)).collect()
}

/// One payload of chance, done to the model, and handed to every daemon.
fn one(rng: &mut Rng, model: &mut Model, daemons: &mut [Groups], present: &[u16]) {
    let sender = present[rng.below(present.len() as u64) as usize];
    let (client, name) = (rng.below(4) as u32, NAMES[rng.below(5) as usize]);
    let payload = match rng.below(5) {
        0 | 1 => {
            model.0.entry(name).or_default().insert((sender, client));
            join(client, name)
        }
        2 => {
            model.0.entry(name).or_default().remove(&(sender, client));
            leave(client, name)
        }
        3 => {
            model.remove(|member| *member == (sender, client));
            disconnect(client)
        }
        _ => multicast(client, &[name, NAMES[rng.below(5) as usize]], b"x"),
    };
    let told: Vec<_> = daemons.iter_mut().map(|groups| step(groups, sender, &payload)).collect();
    let deaf = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line.split(" tell").next().unwrap_or_default().to_owned()).collect()
    };
    assert!(told.iter().all(|lines| deaf(lines) == deaf(&told[0])), "{told:?}");
}

fn check(model: &Model, groups: &mut Groups, me: u16) {
    for name in NAMES {
        let wanted: Vec<_> = model.0.get(name).into_iter().flatten().copied().collect();
        assert_eq!(groups.members(name.as_bytes()).map(keys).unwrap_or_default(), wanted, "{name}");
        let local: BTreeSet<_> = wanted.iter().filter(|(node, _)| *node == me).map(|(_, client)| *client).collect();
        let got: BTreeSet<_> = recipients(groups, &multicast(0, &[name], b"")).into_iter().collect();
        assert_eq!(got, local, "{name}");
    }
}

#[test]
fn all_daemons_agree_with_the_model_through_joins_leaves_and_views() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut model = Model::default();
        let mut daemons: Vec<_> = (0..3).map(|me| installed(me, &[0, 1, 2])).collect();
        (0..80).for_each(|_| one(&mut rng, &mut model, &mut daemons, &[0, 1, 2]));
        daemons.iter_mut().zip(0..).for_each(|(groups, me)| check(&model, groups, me));
        daemons.pop();
        model.remove(|(node, _)| *node == 2);
        for groups in &mut daemons {
            groups.install(&view(2, &[0, 1]));
            drain(groups);
        }
        (0..40).for_each(|_| one(&mut rng, &mut model, &mut daemons, &[0, 1]));
        daemons.iter_mut().zip(0..).for_each(|(groups, me)| check(&model, groups, me));
    }
}

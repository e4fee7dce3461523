//! Views, and what they do to groups.
use super::*;
use crate::Notice;
use consort_order::Output;
use consort_types::{Primary, ViewCause, ViewKind};

fn views(world: &World, at: usize) -> Vec<(u64, usize, String)> {
    let views = world.programs[at].events.iter().filter_map(|event| match event {
        DaemonEvent::View(view) => Some((view.id.number, view.members.len(), view.cause.clone())),
        _ => None,
    });
    views.collect()
}

#[test]
fn a_client_that_asks_is_told_of_the_view_it_comes_into() {
    let mut world = World::new(3, Limits::default());
    let ann = world.connect(0, "ann");
    let deaf = world.connect_with(0, ClientEnd::new(&Hello::default()));
    assert_eq!(views(&world, ann), [(1, 3, "the configured members found each other".into())]);
    assert!(views(&world, deaf).is_empty());
    assert!(world.nodes.iter().all(|node| node.engine().resumed()));
}

#[test]
fn a_view_without_a_daemon_takes_its_clients_out_of_all_groups_before_anything_else_is_sent() {
    let mut world = World::new(3, Limits::default());
    let (ann, bob, eve) = (world.connect(0, "ann"), world.connect(1, "bob"), world.connect(2, "eve"));
    [ann, bob, eve].iter().for_each(|at| world.join(*at, "g"));
    world.join(eve, "h");
    world.multicast(ann, &["g"], "queued before, sent after");
    world.carry();
    let before = world.story(ann).len();
    for node in 0..2 {
        world.nodes[node].engine.install(
            vec![member(0), member(1)],
            ViewCause::Silent { since: std::time::Duration::ZERO, nodes: vec![NodeId(2)] },
        );
        world.drain(node);
    }
    world.settle();
    let told = ["g network eve -> ann bob", "n0/c1 g: queued before, sent after"];
    assert_eq!(world.story(ann)[before..], told);
    assert_eq!(world.story(bob)[before - 1..], told);
    assert_eq!(views(&world, ann)[1..], [(2, 2, "n2 silent for 0 ms".into())]);
    assert!(world.nodes[0].groups().members(b"h").is_none());
}

#[test]
fn a_view_that_is_given_up_is_noticed_with_its_cause_and_who_is_out() {
    let mut world = World::new(2, Limits::default());
    while world.nodes[0].poll_notice().is_some() {}
    let (cause, out) = (ViewCause::TokenLost { after: std::time::Duration::from_millis(368) }, vec![member(1)]);
    world.nodes[0].engine.put_out(Output::Interrupted { cause: cause.clone(), out: out.clone() });
    world.drain(0);
    assert_eq!(world.nodes[0].poll_notice(), Some((Notice::Interrupted { cause, out }, 0)));
    assert_eq!(world.nodes[0].poll_notice(), None);
}

#[test]
fn a_transitional_view_is_told_with_a_signal_and_changes_no_group() {
    let mut world = World::new(2, Limits::default());
    let ann = world.connect(0, "ann");
    world.join(ann, "g");
    let mut view = world.nodes[0].view().unwrap().clone();
    view.kind = ViewKind::Transitional;
    view.members = vec![member(1)];
    world.nodes[0].engine.put_out(Output::Install(view));
    world.drain(0);
    let [.., DaemonEvent::View(view), DaemonEvent::GroupSignal(signal)] = &world.programs[ann].events[..] else {
        panic!("no signal")
    };
    assert_eq!((view.kind, signal.group.as_str(), signal.id.change), (ViewKind::Transitional, "g", 1));
    assert_eq!(world.story(ann), ["g join ann -> ann"]);
}

#[test]
fn status_says_who_and_what_this_is() {
    let mut world = World::new(2, Limits::default());
    let ann = world.connect(1, "ann");
    world.join(ann, "g");
    world.client(ann).status();
    world.settle();
    let Some(DaemonEvent::Status(pairs)) = world.programs[ann].events.last() else { panic!("no status") };
    let value = |key: &str| pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
    assert_eq!((value("node"), value("incarnation")), (Some("n1"), Some("101")));
    assert_eq!((value("protocol"), value("state")), (Some("test"), Some("testing, 0 queued")));
    assert_eq!(value("ready"), Some("yes"));
    assert_eq!((value("view"), value("members")), (Some("1@n0.100"), Some("n0.100 n1.101")));
    assert_eq!((value("clients"), value("groups"), value("test_numbered")), (Some("1"), Some("1"), Some("0")));
    let change = "view 1@n0.100 of n0.100 n1.101, primary no policy (the configured members found each other)";
    assert!(value("change_0").is_some_and(|line| line.ends_with(&format!(" ms ago: {change}"))), "{pairs:?}");
}

/// What a client was told of being primary: `view yes`, or `g yes of ann bob`.
fn primaries(world: &World, at: usize) -> Vec<String> {
    let told = world.programs[at].events.iter().filter_map(|event| match event {
        DaemonEvent::View(view) => Some(format!("view {}", view.primary.word())),
        DaemonEvent::GroupView(view) => {
            let names: Vec<_> = view.members.iter().map(|member| member.name.as_str()).collect();
            Some(format!("{} {} of {}", view.group, view.primary.word(), names.join(" ")))
        }
        _ => None,
    });
    told.collect()
}

#[test]
fn daemons_that_meet_do_not_have_two_leaders_in_one_primary_view() {
    //= G22 test
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    for node in 0..2 {
        world.nodes[node].engine.install(vec![member(node as u16)], ViewCause::Started);
        world.drain(node);
        world.settle();
    }
    for (node, at) in [ann, bob].into_iter().enumerate() {
        world.client(at).join(&group("g")).unwrap();
        world.write(at);
        world.now += TICK;
        world.wake(node);
        world.network.clear(); // they do not hear each other yet
    }
    let before = [ann, bob].map(|at| world.programs[at].events.len());
    for node in 0..2 {
        let engine = &mut world.nodes[node].engine;
        engine.primary = Primary::Pending;
        engine.install_with(
            vec![member(0), member(1)],
            vec![member(node as u16)],
            ViewCause::Merged { nodes: vec![NodeId(0), NodeId(1)] },
        );
        world.drain(node);
        let view = world.nodes[node].view().unwrap().id;
        world.nodes[node].engine.put_out(Output::Primary(view));
        world.drain(node);
    }
    // Here each has heard that the view is primary and has only itself in its last group view: two that lead.
    for (at, alone) in [(ann, "g no policy of ann"), (bob, "g no policy of bob")] {
        let told = primaries(&world, at);
        assert_eq!(told[told.len() - 3..], [alone, "view pending", "view yes"]);
    }
    world.settle();
    for (at, before) in [ann, bob].into_iter().zip(before) {
        world.programs[at].events.drain(..before);
        assert_eq!(primaries(&world, at), ["view pending", "view yes", "g yes of ann bob"]);
    }
}

//! Producers of a node's clients: when they are opened, and when they are told what is settled.
use super::*;
use consort_order::Output;
use consort_session::{OpenRefusalCause, OpenRequest, OpeningWait, ProducerId, ProducerStatus};
use consort_types::{Duration, Primary, View, ViewCause, ViewId, ViewKind};

const P: OpenRequest = claim(5, false);

const fn claim(producer: u8, known: bool) -> OpenRequest {
    OpenRequest { producer: ProducerId([producer; 16]), session: producer as u64, attempt: 1, opened: 0, known }
}

/// Three nodes whose view is primary, and counts.
fn world() -> World {
    let mut world = World::new(3, Limits::default());
    world.nodes.iter_mut().for_each(|node| node.groups.configure(3, false));
    counts(&mut world);
    world
}

/// All install a view that becomes primary.
fn counts(world: &mut World) {
    let members: Vec<_> = (0..3).map(member).collect();
    for node in 0..3 {
        let engine = &mut world.nodes[node].engine;
        engine.primary = Primary::Pending;
        engine.install(members.clone(), ViewCause::Formed);
        world.drain(node);
    }
    world.settle();
    for node in 0..3 {
        let id = view(world, node);
        world.nodes[node].engine.put_out(Output::Primary(id));
        world.drain(node);
    }
    world.settle();
}

fn view(world: &World, node: usize) -> ViewId {
    world.nodes[node].view().unwrap().id
}

/// Moves everything on by one step of the order.
fn tick(world: &mut World) {
    world.now += TICK;
    (0..world.nodes.len()).for_each(|node| world.wake(node));
    world.carry();
}

fn open(world: &mut World, at: usize, request: OpenRequest) {
    world.client(at).open_producer(&request);
}

/// What a client was told of its producer, and of its sends that were refused.
fn told(world: &mut World, at: usize) -> Vec<String> {
    let events = std::mem::take(&mut world.programs[at].events);
    let line = |event: DaemonEvent| match event {
        DaemonEvent::Producer(ProducerStatus::Opened { last, forgotten, .. }) => {
            Some(format!("opened {last}{}", if forgotten { " forgotten" } else { "" }))
        }
        DaemonEvent::Producer(ProducerStatus::Settled { number, .. }) => Some(format!("settled {number}")),
        DaemonEvent::Producer(ProducerStatus::Ended) => Some("ended".into()),
        DaemonEvent::Producer(ProducerStatus::Waits(wait)) => Some(format!("waits {wait:?}")),
        DaemonEvent::Producer(ProducerStatus::Refused(refusal)) => Some(format!("not opened {}", refusal.cause)),
        DaemonEvent::Refused { request, refusal } => Some(format!("refused {request} {}", refusal.cause)),
        _ => None,
    };
    events.into_iter().filter_map(line).collect()
}

#[test]
fn nothing_is_told_before_all_members_hold_what_stands_before() {
    //= E02 test
    //= E09 test
    let mut world = world();
    let ann = world.connect(0, "ann");
    open(&mut world, ann, P);
    world.carry();
    tick(&mut world);
    assert_eq!(told(&mut world, ann), [""; 0], "it has its place, and not all hold it");
    tick(&mut world);
    assert_eq!(told(&mut world, ann), ["opened 0"]);
    world.multicast(ann, &["g"], "one");
    world.multicast(ann, &["g"], "two");
    world.carry();
    tick(&mut world);
    assert_eq!(told(&mut world, ann), [""; 0]);
    tick(&mut world);
    assert_eq!(told(&mut world, ann), ["settled 1", "settled 2"]);
    world.settle();
    let before = world.counter(0, "test_numbered");
    world.settle();
    assert_eq!(world.counter(0, "test_numbered"), before, "nobody asks where nobody waits");
}

#[test]
fn what_is_delivered_while_the_view_closes_is_told_by_the_next_opening() {
    //= E06 test
    //= E09 test
    let mut world = world();
    let ann = world.connect(0, "ann");
    open(&mut world, ann, P);
    world.settle();
    world.multicast(ann, &["g"], "one");
    world.carry();
    tick(&mut world);
    for node in 0..3 {
        let (id, members) = (view(&world, node), (0..3).map(member).collect::<Vec<_>>());
        let closing = View {
            id,
            kind: ViewKind::Transitional,
            members: members.clone(),
            moved_together: members,
            primary: Primary::No,
            cause: ViewCause::Formed,
            evidence: Vec::new(),
            missed_primary: false,
        };
        world.nodes[node].engine.put_out(Output::Install(closing));
        world.drain(node);
    }
    tick(&mut world);
    assert_eq!(told(&mut world, ann), ["opened 0", "ended"]);
    world.multicast(ann, &["g"], "two");
    open(&mut world, ann, OpenRequest { known: true, ..P });
    world.settle();
    assert_eq!(told(&mut world, ann), ["refused 2 missing", "waits Membership"]);
    counts(&mut world);
    assert_eq!(told(&mut world, ann), ["waits Membership", "opened 1"]);
}

#[test]
fn opening_waits_for_room_and_is_asked_once_more_behind_another() {
    let mut world = world();
    let ann = world.connect(0, "ann");
    world.nodes[0].engine.limit = 0;
    open(&mut world, ann, P);
    world.settle();
    assert_eq!(told(&mut world, ann), [""; 0]);
    world.nodes[0].engine.limit = 1 << 20;
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0"]);
    let other = claim(6, true);
    open(&mut world, ann, P);
    open(&mut world, ann, other);
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0 forgotten"], "only the last is answered");
    assert_eq!(world.nodes[1].groups().producers().len(), 2);
}

#[test]
fn who_opens_a_producer_elsewhere_stops_the_first() {
    let mut world = world();
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    open(&mut world, ann, P);
    world.settle();
    open(&mut world, bob, OpenRequest { session: 6, known: true, ..P });
    world.settle();
    world.multicast(ann, &["g"], "late");
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0", "refused 1 fenced", "ended"]);
    world.multicast(bob, &["g"], "on");
    world.settle();
    assert_eq!(told(&mut world, bob), ["opened 0", "settled 1"]);
    open(&mut world, ann, OpenRequest { attempt: 2, opened: 1, known: true, ..P });
    world.settle();
    assert_eq!(told(&mut world, ann), ["not opened fenced"]);
}

/// Others may not hold what closed the group, and order the message all the same.
#[test]
fn a_refusal_is_told_once_all_members_hold_what_stands_before() {
    //= E09 test
    let mut world = world();
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.client(bob).join_closed(&group("club")).unwrap();
    open(&mut world, ann, P);
    world.settle();
    for group in ["g", "club", "g", "g"] {
        world.multicast(ann, &[group], "x");
    }
    world.carry();
    tick(&mut world);
    assert_eq!(told(&mut world, ann), ["opened 0"]);
    tick(&mut world);
    assert_eq!(told(&mut world, ann), ["settled 1", "refused 2 closed", "ended"]);
    open(&mut world, ann, OpenRequest { attempt: 2, opened: 1, ..P });
    world.settle();
    world.multicast(ann, &["g"], "once more");
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 1", "settled 2"]);
}

#[test]
fn a_refusal_that_not_all_hold_is_not_told_where_the_view_closes() {
    //= E06 test
    let mut world = world();
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    world.client(bob).join_closed(&group("club")).unwrap();
    open(&mut world, ann, P);
    world.settle();
    world.multicast(ann, &["club"], "x");
    world.carry();
    tick(&mut world);
    counts(&mut world);
    assert_eq!(told(&mut world, ann), ["opened 0", "ended"]);
}

#[test]
fn a_client_that_goes_while_it_is_opened_leaves_nothing_waiting() {
    let mut world = world();
    let ann = world.connect(0, "ann");
    open(&mut world, ann, P);
    world.carry();
    world.vanish(ann);
    world.settle();
    let before = world.counter(0, "test_numbered");
    world.settle();
    assert_eq!(world.counter(0, "test_numbered"), before);
    assert_eq!(world.nodes[2].groups().producers().len(), 1, "its record is there for its next session");
}

#[test]
fn a_session_that_is_done_has_its_producer_forgotten() {
    //= E10 test
    let mut world = world();
    let ann = world.connect(0, "ann");
    world.client(ann).forget_producer();
    open(&mut world, ann, P);
    world.settle();
    world.client(ann).forget_producer();
    world.settle();
    assert!(world.nodes.iter().all(|node| node.groups().producers().is_empty()));
    world.multicast(ann, &["g"], "not numbered");
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0"]);
}

#[test]
fn a_producer_that_sends_nothing_for_an_hour_is_forgotten() {
    //= E10 test
    let mut world = world();
    let (ann, bob) = (world.connect(1, "ann"), world.connect(2, "bob"));
    open(&mut world, ann, P);
    open(&mut world, bob, claim(6, false));
    world.settle();
    world.multicast(ann, &["g"], "once");
    world.settle();
    let known = |world: &World, id: u8| world.nodes[2].groups().producers().get(ProducerId([id; 16])).is_some();
    for minute in 0..62 {
        assert!(minute > 50 || known(&world, 5), "for an hour, and not less");
        world.now += Duration::from_secs(60);
        if minute % 10 == 0 {
            world.multicast(bob, &["g"], "still here");
        }
        world.settle();
    }
    assert_eq!([known(&world, 5), known(&world, 6)], [false, true]);
    world.multicast(ann, &["g"], "too late");
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0", "settled 1", "refused 2 forgotten", "ended"]);
    open(&mut world, ann, OpenRequest { known: true, ..P });
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0 forgotten"]);
}

#[test]
fn a_producer_under_which_nothing_was_ever_ordered_is_forgotten_in_minutes_and_opened_again() {
    //= E10 test
    let mut world = world();
    let ann = world.connect(1, "ann");
    open(&mut world, ann, P);
    world.settle();
    let mut minutes = 0;
    while !world.nodes[2].groups().producers().is_empty() {
        world.now += Duration::from_secs(60);
        minutes += 1;
        world.settle();
    }
    assert!((5..=7).contains(&minutes), "{minutes} minutes");
    world.multicast(ann, &["g"], "the first");
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0", "refused 1 forgotten", "ended"], "certainly not ordered");
    open(&mut world, ann, OpenRequest { attempt: 2, known: true, opened: 1, ..P });
    world.settle();
    world.multicast(ann, &["g"], "once more");
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0 forgotten", "settled 1"]);
}

#[test]
fn an_identity_has_a_share_of_the_producers_and_is_told_which_rule_gives_it_more() {
    //= E11 test
    let mut world = world();
    let rule = consort_rights::Rule {
        name: "few".into(),
        who: vec!["*".parse().unwrap()],
        groups: vec![consort_rights::Glob::new("*")],
        allow: consort_rights::Verb::ALL.into_iter().collect(),
        limits: consort_rights::IdentityLimits { producers: Some(3), ..consort_rights::IdentityLimits::default() },
        ..consort_rights::Rule::default()
    };
    let rules = consort_rights::Rules::new(vec![rule]);
    let now = world.now;
    world.nodes[0].set_policy(now, crate::ClientPolicy { rules, ..crate::ClientPolicy::default() });
    let ann = world.connect(0, "ann");
    for id in 1..=4 {
        open(&mut world, ann, claim(id, false));
        world.settle();
    }
    open(&mut world, ann, claim(3, true));
    world.settle();
    let events: Vec<_> = world.programs[ann]
        .events
        .iter()
        .filter_map(|event| match event {
            DaemonEvent::Producer(ProducerStatus::Refused(refusal)) => Some(refusal.text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(events.len(), 1, "the fourth");
    assert!(events[0].starts_with("unknown has opened 3 producers here") && events[0].contains("the rules allow it 3"));
    let full = format!("not opened {}", OpenRefusalCause::Full);
    assert_eq!(told(&mut world, ann), ["opened 0", "opened 0", "opened 0", &full, "opened 0"]);
    let bob = world.connect(1, "bob");
    (5..=9).for_each(|id| {
        open(&mut world, bob, claim(id, false));
        world.settle();
    });
    assert_eq!(told(&mut world, bob), ["opened 0"; 5], "another daemon asks its own rules");
    world.client(ann).forget_producer();
    world.settle();
    world.now += Duration::from_secs(1);
    open(&mut world, ann, claim(4, false));
    world.settle();
    assert_eq!(told(&mut world, ann), ["opened 0"], "what is forgotten makes room");
}

#[test]
fn a_producer_is_forgotten_after_the_time_that_the_lowest_member_is_told() {
    //= E10 test
    let mut world = world();
    let lowest = world.nodes.remove(0);
    world.nodes.insert(0, lowest.keeping_producers(Duration::from_secs(120)));
    let ann = world.connect(1, "ann");
    open(&mut world, ann, P);
    world.settle();
    let mut minutes = 0;
    while !world.nodes[2].groups().producers().is_empty() {
        world.now += Duration::from_secs(60);
        minutes += 1;
        assert!(minutes < 10, "it is still known");
        world.settle();
    }
    assert!(minutes >= 2, "it is forgotten after {minutes} minutes");
}

#[test]
fn without_a_policy_nothing_is_opened_and_before_the_first_view_it_waits() {
    let mut world = World::new(1, Limits::default());
    let ann = world.connect(0, "ann");
    open(&mut world, ann, P);
    world.settle();
    assert_eq!(told(&mut world, ann), [format!("not opened {}", OpenRefusalCause::NoPolicy)]);
    assert_eq!(OpeningWait::Membership.text(), "the daemons agree on who is there");
}

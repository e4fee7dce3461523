//! Lists of groups and connections, asked for page by page.
use super::*;
use consort_session::inquirer::{Inquirer, Reply};
use consort_session::listing::{ConnectionStage, ListQuery, Listing, PAGE_MAX, Transport};

const INQUIRER: ClientId = ClientId(9_000);

/// Asks node 0 over a connection of its own.
fn ask(world: &mut World, question: &ListQuery) -> Listing {
    let mut inquirer = Inquirer::new();
    world.now += consort_types::Duration::from_millis(2);
    world.nodes[0].open_client_over(world.now, INQUIRER, Transport::Tcp);
    inquirer.ask(question);
    let reading = world.nodes[0].handle_client(world.now, INQUIRER, inquirer.take_output());
    assert_eq!(reading, Reading::Go);
    while world.nodes[0].poll_effect().is_some() {}
    while world.nodes[0].poll_writable().is_some() {}
    let told = Bytes::copy_from_slice(world.nodes[0].client_output(INQUIRER));
    assert!(told.len() < 64 << 10, "{} bytes in one answer", told.len());
    inquirer.feed(told);
    world.nodes[0].close_client(world.now, INQUIRER);
    assert!(matches!(inquirer.next_reply(), Ok(Some(Reply::Welcome(welcome))) if welcome.client == INQUIRER));
    match inquirer.next_reply().unwrap() {
        Some(Reply::Listing(listing)) => listing,
        other => panic!("{other:?}"),
    }
}

#[test]
fn groups_are_told_by_name_a_page_at_a_time() {
    let mut world = World::new(2, Limits::default());
    let (ann, bob) = (world.connect(0, "ann"), world.connect(1, "bob"));
    for number in 0..1_200 {
        world.client(ann).join(&group(&format!("g{number:04}"))).unwrap();
    }
    world.settle();
    world.client(bob).join_closed(&group("a-closed-one")).unwrap();
    world.settle();
    world.join(bob, "g0007");
    let (mut after, mut pages, mut found) = (None, 0, Vec::new());
    loop {
        let Listing::Groups(page) = ask(&mut world, &ListQuery::Groups { after, most: u16::MAX }) else { panic!() };
        assert_eq!(page.total, 1_201);
        pages += 1;
        after = page.items.last().map(|group| group.name.clone());
        found.extend(page.items);
        if !page.more {
            break;
        }
    }
    assert_eq!((pages, found.len()), (3, 1_201));
    assert!(found.is_sorted_by(|a, b| a.name < b.name));
    let about = |name: &str| found.iter().find(|entry| entry.name.as_str() == name).unwrap();
    assert_eq!((about("a-closed-one").members, about("a-closed-one").closed), (1, true));
    assert_eq!((about("g0007").members, about("g0008").members, about("g0007").closed), (2, 1, false));
}

#[test]
fn members_are_told_behind_any_of_them_and_a_group_that_is_not_has_none() {
    let mut world = World::new(2, Limits::default());
    for (node, name) in [(0, "ann"), (0, "bob"), (1, "cid")] {
        let client = world.connect(node, name);
        world.join(client, "g");
    }
    let page = |world: &mut World, name: &str, after, most| {
        let Listing::Members(page) = ask(world, &ListQuery::Members { group: group(name), after, most }) else {
            panic!()
        };
        (page.items.iter().map(|member| member.name.to_string()).collect::<Vec<_>>(), page.more, page.total)
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(page(&mut world, "g", Default::default(), 2), (names(&["ann", "bob"]), true, 3));
    assert_eq!(page(&mut world, "g", (member(0), ClientId(2)), 2), (names(&["cid"]), false, 3));
    assert_eq!(page(&mut world, "g", (member(1), ClientId(9)), 2), (names(&[]), false, 3));
    assert_eq!(page(&mut world, "g", Default::default(), 0), (names(&[]), true, 3));
    assert_eq!(page(&mut world, "nobody", Default::default(), 2), (names(&[]), false, 0));
}

#[test]
fn clients_are_told_with_what_waits_and_who_has_said_nothing_yet() {
    let mut world = World::new(1, Limits::default());
    let (ann, _bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.join(ann, "g");
    world.programs[ann].reads = false;
    world.multicast(ann, &["g"], "unread");
    world.settle();
    let silent = ClientId(77);
    world.nodes[0].open_client_over(world.now, silent, Transport::Unix);
    let Listing::Clients(page) = ask(&mut world, &ListQuery::Clients { after: ClientId(0), most: PAGE_MAX }) else {
        panic!()
    };
    let [ann, bob, silent, own] = &page.items[..] else { panic!("{page:?}") };
    assert_eq!((page.total, page.more), (4, false));
    assert_eq!((ann.name.as_ref().unwrap().as_str(), ann.groups, ann.stage), ("ann", 1, ConnectionStage::Open));
    assert!(ann.waiting > 6 && ann.under_way == 0 && ann.credit == 256 << 10, "{ann:?}");
    assert_eq!((bob.waiting, bob.transport), (0, Transport::Unknown));
    assert_eq!((&silent.name, silent.stage, silent.transport), (&None, ConnectionStage::Connecting, Transport::Unix));
    assert_eq!((own.client, own.transport), (INQUIRER, Transport::Tcp));
    let Listing::Clients(page) = ask(&mut world, &ListQuery::Clients { after: ClientId(2), most: 1 }) else { panic!() };
    assert_eq!((page.items[0].client, page.more), (ClientId(77), true));
}

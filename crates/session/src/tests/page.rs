//! The protocol's page is true: its example is what both ends write.
use super::*;
use crate::listing::{Connection, ConnectionStage, GroupEntry, ListPage, ListQuery, Listing, Transport};
use crate::{PendingOffer, Place, ReadingStatus, SlowPolicy, Undo, event};
use bytes::BytesMut;
use consort_group::{ClientName, GroupStep, Groups, Member, ordered};
use consort_types::{Duration, Instant, OfferId, Position, Primary, View, ViewCause, ViewId, ViewKind};
use consort_wire::Payload;

/// The bytes that one side writes in an example of section 6.
fn written_by(side: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/session-protocol.md");
    let example = page.split("```").skip(1).find(|block| block.contains(&format!("\n{side:<8}"))).unwrap();
    let mut speaker = "";
    let mut digits = String::new();
    for line in example.lines().filter(|line| line.len() > 8) {
        let (label, rest) = line.split_at(8);
        speaker = if label.trim().is_empty() { speaker } else { label.trim() };
        if speaker == side {
            digits.extend(rest.split("   ").next().unwrap().split_whitespace());
        }
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn whoever_asks_for_lists_writes_and_reads_the_bytes_of_the_page() {
    let mut asked = BytesMut::new();
    let (after, most) = (Default::default(), 512);
    ListQuery::Groups { after: None, most: 2 }.put(&mut asked);
    ListQuery::Members { group: group("g"), after, most }.put(&mut asked);
    ListQuery::Clients { after: ClientId(0), most }.put(&mut asked);
    assert_eq!(asked, written_by("asker"));
    let entry = |name, members, closed| GroupEntry { name: group(name), members, closed };
    let (client, name) = (ClientId(2), ClientName::new(b"bob").unwrap());
    let connection = Connection {
        client,
        name: Some(name.clone()),
        transport: Transport::Unix,
        stage: ConnectionStage::Open,
        groups: 1,
        waiting: 0,
        under_way: 0,
        credit: 256 << 10,
        slow: SlowPolicy::Disconnect,
        spooled: 0,
    };
    let told = [
        Listing::Groups(ListPage { total: 3, more: true, items: vec![entry("a", 1, true), entry("g", 1, false)] }),
        Listing::Members(ListPage {
            total: 1,
            more: false,
            items: vec![Member { daemon: MemberId::new(1, 101), client, name }],
        }),
        Listing::Clients(ListPage { total: 1, more: false, items: vec![connection] }),
    ];
    let mut answer = BytesMut::new();
    told.iter().for_each(|listing| listing.put(&mut answer));
    assert_eq!(answer, written_by("teller"));
}

#[test]
fn the_client_of_the_page_writes_these_bytes() {
    let mut client = ClientEnd::new(&Hello { name: ClientName::new(b"bob"), ..Hello::default() });
    let mut bytes = client.take_output().to_vec();
    client.feed(written_by("daemon").into());
    assert!(matches!(client.next_event(), Ok(Some(DaemonEvent::Welcome(_)))));
    client.join(&group("g")).unwrap();
    client.multicast(Service::Agreed, &[group("g")], b"hi").unwrap();
    bytes.extend(client.take_output());
    assert_eq!(bytes, written_by("client"));
}

#[test]
fn a_token_is_shown_as_on_the_page() {
    let hello = Hello { name: ClientName::new(b"bob"), token: Some("abc".into()), ..Hello::default() };
    let mut written = BytesMut::new();
    hello.put(&mut written);
    assert_eq!(written, written_by("shower")[..]);
}

#[test]
fn offers_are_written_and_read_as_on_the_page() {
    let hello = Hello { name: ClientName::new(b"bob"), optimistic: Some(Undo::Latest), ..Hello::default() };
    let mut client = ClientEnd::new(&hello);
    assert_eq!(client.take_output(), written_by("wisher"));
    let mut session = DaemonEnd::new(ClientId(2));
    session.feed(written_by("wisher").into());
    assert_eq!(session.next(&Limits::default()), Ok(Some(Ask::Hello(ClientName::new(b"bob")))));
    let (now, id) = (Instant(7_000), OfferId(40));
    let prefix = ordered::multicast_prefix(ClientId(2), &ClientName::new(b"bob").unwrap());
    let offered = PendingOffer {
        id,
        free_until: now + Duration::from_micros(128),
        sender: NodeId(1),
        service: Service::Agreed,
        multicast: [prefix, Bytes::from_static(b"\0\x01\x01ghi")].into_iter().collect(),
        told_at: ordered::TOLD_AT,
    };
    session.tell_offer(now, &offered);
    assert!(session.tell_revoke(now, id));
    session.tell_confirm(now + Duration::from_secs(1), &offered);
    assert!(session.output().pieces().flatten().eq(&written_by("offers")));
    client.feed(written_by("offers").into());
    let events: Vec<_> = std::iter::from_fn(|| client.next_event().unwrap()).collect();
    let [DaemonEvent::Offer(first), DaemonEvent::Revoke(1), DaemonEvent::Offer(again), DaemonEvent::Confirm(2)] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((first.free, again.free, &first.message), (Duration::from_micros(128), Duration::ZERO, &again.message));
}

#[test]
fn a_reading_is_asked_for_and_told_as_on_the_page() {
    let mut client = ClientEnd::new(&Hello::default());
    client.take_output();
    client.read(0, Place::at(0), &[group("g")]);
    assert_eq!(client.take_output(), written_by("reads"));
    let mut session = DaemonEnd::new(ClientId(2));
    let mut told = BytesMut::new();
    ReadingStatus::Began { order: 0xdead_beef, from: Place::at(5), oldest: 5, newest: 7 }.put(&mut told);
    session.tell(&told);
    let prefix = ordered::multicast_prefix(ClientId(2), &ClientName::new(b"bob").unwrap());
    let hi: Payload = [prefix, Bytes::from_static(b"\0\x01\x01ghi")].into_iter().collect();
    let told_as = event::ToldAs::Reader(Place::at(6));
    session.tell_placed(MemberId::new(1, 101), Service::Agreed, &hi, &told_of(&hi), told_as);
    told.clear();
    ReadingStatus::CaughtUp { position: 7 }.put(&mut told);
    session.tell(&told);
    assert!(session.output().pieces().flatten().eq(&written_by("shows")));
    client.feed(written_by("shows").into());
    let events: Vec<_> = std::iter::from_fn(|| client.next_event().unwrap()).collect();
    let [DaemonEvent::Reading(_), DaemonEvent::Read(message), DaemonEvent::Reading(_)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((message.position(), message.sender_daemon()), (Some(6), Some(MemberId::new(1, 101))));
}

#[test]
fn the_daemon_of_the_page_answers_with_these_bytes() {
    let (limits, me) = (Limits::default(), MemberId::new(1, 101));
    let mut groups = Groups::new(me);
    groups.install(&View {
        id: ViewId { number: 1, representative: MemberId::new(0, 100) },
        kind: ViewKind::Regular,
        members: vec![me],
        moved_together: Vec::new(),
        primary: Primary::Yes,
        cause: ViewCause::Formed,
        evidence: Vec::new(),
        missed_primary: false,
    });
    while groups.advance().is_some() {}
    let mut session = DaemonEnd::new(ClientId(2));
    session.feed(written_by("client").into());
    while let Some(ask) = session.next(&limits).unwrap() {
        let before = session.input_held();
        match ask {
            Ask::Hello(name) => session.welcome(name.unwrap(), me, "n1", &limits),
            Ask::Join { group, closed } => {
                session.accept();
                let join = Payload::from(ordered::join(ClientId(2), session.name(), &group, closed));
                groups.deliver(me, Position(1), &join).unwrap();
                let mut frames = BytesMut::new();
                let Some(GroupStep::View(change)) = groups.advance() else { panic!("no view") };
                event::put_group_view(&mut frames, &change);
                session.tell(&frames);
            }
            Ask::Multicast { service, payload } => {
                session.accept();
                session.tell_message(me.node, service, &payload, &told_of(&payload));
            }
            other => panic!("{other:?}"),
        }
        let cost = before - session.input_held();
        if cost > 0 {
            session.order(cost);
        }
    }
    session.tell_progress();
    assert_eq!(session.output().front(), written_by("daemon"));
}

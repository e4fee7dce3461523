//! The protocol's page is true: its example is what both ends write.
use super::*;
use crate::event;
use bytes::BytesMut;
use consort_group::{ClientName, Groups, Step, ordered};
use consort_types::{Cause, Position, Primary, View, ViewId, ViewKind};
use consort_wire::Payload;

/// The bytes that one side writes in the example of section 6.
fn written_by(side: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/session-protocol.md");
    let example = page.split("```").skip(1).find(|block| block.contains("client  ")).unwrap();
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
fn the_client_of_the_page_writes_these_bytes() {
    let mut client = Client::new(&Hello { name: ClientName::new(b"bob"), ..Hello::default() });
    let mut bytes = client.take_output().to_vec();
    client.feed(written_by("daemon").into());
    assert!(matches!(client.next_event(), Ok(Some(Event::Welcome(_)))));
    client.join(&group("g")).unwrap();
    client.multicast(Service::Agreed, &[group("g")], b"hi").unwrap();
    bytes.extend(client.take_output());
    assert_eq!(bytes, written_by("client"));
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
        cause: Cause::Formed,
        evidence: Vec::new(),
    });
    while groups.advance().is_some() {}
    let mut session = Session::new(ClientId(2));
    session.feed(written_by("client").into());
    while let Some(ask) = session.next(&limits).unwrap() {
        let before = session.input_held();
        match ask {
            Ask::Hello => session.welcome(me, "n1", &limits),
            Ask::Join { group, closed } => {
                session.accept();
                let join = Payload::from(ordered::join(ClientId(2), session.name(), &group, closed));
                groups.deliver(me, Position(1), &join).unwrap();
                let mut frames = BytesMut::new();
                let Some(Step::View(change)) = groups.advance() else { panic!("no view") };
                event::put_group_view(&mut frames, &change);
                session.tell(&frames);
            }
            Ask::Multicast { service, payload } => {
                session.accept();
                session.tell_message(me.node, service, &payload, ordered::TOLD_AT);
            }
            other => panic!("{other:?}"),
        }
        let cost = before - session.input_held();
        if cost > 0 {
            session.order(cost);
        }
    }
    session.tell_progress();
    assert_eq!(session.output(), written_by("daemon"));
}

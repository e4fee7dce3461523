//! Every frame reads back, and no mutation of any panics a decoder.
use super::told_of;
use crate::event::{self, DaemonEvent, Progress, WaitNotice, Welcome};
use crate::frame::{Frames, HEAD_LEN, Head};
use crate::listing::{Connection, ConnectionStage, GroupEntry, ListPage, ListQuery, Listing, PAGE_MAX, Transport};
use crate::request::{self, Hello, NotHello};
use crate::{
    Disconnect, DisconnectReason, FrameQueue, PendingOffer, Refusal, RefusalCause, SlowPolicy, SlowRequest, Undo,
    VERSION,
};
use bytes::{Bytes, BytesMut};
use consort_group::{
    ClientName, GroupChange, GroupStep, GroupViewId, Groups, Member, TransitionalSignal, ordered, targets,
};
use consort_types::{
    ClientId, Duration, GroupName, Instant, MemberId, NodeId, OfferId, OrderWait, Position, Primary, Service, View,
    ViewCause, ViewId, ViewKind,
};
use consort_wire::Payload;

fn written(fill: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    fill(&mut out);
    out.freeze()
}

/// The only event in these bytes.
fn read(bytes: &Bytes) -> DaemonEvent {
    let mut frames = Frames::new(1 << 20);
    frames.push(bytes.clone());
    let head = frames.whole().unwrap().unwrap();
    assert_eq!(head.len, bytes.len());
    DaemonEvent::decode(head.kind, bytes.slice(HEAD_LEN..)).unwrap()
}

fn view() -> View {
    View {
        id: ViewId { number: 9, representative: MemberId::new(0, 4) },
        kind: ViewKind::Transitional,
        members: vec![MemberId::new(0, 4), MemberId::new(2, 8)],
        moved_together: vec![MemberId::new(0, 4)],
        primary: Primary::Pending,
        cause: ViewCause::TokenLost { after: Duration::from_millis(250) },
        evidence: Vec::new(),
        missed_primary: false,
    }
}

fn ordered_message(names: &[&str], payload: &'static [u8]) -> Payload {
    let names: Vec<_> = names.iter().map(|name| GroupName::new(name.as_bytes()).unwrap()).collect();
    let list = written(|out| assert!(targets::encode(names.iter(), out)));
    [ordered::multicast_prefix(ClientId(70_000), &bob()), list, Bytes::from_static(payload)].into_iter().collect()
}

fn bob() -> ClientName {
    ClientName::new(b"bob").unwrap()
}

fn welcome() -> Welcome {
    Welcome {
        version: VERSION,
        daemon: MemberId::new(3, 77),
        session: 12,
        client: ClientId(12),
        daemon_name: "n3".into(),
        name: ClientName::new(b"bob").unwrap(),
        message_max: 1 << 24,
        credit: 1 << 19,
        groups_max: 1_000,
    }
}

pub(super) fn every_question() -> [ListQuery; 5] {
    let orders = GroupName::new(b"orders").unwrap();
    [
        ListQuery::Groups { after: None, most: 3 },
        ListQuery::Groups { after: Some(orders.clone()), most: 0 },
        ListQuery::Members { group: orders.clone(), after: Default::default(), most: 512 },
        ListQuery::Members { group: orders, after: (MemberId::new(2, 8), ClientId(5)), most: 1 },
        ListQuery::Clients { after: ClientId(7), most: u16::MAX },
    ]
}

fn every_listing() -> Vec<Listing> {
    let (name, member) = (GroupName::new(b"orders").unwrap(), |n| MemberId::new(2, n));
    let group = |closed| GroupEntry { name: name.clone(), members: 70_000, closed };
    let of = |n| Member { daemon: member(n), client: ClientId(5), name: bob() };
    let connection = Connection {
        client: ClientId(ClientId::SPREAD | 3),
        name: Some(bob()),
        transport: Transport::Tcp,
        stage: ConnectionStage::Waiting,
        groups: 2,
        waiting: 1 << 40,
        under_way: 9,
        credit: 512 << 10,
        slow: SlowPolicy::Spool,
        spooled: 1 << 33,
    };
    let silent =
        Connection { name: None, transport: Transport::Unix, stage: ConnectionStage::Connecting, ..connection.clone() };
    vec![
        Listing::Groups(ListPage { total: 9, more: true, items: vec![group(false), group(true)] }),
        Listing::Members(ListPage { total: 2, more: false, items: vec![of(8), of(9)] }),
        Listing::Clients(ListPage { total: 2, more: false, items: vec![silent, connection] }),
        Listing::Clients(ListPage { total: 2, more: true, items: Vec::new() }),
    ]
}

#[test]
fn every_list_reads_back_and_no_mutation_panics() {
    for listing in every_listing() {
        let frame = written(|out| listing.put(out));
        let (kind, body) = (frame[HEAD_LEN - 1], &frame[HEAD_LEN..]);
        assert!(Listing::is_one(kind));
        assert_eq!(Listing::decode(kind, body), Ok(listing));
        assert_eq!(Listing::decode(kind, &[body, &[0]].concat()).unwrap_err().what, "end of list");
        consort_wire::mutate::each(body, 3_000, |bytes| drop(Listing::decode(kind, bytes)));
    }
    assert_eq!(Listing::decode(0x86, b"").unwrap_err().what, "kind");
}

#[test]
fn a_page_has_no_more_than_was_asked_for_or_than_any_may_have() {
    let page = |most| ListPage::of(2_000, most, 0..2_000);
    assert_eq!((page(3).items, page(3).more, page(3).total), (vec![0, 1, 2], true, 2_000));
    assert_eq!((page(0).items.len(), page(0).more), (0, true));
    assert_eq!(page(u16::MAX).items.len(), usize::from(PAGE_MAX));
    assert!(!ListPage::of(2, 2, 0..2).more && ListPage::of(2, 2, 0..2).items.len() == 2);
}

fn group_view_frame() -> Bytes {
    let mut groups = Groups::new(MemberId::new(0, 4));
    groups.install(&View { kind: ViewKind::Regular, ..view() });
    while groups.advance().is_some() {}
    let join = ordered::join(ClientId(5), &bob(), &GroupName::new(b"orders").unwrap(), true);
    groups.deliver(MemberId::new(2, 8), Position(1), &join.into()).unwrap();
    let Some(GroupStep::View(change)) = groups.advance() else { panic!("no view") };
    written(|out| event::put_group_view(out, &GroupChange { sets: &[7], ..change }))
}

fn group_signal_frame() -> Bytes {
    let group = GroupName::new(b"orders").unwrap();
    let id = GroupViewId { view: view().id, change: 3 };
    written(|out| event::put_group_signal(out, &TransitionalSignal { group: &group, id, notify: &[] }))
}

fn offered(multicast: Payload) -> PendingOffer {
    let (id, sender, service) = (OfferId(70), NodeId(3), Service::Causal);
    PendingOffer { id, free_until: Instant::ZERO, sender, service, multicast, told_at: ordered::TOLD_AT }
}

fn message_frame(sender: NodeId, service: Service, multicast: &Payload) -> Bytes {
    let mut out = FrameQueue::default();
    event::put_message(&mut out, sender, service, multicast, &told_of(multicast));
    out.pieces().flatten().copied().collect()
}

fn every_event() -> Vec<Bytes> {
    let message = ordered_message(&["a", "bc"], b"payload");
    let pairs = [("state".to_owned(), "operational".to_owned()), ("ä".to_owned(), String::new())];
    let refusal = Refusal::new(RefusalCause::Budget, "too much");
    vec![
        written(|out| event::put_welcome(out, &welcome())),
        message_frame(NodeId(3), Service::Safe, &message),
        written(|out| event::put_offer(out, 5, Duration::from_micros(128), &offered(message))),
        written(|out| event::put_revoke(out, 5)),
        written(|out| event::put_confirm(out, 6)),
        group_view_frame(),
        group_signal_frame(),
        written(|out| event::put_view(out, &view())),
        written(|out| event::put_progress(out, Progress { accepted: 9, ordered: 8, credit: 7 })),
        written(|out| event::put_refused(out, 6, &refusal)),
        written(|out| event::put_status(out, &pairs)),
        written(event::put_heartbeat),
        written(|out| event::put_pong(out, u64::MAX)),
        written(|out| event::put_disconnect(out, &Disconnect::new(DisconnectReason::Slow, "too slow"))),
        written(|out| event::put_waiting(out, WaitNotice { up_to: 9, cause: OrderWait::Slow(NodeId(3)) })),
    ]
}

#[test]
fn every_event_reads_back() {
    let [
        welcomed,
        message,
        offer,
        revoke,
        confirm,
        group_view,
        signal,
        network,
        progress,
        refused,
        status,
        heartbeat,
        pong,
        farewell,
        waiting,
    ] = <[DaemonEvent; 15]>::try_from(every_event().iter().map(read).collect::<Vec<_>>()).unwrap();
    assert_eq!(welcomed, DaemonEvent::Welcome(welcome()));
    let DaemonEvent::Message(message) = message else { panic!("{message:?}") };
    assert_eq!((message.sender(), message.service()), ((NodeId(3), ClientId(70_000)), Service::Safe));
    assert_eq!((message.sender_name(), message.sender_private().unwrap().as_str()), ("bob", "#bob#n3"));
    assert_eq!(message.groups().collect::<Vec<_>>(), ["a", "bc"]);
    assert_eq!(message.payload(), b"payload");
    assert_eq!(&message.into_payload()[..], b"payload");
    let DaemonEvent::Offer(offer) = offer else { panic!("{offer:?}") };
    assert_eq!((offer.number, offer.free), (5, Duration::from_micros(128)));
    assert_eq!((offer.message.sender(), offer.message.service()), ((NodeId(3), ClientId(70_000)), Service::Causal));
    assert_eq!((offer.message.sender_name(), offer.message.payload()), ("bob", &b"payload"[..]));
    assert_eq!((revoke, confirm), (DaemonEvent::Revoke(5), DaemonEvent::Confirm(6)));
    let DaemonEvent::GroupView(group_view) = group_view else { panic!("{group_view:?}") };
    let bob = Member { daemon: MemberId::new(2, 8), client: ClientId(5), name: bob() };
    assert_eq!((&group_view.members, &group_view.who), (&vec![bob.clone()], &vec![bob.clone()]));
    assert_eq!((group_view.closed, &group_view.sets[..]), (true, &[7][..]));
    assert_eq!(group_view.together_with(bob.key()).collect::<Vec<_>>(), [&bob]);
    let DaemonEvent::GroupSignal(signal) = signal else { panic!("{signal:?}") };
    assert_eq!((signal.group.as_str(), signal.id), ("orders", GroupViewId { view: view().id, change: 3 }));
    assert_eq!((group_view.group.as_str(), group_view.id.change), ("orders", 1));
    let DaemonEvent::View(network) = network else { panic!("{network:?}") };
    let meant = view();
    assert_eq!((network.id, network.kind, network.primary), (meant.id, meant.kind, meant.primary));
    assert_eq!((network.members, network.moved_together), (meant.members, meant.moved_together));
    assert_eq!(network.cause, "token lost after 250 ms");
    assert_eq!(progress, DaemonEvent::Progress(Progress { accepted: 9, ordered: 8, credit: 7 }));
    assert_eq!(refused, DaemonEvent::Refused { request: 6, refusal: Refusal::new(RefusalCause::Budget, "too much") });
    assert!(matches!(status, DaemonEvent::Status(pairs) if pairs[0].1 == "operational" && pairs[1].0 == "ä"));
    assert_eq!((heartbeat, pong), (DaemonEvent::Heartbeat, DaemonEvent::Pong(u64::MAX)));
    assert_eq!(farewell, DaemonEvent::Disconnect(Disconnect::new(DisconnectReason::Slow, "too slow")));
    assert_eq!(waiting, DaemonEvent::Waiting(WaitNotice { up_to: 9, cause: OrderWait::Slow(NodeId(3)) }));
}

#[test]
fn every_cause_of_waiting_reads_back_and_others_are_refused() {
    let slow = [OrderWait::Slow(NodeId(0)), OrderWait::Slow(NodeId(u16::MAX))];
    let client = OrderWait::SlowClient(NodeId(3), ClientId(u32::MAX));
    let others = [OrderWait::Window, OrderWait::Membership, OrderWait::Quorum, OrderWait::Retention];
    let more = [OrderWait::Ring(u16::MAX), client];
    for cause in others.into_iter().chain(more).chain(slow) {
        let waiting = WaitNotice { up_to: u64::MAX, cause };
        assert_eq!(read(&written(|out| event::put_waiting(out, waiting))), DaemonEvent::Waiting(waiting));
    }
    for (cause, node) in [(0, 0), (1, 3), (2, 3), (6, 3), (7, 0), (8, 0), (255, 0)] {
        let body = [&[0; 8][..], &[cause, 0, node]].concat();
        assert_eq!(DaemonEvent::decode(0x8f, body.into()).unwrap_err().what, "cause");
    }
}

#[test]
fn a_message_without_payload_and_one_of_many_parts_read_back() {
    let empty = ordered_message(&["g"], b"");
    let frame = message_frame(NodeId(0), Service::Agreed, &empty);
    assert!(matches!(read(&frame), DaemonEvent::Message(message) if message.payload().is_empty()));
    let bytes = ordered_message(&["g"], b"many parts").to_bytes();
    let parts: Payload = (0..bytes.len()).map(|at| bytes.slice(at..at + 1)).collect();
    let frame = message_frame(NodeId(0), Service::Agreed, &parts);
    assert!(matches!(read(&frame), DaemonEvent::Message(message) if message.payload() == b"many parts"));
}

#[test]
fn no_mutation_of_any_event_panics() {
    for frame in every_event() {
        consort_wire::mutate::each(&frame, 3_000, |bytes| {
            let Some((kind, body)) = bytes.get(HEAD_LEN - 1..).and_then(|rest| rest.split_first()) else { return };
            if let Ok(DaemonEvent::Message(message)) = DaemonEvent::decode(*kind, Bytes::copy_from_slice(body)) {
                assert!(message.groups().count() <= 1_000);
                assert!(message.payload().len() < bytes.len() && !message.sender_name().is_empty());
            }
        });
    }
}

#[test]
fn what_follows_an_event_inside_its_frame_is_refused() {
    for frame in every_event() {
        let kind = frame[HEAD_LEN - 1];
        let longer = [&frame[HEAD_LEN..], &[0]].concat();
        let decoded = DaemonEvent::decode(kind, longer.into());
        assert_eq!(decoded.is_ok(), [0x90, 0xa0].contains(&(kind & 0xf0)), "{decoded:?}");
    }
}

#[test]
fn a_hello_reads_back_and_no_mutation_panics() {
    let optimistic = Some(Undo::Any);
    let named = Hello {
        name: ClientName::new(b"bob"),
        wants_views: true,
        optimistic,
        only_asks: false,
        wants_positions: false,
        heartbeats: Some(Duration::from_millis(500)),
        slow: Some(SlowPolicy::Block.into()),
        token: Some("x".repeat(160)),
        session: 3,
        position: 4,
    };
    let asks = Hello { only_asks: true, ..Hello::default() };
    let asks_shown = Hello { token: Some("s1.a.b".into()), ..asks.clone() };
    let placed = Hello { wants_positions: true, ..Hello::default() };
    let beats = Hello { heartbeats: Some(Duration::from_millis(u64::from(u32::MAX))), ..Hello::default() };
    let latest = Hello { optimistic: Some(Undo::Latest), ..Hello::default() };
    let request = SlowRequest {
        policy: SlowPolicy::Spool,
        bytes: u64::MAX,
        time: Some(Duration::from_millis(u64::from(u32::MAX))),
    };
    let slow = Hello { slow: Some(request), ..Hello::default() };
    for hello in [named, asks, placed, beats, latest, slow, asks_shown, Hello::default()] {
        let frame = written(|out| hello.put(out));
        assert_eq!(Hello::decode(&frame[HEAD_LEN..]), Ok(hello));
        consort_wire::mutate::each(&frame[HEAD_LEN..], 5_000, |bytes| drop(Hello::decode(bytes)));
    }
}

#[test]
fn a_slow_policy_that_is_none_is_refused() {
    let good = written(|out| Hello { slow: Some(SlowPolicy::Block.into()), ..Hello::default() }.put(out));
    for policy in [0, 5, 255] {
        let mut frame = good.to_vec();
        let at = frame.len() - 13;
        frame[at] = policy;
        let refused = Hello::decode(&frame[HEAD_LEN..]);
        assert!(matches!(refused, Err(NotHello::Malformed(error)) if error.what == "slow policy"), "{refused:?}");
    }
    assert!(Hello::decode(&good[HEAD_LEN..good.len() - 1]).is_err());
}

#[test]
fn a_token_that_cannot_be_one_is_malformed_and_one_that_cannot_be_told_is_not() {
    let frame =
        |token: &str| written(|out| Hello { token: Some(token.to_owned()), ..Hello::default() }.put(out)).to_vec();
    let shown = frame("abc");
    assert_eq!(shown[HEAD_LEN..][shown.len() - HEAD_LEN - 4..], *b"\x03abc");
    let what = |bytes: &[u8]| match Hello::decode(&bytes[HEAD_LEN..]) {
        Err(NotHello::Malformed(error)) => error.what,
        other => panic!("{other:?}"),
    };
    let (mut empty, mut cut, mut odd) = (shown[..shown.len() - 3].to_vec(), shown.clone(), shown.clone());
    *empty.last_mut().unwrap() = 0;
    cut.pop();
    *odd.last_mut().unwrap() = 0xff;
    assert_eq!([what(&empty), what(&cut), what(&odd)], ["token"; 3]);
    let long = [&shown[..shown.len() - 4], &[161], &[b'x'; 161]].concat();
    assert_eq!(what(&long), "token");
    assert_eq!(Hello::decode(&frame("")[HEAD_LEN..]), Ok(Hello::default()));
    let cut = Hello::decode(&frame(&"x".repeat(161))[HEAD_LEN..]).unwrap();
    assert_eq!(cut.token, Some("x".repeat(160)));
}

#[test]
fn an_interval_that_is_none_is_refused_and_one_that_cannot_be_told_becomes_the_nearest() {
    let told = |interval| {
        let hello = Hello { heartbeats: Some(interval), ..Hello::default() };
        let frame = written(|out| hello.put(out));
        Hello::decode(&frame[HEAD_LEN..]).unwrap().heartbeats
    };
    assert_eq!(told(Duration::from_micros(1)), Some(Duration::from_millis(1)));
    assert_eq!(told(Duration::MAX), Some(Duration::from_millis(u64::from(u32::MAX))));
    let mut none =
        written(|out| Hello { heartbeats: Some(Duration::from_millis(1)), ..Hello::default() }.put(out)).to_vec();
    *none.last_mut().unwrap() = 0;
    let refused = Hello::decode(&none[HEAD_LEN..]);
    assert!(matches!(refused, Err(NotHello::Malformed(error)) if error.what == "heartbeat interval"), "{refused:?}");
    assert!(Hello::decode(&none[HEAD_LEN..none.len() - 4]).is_err(), "the interval is missing");
    let asks = Hello { only_asks: true, heartbeats: Some(Duration::from_millis(1)), ..Hello::default() };
    let frame = written(|out| asks.put(out));
    assert_eq!(Hello::decode(&frame[HEAD_LEN..]).unwrap().heartbeats, None);
}

#[test]
fn the_lengths_that_credit_counts_are_the_lengths_of_the_frames() {
    let groups: Vec<_> = ["a", "orders"].map(|name| GroupName::new(name.as_bytes()).unwrap()).into();
    let multicast = written(|out| request::put_multicast(out, Service::Fifo, &groups, b"payload"));
    assert_eq!(multicast.len(), request::multicast_len(&groups, 7));
    let join = written(|out| request::put_join(out, &groups[1], false));
    assert_eq!(join.len(), request::membership_len(&groups[1]));
}

#[test]
fn a_text_too_long_for_its_frame_is_cut_between_characters() {
    let farewell = Disconnect::new(DisconnectReason::Malformed, "ä".repeat(40_000));
    let frame = written(|out| event::put_disconnect(out, &farewell));
    assert!(matches!(read(&frame), DaemonEvent::Disconnect(farewell) if farewell.text == "ä".repeat(32_767)));
}

#[test]
fn every_checkpoint_reads_back_and_no_mutation_panics() {
    let holder = |name: &str| name.parse::<consort_types::Holder>().unwrap();
    let (some, first) = (Some(Position(9)), Some(Position(1)));
    for (order, from, name, epoch) in
        [(7, some, "ledger/2", 0), (0, None, "x", 0), (u64::MAX, first, "a/b", 0), (7, some, "ledger/2", u64::MAX)]
    {
        let request = crate::DeclareRequest { order, holder: holder(name), from, epoch };
        let frame = written(|out| request.put(out));
        let head = |len: usize| Head { kind: frame[HEAD_LEN - 1], len: HEAD_LEN + len };
        let decode = |body: &[u8]| request::decode(head(body.len()), &Bytes::copy_from_slice(body).into());
        assert_eq!(decode(&frame[HEAD_LEN..]), Ok(request::Request::Declare(request.clone())));
        consort_wire::mutate::each(&frame[HEAD_LEN..], 2_000, |bytes| drop(decode(bytes)));
    }
    let causes = crate::DeclareRefusalCause::ALL
        .iter()
        .map(|cause| Some(crate::DeclareRefusal { cause: *cause, text: "what to do".into() }));
    for refused in causes.chain([None]) {
        let status = crate::DeclareStatus { holder: holder("ledger/2"), refused };
        let frame = written(|out| status.put(out));
        assert_eq!(read(&frame), DaemonEvent::Declared(status));
        consort_wire::mutate::each(&frame[HEAD_LEN..], 2_000, |bytes| {
            drop(DaemonEvent::decode(frame[HEAD_LEN - 1], Bytes::copy_from_slice(bytes)));
        });
    }
}

fn decode_request(frame: &[u8]) -> Result<request::Request, consort_wire::Malformed> {
    let head = Head { kind: frame[HEAD_LEN - 1], len: frame.len() };
    request::decode(head, &Bytes::copy_from_slice(&frame[HEAD_LEN..]).into())
}

#[test]
fn every_binding_reads_back_and_no_mutation_panics() {
    let holder = |name: &str| name.parse::<consort_types::Holder>().unwrap();
    let (replaces, from) = (u64::MAX, Position(3));
    let binding = |token, label: &str| consort_types::Binding {
        order: 7,
        holder: holder("store/2"),
        token,
        replaces,
        from,
        copies: 3,
        label: label.into(),
    };
    let longest = "ä".repeat(64);
    for label in ["", "s1 at 10.0.0.1", &longest] {
        let frame = written(|out| crate::copies::put_bind(&binding(u128::MAX - 9, label), out));
        assert!(frame.len() <= HEAD_LEN + request::BODY_MAX);
        assert_eq!(decode_request(&frame), Ok(request::Request::Bind(binding(u128::MAX - 9, label))));
        consort_wire::mutate::each(&frame, 2_000, |bytes| {
            drop((bytes.len() > HEAD_LEN).then(|| decode_request(bytes)))
        });
    }
    let cut = written(|out| crate::copies::put_bind(&binding(1, &format!("x{longest}")), out));
    let expected = binding(1, &format!("x{}", "ä".repeat(63)));
    assert_eq!(decode_request(&cut), Ok(request::Request::Bind(expected)), "what is too long is cut between letters");
    let no_token = written(|out| crate::copies::put_bind(&binding(0, ""), out));
    assert_eq!(decode_request(&no_token).unwrap_err().what, "binding");
    let question = written(|out| crate::copies::put_ask_copies(&holder("store/1"), out));
    assert_eq!(decode_request(&question), Ok(request::Request::Copies(holder("store/1"))));
    let causes = crate::BindRefusalCause::ALL.iter();
    let refusals = causes.map(|cause| Err(crate::BindRefusal { cause: *cause, text: "what to do".into() }));
    for outcome in refusals.chain([Ok(9), Ok(u64::MAX)]) {
        let bound = crate::Bound { holder: holder("store/2"), token: u128::MAX, outcome };
        let frame = written(|out| bound.put(out));
        assert_eq!(read(&frame), DaemonEvent::Bound(bound));
        consort_wire::mutate::each(&frame[HEAD_LEN..], 2_000, |bytes| {
            drop(DaemonEvent::decode(frame[HEAD_LEN - 1], Bytes::copy_from_slice(bytes)));
        });
    }
}

#[test]
fn every_table_of_copies_reads_back_and_no_mutation_panics() {
    let holder = |name: &str| name.parse::<consort_types::Holder>().unwrap();
    let seat = |name, epoch, token, from, label: &str| consort_types::Seat {
        holder: holder(name),
        epoch,
        token,
        from: Position(from),
        label: label.into(),
    };
    let none = consort_types::Copies::unsupported(holder("store"));
    let some = consort_types::Copies {
        order: 7,
        lasts: true,
        copies: 3,
        began: Position(1),
        first: Position(2),
        last: Position(900),
        held: 1 << 40,
        budget: 1 << 41,
        voters: 5,
        seats: vec![seat("store/1", 9, u128::MAX, 7, "s1 at 10.0.0.1"), seat("store/2", 11, 0, 0, "")],
        ..none.clone()
    };
    for copies in [none, some] {
        let frame = written(|out| crate::copies::put_copies(&copies, out));
        assert_eq!(read(&frame), DaemonEvent::Copies(copies));
        consort_wire::mutate::each(&frame[HEAD_LEN..], 2_000, |bytes| {
            drop(DaemonEvent::decode(frame[HEAD_LEN - 1], Bytes::copy_from_slice(bytes)));
        });
    }
}

#[test]
fn what_became_of_a_key_reads_back_and_no_mutation_panics() {
    let frame = written(crate::keys::put_rotate);
    let head = Head { kind: frame[HEAD_LEN - 1], len: HEAD_LEN };
    assert_eq!(request::decode(head, &Bytes::new().into()), Ok(request::Request::Rotate));
    assert!(request::decode(head, &Bytes::from_static(b"x").into()).is_err());
    let causes = crate::RotationRefusalCause::ALL
        .iter()
        .map(|cause| Some(crate::RotationRefusal { cause: *cause, text: "n2 lacks it".into() }));
    for refused in causes.chain([None]) {
        let status = crate::RotationStatus { epoch: 2, refused };
        let frame = written(|out| status.put(out));
        assert_eq!(read(&frame), DaemonEvent::Rotated(status));
        consort_wire::mutate::each(&frame[HEAD_LEN..], 2_000, |bytes| {
            drop(DaemonEvent::decode(frame[HEAD_LEN - 1], Bytes::copy_from_slice(bytes)));
        });
    }
    let odd = [10, 0, 2, 0, 0];
    assert!(DaemonEvent::decode(0xe9, Bytes::copy_from_slice(&odd)).is_err());
}

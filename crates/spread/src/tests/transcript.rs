//! A session as it was captured between Spread's own library and daemon, byte for byte. Only the group view's name, which
//! every system makes in its own way, is not compared.
use super::*;
use crate::messages::{MembershipMessage, put_view};
use consort_group::ChangeCause;

const CONNECT: &str = "05 00 01 | 01 | 05 | 61 6c 69 63 65";
const METHODS: &str = "05 | 4e 55 4c 4c 20";
const CHOICE: &str = "4e 55 4c 4c x86";
const ACCEPTED: &str = "01 05 00 01 | 09 | 23 61 6c 69 63 65 23 64 31";
const JOIN: &str = "80 00 01 80 | 23 61 6c 69 63 65 23 64 31 x23 | 01 00 00 00 | 80 00 00 80 | 00 00 00 00
    72 6f 6f 6d x28";
const VIEW_FRONT: &str = "80 11 00 80 | 72 6f 6f 6d x28 | 01 00 00 00 | 80 00 00 80 | 38 00 00 00
    23 61 6c 69 63 65 23 64 31 x23";
const VIEW_BACK: &str = "01 00 00 00 | 00 00 00 00 | 01 00 00 00 | 23 61 6c 69 63 65 23 64 31 x23";
const MESSAGE: &str = "90 00 00 80 | 23 61 6c 69 63 65 23 64 31 x23 | 01 00 00 00 | 80 34 12 80 | 05 00 00 00
    72 6f 6f 6d x28 | 68 65 6c 6c 6f";
const LEAVE: &str = "80 00 02 80 | 23 61 6c 69 63 65 23 64 31 x23 | 01 00 00 00 | 80 00 00 80 | 00 00 00 00
    72 6f 6f 6d x28";
const SELF_LEAVE: &str = "80 02 00 80 | 72 6f 6f 6d x28 | 00 00 00 00 | 80 00 00 80 | 00 00 00 00";
// Behind the zero of the name stands whatever stood in the client's memory.
const KILL: &str = "80 00 04 80 | 23 61 6c 69 63 65 23 64 31 x23 | 01 00 00 00 | 80 00 00 80 | 00 00 00 00
    23 61 6c 69 63 65 23 64 31 00 | 01 64 00 00 00 00 07 71 32 83 40 56 00 00 8c 55 cb 2a c6 7f 00 00";

/// All that the client said, as one stream.
fn said() -> Vec<u8> {
    [CONNECT, CHOICE, JOIN, MESSAGE, LEAVE, KILL].map(hex).concat()
}

/// Plays the daemon: lets the client in, carries out what it asks, and returns what it was told, request by request.
fn play(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut session = SpreadSession::new();
    let mut told = Vec::new();
    for piece in pieces {
        session.feed(Bytes::copy_from_slice(piece));
        while let Some(ask) = session.ask().unwrap() {
            carry_out(&mut session, ask);
            told.push(read(&mut session));
        }
    }
    told
}

fn carry_out(session: &mut SpreadSession, ask: SpreadRequest) {
    let alice = [member(1, 1, "alice")];
    match ask {
        SpreadRequest::Name(name) => session.name(&format!("#{}#d1", name.unwrap())),
        SpreadRequest::Entered | SpreadRequest::GivenBack => {}
        SpreadRequest::Join(group) => {
            session.accept();
            session.order(false);
            let (cause, id) = (ChangeCause::Join, view_id(1, 0));
            let (members, sets, me) = (&alice[..], &[0][..], alice[0].daemon);
            let mut view = BytesMut::new();
            put_view(&mut view, &MembershipMessage { group: &group, id, cause, members, sets, who: &alice, me });
            session.tell_membership(&view.freeze());
        }
        SpreadRequest::Leave(group) => {
            session.accept();
            session.order(false);
            session.tell_self_leave(&group);
        }
        SpreadRequest::Multicast { .. } => {
            session.accept();
            session.order(false);
            echo(session, "#alice#d1", &ask, true);
        }
        SpreadRequest::Kill => session.close(false),
    }
}

fn check(told: &[Vec<u8>]) {
    let [name, entered, joined, message, left, killed] = told else { panic!("{} requests", told.len()) };
    assert_eq!((name, entered), (&hex(METHODS), &hex(ACCEPTED)));
    let (front, back) = (hex(VIEW_FRONT), hex(VIEW_BACK));
    assert_eq!(joined.len(), 136);
    // The members are called after this project's daemons.
    let daemon = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("#alice#n1", "#alice#d1").into_bytes();
    assert_eq!(daemon(&joined[4..front.len()]), daemon(&front[4..]));
    assert_eq!(joined[..4], front[..4]);
    assert_eq!(daemon(&joined[front.len() + 12..]), back);
    assert_eq!((message, left, killed), (&hex(MESSAGE), &hex(SELF_LEAVE), &Vec::new()));
}

#[test]
fn a_captured_session_is_answered_byte_for_byte() {
    //= S01 test
    //= S05 test
    //= S30 test
    //= S35 test
    check(&play(&[CONNECT, CHOICE, JOIN, MESSAGE, LEAVE, KILL].map(hex).iter().map(Vec::as_slice).collect::<Vec<_>>()));
}

#[test]
fn however_the_stream_is_cut_the_answers_are_the_same() {
    //= S02 test
    let said = said();
    check(&play(&[&said]));
    check(&play(&said.chunks(1).collect::<Vec<_>>()));
    for cut in 1..said.len() {
        let (front, back) = said.split_at(cut);
        check(&play(&[front, back]));
    }
}

#[test]
fn a_message_of_a_big_endian_client_keeps_its_hint_and_gets_our_order() {
    //= S10 test
    //= S11 test
    let mut session = open("alice");
    session.feed(
        hex("00 00 00 10 | 23 61 6c 69 63 65 23 64 31 x23 | 00 00 00 01 | 00 12 34 00 | 00 00 00 05
            72 6f 6f 6d x28 | 68 65 6c 6c 6f")
        .into(),
    );
    let ask = session.ask().unwrap().unwrap();
    echo(&mut session, "#alice#d1", &ask, true);
    let wanted = "90 00 00 80 | 23 61 6c 69 63 65 23 64 31 x23 | 01 00 00 00 | 00 12 34 00 | 05 00 00 00
        72 6f 6f 6d x28 | 68 65 6c 6c 6f";
    assert_eq!(read(&mut session), hex(wanted));
}

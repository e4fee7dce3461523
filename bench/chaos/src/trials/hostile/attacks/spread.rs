//! Handshakes and requests of a client of Spread. All of a handshake is said at once, because a daemon reads what comes ahead
//! of its turn.
use bytes::{BufMut, BytesMut};
use consort::GroupName;
use consort_spread::header::{self, NO_HINT};
use consort_spread::hello::CHOICE_LEN;
use consort_spread::request::BODY_MAX;
use consort_spread::{GROUPS_MAX, kind, name_field};

use super::super::ATTACKED;
use super::{Attack, CROWD, Door, Frame, Kind, Source, any_of, nothing};

/// The version of the library, and that it wants to read of the members of groups: that costs a daemon most.
const HELLO: [u8; 4] = [5, 0, 1, 1];
const METHOD: &[u8] = b"NULL";
/// One byte more than a name may have.
const LONG_NAME: &[u8] = b"elevenbytes";
const LEVELS: [u32; 6] = [kind::UNRELIABLE, kind::RELIABLE, kind::FIFO, kind::CAUSAL, kind::AGREED, kind::SAFE];
/// The data of a message that comes back.
const LARGE: usize = 60_000;

const fn attack(name: &'static str, kind: Kind, front: Frame, frame: Frame) -> Attack {
    Attack { name, door: Door::Spread, kind, front, frame }
}

const fn requests(name: &'static str, frame: Frame) -> Attack {
    attack(name, Kind::Requests, handshake, frame)
}

pub static ATTACKS: &[Attack] = &[
    requests("Spread: joins and leaves", joins_and_leaves),
    requests("Spread: joins of new groups", joins_of_new_groups),
    requests("Spread: joins of known groups", joins_of_known_groups),
    requests("Spread: leaves of other groups", leaves_of_other_groups),
    requests("Spread: joins that come back", joins_that_come_back),
    requests("Spread: multicasts to many groups", multicasts_to_many_groups),
    requests("Spread: multicasts to no client", multicasts_to_no_client),
    requests("Spread: multicasts to no group", multicasts_to_no_group),
    requests("Spread: messages that come back", messages_that_come_back),
    attack("Spread: handshakes", Kind::Ends, handshake, kills),
    attack("Spread: refused handshakes", Kind::Ends, hello_with_a_long_name, nothing),
    attack("Spread: wrong frames", Kind::Ends, handshake, wrong_frames),
    attack("Spread: half a handshake", Kind::Unfinished, half_a_handshake, nothing),
    attack("Spread: unfinished messages", Kind::Unfinished, handshake, unfinished),
    attack("Spread: half a hello", Kind::Silent, half_a_hello, nothing),
    attack("Spread: silent connections", Kind::Silent, nothing, nothing),
    attack("Spread: all in any order", Kind::Mixed, handshake, mixed),
];

impl Source<'_> {
    /// What the client is called, as no other connection is.
    fn user(&self) -> String {
        format!("h{:09x}", self.own >> 28)
    }

    /// What its requests must say that they come from.
    fn private(&self) -> String {
        format!("#{}#n{}", self.user(), ATTACKED + 1)
    }

    fn level(&mut self) -> u32 {
        LEVELS[self.next_number() as usize % LEVELS.len()]
    }
}

/// Appends a request, but for its data.
fn put(out: &mut BytesMut, source: &Source<'_>, kind: u32, names: &[&[u8]], data: usize) {
    header::put(out, kind, source.private().as_bytes(), names.len(), NO_HINT, data);
    names.iter().for_each(|name| name_field::put(name, out));
}

fn put_hello(out: &mut BytesMut, name: &[u8]) {
    out.put_slice(&HELLO);
    out.put_u8(name.len() as u8);
    out.put_slice(name);
}

fn handshake(source: &mut Source<'_>, out: &mut BytesMut) {
    put_hello(out, source.user().as_bytes());
    out.put_slice(METHOD);
    out.put_bytes(0, CHOICE_LEN - METHOD.len());
}

/// Without the second half of the choice.
fn half_a_handshake(source: &mut Source<'_>, out: &mut BytesMut) {
    handshake(source, out);
    out.truncate(out.len() - CHOICE_LEN / 2);
}

fn half_a_hello(source: &mut Source<'_>, out: &mut BytesMut) {
    let name = source.user();
    put_hello(out, name.as_bytes());
    out.truncate(out.len() - name.len() / 2);
}

fn hello_with_a_long_name(_: &mut Source<'_>, out: &mut BytesMut) {
    put_hello(out, LONG_NAME);
}

fn kills(source: &mut Source<'_>, out: &mut BytesMut) {
    put(out, source, kind::KILL, &[source.private().as_bytes()], 0);
}

/// A request for two things at once.
fn wrong_frames(source: &mut Source<'_>, out: &mut BytesMut) {
    put(out, source, kind::JOIN | kind::LEAVE, &[CROWD.as_bytes()], 0);
}

fn joins_and_leaves(source: &mut Source<'_>, out: &mut BytesMut) {
    let name = source.new_short_name();
    put(out, source, kind::JOIN, &[name.as_bytes()], 0);
    put(out, source, kind::LEAVE, &[name.as_bytes()], 0);
}

fn joins_of_new_groups(source: &mut Source<'_>, out: &mut BytesMut) {
    let name = source.new_short_name();
    put(out, source, kind::JOIN, &[name.as_bytes()], 0);
}

/// One of the existing groups, each in its turn.
fn known<'a>(source: &mut Source<'a>) -> Option<&'a GroupName> {
    let names = source.short_names();
    names.get(source.next_number() as usize % names.len().max(1))
}

fn joins_of_known_groups(source: &mut Source<'_>, out: &mut BytesMut) {
    if let Some(name) = known(source) {
        put(out, source, kind::JOIN, &[name.as_bytes()], 0);
    }
}

fn leaves_of_other_groups(source: &mut Source<'_>, out: &mut BytesMut) {
    if let Some(name) = known(source) {
        put(out, source, kind::LEAVE, &[name.as_bytes()], 0);
    }
}

/// No group has a name with a space in it.
fn joins_that_come_back(source: &mut Source<'_>, out: &mut BytesMut) {
    put(out, source, kind::JOIN, &["a b".as_bytes()], 0);
}

fn multicasts_to_many_groups(source: &mut Source<'_>, out: &mut BytesMut) {
    let (level, known) = (source.level(), source.short_names());
    let count = GROUPS_MAX.min(known.len());
    let from = source.rng.below((known.len() - count + 1) as u64) as usize;
    let names: Vec<_> = known[from..from + count].iter().map(GroupName::as_bytes).collect();
    put(out, source, level, &names, 0);
}

fn multicasts_to_no_client(source: &mut Source<'_>, out: &mut BytesMut) {
    let level = source.level();
    put(out, source, level, &["#none#n1".as_bytes()], 0);
}

/// A daemon takes a message to names without a byte, and has nothing to order.
fn multicasts_to_no_group(source: &mut Source<'_>, out: &mut BytesMut) {
    let level = source.level();
    put(out, source, level, &["".as_bytes(); GROUPS_MAX], 0);
}

/// A daemon gives back all of a message whose name cannot be printed.
fn messages_that_come_back(source: &mut Source<'_>, out: &mut BytesMut) {
    let level = source.level();
    put(out, source, level, &["\u{7f}".as_bytes()], LARGE);
    out.put_bytes(0, LARGE);
}

/// A message as large as it may be, without its last byte.
fn unfinished(source: &mut Source<'_>, out: &mut BytesMut) {
    let private = source.private();
    source.leave_unfinished(out, |out| {
        let data = BODY_MAX - name_field::LEN;
        header::put(out, kind::AGREED, private.as_bytes(), 1, NO_HINT, data);
        name_field::put(CROWD.as_bytes(), out);
        data - 1
    });
}

fn mixed(source: &mut Source<'_>, out: &mut BytesMut) {
    any_of(ATTACKS, source, out);
}

#[cfg(test)]
mod tests {
    use super::super::{ROOM, existing};
    use super::*;
    use consort_spread::{SpreadRequest, SpreadSession};
    use consort_types::Rng;

    /// How many requests a daemon's end of the connection reads that are to be ordered, and whether the session ends then.
    fn asked(session: &mut SpreadSession) -> (usize, bool) {
        let mut count = 0;
        loop {
            match session.ask() {
                Ok(Some(SpreadRequest::Name(Some(name)))) => session.name(&format!("#{name}#n{}", ATTACKED + 1)),
                Ok(Some(SpreadRequest::Name(None) | SpreadRequest::Entered)) => {}
                Ok(Some(SpreadRequest::Kill)) | Err(_) => return (count, true),
                Ok(Some(_)) => {
                    session.accept();
                    session.order(false);
                    count += 1;
                }
                Ok(None) => return (count, false),
            }
        }
    }

    #[test]
    fn each_attack_fills_its_room_with_whole_requests_that_a_daemon_reads() {
        let names = existing(2_000).unwrap();
        for attack in ATTACKS {
            let mut source = Source::new(Rng::new(1), &names);
            let (mut out, mut session) = (attack.opening(&mut source), SpreadSession::new());
            let front = out.len();
            attack.fill(&mut source, &mut out);
            let name = attack.name;
            assert!(out.len() <= ROOM, "{name}: {}", out.len());
            session.feed(out.clone().freeze());
            let (count, has_ended) = asked(&mut session);
            let held = session.input_held();
            match attack.kind {
                Kind::Silent => assert!(!has_ended && session.is_silent() && out.len() < 16, "{name}"),
                Kind::Unfinished => assert!(!has_ended && count == 0 && held > 0, "{name}"),
                Kind::Ends => assert!(has_ended && count == 0, "{name}"),
                _ => {
                    assert!(out.len() > front + 100 && !has_ended && session.is_open(), "{name}: {}", out.len());
                    let is_taken = count > 0 || session.refused() > 0 || name.ends_with("to no group");
                    assert!(held == 0 && is_taken, "{name}: {held} bytes are not read");
                }
            }
        }
    }

    #[test]
    fn half_a_handshake_gets_as_far_as_the_choice_of_a_method() {
        let mut source = Source::new(Rng::new(1), &[]);
        let (mut out, mut session) = (BytesMut::new(), SpreadSession::new());
        half_a_handshake(&mut source, &mut out);
        session.feed(out.freeze());
        assert_eq!(asked(&mut session), (0, false));
        assert_eq!((session.private(), session.is_silent()), (&source.private()[..], true));
        assert!(source.user().len() <= 10 && source.private().len() <= name_field::MAX);
    }
}

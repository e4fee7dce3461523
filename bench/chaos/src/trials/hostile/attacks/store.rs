//! Requests of RESP2 to a server of a store.
use bytes::{BufMut, BytesMut};
use consort_kv::limits::{KEY_MAX, PATTERN_MAX, RANGE_MAX, REQUEST_MAX};
use consort_kv::resp::put_request;

use super::{Attack, Door, Frame, Kind, Source, any_of, nothing};

/// A large value, and how many keys have one.
static VALUE: [u8; 64 << 10] = [b'v'; 64 << 10];
const LARGE_KEYS: u64 = 16;
/// The keys that are as long as a key may be.
const LONG_KEYS: u64 = 128;
/// The keys of one request, and the words of one line.
const MANY: usize = 4_000;
const WORDS: usize = 8_000;

const fn attack(name: &'static str, kind: Kind, frame: Frame) -> Attack {
    Attack { name, door: Door::Store, kind, front: nothing, frame }
}

const fn requests(name: &'static str, frame: Frame) -> Attack {
    attack(name, Kind::Requests, frame)
}

pub static ATTACKS: &[Attack] = &[
    requests("store: new keys", new_keys),
    requests("store: large values", large_values),
    requests("store: reads of large values", reads_of_large_values),
    requests("store: reads of many keys", |source, out| many_keys("MGET", source, out)),
    requests("store: deletes of many keys", |source, out| many_keys("DEL", source, out)),
    requests("store: scans", scans),
    requests("store: ranges of all keys", |_, out| put_request(out, &["KV.RANGE", "", ""])),
    requests("store: counts of all keys", |_, out| put_request(out, &["DBSIZE"])),
    requests("store: information", |_, out| put_request(out, &["INFO"])),
    requests("store: pings", |_, out| put_request(out, &["PING"])),
    requests("store: inline commands", inline),
    requests("store: commands that are not served", not_served),
    attack("store: no commands", Kind::Ends, malformed),
    attack("store: answers that are not read", Kind::Deaf, reads_of_large_values),
    attack("store: unfinished requests", Kind::Unfinished, unfinished),
    attack("store: silent connections", Kind::Silent, nothing),
    attack("store: all in any order", Kind::Mixed, mixed),
];

fn large_key(number: u64) -> String {
    format!("large:{}", number % LARGE_KEYS)
}

/// What the store is to have before the attacks: the large values, and long keys that patterns nearly fit.
pub fn stored() -> impl Iterator<Item = (String, &'static [u8])> {
    let large = (0..LARGE_KEYS).map(|number| (large_key(number), &VALUE[..]));
    let long = (0..LONG_KEYS).map(|number| (format!("{}{number:0>8}", "a".repeat(KEY_MAX - 8)), &VALUE[..0]));
    large.chain(long)
}

fn new_keys(source: &mut Source<'_>, out: &mut BytesMut) {
    put_request(out, &["SET", &source.new_name(), "x"]);
}

fn large_values(source: &mut Source<'_>, out: &mut BytesMut) {
    let key = large_key(source.next_number());
    put_request(out, &["SET".as_bytes(), key.as_bytes(), &VALUE[..]]);
}

fn reads_of_large_values(source: &mut Source<'_>, out: &mut BytesMut) {
    put_request(out, &["GET", &large_key(source.next_number())]);
}

fn many_keys(command: &str, source: &mut Source<'_>, out: &mut BytesMut) {
    let mut words = vec![command.to_owned()];
    words.extend((0..MANY).map(|_| format!("k{:0>6}", source.next_number())));
    put_request(out, &words);
}

/// Patterns that fit no key, and take as long as any to say so of the long ones.
fn scans(source: &mut Source<'_>, out: &mut BytesMut) {
    let pattern = match source.next_number().is_multiple_of(2) {
        true => "a*".repeat(PATTERN_MAX / 2 - 1) + "b",
        // Wherever the star ends, the rest fits but for its last byte.
        false => format!("*{}b", "a".repeat(PATTERN_MAX - 2)),
    };
    put_request(out, &["SCAN", "0", "MATCH", &pattern, "COUNT", &RANGE_MAX.to_string()]);
}

/// A line of many words.
fn inline(_: &mut Source<'_>, out: &mut BytesMut) {
    out.put_slice(b"EXISTS");
    out.put_slice(&b" x".repeat(WORDS));
    out.put_slice(b"\r\n");
}

fn not_served(source: &mut Source<'_>, out: &mut BytesMut) {
    match source.next_number().is_multiple_of(2) {
        true => put_request(out, &["KEYS", "a*a*a*b"]),
        false => many_keys("MSET", source, out),
    }
}

/// More words, or a longer one, than a command may have.
fn malformed(source: &mut Source<'_>, out: &mut BytesMut) {
    let all: [&[u8]; 2] = [b"*1000000\r\n", b"*1\r\n$536870912\r\n"];
    out.put_slice(all[source.rng.below(all.len() as u64) as usize]);
}

/// A value that is larger than any may be, which shows only once it is whole; its last byte never comes.
fn unfinished(source: &mut Source<'_>, out: &mut BytesMut) {
    source.leave_unfinished(out, |out| {
        let value = REQUEST_MAX - "SETx".len();
        out.put_slice(format!("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n${value}\r\n").as_bytes());
        value - 1
    });
}

fn mixed(source: &mut Source<'_>, out: &mut BytesMut) {
    any_of(ATTACKS, source, out);
}

#[cfg(test)]
mod tests {
    use super::super::ROOM;
    use super::*;
    use bytes::Bytes;
    use consort_kv::request::request;
    use consort_kv::resp::{Decoder, ProtocolError};
    use consort_types::Rng;

    /// The commands that a server reads, up to what is none.
    fn decoded(input: &mut BytesMut) -> (Vec<Vec<Bytes>>, Option<ProtocolError>) {
        let (mut decoder, mut commands) = (Decoder::default(), Vec::new());
        loop {
            match decoder.next(input) {
                Ok(Some(words)) => commands.push(words),
                Ok(None) => return (commands, None),
                Err(error) => return (commands, Some(error)),
            }
        }
    }

    #[test]
    fn each_attack_fills_its_room_with_whole_commands_that_a_server_reads() {
        for attack in ATTACKS {
            let mut source = Source::new(Rng::new(1), &[]);
            let mut out = attack.opening(&mut source);
            attack.fill(&mut source, &mut out);
            let (name, len) = (attack.name, out.len());
            // A large value does not fit by itself.
            assert!(len < ROOM + 100, "{name}: {len}");
            let (commands, error) = decoded(&mut out);
            match attack.kind {
                Kind::Silent => assert_eq!(len, 0, "{name}"),
                Kind::Unfinished => assert!(len == ROOM && error.is_none() && commands.is_empty() && !out.is_empty()),
                Kind::Ends => assert!(len > ROOM - 100 && error.is_some() && commands.is_empty(), "{name}"),
                _ => {
                    assert!(error.is_none() && out.is_empty() && !commands.is_empty(), "{name}: {error:?}");
                    let serves = commands.iter().all(|words| request(words).is_ok());
                    assert!(serves || name.ends_with("not served") || attack.kind == Kind::Mixed, "{name}");
                }
            }
        }
    }

    #[test]
    fn what_the_store_is_to_have_is_taken() {
        for (key, value) in stored() {
            let words = ["SET".as_bytes(), key.as_bytes(), value].map(Bytes::copy_from_slice);
            assert!(request(&words).is_ok(), "{}", key.len());
        }
        assert_eq!(stored().count() as u64, LARGE_KEYS + LONG_KEYS);
    }
}

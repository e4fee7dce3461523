//! Bytes of chance.
use super::client::Client;
use super::*;
use consort_types::Rng;

/// A whole session in one stream.
fn good() -> Vec<u8> {
    let client = Client::new("#alice#d1");
    let mut big = Client::new("#alice#d1");
    big.little = false;
    [
        hello("alice").to_vec(),
        choice().to_vec(),
        client.frame(0x1_0000, &["room"], 0, b""),
        client.frame(0x10, &["room", "#bob#n2"], 7, b"hello"),
        big.frame(0x60, &["room"], 7, b"hello"),
        client.frame(0x2_0000, &["room"], 0, b""),
        client.frame(0x4_0000, &["#alice#d1"], 0, b""),
    ]
    .concat()
}

/// Feeds a stream in pieces and answers as a daemon would; returns what the client was told.
fn play(rng: &mut Rng, mut bytes: &[u8]) -> Vec<u8> {
    let mut session = SpreadSession::new();
    let mut told = Vec::new();
    while !bytes.is_empty() && !session.is_closed() {
        let (piece, rest) = bytes.split_at(rng.between(1, bytes.len() as u64) as usize);
        bytes = rest;
        session.feed(Bytes::copy_from_slice(piece));
        loop {
            match session.ask() {
                Ok(Some(SpreadRequest::Name(_))) => session.name("#alice#d1"),
                Ok(Some(SpreadRequest::Entered)) => {}
                Ok(Some(SpreadRequest::Kill)) | Err(_) => session.close(false),
                Ok(Some(ask)) => {
                    session.accept();
                    session.order(rng.below(4) == 0);
                    if matches!(ask, SpreadRequest::Multicast { .. }) {
                        echo(&mut session, "#alice#d1", &ask, true);
                    }
                }
                Ok(None) => break,
            }
        }
        told.extend(read(&mut session));
        assert_eq!(session.outstanding(), 0);
    }
    told
}

#[test]
fn ten_thousand_mutated_streams_neither_panic_nor_stall() {
    let mut rng = Rng::new(4803);
    consort_wire::mutate::each(&good(), 10_000, |bytes| drop(play(&mut rng, bytes)));
}

#[test]
fn ten_thousand_streams_of_chance_neither_panic_nor_stall() {
    let mut rng = Rng::new(7);
    for _ in 0..10_000 {
        let bytes: Vec<u8> = (0..rng.below(400)).map(|_| rng.next_u64() as u8).collect();
        play(&mut rng, &bytes);
    }
}

#[test]
fn whatever_a_client_says_after_its_handshake_others_can_read() {
    let mut rng = Rng::new(8);
    let (front, back) = (hello("alice").len() + 90, good());
    let client = Client::new("#alice#d1");
    consort_wire::mutate::each(&back[front..], 5_000, |bytes| {
        let told = play(&mut rng, &[&back[..front], bytes].concat());
        let handshake = b"\x05NULL \x01\x05\x00\x01\x09#alice#d1";
        client.read(&told[handshake.len()..]);
    });
}

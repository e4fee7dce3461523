use super::*;

fn words(words: &[&str]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

/// All commands of what comes in these pieces, and what is wrong behind them.
fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<Bytes>>, Option<ProtocolError>) {
    let (mut decoder, mut input, mut all) = (Decoder::default(), BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match decoder.next(&mut input) {
                Ok(Some(words)) => all.push(words),
                Ok(None) => break,
                Err(error) => return (all, Some(error)),
            }
        }
    }
    (all, None)
}

const STREAM: &[u8] = b"*2\r\n$3\r\nGET\r\n$3\r\ntea\r\n*0\r\n*-1\r\n\r\nPING  now\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\nping\n*1\r\n$4\r\nQUIT\r\n";

fn stream() -> Vec<Vec<Bytes>> {
    vec![
        words(&["GET", "tea"]),
        words(&["PING", "now"]),
        words(&["SET", "", "\r\n\r\n"]),
        words(&["ping"]),
        words(&["QUIT"]),
    ]
}

#[test]
fn commands_are_the_same_wherever_the_stream_is_cut() {
    assert_eq!(decoded([STREAM]), (stream(), None));
    for at in 0..STREAM.len() {
        let (first, rest) = STREAM.split_at(at);
        assert_eq!(decoded([first, rest]), (stream(), None), "cut at {at}");
    }
    assert_eq!(decoded(STREAM.chunks(1)), (stream(), None));
}

#[test]
fn what_is_no_command_is_told_as_what_it_is() {
    let wrong = |bytes: &[u8]| decoded([bytes]).1;
    assert_eq!(wrong(b"*x\r\n"), Some(ProtocolError::Words));
    assert_eq!(wrong(b"*16385\r\n"), Some(ProtocolError::Words));
    assert_eq!(wrong(b"*99999999999999999999\r\n"), Some(ProtocolError::Words));
    assert_eq!(wrong(b"*1\r\n+OK\r\n"), Some(ProtocolError::Dollar('+')));
    assert_eq!(wrong(b"*1\r\n$-1\r\n"), Some(ProtocolError::Word));
    assert_eq!(wrong(b"*1\r\n$\r\n"), Some(ProtocolError::Word));
    assert_eq!(wrong(b"*1\r\n$4194305\r\n"), Some(ProtocolError::Word));
    assert_eq!(wrong(b"*2\r\n$3\r\nGET\r\n$4194302\r\n"), Some(ProtocolError::Word), "together");
    assert_eq!(wrong(b"*1\r\n$4\r\nPINGS\r\n"), Some(ProtocolError::End));
    assert_eq!(wrong(&vec![b'x'; LINE_MAX + 1]), Some(ProtocolError::Line));
    assert_eq!(wrong(&[&vec![b'x'; LINE_MAX + 1][..], b"\r\n"].concat()), Some(ProtocolError::Line));
    assert_eq!(wrong(&b"x ".repeat(WORDS_MAX + 1)[..]), None, "not whole yet");
    let told = ProtocolError::Dollar('+').to_string();
    assert_eq!(told, "expected '$', got '+'");
}

#[test]
fn garbage_is_commands_or_an_error_and_never_more_than_came() {
    let mut held = 1_u64;
    let mut chance = || {
        held = held.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        held >> 33
    };
    for _ in 0..20_000 {
        let mut bytes = STREAM.to_vec();
        for _ in 0..=chance() % 4 {
            let at = chance() as usize % bytes.len();
            bytes[at] = b"\r\n*$0123456789-x\xff"[chance() as usize % 17];
        }
        let cut = chance() as usize % bytes.len();
        let (whole, parts) = (decoded([&bytes[..]]), decoded([&bytes[..cut], &bytes[cut..]]));
        assert_eq!(whole, parts, "{:?} cut at {cut}", String::from_utf8_lossy(&bytes));
        let len: usize = whole.0.iter().flatten().map(Bytes::len).sum();
        assert!(len <= bytes.len() && whole.0.iter().all(|words| !words.is_empty()));
    }
}

#[test]
fn replies_are_written_as_redis_writes_them() {
    let replies = Reply::Array(vec![
        Reply::Simple("OK"),
        Reply::error("no\r\n:1"),
        Reply::Integer(-7),
        Reply::text("tea\r\n"),
        Reply::value(None),
        Reply::Array(Vec::new()),
    ]);
    let mut out = BytesMut::new();
    replies.put(&mut out);
    assert_eq!(&out[..], b"*6\r\n+OK\r\n-ERR no  :1\r\n:-7\r\n$5\r\ntea\r\n\r\n$-1\r\n*0\r\n");
}

#[test]
fn a_clients_command_is_decoded_as_what_it_was() {
    let mut out = BytesMut::new();
    put_request(&mut out, &["SET", "", "\r\n"]);
    assert_eq!(decoded([&out[..]]), (vec![words(&["SET", "", "\r\n"])], None));
}

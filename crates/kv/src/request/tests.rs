use super::*;

fn words(line: &str) -> Vec<Bytes> {
    line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn asked(line: &str) -> Result<Request, RequestError> {
    request(&words(line))
}

fn wrong(line: &str) -> String {
    asked(line).unwrap_err().to_string()
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn every_command_is_read_in_any_case() {
    let put = |when, returns_old| Ok(Request::Put { key: bytes("k"), value: bytes("v"), when, returns_old });
    for (line, request) in [
        ("PING", Ok(Request::Ping(None))),
        ("ping x", Ok(Request::Ping(Some(bytes("x"))))),
        ("Echo x", Ok(Request::Echo(bytes("x")))),
        ("GET k", Ok(Request::Get(bytes("k")))),
        ("SET k v", put(When::Always, false)),
        ("set k v nx", put(When::Absent, false)),
        ("SET k v GET XX", put(When::Present, true)),
        ("SET k v IFEQ old GET", put(When::Equals(bytes("old")), true)),
        ("DEL a b", Ok(Request::Delete(vec![bytes("a"), bytes("b")]))),
        ("EXISTS a a", Ok(Request::Exists(vec![bytes("a"), bytes("a")]))),
        ("MGET a", Ok(Request::GetAll(vec![bytes("a")]))),
        ("SCAN 0", Ok(Request::Scan { cursor: 0, pattern: None, count: 10 })),
        ("SCAN 7 COUNT 5 MATCH a*", Ok(Request::Scan { cursor: 7, pattern: Some(bytes("a*")), count: 5 })),
        ("KV.RANGE a b", Ok(Request::Range { from: bytes("a"), to: Some(bytes("b")), limit: RANGE_MAX })),
        ("KV.RANGE a  LIMIT 3", Ok(Request::Range { from: bytes("a"), to: None, limit: 3 })),
        ("DBSIZE", Ok(Request::Size)),
        ("INFO server", Ok(Request::Info)),
        ("COMMAND DOCS", Ok(Request::Nothing)),
        ("CONFIG GET save", Ok(Request::Nothing)),
        ("CLIENT SETNAME x", Ok(Request::Accept)),
        ("client setinfo lib-name x", Ok(Request::Accept)),
        ("SELECT 0", Ok(Request::Accept)),
        ("HELLO", Ok(Request::Hello)),
        ("HELLO 2", Ok(Request::Hello)),
        ("QUIT", Ok(Request::Quit)),
    ] {
        assert_eq!(asked(line), request, "{line}");
    }
}

#[test]
fn what_is_not_served_is_named() {
    assert_eq!(wrong("INCR k"), "ERR unknown command 'INCR'; see INFO for those that are served");
    assert_eq!(wrong("CONFIG SET a b"), "ERR unknown subcommand 'SET' of 'config'");
    assert_eq!(wrong("CLIENT LIST"), "ERR unknown subcommand 'LIST' of 'client'");
    assert_eq!(wrong("SELECT 1"), "ERR DB index is out of range; there is 0 alone");
    assert_eq!(wrong("HELLO 3"), "NOPROTO unsupported protocol version; give 2");
    assert!(wrong("HELLO 2 AUTH a b").starts_with("ERR syntax error: 'AUTH'"));
    assert!(wrong("SET k v EX 5").starts_with("ERR syntax error: 'EX' is no option of 'set'"));
    let long = wrong(&"x".repeat(1_000));
    assert!(long.len() < 150, "{long}");
}

#[test]
fn too_few_words_and_too_many_are_told_with_the_command() {
    for line in ["ECHO", "ECHO a b", "GET", "GET a b", "SET k", "DEL", "EXISTS", "MGET", "SCAN", "SCAN 0 MATCH"] {
        let name = line.split(' ').next().unwrap().to_lowercase();
        assert_eq!(wrong(line), format!("ERR wrong number of arguments for '{name}' command"), "{line}");
    }
    for line in ["PING a b", "KV.RANGE", "KV.RANGE a", "DBSIZE x", "CONFIG", "CONFIG GET", "CLIENT", "SELECT"] {
        assert!(wrong(line).starts_with("ERR wrong number of arguments"), "{line}");
    }
    for line in
        ["SET k v NX XX", "SET k v IFEQ", "SET k v GET GET", "SET k v IFEQ a NX", "SCAN 0 KIND x", "KV.RANGE a b c"]
    {
        assert!(wrong(line).starts_with("ERR syntax error"), "{line}");
    }
}

#[test]
fn what_is_too_large_or_no_number_is_told_with_the_bound() {
    assert_eq!(wrong("SCAN x"), "ERR the cursor is not an integer or out of range; give 0 to 18446744073709551615");
    assert_eq!(wrong("SCAN 0 COUNT 0"), "ERR COUNT is not an integer or out of range; give 1 to 10000");
    assert_eq!(wrong("KV.RANGE a b LIMIT -1"), "ERR LIMIT is not an integer or out of range; give 1 to 10000");
    let (key, value) = ("k".repeat(KEY_MAX + 1), "v".repeat(VALUE_MAX + 1));
    for line in [format!("GET {key}"), format!("SET {key} v"), format!("DEL a {key}"), format!("MGET {key}")] {
        assert_eq!(wrong(&line), "ERR the key has 4097 bytes; 4096 are allowed");
    }
    for line in [format!("SET k {value}"), format!("SET k v IFEQ {value}")] {
        assert_eq!(wrong(&line), "ERR the value has 1048577 bytes; 1048576 are allowed");
    }
    assert_eq!(wrong(&format!("SCAN 0 MATCH {key}")), "ERR the pattern has 4097 bytes; 256 are allowed");
    assert!(asked(&format!("SET {} {}", &key[1..], &value[1..])).is_ok());
}

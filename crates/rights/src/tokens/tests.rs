use super::*;
use consort_types::Rng;

const NOW: u64 = 1_800_000_000;

fn drawn(rng: &mut Rng) -> [u8; SECRET] {
    std::array::from_fn(|_| rng.next_u64() as u8)
}

/// A file with a given token and a key, and the texts of both tokens.
fn given() -> (Tokens, String, String) {
    let mut rng = Rng::new(3);
    let (token, line) = give("billing", &drawn(&mut rng)).unwrap();
    let tokens = Tokens::parse(&format!("# tokens\n\n{line}{}", key_line(7, &drawn(&mut rng)))).unwrap();
    let signed = sign(&tokens, "audit-1", NOW + 60).unwrap();
    (tokens, token, signed)
}

#[test]
fn a_token_proves_the_name_for_which_it_was_made() {
    let (tokens, token, signed) = given();
    let proof = |name: &str, expires| Ok(TokenProof { name: name.to_owned(), expires });
    assert_eq!(tokens.verify(token.as_bytes(), NOW), proof("billing", None));
    assert_eq!(tokens.verify(signed.as_bytes(), NOW), proof("audit-1", Some(NOW + 60)));
    assert_eq!(tokens.verify(signed.as_bytes(), NOW + 59), proof("audit-1", Some(NOW + 60)));
    assert_eq!(tokens.verify(signed.as_bytes(), NOW + 60), Err(TokenProblem::Expired));
    assert!(token.len() <= TOKEN_MAX && signed.len() <= TOKEN_MAX);
    let longest = sign(&tokens, &"x".repeat(NAME_MAX), u64::MAX).unwrap();
    assert!(longest.len() <= TOKEN_MAX && tokens.verify(longest.as_bytes(), NOW).is_ok());
}

#[test]
fn what_was_taken_back_or_is_of_another_file_is_unknown() {
    let (tokens, token, signed) = given();
    let (_, other) = give("billing", &[1; SECRET]).unwrap();
    let others = Tokens::parse(&format!("{other}{}", key_line(7, &[2; SECRET]))).unwrap();
    for text in [&token, &signed] {
        assert_eq!(others.verify(text.as_bytes(), NOW), Err(TokenProblem::Unknown));
        assert_eq!(Tokens::default().verify(text.as_bytes(), NOW), Err(TokenProblem::Unknown));
    }
    let unsigned = Tokens::parse(&give("billing", &drawn(&mut Rng::new(3))).unwrap().1).unwrap();
    assert!(unsigned.verify(token.as_bytes(), NOW).is_ok());
    assert_eq!(unsigned.verify(signed.as_bytes(), NOW), Err(TokenProblem::Unknown), "the key went");
    let late = signed.replace(&(NOW + 60).to_string(), &(NOW + 600).to_string());
    assert_eq!(tokens.verify(late.as_bytes(), NOW), Err(TokenProblem::Unknown), "nobody makes it longer");
    let other = signed.replace("audit-1", "audit-2");
    assert_eq!(tokens.verify(other.as_bytes(), NOW), Err(TokenProblem::Unknown));
    assert_eq!(tokens.verify(token.replace("billing", "audit-1").as_bytes(), NOW), Err(TokenProblem::Unknown));
}

#[test]
fn what_is_no_token_is_told_apart_from_one_that_is_unknown() {
    let (tokens, token, signed) = given();
    for text in [
        "",
        ".",
        "s1",
        "s1..",
        "s1.billing",
        "s1.billing.",
        "s1.billing.00",
        "s2.billing.00",
        "t1.7.a.b.c",
        "\u{e4}",
        &token.to_uppercase(),
        &format!("{token}.x"),
        &format!("{token}0"),
        &token.replace("billing", "bill ing"),
        &signed.replace("t1.7", "t1.07"),
        &signed.replace("t1.7", "t1.70000"),
        &signed.replace("audit", "audit/"),
        &signed.replace(&NOW.to_string()[..3], "+18"),
        &"x".repeat(TOKEN_MAX + 1),
    ] {
        assert_eq!(tokens.verify(text.as_bytes(), NOW), Err(TokenProblem::Malformed), "{text}");
    }
    assert_eq!(tokens.verify(b"s1.\xff.x", NOW), Err(TokenProblem::Malformed));
}

#[test]
fn no_changed_byte_proves_anything_and_none_panics() {
    let (tokens, token, signed) = given();
    let mut rng = Rng::new(17);
    for text in [token, signed] {
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1 << bit;
                assert!(tokens.verify(&changed, NOW).is_err(), "{}", String::from_utf8_lossy(&changed));
            }
            assert!(tokens.verify(&text.as_bytes()[..at], NOW).is_err());
        }
    }
    for _ in 0..20_000 {
        let len = rng.below(200);
        let bytes: Vec<u8> = (0..len).map(|_| b"st1.0a9\xff-_ "[rng.below(11) as usize]).collect();
        assert!(tokens.verify(&bytes, NOW).is_err());
    }
}

#[test]
fn a_file_that_is_wrong_is_told_by_line_and_without_its_secrets() {
    let hex = "ab".repeat(SECRET);
    for (text, line, what) in [
        ("token billing secret", 1, "the hash of a token is 64 hexadecimal digits"),
        (&format!("\ntoken bill/ing {hex}"), 2, "a token's name has"),
        (&format!("token a {hex}\ntoken a {hex}"), 2, "a token of that name"),
        (&format!("key 0 {hex}"), 1, "a key's number is 1 to 65535"),
        (&format!("key 1 {hex}\nkey 1 {hex}"), 2, "a key of that number"),
        ("key 1 abc", 1, "a key is 64 hexadecimal digits"),
        (&format!("# fine\nkey 1 {hex} more"), 2, "write `token NAME HASH`"),
        ("hello", 1, "write `token NAME HASH`"),
        (&(1..=9).map(|n| format!("key {n} {hex}\n")).collect::<String>(), 9, "there are eight keys already"),
    ] {
        let error = Tokens::parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text}");
        assert!(error.what.starts_with(what) && !error.to_string().contains("secret"), "{error}");
    }
    assert!(Tokens::parse("").unwrap().is_empty());
}

#[test]
fn formatting_tells_no_secret() {
    let (tokens, token, _) = given();
    let told = format!("{tokens:?}");
    assert!(told.contains("billing") && !told.contains(&token[11..30]), "{told}");
    assert_eq!((tokens.len(), sign(&Tokens::default(), "a", 1), give("a b", &[0; SECRET])), (2, None, None));
}

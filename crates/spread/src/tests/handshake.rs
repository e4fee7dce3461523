//! Who is let in, and what the others are told.
use super::*;
use crate::Reject;

/// The reject code that these bytes get.
fn rejected(bytes: &[u8]) -> Option<i8> {
    let mut session = SpreadSession::new();
    session.feed(Bytes::copy_from_slice(bytes));
    let mut said = session.ask();
    if let Ok(Some(SpreadRequest::Name(_))) = said {
        session.name("#x#d1");
        read(&mut session);
        said = session.ask();
    }
    said.err()?;
    let said = read(&mut session);
    assert_eq!(said.len(), 1);
    session.close(false);
    assert!(session.is_closed());
    Some(said[0] as i8)
}

/// What a library of this version is told until it is in, with the choice of a method only if it makes one.
fn let_in(version: &[u8], chooses: bool) -> Vec<u8> {
    let mut session = SpreadSession::new();
    session.feed([version, &[1, 1, b'x']].concat().into());
    assert!(matches!(session.ask(), Ok(Some(SpreadRequest::Name(Some(_))))));
    session.name("#x#d1");
    if chooses {
        assert!(!session.is_open());
        assert_eq!(read(&mut session), b"\x05NULL ");
        session.feed(choice());
        assert_eq!(session.ask(), Ok(Some(SpreadRequest::Entered)));
    }
    assert!(session.is_open());
    read(&mut session)
}

#[test]
fn libraries_of_every_age_are_let_in_each_in_its_own_way() {
    //= S03 test
    assert_eq!(let_in(&[5, 0, 1], true), b"\x01\x05\x00\x01\x05#x#d1");
    assert_eq!(let_in(&[6, 1, 9], true), let_in(&[5, 0, 1], true));
    assert_eq!(let_in(&[3, 16, 0], true), b"\x01\x05\x00\x01\x05#x#d1");
    assert_eq!(let_in(&[3, 15, 9], false), b"\x01\x05\x00\x01\x05#x#d1");
    assert_eq!(let_in(&[3, 14], false), b"\x01\x05\x00\x05#x#d1");
    assert_eq!(let_in(&[3, 1], false), b"\x01\x05\x00\x05#x#d1");
    assert_eq!(rejected(&[3, 0]), Some(-7));
    assert_eq!(rejected(&[0, 0]), Some(-7));
}

#[test]
fn names_that_nobody_may_have_are_rejected() {
    //= S04 test
    for name in [&b"a b"[..], b"a#b", b"a\x7f", b"a\0", b"\x23", b"\xe4"] {
        let hello = [&[5, 0, 1, 1, name.len() as u8][..], name].concat();
        assert_eq!(rejected(&hello), Some(-5), "{name:?}");
    }
    assert_eq!(rejected(&[5, 0, 1, 1, 11]), Some(-5));
    assert_eq!(rejected(&[5, 0, 1, 1, 0xff]), Some(-5));
    assert_eq!(rejected(&hello("$~")), None);
    assert_eq!(rejected(&hello("tencharact")), None);
}

#[test]
fn whoever_has_no_name_is_given_one() {
    let mut session = SpreadSession::new();
    session.feed(hello(""));
    assert_eq!(session.ask(), Ok(Some(SpreadRequest::Name(None))));
    // Nothing goes on before the daemon has answered.
    session.feed(choice());
    assert_eq!(session.ask(), Ok(None));
    session.name("#c7#n1");
    assert_eq!(session.ask(), Ok(Some(SpreadRequest::Entered)));
    assert_eq!(read(&mut session), b"\x05NULL \x01\x05\x00\x01\x06#c7#n1");
}

#[test]
fn only_the_method_null_will_do() {
    let after = |choice: &[u8]| rejected(&[&hello("x")[..], choice].concat());
    let mut both = choice().to_vec();
    both[30..34].copy_from_slice(b"NULL");
    assert_eq!(after(&both), None);
    both[30..32].copy_from_slice(b"IP");
    both[32..34].fill(0);
    assert_eq!(after(&both), Some(-9));
    assert_eq!(after(&[0; 90]), Some(-9));
    assert_eq!(after(&[b'N'; 90]), Some(-9));
    let mut behind = choice().to_vec();
    behind.rotate_right(30);
    assert_eq!(after(&behind), Some(-9));
}

#[test]
fn a_daemons_own_reasons_to_reject_reach_the_client() {
    //= S06 test
    for (reject, code) in [(Reject::NotUnique, -6), (Reject::Quota, -3)] {
        let mut session = SpreadSession::new();
        session.feed(hello("x"));
        session.ask().unwrap();
        let farewell = session.reject(reject);
        session.close(false);
        assert_eq!(read(&mut session), [code as i8 as u8]);
        assert!(farewell.text.contains(&code.to_string()), "{farewell}");
        session.feed(choice());
        assert_eq!(session.ask(), Ok(None));
    }
}

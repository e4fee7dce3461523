//! Values into bytes and back, and bytes that are none.
use super::*;
use serde::{Deserialize, Serializer};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Change {
    Set { key: String, value: Option<i64> },
    Many(BTreeMap<u16, Vec<u8>>),
    Clear,
}

fn changes() -> [Change; 3] {
    let many = BTreeMap::from([(1, vec![0; 300]), (700, Vec::new())]);
    [Change::Set { key: "t\u{e9}".into(), value: Some(-5) }, Change::Many(many), Change::Clear]
}

#[test]
fn values_come_back() {
    for change in changes() {
        let payload = Typed::new().encode(&change).unwrap();
        assert_eq!(Typed::new().decode(&payload), Ok(change));
    }
    assert_eq!(&Typed::new().encode(&changes()[2]).unwrap()[..], [2], "postcard's form, and nothing else");
}

#[test]
fn a_value_may_be_as_long_as_is_allowed_and_no_longer() {
    let text = "x".repeat(100);
    let typed = Typed::<String>::new();
    let payload = typed.at_most(101).encode(&text).unwrap();
    assert_eq!(payload.len(), 101);
    let error = typed.at_most(100).encode(&text).unwrap_err();
    assert_eq!(error.to_string(), "a alloc::string::String takes more than the 100 bytes that are allowed");
    assert_eq!(typed.at_most(101).decode(&payload).as_deref(), Ok(&*text));
    let error = typed.at_most(100).decode(&payload).unwrap_err();
    assert_eq!(error, TypedError::TooLong { of: "alloc::string::String", len: 101, most: 100 });
}

#[test]
fn every_cut_and_every_addition_is_noticed() {
    for change in changes() {
        let payload = Typed::new().encode(&change).unwrap();
        for len in 0..payload.len() {
            let cut = Typed::<Change>::new().decode(&payload[..len]).unwrap_err();
            assert!(matches!(cut, TypedError::Undecodable { len: told, .. } if told == len), "{cut}");
        }
        let longer = [&payload[..], b"!!"].concat();
        let error = Typed::<Change>::new().decode(&longer).unwrap_err();
        assert!(matches!(error, TypedError::Trailing { rest: 2, .. }), "{error}");
    }
}

#[test]
fn bytes_of_another_type_say_so_and_no_bytes_panic_or_take_memory() {
    let error = Typed::<Change>::new().decode(b"\x09").unwrap_err().to_string();
    let told = "a payload of 1 bytes is no consort::typed::tests::Change: ";
    assert!(error.starts_with(told) && error.ends_with("do all programs of the group have the same type?"), "{error}");
    // It claims to be of 2^63 bytes.
    let claims = [1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(matches!(Typed::<Change>::new().decode(&claims), Err(TypedError::Undecodable { .. })));
    for first in 0..=255_u8 {
        for second in 0..=255 {
            let _ = Typed::<Change>::new().decode(&[first, second, first ^ second, 0xff]);
        }
    }
}

#[test]
fn what_has_no_form_is_refused() {
    struct Endless;
    impl Serialize for Endless {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_seq(None).map(drop)?;
            Err(serde::ser::Error::custom("unreachable"))
        }
    }
    let error = Typed::<Endless>::new().encode(&Endless).unwrap_err();
    assert!(matches!(error, TypedError::Unencodable { .. }), "{error}");
}

#[cfg(feature = "tokio")]
#[test]
fn a_draft_of_a_value_names_what_is_wrong() {
    let group = crate::GroupName::new("g").unwrap();
    let draft = crate::Draft::typed(Service::Agreed, std::slice::from_ref(&group), &changes()[2]).unwrap();
    assert_eq!(draft.payload(), [2]);
    let error = crate::Draft::typed(Service::Agreed, &[group], &vec![7_u8; MOST]).unwrap_err();
    assert!(matches!(error, Error::Typed(TypedError::TooLarge { most: MOST, .. })), "{error}");
}

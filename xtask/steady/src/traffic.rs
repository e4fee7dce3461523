//! What clients send.
use bytes::{Bytes, BytesMut};
use consort_session::{Hello, request};
use consort_types::{GroupName, Service};

/// What each client sends at once, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Its name in a record.
    pub name: &'static str,
    /// How many messages stand in one write.
    pub messages: usize,
    /// The bytes of each.
    pub len: usize,
}

impl Traffic {
    /// Nobody says anything.
    pub const REST: Self = Self { name: "rest", messages: 0, len: 0 };
    /// Many messages fit one packet.
    pub const SMALL: Self = Self { name: "100", messages: 60, len: 100 };
    /// A message fills a packet.
    pub const LARGE: Self = Self { name: "1350", messages: 40, len: 1_350 };

    /// Whose instructions are counted.
    pub const ALL: [Self; 3] = [Self::REST, Self::SMALL, Self::LARGE];

    /// One write of a client.
    pub fn write(&self) -> Bytes {
        let (mut said, payload) = (BytesMut::new(), vec![7; self.len]);
        (0..self.messages).for_each(|_| request::put_multicast(&mut said, Service::Agreed, &[group()], &payload));
        said.freeze()
    }
}

/// What each client says first.
pub(crate) fn greeting() -> Bytes {
    let mut said = BytesMut::new();
    Hello::default().put(&mut said);
    request::put_join(&mut said, &group(), false);
    said.freeze()
}

#[expect(clippy::unwrap_used, reason = "a name that is right")]
fn group() -> GroupName {
    GroupName::new(b"g").unwrap()
}

//! Who is in a group, and why that changed.
use consort_types::{ClientId, MemberId, ViewId};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What a client is called: 1 to 23 bytes of printable ASCII without space and without `#`. Shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientName(Arc<str>);

/// A text that no client can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNameError {
    /// What was given.
    pub name: String,
}

/// How many names there are for clients that did not choose one.
const UNCHOSEN: u32 = 100_000_000;

impl ClientName {
    /// The longest name, in bytes: with its daemon's, `#name#n65535`, it takes the 31 that Spread clients can read.
    pub const MAX: usize = 23;

    /// Checks a name. `None` if it is empty, too long, or has another character.
    pub fn new(name: &[u8]) -> Option<Self> {
        std::str::from_utf8(name).ok().filter(|_| Self::is_name(name)).map(|text| Self(text.into()))
    }

    /// Whether a client can be called so.
    pub fn is_name(name: &[u8]) -> bool {
        let allowed = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
        (1..=Self::MAX).contains(&name.len()) && name.iter().all(allowed)
    }

    /// The name of a client that did not choose one: `c` and the last eight digits of its number. Spread's programs keep
    /// room for ten bytes; its daemons give such a client at most nine.
    pub fn unchosen(client: ClientId) -> Self {
        Self(format!("c{}", (client.0 & !ClientId::SPREAD) % UNCHOSEN).into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClientName {
    type Err = ClientNameError;

    fn from_str(name: &str) -> Result<Self, ClientNameError> {
        Self::new(name.as_bytes()).ok_or_else(|| ClientNameError { name: name.to_owned() })
    }
}

impl TryFrom<&str> for ClientName {
    type Error = ClientNameError;

    fn try_from(name: &str) -> Result<Self, ClientNameError> {
        name.parse()
    }
}

impl fmt::Display for ClientNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, most) = (&self.name, ClientName::MAX);
        write!(f, "{name:?} is no name for a client: use 1 to {most} printable ASCII characters, no space, no `#`")
    }
}

impl std::error::Error for ClientNameError {}

/// A name is found by its text.
impl std::borrow::Borrow<str> for ClientName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One client in a group. Members are listed by node, incarnation and client number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The daemon it is connected to.
    pub daemon: MemberId,
    /// Its number there; never reused within an incarnation.
    pub client: ClientId,
    /// What it is called.
    pub name: ClientName,
}

impl Member {
    /// What members are told apart and ordered by.
    pub const fn key(&self) -> (MemberId, ClientId) {
        (self.daemon, self.client)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}({})", self.daemon, self.client, self.name)
    }
}

/// Names one membership of one group, with the group's name, equally at every daemon.
///
/// It is no fencing number: parts of the network that do not hear each other count on independently, so that 137@n1 of a
/// part that is not primary and 137@n2 of the primary one may both be. Only [equality](PartialEq) means something
/// between two daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupViewId {
    /// The regular view in which the group changed.
    pub view: ViewId,
    /// 0 where the network made the change; otherwise counts the joins, leaves and disconnects that changed anything since
    /// that view was installed, from 1. While the view is closing the highest bit is set, and 31 bits behind it stand for
    /// who moves along.
    pub change: u64,
}

impl fmt::Display for GroupViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.view, self.change)
    }
}

/// Why a group changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ChangeCause {
    /// A client joined.
    Join = 1,
    /// A client left.
    Leave = 2,
    /// A client's connection to its daemon ended.
    Disconnect = 3,
    /// Daemons went or came, and their clients with them.
    Network = 4,
    /// Nobody came or went: the view of daemons has become primary, or is primary no more.
    Primary = 5,
}

impl ChangeCause {
    /// The cause with this number on the wire.
    pub const fn from_wire(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Join),
            2 => Some(Self::Leave),
            3 => Some(Self::Disconnect),
            4 => Some(Self::Network),
            5 => Some(Self::Primary),
            _ => None,
        }
    }
}

impl fmt::Display for ChangeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Disconnect => "disconnect",
            Self::Network => "network",
            Self::Primary => "primary",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_confuse_are_refused() {
        assert_eq!(ClientName::new(b"bob").unwrap().as_str(), "bob");
        assert_eq!(ClientName::unchosen(ClientId(7)).as_str(), "c7");
        assert_eq!(ClientName::unchosen(ClientId(7 | ClientId::SPREAD)).as_str(), "c7");
        assert_eq!(ClientName::unchosen(ClientId(u32::MAX)).as_str(), "c47483647", "nine bytes at most");
        for bad in [&b""[..], &[b'x'; 24], b"a b", b"a#b", b"\x7f", "ü".as_bytes()] {
            assert_eq!(ClientName::new(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn causes_read_back() {
        let all = [
            ChangeCause::Join,
            ChangeCause::Leave,
            ChangeCause::Disconnect,
            ChangeCause::Network,
            ChangeCause::Primary,
        ];
        assert!(all.into_iter().all(|cause| ChangeCause::from_wire(cause as u8) == Some(cause)));
        assert_eq!([ChangeCause::from_wire(0), ChangeCause::from_wire(6)], [None, None]);
    }
}

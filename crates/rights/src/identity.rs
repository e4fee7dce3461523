//! Who a client is.
use crate::Glob;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// What is known of a client: what the kernel says of its connection, and what it has proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    user: Option<u32>,
    group: Option<u32>,
    address: Option<IpAddr>,
    token: Option<Arc<str>>,
    certificate: Option<Arc<str>>,
}

impl Identity {
    /// Nothing is known of it.
    pub const UNKNOWN: Self = Self { user: None, group: None, address: None, token: None, certificate: None };

    /// A process of this machine, at a Unix socket: its user and its group, as the kernel tells them.
    pub const fn of_user(user: u32, group: u32) -> Self {
        Self { user: Some(user), group: Some(group), ..Self::UNKNOWN }
    }

    /// A client at a TCP port, at this address. One of IPv4 that is written as one of IPv6 is taken for what it is.
    pub const fn at(address: IpAddr) -> Self {
        Self { address: Some(address.to_canonical()), ..Self::UNKNOWN }
    }

    /// The same with a token that it has shown.
    #[must_use]
    pub fn with_token(self, name: &str) -> Self {
        Self { token: Some(name.into()), ..self }
    }

    /// The same with a certificate that it has proven to hold, by its subject.
    #[must_use]
    pub fn with_certificate(self, subject: &str) -> Self {
        Self { certificate: Some(subject.into()), ..self }
    }

    /// The name of the token that it has shown.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether it is more than an address: a user of this machine, or the holder of a token or certificate.
    pub const fn is_proven(&self) -> bool {
        self.user.is_some() || self.token.is_some() || self.certificate.is_some()
    }
}

/// The strongest of what is known; connections of which it is the same share limits.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { certificate: Some(subject), .. } => write!(f, "certificate:{subject}"),
            Self { token: Some(name), .. } => write!(f, "token:{name}"),
            Self { user: Some(user), .. } => write!(f, "user:{user}"),
            Self { address: Some(address), .. } => write!(f, "address:{address}"),
            _ => f.write_str("unknown"),
        }
    }
}

/// A pattern for identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// `*`: everybody.
    Everybody,
    /// `unix`: processes of this machine, at a Unix socket.
    Unix,
    /// `tcp`: clients at TCP ports.
    Tcp,
    /// `user:1000`: at a Unix socket.
    User(u32),
    /// `group:100`: the process's own group, at a Unix socket.
    Group(u32),
    /// `address:10.0.0.0/8`: so many leading bits of a client's address, at a TCP port.
    Address(IpAddr, u8),
    /// `token:billing-*`.
    Token(Glob),
    /// `certificate:CN=billing-*`.
    Certificate(Glob),
}

/// Why a text is no pattern for identities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" names nobody; write *, unix, tcp, user:1000, group:100, address:10.0.0.0/8, token:NAME or certificate:NAME"
)]
pub struct WhoError {
    text: String,
}

impl Who {
    /// Whether a client is one of those. Whatever is known of it counts, not only the strongest.
    pub fn fits(&self, identity: &Identity) -> bool {
        let named = |glob: &Glob, name: &Option<Arc<str>>| name.as_ref().is_some_and(|name| glob.fits(name.as_bytes()));
        match self {
            Self::Everybody => true,
            Self::Unix => identity.user.is_some(),
            Self::Tcp => identity.address.is_some(),
            Self::User(user) => identity.user == Some(*user),
            Self::Group(group) => identity.group == Some(*group),
            Self::Address(network, bits) => identity.address.is_some_and(|address| is_in(address, *network, *bits)),
            Self::Token(glob) => named(glob, &identity.token),
            Self::Certificate(glob) => {
                let is_like = |name: &Arc<str>| glob.as_str() == "*" || is_uri(glob.as_str()) == is_uri(name);
                named(glob, &identity.certificate) && identity.certificate.as_ref().is_some_and(is_like)
            }
        }
    }
}

impl FromStr for Who {
    type Err = WhoError;

    fn from_str(text: &str) -> Result<Self, WhoError> {
        read(text).ok_or_else(|| WhoError { text: text.to_owned() })
    }
}

fn read(text: &str) -> Option<Who> {
    let glob = |rest: &str| (!rest.is_empty()).then(|| Glob::new(rest));
    Some(match text {
        "*" => Who::Everybody,
        "unix" => Who::Unix,
        "tcp" => Who::Tcp,
        _ => match text.split_once(':')? {
            ("user", rest) => Who::User(number(rest)?),
            ("group", rest) => Who::Group(number(rest)?),
            ("address", rest) => network(rest)?,
            ("token", rest) => Who::Token(glob(rest)?),
            ("certificate", rest) => Who::Certificate(glob(rest)?),
            _ => return None,
        },
    })
}

/// Only a URI has a colon. So no pattern for DNS names fits a URI: who may choose one is not who may choose the other.
fn is_uri(name: &str) -> bool {
    name.contains(':')
}

/// A user or group: the last number is none.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number < u32::MAX && text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn network(text: &str) -> Option<Who> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse::<u8>().ok()?)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most && address == address.to_canonical()).then_some(Who::Address(address, bits))
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differ = u32::from(address) ^ u32::from(network);
            differ.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differ = u128::from(address) ^ u128::from(network);
            differ.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Identity {
        Identity::at(text.parse().unwrap())
    }

    /// Every kind of pattern beside every kind of identity.
    #[test]
    fn who_is_meant_by_what() {
        let identities = [
            Identity::UNKNOWN,
            Identity::of_user(1000, 100),
            Identity::of_user(0, 0),
            at("10.1.2.3"),
            at("::ffff:10.1.2.3"),
            at("2001:db8::1"),
            at("10.1.2.3").with_token("billing-1"),
            at("10.1.2.3").with_certificate("billing-1"),
            Identity::of_user(1000, 100).with_token("other"),
        ];
        for (pattern, fits) in [
            ("*", "111111111"),
            ("unix", "011000001"),
            ("tcp", "000111110"),
            ("user:1000", "010000001"),
            ("user:0", "001000000"),
            ("group:100", "010000001"),
            ("group:0", "001000000"),
            ("address:10.0.0.0/8", "000110110"),
            ("address:10.1.2.3", "000110110"),
            ("address:10.1.2.4/31", "000000000"),
            ("address:10.1.2.2/31", "000110110"),
            ("address:0.0.0.0/0", "000110110"),
            ("address:::/0", "000001000"),
            ("address:2001:db8::/32", "000001000"),
            ("address:2001:db8::2/128", "000000000"),
            ("token:billing-*", "000000100"),
            ("token:*", "000000101"),
            ("certificate:billing-1", "000000010"),
            ("certificate:*", "000000010"),
        ] {
            let who: Who = pattern.parse().unwrap();
            let seen: String = identities.iter().map(|identity| if who.fits(identity) { '1' } else { '0' }).collect();
            assert_eq!(seen, fits, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_for_dns_names_fits_no_uri_and_the_other_way_round() {
        let fits =
            |pattern: &str, name: &str| pattern.parse::<Who>().unwrap().fits(&at("10.1.2.3").with_certificate(name));
        for (pattern, dns, uri) in [
            ("certificate:*", true, true),
            ("certificate:billing*", true, false),
            ("certificate:b*", true, false),
            ("certificate:billing:*", false, true),
            ("certificate:*:*", false, true),
        ] {
            assert_eq!((fits(pattern, "billing.example"), fits(pattern, "billing:x")), (dns, uri), "{pattern}");
        }
    }

    #[test]
    fn what_names_nobody_is_told_with_what_would() {
        for text in [
            "",
            "root",
            "user:",
            "user:x",
            "user:-1",
            "user:+1",
            "user:4294967295",
            "user:4294967296",
            "address:",
            "address:10",
            "address:10.0.0.0/33",
            "address:10.0.0.0/x",
            "address:10.0.0.0/",
            "address:::/129",
            "address:::ffff:1.2.3.4/96",
            "token:",
            "certificate:",
            "uid:1",
            "Unix",
        ] {
            let error = text.parse::<Who>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} names nobody; write *, unix")), "{error}");
        }
    }

    #[test]
    fn the_strongest_of_what_is_known_names_it() {
        let name = |identity: Identity| (identity.to_string(), identity.is_proven());
        let address = || at("10.1.2.3");
        assert_eq!(name(Identity::UNKNOWN), ("unknown".to_owned(), false));
        assert_eq!(name(address()), ("address:10.1.2.3".to_owned(), false));
        assert_eq!(name(Identity::of_user(7, 8)), ("user:7".to_owned(), true));
        assert_eq!(name(address().with_token("t")), ("token:t".to_owned(), true));
        assert_eq!(name(address().with_token("t").with_certificate("c")), ("certificate:c".to_owned(), true));
    }
}

//! The names by which single clients are sent to.
use crate::member::ClientName;
use consort_types::NodeId;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One client of one daemon: `#bob#n1` is `bob` at node 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrivateName(Arc<str>);

/// A text that names no client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateNameError {
    /// What was given.
    pub text: String,
}

impl PrivateName {
    /// The name of this client there.
    pub fn new(client: &ClientName, node: NodeId) -> Self {
        Self(format!("#{client}#{node}").into())
    }

    /// Checks a name that somebody wrote. `None` where it names no client.
    pub fn parse(text: &str) -> Option<Self> {
        Self::read(text.as_bytes()).map(|_| Self(text.into()))
    }

    /// The client and the node that a target names, if it is a private name.
    pub fn read(target: &[u8]) -> Option<(&str, NodeId)> {
        //= G06
        let text = std::str::from_utf8(target).ok()?;
        let (client, node) = text.strip_prefix('#')?.split_once('#')?;
        let digits = node.strip_prefix('n')?;
        let number: u16 = digits.parse().ok()?;
        // One client has one name: no signs, no leading zeros.
        let canonical =
            digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
        (canonical && ClientName::is_name(client.as_bytes())).then_some((client, NodeId(number)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PrivateName {
    type Err = PrivateNameError;

    fn from_str(text: &str) -> Result<Self, PrivateNameError> {
        Self::parse(text).ok_or_else(|| PrivateNameError { text: text.to_owned() })
    }
}

impl TryFrom<&str> for PrivateName {
    type Error = PrivateNameError;

    fn try_from(text: &str) -> Result<Self, PrivateNameError> {
        text.parse()
    }
}

impl fmt::Display for PrivateNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} names no client: write #NAME#nN, with the number N of its daemon's node", self.text)
    }
}

impl std::error::Error for PrivateNameError {}

impl fmt::Display for PrivateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_nothing_else_is_one() {
        //= G06 test
        let name = PrivateName::new(&ClientName::new(b"bob").unwrap(), NodeId(12));
        assert_eq!((name.as_str(), PrivateName::parse("#bob#n12")), ("#bob#n12", Some(name.clone())));
        assert_eq!(PrivateName::read(b"#bob#n12"), Some(("bob", NodeId(12))));
        assert_eq!("#bob#n12".parse(), Ok(name));
        let told = PrivateName::try_from("bob").unwrap_err().to_string();
        assert_eq!(told, "\"bob\" names no client: write #NAME#nN, with the number N of its daemon's node");
        let long = format!("#{}#n1", "x".repeat(33));
        let bad =
            ["", "#", "##n1", "#bob", "#bob#", "#bob#1", "#bob#n", "#bob#n+1", "#bob#n01", "#bob#n65536", "bob#n1"];
        for bad in bad.into_iter().chain(["#b b#n1", "#b#c#n1", "#\u{e4}#n1", &long]) {
            assert_eq!(PrivateName::parse(bad), None, "{bad}");
            assert_eq!(bad.parse::<PrivateName>(), Err(PrivateNameError { text: bad.to_owned() }));
        }
    }
}

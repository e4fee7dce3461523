//! What a daemon says of itself.
use crate::{NodeId, Primary};

/// A daemon's status: keys and values, as `consort status --all` prints them. Which keys there are depends on the protocol;
/// those that every daemon tells have methods.
///
/// ```
/// # use consort::{Primary, Status};
/// let status: Status = [("primary", "yes"), ("groups", "3")].into_iter().collect();
/// assert_eq!(status.primary(), Some(Primary::Yes));
/// assert_eq!(status.counter("groups"), Some(3));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status(Vec<(String, String)>);

impl Status {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// The value of a key that counts or measures.
    pub fn counter(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// The node that the daemon is.
    pub fn node(&self) -> Option<NodeId> {
        self.get("node")?.strip_prefix('n')?.parse().ok().map(NodeId)
    }

    /// What orders the messages: `ring`, `toto`, `plato`, `paxos`, `multiring-paxos` or `multiring`.
    pub fn protocol(&self) -> Option<&str> {
        self.get("protocol")
    }

    /// Whether the view is primary; `None` before there is one.
    pub fn primary(&self) -> Option<Primary> {
        Primary::from_word(self.get("primary")?)
    }

    /// Why the daemon does not take part in full; `None` where it does.
    pub fn unready(&self) -> Option<&str> {
        self.get("ready").filter(|ready| *ready != "yes")
    }

    /// What requests of clients wait for, if they wait.
    pub fn requests_wait_for(&self) -> Option<&str> {
        self.get("requests_wait_for")
    }

    /// All keys and values, in the daemon's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) const fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The same as pairs.
    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Status {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_every_daemon_tells_have_types() {
        let pairs = [("node", "n7"), ("protocol", "ring"), ("primary", "no policy"), ("ready", "no view yet")];
        let status: Status = pairs.into_iter().collect();
        assert_eq!((status.node(), status.protocol()), (Some(NodeId(7)), Some("ring")));
        assert_eq!((status.primary(), status.unready()), (Some(Primary::NoPolicy), Some("no view yet")));
        assert_eq!(status.iter().nth(1), Some(("protocol", "ring")));
        assert_eq!(Status::new(status.clone().into_pairs()), status);
    }

    #[test]
    fn what_is_not_told_or_makes_no_sense_is_none() {
        let status: Status =
            [("node", "seven"), ("primary", "perhaps"), ("groups", "many"), ("ready", "yes")].into_iter().collect();
        assert_eq!((status.node(), status.primary(), status.counter("groups")), (None, None, None));
        assert_eq!((status.unready(), status.requests_wait_for(), status.get("views")), (None, None, None));
    }
}

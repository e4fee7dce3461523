//! What is remembered of the last changes of the network: lines of `status`, which programs can read back.
//!
//! ```text
//! view 9@n1.17 of n1.17 n3.19, primary pending (token lost after 151 ms; n2 silent for 369 ms)
//! leaving view 5@n1.17 with n1.17 n3.19
//! view 9@n1.17 is primary: all its members have installed it
//! ```
use consort_types::{Incarnation, MemberId, NodeId, Primary, View, ViewId, ViewKind};
use std::fmt;
use std::str::FromStr;

const LEAVING: &str = "leaving view ";
const VIEW: &str = "view ";
const OF: &str = " of ";
const WITH: &str = " with ";
const PRIMARY: &str = ", primary ";
const BECAME: &str = " is primary: all its members have installed it";

/// One change of the network, as a node was told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkChange {
    /// A regular view was installed.
    View {
        /// Which.
        id: ViewId,
        /// All its members.
        members: Vec<MemberId>,
        /// Whether it is the primary one.
        primary: Primary,
        /// Why it came.
        why: String,
    },
    /// The view before is closed by those that go on together.
    Leaving {
        /// Which view is closed.
        id: ViewId,
        /// Those that go on.
        members: Vec<MemberId>,
    },
    /// The view is known to be installed by all its members, and so is primary.
    Primary {
        /// Which view.
        id: ViewId,
    },
}

impl From<&View> for NetworkChange {
    fn from(view: &View) -> Self {
        let (id, members) = (view.id, view.members.clone());
        match view.kind {
            ViewKind::Regular => Self::View { id, members, primary: view.primary, why: view.why() },
            ViewKind::Transitional => Self::Leaving { id, members },
        }
    }
}

impl fmt::Display for NetworkChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::View { id, members, primary, why } => {
                write!(f, "{VIEW}{id}{OF}{}{PRIMARY}{} ({why})", list(members), primary.word())
            }
            Self::Leaving { id, members } => write!(f, "{LEAVING}{id}{WITH}{}", list(members)),
            Self::Primary { id } => write!(f, "{VIEW}{id}{BECAME}"),
        }
    }
}

/// The text is none of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoChange;

impl FromStr for NetworkChange {
    type Err = NoChange;

    fn from_str(text: &str) -> Result<Self, NoChange> {
        read(text).ok_or(NoChange)
    }
}

fn read(text: &str) -> Option<NetworkChange> {
    if let Some(rest) = text.strip_prefix(LEAVING) {
        let (id, rest) = rest.split_once(WITH)?;
        return Some(NetworkChange::Leaving { id: view(id)?, members: members(rest)? });
    }
    let rest = text.strip_prefix(VIEW)?;
    if let Some(id) = rest.strip_suffix(BECAME) {
        return Some(NetworkChange::Primary { id: view(id)? });
    }
    let (id, rest) = rest.split_once(OF)?;
    let (list, rest) = rest.split_once(PRIMARY)?;
    let (primary, why) = rest.strip_suffix(')')?.split_once(" (")?;
    let primary = Primary::from_word(primary)?;
    Some(NetworkChange::View { id: view(id)?, members: members(list)?, primary, why: why.to_owned() })
}

/// Members as `status` lists them.
pub(crate) fn list(members: &[MemberId]) -> String {
    members.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn members(text: &str) -> Option<Vec<MemberId>> {
    text.split_whitespace().map(member).collect()
}

fn member(text: &str) -> Option<MemberId> {
    let (node, incarnation) = text.strip_prefix('n')?.split_once('.')?;
    Some(MemberId { node: NodeId(node.parse().ok()?), incarnation: Incarnation(incarnation.parse().ok()?) })
}

fn view(text: &str) -> Option<ViewId> {
    let (number, representative) = text.split_once('@')?;
    Some(ViewId { number: number.parse().ok()?, representative: member(representative)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ViewId {
        ViewId { number: 9, representative: MemberId::new(1, 17) }
    }

    #[test]
    fn a_change_is_read_back_as_it_was_written() {
        let members = vec![MemberId::new(1, 17), MemberId::new(3, 19)];
        let why = "token lost after 151 ms; n2 (of rack 4), of old, primary no more".to_owned();
        for (change, text) in [
            (
                NetworkChange::View { id: id(), members: members.clone(), primary: Primary::Pending, why: why.clone() },
                format!("view 9@n1.17 of n1.17 n3.19, primary pending ({why})"),
            ),
            (
                NetworkChange::View {
                    id: id(),
                    members: members.clone(),
                    primary: Primary::NoPolicy,
                    why: "started".to_owned(),
                },
                "view 9@n1.17 of n1.17 n3.19, primary no policy (started)".to_owned(),
            ),
            (NetworkChange::Leaving { id: id(), members }, "leaving view 9@n1.17 with n1.17 n3.19".to_owned()),
            (
                NetworkChange::Primary { id: id() },
                "view 9@n1.17 is primary: all its members have installed it".to_owned(),
            ),
        ] {
            assert_eq!(change.to_string(), text);
            assert_eq!(text.parse(), Ok(change));
        }
    }

    #[test]
    fn what_is_no_change_is_not_taken_for_one() {
        for text in [
            "",
            "view",
            "view 9@n1 of n1.17, primary no (started)",
            "view 9@n1.17 of n1.17, primary maybe (started)",
            "view 9@n1.17 of n1.17, primary no (started",
            "view x@n1.17 is primary: all its members have installed it",
            "leaving view 9@n1.17 with 1.17",
        ] {
            assert_eq!(text.parse::<NetworkChange>(), Err(NoChange), "{text}");
        }
    }
}

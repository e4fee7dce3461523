//! Where the ring's token is, as one member knows it, and how that may change.
use super::Rotation;
use crate::io::RingIo;
use crate::packet::Token;
use consort_types::{Instant, MemberId};
use std::fmt;

/// Where the token is.
#[derive(Clone, Debug, Default)]
pub(super) enum TokenState {
    /// It has not come yet.
    #[default]
    Awaited,
    /// This node sent it to its successor, and keeps the copy.
    Passed(Token),
    /// It rests here, at the representative, until it goes round at that time.
    Parked(Token, Instant),
    /// The representative sent it to the one member that wants it, and keeps the copy.
    Granted { copy: Token, to: MemberId, round_at: Instant },
    /// This node, to which it was granted, sent it back, and keeps the copy.
    Returned(Token),
}

/// The states by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenStateName {
    Awaited,
    Passed,
    Parked,
    Granted,
    Returned,
}

impl fmt::Display for TokenStateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

impl TokenState {
    pub const fn name(&self) -> TokenStateName {
        match self {
            Self::Awaited => TokenStateName::Awaited,
            Self::Passed(_) => TokenStateName::Passed,
            Self::Parked(..) => TokenStateName::Parked,
            Self::Granted { .. } => TokenStateName::Granted,
            Self::Returned(_) => TokenStateName::Returned,
        }
    }

    /// What was sent last, to the byte.
    pub const fn copy(&self) -> Option<&Token> {
        match self {
            Self::Passed(copy) | Self::Granted { copy, .. } | Self::Returned(copy) => Some(copy),
            Self::Awaited | Self::Parked(..) => None,
        }
    }

    /// Whether it may be parked elsewhere by now: then it comes only if it is asked for.
    pub const fn may_rest_elsewhere(&self) -> bool {
        matches!(self, Self::Passed(copy) | Self::Returned(copy) if copy.idle > 0)
    }
}

/// From which state to which, and when.
const TRANSITIONS: [(TokenStateName, TokenStateName, &str); 12] = {
    use TokenStateName::{Awaited, Granted, Parked, Passed, Returned};
    [
        (Awaited, Passed, "the first token is made, or comes"),
        (Awaited, Parked, "a ring of one"),
        (Passed, Passed, "a token comes"),
        (Passed, Parked, "it comes to the representative with nothing to do"),
        (Passed, Returned, "it is granted and used"),
        (Parked, Parked, "the representative numbers, and needs no rotation"),
        (Parked, Granted, "one member asks"),
        (Parked, Passed, "it has rested, or several ask"),
        (Granted, Parked, "it comes back"),
        (Granted, Passed, "it comes back or round, with more to do"),
        (Returned, Returned, "it is granted again"),
        (Returned, Passed, "it comes round, or is granted and goes round"),
    ]
};

impl Rotation {
    /// The token is there from now on.
    pub(super) fn token_is(&mut self, io: &mut RingIo, state: TokenState) {
        let (from, to) = (self.token.name(), state.name());
        let allowed = TRANSITIONS.iter().any(|way| (way.0, way.1) == (from, to));
        io.check(allowed, "G15: the token goes only where its table says");
        self.token = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn the_page_shows_this_table() {
        //= R47 test
        let mut diagram = String::from("```mermaid\nstateDiagram-v2\n    [*] --> awaited: the ring forms\n");
        for (from, to, when) in TRANSITIONS {
            writeln!(diagram, "    {from} --> {to}: {when}").unwrap();
        }
        diagram.push_str("```\n");
        let page = include_str!("../../../../docs/protocols/ring.md");
        let shown = page.split_once("<!-- from token/state.rs -->\n").map(|(_, rest)| rest);
        assert!(shown.is_some_and(|shown| shown.starts_with(&diagram)), "put this into the page:\n{diagram}");
    }
}

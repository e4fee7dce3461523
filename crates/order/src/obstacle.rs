//! Why an engine will not order soon what is submitted now.
use consort_types::{NodeId, OrderWait};
use std::fmt;

/// What must change before anything that is submitted at a node is ordered. A node's readiness and the cause for which
/// clients wait both come from it, so that they never contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The members are being sought, or agree on a view.
    Membership,
    /// A quorum orders, and has not let this node in.
    Outside,
    /// A quorum of acceptors votes, and none of them leads yet: of this part of the order, if it has several.
    Leaderless(Option<u16>),
    /// Fewer acceptors vote than it takes.
    Quorum(Box<LackingQuorum>),
    /// The others have gone on in a view without this node, and it has not come to that in the order yet.
    Apart,
    /// This node is leaving.
    Leaving,
}

impl Obstacle {
    /// The same as the cause of a wait.
    pub fn wait(&self) -> OrderWait {
        match self {
            Self::Membership | Self::Outside | Self::Leaderless(_) | Self::Apart | Self::Leaving => {
                OrderWait::Membership
            }
            Self::Quorum(lacking) => lacking.part.map_or(OrderWait::Quorum, OrderWait::Ring),
        }
    }

    /// The same of a part of the order.
    #[must_use]
    pub fn of_part(self, part: u16) -> Self {
        match self {
            Self::Leaderless(_) => Self::Leaderless(Some(part)),
            Self::Quorum(lacking) => Self::Quorum(Box::new(LackingQuorum { part: Some(part), ..*lacking })),
            other => other,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Membership => f.write_str("the daemons are agreeing on who is there"),
            Self::Outside => f.write_str("the order has not let this node in yet"),
            Self::Leaderless(None) => f.write_str("no acceptor leads yet"),
            Self::Leaderless(Some(part)) => write!(f, "no acceptor leads ring {part} yet"),
            Self::Quorum(lacking) => lacking.fmt(f),
            Self::Apart => f.write_str("the others have gone on without this node"),
            Self::Leaving => f.write_str("this daemon is leaving"),
        }
    }
}

/// How many acceptors vote, and why the others do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LackingQuorum {
    /// Of which part of the order, if it has several.
    pub part: Option<u16>,
    /// None of those that run has voted before: all must run once, so that an order begins.
    pub begins: bool,
    /// How many must run and vote.
    pub needed: usize,
    /// How many there are.
    pub acceptors: usize,
    /// Those that do.
    pub voting: usize,
    /// Those that do not answer.
    pub silent: Vec<NodeId>,
    /// Those whose disks have kept nothing for a while.
    pub hanging: Vec<NodeId>,
    /// Those that know nothing of what they voted for.
    pub forgetful: Vec<NodeId>,
    /// Those that ask the others what they voted for, or are in another order.
    pub returning: Vec<NodeId>,
}

impl LackingQuorum {
    /// No order has begun: all must run, and those that know nothing have lost nothing.
    pub fn begin(&mut self, acceptors: usize) {
        (self.begins, self.needed) = (true, acceptors);
        self.voting += self.forgetful.len();
        self.forgetful.clear();
    }
}

/// `2 of 3 acceptors must run and vote, and 1 does: n2 does not answer; n3 has lost its votes`.
impl fmt::Display for LackingQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = if self.voting == 1 { "does" } else { "do" };
        if let Some(part) = self.part {
            write!(f, "ring {part}: ")?;
        }
        match self.begins {
            true => {
                let Self { acceptors, voting, .. } = self;
                write!(
                    f,
                    "no order is known here: one begins once all {acceptors} acceptors run, and {voting} {does}"
                )?;
            }
            false => {
                let Self { needed, acceptors, voting, .. } = self;
                write!(f, "{needed} of {acceptors} acceptors must run and vote, and {voting} {does}")?;
            }
        }
        let why: [(&[NodeId], [&str; 2]); 4] = [
            (&self.silent, ["does not answer", "do not answer"]),
            (&self.hanging, ["runs, but its disk hangs", "run, but their disks hang"]),
            (&self.forgetful, ["has lost its votes", "have lost their votes"]),
            (&self.returning, ["is not back in the order", "are not back in the order"]),
        ];
        let mut before = ": ";
        for (nodes, [one, several]) in why.iter().filter(|(nodes, _)| !nodes.is_empty()) {
            let names: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
            let what = if nodes.len() == 1 { one } else { several };
            write!(f, "{before}{} {what}", names.join(" "))?;
            before = "; ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_said_with_the_nodes_and_the_reason() {
        let nodes = |numbers: &[u16]| numbers.iter().copied().map(NodeId).collect::<Vec<_>>();
        let lacking =
            LackingQuorum { needed: 2, acceptors: 3, voting: 1, silent: nodes(&[2, 3]), ..Default::default() };
        assert_eq!(lacking.to_string(), "2 of 3 acceptors must run and vote, and 1 does: n2 n3 do not answer");
        let lacking = Obstacle::Quorum(Box::new(LackingQuorum {
            begins: false,
            needed: 3,
            acceptors: 5,
            voting: 2,
            silent: nodes(&[3]),
            hanging: nodes(&[4]),
            forgetful: nodes(&[5]),
            ..Default::default()
        }));
        assert_eq!(
            lacking.clone().of_part(7).to_string(),
            "ring 7: 3 of 5 acceptors must run and vote, and 2 do: n3 does not answer; n4 runs, but its disk hangs; \
             n5 has lost its votes"
        );
        assert_eq!((lacking.wait(), Obstacle::Leaving.wait()), (OrderWait::Quorum, OrderWait::Membership));
        assert_eq!(lacking.clone().of_part(3).wait(), OrderWait::Ring(3));
        let first = LackingQuorum { begins: true, acceptors: 3, voting: 2, silent: nodes(&[3]), ..Default::default() };
        assert_eq!(
            first.to_string(),
            "no order is known here: one begins once all 3 acceptors run, and 2 do: n3 does not answer"
        );
        assert_eq!(Obstacle::Leaderless(None).of_part(2).to_string(), "no acceptor leads ring 2 yet");
    }
}

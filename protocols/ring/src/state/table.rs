//! Which state may follow which, and on what. The engine does what the states answer; here is what they may answer.
use crate::state_name::RingStateName;

/// What a state answers with, without what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableStep {
    Gather,
    Commit,
    Recover,
    Install,
    Leave,
}

/// One way to go: from a state by a step to a state, and when that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    pub from: RingStateName,
    pub step: TableStep,
    pub to: RingStateName,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the page, which a test compares"))]
    pub when: &'static str,
}

const fn way(from: RingStateName, step: TableStep, to: RingStateName, when: &'static str) -> Transition {
    Transition { from, step, to, when }
}

/// All ways there are. In Gather the sets change without leaving the state.
pub(crate) const TRANSITIONS: [Transition; 18] = {
    use RingStateName::{Commit, Gather, Left, Operational, Recovery, Still};
    [
        way(Still, TableStep::Gather, Gather, "start"),
        way(Gather, TableStep::Commit, Commit, "all agree, it is the lowest"),
        way(Gather, TableStep::Commit, Commit, "commit token, its turn"),
        way(Gather, TableStep::Commit, Gather, "what it holds does not fit"),
        way(Commit, TableStep::Recover, Recovery, "second rotation"),
        way(Commit, TableStep::Gather, Gather, "commit token lost"),
        way(Commit, TableStep::Gather, Gather, "a member gave up"),
        way(Recovery, TableStep::Install, Operational, "all is recovered"),
        way(Recovery, TableStep::Gather, Gather, "token lost, or recovery_max"),
        way(Recovery, TableStep::Gather, Gather, "a member gave up"),
        way(Operational, TableStep::Gather, Gather, "token lost"),
        way(Operational, TableStep::Gather, Gather, "a member gathers, left, restarted or is deaf"),
        way(Operational, TableStep::Gather, Gather, "another ring found, or sequence numbers run out"),
        way(Still, TableStep::Leave, Left, "leave"),
        way(Gather, TableStep::Leave, Left, "leave"),
        way(Commit, TableStep::Leave, Left, "leave"),
        way(Recovery, TableStep::Leave, Left, "leave"),
        way(Operational, TableStep::Leave, Left, "leave, all is stable"),
    ]
};

/// Whether a step may lead from one state to another.
pub(crate) fn allows(from: RingStateName, step: TableStep, to: RingStateName) -> bool {
    //= M05
    TRANSITIONS.iter().any(|way| (way.from, way.step, way.to) == (from, step, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// The ways from one state to another on one line.
    fn diagram() -> String {
        let mut lines = String::from("```mermaid\nstateDiagram-v2\n");
        let mut done = Vec::new();
        for Transition { from, to, .. } in TRANSITIONS {
            if done.contains(&(from, to)) || (from, to) == (RingStateName::Still, RingStateName::Left) {
                continue;
            }
            done.push((from, to));
            let ways = TRANSITIONS.iter().filter(|way| (way.from, way.to) == (from, to));
            let when: Vec<_> = ways.map(|way| way.when).collect();
            let from = if from == RingStateName::Still { "[*]" } else { from.as_str() };
            let to = if to == RingStateName::Left { "[*]" } else { to.as_str() };
            writeln!(lines, "    {from} --> {to}: {}", when.join(" / ")).unwrap();
        }
        lines.push_str("```\n");
        lines
    }

    #[test]
    fn the_page_shows_this_table() {
        //= M05 test
        let page = include_str!("../../../../docs/protocols/membership.md");
        let shown = page.split_once("<!-- from state/table.rs -->\n").map(|(_, rest)| rest);
        let diagram = diagram();
        assert!(shown.is_some_and(|shown| shown.starts_with(&diagram)), "put this into the page:\n{diagram}");
    }

    #[test]
    fn every_state_can_be_reached_and_only_left_is_an_end() {
        //= M05 test
        let mut reached = vec![RingStateName::Still];
        for _ in 0..TRANSITIONS.len() {
            let next =
                TRANSITIONS.iter().filter(|way| reached.contains(&way.from)).map(|way| way.to).collect::<Vec<_>>();
            reached.extend(next);
        }
        use RingStateName::{Commit, Gather, Left, Operational, Recovery, Still};
        for name in [Gather, Commit, Recovery, Operational, Left] {
            assert!(reached.contains(&name), "{name}");
        }
        for name in [Still, Gather, Commit, Recovery, Operational] {
            assert!(allows(name, TableStep::Leave, Left), "{name}");
        }
        assert!(TRANSITIONS.iter().all(|way| way.from != Left));
        assert!(!allows(Gather, TableStep::Recover, Recovery) && !allows(Commit, TableStep::Install, Operational));
    }
}

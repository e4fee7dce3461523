//! What becomes of a client that does not read what it is told.
use crate::reason::codes;
use consort_types::{Duration, GroupName};
use consort_wire::{Malformed, Reader};
use std::fmt;

codes! {
    /// What a daemon does about a client that does not read.
    SlowPolicy {
        /// Keeps some bytes for it, then sends it away.
        Disconnect = 1 "disconnect",
        /// Keeps what it has yet to read on disk.
        Spool = 2 "spool",
        /// Has those wait who send to its groups.
        Block = 3 "block",
        /// Takes it out of its groups, and lets it read them by position.
        Demote = 4 "demote",
    }
}

impl SlowPolicy {
    /// How patient it is with the client: more than another, or less.
    pub const fn patience(self) -> u8 {
        match self {
            Self::Disconnect => 0,
            Self::Demote => 1,
            Self::Spool => 2,
            Self::Block => 3,
        }
    }
}

/// What a client asks for in its hello. Budgets are its wishes: a daemon's own bound them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// What is to be done.
    pub policy: SlowPolicy,
    /// So many bytes at most may wait for it: in all with `disconnect`, on disk with `spool`, before others wait with
    /// `block`, before it is made to leave with `demote`. 0 for as many as the daemon allows.
    pub bytes: u64,
    /// For so long it may read nothing, or with `block` have others wait; whole milliseconds. `None` for as long as the
    /// daemon allows.
    pub time: Option<Duration>,
}

impl SlowRequest {
    /// This policy, with the daemon's budgets.
    pub const fn new(policy: SlowPolicy) -> Self {
        Self { policy, bytes: 0, time: None }
    }

    pub(crate) fn put(self, out: &mut bytes::BytesMut) {
        use bytes::BufMut;
        out.put_u8(self.policy as u8);
        out.put_u64(self.bytes);
        out.put_u32(self.time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let before = reader.clone();
        let policy = SlowPolicy::from_wire(reader.u8("slow policy")?).ok_or(before.bad("slow policy"))?;
        let (bytes, ms) = (reader.u64("slow bytes")?, reader.u32("slow time")?);
        let time = (ms > 0).then(|| Duration::from_millis(u64::from(ms)));
        Ok(Self { policy, bytes, time })
    }
}

impl From<SlowPolicy> for SlowRequest {
    fn from(policy: SlowPolicy) -> Self {
        Self::new(policy)
    }
}

/// Some of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowPolicies(u8);

impl SlowPolicies {
    /// These.
    pub fn of(policies: &[SlowPolicy]) -> Self {
        Self(policies.iter().fold(0, |set, policy| set | 1 << *policy as u8))
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, policy: SlowPolicy) -> Self {
        Self(self.0 | 1 << policy as u8)
    }

    /// Whether this is one of them.
    pub const fn has(self, policy: SlowPolicy) -> bool {
        self.0 & 1 << policy as u8 != 0
    }
}

/// The policies and budgets of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowLimits {
    /// For clients that ask for none, in groups of which nothing is said.
    pub policy: SlowPolicy,
    /// What clients may ask for.
    pub allowed: SlowPolicies,
    /// For how long a client may read nothing of what waits for it, but with `block`; `None` for ever.
    pub unread_for: Option<Duration>,
    /// With `block`, so many bytes may wait for a client before those who send to its groups wait.
    pub block: usize,
    /// And for so long they wait for it.
    pub block_for: Duration,
    /// With `spool`, so many bytes wait for a client in memory before more goes to disk.
    pub spool_from: usize,
    /// So many bytes of one client may lie there.
    pub spool: u64,
    /// And so many of all clients together.
    pub spools: u64,
}

impl Default for SlowLimits {
    fn default() -> Self {
        Self {
            policy: SlowPolicy::Disconnect,
            allowed: SlowPolicies::of(&[SlowPolicy::Disconnect, SlowPolicy::Spool, SlowPolicy::Demote]),
            unread_for: None,
            block: 1 << 20,
            block_for: Duration::from_secs(10),
            spool_from: 1 << 20,
            spool: 1 << 30,
            spools: 8 << 30,
        }
    }
}

/// What is said of groups: the policy for their members that ask for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRule {
    /// A group's name, or the beginning of many with a `*` behind it.
    pub pattern: String,
    /// What is done.
    pub policy: SlowPolicy,
}

impl SlowRule {
    /// Whether it is about this group.
    pub fn matches(&self, group: &GroupName) -> bool {
        match self.pattern.strip_suffix('*') {
            Some(front) => group.as_bytes().starts_with(front.as_bytes()),
            None => group.as_bytes() == self.pattern.as_bytes(),
        }
    }

    /// What is said of this group: by the longest pattern that matches it.
    pub fn of(rules: &[Self], group: &GroupName) -> Option<SlowPolicy> {
        let matching = rules.iter().filter(|rule| rule.matches(group));
        matching.max_by_key(|rule| rule.pattern.len()).map(|rule| rule.policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, policy: SlowPolicy) -> SlowRule {
        SlowRule { pattern: pattern.into(), policy }
    }

    #[test]
    fn the_longest_pattern_that_matches_a_group_counts() {
        let rules = [rule("*", SlowPolicy::Spool), rule("a*", SlowPolicy::Block), rule("ab", SlowPolicy::Disconnect)];
        let of = |name: &str| SlowRule::of(&rules, &GroupName::new(name.as_bytes()).unwrap());
        let wanted = [("b", SlowPolicy::Spool), ("abc", SlowPolicy::Block), ("ab", SlowPolicy::Disconnect)];
        assert!(wanted.iter().all(|(name, policy)| of(name) == Some(*policy)));
        assert_eq!(SlowRule::of(&rules[1..], &GroupName::new(b"b").unwrap()), None);
    }

    #[test]
    fn block_is_the_most_patient_and_disconnect_the_least() {
        let mut all = SlowPolicy::ALL.to_vec();
        all.sort_by_key(|policy| policy.patience());
        assert_eq!(all, [SlowPolicy::Disconnect, SlowPolicy::Demote, SlowPolicy::Spool, SlowPolicy::Block]);
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let set = SlowPolicies::of(&[SlowPolicy::Disconnect]).with(SlowPolicy::Block);
        assert!(set.has(SlowPolicy::Disconnect) && set.has(SlowPolicy::Block) && !set.has(SlowPolicy::Spool));
    }
}

//! What is done about clients that do not read, as the file says it.
use super::SLOW_POLICIES;
use super::reader::{Section, set};
use crate::words;
use consort_node::{SlowLimits, SlowPolicies, SlowPolicy, SlowRule};
use consort_types::GroupName;
use std::time::Duration;

/// The shortest and the longest that a client may be waited for.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(6 * 60 * 60);

/// Reads what stands below `[clients]`.
pub fn read_limits(section: &mut Section<'_, '_>, slow: &mut SlowLimits) {
    set(&mut slow.policy, section.choice("slow", &SLOW_POLICIES));
    let allowed = section.texts("slow_allowed", policy);
    set(&mut slow.allowed, allowed.map(|allowed| SlowPolicies::of(&allowed)));
    if let Some(time) = section.duration_in("unread_for", Duration::ZERO..=*TIMES.end()) {
        slow.unread_for = (time > Duration::ZERO).then_some(time);
    }
    set(&mut slow.block, section.number("block", 65_536..=1 << 32));
    set(&mut slow.block_for, section.duration_in("block_for", TIMES));
    set(&mut slow.spool_from, section.number("spool_from", 65_536..=1 << 32));
    set(&mut slow.spool, section.number("spool", 1 << 20..=1 << 44));
    set(&mut slow.spools, section.number("spools", 1 << 20..=1 << 44));
}

/// Reads the tables below `[groups]`, one for each pattern.
pub fn read_rules(section: &mut Section<'_, '_>) -> Vec<SlowRule> {
    let mut rules = Vec::new();
    section.each_named(|pattern, section| {
        let front = pattern.strip_suffix('*').unwrap_or(pattern);
        let is_name = front.is_empty() && pattern == "*" || GroupName::new(front.as_bytes()).is_ok();
        if !is_name || front.contains('*') {
            section
                .wrong("slow", format!("\"{pattern}\" is no group's name, nor the beginning of one and a * behind it"));
        }
        let policy = section.choice("slow", &SLOW_POLICIES);
        let policy = section.require("slow", policy, "say what is done: slow = \"block\"");
        rules.extend(policy.map(|policy| SlowRule { pattern: pattern.to_owned(), policy }));
    });
    rules
}

fn policy(text: &str) -> Result<SlowPolicy, String> {
    let found = SLOW_POLICIES.iter().find(|(name, _)| *name == text).map(|(_, policy)| *policy);
    found.ok_or_else(|| {
        let names: Vec<_> = SLOW_POLICIES.iter().map(|(name, _)| *name).collect();
        format!("\"{text}\" is not known; choose {}", words::either(&names))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, file};
    use super::*;

    const NODE: &str = "cluster = \"c\"\n[[node]]\nid = 1\naddress = \"192.0.2.1\"\n";

    fn read(more: &str) -> Result<Settings, String> {
        file::parse("f", &format!("{NODE}{more}")).map_err(|failure| failure.message.replace("\n         ", "\n"))
    }

    #[test]
    fn policies_and_budgets_are_read_for_all_and_by_group() {
        let all = "[clients]\nslow = \"spool\"\nslow_allowed = [\"block\"]\nunread_for = \"30s\"\nblock = 100000\n\
                   block_for = \"2s\"\nspool_from = 70000\nspool = 2000000\nspools = 3000000\n\
                   [groups.\"ledger*\"]\nslow = \"block\"\n[groups]\nnews.slow = \"disconnect\"\n";
        let settings = read(all).unwrap();
        let wanted = SlowLimits {
            policy: SlowPolicy::Spool,
            allowed: SlowPolicies::of(&[SlowPolicy::Block]),
            unread_for: Some(Duration::from_secs(30)),
            block: 100_000,
            block_for: Duration::from_secs(2),
            spool_from: 70_000,
            spool: 2_000_000,
            spools: 3_000_000,
        };
        assert_eq!(settings.limits.slow, wanted);
        let rule = |pattern: &str, policy| SlowRule { pattern: pattern.into(), policy };
        let rules = [rule("ledger*", SlowPolicy::Block), rule("news", SlowPolicy::Disconnect)];
        assert_eq!(settings.slow_rules, rules);
        assert_eq!(read("").unwrap().limits.slow, SlowLimits::default());
    }

    #[test]
    fn what_does_not_fit_is_told_with_line_and_remedy() {
        let problem = |more: &str| read(more).unwrap_err();
        assert_eq!(
            problem("[clients]\nslow = \"wait\"\n"),
            "f:6: clients.slow: \"wait\" is not known; choose disconnect, spool, block or demote"
        );
        let allowed = problem("[clients]\nslow_allowed = [\"spool\", \"wait\"]\n");
        assert_eq!(
            allowed,
            "f:6: clients.slow_allowed: \"wait\" is not known; choose disconnect, spool, block or demote"
        );
        let block = problem("[clients]\nblock = 10\n");
        assert_eq!(block, "f:6: clients.block: 10 is out of range; give a whole number from 65536 to 4294967296");
        let time = problem("[clients]\nblock_for = \"1ms\"\n");
        assert!(time.starts_with("f:6: clients.block_for: 1ms is out of range; give a time from \"100ms\""), "{time}");
        let pattern = problem("[groups.\"a b*\"]\nslow = \"block\"\n");
        assert!(pattern.contains("\"a b*\" is no group's name, nor the beginning of one"), "{pattern}");
        let missing = problem("[groups.news]\n");
        assert!(missing.contains("groups.news.slow: is missing; say what is done: slow = \"block\""), "{missing}");
        let unknown = problem("[groups.news]\nslow = \"block\"\nfast = 1\n");
        assert!(unknown.contains("groups.news.fast: there is no such key"), "{unknown}");
        assert!(problem("[groups]\nnews = 1\n").contains("groups.news: 1 is not a table of keys"));
    }
}

use super::*;
use consort_types::Rng;

fn rule(name: &str, who: &[&str], groups: &[&str], allow: &[Verb], deny: &[Verb]) -> Rule {
    Rule {
        name: name.to_owned(),
        who: who.iter().map(|who| who.parse().unwrap()).collect(),
        groups: groups.iter().map(|group| Glob::new(group)).collect(),
        allow: allow.iter().copied().collect(),
        deny: deny.iter().copied().collect(),
        ..Rule::default()
    }
}

fn at(text: &str) -> Identity {
    Identity::at(text.parse().unwrap())
}

const ALL: &[Verb] = &Verb::ALL;

/// What is allowed of join, send, receive and see, in this order.
fn allowed(rules: &Rules, identity: &Identity, group: &str) -> String {
    let may = |verb: &Verb| if rules.judge(identity, group.as_bytes(), *verb).is_ok() { '+' } else { '-' };
    [Verb::Join, Verb::Send, Verb::Receive, Verb::See].iter().map(may).collect()
}

#[test]
fn every_transport_identity_and_verb() {
    use Verb::{Join, Receive, See, Send};
    let rules = Rules::new(vec![
        rule("no-audit", &["token:audit-*"], &["*"], &[], &[Send]),
        rule("audit", &["token:audit-*", "certificate:auditor"], &["*", "#*"], &[Join, Receive, See], &[]),
        rule("desk", &["user:1000", "group:50"], &["orders", "orders.*"], ALL, &[]),
        rule("office", &["address:10.1.0.0/16"], &["orders.eu"], &[Join, Send], &[]),
        rule("tcp-looks", &["tcp"], &["news.*"], &[Receive, See], &[]),
        rule("unix-news", &["unix"], &["news.*"], &[Send], &[]),
    ]);
    let identities = [
        ("unknown", Identity::UNKNOWN),
        ("unix, user 1000", Identity::of_user(1000, 1000)),
        ("unix, group 50", Identity::of_user(7, 50)),
        ("unix, another", Identity::of_user(0, 0)),
        ("tcp, office", at("10.1.200.1")),
        ("tcp, elsewhere", at("192.0.2.1")),
        ("tcp, token", at("192.0.2.1").with_token("audit-1")),
        ("tcp, token, office", at("10.1.0.1").with_token("audit-1")),
        ("tcp, other token", at("192.0.2.1").with_token("other")),
        ("tcp, certificate", at("192.0.2.1").with_certificate("auditor")),
        ("unix, token", Identity::of_user(1000, 50).with_token("audit-1")),
    ];
    let groups = ["orders", "orders.eu", "news.de", "other", "#bob#n1"];
    let table = [
        ["----", "----", "----", "----", "----"],
        ["++++", "++++", "-+--", "----", "----"],
        ["++++", "++++", "-+--", "----", "----"],
        ["----", "----", "-+--", "----", "----"],
        ["----", "++--", "--++", "----", "----"],
        ["----", "----", "--++", "----", "----"],
        ["+-++", "+-++", "+-++", "+-++", "+-++"],
        ["+-++", "+-++", "+-++", "+-++", "+-++"],
        ["----", "----", "--++", "----", "----"],
        ["+-++", "+-++", "+-++", "+-++", "+-++"],
        ["+-++", "+-++", "+-++", "+-++", "+-++"],
    ];
    for ((name, identity), row) in identities.iter().zip(table) {
        for (group, expected) in groups.iter().zip(row) {
            assert_eq!(allowed(&rules, identity, group), expected, "{name}, {group}");
        }
    }
}

#[test]
fn who_may_join_and_send_may_neither_close_a_group_nor_keep_the_log_for_it() {
    let most = [Verb::Join, Verb::Send, Verb::Receive, Verb::See];
    let rules = Rules::new(vec![
        rule("most", &["user:1"], &["g"], &most, &[]),
        rule("log", &["user:2"], &["g"], &[Verb::Keep, Verb::Close], &[]),
    ]);
    let denied = |user, verb| rules.judge(&Identity::of_user(user, user), b"g", verb).map_err(|denial| denial.text);
    assert_eq!(denied(1, Verb::Close), Err("user:1 may not close g: no rule allows it".into()));
    let text = "user:1 may not bind, declare or withdraw copies of g: no rule allows it";
    assert_eq!(denied(1, Verb::Keep), Err(text.into()));
    assert!(denied(2, Verb::Close).is_ok() && denied(2, Verb::Keep).is_ok() && denied(2, Verb::Join).is_err());
}

#[test]
fn without_rules_everything_is_allowed_and_with_one_nothing_else_is() {
    let (free, one) = (Rules::default(), Rules::new(vec![rule("one", &["user:1"], &["a"], &[Verb::Send], &[])]));
    for identity in [Identity::UNKNOWN, Identity::of_user(1, 1), at("10.0.0.1")] {
        assert_eq!(allowed(&free, &identity, "a"), "++++");
        assert_eq!(allowed(&one, &identity, "b"), "----");
        assert_eq!(allowed(&one, &identity, "a") == "-+--", identity == Identity::of_user(1, 1));
        assert!(free.judge_name(&identity, "bob").is_ok() && one.judge_name(&identity, "bob").is_ok());
    }
}

#[test]
fn a_denial_names_the_rule_or_says_that_there_is_none() {
    let rules = Rules::new(vec![
        rule("quiet", &["user:1"], &["orders.*"], &[], &[Verb::Send]),
        rule("all", &["user:1"], &["orders.*"], ALL, &[]),
        rule("both", &["user:2"], &["*"], ALL, &[Verb::See]),
    ]);
    let text = |user, group: &str, verb| {
        rules.judge(&Identity::of_user(user, 0), group.as_bytes(), verb).unwrap_err().to_string()
    };
    assert_eq!(text(1, "orders.eu", Verb::Send), "user:1 may not send to orders.eu: rule quiet denies it");
    assert_eq!(text(1, "news", Verb::Join), "user:1 may not join news: no rule allows it");
    assert_eq!(text(2, "news", Verb::See), "user:2 may not see who is in news: rule both denies it");
    let receive = "user:3 may not receive what is sent to news: no rule allows it";
    assert_eq!(text(3, "news", Verb::Receive), receive);
}

#[test]
fn the_first_rule_decides() {
    let (yes, no) = (rule("yes", &["*"], &["a*"], ALL, &[]), rule("no", &["unix"], &["ab*"], &[], ALL));
    let (first, last) = (Rules::new(vec![no.clone(), yes.clone()]), Rules::new(vec![yes, no]));
    let user = Identity::of_user(1, 1);
    assert_eq!((allowed(&first, &user, "abc"), allowed(&first, &user, "acc")), ("----".into(), "++++".into()));
    assert_eq!(allowed(&last, &user, "abc"), "++++");
}

#[test]
fn names_follow_from_identities_and_are_kept_from_others() {
    let named = |name: &str, who: &str, names: &[&str]| Rule {
        names: names.iter().map(|name| Glob::new(name)).collect(),
        ..rule(name, &[who], &["*"], ALL, &[])
    };
    let rules = Rules::new(vec![
        named("billing", "token:billing", &["billing-*", "b"]),
        named("desk", "user:7", &["desk-*"]),
        named("night", "user:7", &["night-*"]),
    ]);
    let called = |identity: &Identity, name: &str| rules.judge_name(identity, name).map_err(|denial| denial.text);
    let billing = at("10.0.0.1").with_token("billing");
    assert_eq!(called(&billing, "billing-1"), Ok(()));
    assert_eq!(called(&billing, "b"), Ok(()));
    let text = "token:billing may not be called bob: rule billing allows billing-*, b";
    assert_eq!(called(&billing, "bob"), Err(text.into()));
    assert_eq!(called(&Identity::of_user(7, 7), "night-2"), Ok(()), "any rule of its own");
    let text = "user:8 may not be called billing-1: rule billing keeps the name for others";
    assert_eq!(called(&Identity::of_user(8, 8), "billing-1"), Err(text.into()));
    assert_eq!(called(&Identity::of_user(8, 8), "bob"), Ok(()));
}

#[test]
fn of_each_limit_the_first_rule_that_says_something_counts() {
    let limited = |who: &str, connections, bytes_per_second, groups| Rule {
        limits: IdentityLimits { connections, bytes_per_second, groups, producers: groups },
        ..rule("limits", &[who], &[], &[], &[])
    };
    let rules = Rules::new(vec![
        limited("user:1", Some(2), None, None),
        limited("unix", Some(9), Some(1_000), None),
        limited("*", None, Some(10), Some(3)),
    ]);
    let limits = |connections, bytes_per_second, groups| IdentityLimits {
        connections,
        bytes_per_second,
        groups,
        producers: groups,
    };
    assert_eq!(rules.limits(&Identity::of_user(1, 1)), limits(Some(2), Some(1_000), Some(3)));
    assert_eq!(rules.limits(&Identity::of_user(2, 2)), limits(Some(9), Some(1_000), Some(3)));
    assert_eq!(rules.limits(&at("10.0.0.1")), limits(None, Some(10), Some(3)));
    assert_eq!(Rules::default().limits(&Identity::of_user(1, 1)), IdentityLimits::default());
}

#[test]
fn no_more_is_ever_allowed_than_some_rule_says() {
    let mut rng = Rng::new(11);
    let who = ["*", "unix", "tcp", "user:1", "group:1", "address:10.0.0.0/8", "token:a*", "certificate:*"];
    let groups = ["*", "a", "a*", "*b", "#*", "b"];
    let identities = [
        Identity::of_user(1, 2),
        Identity::of_user(2, 1),
        at("10.0.0.1"),
        at("10.0.0.1").with_token("ab"),
        Identity::UNKNOWN,
    ];
    for _ in 0..2_000 {
        let mut pick = |from: &[&'static str]| from[rng.below(from.len() as u64) as usize];
        let all: Vec<_> = (0..4).map(|n| (n, pick(&who), pick(&groups))).collect();
        let made = |n: &u32, who: &str, group: &str, says: bool| {
            let (allow, deny): (&[Verb], &[Verb]) = if says { (ALL, &[]) } else { (&[], ALL) };
            rule(&n.to_string(), &[who], &[group], allow, deny)
        };
        let signs: Vec<bool> = all.iter().map(|_| rng.chance(0.6)).collect();
        let rules: Vec<Rule> =
            all.iter().zip(&signs).map(|((n, who, group), says)| made(n, who, group, *says)).collect();
        let judged = Rules::new(rules.clone());
        for identity in &identities {
            for group in ["a", "ab", "b", "#a#n1"] {
                let first = rules.iter().zip(&signs).find(|(rule, _)| {
                    rule.who.iter().any(|who| who.fits(identity)) && rule.groups[0].fits(group.as_bytes())
                });
                let may = first.is_some_and(|(_, says)| *says);
                assert_eq!(allowed(&judged, identity, group), if may { "++++" } else { "----" });
            }
        }
    }
}

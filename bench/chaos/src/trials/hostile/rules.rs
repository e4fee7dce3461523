//! A file of many rules, of which the last ones allow what the trial needs: a daemon looks at all others before.
use rustix::process::geteuid;

const VERBS: &str = "\"join\", \"send\", \"receive\", \"see\", \"close\", \"keep\"";

/// This number of rules. All but two concern every client and other groups than there are.
pub fn text(count: usize) -> String {
    let other = |number| {
        let groups = format!("\"app-{number}.*\", \"*.audit-{number}\", \"#app-{number}-*\"");
        rule(&format!("other-{number}"), "*", &groups)
    };
    let hostile = rule("hostile", &format!("user:{}", geteuid().as_raw()), "\"*\", \"#*\"");
    let good = rule("good", "token:*", "\"*\", \"#*\"");
    (0..count.saturating_sub(2)).map(other).chain([hostile, good]).collect()
}

fn rule(name: &str, who: &str, groups: &str) -> String {
    format!("[[rights]]\nrule = \"{name}\"\nwho = [\"{who}\"]\ngroups = [{groups}]\nallow = [{VERBS}]\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::stage::config;

    #[test]
    fn a_daemon_reads_all_rules_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("consort.toml");
        std::fs::write(&file, config(1, "ring", "") + "\n" + &text(200)).unwrap();
        let settings = consort_daemon::config::read(&file).map_err(|failure| failure.message).unwrap();
        let names: Vec<_> = settings.rights.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[197]), (200, "other-0", "other-197"));
        assert_eq!(names[198..], ["hostile", "good"]);
        assert!(settings.rights.iter().all(|rule| rule.allow == settings.rights[0].allow));
    }
}

//! Rules for clients: `[[rights]]`, in the daemon's file or in one of their own.
use super::reader::{Notes, Section};
use crate::failure::{Failure, Outcome};
use crate::security::check_writers;
use consort_rights::{Glob, IdentityLimits, Rule, Verb, Verbs, Who};
use consort_types::GroupName;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A file that is longer is no file of rules.
const LONGEST: u64 = 4 << 20;

/// Reads all rules of a table, in their order. Those without a name are called by their number.
pub fn read(root: &mut Section<'_, '_>) -> Vec<Rule> {
    let mut rules = Vec::new();
    root.each("rights", |section| {
        let number = rules.len() + 1;
        rules.extend(rule(section, number));
    });
    rules
}

/// Reads a file that holds rules and nothing else.
///
/// # Errors
/// It cannot be read, or something in it is wrong; all of that is told.
pub fn read_file(path: &Path) -> Outcome<Vec<Rule>> {
    let name = path.display().to_string();
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("cannot read the rules in {name}: {error}"));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    check_writers(&file.metadata().map_err(|error| failed(&error))?, path)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > LONGEST {
        return Err(failed(&format!("it is longer than {LONGEST} bytes")));
    }
    parse(&name, &text)
}

fn parse(name: &str, text: &str) -> Outcome<Vec<Rule>> {
    let mut notes = Notes::new(text);
    let rules = notes.parse(text).map(|table| {
        let mut root = Section::root(&mut notes, table.get_ref());
        let rules = read(&mut root);
        root.finish();
        rules
    });
    match rules {
        Some(rules) if notes.problems.is_empty() => Ok(rules),
        _ => Err(notes.refusal(name)),
    }
}

fn rule(section: &mut Section<'_, '_>, number: usize) -> Option<Rule> {
    let name = section.text("rule", name_of_rule).unwrap_or_else(|| number.to_string());
    let who = section.texts("who", |text| text.parse::<Who>().map_err(|error| error.to_string()));
    let who =
        section.require("who", who, "say whom the rule concerns: who = [\"user:1000\"], or [\"*\"] for everybody");
    let (allow, deny) = (verbs(section, "allow"), verbs(section, "deny"));
    let groups = section.texts("groups", group);
    let says = allow != Verbs::NONE || deny != Verbs::NONE;
    let groups = match says {
        true => section.require(
            "groups",
            groups,
            "say which groups it concerns: groups = [\"orders.*\"], or [\"*\"] for all",
        ),
        false => Some(groups.unwrap_or_default()),
    };
    let names = section.texts("names", client_name).unwrap_or_default();
    let limits = IdentityLimits {
        connections: section.number("connections", 0..=1 << 20),
        bytes_per_second: section.number("bytes_per_second", 1..=1 << 40),
        groups: section.number("member_of", 0..=1 << 17),
        producers: section.number("producers", 0..=1 << 14),
    };
    if !says && names.is_empty() && limits == IdentityLimits::default() {
        section.wrong(
            "allow",
            "nothing is said: give allow, deny, names, connections, bytes_per_second, member_of or producers",
        );
    }
    Some(Rule { name, who: who?, groups: groups?, allow, deny, names, limits })
}

fn name_of_rule(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(text.to_owned())
    } else {
        Err("a rule's name has 1 to 64 printable ASCII characters, no space".into())
    }
}

fn verbs(section: &mut Section<'_, '_>, key: &'static str) -> Verbs {
    let read = |text: &str| {
        let found = Verb::ALL.into_iter().find(|verb| verb.name() == text);
        found.ok_or_else(|| {
            format!("\"{text}\" is nothing that can be allowed; give join, send, receive, see, close or keep")
        })
    };
    section.texts(key, read).unwrap_or_default().into_iter().collect()
}

fn group(text: &str) -> Result<Glob, String> {
    // A star is a character of a name like others: what fits no name fits nothing.
    let name = text.strip_prefix('#').unwrap_or(text);
    match GroupName::new(name) {
        Ok(_) => Ok(Glob::new(text)),
        Err(_) => Err(format!("\"{text}\" is no pattern of groups; write \"orders.*\", or \"#*\" for all clients")),
    }
}

fn client_name(text: &str) -> Result<Glob, String> {
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if fits { Ok(Glob::new(text)) } else { Err(format!("\"{text}\" is no pattern of names; write \"billing-*\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_rights::{Identity, Rules};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn rules_are_read_in_their_order() {
        let text = r##"
[[rights]]
rule = "no-audit"
who = ["token:audit-*"]
groups = ["*"]
deny = ["send"]
[[rights]]
who = ["user:1000", "address:10.0.0.0/8"]
groups = ["orders.*", "#*"]
allow = ["join", "send", "receive", "see"]
names = ["billing-*"]
connections = 10
bytes_per_second = 1_000_000
member_of = 100
producers = 20
"##;
        let rules = parse("rights.toml", text).unwrap();
        assert_eq!(rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["no-audit", "2"]);
        let limits = IdentityLimits {
            connections: Some(10),
            bytes_per_second: Some(1_000_000),
            groups: Some(100),
            producers: Some(20),
        };
        let rules = Rules::new(rules);
        let user = Identity::of_user(1000, 1);
        assert_eq!(rules.limits(&user), limits);
        let may = |group: &[u8], verb| rules.judge(&user, group, verb).is_ok();
        assert!(
            Verb::ALL[..4]
                .iter()
                .all(|verb| may(b"orders.eu", *verb) && may(b"#bob#n1", *verb) && !may(b"other", *verb))
        );
        assert!(rules.judge_name(&user, "bob").is_err() && rules.judge_name(&user, "billing-1").is_ok());
        assert_eq!(parse("rights.toml", "").unwrap(), []);
    }

    #[test]
    fn whatever_is_wrong_is_told_with_its_line_and_what_to_do() {
        let problem = |text: &str| parse("r.toml", text).unwrap_err().message;
        for (text, told) in [
            ("[[rights]]\n", "r.toml:1: rights.who: is missing; say whom the rule concerns"),
            (
                "[[rights]]\nwho = [\"root\"]\nconnections = 1\n",
                "r.toml:2: rights.who: \"root\" names nobody; write *, unix",
            ),
            ("[[rights]]\nwho = [\"*\"]\n", "rights.allow: nothing is said: give allow, deny"),
            ("[[rights]]\nwho = [\"*\"]\nallow = [\"send\"]\n", "rights.groups: is missing; say which groups"),
            (
                "[[rights]]\nwho = [\"*\"]\ngroups = [\"a b\"]\nallow = [\"send\"]\n",
                "3: rights.groups: \"a b\" is no pattern",
            ),
            (
                "[[rights]]\nwho = [\"*\"]\ngroups = [\"*\"]\nallow = [\"sned\"]\n",
                "\"sned\" is nothing that can be allowed",
            ),
            ("[[rights]]\nwho = [\"*\"]\ngroup = [\"*\"]\nconnections = 1\n", "did you mean groups?"),
            ("[[rights]]\nwho = [\"*\"]\nnames = [\"#x\"]\n", "\"#x\" is no pattern of names"),
            ("[[rights]]\nwho = [\"*\"]\nrule = \"a b\"\nconnections = 1\n", "a rule's name has 1 to 64"),
            ("[[rights]]\nwho = [\"*\"]\nbytes_per_second = 0\n", "bytes_per_second: 0 is out of range"),
            ("[rights]\nwho = [\"*\"]\n", "write one [[rights]] for each"),
            ("cluster = \"x\"\n", "r.toml:1: cluster: there is no such key; known here: rights"),
            ("[[rights\n", "this is not TOML"),
        ] {
            let message = problem(text);
            assert!(message.contains(told), "{text}: {message}");
        }
    }

    #[test]
    fn a_file_that_others_may_write_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rights.toml");
        std::fs::write(&path, "[[rights]]\nwho = [\"*\"]\nconnections = 1\n").unwrap();
        for (mode, is_read) in [(0o644, true), (0o664, true), (0o600, true), (0o666, false), (0o602, false)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = read_file(&path).map_err(|failure| failure.message);
            let refused = format!("may be changed by others (mode {mode:04o}");
            let is_refused = read.as_ref().is_err_and(|message| message.contains(&refused));
            assert_eq!((read.is_ok(), is_refused), (is_read, !is_read), "{mode:o}: {read:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let message = read_file(Path::new("/nowhere/rights.toml")).unwrap_err().message;
        assert!(message.starts_with("cannot read the rules in /nowhere/rights.toml: No such file"), "{message}");
    }
}

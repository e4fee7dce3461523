//! `cargo xtask search`: the exhaustive searches, which are programs of their own because they build protocols with their
//! inside open.
use std::ffi::OsString;
use std::process::ExitCode;

/// The programs by their protocols.
const SEARCHES: [(&str, &str); 2] = [("ring", "consort-ring-model"), ("paxos", "consort-paxos-model")];

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    match chosen(&words) {
        Ok((packages, words)) => {
            let all = packages.iter().all(|package| run(package, words));
            if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(misuse) => {
            eprintln!("search: {misuse}");
            ExitCode::from(2)
        }
    }
}

/// Which programs to run, and with which words. Without any, all of them; the ring's where words name no protocol.
fn chosen(words: &[OsString]) -> Result<(Vec<&'static str>, &[OsString]), String> {
    let [first, rest @ ..] = words else { return Ok((SEARCHES.map(|(_, package)| package).into(), words)) };
    if first != "--protocol" {
        return Ok((vec![SEARCHES[0].1], words));
    }
    let name = rest.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let found = SEARCHES.iter().find(|(known, _)| *known == name);
    let names = SEARCHES.map(|(name, _)| name).join(" and ");
    let (_, package) = found.ok_or_else(|| format!("no search of `{name}`; there are {names}"))?;
    Ok((vec![package], &rest[1..]))
}

fn run(package: &str, words: &[OsString]) -> bool {
    let arguments = ["run", "--profile", "tools", "--quiet", "--package", package, "--"];
    match consort_cargo::cargo().args(arguments).args(words).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("search: cargo cannot be run: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_the_search() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(chosen(&[]).unwrap().0, ["consort-ring-model", "consort-paxos-model"]);
        assert_eq!(
            chosen(&words("--start merging")).unwrap(),
            (vec!["consort-ring-model"], &words("--start merging")[..])
        );
        let paxos = words("--protocol paxos --stands 1");
        assert_eq!(chosen(&paxos).unwrap(), (vec!["consort-paxos-model"], &words("--stands 1")[..]));
        assert!(chosen(&words("--protocol toto")).unwrap_err().contains("ring and paxos"));
        assert!(chosen(&words("--protocol")).unwrap_err().contains("no search"));
    }
}

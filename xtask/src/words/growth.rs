//! Where a word was added since the record was last committed, as git knows it.
use super::list::Word;
use super::tally::Tally;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

/// The lines that use the word and were not in their file when the record was last committed. Without git there are none.
pub fn new_uses(root: &Path, record: &str, word: &Word, tally: &Tally) -> Vec<String> {
    let Some(commit) = git(root, &["log", "-1", "--format=%H", "--", record]) else { return Vec::new() };
    let commit = commit.trim();
    let Some(changed) = git(root, &["diff", "--name-only", "--no-renames", commit]).filter(|_| !commit.is_empty())
    else {
        return Vec::new();
    };
    let untracked = git(root, &["ls-files", "--others", "--exclude-standard"]).unwrap_or_default();
    let changed: HashSet<&str> = changed.lines().chain(untracked.lines()).collect();
    let grown = tally.files(word).filter(|(file, _)| changed.contains(file.as_str()));
    grown.flat_map(|(file, lines)| new_lines(root, commit, file, lines)).collect()
}

fn new_lines(root: &Path, commit: &str, file: &str, lines: &[usize]) -> Vec<String> {
    let before = git(root, &["show", &format!("{commit}:{file}")]).unwrap_or_default();
    let before: HashSet<&str> = before.lines().collect();
    let now = std::fs::read_to_string(root.join(file)).unwrap_or_default();
    let now: Vec<&str> = now.lines().collect();
    let text =
        |line: &usize| now.get(line - 1).copied().filter(|text| !before.contains(text)).map(|text| (*line, text));
    lines.iter().filter_map(text).map(|(line, text)| format!("{file}:{line}: {}", text.trim())).collect()
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::list::LIST;
    use super::*;

    #[test]
    fn new_lines_are_named_and_old_ones_are_not() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        let write = |file: &str, text: &str| std::fs::write(root.join(file), text).unwrap();
        super::super::tally::FOLDERS.iter().for_each(|folder| std::fs::create_dir(root.join(folder)).unwrap());
        write("docs/a.md", "told once\n");
        write("record", "tell 1\n");
        let author = ["-c", "user.name=a", "-c", "user.email=a@b"];
        for arguments in [&["init", "-q"][..], &["add", "."], &[&author[..], &["commit", "-qm", "a"]].concat()] {
            git(root, arguments).expect("git runs");
        }
        write("docs/a.md", "first\ntold once\ntold twice\n");
        write("docs/b.md", "told in a new page\n");
        let tell = LIST.iter().find(|word| word.name() == "tell").unwrap();
        let found = new_uses(root, "record", tell, &Tally::of_tree(root).unwrap());
        assert_eq!(found, ["docs/a.md:3: told twice", "docs/b.md:1: told in a new page"]);
    }
}

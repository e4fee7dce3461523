//! The file of tokens: read by the daemon, written by `consort token`.
use crate::failure::{Failure, Outcome};
use crate::security::{random, read_secret};
use consort_rights::{Tokens, tokens};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub use consort_rights::tokens::is_name;

/// Reads the tokens that a daemon takes.
///
/// # Errors
/// The file cannot be read, others may read or write it, or something in it is wrong; the text tells no secret.
pub fn load(path: &Path) -> Outcome<Tokens> {
    parse(path, &read_secret(path, "tokens", "consort token")?)
}

/// Makes a token that is good while the file names it, and appends its line.
///
/// # Errors
/// The file cannot be read or written, or has a token of that name.
pub fn give(path: &Path, name: &str) -> Outcome<String> {
    let before = existing(path)?;
    let (token, line) = tokens::give(name, &random()?).ok_or_else(|| unnamed(name))?;
    let problem = |error: Failure| {
        Failure::new(format!(
            "{}; remove the line of {name} to take the old token back, or choose another name",
            error.message
        ))
    };
    parse(path, &format!("{}{line}", ended(&before))).map_err(problem)?;
    append(path, &before, &line)?;
    Ok(token)
}

/// Makes a token that is good until then, in seconds since 1970, signed with the file's first key; one is appended where
/// there is none.
///
/// # Errors
/// The file cannot be read or written.
pub fn sign(path: &Path, name: &str, expires: u64) -> Outcome<String> {
    let before = existing(path)?;
    let mut found = parse(path, &before)?;
    if !found.has_key() {
        let line = tokens::key_line(1, &random()?);
        found = parse(path, &format!("{}{line}", ended(&before)))?;
        append(path, &before, &line)?;
    }
    tokens::sign(&found, name, expires).ok_or_else(|| unnamed(name))
}

fn unnamed(name: &str) -> Failure {
    Failure::usage(format!("`{name}` is no name for a token: use 1 to 40 letters, digits, - and _"))
}

fn existing(path: &Path) -> Outcome<String> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        _ => read_secret(path, "tokens", "consort token"),
    }
}

fn parse(path: &Path, text: &str) -> Outcome<Tokens> {
    Tokens::parse(text).map_err(|bad| Failure::usage(format!("the tokens in {} are not right: {bad}", path.display())))
}

/// The text, with a line's end behind its last line.
fn ended(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

fn append(path: &Path, before: &str, line: &str) -> Outcome {
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| {
        file.write_all(format!("{end}{line}").as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| Failure::new(format!("cannot write to {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_rights::TokenProblem;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn what_is_made_is_taken_by_who_reads_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let given = give(&path, "billing").unwrap();
        let signed = sign(&path, "audit", 2_000).unwrap();
        let other = sign(&path, "audit", 3_000).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            (text.lines().count(), text.contains(&given[11..])),
            (2, false),
            "one key, and no token but its hash"
        );
        let tokens = load(&path).unwrap();
        let name = |token: &str, now| tokens.verify(token.as_bytes(), now).map(|proof| proof.name);
        assert_eq!(name(&given, 9_999), Ok("billing".to_owned()));
        assert_eq!((name(&signed, 1_999), name(&signed, 2_000)), (Ok("audit".to_owned()), Err(TokenProblem::Expired)));
        assert_eq!(name(&other, 2_000), Ok("audit".to_owned()));
    }

    #[test]
    fn a_name_that_has_a_token_gets_no_other_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        give(&path, "billing").unwrap();
        let before = fs::read(&path).unwrap();
        let message = give(&path, "billing").unwrap_err().message;
        assert!(
            message.contains("line 2: a token of that name stands above") && message.contains("remove the line"),
            "{message}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
        fs::write(&path, "# no end of line").unwrap();
        give(&path, "other").unwrap();
        assert!(load(&path).is_ok());
    }

    #[test]
    fn what_others_may_use_or_is_wrong_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let missing = load(&path).unwrap_err().message;
        assert!(missing.contains("consort token"), "{missing}");
        give(&path, "billing").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        for message in [load(&path).unwrap_err().message, sign(&path, "a", 1).unwrap_err().message] {
            assert!(message.contains("mode 0644") && message.contains("chmod 600"), "{message}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "token a verysecret\n").unwrap();
        let message = load(&path).unwrap_err().message;
        assert!(message.contains("line 1") && !message.contains("verysecret"), "{message}");
    }
}

//! The cluster's key: its file, which nobody else may read, and chance for new keys and salts.
use crate::failure::{Failure, Outcome};
use consort_seal::{Cipher, KeyEpoch, KeyRing, Salt, key_file};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A file that is longer is no key file.
const LONGEST: u64 = 64 << 10;
/// The right to read of the file's group.
const GROUP_READS: u32 = 0o040;
/// Every right of others than the owner, but for that one.
const OTHERS: u32 = 0o077 & !GROUP_READS;

/// Reads the cluster's keys.
///
/// # Errors
/// The file cannot be read, others may read or write it, or it holds no keys.
pub fn load(path: &Path) -> Outcome<KeyRing> {
    let name = path.display();
    let text = read_secret(path, "key", "consort keygen")?;
    key_file::parse(&text)
        .map_err(|bad| Failure::usage(format!("the key file {name} is not right: {bad}; `consort keygen` writes one")))
}

/// The same keys for a start of a node that keeps in this file which epoch it adopted last: sealed with that, or with the
/// file's first, whichever is newer. Older ones are left out.
pub fn begin_with(keys: KeyRing, adopted: Option<&Path>) -> KeyRing {
    //= K07
    let adopted = adopted.and_then(read_adopted).filter(|epoch| *epoch > keys.sealing());
    let keys = adopted.and_then(|epoch| keys.sealing_with(epoch)).unwrap_or(keys);
    let in_use = keys.sealing();
    keys.without(|epoch| epoch < in_use)
}

/// What cannot be read says nothing: the node learns from others which key is in use.
fn read_adopted(path: &Path) -> Option<KeyEpoch> {
    let text = fs::read_to_string(path).ok()?;
    let epoch = text.trim().parse().ok().and_then(KeyEpoch::new);
    if epoch.is_none() {
        tracing::warn!(path = %path.display(), "this file should hold a key epoch and does not; it is learnt from others");
    }
    epoch
}

/// Adds the next key to a key file that holds one. Returns its epoch.
///
/// # Errors
/// What [`load`] says; there are two keys already; the file cannot be written.
pub fn add_next(path: &Path) -> Outcome<KeyEpoch> {
    let (name, keys) = (path.display(), load(path)?);
    let newest = keys.epochs().max().unwrap_or(keys.sealing());
    if keys.epochs().count() > 1 {
        return Err(Failure::new(format!(
            "{name} holds two keys already: adopt that of epoch {newest} with `consort key rotate`, if that is not done, and \
             remove the line of the other first"
        )));
    }
    let next = newest.get().checked_add(1).and_then(KeyEpoch::new);
    let next = next.ok_or_else(|| Failure::new(format!("{name} holds the last epoch that there is, {newest}")))?;
    let line = key_file::line(next, &random()?);
    let written = OpenOptions::new().append(true).open(path).and_then(|mut file| {
        file.write_all(line.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| Failure::new(format!("cannot write a key to {name}: {error}")))?;
    Ok(next)
}

/// Reads a file of the daemon's that nobody else may use: the `kind` file, which `writer` writes.
///
/// # Errors
/// The file cannot be read, is too long, or others may read or write it.
pub(crate) fn read_secret(path: &Path, kind: &str, writer: &str) -> Outcome<String> {
    let name = path.display();
    let unreadable = |error: io::Error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => format!("; write one with `{writer} {name}`, for all nodes alike"),
            _ => String::new(),
        };
        Failure::usage(format!("cannot read the {kind} file {name}: {error}{remedy}"))
    };
    let file = File::open(path).map_err(unreadable)?;
    check_owner(&file.metadata().map_err(unreadable)?, path, kind)?;
    let mut text = String::new();
    Read::take(&file, LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err(Failure::usage(format!("the {kind} file {name} is longer than {LONGEST} bytes: it is none")));
    }
    Ok(text)
}

/// Refuses a file of rules that others than root and the daemon's user may write: they would decide what clients may do.
pub(crate) fn check_writers(file: &fs::Metadata, path: &Path) -> Outcome {
    let (mode, user, group) = (file.mode() & 0o7777, file.uid(), file.gid());
    let reader = Reader::own();
    let name = path.display();
    if user != 0 && user != reader.user {
        return Err(Failure::usage(format!(
            "the rules in {name} belong to user {user}, who could change them; `chown` the file to root or the daemon's user"
        )));
    }
    if mode & 0o002 != 0 || mode & 0o020 != 0 && !reader.groups.contains(&group) {
        return Err(Failure::usage(format!(
            "the rules in {name} may be changed by others (mode {mode:04o}, group {group}); `chmod go-w {name}`, and see \
             that they say what you wrote"
        )));
    }
    Ok(())
}

/// Who asks for a file: its user and all its groups.
struct Reader {
    user: u32,
    groups: Vec<u32>,
}

impl Reader {
    /// This process.
    fn own() -> Self {
        let others = rustix::process::getgroups().unwrap_or_default();
        let groups = [rustix::process::getegid()].into_iter().chain(others).map(rustix::process::Gid::as_raw).collect();
        Self { user: rustix::process::geteuid().as_raw(), groups }
    }
}

/// What is to be known of a secret file.
#[derive(Clone, Copy)]
struct Ownership {
    mode: u32,
    user: u32,
    group: u32,
}

/// Whoever reads the file belongs to the cluster, or may sign, and whoever writes it decides who does.
fn check_owner(file: &fs::Metadata, path: &Path, kind: &str) -> Outcome {
    if !file.is_file() {
        return Err(Failure::usage(format!("the {kind} file {} is no file", path.display())));
    }
    let file = Ownership { mode: file.mode() & 0o7777, user: file.uid(), group: file.gid() };
    let why = judge(&file, &Reader::own(), path);
    why.map_err(|why| Failure::usage(format!("the {kind} file {} {why}", path.display())))
}

/// Kubernetes, for example, mounts secrets as root's, for a group of the process to read.
fn judge(file: &Ownership, reader: &Reader, path: &Path) -> Result<(), String> {
    let (Ownership { mode, user, group }, name) = (*file, path.display());
    let leaked = format!("`chmod 600 {name}`, and if somebody may have read it, make a new one");
    if mode & OTHERS != 0 {
        return Err(format!(
            "may be used by others (mode {mode:04o}), and whoever reads it can pass for others; {leaked}"
        ));
    }
    if mode & GROUP_READS != 0 && !reader.groups.contains(&group) {
        return Err(format!(
            "may be read by group {group} (mode {mode:04o}), which is none of this daemon's groups; {leaked}, or `chgrp` it to a group of the daemon"
        ));
    }
    if ![0, reader.user].contains(&user) {
        return Err(format!("belongs to user {user}, who could replace it; `chown {} {name}`", reader.user));
    }
    Ok(())
}

/// Writes a new key to a file that does not exist yet, for its owner alone.
///
/// # Errors
/// The file exists, or cannot be written; then there is none.
pub fn generate(path: &Path) -> Outcome {
    let name = path.display();
    let key = random()?;
    let epoch = KeyEpoch::new(1).ok_or_else(|| Failure::new("there is no first epoch"))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let problem = match error.kind() {
            ErrorKind::AlreadyExists => {
                "it exists, and nodes may use the key in it; choose another name, or move it away".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::new(format!("cannot write a key to {name}: {problem}"))
    })?;
    let written = file.write_all(key_file::write(epoch, &key).as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        Failure::new(format!("cannot write a key to {name}: {error}"))
    })
}

/// The salt of a start that begins now.
///
/// # Errors
/// The system gives no random bytes.
pub fn salt() -> Outcome<Salt> {
    Ok(Salt::new(Cipher::preferred(), random()?))
}

pub(crate) fn random<const N: usize>() -> Outcome<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::new(format!("the system gives no random bytes: {error}"))),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn problem(path: &Path) -> String {
        load(path).unwrap_err().message
    }

    #[test]
    fn a_key_is_written_for_its_owner_alone_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        generate(&one).unwrap();
        generate(&two).unwrap();
        assert_eq!(fs::metadata(&one).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(load(&one).unwrap().sealing().get(), 1);
        assert_ne!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
        assert_ne!(salt().unwrap(), salt().unwrap());
    }

    #[test]
    fn a_key_that_is_there_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        generate(&path).unwrap();
        let before = fs::read(&path).unwrap();
        let message = generate(&path).unwrap_err().message;
        assert!(message.contains("it exists") && message.contains("choose another name"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), before);
        let nowhere = folder.path().join("no/such/key");
        assert!(generate(&nowhere).unwrap_err().message.contains("No such file"));
    }

    #[test]
    fn a_file_that_others_may_use_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        generate(&path).unwrap();
        for mode in [0o644, 0o604, 0o660, 0o620, 0o602, 0o650, 0o610, 0o601, 0o441, 0o444, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let message = problem(&path);
            let remedy = format!("chmod 600 {}", path.display());
            assert!(message.contains(&format!("mode {mode:04o}")) && message.contains(&remedy), "{message}");
        }
        // A new file belongs to the group of the process.
        for mode in [0o600, 0o400, 0o440, 0o640] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(load(&path).is_ok());
        }
    }

    #[test]
    fn a_group_may_read_where_it_is_the_daemons_own() {
        let reader = Reader { user: 65_532, groups: vec![65_532, 2_000] };
        let judged = |mode, user, group| judge(&Ownership { mode, user, group }, &reader, Path::new("key"));
        // As Kubernetes mounts a secret with fsGroup 2000, and as an administrator may write it.
        for (mode, user, group) in [(0o440, 0, 2_000), (0o640, 0, 65_532), (0o440, 65_532, 2_000), (0o400, 0, 7)] {
            assert_eq!(judged(mode, user, group), Ok(()), "{mode:o} {user} {group}");
        }
        for (mode, user, group, why) in [
            (0o440, 0, 0, "may be read by group 0 (mode 0440), which is none of this daemon's groups"),
            (0o640, 65_532, 2_001, "may be read by group 2001 (mode 0640)"),
            (0o460, 0, 2_000, "may be used by others (mode 0460)"),
            (0o450, 0, 2_000, "may be used by others (mode 0450)"),
            (0o444, 0, 2_000, "may be used by others (mode 0444)"),
            (0o440, 1_000, 2_000, "belongs to user 1000, who could replace it; `chown 65532 key`"),
        ] {
            let said = judged(mode, user, group).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
    }

    /// Root may give files away: only then are there groups that are not the daemon's own.
    #[test]
    fn a_group_of_others_may_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        generate(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(load(&path).is_ok());
        let stranger = (1..).find(|group| !Reader::own().groups.contains(group));
        if std::os::unix::fs::chown(&path, None, stranger).is_ok() {
            let message = problem(&path);
            assert!(message.contains("none of this daemon's groups") && message.contains("chgrp"), "{message}");
        }
    }

    #[test]
    fn the_next_key_is_added_once_and_the_file_stays_its_owner_s() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        generate(&path).unwrap();
        // Without an end of line, as an editor may leave it.
        fs::write(&path, fs::read_to_string(&path).unwrap().trim_end()).unwrap();
        assert_eq!(add_next(&path).unwrap().get(), 2);
        let keys = load(&path).unwrap();
        assert_eq!((keys.sealing().get(), keys.epochs().map(KeyEpoch::get).collect()), (1, vec![1, 2]));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let problem = add_next(&path).unwrap_err().message;
        assert!(problem.contains("holds two keys already") && problem.contains("epoch 2"), "{problem}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(add_next(&path).unwrap_err().message.contains("chmod 600"));
    }

    #[test]
    fn a_start_seals_with_what_was_adopted_last_if_its_file_has_it() {
        //= K07 test
        let folder = tempfile::tempdir().unwrap();
        let (path, adopted) = (folder.path().join("key"), folder.path().join("adopted"));
        generate(&path).unwrap();
        add_next(&path).unwrap();
        let epochs = |keys: &KeyRing| keys.epochs().map(KeyEpoch::get).collect::<Vec<_>>();
        let begin = || epochs(&begin_with(load(&path).unwrap(), Some(&adopted)));
        assert_eq!(begin(), [1, 2], "nothing was adopted");
        for (text, expected) in
            [("2\n", vec![2]), ("1\n", vec![1, 2]), ("9", vec![1, 2]), ("x", vec![1, 2]), ("0", vec![1, 2])]
        {
            fs::write(&adopted, text).unwrap();
            assert_eq!(begin(), expected, "{text}");
        }
        assert_eq!(epochs(&begin_with(load(&path).unwrap(), None)), [1, 2]);
    }

    #[test]
    fn what_is_no_key_file_is_told_without_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(problem(&path).contains("consort keygen"), "{}", problem(&path));
        assert!(problem(folder.path()).contains("others may use") || problem(folder.path()).contains("no file"));
        generate(&path).unwrap();
        fs::write(&path, "key 1 secret\n").unwrap();
        let message = problem(&path);
        assert!(message.contains("line 1") && !message.contains("secret"), "{message}");
        fs::write(&path, vec![b'#'; 1 << 20]).unwrap();
        assert!(problem(&path).contains("is longer than"), "{}", problem(&path));
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(problem(&path).contains("cannot read"), "{}", problem(&path));
    }
}

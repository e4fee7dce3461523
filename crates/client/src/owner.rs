//! Who alone decides what is in a directory, so that no other user poses as a daemon there.
use crate::{Address, Error};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{Metadata, metadata, read_link, symlink_metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The kernel follows no more links on the way to a file.
const LINKS: usize = 40;

/// The user who, beside root and this one, alone decides what is in a directory: its owner. `None` where another user can
/// put something there, or exchange anything on the way to it.
///
/// # Errors
/// Those of looking at the directories on the way.
pub fn owner_of(directory: &Path) -> io::Result<Option<u32>> {
    let owner = metadata(directory)?.uid();
    let mut at = PathBuf::from("/");
    let mut about = symlink_metadata(&at)?;
    if !is_known(about.uid()) {
        return Ok(None);
    }
    let mut links = 0;
    let mut left = names(&std::path::absolute(directory)?);
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            about = symlink_metadata(&at)?;
            continue;
        }
        let before_is_open = is_open(&about);
        let found = symlink_metadata(at.join(&name))?;
        // A user that may write to a directory may put a link or another directory there, also below a sticky one.
        if (found.is_symlink() || before_is_open) && !is_known(found.uid()) {
            return Ok(None);
        }
        if found.is_symlink() {
            links += 1;
            let target = read_link(at.join(&name))?;
            if links > LINKS {
                return Ok(None);
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
                about = symlink_metadata(&at)?;
            }
            left.extend(names(&target));
            continue;
        }
        if !is_known(found.uid()) && found.uid() != owner {
            return Ok(None);
        }
        at.push(name);
        about = found;
    }
    Ok((!is_open(&about)).then_some(owner))
}

/// What a path names below its beginning, the last first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter(|name| matches!(name, Component::Normal(_) | Component::ParentDir));
    names.rev().map(|name| name.as_os_str().to_owned()).collect()
}

fn is_open(about: &Metadata) -> bool {
    about.mode() & 0o022 != 0
}

fn is_known(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// Checks that a token may be shown over a connection to a daemon, for those who speak its protocol themselves.
///
/// # Errors
/// [`Error::Untrusted`]: at a Unix socket another user's process listens, and that user does not alone decide what is in the
/// socket's directory. [`Error::Connect`] where that cannot be found out.
pub fn check_peer(socket: impl AsFd, address: &Address) -> Result<(), Error> {
    let Address::Unix(path) = address else { return Ok(()) };
    let failed = |source| Error::Connect { address: address.clone(), source };
    let user = socket_peercred(socket).map_err(|error| failed(error.into()))?.uid.as_raw();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // An abstract socket is in no directory: any user may have bound it.
    let is_abstract = path.as_os_str().as_bytes().first() == Some(&0);
    if is_known(user) || !is_abstract && owner_of(directory).map_err(failed)? == Some(user) {
        return Ok(());
    }
    Err(Error::Untrusted { address: address.clone(), user })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{DirBuilder, Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};

    /// Of no user of the machine.
    const OTHER: u32 = 12_345;

    fn directory(at: &Path, mode: u32, user: u32) -> bool {
        DirBuilder::new().mode(0o700).create(at).unwrap();
        set_permissions(at, Permissions::from_mode(mode)).unwrap();
        user == geteuid().as_raw() || chown(at, Some(user), None).is_ok()
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_nobody_s() {
        let folder = tempfile::tempdir().unwrap();
        let me = geteuid().as_raw();
        // Whatever the machine's temporary directory is, what is made there is this user's.
        assert_eq!(owner_of(folder.path()).unwrap(), Some(me));
        for (name, mode, owner) in [("group", 0o770, None), ("all", 0o1777, None), ("mine", 0o711, Some(me))] {
            let at = folder.path().join(name);
            assert!(directory(&at, mode, me));
            assert_eq!(owner_of(&at).unwrap(), owner, "{name}");
            create_dir(at.join("below")).unwrap();
            assert_eq!(owner_of(&at.join("below")).unwrap(), Some(me), "{name}");
            assert_eq!(owner_of(&at.join("below/..")).unwrap(), owner, "{name}");
        }
        assert_eq!(owner_of(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn another_user_s_directory_is_its_own_where_nobody_else_could_have_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, shared) = (folder.path().join("theirs"), folder.path().join("shared"));
        if !directory(&theirs, 0o755, OTHER) {
            return println!("skipped: only root may give a directory to another user");
        }
        assert_eq!(owner_of(&theirs).unwrap(), Some(OTHER));
        assert!(directory(&theirs.join("other"), 0o755, OTHER + 1));
        assert_eq!(owner_of(&theirs.join("other")).unwrap(), None, "its parent's owner decides, too");
        assert!(directory(&shared, 0o1777, 0) && directory(&shared.join("squatted"), 0o700, OTHER));
        assert_eq!(owner_of(&shared.join("squatted")).unwrap(), None, "anybody could have made it");
        symlink(&theirs, folder.path().join("link")).unwrap();
        assert_eq!(owner_of(&folder.path().join("link")).unwrap(), Some(OTHER));
        symlink(&theirs, shared.join("link")).unwrap();
        std::os::unix::fs::lchown(shared.join("link"), Some(OTHER), None).unwrap();
        assert_eq!(owner_of(&shared.join("link")).unwrap(), None, "another user's link");
        symlink(shared.join("squatted"), folder.path().join("to-squatted")).unwrap();
        assert_eq!(owner_of(&folder.path().join("to-squatted")).unwrap(), None, "the way behind the link counts, too");
        symlink("../theirs/.", theirs.join("loop")).unwrap();
        assert_eq!(owner_of(&theirs.join("loop")).unwrap(), Some(OTHER), "this user's link to it");
    }
}

//! Who of this machine may speak at the daemon's own socket file.
use crate::sys::{self, PeerProcess};

/// The daemon's own user, root, and those who are listed.
#[derive(Debug)]
pub(crate) struct Users {
    own: u32,
    listed: Vec<u32>,
}

/// Why a process may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("user {user} may not use this daemon; its owner lists who may: users = [{user}] below [clients] in its file")]
pub(crate) struct NotAllowed {
    user: u32,
}

impl Users {
    pub(crate) fn new(listed: Vec<u32>) -> Self {
        Self { own: sys::own_user(), listed }
    }

    /// Whether this user could do to the daemon what it wants anyway.
    pub(crate) const fn owns(&self, user: u32) -> bool {
        user == self.own || user == ROOT
    }

    /// Whether this process may.
    pub(crate) fn check(&self, peer: PeerProcess) -> Result<(), NotAllowed> {
        let user = peer.user;
        let may = self.owns(user) || self.listed.contains(&user);
        if may { Ok(()) } else { Err(NotAllowed { user }) }
    }
}

/// May always: it could become the daemon's user anyway.
const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_user_root_and_those_listed_may_and_nobody_else() {
        let users = Users { own: 1000, listed: vec![1001, 1003] };
        let check = |user| users.check(PeerProcess { process: 7, user, group: 7 });
        for user in [0, 1000, 1001, 1003] {
            assert_eq!(check(user), Ok(()));
        }
        assert!(users.owns(0) && users.owns(1000) && !users.owns(1001));
        for user in [1, 999, 1002, 65_534, u32::MAX] {
            assert_eq!(check(user), Err(NotAllowed { user }));
        }
        let told = check(1002).unwrap_err().to_string();
        assert!(told.starts_with("user 1002 may not use this daemon") && told.contains("users = [1002]"), "{told}");
        assert_eq!(Users::new(Vec::new()).check(PeerProcess { process: 7, user: sys::own_user(), group: 7 }), Ok(()));
    }
}

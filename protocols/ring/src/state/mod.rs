//! The states of a member. Each file holds data that exists only in its state, what the state does on each input, and
//! why it leaves. States do not change themselves: they answer with what is [`Next`], and the engine's table does it.

mod commit;
mod gather;
mod late;
mod operational;
mod recovery;
pub(crate) mod table;

pub(crate) use commit::Committing;
pub(crate) use consort_member::{Reason, Sets, Why};
pub(crate) use gather::Gather;
pub(crate) use operational::Operational;
pub(crate) use recovery::Recovery;

use crate::packet::Commit;
use table::Step;

/// What an input leads to.
#[derive(Debug)]
pub(crate) enum Next {
    /// The state stays.
    Stay,
    /// Look for members anew.
    Gather(Box<Why>),
    /// Take part in this commit token.
    Commit(Commit),
    /// The second rotation is here: recover what it says.
    Recover(Commit),
    /// All that can be recovered is: deliver it and install the view.
    Install,
    /// Stop for good.
    Leave,
}

impl Next {
    pub fn gather(why: Why) -> Self {
        Self::Gather(Box::new(why))
    }

    /// Which step this is; `None` where the state stays.
    pub const fn step(&self) -> Option<Step> {
        match self {
            Self::Stay => None,
            Self::Gather(_) => Some(Step::Gather),
            Self::Commit(_) => Some(Step::Commit),
            Self::Recover(_) => Some(Step::Recover),
            Self::Install => Some(Step::Install),
            Self::Leave => Some(Step::Leave),
        }
    }
}

//! The states of a member. Each file holds data that exists only in its state, what the state does on each input, and
//! why it leaves. States do not change themselves: they answer with what is [`StateChange`], and the engine's table does it.

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
use table::TableStep;

/// What an input leads to.
#[derive(Debug)]
pub(crate) enum StateChange {
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

impl StateChange {
    pub fn gather(why: Why) -> Self {
        Self::Gather(Box::new(why))
    }

    /// Which step this is; `None` where the state stays.
    pub const fn step(&self) -> Option<TableStep> {
        match self {
            Self::Stay => None,
            Self::Gather(_) => Some(TableStep::Gather),
            Self::Commit(_) => Some(TableStep::Commit),
            Self::Recover(_) => Some(TableStep::Recover),
            Self::Install => Some(TableStep::Install),
            Self::Leave => Some(TableStep::Leave),
        }
    }
}

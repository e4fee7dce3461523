//! Who goes on where nobody is up to date. All members of the group have said how far they are, and all conclude alike.
use super::is_majority;
use crate::frame::{Hello, Peer};
use crate::line::{Line, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};

/// What the members concluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elected {
    /// Where all of these are. No one is firm where a history begins, or was forced.
    pub line: Line,
    pub current: BTreeMap<ReplicaId, Peer>,
}

/// The furthest of them; `None` where others may be further.
///
/// Those of an epoch have the same commands up to where one of them stopped. One who followed its last view to the end,
/// and is *clean*, has all that was answered in it, and did not go on. Where a majority is clean nobody went on without it,
/// unless it was seen by one of them. Where all are there nobody else can have. One that is forced makes up for those that
/// are missing, not for those that are there.
pub(crate) fn elect(hellos: &BTreeMap<Peer, Hello>, founders: usize) -> Option<Elected> {
    let best = furthest(hellos.values())?;
    let forced = furthest(hellos.values().filter(|hello| hello.forces));
    let (winner, firm) = match forced {
        _ if lacking(hellos, best, founders).is_none() => best_that_counts(hellos, best)?,
        Some(forced) => (furthest(hellos.values().filter(|hello| follows_same(forced, hello)))?, BTreeSet::new()),
        None => return None,
    };
    let may = |hello: &&Hello| firm.is_empty() || firm.contains(&hello.id);
    let like = |hello: &&Hello| hello.line.history == winner.line.history && hello.line.end == winner.line.end;
    let elected = hellos.values().filter(may).filter(like);
    let current: BTreeMap<_, _> = elected.map(|hello| (hello.id, hello.peer)).collect();
    let mut line = Line { firm, ..winner.line.clone() };
    if line.history == 0 {
        line.history = (winner.id.0 as u64) | 1;
    }
    Some(Elected { line, current })
}

fn furthest<'a>(hellos: impl Iterator<Item = &'a Hello>) -> Option<&'a Hello> {
    hellos.max_by_key(|hello| (hello.line.epoch, hello.line.step))
}

/// The furthest of those that count there, and all that do. One that does not may have a longer line, of which its machine
/// has nothing yet, and if it went on, those that count might not know of it.
fn best_that_counts<'a>(
    hellos: &'a BTreeMap<Peer, Hello>,
    best: &'a Hello,
) -> Option<(&'a Hello, BTreeSet<ReplicaId>)> {
    let firm = &best.line.firm;
    let counts = hellos.values().filter(|hello| firm.is_empty() || firm.contains(&hello.id));
    Some((furthest(counts)?, firm.clone()))
}

/// Whether this one may go on in place of one that is forced, and is behind it: one that has nothing insists on nothing.
const fn follows_same(forced: &Hello, hello: &Hello) -> bool {
    forced.line.history == 0 || forced.line.history == hello.line.history
}

/// What is missing, in words.
pub(crate) fn lacks(hellos: &BTreeMap<Peer, Hello>, founders: usize) -> String {
    let best = furthest(hellos.values());
    best.and_then(|best| lacking(hellos, best, founders)).unwrap_or_else(|| "the daemons order nothing here".to_owned())
}

fn lacking(hellos: &BTreeMap<Peer, Hello>, best: &Hello, founders: usize) -> Option<String> {
    let there: BTreeSet<_> = hellos.values().map(|hello| hello.id).collect();
    let were = &best.line.current;
    let firm = &best.line.firm;
    // All that were current may have left it by their hellos; a history began all the same.
    if were.is_empty() && firm.is_empty() {
        let missing = founders.saturating_sub(there.len());
        return (missing > 0).then(|| format!("{missing} more replicas are needed to begin"));
    }
    // Those who went on say themselves how far they are, if all are there.
    let unheard = |hello: &Hello| hello.heard.0 > best.line.epoch && !hello.heard.1.is_subset(&there);
    let unheard = hellos.values().any(unheard);
    let clean = |hello: &&Hello| hello.clean;
    let same = |hello: &&Hello| hello.line.epoch == best.line.epoch;
    let all: BTreeSet<_> = hellos.values().filter(clean).map(|hello| hello.id).collect();
    let of_epoch: BTreeSet<_> = hellos.values().filter(clean).filter(same).map(|hello| hello.id).collect();
    let show = is_majority(&of_epoch, were) && is_majority(&all, firm);
    if !unheard && (show || were.is_subset(&there) && firm.is_subset(&there)) {
        return None;
    }
    let missing: Vec<_> =
        were.union(firm).filter(|id| !there.contains(id)).map(|id| format!("{:032x}", id.0)).collect();
    if missing.is_empty() {
        return Some("replicas that went on without these are missing".to_owned());
    }
    Some(format!("replicas that may know more are missing: {}", missing.join(", ")))
}

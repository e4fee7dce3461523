//! Who goes on where nobody is up to date. All members of the group have said how far they are, and all conclude alike.
use crate::frame::{Hello, Peer};
use crate::line::{Line, ReplicaId, is_majority};
use std::collections::{BTreeMap, BTreeSet};

/// What the members concluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elected {
    /// Where all of these are, with the sets that others may know. There are none where a history begins, or was forced.
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
    let (candidates, counting) = match forced {
        _ if lacking(hellos, best, founders).is_none() => (candidates(hellos, best), best.line.counting.clone()),
        Some(forced) => (hellos.values().filter(|hello| follows_same(forced, hello)).collect(), Vec::new()),
        None => return None,
    };
    let winner = furthest(candidates.iter().copied())?;
    let like = |hello: &&&Hello| hello.line.history == winner.line.history && hello.line.end == winner.line.end;
    let elected = candidates.iter().filter(like);
    let current: BTreeMap<_, _> = elected.map(|hello| (hello.id, hello.peer)).collect();
    let mut line = Line { counting, ..winner.line.clone() };
    if line.history == 0 {
        line.history = (winner.id.0 as u64) | 1;
    }
    Some(Elected { line, current })
}

/// Those that count where the furthest is. One that does not may have a longer line, of which its machine has nothing yet,
/// and if it went on, those that count might not know of it. Only if those that count have begun from old checkpoints, what
/// was answered may be at another alone.
fn candidates<'a>(hellos: &'a BTreeMap<Peer, Hello>, best: &Hello) -> Vec<&'a Hello> {
    // One that has applied more than the furthest is of a branch that a forced history has left behind.
    let is_like = |hello: &&Hello| hello.line.history == best.line.history;
    let of_branch = |hello: &&Hello| hello.applied.position <= best.line.end.position;
    let of_history = || hellos.values().filter(is_like).filter(of_branch);
    let answered = of_history().map(|hello| hello.applied.position).max().unwrap_or(0);
    let have_all = || of_history().filter(|hello| hello.line.end.position >= answered);
    let counts = best.line.counts();
    let counting: Vec<_> = have_all().filter(|hello| counts.is_empty() || counts.contains(&hello.id)).collect();
    if counting.is_empty() { have_all().collect() } else { counting }
}

fn furthest<'a>(hellos: impl Iterator<Item = &'a Hello>) -> Option<&'a Hello> {
    hellos.max_by_key(|hello| (hello.line.epoch, hello.line.step))
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

/// All that may have gone on, as the latest that is known of this history has it: a start from an old checkpoint may know more
/// of that than the furthest.
fn may_go_on(hellos: &BTreeMap<Peer, Hello>, best: &Hello) -> BTreeSet<ReplicaId> {
    let line = &best.line;
    let known = hellos.values().filter_map(|hello| hello.recalls.as_ref());
    let known = known.filter(|others| others.history == line.history);
    let latest = known.max_by_key(|others| (others.epoch, others.step));
    let later = latest.filter(|others| (others.epoch, others.step) > (line.epoch, line.step));
    later.map_or_else(|| line.may_go_on(), |others| others.ids.clone())
}

fn lacking(hellos: &BTreeMap<Peer, Hello>, best: &Hello, founders: usize) -> Option<String> {
    let there: BTreeSet<_> = hellos.values().map(|hello| hello.id).collect();
    let all = may_go_on(hellos, best);
    if all.is_empty() {
        let missing = founders.saturating_sub(there.len());
        return (missing > 0).then(|| format!("{missing} more replicas are needed to begin"));
    }
    // Those who went on say themselves how far they are, if all are there.
    let unheard = |hello: &Hello| hello.heard.0 > best.line.epoch && !hello.heard.1.is_subset(&there);
    let unheard = hellos.values().any(unheard);
    let clean = |hello: &&Hello| hello.clean;
    let same = |hello: &&Hello| hello.line.epoch == best.line.epoch;
    let show: BTreeSet<_> = hellos.values().filter(clean).map(|hello| hello.id).collect();
    let of_epoch: BTreeSet<_> = hellos.values().filter(clean).filter(same).map(|hello| hello.id).collect();
    let counts = best.line.counts();
    let shown = !counts.is_empty() && is_majority(&of_epoch, counts) && best.line.has_majorities_in(&show);
    if !unheard && (shown || all.is_subset(&there)) {
        return None;
    }
    let missing: Vec<_> = all.difference(&there).map(|id| format!("{:032x}", id.0)).collect();
    if missing.is_empty() {
        return Some("replicas that went on without these are missing".to_owned());
    }
    Some(format!("replicas that may know more are missing: {}", missing.join(", ")))
}

//! The times of a run in which nothing changes on the network and its hosts, and who hears whom in them.
use super::{ALL_COPIES, ALL_HEARTBEATS, LifeSigns, RunPlan};
use crate::checkers::{ConstantSpan, Core};
use crate::fault::{Activation, Fault, FaultScope, Lanes, NodeSet};
use consort_types::{Instant, NodeId};

/// What one fault takes away for as long as it lasts, where that is the same all the time.
enum Loss {
    /// Some of what goes everywhere: no reason to part.
    Gentle {
        token: f64,
        any: f64,
    },
    /// All that these links carry, or all of one sort.
    Links(Links),
    /// A host: it is down, or does nothing.
    Hosts(NodeSet),
    Nothing,
}

/// Links that carry nothing, or not all.
struct Links {
    dead: fn(Fault, NodeId, NodeId) -> bool,
    /// What they still carry.
    left: Carried,
}

/// What one node hears of another: each more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carried {
    Nothing,
    /// On one lane.
    Something,
    /// What goes to all, copies of tokens among it.
    Copies,
    All,
}

impl RunPlan {
    /// The times before the calm in which nothing changes, by ascending time: between two of them, a fault begins or ends.
    /// Times in which something is wrong at random, or slow, are left out.
    pub fn constant_spans(&self, signs: LifeSigns) -> Vec<ConstantSpan> {
        let mut turns: Vec<_> =
            self.faults.iter().flat_map(|a| [a.from, a.until]).filter(|at| *at < self.calm).collect();
        turns.push(Instant::ZERO);
        turns.push(self.calm);
        turns.sort_unstable();
        turns.dedup();
        turns.windows(2).filter_map(|pair| self.span(pair[0], pair[1], signs)).collect()
    }

    fn span(&self, from: Instant, until: Instant, signs: LifeSigns) -> Option<ConstantSpan> {
        let active: Vec<_> = self.faults.iter().filter(|a| lasts(a, from)).collect();
        if active.iter().any(|a| self.is_up_again(a, from)) {
            return None;
        }
        let losses: Vec<_> = active.iter().map(|a| loss(&a.fault)).collect::<Option<_>>()?;
        let (mut token, mut any, mut down, mut parting) = (0.0, 0.0, NodeSet::default(), 0);
        for loss in &losses {
            match loss {
                Loss::Gentle { token: p, any: q } => (token, any) = (token + p, any + q),
                Loss::Hosts(hosts) => {
                    down = NodeSet(down.0 | hosts.0);
                    parting += 1;
                }
                Loss::Links(_) => parting += 1,
                Loss::Nothing => {}
            }
        }
        if token >= ALL_COPIES || signs == LifeSigns::Heartbeats && any >= ALL_HEARTBEATS {
            return None;
        }
        let faulty = active.iter().zip(&losses).filter_map(|(a, loss)| match loss {
            Loss::Links(links) => Some((a.fault, links)),
            _ => None,
        });
        let faulty: Vec<_> = faulty.collect();
        let carries = |what: Carried, a: NodeId, b: NodeId| {
            faulty.iter().all(|(fault, links)| !(links.dead)(*fault, a, b) || what <= links.left)
        };
        Some(ConstantSpan { from, until, faults: parting, cores: cores(self.nodes, down, signs, &carries) })
    }
}

impl RunPlan {
    /// Whether a node that this takes down was started again meanwhile, by the end of another fault.
    fn is_up_again(&self, down: &Activation, at: Instant) -> bool {
        let victim = |a: &Activation| match a.fault {
            Fault::Crash { node, .. } | Fault::Leave { node, .. } => Some(node),
            _ => None,
        };
        let Some(node) = victim(down) else { return false };
        let ends =
            |a: &Activation| victim(a) == Some(node) && a.from != down.from && down.from < a.until && a.until <= at;
        self.faults.iter().any(ends)
    }
}

/// Whether a fault is at work from a moment on; who crashed or left for good never comes back.
fn lasts(activation: &Activation, at: Instant) -> bool {
    let stays = matches!(activation.fault, Fault::Crash { stays: true, .. } | Fault::Leave { stays: true, .. });
    activation.from <= at && (stays || at < activation.until)
}

/// None: what it does cannot be told beforehand.
fn loss(fault: &Fault) -> Option<Loss> {
    let one = |node: NodeId| Loss::Hosts(NodeSet(1 << node.0.min(63)));
    let links = |dead, left| Loss::Links(Links { dead, left });
    Some(match fault {
        Fault::TokenLoss { p, .. } | Fault::Corrupt { p, .. } => Loss::Gentle { token: *p, any: *p },
        Fault::DataLoss { p, .. } => Loss::Gentle { token: 0.0, any: *p },
        Fault::Duplicate { .. } | Fault::Echo { .. } | Fault::Reorder { .. } | Fault::Clock { .. } => Loss::Nothing,
        Fault::Late { node } | Fault::Pause { node } => one(*node),
        Fault::Crash { node, .. } | Fault::Leave { node, .. } => one(*node),
        Fault::Stall { part } => Loss::Hosts(*part),
        Fault::Partition { .. } | Fault::Apart { .. } => links(is_dead, Carried::Nothing),
        Fault::Cut { lanes, .. } => links(is_dead, left_by_cut(*lanes)),
        _ => return None,
    })
}

const fn left_by_cut(lanes: Lanes) -> Carried {
    match lanes {
        Lanes::Both => Carried::Nothing,
        Lanes::Data => Carried::Something,
        Lanes::Token | Lanes::Unicast => Carried::Copies,
    }
}

fn is_dead(fault: Fault, from: NodeId, to: NodeId) -> bool {
    match fault {
        Fault::Partition { part } => part.contains(from) != part.contains(to),
        Fault::Apart { a, b } => (from, to) == (a, b) || (from, to) == (b, a),
        Fault::Cut { scope, .. } => FaultScope::holds(scope, from, to),
        _ => false,
    }
}

/// Of a part of the network the nodes that hear each other both ways, once those are left out that most others do not get on
/// with.
fn core_of(mut part: Vec<NodeId>, is_whole: &dyn Fn(NodeId, NodeId) -> bool) -> Vec<NodeId> {
    loop {
        let lacks = |node: NodeId| part.iter().filter(|other| **other != node && !is_whole(node, **other)).count();
        let most = part.iter().map(|node| lacks(*node)).max().unwrap_or(0);
        if most == 0 {
            return part;
        }
        let left: Vec<_> = part.iter().copied().filter(|node| lacks(*node) < most).collect();
        part = left;
    }
}

/// Of each part of the network its core; a part is all that hears of each other in any way.
fn cores(nodes: u16, down: NodeSet, signs: LifeSigns, carries: &dyn Fn(Carried, NodeId, NodeId) -> bool) -> Vec<Core> {
    let mut left: Vec<_> = (0..nodes).map(NodeId).filter(|node| !down.contains(*node)).collect();
    let is_whole = |a: NodeId, b: NodeId| carries(Carried::All, a, b) && carries(Carried::All, b, a);
    let mut cores = Vec::new();
    while let Some(first) = left.first().copied() {
        let mut part = vec![first];
        let mut at = 0;
        while let Some(node) = part.get(at).copied() {
            at += 1;
            let near = |other: &&NodeId| {
                carries(Carried::Something, node, **other) || carries(Carried::Something, **other, node)
            };
            let more: Vec<_> = left.iter().filter(near).filter(|other| !part.contains(other)).copied().collect();
            part.extend(more);
        }
        left.retain(|node| !part.contains(node));
        let core = core_of(part.clone(), &is_whole);
        let outside: Vec<_> = part.into_iter().filter(|node| !core.contains(node)).collect();
        let united = is_united(&core, &outside, signs, carries);
        let nodes = NodeSet(core.iter().fold(0, |set, node| set | 1 << node.0.min(63)));
        cores.extend((!core.is_empty()).then_some(Core { nodes, united }));
    }
    cores
}

/// Whether nobody outside a core can draw some of it to its side, and others not.
fn is_united(
    core: &[NodeId],
    outside: &[NodeId],
    signs: LifeSigns,
    carries: &dyn Fn(Carried, NodeId, NodeId) -> bool,
) -> bool {
    let both = |what: Carried, a: NodeId, b: NodeId| carries(what, a, b) && carries(what, b, a);
    let apart = |what: Carried| outside.iter().all(|node| core.iter().all(|member| !both(what, *node, *member)));
    if signs == LifeSigns::Heartbeats {
        // A view that was formed before goes on by signs of incarnation on any lane.
        return apart(Carried::Something);
    }
    // A ring holds one whose tokens come only as copies (R25): with none of the core, or with all and others like it.
    let draws = |node: &&NodeId| core.iter().any(|member| both(Carried::Copies, **node, *member));
    let drawn: Vec<_> = outside.iter().filter(draws).copied().collect();
    let all =
        |node: &NodeId| core.iter().chain(&drawn).all(|other| other == node || both(Carried::Copies, *node, *other));
    apart(Carried::All) && drawn.iter().all(all)
}

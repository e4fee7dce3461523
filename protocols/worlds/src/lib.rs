//! Worlds of any engine: what the protocols have in common in the simulator.
use consort_member::Policy;
use consort_node::{Limits, Node};
use consort_order::{Capability, Engine};
use consort_sim::checkers::{Bounds, Calmness, PromisedOrder};
use consort_sim::machine::{Bare, Bookmarks, Holds, Machine, Whole};
use consort_sim::message;
use consort_sim::plan::{LifeSigns, RunPlan};
use consort_sim::world::{RunOptions as Keep, SimWorld};
use consort_types::{ClusterId, ConfigHash, Duration, GroupName, Instant, MemberId, NodeId, Rng};
use consort_wire::Identity;

/// Makes an engine for one life of one node.
pub type Make<'a, E> = Box<dyn Fn(MemberId) -> Result<E, String> + 'a>;

/// A world of engines alone.
///
/// # Errors
/// What is wrong with the settings.
pub fn bare<'a, E: Engine + 'a>(
    plan: RunPlan,
    keep: Keep,
    make: Make<'a, E>,
    holds: Option<Holds<E>>,
) -> Result<SimWorld<'a, Bare<E>>, String> {
    world(plan, keep, move |member| Ok(Bare::new(identity(member), make(member)?, holds)))
}

/// A world of whole nodes with their clients; `touch` does something to every node before it starts.
///
/// # Errors
/// What is wrong with the settings.
pub fn whole<'a, E: Engine + 'a>(
    plan: RunPlan,
    keep: Keep,
    make: Make<'a, E>,
    holds: Option<Holds<E>>,
    touch: &'a dyn Fn(&mut Node<E>),
) -> Result<SimWorld<'a, Whole<E>>, String> {
    let group = GroupName::new(b"all").map_err(|error| error.to_string())?;
    let mut rng = Rng::new(plan.seed).fork(0x11b175);
    let drawn = Limits {
        message_max: message::LARGEST,
        credit: [16 << 10, 128 << 10, 512 << 10][rng.below(3) as usize],
        ..Limits::default()
    };
    let limits = if plan.shipped { Limits::default() } else { drawn };
    let (known, bookmarks) = (plan.clone(), Bookmarks::default());
    world(plan, keep, move |member| {
        let whole = Whole::new(&known, identity(member), make(member)?, limits, group.clone(), holds);
        let mut whole = whole.with_reader(&known, bookmarks.clone());
        touch(whole.node_mut());
        Ok(whole)
    })
}

fn world<'a, M: Machine>(
    plan: RunPlan,
    keep: Keep,
    make: impl Fn(MemberId) -> Result<M, String> + 'a,
) -> Result<SimWorld<'a, M>, String> {
    let machines = plan.members().into_iter().map(&make).collect::<Result<_, _>>()?;
    Ok(SimWorld::new(plan, keep, machines).restart_with(move |member| make(member).ok()))
}

/// What a node of a simulated world stamps on its datagrams.
pub fn identity(me: MemberId) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(1), me }
}

/// What an engine on the view-synchronous membership may show in a run, and what it promises of its order: `running` are its
/// gauges' limits, those of `quiet` are zero once all is at rest, and the checkers of `unseen` have nothing to judge.
pub fn bounds<const R: usize, const Q: usize, const U: usize>(
    plan: &RunPlan,
    capability: &Capability,
    running: [(&'static str, u64); R],
    quiet: [&'static str; Q],
    unseen: [&'static str; U],
) -> Bounds {
    Bounds {
        promised: PromisedOrder::of(capability),
        running: running.into(),
        quiet: quiet.map(|name| (name, 0)).into(),
        needless: [].into(),
        views: Calmness {
            nodes: plan.nodes,
            whole_by: plan.faults.is_empty().then_some(WHOLE_BY),
            changes: (plan.nodes > 1 && plan.is_gentle(LifeSigns::Heartbeats)).then_some(0),
            spans: plan.constant_spans(LifeSigns::Heartbeats),
            standstill: (!capability.quorum).then_some(STANDSTILL),
        },
        waits: None,
        disks_last: plan.keeps_disks() && !capability.quorum,
        goodbye: plan.is_polite().then_some(GOODBYE),
        unseen: unseen.into(),
    }
}

/// By when nodes that start together are in one view: where some found each other first, beacons bring the others.
const WHOLE_BY: Instant = Instant(1_500_000_000);
/// How long members that hear each other may order nothing. Without a majority nobody orders anything.
const STANDSTILL: Duration = Duration::from_secs(2);
/// Within what time a good-bye is heard.
const GOODBYE: Duration = Duration::from_millis(150);

/// A policy for the primary view.
pub fn policy(plan: &RunPlan, rng: &mut Rng) -> Policy {
    let node = NodeId(rng.below(u64::from(plan.nodes)) as u16);
    match rng.below(6) {
        0 => Policy::None,
        1 => Policy::Static(node),
        2 => Policy::Weights([(node, rng.between(1, 4) as u32)].into()),
        _ => Policy::Majority,
    }
}

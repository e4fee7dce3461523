//! Every protocol in the simulator: settings drawn by the seed, limits that its memory must keep, and scenes with a plot.
//!
//! `cargo xtask sim` and `cargo xtask mutants` run these; the tests hold every engine to its capability record.
pub mod failover;
mod multiring;
mod multiring_paxos;
mod paxos;
mod plato;
pub mod ring;
pub mod scenes;
mod sessions;
mod toto;

use consort_member::Policy;
use consort_node::streams::GroupStreams;
use consort_node::{Limits, Node};
use consort_order::{Capability, Engine};
use consort_sim::checkers::{Bounds, Calmness, PromisedOrder};
use consort_sim::fault::{Activation, Fault, FaultScope, Kinds};
use consort_sim::machine::{Bare, Bookmarks, Holds, Machine, OrderBelow, Whole};
use consort_sim::message;
use consort_sim::plan::{LifeSigns, RunPlan};
use consort_sim::world::{RunOptions, RunOutcome, SimWorld};
use consort_types::{ClusterId, ConfigHash, Duration, GroupName, Incarnation, Instant, MemberId, NodeId, Rng};
use consort_wire::Identity;
use sessions::DrawnSessions;
pub use sessions::SessionsDrawn;
use std::ops::RangeInclusive;

/// A protocol that the simulator runs.
pub trait Simulated: Engine + Sized + 'static {
    /// Its settings.
    type Config: Clone + 'static;
    /// Which positions it holds, where it tells.
    const HOLDS: Option<Holds<Self>>;

    /// The settings of one run, of engines alone or of `whole` nodes; all nodes share them.
    fn settings(plan: &RunPlan, whole: bool) -> Self::Config;
    /// Those of one node.
    fn at(config: &Self::Config, me: NodeId) -> Self::Config;
    /// One incarnation of a node.
    ///
    /// # Errors
    /// What is wrong with the settings.
    fn create(config: Self::Config, incarnation: Incarnation) -> Result<Self, String>;
    /// What the gauges may show in a run, and what is promised of its order.
    ///
    /// # Errors
    /// What is wrong with the settings.
    fn bounds(plan: &RunPlan, whole: bool) -> Result<Bounds, String>;
    /// Whether parts of a network deliver the rest of their common view in orders of their own.
    const CLOSES_APART: bool = false;
    /// Whether its positions outlive restarts of all nodes, and can be read again.
    fn lasts(_config: &Self::Config) -> bool {
        false
    }
    /// The same settings as servers need them: a policy says which part of the network goes on, and each node may retain as
    /// much, because a server knows only what its own daemon may retain.
    fn for_servers(config: Self::Config) -> Self::Config {
        config
    }
    /// The highest stream that messages of engines alone are for.
    fn streams(_config: &Self::Config) -> u16 {
        0
    }
    /// In which of its streams the groups of whole nodes stand.
    fn group_streams(_config: &Self::Config) -> GroupStreams {
        GroupStreams::default()
    }
    /// A drawn plan as far as this protocol is made for it.
    fn suited(plan: RunPlan, _whole: bool) -> RunPlan {
        plan
    }
}

/// Says what every node's settings are in the end.
pub type Adjust<'a, E> = &'a dyn Fn(&mut <E as Simulated>::Config);

/// Does something to every node before it starts.
pub type Touch<'a, E> = &'a dyn Fn(&mut Node<E>);

/// Runs one seed: an odd one drives engines alone, an even one whole nodes with their clients.
///
/// # Errors
/// What is wrong with the settings.
pub fn run<E: Simulated>(seed: u64, faults: &Kinds, adjust: Adjust<'_, E>, story: bool) -> Result<RunOutcome, String> {
    if seed.is_multiple_of(2) {
        return run_whole::<E>(seed, faults, (adjust, &|_| {}), story);
    }
    let plan = E::suited(RunPlan::draw_bare(seed, faults), false);
    let options = RunOptions { bounds: E::bounds(&plan, false)?, story, trace: false };
    Ok(bare::<E>(plan, options, adjust)?.run())
}

/// Runs one seed with whole nodes.
///
/// # Errors
/// What is wrong with the settings.
pub fn run_whole<E: Simulated>(
    seed: u64,
    faults: &Kinds,
    (adjust, touch): (Adjust<'_, E>, Touch<'_, E>),
    story: bool,
) -> Result<RunOutcome, String> {
    run_sessions::<E>(seed, faults, (adjust, touch), &SessionsDrawn::ByChance, story)
}

/// Runs one seed with whole nodes and these sessions.
///
/// # Errors
/// What is wrong with the settings.
pub fn run_sessions<E: Simulated>(
    seed: u64,
    faults: &Kinds,
    (adjust, touch): (Adjust<'_, E>, Touch<'_, E>),
    sessions: &SessionsDrawn,
    story: bool,
) -> Result<RunOutcome, String> {
    let plan = E::suited(RunPlan::draw_whole(seed, faults), true);
    let promised = E::bounds(&plan, true)?.promised;
    let resumes = !promised.quorum || promised.gaps;
    let order = OrderBelow { lasts: E::lasts(&E::settings(&plan, true)), closes_apart: E::CLOSES_APART };
    let drawn = sessions.of(&plan, resumes, order)?;
    let drawn = if promised.quorum && !order.lasts { drawn.without_blackout() } else { drawn };
    let plan = drawn.suited(plan);
    let mut bounds = E::bounds(&plan, true)?;
    if drawn.servers.is_some() {
        // Servers make checkpoints, and say so, also at rest.
        bounds.quiet.values_mut().for_each(|limit| *limit = (*limit).max(4 << 10));
        // A message is copied to five servers where it was copied to four clients before.
        let most = bounds.running.entry("delivery_slice_max_bytes");
        most.and_modify(|limit| *limit += message::LARGEST as u64 + 1024);
        // What daemons had queued was taken before the budget of copies was reached.
        let queued = bounds.running.get("queued_bytes").map_or(0, |limit| limit * u64::from(plan.nodes));
        bounds.running.entry("retained_bytes").and_modify(|limit| *limit += queued);
        // Where all retain little, a node that was slow begins again outside of the view.
        bounds.unseen.insert("NV");
    }
    if drawn.blacks_out() {
        // A leader takes up all that it finds undecided: as much as there was since decisions were written last.
        bounds.running.remove("open_instances");
    }
    let options = RunOptions { bounds, story, trace: false };
    Ok(whole::<E>(plan, options, adjust, touch, drawn)?.run())
}

/// A world of engines alone.
///
/// # Errors
/// What is wrong with the settings.
pub fn bare<'a, E: Simulated>(
    plan: RunPlan,
    options: RunOptions,
    adjust: Adjust<'a, E>,
) -> Result<SimWorld<'a, Bare<E>>, String> {
    let settings = E::settings(&plan, false);
    let streams = E::streams(&settings);
    let machine = move |member| {
        let bare = Bare::new(identity(member), node(&settings, member, adjust)?, E::HOLDS);
        Ok(bare.over_streams(streams))
    };
    world(plan, options, machine)
}

/// A world of whole nodes with their clients.
fn whole<'a, E: Simulated>(
    plan: RunPlan,
    mut options: RunOptions,
    adjust: Adjust<'a, E>,
    touch: Touch<'a, E>,
    drawn: DrawnSessions,
) -> Result<SimWorld<'a, Whole<E>>, String> {
    let settings = E::settings(&plan, true);
    let streams = E::group_streams(&settings);
    let group = GroupName::new(b"all").map_err(|error| error.to_string())?;
    let mut rng = Rng::new(plan.seed).fork(0x11b175);
    let drawn_limits = Limits {
        message_max: message::LARGEST,
        credit: [16 << 10, 128 << 10, 512 << 10][rng.below(3) as usize],
        ..Limits::default()
    };
    let limits = if plan.shipped { Limits::default() } else { drawn_limits };
    let spares = !plan.shipped && Rng::new(plan.seed).fork(0x70b1c).chance(0.6);
    let (known, bookmarks) = (plan.clone(), Bookmarks::default());
    let DrawnSessions { roaming, resuming, servers } = drawn;
    let settings = if servers.is_some() { E::for_servers(settings) } else { settings };
    if let Some(readers) = &resuming {
        let (bytes, keep) = readers.retention();
        options.bounds.retained = Some((bytes as u64, keep));
        options.bounds.running.insert("bytes_retained", bytes as u64);
        // That groups are read is said again from time to time, also at rest, and all others acknowledge it.
        let said = 8 + u64::from(known.nodes);
        for (name, limit) in &mut options.bounds.quiet {
            *limit = (*limit).max(if name.ends_with("packets") { said } else { 4 << 10 });
        }
    }
    world(plan, options, move |member| {
        let node = node(&settings, member, adjust)?;
        let whole = Whole::new(&known, identity(member), node, limits, group.clone(), E::HOLDS);
        let mut whole = whole.with_reader(&known, bookmarks.clone()).with_roamers(&known, roaming.clone());
        whole = whole.with_resumers(&known, resuming.clone()).with_servers(&known, servers.clone());
        whole.node_mut().set_streams(streams.clone());
        // What others read is not kept where nodes are spared it.
        if spares && resuming.is_none() && Rng::new(known.seed).fork(member.node.0.into()).chance(0.8) {
            whole.node_mut().spare_unread();
        }
        touch(whole.node_mut());
        Ok(whole)
    })
}

fn world<'a, M: Machine>(
    plan: RunPlan,
    options: RunOptions,
    make: impl Fn(MemberId) -> Result<M, String> + 'a,
) -> Result<SimWorld<'a, M>, String> {
    let machines = plan.members().into_iter().map(&make).collect::<Result<_, _>>()?;
    Ok(SimWorld::new(plan, options, machines).restart_with(move |member| make(member).ok()))
}

fn node<E: Simulated>(settings: &E::Config, member: MemberId, adjust: Adjust<'_, E>) -> Result<E, String> {
    let mut config = E::at(settings, member.node);
    adjust(&mut config);
    E::create(config, member.incarnation)
}

/// What a node of a simulated world stamps on its datagrams.
fn identity(me: MemberId) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(1), me }
}

/// What an engine on the view-synchronous membership may show in a run, and what it promises of its order: `running` are its
/// gauges' limits, those of `quiet` are zero once all is at rest, and the checkers of `unseen` have nothing to judge.
fn bounds<const R: usize, const Q: usize, const U: usize>(
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
            whole_by: plan.faults.is_empty().then(|| Instant::ZERO + paced(plan, WHOLE_BY)),
            changes: (plan.nodes > 1 && plan.is_gentle(LifeSigns::Heartbeats)).then_some(0),
            spans: plan.constant_spans(LifeSigns::Heartbeats),
            standstill: (!capability.quorum).then(|| paced(plan, STANDSTILL)),
        },
        waits: None,
        disks_last: plan.keeps_disks() && !capability.quorum,
        goodbye: plan.is_polite().then(|| paced(plan, GOODBYE)),
        retained: None,
        unseen: unseen.into(),
    }
}

/// The kinds of the view-synchronous membership's packets.
const MEMBERSHIP_KINDS: RangeInclusive<u8> = 0x80..=0x86;

/// A plan that loses packets of kinds that its protocol has: `messages` of its own, and those of its membership.
fn with_kinds(mut plan: RunPlan, messages: u8) -> RunPlan {
    let kinds: Vec<u8> = (1..=messages).chain(MEMBERSHIP_KINDS).collect();
    let mut rng = Rng::new(plan.seed).fork(0x514d5);
    for activation in &mut plan.faults {
        if let Fault::KindLoss { kind, .. } = &mut activation.fault {
            *kind = kinds[rng.below(kinds.len() as u64) as usize];
        }
    }
    plan
}

/// In some runs nodes are far apart until all faults end: all of them, or one from all others. Nobody tells them.
fn far_apart(mut plan: RunPlan) -> RunPlan {
    //= M60 test
    let mut rng = Rng::new(plan.seed).fork(0xfa2a);
    if plan.faults.is_empty() || !(2..=8).contains(&plan.nodes) || !rng.chance(0.1) {
        return plan;
    }
    let one = NodeId(rng.below(plan.nodes.into()) as u16);
    let scopes = if rng.chance(0.5) { vec![FaultScope::All] } else { vec![FaultScope::From(one), FaultScope::To(one)] };
    let delay = Duration::from_millis(rng.between(10, 100));
    let jitter = delay * rng.below(3) as u32 / 20;
    let far =
        |scope| Activation { from: Instant::ZERO, until: plan.calm, fault: Fault::Delay { scope, delay, jitter } };
    plan.faults.splice(0..0, scopes.into_iter().map(far));
    plan
}

/// A limit for the shipped timers, as the plan's need it. Shorter timers shorten none: the network is no faster for them.
fn paced(plan: &RunPlan, limit: Duration) -> Duration {
    limit * plan.timers.max(100) / 100
}

/// By when nodes that start together are in one view: where some found each other first, beacons bring the others.
const WHOLE_BY: Duration = Duration::from_millis(1_500);
/// How long members that hear each other may order nothing. Without a majority nobody orders anything.
const STANDSTILL: Duration = Duration::from_secs(2);
/// Within what time a good-bye is heard.
const GOODBYE: Duration = Duration::from_millis(150);

/// A policy for the primary view.
fn policy(plan: &RunPlan, rng: &mut Rng) -> Policy {
    let node = NodeId(rng.below(u64::from(plan.nodes)) as u16);
    match rng.below(6) {
        0 => Policy::None,
        1 => Policy::Static(node),
        2 => Policy::Weights([(node, rng.between(1, 4) as u32)].into()),
        _ => Policy::Majority,
    }
}

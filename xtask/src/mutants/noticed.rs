//! Each mutant in scenes, at seeds, and in the tests of its own crate, until something notices it.
use super::Options;
use super::own_tests::{self, OwnTests};
use crate::sim::{self, Protocol};
use consort_leader::Election;
use consort_multiring::MultiRing;
use consort_multiring_paxos::MultiRingPaxos;
use consort_paxos::Paxos;
use consort_plato::Plato;
use consort_replica::simulated::{durable, lasting as replica};
use consort_ring::Ring;
use consort_sim::fault::Kinds;
use consort_sim::machine::{ElectionTouch, ServerFlaw, ServerTouch};
use consort_sim::world::RunOutcome;
use consort_toto::Toto;
use consort_worlds::scenes::{self, Playable};
use consort_worlds::{SessionsDrawn, run as run_seed, run_sessions, run_whole};
use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Breaks a rule of a node.
type Touch<'a> = consort_worlds::Touch<'a, Ring>;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    Ring(consort_ring::Mutant),
    Group(consort_group::Mutant),
    Node(consort_node::Mutant),
    Leader(consort_leader::Mutant),
    Replica(replica::Mutant),
    Durable(durable::Mutant),
    Server(ServerFlaw),
    Toto(consort_toto::Mutant),
    Views(consort_toto::vs::Mutant),
    Plato(consort_plato::Mutant),
    Paxos(consort_paxos::Mutant),
    MultiRingPaxos(consort_multiring_paxos::Mutant),
    MultiRing(consort_multiring::Mutant),
}

impl Mutant {
    fn all() -> Vec<Self> {
        let groups = consort_group::Mutant::ALL.iter().copied().map(Self::Group);
        let ring = consort_ring::Mutant::ALL.iter().copied().map(Self::Ring).chain(groups);
        let ring = ring.chain(consort_node::Mutant::ALL.iter().copied().map(Self::Node));
        let ring = ring.chain(consort_leader::Mutant::ALL.iter().copied().map(Self::Leader));
        let views = consort_toto::vs::Mutant::ALL.iter().copied().map(Self::Views);
        let plato = consort_plato::Mutant::ALL.iter().copied().map(Self::Plato);
        let paxos = consort_paxos::Mutant::ALL.iter().copied().map(Self::Paxos);
        // Two are of the model in its own tests: the simulator has them among those of servers.
        let of_model = [replica::Mutant::OriginsUnkept, replica::Mutant::NextKeptLate];
        let replicas = replica::Mutant::ALL.iter().copied().filter(|mutant| !of_model.contains(mutant));
        let ring = ring.chain(durable::Mutant::ALL.iter().copied().map(Self::Durable));
        let paxos = paxos.chain(replicas.map(Self::Replica)).chain(ServerFlaw::ALL.iter().copied().map(Self::Server));
        let toto = consort_toto::Mutant::ALL.iter().copied().map(Self::Toto);
        let many = consort_multiring_paxos::Mutant::ALL.iter().copied().map(Self::MultiRingPaxos);
        let joined = consort_multiring::Mutant::ALL.iter().copied().map(Self::MultiRing);
        ring.chain(toto).chain(views).chain(plato).chain(paxos).chain(many).chain(joined).collect()
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ring(mutant) => mutant.name(),
            Self::Group(mutant) => mutant.name(),
            Self::Node(mutant) => mutant.name(),
            Self::Leader(mutant) => mutant.name(),
            Self::Replica(mutant) => mutant.name(),
            Self::Durable(mutant) => mutant.name(),
            Self::Server(flaw) => flaw.name(),
            Self::Toto(mutant) => mutant.name(),
            Self::Views(mutant) => mutant.name(),
            Self::Plato(mutant) => mutant.name(),
            Self::Paxos(mutant) => mutant.name(),
            Self::MultiRingPaxos(mutant) => mutant.name(),
            Self::MultiRing(mutant) => mutant.name(),
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Ring(mutant) => mutant.what(),
            Self::Group(mutant) => mutant.what(),
            Self::Node(mutant) => mutant.what(),
            Self::Leader(mutant) => mutant.what(),
            Self::Replica(mutant) => mutant.what(),
            Self::Durable(mutant) => mutant.what(),
            Self::Server(flaw) => flaw.what(),
            Self::Toto(mutant) => mutant.what(),
            Self::Views(mutant) => mutant.what(),
            Self::Plato(mutant) => mutant.what(),
            Self::Paxos(mutant) => mutant.what(),
            Self::MultiRingPaxos(mutant) => mutant.what(),
            Self::MultiRing(mutant) => mutant.what(),
        }
    }

    /// Which protocol it breaks.
    const fn protocol(self) -> Protocol {
        match self {
            Self::Node(mutant) if mutant.is_of_reading() => Protocol::Paxos,
            Self::Node(mutant) if mutant.is_of_topics() => Protocol::MultiRing,
            Self::Ring(_) | Self::Group(_) | Self::Node(_) | Self::Leader(_) | Self::Durable(_) => Protocol::Ring,
            Self::Toto(_) | Self::Views(_) => Protocol::Toto,
            Self::Plato(_) => Protocol::Plato,
            Self::Paxos(_) | Self::Replica(_) | Self::Server(_) => Protocol::Paxos,
            Self::MultiRingPaxos(_) => Protocol::MultiRingPaxos,
            Self::MultiRing(_) => Protocol::MultiRing,
        }
    }

    /// Whether it is one of those asked for.
    fn is_wanted(self, options: &Options) -> bool {
        options.mutant.as_ref().is_none_or(|name| name == self.name())
            && options.protocol.is_none_or(|protocol| protocol == self.protocol())
    }

    /// The seeds it is given, counted from 1: engines alone have no groups.
    fn seeds(self, which: RangeInclusive<u64>) -> impl Iterator<Item = u64> {
        let step = if matches!(self, Self::Group(_) | Self::Node(_)) { 2 } else { 1 };
        which.map(move |n| n * step)
    }
}

/// How a mutant was noticed.
struct Noticed {
    place: Place,
    rules: Vec<&'static str>,
    how: String,
    simulated: f64,
}

/// Where a mutant was noticed.
enum Place {
    Seed(u64),
    Scene(&'static str),
    /// One of its own crate's, by its whole name.
    Test(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => f.pad(&seed.to_string()),
            Self::Scene(name) => f.pad(name),
            Self::Test(_) => f.pad("test"),
        }
    }
}

impl Noticed {
    /// What the checkers say of a run, if they say anything.
    fn by(outcome: &RunOutcome, place: Place, simulated: f64) -> Option<Self> {
        let first = outcome.violations.first()?;
        let mut rules: Vec<_> = outcome.violations.iter().map(|violation| violation.rule.id).collect();
        rules.sort_unstable();
        rules.dedup();
        Some(Self { place, rules, how: first.how.clone(), simulated })
    }
}

pub(super) fn run(options: &Options, _words: &[OsString]) -> ExitCode {
    let mutants: Vec<_> = Mutant::all().into_iter().filter(|mutant| mutant.is_wanted(options)).collect();
    match (mutants.as_slice(), options.seed, &options.scene) {
        ([], ..) => {
            let names: Vec<_> = Mutant::all().into_iter().map(Mutant::name).collect();
            eprintln!("mutants: no such mutant; there are {}", names.join(", "));
            ExitCode::from(2)
        }
        ([mutant], Some(seed), _) => tell(seed, outcome(*mutant, seed, true)),
        ([mutant], _, Some(name)) => tell_scene(*mutant, name),
        _ => table(&mutants, options),
    }
}

/// Every fourth seed has no faults: some mutants are loud only where all is quiet.
fn outcome(mutant: Mutant, seed: u64, story: bool) -> Result<RunOutcome, String> {
    let faults = if seed.is_multiple_of(4) { Kinds::none() } else { Kinds::all() };
    let run = AssertUnwindSafe(|| match mutant {
        Mutant::Ring(mutant) => run_seed::<Ring>(seed, &faults, &|config| config.mutant = Some(mutant), story),
        Mutant::Toto(mutant) => run_seed::<Toto>(seed, &faults, &|config| config.mutant = Some(mutant), story),
        Mutant::Views(mutant) => run_seed::<Toto>(seed, &faults, &|config| config.vs_mutant = Some(mutant), story),
        Mutant::Plato(mutant) => run_seed::<Plato>(seed, &faults, &|config| config.mutant = Some(mutant), story),
        Mutant::Paxos(mutant) => run_seed::<Paxos>(seed, &faults, &|config| config.mutant = Some(mutant), story),
        Mutant::MultiRingPaxos(mutant) => {
            run_seed::<MultiRingPaxos>(seed, &faults, &|config| config.mutant = Some(mutant), story)
        }
        Mutant::MultiRing(mutant) => {
            run_seed::<MultiRing>(seed, &faults, &|config| config.mutant = Some(mutant), story)
        }
        Mutant::Group(mutant) if mutant.is_of_readers() => {
            let touch: Touch<'_> = &|node| node.mutate_groups(mutant);
            run_sessions::<Ring>(seed, &faults, (&|_| {}, touch), &SessionsDrawn::Readers, story)
        }
        Mutant::Node(mutant) if mutant.is_of_readers() => {
            let touch: Touch<'_> = &|node| node.mutate(mutant);
            run_sessions::<Ring>(seed, &faults, (&|_| {}, touch), &SessionsDrawn::Readers, story)
        }
        Mutant::Leader(mutant) => {
            let touch: ElectionTouch = Rc::new(move |election: Election| election.with_mutant(mutant));
            let candidates = SessionsDrawn::Candidates(Some(touch));
            run_sessions::<Ring>(seed, &faults, (&|_| {}, &|_| {}), &candidates, story)
        }
        Mutant::Replica(mutant) => {
            let engine = move |engine: replica::Engine| engine.with_broken(Some(mutant));
            run_servers(seed, &faults, ServerTouch { engine: Some(Rc::new(engine)), ..ServerTouch::default() }, story)
        }
        Mutant::Durable(mutant) => {
            let engine = move |engine: durable::Engine| engine.with_broken(Some(mutant));
            let touch = ServerTouch { durable: Some(Rc::new(engine)), ..ServerTouch::default() };
            run_sessions::<Ring>(seed, &faults, (&|_| {}, &|_| {}), &SessionsDrawn::Servers(touch), story)
        }
        Mutant::Server(flaw) => {
            run_servers(seed, &faults, ServerTouch { flaw: Some(flaw), ..ServerTouch::default() }, story)
        }
        Mutant::Group(mutant) => run_whole::<Ring>(seed, &faults, (&|_| {}, &|node| node.mutate_groups(mutant)), story),
        Mutant::Node(mutant) if mutant.is_of_reading() => {
            run_whole::<Paxos>(seed, &faults, (&|_| {}, &|node| node.mutate(mutant)), story)
        }
        Mutant::Node(mutant) if mutant.is_of_topics() => {
            run_whole::<MultiRing>(seed, &faults, (&|_| {}, &|node| node.mutate(mutant)), story)
        }
        Mutant::Node(mutant) => run_whole::<Ring>(seed, &faults, (&|_| {}, &|node| node.mutate(mutant)), story),
    });
    catch_unwind(run).unwrap_or_else(|_| Err("panicked".into()))
}

/// Runs one seed with servers that are broken so.
fn run_servers(seed: u64, faults: &Kinds, touch: ServerTouch, story: bool) -> Result<RunOutcome, String> {
    run_sessions::<Paxos>(seed, faults, (&|_| {}, &|_| {}), &SessionsDrawn::Servers(touch), story)
}

fn tell(seed: u64, outcome: Result<RunOutcome, String>) -> ExitCode {
    match outcome {
        Ok(outcome) => {
            sim::tell(seed, &outcome, true);
            if outcome.violations.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Shows the scenes of the protocol that it breaks.
fn with_scenes<T>(
    mutant: Mutant,
    story: bool,
    see: impl FnOnce(&mut dyn Iterator<Item = Playable<'_>>) -> Option<T>,
) -> Option<T> {
    match mutant {
        Mutant::Toto(mutant) => see(&mut scenes::toto(&|config| config.mutant = Some(mutant), story)),
        Mutant::Views(mutant) => see(&mut scenes::toto(&|config| config.vs_mutant = Some(mutant), story)),
        Mutant::Plato(mutant) => see(&mut scenes::plato(&|config| config.mutant = Some(mutant), story)),
        Mutant::Ring(mutant) => see(&mut scenes::ring(&|config| config.mutant = Some(mutant), story)),
        Mutant::Group(_) | Mutant::Node(_) | Mutant::Leader(_) => None,
        Mutant::Replica(_) | Mutant::Durable(_) | Mutant::Server(_) => None,
        Mutant::Paxos(_) | Mutant::MultiRingPaxos(_) | Mutant::MultiRing(_) => None,
    }
}

fn tell_scene(mutant: Mutant, name: &str) -> ExitCode {
    let played = |scenes: &mut dyn Iterator<Item = Playable<'_>>| {
        scenes.filter(|(known, _)| *known == name).map(|(_, play)| play()).next()
    };
    match with_scenes(mutant, true, played) {
        Some(outcome) => tell(0, outcome),
        None => {
            let names = |scenes: &mut dyn Iterator<Item = Playable<'_>>| Some(scenes.map(|(name, _)| name).collect());
            let known: Vec<_> = with_scenes(mutant, false, names).unwrap_or_default();
            eprintln!("mutants: no scene `{name}`; there are {}", known.join(", "));
            ExitCode::from(2)
        }
    }
}

/// What no seed meets may be noticed where it is made to happen: in the scene of this name, or in any.
fn on_stage(mutant: Mutant, scene: Option<&str>) -> Option<Noticed> {
    with_scenes(mutant, false, |scenes| {
        scenes.filter(|(name, _)| scene.is_none_or(|scene| scene == *name)).find_map(in_scene)
    })
}

/// Some mutants break more than a scene can show: they panic.
fn in_scene((name, play): Playable<'_>) -> Option<Noticed> {
    let outcome = catch_unwind(AssertUnwindSafe(play)).ok()?.ok()?;
    Noticed::by(&outcome, Place::Scene(name), outcome.simulated.as_secs_f64())
}

/// Where mutants were noticed when that was recorded. Who is not noticed there any more is given all seeds.
const NOTICED: &str = include_str!("../../noticed.txt");
const NOTICED_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/noticed.txt");

fn as_before(mutant: Mutant) -> Option<Noticed> {
    let known = NOTICED.lines().filter_map(|line| line.split_once(' '));
    known.filter(|(name, _)| *name == mutant.name()).find_map(|(_, place)| match place.split_once(' ') {
        Some(("test", test)) => in_tests(mutant, Some(test)),
        Some(("scene", scene)) => on_stage(mutant, Some(scene)),
        _ => at_seed(mutant, place.parse().ok()?, 0.0).ok()?.ok(),
    })
}

/// Writes down where mutants are noticed.
fn record(mutants: &[Mutant], results: &[Result<Noticed, String>]) -> std::io::Result<()> {
    let head = NOTICED.lines().next().unwrap_or_default();
    let mut lines: Vec<_> = mutants
        .iter()
        .zip(results)
        .filter_map(|(mutant, result)| match &result.as_ref().ok()?.place {
            Place::Scene(scene) => Some(format!("{} scene {scene}", mutant.name())),
            Place::Seed(seed) => Some(format!("{} {seed}", mutant.name())),
            Place::Test(test) => Some(format!("{} test {test}", mutant.name())),
        })
        .collect();
    lines.sort_unstable();
    lines.dedup(); // mutants of two protocols may have one name
    std::fs::write(NOTICED_FILE, format!("{head}\n{}\n", lines.join("\n")))
}

/// After so many seeds, scenarios made for a rule are tried before the other seeds: they take a second.
const BEFORE_SCENARIOS: u64 = 40;
/// Runs of Ring Paxos take longer, and its own judges see more.
const BEFORE_TESTS_OF_PAXOS: u64 = 6;

/// Gives a mutant one seed, after so many simulated seconds: it is noticed, or that many seconds have passed.
fn at_seed(mutant: Mutant, seed: u64, simulated: f64) -> Result<Result<Noticed, f64>, String> {
    let outcome = outcome(mutant, seed, false).map_err(|error| format!("seed {seed}: {error}"))?;
    let simulated = simulated + outcome.simulated.as_secs_f64();
    Ok(Noticed::by(&outcome, Place::Seed(seed), simulated).ok_or(simulated))
}

/// Gives a mutant seeds until it is noticed.
fn hunt(mutant: Mutant, seeds: RangeInclusive<u64>) -> Result<Noticed, String> {
    let mut simulated = 0.0;
    let seeds = match mutant {
        Mutant::Paxos(_) | Mutant::MultiRingPaxos(_) if *seeds.start() == 1 => {
            1..=BEFORE_TESTS_OF_PAXOS.min(*seeds.end())
        }
        _ => seeds,
    };
    for seed in mutant.seeds(seeds.clone()) {
        match at_seed(mutant, seed, simulated)? {
            Ok(noticed) => return Ok(noticed),
            Err(so_far) => simulated = so_far,
        }
    }
    Err(format!("seeds up to the {}th, {simulated:.0} simulated s: not noticed", seeds.end()))
}

/// On the way, since all together take minutes.
fn tell_progress(mutant: Mutant, result: &Result<Noticed, String>) {
    match result {
        Ok(noticed) => eprintln!("{}: {} at {}", mutant.name(), noticed.rules.join(" "), noticed.place),
        Err(error) => eprintln!("{}: {error}", mutant.name()),
    }
}

/// First where it was noticed before. Then scenes, for they take less than seeds, and tests before most of the seeds.
fn table(mutants: &[Mutant], options: &Options) -> ExitCode {
    let seeds = options.seeds;
    let mut results: Vec<_> = mutants.iter().map(|_| Err(String::new())).collect();
    let soon = seeds.min(BEFORE_SCENARIOS);
    let unseen = || String::from("no scene and no test notices it");
    own_tests::build(&mutants.iter().map(|mutant| own_tests(*mutant).package).collect());
    if !options.record {
        try_all(mutants, &mut results, |mutant| as_before(mutant).ok_or_else(unseen));
    }
    try_all(mutants, &mut results, |mutant| on_stage(mutant, None).ok_or_else(unseen));
    try_all(mutants, &mut results, |mutant| hunt(mutant, 1..=soon));
    try_all(mutants, &mut results, |mutant| in_tests(mutant, None).ok_or_else(unseen));
    try_all(mutants, &mut results, |mutant| hunt(mutant, soon + 1..=seeds));
    if options.record
        && let Err(error) = record(mutants, &results)
    {
        eprintln!("mutants: cannot write {NOTICED_FILE}: {error}");
        return ExitCode::from(2);
    }
    print_table(mutants, &results)
}

/// Tries all mutants that are not noticed yet.
fn try_all(
    mutants: &[Mutant],
    results: &mut [Result<Noticed, String>],
    notice: impl Fn(Mutant) -> Result<Noticed, String> + Sync,
) {
    let places: Vec<_> = (0..mutants.len()).filter(|at| results[*at].is_err()).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..sim::cores() {
            scope.spawn(|| {
                while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = notice(mutants[*place]);
                    tell_progress(mutants[*place], &result);
                    found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((*place, result));
                }
            });
        }
    });
    for (place, result) in found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        results[place] = result;
    }
}

/// What no seed of the simulator notices may still break a scenario made for it: a test of the protocol's own, or of
/// the groups' exchange; the one of this name, or any.
fn in_tests(mutant: Mutant, test: Option<&str>) -> Option<Noticed> {
    let failed = own_tests(mutant).failed(mutant.name(), test)?;
    eprintln!("{}: {}", mutant.name(), failed.test);
    let how = failed.test.rsplit("::").next().unwrap_or_default().to_owned();
    Some(Noticed { place: Place::Test(failed.test), rules: vec![failed.promise], how, simulated: 0.0 })
}

/// The tests that may notice it.
fn own_tests(mutant: Mutant) -> OwnTests {
    let (package, within, variable) = match mutant {
        Mutant::Ring(_) => ("consort-ring", "tests", "CONSORT_RING_MUTANT"),
        Mutant::Group(mutant) if mutant.is_of_producers() => {
            ("consort-group", "tests::producers", "CONSORT_GROUP_MUTANT")
        }
        Mutant::Group(mutant) if mutant.is_of_readers() => {
            ("consort-group", "tests::histories", "CONSORT_GROUP_MUTANT")
        }
        Mutant::Group(_) => ("consort-group", "tests::exchange", "CONSORT_GROUP_MUTANT"),
        Mutant::Node(mutant) if mutant.is_of_producers() => ("consort-node", "tests::producers", "CONSORT_NODE_MUTANT"),
        Mutant::Node(mutant) if mutant.is_of_readers() => ("consort-node", "tests::kept", "CONSORT_NODE_MUTANT"),
        Mutant::Node(mutant) if mutant.is_of_topics() => ("consort-node", "tests::topics", "CONSORT_NODE_MUTANT"),
        Mutant::Node(_) => ("consort-node", "tests::budgets", "CONSORT_NODE_MUTANT"),
        Mutant::Leader(_) => ("consort-leader", "tests::model::never", "CONSORT_LEADER_MUTANT"),
        Mutant::Replica(_) => ("consort-replica", "lasting::tests::random", "CONSORT_REPLICA_MUTANT"),
        Mutant::Durable(_) => ("consort-replica", "durable::tests", "CONSORT_REPLICA_MUTANT"),
        Mutant::Server(_) => ("consort-replica", "none of its tests", "CONSORT_REPLICA_MUTANT"),
        Mutant::Toto(_) => ("consort-toto", "tests", "CONSORT_TOTO_MUTANT"),
        Mutant::Views(_) => ("consort-member", "vs::tests", "CONSORT_VS_MUTANT"),
        Mutant::Plato(_) => ("consort-plato", "tests", "CONSORT_PLATO_MUTANT"),
        Mutant::Paxos(_) => ("consort-paxos", "tests", "CONSORT_PAXOS_MUTANT"),
        Mutant::MultiRingPaxos(_) => ("consort-multiring-paxos", "tests", "CONSORT_MULTIRING_PAXOS_MUTANT"),
        Mutant::MultiRing(_) => ("consort-multiring", "tests", "CONSORT_MULTIRING_MUTANT"),
    };
    OwnTests { package, within, variable }
}

fn print_table(mutants: &[Mutant], results: &[Result<Noticed, String>]) -> ExitCode {
    println!("{:<28} {:<14} {:>22} {:>10}  how", "mutant", "checker", "seed or scene", "simulated");
    let mut unnoticed = 0;
    for (mutant, result) in mutants.iter().zip(results) {
        match result {
            Ok(Noticed { place, rules, how, simulated }) => {
                let rules = rules.join(" ");
                println!("{:<28} {rules:<14} {place:>22} {simulated:>8.1} s  {how}", mutant.name());
            }
            Err(error) => {
                unnoticed += 1;
                println!("{:<28} {:<14} {:>22} {:>10}  {error}", mutant.name(), "NONE", "", "");
            }
        }
        println!("{:<28} it {}", "", mutant.what());
    }
    println!("again: cargo xtask mutants --mutant NAME --seed SEED, or --scene SCENE");
    println!("mutants: {} of {} noticed", mutants.len() - unnoticed, mutants.len());
    if unnoticed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

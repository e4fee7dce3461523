//! `cargo xtask mutants`: a protocol, its membership, or the groups over it, with one rule broken at a time. A checker that
//! no broken rule can wake is no checker.
use crate::sim::Protocol;
use std::ffi::OsString;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask mutants [options]

  --seeds N        give each mutant so many seeds of 10 simulated seconds to be noticed (default 400)
  --protocol NAME  try only those of ring (and the groups over it), toto (and the view-synchronous membership), plato or
                   paxos (and readers by position)
  --mutant NAME    try only this one
  --seed S         with --mutant: run this seed and tell its story
  --scene NAME     with --mutant: play this scene and tell its story
  --record         try all seeds in turn, and write down where each mutant is noticed: that is tried first from then on

Builds the protocols and the groups with their mutants, which no release contains. Prints which checker noticed which mutant,
in which scene (a simulated run in which just the packets are lost that must be), or at which seed and after how much
simulated time, or which of the protocol's own tests. Fails if a mutant goes unnoticed.
";

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))] // then only the words are checked, and handed on
struct Options {
    seeds: u64,
    protocol: Option<Protocol>,
    mutant: Option<String>,
    seed: Option<u64>,
    scene: Option<String>,
    record: bool,
}

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    match read(&words) {
        Ok(Some(options)) => run(&options, &words),
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(misuse) => {
            eprintln!("mutants: {misuse}; see cargo xtask mutants --help");
            ExitCode::from(2)
        }
    }
}

fn read(words: &[OsString]) -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(words.iter().cloned());
    let mut options = Options { seeds: 400, ..Options::default() };
    while let Some(word) = parser.next()? {
        match word {
            Long("seeds") => options.seeds = parser.value()?.parse()?,
            Long("protocol") => options.protocol = Some(Protocol::named(&parser.value()?.string()?)?),
            Long("mutant") => options.mutant = Some(parser.value()?.string()?),
            Long("seed") => options.seed = Some(parser.value()?.parse()?),
            Long("scene") => options.scene = Some(parser.value()?.string()?),
            Long("record") => options.record = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    if options.record && (options.protocol.is_some() || options.mutant.is_some()) {
        return Err("--record writes down all mutants: not with --protocol or --mutant".into());
    }
    if (options.seed.is_some() || options.scene.is_some()) && options.mutant.is_none() {
        return Err("--seed and --scene need --mutant".into());
    }
    Ok(Some(options))
}

/// This build has no mutants: the same words go to one that has.
#[cfg(not(feature = "mutants"))]
fn run(_options: &Options, words: &[OsString]) -> ExitCode {
    let arguments =
        ["run", "--profile", "tools", "--quiet", "--package", "xtask", "--features", "mutants", "--", "mutants"];
    match consort_cargo::cargo().args(arguments).args(words).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "mutants")]
use noticed::run;

#[cfg(feature = "mutants")]
mod noticed {
    use super::Options;
    use crate::sim::{self, Protocol};
    use consort_leader::Election;
    use consort_paxos::Paxos;
    use consort_plato::Plato;
    use consort_ring::Ring;
    use consort_sim::fault::Kinds;
    use consort_sim::machine::ElectionTouch;
    use consort_sim::world::RunOutcome;
    use consort_toto::Toto;
    use consort_worlds::scenes::{self, Played};
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
        Toto(consort_toto::Mutant),
        Views(consort_toto::vs::Mutant),
        Plato(consort_plato::Mutant),
        Paxos(consort_paxos::Mutant),
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
            let toto = consort_toto::Mutant::ALL.iter().copied().map(Self::Toto);
            ring.chain(toto).chain(views).chain(plato).chain(paxos).collect()
        }

        const fn name(self) -> &'static str {
            match self {
                Self::Ring(mutant) => mutant.name(),
                Self::Group(mutant) => mutant.name(),
                Self::Node(mutant) => mutant.name(),
                Self::Leader(mutant) => mutant.name(),
                Self::Toto(mutant) => mutant.name(),
                Self::Views(mutant) => mutant.name(),
                Self::Plato(mutant) => mutant.name(),
                Self::Paxos(mutant) => mutant.name(),
            }
        }

        const fn what(self) -> &'static str {
            match self {
                Self::Ring(mutant) => mutant.what(),
                Self::Group(mutant) => mutant.what(),
                Self::Node(mutant) => mutant.what(),
                Self::Leader(mutant) => mutant.what(),
                Self::Toto(mutant) => mutant.what(),
                Self::Views(mutant) => mutant.what(),
                Self::Plato(mutant) => mutant.what(),
                Self::Paxos(mutant) => mutant.what(),
            }
        }

        /// Which protocol it breaks.
        const fn protocol(self) -> Protocol {
            match self {
                Self::Node(mutant) if mutant.is_of_reading() => Protocol::Paxos,
                Self::Ring(_) | Self::Group(_) | Self::Node(_) | Self::Leader(_) => Protocol::Ring,
                Self::Toto(_) | Self::Views(_) => Protocol::Toto,
                Self::Plato(_) => Protocol::Plato,
                Self::Paxos(_) => Protocol::Paxos,
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
        Test,
    }

    impl fmt::Display for Place {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Seed(seed) => f.pad(&seed.to_string()),
                Self::Scene(name) => f.pad(name),
                Self::Test => f.pad("test"),
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
            Mutant::Group(mutant) => {
                run_whole::<Ring>(seed, &faults, (&|_| {}, &|node| node.mutate_groups(mutant)), story)
            }
            Mutant::Node(mutant) if mutant.is_of_reading() => {
                run_whole::<Paxos>(seed, &faults, (&|_| {}, &|node| node.mutate(mutant)), story)
            }
            Mutant::Node(mutant) => run_whole::<Ring>(seed, &faults, (&|_| {}, &|node| node.mutate(mutant)), story),
        });
        catch_unwind(run).unwrap_or_else(|_| Err("panicked".into()))
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

    /// The scenes of the protocol that it breaks.
    fn scenes(mutant: Mutant, story: bool) -> Vec<Played> {
        match mutant {
            Mutant::Toto(mutant) => scenes::toto(&|config| config.mutant = Some(mutant), story).collect(),
            Mutant::Views(mutant) => scenes::toto(&|config| config.vs_mutant = Some(mutant), story).collect(),
            Mutant::Plato(mutant) => scenes::plato(&|config| config.mutant = Some(mutant), story).collect(),
            Mutant::Ring(mutant) => scenes::ring(&|config| config.mutant = Some(mutant), story).collect(),
            Mutant::Group(_) | Mutant::Node(_) | Mutant::Leader(_) | Mutant::Paxos(_) => Vec::new(),
        }
    }

    fn tell_scene(mutant: Mutant, name: &str) -> ExitCode {
        match scenes(mutant, true).into_iter().find(|(known, _)| *known == name) {
            Some((_, outcome)) => tell(0, outcome),
            None => {
                let known: Vec<_> = scenes(mutant, false).into_iter().map(|(name, _)| name).collect();
                eprintln!("mutants: no scene `{name}`; there are {}", known.join(", "));
                ExitCode::from(2)
            }
        }
    }

    /// What no seed meets may be noticed where it is made to happen. Some break more than a scene can show: they panic.
    fn on_stage(mutant: Mutant) -> Option<Noticed> {
        let played = catch_unwind(AssertUnwindSafe(|| scenes(mutant, false))).unwrap_or_default();
        played.into_iter().find_map(|(name, outcome)| {
            let outcome = outcome.ok()?;
            Noticed::by(&outcome, Place::Scene(name), outcome.simulated.as_secs_f64())
        })
    }

    /// Where mutants were noticed when that was recorded. Who is not noticed there any more is given all seeds.
    const NOTICED: &str = include_str!("../noticed.txt");
    const NOTICED_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/noticed.txt");

    fn as_before(mutant: Mutant) -> Option<Noticed> {
        let known = NOTICED.lines().filter_map(|line| line.split_once(' '));
        known.filter(|(name, _)| *name == mutant.name()).find_map(|(_, place)| match place.parse() {
            Ok(seed) => at_seed(mutant, seed, 0.0).ok()?.ok(),
            Err(_) => scenarios(mutant),
        })
    }

    /// Writes down where mutants are noticed, but for scenes: those are played first anyway.
    fn record(mutants: &[Mutant], results: &[Result<Noticed, String>]) -> std::io::Result<()> {
        let head = NOTICED.lines().next().unwrap_or_default();
        let mut lines: Vec<_> = mutants
            .iter()
            .zip(results)
            .filter_map(|(mutant, result)| match &result.as_ref().ok()?.place {
                Place::Scene(_) => None,
                place => Some(format!("{} {place}", mutant.name())),
            })
            .collect();
        lines.sort_unstable();
        std::fs::write(NOTICED_FILE, format!("{head}\n{}\n", lines.join("\n")))
    }

    /// After so many seeds, scenarios made for a rule are tried before the other seeds: they take a second.
    const BEFORE_SCENARIOS: u64 = 40;
    /// Runs of Ring Paxos take longer, and its own judge sees more.
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
            Mutant::Paxos(_) if *seeds.start() == 1 => 1..=BEFORE_TESTS_OF_PAXOS.min(*seeds.end()),
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

    /// Scenes first, for they take milliseconds; tests before most of the seeds, for they take a second.
    fn table(mutants: &[Mutant], options: &Options) -> ExitCode {
        let seeds = options.seeds;
        let mut results: Vec<_> = mutants.iter().map(|_| Err(String::new())).collect();
        let soon = seeds.min(BEFORE_SCENARIOS);
        let unseen = || String::from("no scene and no test notices it");
        try_all(mutants, &mut results, |mutant| on_stage(mutant).ok_or_else(unseen));
        if !options.record {
            try_all(mutants, &mut results, |mutant| as_before(mutant).ok_or_else(unseen));
        }
        try_all(mutants, &mut results, |mutant| hunt(mutant, 1..=soon));
        try_all(mutants, &mut results, |mutant| scenarios(mutant).ok_or_else(unseen));
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
    /// the groups' exchange, by name.
    fn scenarios(mutant: Mutant) -> Option<Noticed> {
        let (package, tests_of, variable) = match mutant {
            Mutant::Ring(_) => ("consort-ring", "tests", "CONSORT_RING_MUTANT"),
            Mutant::Group(mutant) if mutant.is_of_producers() => {
                ("consort-group", "tests::producers", "CONSORT_GROUP_MUTANT")
            }
            Mutant::Group(mutant) if mutant.is_of_readers() => {
                ("consort-group", "tests::histories", "CONSORT_GROUP_MUTANT")
            }
            Mutant::Group(_) => ("consort-group", "tests::exchange", "CONSORT_GROUP_MUTANT"),
            Mutant::Node(mutant) if mutant.is_of_producers() => {
                ("consort-node", "tests::producers", "CONSORT_NODE_MUTANT")
            }
            Mutant::Node(_) => ("consort-node", "tests::budgets", "CONSORT_NODE_MUTANT"),
            // The model of the election breaks each of its rules by itself.
            Mutant::Leader(_) => return None,
            Mutant::Toto(_) => ("consort-toto", "tests", "CONSORT_TOTO_MUTANT"),
            Mutant::Views(_) => ("consort-member", "vs::tests", "CONSORT_VS_MUTANT"),
            Mutant::Plato(_) => ("consort-plato", "tests", "CONSORT_PLATO_MUTANT"),
            Mutant::Paxos(_) => ("consort-paxos", "tests", "CONSORT_PAXOS_MUTANT"),
        };
        let mut tests = consort_cargo::cargo();
        tests.args(["test", "--quiet", "--package", package, "--features", "mutants", "--lib", tests_of]);
        let output = tests.env(variable, mutant.name()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix(tests_of)).collect();
        eprintln!("{}: {} scenarios", mutant.name(), failed.len());
        let name = |line: &&str| line.rsplit("::").next().unwrap_or(line).trim_end_matches(" --- FAILED").to_owned();
        let names: Vec<_> = failed.iter().map(name).collect();
        // One that says which promise is broken says more.
        let judged = names.iter().find_map(|name| Some((name, promise(&text, name)?)));
        let (name, rule) = judged.or_else(|| Some((names.first()?, "scenario")))?;
        Some(Noticed { place: Place::Test, rules: vec![rule], how: name.clone(), simulated: 0.0 })
    }

    /// What the judge of Ring Paxos calls the promise that a test found broken: the word before the colon.
    fn promise(output: &str, test: &str) -> Option<&'static str> {
        let block = output.split("---- ").find(|block| block.lines().next().is_some_and(|line| line.contains(test)))?;
        let said = block.lines().skip_while(|line| !line.contains("panicked at")).nth(1)?;
        PROMISES.iter().copied().find(|name| said.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    }

    /// The promises of `protocols/paxos/src/tests`.
    const PROMISES: [&str; 23] = [
        "ballots",
        "credit",
        "history",
        "kept first",
        "lease",
        "liveness",
        "memory",
        "names",
        "no gap",
        "one log",
        "one order",
        "one value",
        "one value for a ballot",
        "own messages",
        "payloads",
        "primary",
        "promises",
        "quorum",
        "refusal",
        "replay",
        "ring",
        "sender's order",
        "window",
    ];

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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Option<Options>, lexopt::Error> {
        read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_mean_what_the_help_says() {
        let options = words("--mutant OneAru --seed 4 --seeds 7").unwrap().unwrap();
        let wanted = Options { seeds: 7, mutant: Some("OneAru".into()), seed: Some(4), ..Options::default() };
        assert_eq!(options, wanted);
        assert_eq!(words("--protocol toto").unwrap().unwrap().protocol, Some(Protocol::Toto));
        assert!(words("--protocol trio").unwrap_err().to_string().contains("trio"));
        assert!(words("--record").unwrap().unwrap().record);
        assert!(words("--record --mutant OneAru").unwrap_err().to_string().contains("--record"));
        assert!(words("--help").unwrap().is_none());
        assert!(
            ["--seed 4", "--scene gaps"].iter().all(|line| words(line).unwrap_err().to_string().contains("--mutant"))
        );
        assert!(words("--fire").unwrap_err().to_string().contains("fire"));
    }
}

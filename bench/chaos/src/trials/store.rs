//! A server of a key-value store with much state is killed under load and started again, with its files and without: what callers
//! of the others notice in each second, and whether any call was lost, or contradicts another. Each partition has a ring of its
//! own.
use std::time::{Duration, Instant};

use consort::Service;

use super::outcome::{AT_REST, Figures};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, with};
use super::watch::Beat;
use crate::chaos::registers;
use callers::Callers;
use server::{Files, Server, fill, same};

mod callers;
mod server;

const ALL: [usize; 3] = [0, 1, 2];
/// Which server is killed; callers are at the others.
const KILLED: usize = 2;
/// One ring for what concerns both partitions, and one for each. Daemons hold as much of the order as the trial allows for.
const RINGS: &str = "[paxos]\nretain = 33554432\n[[ring]]\nid = 1\nglobal = true\n\
                     [[ring]]\nid = 2\ngroups = [\"kv.main.1\"]\n[[ring]]\nid = 3\ngroups = [\"kv.main.2\"]\n";
/// What daemons may have beside what is counted at rest: four times `retain`, and what waits for servers.
const HELD: u64 = 4 * (32 << 20) + (64 << 20);
/// How long callers warm up, how long is measured before and after, and how long the server is away.
const WARM_UP: Duration = Duration::from_secs(3);
const FULL: Duration = Duration::from_secs(10);
const BESIDE: Duration = Duration::from_secs(15);
const AWAY: Duration = Duration::from_secs(5);
/// Which part of what the store can do callers ask for.
const LOAD: f64 = 0.8;
/// What the others must keep of their calls.
const KEPT: f64 = 0.95;
/// A server that gets its state slower than that many bytes a second does not come back.
const SLOWEST: u64 = 1 << 20;
const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(100), service: Service::Agreed };

/// What was measured: calls answered in each second.
struct Measured {
    full: f64,
    bytes: u64,
    before: Vec<u64>,
    returns: Vec<Return>,
    after: Vec<u64>,
}

/// How a server came back.
struct Return {
    files: Files,
    seconds: Vec<u64>,
    took: Duration,
}

pub fn killed(site: &Site<'_>) -> Result<Figures, String> {
    let settings = site.settings.to_owned() + RINGS;
    let site = Site { settings: &settings, ..*site };
    let setup =
        Setup { hosts: Hosts::Together, nodes: ALL.len(), first: &ALL, beat: BEAT, protocol: "multiring-paxos" };
    with(&site, &setup, |stage| {
        let mut servers = start(&site, stage)?;
        let bytes = fill(stage, &servers, site.lengths.state)?;
        stage.mark(&ALL);
        let callers = Callers::start(&servers[..KILLED])?;
        let measured = measure(stage, &callers, &mut servers[KILLED], bytes)?;
        let operations = callers.end()?;
        println!("\n{}", measured.table());
        let mut figures = stage.figures(&ALL, 0);
        figures.budget = AT_REST + HELD;
        for back in &measured.returns {
            let ([kept, worst], told) = (measured.kept(back), back.files.told());
            figures.wants(kept >= KEPT, || format!("{told}: the others kept {:.0} % of their calls", kept * 100.0));
            let enough = worst >= back.files.worst();
            figures.wants(enough, || format!("{told}: in one second the others kept {:.0} %", worst * 100.0));
        }
        let judged = registers::judge(&operations);
        if let Err(contradiction) = &judged {
            figures.wants(false, || contradiction.clone());
        }
        let different = same(&servers, bytes)?;
        figures.wants(different.is_none(), || different.clone().unwrap_or_default());
        let calls = judged.map_or(0, |work| work.calls);
        figures.notes.push(format!("{calls} calls judged"));
        Ok(figures)
    })
}

fn start(site: &Site<'_>, stage: &mut Stage<'_>) -> Result<Vec<Server>, String> {
    let started = ALL.map(|node| Server::start(site.file, stage.directory, node));
    let mut servers = started.into_iter().collect::<Result<Vec<_>, _>>()?;
    servers.iter_mut().try_for_each(|server| server.ready(stage, Duration::from_secs(30)))?;
    Ok(servers)
}

fn measure(stage: &mut Stage<'_>, callers: &Callers, killed: &mut Server, bytes: u64) -> Result<Measured, String> {
    stage.pass(WARM_UP)?;
    let full = mean(&callers.seconds(stage, FULL)?);
    callers.pace(full * LOAD);
    // It keeps a checkpoint of all, and what came since is still with the others when it comes back.
    killed.start_again(stage)?;
    stage.pass(WARM_UP)?;
    let before = callers.seconds(stage, BESIDE)?;
    let mut comes_back = |files| come_back(stage, callers, killed, (files, bytes));
    let returns = vec![comes_back(Files::Kept)?, comes_back(Files::Lost)?];
    let after = callers.seconds(stage, BESIDE)?;
    Ok(Measured { full, bytes, before, returns, after })
}

fn come_back(
    stage: &mut Stage<'_>,
    callers: &Callers,
    killed: &mut Server,
    (files, bytes): (Files, u64),
) -> Result<Return, String> {
    killed.kill(files)?;
    let mut seconds = callers.seconds(stage, AWAY)?;
    let began = Instant::now();
    killed.begin(stage.directory)?;
    let deadline = began + Duration::from_secs(30 + bytes / SLOWEST);
    while !killed.is_ready()? {
        if Instant::now() > deadline {
            return Err(format!("the server is not up to date within {:?}", began.elapsed()));
        }
        seconds.extend(callers.seconds(stage, Duration::from_secs(1))?);
    }
    Ok(Return { files, seconds, took: began.elapsed() })
}

fn mean(seconds: &[u64]) -> f64 {
    seconds.iter().sum::<u64>() as f64 / seconds.len().max(1) as f64
}

impl Measured {
    /// Which share of their calls the others kept while a server came back, and in the worst second.
    fn kept(&self, back: &Return) -> [f64; 2] {
        let usual = mean(&self.before);
        [mean(&back.seconds) / usual, share(&back.seconds, usual)]
    }

    fn table(&self) -> String {
        let usual = mean(&self.before);
        let line = |name: &str, seconds: &[u64], took: Option<Duration>| {
            let (mean, worst) = (mean(seconds), share(seconds, usual) * 100.0);
            let took = took.map_or_else(|| "-".into(), |took| format!("{:.1} s", took.as_secs_f64()));
            format!("{name:<26} {:>8} {mean:>8.0} {worst:>8.1} % {took:>10}\n", seconds.len())
        };
        let returns = self.returns.iter().map(|back| line(back.files.told(), &back.seconds, Some(back.took)));
        format!(
            "A server with {:.0} MB is killed and started again; callers at two others ask for {:.0} % of {:.0} calls/s.\n\
             {:<26} {:>8} {:>8} {:>10} {:>10}\n{}{}{}",
            self.bytes as f64 / 1e6,
            LOAD * 100.0,
            self.full,
            "",
            "seconds",
            "calls/s",
            "worst",
            "up to date",
            line("before", &self.before, None),
            returns.collect::<String>(),
            line("after", &self.after, None)
        )
    }
}

/// What the worst second has of what is usual.
fn share(seconds: &[u64], usual: f64) -> f64 {
    seconds.iter().min().map_or(0.0, |worst| *worst as f64 / usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_second_counts() {
        let back =
            |files, seconds: &[u64], ms| Return { files, seconds: seconds.into(), took: Duration::from_millis(ms) };
        let measured = Measured {
            full: 1_250.0,
            bytes: 1_000_000_000,
            before: vec![990, 1_010],
            returns: vec![back(Files::Kept, &[1_000, 940, 1_060], 2_500), back(Files::Lost, &[1_000], 90_000)],
            after: vec![1_000],
        };
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        let kept = measured.kept(&measured.returns[0]);
        assert!(near(kept[0], 1.0) && near(kept[1], 0.94) && kept[1] > Files::Kept.worst(), "{kept:?}");
        let table = measured.table();
        assert!(table.starts_with("A server with 1000 MB is killed"), "{table}");
        assert!(table.contains("back with its files               3     1000     94.0 %      2.5 s\n"), "{table}");
        assert!(table.contains("back without its files            1     1000    100.0 %     90.0 s\n"), "{table}");
    }
}

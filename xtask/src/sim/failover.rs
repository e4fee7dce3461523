//! How long members are without a view of those that are there: after a crash, a good-bye, a restart, and at first.
use super::fail;
use consort_worlds::failover::measure;
use std::process::ExitCode;

/// How many members the rings have.
const NODES: [u16; 8] = [2, 3, 5, 8, 16, 32, 64, 128];

/// Prints a table.
pub fn failover(runs: u64) -> ExitCode {
    println!("a view of all that are there, in ms of virtual time, median and worst of {runs} runs under a light load");
    println!("{:>5}  {:>13}  {:>13}  {:>13}  {:>13}", "nodes", "cold start", "crash", "restart", "leave");
    for nodes in NODES {
        let mut times: [Vec<f64>; 4] = Default::default();
        for run in 0..runs {
            match measure(nodes, run) {
                Ok(taken) => times.iter_mut().zip(taken).for_each(|(times, taken)| times.push(taken)),
                Err(error) => return fail(&format!("{nodes} nodes, run {run}: {error}")),
            }
        }
        let [start, crash, restart, leave] = times.map(shown);
        println!("{nodes:>5}  {start:>13}  {crash:>13}  {restart:>13}  {leave:>13}");
    }
    ExitCode::SUCCESS
}

fn shown(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let (median, worst) = (times.get(times.len() / 2), times.last());
    format!("{:.1} {:.1}", median.unwrap_or(&f64::NAN), worst.unwrap_or(&f64::NAN))
}

//! Steady traffic under valgrind's callgrind, and what it counted.
use consort_steady::Traffic;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that carries the traffic.
const PACKAGE: &str = "consort-steady";
/// The module whose functions are the operations.
const MODULE: &str = "consort_steady::operations::";
/// The one of them within which operations are counted.
const STEADY: &str = "steady";

/// Instructions for each operation, by its name.
pub type Counts = BTreeMap<String, u64>;

/// Counts them all.
///
/// # Errors
/// A sentence that says what failed.
pub fn count() -> Result<Counts, String> {
    let program = consort_cargo::program(PACKAGE, "release").map_err(|e| format!("{PACKAGE} cannot be built: {e}"))?;
    let directory = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
    let mut counts = Counts::new();
    for traffic in Traffic::ALL.map(|traffic| traffic.name) {
        let profile = profile(&program, traffic, &directory.path().join(traffic))?;
        let found = operations(&profile).into_iter().filter(|(name, _)| name != STEADY);
        let before = counts.len();
        counts.extend(found.map(|(name, cost)| (format!("{traffic}/{name}"), cost.each())));
        if counts.len() == before {
            return Err(format!("callgrind has not seen any function of {MODULE} in the traffic `{traffic}`"));
        }
    }
    Ok(counts)
}

/// What callgrind writes of a run. The environment is empty, because its size moves the stack.
fn profile(program: &Path, traffic: &str, to: &Path) -> Result<String, String> {
    let mut command = Command::new("valgrind");
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.args(["-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]);
    // Counts begin anew with the steady traffic, the numbers of calls too.
    command.arg(format!("--zero-before={MODULE}{STEADY}*"));
    command.arg(format!("--callgrind-out-file={}", to.display()));
    command.arg(program).arg(traffic).stdout(Stdio::null());
    let missing = |e| format!("valgrind cannot be run: {e}; install it, as with `apt-get install valgrind`");
    let status = command.status().map_err(missing)?;
    if !status.success() {
        return Err(format!("{PACKAGE} under valgrind ended with {status}"));
    }
    std::fs::read_to_string(to).map_err(|e| format!("what callgrind wrote cannot be read: {e}"))
}

/// What all calls of one function took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    calls: u64,
    instructions: u64,
}

impl Cost {
    fn each(self) -> u64 {
        self.instructions.checked_div(self.calls).unwrap_or(0)
    }
}

/// What callgrind tells of calls: the callee after `cfn=`, how many after `calls=`, and on the line behind that one where the
/// call stands and what it took, with all that the callee called.
fn operations(profile: &str) -> BTreeMap<String, Cost> {
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    let (mut callee, mut calls) = (None, None);
    for line in profile.lines() {
        if let Some(count) = calls.take() {
            let instructions = line.split(' ').nth(1).and_then(|number| number.parse::<u64>().ok());
            if let (Some(name), Some(count), Some(instructions)) = (callee.take(), count, instructions) {
                let cost = costs.entry(name).or_default();
                cost.calls += count;
                cost.instructions += instructions;
            }
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = operation(name);
        } else if let Some(rest) = line.strip_prefix("calls=") {
            calls = Some(rest.split(' ').next().and_then(|number| number.parse::<u64>().ok()));
        }
    }
    costs.retain(|_, cost| cost.calls > 0);
    costs
}

/// The operation's name in a function's, which may end in a hash.
fn operation(function: &str) -> Option<String> {
    let name = function.strip_prefix(MODULE)?.split("::").next()?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "\
events: Ir
fn=consort_steady::world::World::pass
141 77
cfi=/src/operations.rs
cfn=consort_steady::operations::visit
calls=2 30
123 9608
cfn=consort_steady::operations::visit::h0123456789abcdef
calls=1 30
125 392
cfn=consort_steady::operations::steady
calls=0 118
18 533990
cfn=memcpy
calls=9 1
126 99999
fn=consort_steady::operations::visit
30 1000
";

    #[test]
    fn calls_of_an_operation_are_added_up_wherever_they_stand() {
        let found = operations(PROFILE);
        assert_eq!(found, BTreeMap::from([("visit".to_owned(), Cost { calls: 3, instructions: 10_000 })]));
        assert_eq!(found["visit"].each(), 3_333);
    }

    #[test]
    fn what_is_no_profile_has_no_operations() {
        for profile in ["", "calls=", "cfn=consort_steady::operations::x\ncalls=a\nb", "cfn=x\ncalls=1 2"] {
            assert_eq!(operations(profile), BTreeMap::new(), "{profile}");
        }
    }
}

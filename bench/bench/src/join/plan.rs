//! What is asked for with `--join`.
use super::packet::Packet;
use crate::args::Args;
use crate::failure::{Failure, Outcome};
use crate::setup::{Outlet, SERVICES, rate};
use consort::{Address, GroupName, Service};
use std::ffi::OsString;
use std::time::Duration;

/// What `consort bench latency --join ADDRESS --help` prints.
pub const HELP: &str = "\
Usage: consort bench latency --join ADDRESS [options]

Measures how long messages take between machines whose clocks do not agree. Run
it at the daemons of several machines at once, with the same options: they meet
in a group, send to each other, and each prints what all found.

  --join ADDRESS     this one's daemon: a socket path or ADDRESS:PORT
  --members N        how many meet, 2 to 64 [2]
  --group G          where they meet [consort-bench-latency]
  --rate R           messages a second over all members [1000]
  --size BYTES       payload of a message, 24 to 1MiB [1350]
  --service LEVEL    agreed or safe [agreed]
  --seconds S        how long to measure [3]
  --warm-up S        how long to send before [1]
  --json             print one JSON object
  --report FILE      also write a page for a browser; the name ends in .html

sums       half the mean way there and back: what each receiver's clock says less
           the sender's, so that by which the clocks differ cancels out
exchanges  half of each way there and back, where only readings of one clock are
           subtracted from each other: right for clocks that drift, too
p50, p99   of each direction, as if both took as long on average
Tokens and TLS are given as to all commands: CONSORT_TOKEN, CONSORT_TLS_AUTHORITY.
";

/// More messages than this fill memory, and say no more.
const MOST: f64 = 2e6;

/// What is measured, and with whom.
#[derive(Clone, Debug)]
pub struct Plan {
    pub address: Address,
    pub members: usize,
    pub group: GroupName,
    /// Messages a second over all.
    pub rate: f64,
    pub size: usize,
    pub service: Service,
    pub seconds: Duration,
    pub warm_up: Duration,
    pub outlet: Outlet,
}

impl Plan {
    /// For how long members send.
    pub fn whole(&self) -> Duration {
        self.warm_up + self.seconds
    }
}

/// Reads the options; there is `--join` among them.
pub fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let (mut address, group) = (None, GroupName::new("consort-bench-latency"));
    let mut plan = Plan {
        address: Address::Unix("/".into()),
        members: 2,
        group: group.map_err(|problem| Failure::new(problem.to_string()))?,
        rate: 1_000.0,
        size: 1_350,
        service: Service::Agreed,
        seconds: Duration::from_secs(3),
        warm_up: Duration::from_secs(1),
        outlet: Outlet::default(),
    };
    Args::only_options(words, HELP, |option, args| {
        match option {
            "--join" => {
                let text = args.text()?;
                address = Some(text.parse().map_err(|problem| Failure::usage(format!("--join: {problem}")))?);
            }
            "--members" => plan.members = args.number(2..=64)? as usize,
            "--group" => plan.group = consort_inquiry::connect::group(args)?,
            "--rate" => plan.rate = rate(args)?,
            "--size" => plan.size = args.size(24.max(Packet::PROBE as u64)..=1 << 20)? as usize,
            "--service" => plan.service = args.choice(&SERVICES)?,
            "--seconds" => plan.seconds = args.duration()?.max(Duration::from_millis(100)),
            "--warm-up" => plan.warm_up = args.duration()?,
            option => return plan.outlet.take(option, args),
        }
        Ok(true)
    })?;
    let messages = plan.rate * plan.seconds.as_secs_f64();
    if messages > MOST {
        return Err(Failure::usage(format!(
            "{messages:.0} messages are more than the {MOST:.0} that are kept; give less --rate or --seconds"
        )));
    }
    plan.address = address.ok_or_else(|| Failure::usage("give the daemon's address with --join"))?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Outcome<Plan> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn the_plan_is_read() {
        let given = plan("--join 10.0.0.1:4840 --members 3 --group g --rate 2k --size 24 --service safe --seconds 5s");
        let given = given.unwrap();
        assert_eq!((given.address.to_string(), given.members, given.rate), ("10.0.0.1:4840".into(), 3, 2_000.0));
        assert_eq!((given.group.to_string(), given.size, given.service), ("g".into(), 24, Service::Safe));
        assert_eq!(given.whole(), Duration::from_secs(6));
    }

    #[test]
    fn wrong_plans_are_refused_with_what_would_fit() {
        let problem = |line: &str| plan(line).unwrap_err().message;
        assert!(problem("--rate 10").contains("--join"));
        assert!(problem("--join nowhere").starts_with("--join: "), "{}", problem("--join nowhere"));
        assert!(problem("--join 10.0.0.1:1 --members 1").starts_with("--members: `1` does not fit"));
        assert!(problem("--join 10.0.0.1:1 --rate 1M --seconds 3").contains("--seconds"));
        assert!(problem("--join 10.0.0.1:1 --nodes 3").starts_with("--nodes: there is no such option"));
        for option in crate::args::options_of(HELP) {
            assert!(!plan(&format!("{option} 1")).is_err_and(|failure| failure.message.contains("no such option")));
        }
    }
}

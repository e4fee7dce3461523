//! The options of `cargo papers rings`.
use super::number;
use crate::real::rings::Lab;
use consort::Service;
use consort_testbed::units;
use consort_types::Duration;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Takes an option and its value.
pub fn set(lab: &mut Lab, option: &str, value: &str) -> Result<(), String> {
    let within = |range| number(option, value, range);
    let ethernet = &mut lab.ethernet;
    match option {
        "nodes" => lab.nodes = within(2..=16)?,
        "windows" => lab.windows = windows(value)?,
        "from" => lab.from = within(1..=1_000)?,
        "rate" => ethernet.rate = size(option, value, 1_000_000..=1_000_000_000)?,
        "latency" => {
            let span = units::span(value).filter(|span| *span <= Duration::from_millis(100));
            ethernet.latency = span.ok_or_else(|| format!("--latency {value} does not fit; give 0us to 100ms"))?;
        }
        "queue" => ethernet.queue = size(option, value, 2_000..=100_000_000)? as usize,
        "service" => {
            let service = [Service::Agreed, Service::Safe].into_iter().find(|service| service.name() == value);
            lab.service = service.ok_or_else(|| format!("--service {value} is neither `agreed` nor `safe`"))?;
        }
        "idling" if ["latency", "balanced", "frugal"].contains(&value) => lab.idling = value.into(),
        "idling" => return Err(format!("--idling {value} is not known; use latency, balanced or frugal")),
        "loads" if value == "none" => lab.loads = Vec::new(),
        "loads" => lab.loads = value.split(',').map(|one| number(option, one, 1..=200)).collect::<Result<_, _>>()?,
        "runs" => lab.runs = within(1..=100)?,
        "millis" => lab.millis = within(100..=60_000)?,
        "json" => lab.json = true,
        "program" => lab.program = Some(value.into()),
        _ => return Err(format!("this lab has no option --{option}")),
    }
    Ok(())
}

/// Windows, each once.
fn windows(value: &str) -> Result<Vec<(u32, u32)>, String> {
    let all = value.split(',').map(windows_pair).collect::<Result<Vec<_>, _>>()?;
    let distinct: BTreeSet<_> = all.iter().collect();
    if distinct.len() == all.len() { Ok(all) } else { Err(format!("--windows {value} names some twice")) }
}

/// A personal and an accelerated window.
fn windows_pair(text: &str) -> Result<(u32, u32), String> {
    let read = |(personal, accelerated): (&str, &str)| Some((personal.parse().ok()?, accelerated.parse().ok()?));
    let pair = text.split_once('/').and_then(read);
    let fits = |(personal, accelerated): &(u32, u32)| (1..=1_000).contains(personal) && accelerated <= personal;
    let wrong = || {
        format!(
            "--windows {text} does not fit; give PERSONAL/ACCELERATED such as 20/15, at most 1000, the second not larger"
        )
    };
    pair.filter(fits).ok_or_else(wrong)
}

/// A number with a unit behind an option, if it is within its bounds.
fn size(name: &str, value: &str, within: RangeInclusive<u64>) -> Result<u64, String> {
    let found = units::number(value).filter(|number| within.contains(number));
    found.ok_or_else(|| {
        format!("--{name} {value} does not fit; use {} to {}, such as 100M", within.start(), within.end())
    })
}

//! Whether the demonstration held what it promised, and its figures.
use super::outcome::{Majority, Trouble};
use consort_testbed::Quantiles;
use consort_testbed::RoundResult;
use serde::Serialize;

/// What was set out to do.
pub struct Planned {
    pub nodes: u16,
    pub lines: u64,
}

/// What was done.
pub struct Parts<'a> {
    pub loud: &'a RoundResult,
    /// Absent where there is only one daemon.
    pub trouble: Option<Trouble>,
    /// Present where a majority keeps the order.
    pub majority: Option<Majority>,
    pub quiet: &'a RoundResult,
    /// Packets that were sent again in the loud part.
    pub retransmissions: u64,
}

/// The JSON object.
#[derive(Debug, Serialize)]
pub struct DemoVerdict {
    pub ok: bool,
    pub nodes: u16,
    pub lines: u64,
    /// Distinct messages that were to be ordered.
    pub messages: u64,
    /// Messages that some receiver did not get, over all receivers.
    pub missing: u64,
    /// The hash of each receiver's sequence.
    pub digests: Vec<String>,
    pub ordered_per_s: f64,
    /// At a walking pace.
    pub latency_us: Quantiles,
    /// With every queue full.
    pub loaded_latency_us: Quantiles,
    pub cpu_us_per_delivery: Cpu,
    pub retransmissions: u64,
    /// A daemon was killed and came back, and what clients saw of it.
    pub trouble: Option<Trouble>,
    /// The coordinator was killed, then a majority, and the order was read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub majority: Option<Majority>,
    /// The most memory that any daemon had resident.
    pub daemon_peak_bytes: Option<u64>,
    pub seconds: f64,
}

/// CPU time per delivered message, in microseconds; absent where the kernel does not tell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cpu {
    pub daemon: Option<f64>,
    pub client: Option<f64>,
}

impl Cpu {
    /// Of a round.
    pub fn of(result: &RoundResult, deliveries: u64) -> Self {
        let per = |spent: Option<std::time::Duration>| {
            spent.map(|spent| spent.as_secs_f64() * 1e6 / deliveries.max(1) as f64)
        };
        Self { daemon: per(result.daemon_cpu), client: per(result.client_cpu) }
    }
}

impl DemoVerdict {
    /// Compares what was delivered with what was sent.
    pub fn new(planned: &Planned, parts: Parts<'_>, ns: u64) -> Self {
        let Parts { loud, trouble, majority, quiet, retransmissions } = parts;
        let messages = planned.lines * u64::from(planned.nodes);
        let quiet_messages: u64 = quiet.sent.iter().map(|sent| sent.messages).sum();
        let missing = missing(loud, messages) + missing(quiet, quiet_messages);
        let deliveries = loud.received.iter().map(|one| one.messages).sum();
        Self {
            ok: missing == 0
                && agree(loud)
                && agree(quiet)
                && trouble.as_ref().is_none_or(|trouble| trouble.violations.is_empty())
                && majority.as_ref().is_none_or(|majority| majority.violations.is_empty()),
            nodes: planned.nodes,
            lines: planned.lines,
            messages,
            missing,
            digests: loud.received.iter().map(|one| one.digest.clone()).collect(),
            ordered_per_s: messages as f64 / loud.seconds,
            latency_us: quiet.times.quantiles(),
            loaded_latency_us: loud.times.quantiles(),
            cpu_us_per_delivery: Cpu::of(loud, deliveries),
            retransmissions,
            trouble,
            majority,
            daemon_peak_bytes: loud.daemon_peak.max(quiet.daemon_peak),
            seconds: ns as f64 / 1e9,
        }
    }

    /// Why it is not well.
    pub fn problem(&self) -> String {
        let broken = self.trouble.as_ref().filter(|trouble| !trouble.violations.is_empty());
        match (self.missing, broken) {
            (0, Some(Trouble { violations, trace, .. })) => {
                let kept = trace.as_ref().map(|path| format!(" with {}", path.display())).unwrap_or_default();
                format!("{} promises were broken; please report this{kept}", violations.len())
            }
            (0, None) if self.is_order_lost() => "the order did not outlast its daemons; please report this".into(),
            (0, None) => "the receivers saw different sequences; please report this".into(),
            (n, _) => format!("{n} messages are missing; please report this"),
        }
    }
}

impl DemoVerdict {
    fn is_order_lost(&self) -> bool {
        self.majority.as_ref().is_some_and(|majority| !majority.violations.is_empty())
    }
}

/// Whether all receivers saw the same sequence, each sender's messages in its order, to the end.
pub fn agree(result: &RoundResult) -> bool {
    let one = result.received.first();
    result
        .received
        .iter()
        .all(|other| other.complete && other.wrong == 0 && one.is_some_and(|one| one.digest == other.digest))
}

fn missing(result: &RoundResult, messages: u64) -> u64 {
    result.received.iter().map(|one| messages.abs_diff(one.messages)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_testbed::Times;
    use consort_testbed::job::{Go, Received, Sent};

    fn result(digests: [&str; 2], messages: [u64; 2]) -> RoundResult {
        let one = |digest: &str, messages| Received {
            digest: digest.into(),
            messages,
            complete: true,
            ..Received::default()
        };
        RoundResult {
            sent: vec![Sent { messages: 5, unsent: 0 }; 2],
            received: digests.iter().zip(messages).map(|(digest, messages)| one(digest, messages)).collect(),
            times: Times::new().unwrap(),
            daemon_cpu: Some(std::time::Duration::from_micros(40)),
            client_cpu: None,
            daemon_peak: None,
            seconds: 1.0,
            go: Go { start: 0, from: 0, until: 1_000_000_000 },
        }
    }

    fn verdict(loud: &RoundResult) -> DemoVerdict {
        judged(loud, None, None)
    }

    fn judged(loud: &RoundResult, trouble: Option<Trouble>, majority: Option<Majority>) -> DemoVerdict {
        let quiet = &result(["q", "q"], [10, 10]);
        DemoVerdict::new(
            &Planned { nodes: 2, lines: 5 },
            Parts { loud, trouble, majority, quiet, retransmissions: 0 },
            1,
        )
    }

    fn trouble(violations: &[&str]) -> Trouble {
        Trouble {
            node: 2,
            crash_ms: 340.0,
            restart_ms: 30.0,
            views: Vec::new(),
            handed_over: None,
            clients: 3,
            sent: 10,
            delivered: 20,
            promises: 30,
            violations: violations.iter().map(|how| (*how).to_owned()).collect(),
            trace: Some("/tmp/x.trace".into()),
        }
    }

    #[test]
    fn a_broken_promise_is_not_well_and_names_the_trace() {
        let loud = result(["a", "a"], [10, 10]);
        assert!(judged(&loud, Some(trouble(&[])), None).ok);
        let broken = judged(&loud, Some(trouble(&["TO1 broken at 3 ms by n1c0: ..."])), None);
        assert!(!broken.ok);
        assert_eq!(broken.problem(), "1 promises were broken; please report this with /tmp/x.trace");
    }

    #[test]
    fn an_order_that_did_not_outlast_its_daemons_is_not_well() {
        let loud = result(["a", "a"], [10, 10]);
        assert!(judged(&loud, None, Some(Majority::default())).ok);
        let violations = vec!["the nodes tell different sequences".to_owned()];
        let lost = judged(&loud, None, Some(Majority { violations, ..Majority::default() }));
        assert!(!lost.ok);
        assert_eq!(lost.problem(), "the order did not outlast its daemons; please report this");
    }

    #[test]
    fn only_equal_and_whole_sequences_are_well() {
        let good = verdict(&result(["a", "a"], [10, 10]));
        assert!(good.ok && good.missing == 0);
        assert_eq!((good.cpu_us_per_delivery.daemon, good.cpu_us_per_delivery.client), (Some(2.0), None));
        let differ = verdict(&result(["a", "b"], [10, 10]));
        assert!(!differ.ok && differ.problem().contains("different sequences"));
        let short = verdict(&result(["a", "a"], [9, 9]));
        assert!(!short.ok && short.problem().starts_with("2 messages are missing"));
        let mut unfinished = result(["a", "a"], [10, 10]);
        unfinished.received[1].complete = false;
        assert!(!verdict(&unfinished).ok);
    }
}

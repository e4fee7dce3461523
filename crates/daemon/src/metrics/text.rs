//! Metrics in the text format of Prometheus, version 0.0.4.
use super::Status;
use super::table::{BY_RING, LABELLED, METRICS, MetricKind};
use crate::peers;
use crate::usage;
use consort_types::Primary;
use std::fmt::Write;

/// Everything that a daemon's status tells in numbers, and what its process costs.
pub fn exposition(status: &Status, cluster: &str, pid: u32) -> String {
    let mut out = Text::default();
    about(&mut out, status, cluster);
    for (key, kind, help) in METRICS {
        if let Some(number) = status.get(*key).and_then(|value| value.parse::<u64>().ok()) {
            out.head(key, *kind, help);
            out.sample(key, *kind, &[], number as f64);
        }
    }
    for (prefix, label, help) in LABELLED {
        labelled(&mut out, status, (prefix, MetricKind::Counter), label, help);
    }
    let has_rings = ["merged_items", "horizons_sent"].iter().any(|key| status.contains_key(*key));
    for (prefix, help) in BY_RING.iter().filter(|_| has_rings) {
        labelled(&mut out, status, (prefix, MetricKind::Gauge), "ring", help);
    }
    neighbours(&mut out, status);
    process(&mut out, pid);
    out.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, key: &str, kind: MetricKind, help: &str) {
        let (name, kind) = (name(key, kind), if kind == MetricKind::Counter { "counter" } else { "gauge" });
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn sample(&mut self, key: &str, kind: MetricKind, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.line(format_args!("{}{labels} {value}", name(key, kind)));
    }

    fn gauge(&mut self, key: &str, help: &str, value: f64) {
        self.head(key, MetricKind::Gauge, help);
        self.sample(key, MetricKind::Gauge, &[], value);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into memory does not fail.
        let _ = writeln!(self.0, "{line}");
    }
}

fn name(key: &str, kind: MetricKind) -> String {
    format!("consort_{key}{}", if kind == MetricKind::Counter { "_total" } else { "" })
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn about(out: &mut Text, status: &Status, cluster: &str) {
    let text = |key: &str| status.get(key).map_or("", String::as_str);
    out.head("info", MetricKind::Gauge, "Which daemon this is. Always 1.");
    let (node, version) = (text("node").trim_start_matches('n'), env!("CARGO_PKG_VERSION"));
    let labels = [("cluster", cluster), ("node", node), ("protocol", text("protocol")), ("version", version)];
    out.sample("info", MetricKind::Gauge, &labels, 1.0);
    let is = |key: &str, wanted: &str| f64::from(u8::from(text(key) == wanted));
    out.gauge(
        "ready",
        "Whether a write that is given to this daemon now is ordered within some two seconds, as /ready says. Normal: 1.",
        is("ready", "yes"),
    );
    let members = text("members").split_whitespace().count();
    out.gauge("members", "Daemons in the view of this one. Normal: all that are configured.", members as f64);
    if text("primary") != Primary::NoPolicy.word() {
        let help = "Whether this part of the cluster may act alone; absent where no policy is set. Normal: 1.";
        out.gauge("primary", help, is("primary", Primary::Yes.word()));
    }
}

fn labelled(out: &mut Text, status: &Status, (prefix, kind): (&str, MetricKind), label: &str, help: &str) {
    let key = prefix.trim_end_matches('_');
    out.head(key, kind, help);
    for (name, value) in status.range(prefix.to_owned()..) {
        let Some(cause) = name.strip_prefix(prefix) else { break };
        if let Ok(number) = value.parse::<u64>() {
            out.sample(key, kind, &[(label, cause)], number as f64);
        }
    }
}

fn neighbours(out: &mut Text, status: &Status) {
    let heard = peers::of(status).into_iter().filter_map(|peer| peer.heard_ms_ago.map(|ms| (peer, ms)));
    let heard: Vec<_> = heard.map(|(peer, ms)| (peer.node.to_string(), peer.hears_us, ms, peer.passes_bytes)).collect();
    out.head("peer_silent_seconds", MetricKind::Gauge, "How long ago a node was heard, if ever. Normal: below 0.5.");
    for (node, _, ms, _) in &heard {
        out.sample("peer_silent_seconds", MetricKind::Gauge, &[("peer", node)], *ms as f64 / 1_000.0);
    }
    out.head("peer_hears_us", MetricKind::Gauge, "Whether a node that was heard hears this one. Normal: 1.");
    for (node, hears_us, ..) in &heard {
        out.sample("peer_hears_us", MetricKind::Gauge, &[("peer", node)], f64::from(u8::from(*hears_us)));
    }
    let help = "The longest datagram that gets to a node, where that is known. Normal: the setting `datagram`.";
    out.head("peer_datagram_bytes", MetricKind::Gauge, help);
    for (node, .., passes) in &heard {
        if let Some(passes) = passes {
            out.sample("peer_datagram_bytes", MetricKind::Gauge, &[("peer", node)], *passes as f64);
        }
    }
}

fn process(out: &mut Text, pid: u32) {
    if let Some(bytes) = usage::resident(pid) {
        let help = "Memory of the daemon's process. Normal: 5 to 64 MiB, and what waits for clients.";
        out.gauge("resident_bytes", help, bytes as f64);
    }
    if let Some(time) = usage::cpu(pid) {
        let help = "CPU time of the daemon's process. Normal: below 0.02 a second at rest, at most about 1 under load.";
        out.head("cpu_seconds", MetricKind::Counter, help);
        out.sample("cpu_seconds", MetricKind::Counter, &[], time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn status(pairs: &[(&str, &str)]) -> Status {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn numbers_labels_and_peers_are_told() {
        let told = exposition(
            &status(&[
                ("node", "n3"),
                ("protocol", "ring"),
                ("ready", "yes"),
                ("members", "n1.5 n3.6"),
                ("primary", "no"),
                ("visits", "12"),
                ("sessions_ended_slow", "2"),
                ("peer_n1", "heard 250 ms ago, hears us"),
                ("peer_n2", "never heard"),
                ("path_n1", "datagrams up to 972 of 1472 bytes pass"),
            ]),
            "a \"b\"",
            u32::MAX,
        );
        let version = env!("CARGO_PKG_VERSION");
        for line in [
            format!("consort_info{{cluster=\"a \\\"b\\\"\",node=\"3\",protocol=\"ring\",version=\"{version}\"}} 1"),
            "consort_ready 1".into(),
            "consort_members 2".into(),
            "consort_primary 0".into(),
            "# TYPE consort_visits_total counter".into(),
            "consort_visits_total 12".into(),
            "consort_sessions_ended_total{why=\"slow\"} 2".into(),
            "consort_peer_silent_seconds{peer=\"1\"} 0.25".into(),
            "consort_peer_hears_us{peer=\"1\"} 1".into(),
            "consort_peer_datagram_bytes{peer=\"1\"} 972".into(),
        ] {
            assert!(told.lines().any(|found| found == line), "`{line}` is missing in:\n{told}");
        }
        assert!(!told.contains("peer=\"2\"") && !told.contains("consort_holds"), "{told}");
    }

    #[test]
    fn rings_are_told_apart_by_their_numbers() {
        let pairs =
            [("merged_items", "5"), ("ring_1", "merged 3 of 9"), ("ring_wait_us_1", "7"), ("ring_wait_us_12", "0")];
        let told = exposition(&status(&pairs), "c", u32::MAX);
        for line in ["# TYPE consort_ring_wait_us gauge", "consort_ring_wait_us{ring=\"1\"} 7"] {
            assert!(told.lines().any(|found| found == line), "`{line}` is missing in:\n{told}");
        }
        assert!(told.contains("consort_ring_wait_us{ring=\"12\"} 0"), "{told}");
        let token_rings = [("horizons_sent", "5"), ("ring_horizon_2", "70")];
        let told_of = exposition(&status(&token_rings), "c", u32::MAX);
        assert!(told_of.contains("consort_ring_horizon{ring=\"2\"} 70"), "{told_of}");
        assert!(!exposition(&status(&pairs[1..]), "c", u32::MAX).contains("ring_wait"), "one order has no rings");
    }

    #[test]
    fn every_metric_has_one_name_and_says_what_is_normal() {
        let names: BTreeSet<_> = METRICS.iter().map(|(key, ..)| key).collect();
        assert_eq!(names.len(), METRICS.len());
        for help in METRICS.iter().map(|(.., help)| help).chain(LABELLED.iter().map(|(.., help)| help)) {
            assert!(help.contains(" Normal: ") && help.ends_with('.') && !help.contains(['\\', '\n']), "{help}");
        }
    }
}

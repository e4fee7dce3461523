//! Measurements, as users run them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests")]

#[path = "../../../crates/cli/tests/cli/support/mod.rs"]
mod support;
use rustix::process::Signal;
use std::io::BufRead;
use support::{World, incarnations};

/// A world with a daemon to measure: its program is built where it is missing.
fn world() -> World {
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| drop(consort_testbed::program_for_tests().unwrap()));
    World::new()
}

/// Runs a bench that prints one object, and reads it.
fn bench(world: &World, line: &str) -> serde_json::Value {
    let words: Vec<&str> = line.split_whitespace().chain(["--json"]).collect();
    let ran = world.run(&words);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    assert!(!std::fs::read_dir(world.path("")).unwrap().flatten().any(is_lab));
    serde_json::from_str(&ran.out).unwrap()
}

fn all_above_zero(report: &serde_json::Value, fields: &[&str]) {
    for field in fields {
        let value = report.pointer(field).and_then(serde_json::Value::as_f64);
        assert!(value.is_some_and(|value| value > 0.0), "{field} in {report}");
    }
}

#[test]
fn bench_prints_one_object_with_the_promised_fields() {
    let report = bench(&world(), "ring --nodes 2 --rate 500 --seconds 300ms --warm-up 100ms --compare writes --runs 2");
    let fields = [
        "/ordered_per_s",
        "/latency_us/p50",
        "/latency_us/p99",
        "/latency_us/p999",
        "/cpu_us_per_delivery/daemon",
        "/cpu_us_per_delivery/client",
        "/floor/hop_us_p50",
        "/floor/multicast_pps",
        "/ratio/throughput",
        "/ratio/latency",
        "/cases/1/runs/1/ordered_per_s",
    ];
    all_above_zero(&report, &fields);
    let [one, other] = [0, 1].map(|case| &report["cases"][case]["name"]);
    assert!(report["idling"] == "balanced" && one == "batched" && other == "unbatched", "{report}");
}

#[test]
fn latency_is_told_to_the_percentile_beside_the_raw_hop() {
    let world = world();
    let page = world.path("latency.html").display().to_string();
    let report = bench(&world, &format!("latency --nodes 2 --seconds 1 --warm-up 200ms --report {page}"));
    let fields = [
        "/latency_us/p50",
        "/latency_us/max",
        "/floor/hop_blocking_us/p50",
        "/floor/hop_spinning_us/p99",
        "/floor/hop_processes",
        "/cores/daemon",
        "/cores/client",
        "/token_hop_us",
        "/ratio/token",
    ];
    all_above_zero(&report, &fields);
    let us = |field: &str| report["latency_us"][field].as_f64().unwrap();
    assert!(us("p50") <= us("p90") && us("p90") <= us("p99") && us("p999") <= us("max"), "{report}");
    let rate = report["ordered_per_s"].as_f64().unwrap();
    assert!((800.0..1_200.0).contains(&rate) && report["poisson"] == true, "{report}");
    assert_eq!(figures_of(&page), report);
}

/// The figures that a page for a browser holds; the page must be well-formed and need nothing else.
fn figures_of(path: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let page = roxmltree::Document::parse_with_options(&text, options).unwrap();
    let named = |tag: &str| page.descendants().filter(|node| node.tag_name().name() == tag).count();
    assert!(named("svg") > 0 && named("polyline") > 0 && named("table") > 0 && named("script") == 0);
    assert!(!text.contains("src=") && !text.contains("href="));
    let figures = page.descendants().find(|node| node.attribute("id") == Some("figures")).unwrap();
    serde_json::from_str(figures.text().unwrap()).unwrap()
}

#[test]
fn the_floor_is_measured_without_daemons() {
    let report = bench(&world(), "floor --nodes 3 --seconds 100ms");
    all_above_zero(&report, &["/hop_blocking_us/p50", "/hop_spinning_us/p50", "/multicast/0/pps", "/multicast/2/pps"]);
    all_above_zero(&report, &["/pair_hop_blocking_us/p50", "/pair_hop_spinning_us/p50"]);
    assert_eq!(report["hop_processes"], 3);
    all_above_zero(&report, &["/stream/0/messages_per_s", "/stream/2/messages_per_s", "/stream/2/reader_us"]);
    assert_eq!(report["multicast"][0]["receivers"], 2);
}

#[test]
fn the_hops_of_a_ring_of_two_are_those_of_the_pair() {
    let world = world();
    let report = bench(&world, "floor --nodes 2 --seconds 50ms");
    for waits in ["hop_blocking_us", "hop_spinning_us"] {
        assert_eq!(report[waits], report[format!("pair_{waits}")], "{report}");
    }
    let ran = world.run(&["floor", "--nodes", "4", "--seconds", "50ms"]);
    let rows: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    for row in [["4", "blocking"], ["4", "spinning"], ["2", "blocking"], ["2", "spinning"]] {
        assert!(rows.iter().any(|words| words == &row), "{row:?} in {}", ran.out);
    }
}

#[test]
fn a_floor_that_is_killed_takes_its_ring_with_it() {
    let world = world();
    let mut bench = world.start(&["floor", "--nodes", "5", "--seconds", "60"], None);
    let mut ring = Vec::new();
    support::wait_until("the four others of the ring run", || {
        ring = children_of(bench.id());
        ring.len() == 4
    });
    bench.kill();
    support::wait_until("they are gone", || !ring.iter().any(|pid| incarnations(*pid)));
}

#[test]
fn throughput_and_latency_are_told_for_each_number_of_clients() {
    let report = bench(&world(), "clients --clients 2 --nodes 1 --seconds 200ms --warm-up 100ms");
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.iter().map(|step| step["clients"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for work in ["batched", "unbatched", "at_rate"] {
        all_above_zero(&steps[1][work], &["/ordered_per_s", "/latency_us/p50"]);
        let [ordered, delivered] =
            ["ordered_per_s", "delivered_per_s"].map(|rate| steps[1][work][rate].as_f64().unwrap());
        assert!(delivered >= 2.0 * ordered - 1.0, "{report}");
    }
}

#[test]
fn embedded_nodes_do_the_same_work_as_daemons_in_one_run() {
    let report = bench(&world(), "ring --embedded --compare hosts --seconds 300ms --warm-up 100ms");
    let fields =
        ["/ordered_per_s", "/latency_us/p50", "/cores/daemon", "/cores/client", "/daemon_peak_bytes", "/token_hop_us"];
    all_above_zero(&report, &fields);
    for (case, (name, embedded)) in [("embedded", true), ("daemons", false)].into_iter().enumerate() {
        let case = &report["cases"][case];
        assert!(case["name"] == name && case["embedded"] == embedded, "{report}");
        assert!(case["median"]["agreed"] == true && case["nodes"] == 3, "{report}");
        // The slowest of three receivers counts for the order; all of them for the deliveries.
        let [ordered, delivered] =
            ["ordered_per_s", "delivered_per_s"].map(|rate| case["median"][rate].as_f64().unwrap());
        assert!(ordered > 100.0 && delivered >= 3.0 * ordered - 1.0, "{report}");
    }
}

#[test]
fn embedded_nodes_serve_many_clients_round_after_round() {
    let report = bench(&world(), "clients --embedded --clients 4 --nodes 3 --seconds 200ms --warm-up 100ms");
    let steps = report["steps"].as_array().unwrap();
    assert!(steps.len() == 3 && report["embedded"] == true, "{report}");
    for work in ["batched", "unbatched", "at_rate"] {
        all_above_zero(&steps[2][work], &["/ordered_per_s", "/latency_us/p50", "/cores/daemon", "/cores/client"]);
        assert_eq!(steps[2][work]["agreed"], true);
    }
    let report = bench(&world(), "latency --embedded --sockets --nodes 2 --seconds 500ms --warm-up 200ms");
    assert!(report["embedded"] == true && report["cases"][0]["median"]["agreed"] == true, "{report}");
    all_above_zero(&report, &["/latency_us/p50", "/cores/client"]);
}

#[test]
fn an_embedded_bench_that_is_killed_takes_its_nodes_with_it() {
    let world = world();
    let mut bench = world.start(&["latency", "--embedded", "--seconds", "60", "--nodes", "2"], None);
    let mut nodes = Vec::new();
    support::wait_until("two nodes run", || {
        nodes = children_of(bench.id()).into_iter().filter(|pid| embeds(*pid)).collect();
        nodes.len() == 2
    });
    bench.kill();
    support::wait_until("they are gone", || !nodes.iter().any(|pid| incarnations(*pid)));
}

/// Whether one of its threads is a node.
fn embeds(pid: u32) -> bool {
    let names = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    names
        .into_iter()
        .any(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("consort-n")))
}

#[test]
fn peers_that_are_not_there_are_left_out_with_the_reason() {
    let report = bench(&world(), "peers --nodes 2 --seconds 200ms --warm-up 100ms --spread /nowhere/spread --runs 2");
    let works = report["works"].as_array().unwrap();
    assert_eq!(
        works.iter().map(|work| work["work"].as_str().unwrap()).collect::<Vec<_>>(),
        ["batched", "unbatched", "at rate", "small"]
    );
    works
        .iter()
        .for_each(|work| all_above_zero(&work["systems"][0], &["/median/ordered_per_s", "/runs/1/latency_us/p99"]));
    let reasons: Vec<&str> =
        report["skipped"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert!(
        reasons[0].starts_with("--spread: cannot run /nowhere/spread: ") && reasons[1] == "no --nats PROGRAM was given"
    );
}

/// Another system that never does anything, and a bench that is told to end while it waits for it.
#[test]
fn peers_that_are_interrupted_end_at_once_with_all_that_they_started() {
    use std::os::unix::fs::PermissionsExt;
    let world = world();
    let here = world.path("").display().to_string();
    let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && exit\necho $$ > {here}/pid-$$\nexec sleep 600\n");
    let program = world.write("nats-server", &text);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let short = ["--nodes", "2", "--seconds", "100ms", "--warm-up", "100ms"];
    let mut bench = world.start(&[&["peers", "--nats", &program][..], &short].concat(), None);
    let mut others = Vec::new();
    support::wait_until("the other system runs", || {
        let files = std::fs::read_dir(&here).unwrap().flatten();
        let name = |file: std::fs::DirEntry| file.file_name().to_str()?.strip_prefix("pid-")?.parse::<u32>().ok();
        others = files.filter_map(name).collect();
        others.len() == 2
    });
    rustix::process::kill_process(rustix::process::Pid::from_raw(bench.id() as i32).unwrap(), Signal::TERM).unwrap();
    let ran = bench.wait();
    assert_eq!(ran.code, 130, "{}{}", ran.out, ran.errors);
    assert!(!ran.errors.contains("tried again") && !ran.errors.contains("NATS is left out"), "{}", ran.errors);
    support::wait_until("the other system is gone", || !others.iter().any(|pid| incarnations(*pid)));
}

#[test]
fn goodput_is_told_for_loads_beyond_the_capacity() {
    let report = bench(&world(), "ring --nodes 2 --offered 50%..200% --seconds 200ms --warm-up 100ms");
    all_above_zero(&report, &["/capacity_per_s", "/peak_per_s", "/kept"]);
    let steps = report["steps"].as_array().unwrap();
    let percents: Vec<u64> = steps.iter().map(|step| step["percent"].as_u64().unwrap()).collect();
    assert_eq!(percents, [50, 75, 90, 100, 125, 150, 200]);
    assert!(steps[6]["median"]["unsent_per_s"].as_f64() > steps[0]["median"]["unsent_per_s"].as_f64(), "{report}");
    assert!(report["met"].is_boolean(), "{report}");
}

#[test]
fn failover_is_measured_over_kill_leave_restart_and_pause() {
    let world = world();
    let ran = world.run(&["failover", "--nodes", "2", "--runs", "2", "--rate", "200", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    for figure in ["crash_ms", "leave_ms", "restart_ms"] {
        let at = |name: &str| report[figure][name].as_f64().unwrap();
        assert!(at("p50") > 0.0 && at("p50") <= at("max"), "{figure} in {report}");
    }
    assert!(report["crash_ms"]["slowest"]["why"].as_str().unwrap().contains("silent"), "{report}");
    assert!(report["pauses"] == 2 && report["pause_view_changes"].is_u64(), "{report}");
    assert!(report["targets"].as_array().unwrap().iter().all(|target| target["met"].is_boolean()), "{report}");
    assert!(!std::fs::read_dir(world.path("")).unwrap().flatten().any(is_lab));
}

#[test]
fn a_coordinator_that_is_killed_leaves_orders_to_another() {
    let world = world();
    let words =
        ["failover", "--protocol", "paxos", "--victim", "coordinator", "--runs", "2", "--rate", "200", "--json"];
    let ran = world.run(&words);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let killed: Vec<_> = report["killed"].as_array().unwrap().iter().collect();
    assert!(killed.len() == 2 && killed[0] != killed[1], "who returns does not take over: {report}");
    for figure in ["orders_ms", "crash_ms"] {
        assert!(report[figure]["p50"].as_f64() > Some(0.0), "{figure} in {report}");
    }
    assert!(!std::fs::read_dir(world.path("")).unwrap().flatten().any(is_lab));
}

#[test]
fn a_failover_bench_that_is_interrupted_leaves_no_daemon() {
    let world = world();
    let mut bench = world.start(&["failover", "--runs", "1000"], None);
    bench.prints("node 1 ");
    let daemons = children_of(bench.id());
    assert_eq!(daemons.len(), 3);
    rustix::process::kill_process(rustix::process::Pid::from_raw(bench.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(bench.wait().code, 130);
    assert!(daemons.iter().all(|pid| !incarnations(*pid)));
    assert!(!std::fs::read_dir(world.path("")).unwrap().flatten().any(is_lab));
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether a directory entry is that of a demonstration or measurement.
fn is_lab(entry: std::fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with("consort-")
}

/// How long a view may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// A daemon of the world's cluster, of three; ended when dropped.
struct Daemon(std::process::Child, std::path::PathBuf);

impl Daemon {
    fn start(world: &World, node: u16) -> Self {
        let program = consort_testbed::program_for_tests().unwrap();
        let mut command = std::process::Command::new(program);
        command.args(["daemon", "--cluster", &world.cluster, "--nodes", "3", "--node", &node.to_string()]);
        command.env("CONSORT_RUNTIME_DIR", world.path("run")).env("XDG_STATE_HOME", world.path("state"));
        command.env_remove("CONSORT_LOG").stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(!ready.is_empty(), "the daemon did not start");
        Self(child, world.socket_path(node))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Members meet, one at each of these daemons; they run at the same time.
fn meet(world: &World, daemons: &[Daemon], more: &str) -> Vec<support::Ran> {
    let start = |daemon: &Daemon| {
        let at = daemon.1.display();
        let line = format!("latency --join {at} --rate 300 --seconds 1 --warm-up 200ms {more}");
        world.start(&line.split_whitespace().collect::<Vec<_>>(), Some(b""))
    };
    let mut running: Vec<_> = daemons.iter().map(start).collect();
    running.iter_mut().map(support::Running::wait).collect()
}

#[test]
fn members_at_three_daemons_measure_what_lies_between_each_two() {
    let world = world();
    let daemons: Vec<_> = (1..=3).map(|node| Daemon::start(&world, node)).collect();
    let all = meet(&world, &daemons, "--members 3 --service safe --json");
    assert!(all.iter().all(|ran| ran.code == 0), "{:?}", all.iter().map(|ran| &ran.errors).collect::<Vec<_>>());
    let reports: Vec<serde_json::Value> = all.iter().map(|ran| serde_json::from_str(&ran.out).unwrap()).collect();
    assert!(reports.iter().all(|report| *report == reports[0]), "all find the same: {reports:?}");
    assert_eq!(reports[0]["pairs"].as_array().unwrap().len(), 3);
    for pair in ["/pairs/0", "/pairs/1", "/pairs/2"] {
        let fields = ["messages", "by_sums_us", "by_exchanges_us", "there_us/p50", "there_us/p99", "back_us/p50"];
        all_above_zero(&reports[0], &fields.map(|field| format!("{pair}/{field}")).each_ref().map(String::as_str));
        // All of this machine have one clock, so that both methods are right.
        let us = |field: &str| reports[0].pointer(&format!("{pair}/{field}")).unwrap().as_f64().unwrap();
        let (sums, exchanges) = (us("by_sums_us"), us("by_exchanges_us"));
        assert!(exchanges > sums / 3.0 && exchanges < sums * 3.0, "{sums} {exchanges}");
    }
}

#[test]
fn members_that_are_too_many_or_have_no_daemon_are_told_so() {
    let world = world();
    let nobody = world.run(&["latency", "--join", &world.socket_path(1).display().to_string()]);
    assert_eq!(nobody.code, 3, "{}", nobody.errors);
    let daemons: Vec<_> = (1..=3).map(|node| Daemon::start(&world, node)).collect();
    let waits = ["latency", "--members", "64", "--join", &daemons[0].1.display().to_string()].map(String::from);
    let _waiting = [0; 2].map(|_| world.start(&waits.each_ref().map(String::as_str), Some(b"")));
    let group = consort::GroupName::new("consort-bench-latency").unwrap();
    let third = consort::Address::Unix(daemons[2].1.clone());
    let mut third = consort::Client::connect(&third, &consort::ConnectOptions::default()).unwrap();
    third.join(&group).unwrap();
    let all_there = |event| matches!(event, Some(consort::Event::GroupView(view)) if view.members.len() == 3);
    support::wait_until("two wait and one looks on", || all_there(third.receive(Some(PATIENCE)).unwrap()));
    let late = world.run(&["latency", "--join", &daemons[1].1.display().to_string()]);
    assert_eq!(late.code, 1, "{}", late.errors);
    let said =
        "4 clients are in the group consort-bench-latency, and --members is 2; choose another group with --group";
    assert!(late.errors.contains(said), "{}", late.errors);
}

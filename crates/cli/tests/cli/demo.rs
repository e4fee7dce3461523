//! The demonstration, as users run it.

use crate::support::{self, World, incarnations};
use rustix::process::Signal;

#[test]
fn the_demo_holds_what_it_promises_and_leaves_nothing_behind() {
    let world = World::new();
    let ran = world.run(&["demo", "--json", "--lines", "500"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    let verdict: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&verdict["ok"], &verdict["missing"], &verdict["messages"]), (&true.into(), &0.into(), &1500.into()));
    let digests = verdict["digests"].as_array().unwrap();
    assert!(
        digests.len() == 3
            && digests.iter().all(|digest| digest == &digests[0] && digest.as_str().unwrap().len() == 64)
    );
    assert!(verdict["latency_us"]["p50"].as_f64().unwrap() > 0.0 && verdict["ordered_per_s"].as_f64().unwrap() > 0.0);
    let trouble = &verdict["trouble"];
    assert_eq!(
        (&trouble["node"], &trouble["clients"], &trouble["violations"]),
        (&2.into(), &4.into(), &serde_json::json!([]))
    );
    assert!(
        trouble["delivered"].as_u64() > trouble["sent"].as_u64() && trouble["promises"].as_u64() > Some(20),
        "{trouble}"
    );
    let views: Vec<_> = trouble["views"].as_array().unwrap().iter().filter(|view| view["kind"] == "regular").collect();
    assert!(views.iter().any(|view| view["members"] == serde_json::json!([1, 3])), "{trouble}");
    assert_eq!(views.last().unwrap()["members"], serde_json::json!([1, 2, 3]), "{trouble}");
    // Its directory lay in ours, and is gone with everything in it.
    assert!(!std::fs::read_dir(world.path("")).unwrap().flatten().any(is_lab));
}

#[test]
fn with_paxos_the_demo_shows_that_the_order_outlasts_its_daemons() {
    let ran = World::new().run(&["demo", "--protocol", "paxos", "--json", "--lines", "200"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    let verdict: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let majority = &verdict["majority"];
    let killed: Vec<_> = majority["killed"].as_array().unwrap().iter().collect();
    assert_eq!((killed.len(), killed[0], &majority["acceptors"]), (2, &majority["coordinator"], &3.into()));
    assert_ne!(majority["next"], majority["coordinator"]);
    assert!(majority["in_vain"].as_str().unwrap().starts_with("the time allowed was not enough"), "{majority}");
    let read = majority["read"].as_array().unwrap();
    assert_eq!((read.len(), &read[0]["digest"]), (2, &read[1]["digest"]));
    // Before the kill by two clients, then by one: with the one in vain, and the last word.
    assert_eq!((&majority["acknowledged"], &read[0]["messages"]), (&402.into(), &403.into()));
    let few = World::new().run(&["demo", "--protocol", "paxos", "--nodes", "2"]);
    assert_eq!((few.code, few.out.as_str()), (2, ""), "{}", few.errors);
    assert!(few.errors.contains("give 3 to 16"), "{}", few.errors);
}

#[test]
fn with_many_rings_the_demo_keeps_all_promises() {
    let ran = World::new().run(&["demo", "--protocol", "multiring-paxos", "--json", "--lines", "200"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    let verdict: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&verdict["ok"], &verdict["messages"]), (&true.into(), &600.into()));
    assert_eq!(verdict["trouble"]["violations"], serde_json::json!([]));
}

#[test]
fn with_joined_rings_the_demo_kills_a_gateway_beside_one_that_stands_by() {
    let ran = World::new().run(&["demo", "--protocol", "multiring", "--json", "--lines", "200"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    let verdict: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&verdict["ok"], &verdict["messages"]), (&true.into(), &1_000.into()));
    let trouble = &verdict["trouble"];
    let handed_over = &trouble["handed_over"];
    assert_eq!((&handed_over["node"], &handed_over["standby"]), (&3.into(), &4.into()), "{trouble}");
    let views = trouble["views"].as_array().unwrap().iter().filter(|view| view["kind"] == "regular");
    let members: Vec<_> = views.map(|view| &view["members"]).collect();
    assert!(members.contains(&&serde_json::json!([1, 2, 4, 5])), "{trouble}");
    assert_eq!(members.last(), Some(&&serde_json::json!([1, 2, 3, 4, 5])), "{trouble}");
    let few = World::new().run(&["demo", "--protocol", "multiring", "--nodes", "4"]);
    assert!(few.code == 2 && few.errors.contains("give 5 to 16"), "{}", few.errors);
}

#[test]
fn a_demo_that_nobody_listens_to_is_played_to_its_end() {
    let world = World::new();
    let (reads, writes) = std::io::pipe().unwrap();
    drop(reads);
    let began = std::time::Instant::now();
    let ran = world.start_into(&["demo", "--lines", "100", "--nodes", "1"], writes.into()).wait();
    assert_eq!(ran.code, 0, "{}", ran.errors);
    // Its last part alone takes 1.3 s.
    assert!(began.elapsed() > std::time::Duration::from_millis(1_300), "{:?}", began.elapsed());
}

#[test]
fn the_demo_tells_its_story() {
    let ran = World::new().run(&["demo", "--lines", "100", "--nodes", "2"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.errors);
    for part in [
        "2 daemons run",
        "200 messages",
        "The same sequence everywhere",
        "retransmissions",
        "node 2 is killed (kill -9)",
        "n1 goes on alone",
        "n2 silent for",
        "Node 2 is started again",
        "No promise is broken",
        "p99.9",
        "Your turn",
    ] {
        assert!(ran.out.contains(part), "`{part}` is missing in:\n{}", ran.out);
    }
}

/// The processes that the story names after its first number, which counts them.
fn daemons_of(story: &str) -> Vec<u32> {
    let numbers: Vec<u32> = story.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    assert_eq!((numbers[0], numbers.len()), (3, 4), "{story}");
    numbers[1..].to_vec()
}

#[test]
fn a_demo_that_is_interrupted_ends_its_daemons() {
    let world = World::new();
    let mut demo = world.start(&["demo", "--lines", "5000000"], None);
    let pids = daemons_of(&demo.prints("processes"));
    rustix::process::kill_process(rustix::process::Pid::from_raw(demo.id() as i32).unwrap(), Signal::INT).unwrap();
    let ran = demo.wait();
    assert_eq!(ran.code, 130, "{}", ran.errors);
    assert!(pids.iter().all(|pid| !incarnations(*pid)));
}

#[test]
fn a_demo_that_is_killed_takes_everything_with_it() {
    let world = World::new();
    let mut demo = world.start(&["demo", "--lines", "5000000"], None);
    let pids = daemons_of(&demo.prints("processes"));
    demo.kill();
    support::wait_until("the demo's daemons are gone", || !pids.iter().any(|pid| incarnations(*pid)));
    // What it could not remove, the next one does.
    assert!(std::fs::read_dir(world.path("")).unwrap().flatten().any(is_lab));
    assert_eq!(world.run(&["demo", "--nodes", "1", "--lines", "10"]).code, 0);
    assert!(!std::fs::read_dir(world.path("")).unwrap().flatten().any(is_lab));
}

/// Whether a directory entry is that of a demonstration.
fn is_lab(entry: std::fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with("consort-")
}

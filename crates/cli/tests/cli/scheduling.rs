//! In which scheduling class daemons run.

use crate::support::World;

/// The policies of all threads of a process, as the kernel numbers them: 0 ordinary, 2 SCHED_RR.
fn policies(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let policy = |thread: std::io::Result<std::fs::DirEntry>| -> u32 {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[38].parse().unwrap()
    };
    threads.map(policy).collect()
}

fn told(world: &World) -> String {
    let ran = world.run(&["status", "--node", "1", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    status.to_string()
}

#[test]
fn only_the_loop_of_a_daemon_runs_in_real_time_and_only_if_it_is_told_to() {
    let world = World::new();
    let ordinary = world.daemon(&["--nodes", "2", "--node", "1"]);
    assert!(policies(ordinary.id()).iter().all(|policy| *policy == 0));
    assert!(told(&world).contains("\"scheduling\":\"normal\""), "{}", told(&world));
    drop(ordinary);
    let auto = world.daemon(&["--nodes", "2", "--node", "1", "--scheduling", "auto", "--metrics", "127.0.0.1:0"]);
    // The loop answers after it took its class, and a daemon serves before: so the status first.
    let (status, policies) = (told(&world), policies(auto.id()));
    let in_real_time = policies.iter().filter(|policy| **policy == 2).count();
    if status.contains("\"scheduling\":\"real time\"") {
        assert_eq!(in_real_time, 1, "{policies:?}");
        auto.says("runs in real time");
    } else {
        assert_eq!(in_real_time, 0, "{policies:?}");
        auto.says("real time is not permitted");
    }
}

#[test]
fn a_loop_that_yields_stays_as_it_is() {
    let world = World::new();
    let daemon = world.daemon(&["--nodes", "1", "--idling", "latency", "--scheduling", "auto"]);
    assert!(policies(daemon.id()).iter().all(|policy| *policy == 0));
    assert!(told(&world).contains("normal: idling `latency` yields"));
    let ran = world.run(&["daemon", "--nodes", "1", "--idling", "latency", "--scheduling", "realtime"]);
    assert!(ran.code == 2 && ran.errors.contains("scheduling: idling `latency` yields"), "{ran:?}");
}

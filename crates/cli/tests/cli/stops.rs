//! Ends that were asked for: daemons and servers of a store that get signals, alone and together, under load, and partitions
//! that end alone.
use crate::cluster::{Cluster, PATIENCE};
use crate::kv::{Server, call, text};
use crate::support::{World, free_port, wait_until};
use consort_kv::Reply;
use consort_types::Rng;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Rounds of orderly stops, unless CONSORT_LONG says another number.
const ROUNDS: usize = 3;
/// Commands that are written at once.
const PIPELINE: usize = 64;
const PARTITIONS: usize = 2;
/// What servers are started with.
const SETTINGS: [&str; 6] = ["--partitions", "2", "--founders", "2", "--log", "info"];
/// A key of each partition.
const KEYS: [&str; PARTITIONS] = ["pair-2", "left"];
/// As a shell starts what it runs in the background.
const BACKGROUND: [&str; 3] = ["sh", "-c", "trap '' INT; exec \"$0\" \"$@\""];

/// The keys whose SET was answered, each with its value.
type Acknowledged = Arc<Mutex<BTreeMap<String, String>>>;

/// Puts keys until the server goes away. They begin with these letters.
fn put_keys(address: &str, letters: String, all: &Acknowledged, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (address, all, stop) = (address.to_owned(), Arc::clone(all), Arc::clone(stop));
    thread::spawn(move || {
        let Ok(mut stream) = TcpStream::connect(&address) else { return };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut replies = BufReader::new(stream.try_clone().unwrap());
        let mut next = 0;
        while !stop.load(Ordering::Relaxed) {
            let keys: Vec<_> =
                (next..next + PIPELINE).map(|n| (format!("{letters}-{n}"), format!("value-{n}"))).collect();
            next += PIPELINE;
            let commands: String = keys.iter().map(|(key, value)| format!("SET {key} {value}\r\n")).collect();
            if stream.write_all(commands.as_bytes()).is_err() {
                return;
            }
            for (key, value) in keys {
                let mut reply = String::new();
                match replies.read_line(&mut reply) {
                    Ok(0) | Err(_) => return,
                    Ok(_) if reply == "+OK\r\n" => drop(all.lock().unwrap().insert(key, value)),
                    Ok(_) => {}
                }
            }
        }
    })
}

/// The positions of the whole checkpoints of a server's partition.
fn checkpoints(cluster: &Cluster, server: usize, partition: usize) -> Vec<u64> {
    let directory = cluster.world.path(&format!("store-{server}")).join(format!("partition-{partition}"));
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = files.flatten().map(|file| file.path()).filter(|path| name(path).starts_with("checkpoint-"));
    files.filter(|path| is_whole(path)).map(|path| name(&path).rsplit('-').next().unwrap().parse().unwrap()).collect()
}

fn is_whole(path: &Path) -> bool {
    let bytes = std::fs::read(path).unwrap();
    let (state, sum) = bytes.split_at(bytes.len() - 4);
    crc32fast::hash(state).to_be_bytes() == sum
}

/// Where each partition ended, as the log says.
fn ends(log: &str) -> BTreeMap<usize, u64> {
    let end = |line: &str| {
        let (_, rest) = line.split_once("the replica of group kv.main.")?;
        let (partition, rest) = rest.split_once(" ends at command ")?;
        let (position, _) = rest.split_once(", with a whole checkpoint")?;
        Some((partition.parse().unwrap(), position.parse().unwrap()))
    };
    log.lines().filter_map(end).collect()
}

fn start_servers(cluster: &Cluster) -> Vec<Server> {
    let started: Vec<_> = (0..3).map(|at| Server::start(cluster, at, &SETTINGS)).collect();
    started.into_iter().map(Server::ready).collect()
}

/// Every key that was acknowledged is there with its value, at this server.
fn holds_all(server: &Server, all: &BTreeMap<String, String>) {
    let mut client = server.connect();
    let (keys, values): (Vec<_>, Vec<_>) = all.iter().unzip();
    for (keys, values) in keys.chunks(1_000).zip(values.chunks(1_000)) {
        let words: Vec<_> = ["MGET"].into_iter().chain(keys.iter().map(|key| key.as_str())).collect();
        let Reply::Array(found) = client.call(&words).unwrap() else { panic!("no values") };
        for ((key, value), found) in keys.iter().zip(values).zip(&found) {
            assert!(
                matches!(found, Reply::Bulk(bytes) if bytes[..] == *value.as_bytes()),
                "{key}: {found:?}, not {value}"
            );
        }
    }
}

/// Sends each of the six processes a signal, all at once or with pauses, in a random order.
fn signal_all(cluster: &Cluster, servers: &[Server], rng: &mut Rng, at_once: bool) {
    let mut order: Vec<usize> = (0..6).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for at in order {
        // What a shell started in the background ignores this one, and so does what it starts.
        let signal = if rng.chance(0.5) || ignores_interrupts() { Signal::TERM } else { Signal::INT };
        match at {
            0..3 => cluster.signal(at, signal),
            _ => servers[at - 3].process.signal(signal),
        }
        if !at_once {
            thread::sleep(Duration::from_millis(rng.below(80)));
        }
    }
}

fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & 1 << (Signal::INT.as_raw() - 1) != 0
}

fn orderly_stops_keep_all(protocol: &str) {
    let rounds = if std::env::var_os("CONSORT_LONG").is_some() { 20 } else { ROUNDS };
    let mut cluster = Cluster::new(protocol);
    let (all, mut rng) = (Acknowledged::default(), Rng::new(7));
    for round in 0..rounds {
        let mut servers = start_servers(&cluster);
        let before = all.lock().unwrap().clone();
        servers.iter().for_each(|server| holds_all(server, &before));
        let stop = Arc::new(AtomicBool::new(false));
        let write = |(at, server): (usize, &Server)| put_keys(&server.address, format!("r{round}-s{at}"), &all, &stop);
        let writers: Vec<_> = servers.iter().enumerate().map(write).collect();
        wait_until("writes are acknowledged", || all.lock().unwrap().len() > before.len() + 1_000);
        signal_all(&cluster, &servers, &mut rng, round == 0);
        let ended: Vec<_> = servers.iter_mut().map(|server| server.process.wait()).collect();
        let daemons: Vec<_> = (0..3).map(|at| cluster.ended(at)).collect();
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(daemons.iter().all(|(code, _)| *code == 0), "{daemons:#?}");
        for (at, ran) in ended.iter().enumerate() {
            assert_eq!(ran.code, 0, "round {round}, server {at}: {}", ran.errors);
            let ends = ends(&ran.errors);
            assert_eq!(ends.len(), PARTITIONS, "round {round}, server {at}: {}", ran.errors);
            for (partition, end) in ends {
                let kept = checkpoints(&cluster, at, partition);
                assert_eq!(
                    kept.iter().max(),
                    Some(&end),
                    "round {round}, server {at}, partition {partition}: {}",
                    ran.errors
                );
            }
        }
        (0..3).for_each(|at| cluster.start(at));
    }
    let servers = start_servers(&cluster);
    servers.iter().for_each(|server| holds_all(server, &all.lock().unwrap()));
}

#[test]
fn signals_to_all_at_once_lose_nothing_with_ring_paxos() {
    orderly_stops_keep_all("paxos");
}

#[test]
fn signals_to_all_at_once_lose_nothing_with_the_ring() {
    orderly_stops_keep_all("ring");
}

#[test]
fn a_daemon_that_leaves_ends_no_server() {
    let mut cluster = Cluster::new("paxos");
    let mut servers = start_servers(&cluster);
    let all = Acknowledged::default();
    let stop = Arc::new(AtomicBool::new(false));
    let write = |(at, server): (usize, &Server)| put_keys(&server.address, format!("s{at}"), &all, &stop);
    let writers: Vec<_> = servers.iter().enumerate().map(write).collect();
    for at in [0, 1, 2, 0] {
        let before = all.lock().unwrap().len();
        wait_until("writes are acknowledged", || all.lock().unwrap().len() > before + 500);
        cluster.end(at);
        assert!(servers.iter_mut().all(|server| server.process.goes_on()));
        cluster.start(at);
    }
    // All daemons at once: the servers wait for them.
    (0..3).for_each(|at| cluster.signal(at, Signal::TERM));
    (0..3).for_each(|at| assert_eq!(cluster.ended(at).0, 0));
    thread::sleep(Duration::from_millis(300));
    assert!(servers.iter_mut().all(|server| server.process.goes_on()));
    (0..3).for_each(|at| cluster.start(at));
    wait_until("all serve again", || {
        servers.iter().all(|server| call(&mut server.connect(), "SET again yes") == Reply::Simple("OK"))
    });
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    servers.iter().for_each(|server| holds_all(server, &all.lock().unwrap()));
    for server in &mut servers {
        server.process.signal(Signal::TERM);
        let ran = server.process.wait();
        assert!(ran.code == 0 && !ran.errors.contains("has ended: "), "{}", ran.errors);
    }
}

#[test]
fn a_hangup_ends_nothing_and_nohup_is_respected() {
    let world = World::new();
    let ignored = "SIGHUP was ignored when this process started, so it stays ignored";
    let mut daemon = world.daemon(&["--protocol", "paxos", "--nodes", "1"]);
    daemon.signal(Signal::HUP);
    let why = "SIGHUP is ignored: this daemon has no settings to read again; start it with --config FILE";
    assert!(daemon.says("SIGHUP").contains(why));
    let cluster = world.cluster.clone();
    let words =
        ["kv", "serve", "--listen", "127.0.0.1:0", "--cluster", &cluster, "--log", "info", "--copies", "2", "--state"];
    let states = ["one", "two"].map(|name| world.path(name).display().to_string());
    let [first, second] = states.each_ref().map(|state| [&words[..], &[state]].concat());
    let mut server = world.start_below(&[], &first);
    server.prints("ready:");
    server.signal(Signal::HUP);
    assert!(server.says("SIGHUP").contains("SIGHUP is ignored: this server has no settings to read again"));
    let mut below = world.start_below(&["nohup"], &second);
    assert!(below.says("SIGHUP").contains(ignored));
    below.prints("ready:");
    below.signal(Signal::HUP);
    for server in [&mut server, &mut below] {
        server.signal(Signal::TERM);
        let ran = server.wait();
        assert!(ran.code == 0 && !ran.errors.contains("SIGHUP is"), "{}", ran.errors);
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().0, 0);
    let mut below =
        world.start_below(&["nohup"], &["daemon", "--cluster", &cluster, "--protocol", "paxos", "--nodes", "1"]);
    assert!(below.says("SIGHUP").contains(ignored));
    below.prints("ready:");
    below.signal(Signal::HUP);
    below.signal(Signal::TERM);
    let ran = below.wait();
    assert!(ran.code == 0 && !ran.errors.contains("SIGHUP is"), "{}", ran.errors);
}

#[test]
fn what_a_shell_starts_in_the_background_ignores_ctrl_c() {
    let cluster = Cluster::new("ring");
    let mut server = Server::start_below(&cluster, 0, &BACKGROUND, &["--log", "info"]).ready();
    assert_eq!(call(&mut server.connect(), "SET tea green"), Reply::Simple("OK"));
    server.process.signal(Signal::INT);
    assert!(server.process.says("SIGINT").contains("SIGINT was ignored when this process started"));
    assert_eq!(text(&call(&mut server.connect(), "GET tea")), "green");
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.wait().code, 0);
}

#[test]
fn a_server_whose_daemons_are_away_ends_at_a_signal() {
    let world = World::new();
    let nobody = world.path("no-daemon.sock").display().to_string();
    let mut server = world.start_below(&[], &["kv", "serve", "--listen", "127.0.0.1:0", "--daemon", &nobody]);
    thread::sleep(Duration::from_millis(300));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code, 0);
}

/// The second partition of this server has ended, and the first one goes on.
fn serves_the_first_alone(server: &Server, cause: &str) {
    let mut client = server.connect();
    assert_eq!(call(&mut client, &format!("SET {} yes", KEYS[0])), Reply::Simple("OK"));
    assert_eq!(text(&call(&mut client, &format!("GET {}", KEYS[0]))), "yes");
    let (first, second) = (KEYS[0], KEYS[1]);
    let refused =
        [format!("SET {second} no"), format!("GET {second}"), format!("MGET {first} {second}"), "DBSIZE".into()];
    for line in refused {
        let reply = text(&call(&mut client, &line));
        assert!(
            reply.starts_with("CLUSTERDOWN nothing was done; partition 2: ") && reply.contains(cause),
            "{line}: {reply}"
        );
    }
    let info = text(&call(&mut client, "INFO"));
    let line = info.lines().find(|line| line.starts_with("partition2:")).unwrap();
    assert!(line.contains(",ended=") && line.contains(cause), "{info}");
}

/// It ends at a signal with the exit code of a store that is not whole, and the last checkpoint of the first partition.
fn ends_with_the_first_alone(cluster: &Cluster, mut server: Server) {
    let before = checkpoints(cluster, 0, 1).into_iter().max();
    server.process.signal(Signal::TERM);
    let ran = server.process.wait();
    assert!(ran.code == 1 && ran.errors.contains("partition 2 has not ended well, as the log says"), "{}", ran.errors);
    let end = ends(&ran.errors)[&1];
    assert_eq!(checkpoints(cluster, 0, 1).into_iter().max(), Some(end));
    assert!(before < Some(end));
}

#[test]
fn a_partition_whose_directory_is_unusable_stops_no_other() {
    let cluster = Cluster::new("ring");
    let state = cluster.world.path("store-0");
    std::fs::create_dir(&state).unwrap();
    std::fs::write(state.join("partition-2"), "no directory").unwrap();
    let server = Server::start(&cluster, 0, &["--partitions", "2", "--log", "info"]).ready();
    let line = server.process.says("partition 2 is not served any more");
    assert!(line.contains("partition-2") && line.contains("Make the directory usable, then start again"), "{line}");
    serves_the_first_alone(&server, "partition-2");
    ends_with_the_first_alone(&cluster, server);
    // With no partition left there is nothing to serve.
    std::fs::remove_dir_all(state.join("partition-1")).unwrap();
    std::fs::write(state.join("partition-1"), "no directory").unwrap();
    let ran = Server::start(&cluster, 0, &["--partitions", "2"]).process.wait();
    assert!(ran.code == 1 && ran.errors.contains("consort: partition 1: checkpoints in "), "{}", ran.errors);
}

#[test]
fn a_partition_that_ends_while_it_serves_stops_no_other() {
    let world = World::new();
    let rules = |groups: &str| {
        let who = format!("user:{}", rustix::process::geteuid().as_raw());
        let allow = r#"allow = ["join", "send", "receive", "see"]"#;
        format!("[[rights]]\nwho = [\"{who}\"]\ngroups = [{groups}]\n{allow}\n")
    };
    let file = world.write("rights.toml", &rules(r##""*", "#*""##));
    let (cluster, port) = (&world.cluster, free_port());
    let text = format!(
        "cluster = \"{cluster}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:{port}\"\n\
         [security]\nrights = \"{file}\"\n"
    );
    let mut cluster = Cluster::out_of(world, &text, 1);
    let server = Server::start(&cluster, 0, &["--partitions", "2", "--log", "info"]).ready();
    std::fs::write(&file, rules(r##""kv.main.1", "#*""##)).unwrap();
    cluster.end(0);
    cluster.start(0);
    let line = server.process.says("partition 2 is not served any more");
    assert!(line.contains("may not join kv.main.2") && line.contains("Remove the cause, then start this"), "{line}");
    wait_until("the other one is up to date again", || {
        matches!(call(&mut server.connect(), &format!("SET {} yes", KEYS[0])), Reply::Simple(_))
    });
    serves_the_first_alone(&server, "may not join kv.main.2");
    ends_with_the_first_alone(&cluster, server);
}

#[test]
fn a_second_signal_ends_a_server_whose_disk_hangs() {
    let cluster = Cluster::new("ring");
    let mut server = Server::start(&cluster, 0, &["--partitions", "2", "--log", "info"]).ready();
    KEYS.iter().for_each(|key| assert_eq!(call(&mut server.connect(), &format!("SET {key} 1")), Reply::Simple("OK")));
    // Nothing reads from this pipe, so that the checkpoint which is written there never begins.
    let pipe = cluster.world.path("store-0").join("partition-2").join("unfinished");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    server.process.signal(Signal::INT);
    server.process.signal(Signal::TERM);
    server.process.says("kv.main.1 ends at command ");
    thread::sleep(Duration::from_millis(1_500));
    assert!(server.process.goes_on(), "signals of one moment count as one");
    server.process.signal(Signal::TERM);
    let ran = server.process.wait();
    assert_eq!(ran.code, 1);
    let line = "ended at once by a second signal: the last checkpoint of partition 2 is not written";
    assert!(ran.errors.contains(line), "{}", ran.errors);
    assert_eq!(checkpoints(&cluster, 0, 1).len(), 1);
}

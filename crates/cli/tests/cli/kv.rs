//! `consort kv` at real daemons: servers and daemons that are killed, tools that speak RESP2, and the commands.

#[path = "../../../../bench/chaos/src/chaos/registers/linear.rs"]
mod linear;
#[path = "../../../../bench/chaos/src/chaos/registers/operation.rs"]
mod operation;

use crate::cluster::{Cluster, PATIENCE};
use crate::support::{Running, World, free_port, wait_until};
use consort_kv::{Connected, Reply};
use consort_types::{Instant, Rng};
use operation::{Answer, Call, KEYS, Operation, Request, Value};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Each partition has a ring of its own, and the first one takes what concerns both.
const RINGS: &str = "[[ring]]\nid = 1\nglobal = true\n[[ring]]\nid = 2\ngroups = [\"kv.main.1\"]\n\
                     [[ring]]\nid = 3\ngroups = [\"kv.main.2\"]\n";

/// A server of a store; killed when dropped.
pub(crate) struct Server {
    pub(crate) process: Running,
    pub(crate) address: String,
}

impl Server {
    /// One that joins at this daemon first.
    pub(crate) fn start(cluster: &Cluster, at: usize, more: &[&str]) -> Self {
        Self::start_below(cluster, at, &[], more)
    }

    /// The same as what another program starts, for example `nohup`.
    pub(crate) fn start_below(cluster: &Cluster, at: usize, front: &[&str], more: &[&str]) -> Self {
        let daemons: Vec<_> = cluster.addresses(at).iter().map(ToString::to_string).collect();
        let state = cluster.world.path(&format!("store-{at}")).display().to_string();
        let mut words = vec!["kv", "serve", "--listen", "127.0.0.1:0", "--state", &state];
        daemons.iter().for_each(|daemon| words.extend(["--daemon", daemon]));
        words.extend(more);
        let process = cluster.world.start_below(front, &words);
        Self { process, address: String::new() }
    }

    /// Waits until it serves.
    pub(crate) fn ready(mut self) -> Self {
        let ready = self.process.prints("ready:");
        self.address = ready.rsplit_once(' ').unwrap().1.to_owned();
        self
    }

    pub(crate) fn connect(&self) -> Connected {
        connect(&self.address).unwrap()
    }
}

fn connect(address: &str) -> std::io::Result<Connected> {
    let mut server = Connected::to(address, Duration::from_secs(5))?;
    server.set_timeout(Some(PATIENCE))?;
    Ok(server)
}

fn servers(cluster: &Cluster, more: &[&str]) -> Vec<Server> {
    let more = [&["--founders", "3"], more].concat();
    let started: Vec<_> = (0..3).map(|at| Server::start(cluster, at, &more)).collect();
    started.into_iter().map(Server::ready).collect()
}

pub(crate) fn call(server: &mut Connected, line: &str) -> Reply {
    server.call(&line.split(' ').collect::<Vec<_>>()).unwrap()
}

pub(crate) fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Reply::Error(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn error(server: &mut Connected, line: &str) -> String {
    match call(server, line) {
        Reply::Error(text) => text,
        other => panic!("{line}: {other:?}"),
    }
}

/// What several threads know of a run.
#[derive(Default)]
struct Run {
    stop: AtomicBool,
    addresses: Mutex<Vec<String>>,
    operations: Mutex<Vec<Operation>>,
    pairs: Mutex<Vec<(u64, u64)>>,
}

impl Run {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A server other than the one that was tried before.
    fn connect(&self, tries: &mut usize) -> Option<Connected> {
        *tries += 1;
        let addresses = self.addresses.lock().unwrap().clone();
        let connected = connect(&addresses[*tries % addresses.len()]).ok();
        if connected.is_none() {
            thread::sleep(Duration::from_millis(20));
        }
        connected
    }

    fn count(&self) -> usize {
        self.operations.lock().unwrap().len().min(self.pairs.lock().unwrap().len())
    }
}

fn now() -> Instant {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Instant(time.as_nanos() as u64)
}

fn value(reply: &Reply) -> Value {
    if *reply == Reply::Nil { 0 } else { text(reply).parse().unwrap() }
}

/// What a server answers to a call; an error where that is not known or nothing was done.
fn ask(server: &mut Connected, key: usize, request: Request) -> Result<Answer, Failed> {
    let key = format!("register-{key}");
    let words = match request {
        Request::Read => format!("GET {key}"),
        Request::Write(new) => format!("SET {key} {new}"),
        Request::CompareAndSet { expected: 0, new } => format!("SET {key} {new} NX GET"),
        Request::CompareAndSet { expected, new } => format!("SET {key} {new} IFEQ {expected} GET"),
    };
    match server.call(&words.split(' ').collect::<Vec<_>>()) {
        Ok(Reply::Error(why)) if why.starts_with("CLUSTERDOWN ") => Err(Failed::Undone),
        Ok(Reply::Error(why)) if why.starts_with("UNKNOWN ") => Err(Failed::Unknown),
        Ok(Reply::Simple(_)) => Ok(Answer::Done),
        Ok(reply) => Ok(Answer::Held(value(&reply))),
        Err(_) => Err(Failed::Unknown),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Undone,
    Unknown,
}

/// Reads, writes and compares registers, and writes down what it was told.
fn keep_registers(run: Arc<Run>, caller: u64) -> JoinHandle<()> {
    thread::spawn(move || {
        let (mut rng, mut tries, mut number) = (Rng::new(caller), caller as usize, 0);
        let mut seen = [0; KEYS];
        while !run.is_over() {
            let Some(mut server) = run.connect(&mut tries) else { continue };
            while !run.is_over() {
                number += 1;
                let (key, new) = (rng.below(KEYS as u64) as usize, ((caller + 1) << 32) + number);
                let request = match rng.below(4) {
                    0 => Request::Read,
                    1 => Request::Write(new),
                    _ => Request::CompareAndSet { expected: seen[key], new },
                };
                let (call, from) = (Call { caller, number, key, request }, now());
                let answer = ask(&mut server, key, request);
                if let Ok(Answer::Held(value)) = answer {
                    seen[key] = request.applied_to(value);
                }
                if answer != Err(Failed::Undone) {
                    let outcome = answer.ok().map(|answer| (now(), answer));
                    run.operations.lock().unwrap().push(Operation { call, from, outcome });
                }
                if answer.is_err() {
                    break;
                }
            }
        }
    })
}

/// Two keys of two partitions.
const PAIR: [&str; 2] = ["left", "pair-2"];

/// Counts up the first of two keys, and then the second to the same.
fn count_pairs(run: Arc<Run>) -> JoinHandle<()> {
    thread::spawn(move || {
        let (mut tries, mut step) = (0, 2);
        let mut server = None;
        while !run.is_over() {
            let (key, count) = (PAIR[step % 2], step / 2);
            let Some(own) = server.as_mut() else {
                server = run.connect(&mut tries);
                continue;
            };
            // Whoever applies an earlier attempt late finds another value there.
            let words = ["SET", key, &count.to_string(), "IFEQ", &(count - 1).to_string(), "GET"];
            match own.call(&words) {
                Ok(Reply::Bulk(old)) => {
                    let old: usize = text(&Reply::Bulk(old)).parse().unwrap();
                    assert!(old == count - 1 || old == count, "{key} was {old} before {count}");
                    step += 1;
                }
                Ok(Reply::Error(_)) | Err(_) => server = None,
                Ok(other) => panic!("{other:?}"),
            }
        }
    })
}

/// Looks at both keys at once.
fn watch_pairs(run: Arc<Run>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut tries = 1;
        while !run.is_over() {
            let Some(mut server) = run.connect(&mut tries) else { continue };
            while !run.is_over() {
                match server.call(&["MGET", PAIR[0], PAIR[1]]) {
                    Ok(Reply::Array(both)) => {
                        run.pairs.lock().unwrap().push((value(&both[0]), value(&both[1])));
                    }
                    Ok(Reply::Error(_)) | Err(_) => break,
                    Ok(other) => panic!("{other:?}"),
                }
            }
        }
    })
}

fn more(run: &Run, what: &str) {
    let before = run.count();
    wait_until(what, || run.count() > before + 30);
}

/// The store as a server prints it.
fn printed(cluster: &Cluster, server: &Server) -> String {
    let ran = cluster.world.run(&["kv", "range", "--limit", "10000", "--server", &server.address]);
    assert_eq!((ran.code, ran.errors.as_str()), (0, ""));
    ran.out
}

fn kills_lose_nothing(protocol: &str, rings: &str) {
    let mut cluster = Cluster::with(protocol, rings);
    wait_until("all are in one view", || (0..3).all(|at| cluster.members(at) == 3));
    let settings = ["--partitions", "2", "--checkpoint-every", "50"];
    let mut servers = servers(&cluster, &settings);
    PAIR.iter().for_each(|key| {
        let reply = call(&mut servers[0].connect(), &format!("SET {key} 0"));
        assert_eq!(reply, Reply::Simple("OK"));
    });
    let run = Arc::new(Run::default());
    *run.addresses.lock().unwrap() = servers.iter().map(|server| server.address.clone()).collect();
    let mut threads: Vec<_> = (0..4).map(|caller| keep_registers(Arc::clone(&run), caller)).collect();
    threads.extend([count_pairs(Arc::clone(&run)), watch_pairs(Arc::clone(&run))]);
    more(&run, "they begin");
    wait_until("the third server has a checkpoint", || {
        let files = std::fs::read_dir(cluster.world.path("store-2").join("partition-1")).unwrap();
        files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("checkpoint-"))
    });
    servers[2].process.kill();
    more(&run, "they go on without a server");
    servers[2] = Server::start(&cluster, 2, &[&["--founders", "3"], &settings[..]].concat()).ready();
    run.addresses.lock().unwrap()[2].clone_from(&servers[2].address);
    more(&run, "they go on with it again");
    cluster.kill(0);
    more(&run, "they go on without a daemon");
    cluster.start(0);
    more(&run, "they go on with it again");
    run.stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let operations = run.operations.lock().unwrap();
    linear::judge(&operations).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(operations.iter().filter(|operation| operation.outcome.is_some()).count() > 100);
    let pairs = run.pairs.lock().unwrap();
    for (first, second) in pairs.iter() {
        assert!(second <= first && *first <= second + 1, "{first} and {second} were never there at one time");
    }
    assert!(pairs.is_sorted(), "a look at both goes back");
    let states: Vec<_> = servers.iter().map(|server| printed(&cluster, server)).collect();
    assert!(states[0].contains("register-0\t") && states[0].contains("left\t"), "{}", states[0]);
    assert!(states.iter().all(|state| *state == states[0]), "{states:#?}");
}

#[test]
fn kills_of_servers_and_daemons_lose_nothing_and_all_that_is_told_is_linearizable() {
    kills_lose_nothing("ring", "");
}

#[test]
fn kills_lose_nothing_where_each_partition_has_a_ring_of_its_own() {
    kills_lose_nothing("multiring-paxos", RINGS);
}

#[test]
fn where_no_ring_is_global_what_concerns_one_partition_is_served_alone() {
    let rings = "[[ring]]\nid = 2\ngroups = [\"kv.main.1\"]\n[[ring]]\nid = 3\n";
    let cluster = Cluster::with("multiring-paxos", rings);
    let server = Server::start(&cluster, 0, &["--partitions", "2"]).ready();
    let mut client = server.connect();
    assert_eq!(call(&mut client, &format!("SET {} 1", PAIR[0])), Reply::Simple("OK"));
    let told = call(&mut client, &format!("MGET {0} {0}", PAIR[0]));
    assert_eq!(told, Reply::Array(vec![Reply::text("1"), Reply::text("1")]));
    let told = error(&mut client, &format!("MGET {} {}", PAIR[0], PAIR[1]));
    assert!(told.starts_with("ERR nothing was done: ") && told.contains("none is global"), "{told}");
}

/// Writes bytes as they stand, and reads replies until the server closes or so many bytes have come.
fn exchange(address: &str, pieces: &[&[u8]], most: usize) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for piece in pieces {
        stream.write_all(piece).unwrap();
        stream.flush().unwrap();
    }
    let mut told = Vec::new();
    let mut chunk = [0; 4_096];
    while told.len() < most {
        match stream.read(&mut chunk).unwrap() {
            0 => break,
            read => told.extend_from_slice(&chunk[..read]),
        }
    }
    String::from_utf8(told).unwrap()
}

#[test]
fn tools_that_speak_resp_are_served_and_what_is_wrong_is_told() {
    let cluster = Cluster::new("ring");
    let server = Server::start(&cluster, 0, &["--connections", "4", "--pipeline", "8", "--memory", "1MiB"]).ready();
    let mut client = server.connect();
    assert_eq!(text(&call(&mut client, "PING")), "PONG");
    assert_eq!(text(&call(&mut client, "ECHO x")), "x");
    assert_eq!(call(&mut client, "SET tea green"), Reply::Simple("OK"));
    assert_eq!(call(&mut client, "SET tea black NX"), Reply::Nil);
    assert_eq!(call(&mut client, "SET tea black IFEQ green"), Reply::Simple("OK"));
    assert_eq!(text(&call(&mut client, "SET tea white IFEQ green GET")), "black");
    assert_eq!(text(&call(&mut client, "GET tea")), "black");
    assert_eq!(call(&mut client, "GET milk"), Reply::Nil);
    (0..100).for_each(|n| assert_eq!(call(&mut client, &format!("SET key-{n} {n}")), Reply::Simple("OK")));
    assert_eq!(call(&mut client, "EXISTS tea milk key-1 key-1"), Reply::Integer(3));
    let told = call(&mut client, "MGET key-7 milk key-8");
    assert_eq!(told, Reply::Array(vec![Reply::text("7"), Reply::Nil, Reply::text("8")]));
    assert_eq!(call(&mut client, "DBSIZE"), Reply::Integer(101));
    let mut scanned = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let Reply::Array(page) = call(&mut client, &format!("SCAN {cursor} MATCH key-* COUNT 7")) else { panic!() };
        let [next, Reply::Array(keys)] = &page[..] else { panic!("{page:?}") };
        scanned.extend(keys.iter().map(text));
        cursor = text(next);
        if cursor == "0" {
            break;
        }
    }
    scanned.sort();
    scanned.dedup();
    assert_eq!(scanned.len(), 100);
    assert_eq!(call(&mut client, "DEL tea milk key-0 key-1"), Reply::Integer(3));
    for line in ["COMMAND", "CONFIG GET save"] {
        assert_eq!(call(&mut client, line), Reply::Array(Vec::new()));
    }
    for line in ["CLIENT SETNAME x", "SELECT 0"] {
        assert_eq!(call(&mut client, line), Reply::Simple("OK"));
    }
    assert!(matches!(call(&mut client, "HELLO 2"), Reply::Array(fields) if fields.len() == 12));
    assert!(text(&call(&mut client, "INFO")).contains("partition4:position="));
    assert!(error(&mut client, "INCR a").starts_with("ERR unknown command 'INCR'"));
    assert!(error(&mut client, "GET").starts_with("ERR wrong number of arguments for 'get'"));
    assert!(error(&mut client, &format!("GET {}", "k".repeat(5_000))).contains("4096 are allowed"));
    assert!(error(&mut client, &format!("SET a {}", "v".repeat(2 << 20))).contains("1048576 are allowed"));
    assert!(error(&mut client, &format!("SET a {}", "v".repeat(1 << 19))).starts_with("OOM "));
    assert_eq!(call(&mut client, "QUIT"), Reply::Simple("OK"));

    // A pipeline longer than what is begun at once, each byte by itself, is answered in order.
    let mut pipeline = Vec::new();
    let mut expected = String::new();
    for n in 0..20 {
        pipeline.extend(format!("SET count {n}\r\nGET count\r\nMGET count tea\r\n").into_bytes());
        let value = n.to_string();
        let held = format!("${}\r\n{value}\r\n", value.len());
        expected += &format!("+OK\r\n{held}*2\r\n{held}$-1\r\n");
    }
    let single: Vec<_> = pipeline.chunks(1).collect();
    assert_eq!(exchange(&server.address, &[&pipeline], expected.len()), expected);
    assert_eq!(exchange(&server.address, &single, expected.len()), expected);
    let told = exchange(&server.address, &[b"PING\r\n*1\r\n+x\r\n"], usize::MAX);
    assert_eq!(told, "+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n");

    // Who sends no more is answered all that came.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&pipeline).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert_eq!(told, expected);

    // Those that say nothing make room for others.
    let silent: Vec<_> = (0..9).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    assert_eq!(exchange(&server.address, &[b"PING\r\n"], 7), "+PONG\r\n");
    drop(silent);

    // One client too many.
    let mut all: Vec<_> = Vec::new();
    wait_until("those before are gone", || {
        all.clear();
        all.extend((0..4).map(|_| server.connect()));
        all.iter_mut().all(|client| client.call(&["PING"]).is_ok_and(|reply| !matches!(reply, Reply::Error(_))))
    });
    assert_eq!(exchange(&server.address, &[], usize::MAX), "-ERR max number of clients reached\r\n");
}

#[test]
fn commands_put_get_delete_and_print_and_say_what_is_wrong() {
    let cluster = Cluster::new("ring");
    let server = Server::start(&cluster, 0, &[]).ready();
    let kv = |line: &str| {
        let words: Vec<_> = ["kv"].into_iter().chain(line.split(' ')).collect();
        let ran = cluster.world.run(&[&words[..], &["--server", &server.address]].concat());
        (ran.code, ran.out, ran.errors)
    };
    let fine = |out: &str| (0, out.to_owned(), String::new());
    assert_eq!(kv("put tea green"), fine(""));
    assert_eq!(kv("get tea"), fine("green\n"));
    assert_eq!(kv("put tea black --if green"), fine(""));
    let refused = (1, String::new(), "consort: nothing was put: the condition is not met\n".to_owned());
    assert_eq!(kv("put tea black --if green"), refused);
    assert_eq!(kv("put milk cold --if-absent"), fine(""));
    assert_eq!(kv("range"), fine("milk\tcold\ntea\tblack\n"));
    assert_eq!(kv("range n --json"), fine("{\"key\":\"tea\",\"value\":\"black\"}\n"));
    let more = (0, "milk\tcold\n".to_owned(), "consort: there are more, from tea on\n".to_owned());
    assert_eq!(kv("range a z --limit 1"), more);
    assert_eq!(kv("delete tea sugar"), fine("deleted 1 of 2\n"));
    assert_eq!(kv("get tea"), (1, String::new(), "consort: `tea` has no value\n".to_owned()));
    let (code, out, errors) = kv("bench --time 300ms --connections 3 --pipeline 4 --keys 50 --json");
    let told: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {errors}"));
    assert!(code == 0 && told["puts"]["count"].as_u64() > Some(0) && told["errors"] == 0, "{told}");

    let other = ["kv", "serve", "--listen", "127.0.0.1:0", "--partitions", "3", "--daemon"];
    let ran = cluster.world.run(&[&other[..], &[&cluster.address(0).to_string()]].concat());
    let told = "consort: --partitions: store `main` has 4 partitions, not 3; give 4\n";
    assert_eq!((ran.code, ran.errors.as_str()), (2, told));
    let taken = cluster.world.run(&["kv", "serve", "--listen", &server.address]);
    assert!(taken.code == 2 && taken.errors.contains("give another HOST:PORT"), "{}", taken.errors);
    let nobody = cluster.world.run(&["kv", "get", "a", "--server", "127.0.0.1:1"]);
    assert!(nobody.code == 3 && nobody.errors.contains("start one with `consort kv serve`"), "{}", nobody.errors);
}

/// What a process has resident, in MiB.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1_024
}

#[test]
fn answers_that_nobody_takes_do_not_fill_the_server() {
    let cluster = Cluster::new("ring");
    let server = Server::start(&cluster, 0, &[]).ready();
    let big = "x".repeat(1 << 20);
    let mut client = server.connect();
    assert_eq!(call(&mut client, &format!("SET big {big}")), Reply::Simple("OK"));
    let before = resident(server.process.id());
    // Each is answered with a mebibyte, and none is read.
    let mut deaf = TcpStream::connect(&server.address).unwrap();
    deaf.set_read_timeout(Some(PATIENCE)).unwrap();
    let command = b"*5\r\n$3\r\nSET\r\n$3\r\nbig\r\n$1\r\ny\r\n$2\r\nNX\r\n$3\r\nGET\r\n";
    deaf.write_all(&command.repeat(400)).unwrap();
    // Behind it others are served.
    (0..50).for_each(|_| assert_eq!(text(&call(&mut client, "GET big")).len(), big.len()));
    let after = resident(server.process.id());
    assert!(after < before + 100, "{before} MiB before, {after} MiB with 400 answers of 1 MiB");
    let mut told = vec![0; 400 * (big.len() + 12)];
    deaf.read_exact(&mut told).unwrap();
    assert!(told.chunks(big.len() + 12).all(|one| one.starts_with(b"$1048576\r\nx") && one.ends_with(b"x\r\n")));
}

#[test]
fn where_no_policy_says_who_goes_on_a_server_ends_with_the_remedy() {
    let world = World::new();
    let _daemon = world.daemon(&["--node", "1"]);
    let cluster = world.cluster.clone();
    let ran = world.run(&["kv", "serve", "--listen", "127.0.0.1:0", "--cluster", &cluster]);
    assert!(ran.code == 1 && ran.errors.contains("primary = \"majority\""), "{ran:?}");
}

#[test]
fn a_server_says_that_its_daemon_cannot_be_reached_and_what_to_do_with_a_directory_that_cannot_be_made() {
    let world = World::new();
    let nobody = format!("127.0.0.1:{}", free_port());
    let words = ["kv", "serve", "--listen", "127.0.0.1:0", "--daemon", &nobody, "--state"];
    let file = world.path("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("state").display().to_string();
    let refused = world.run(&[&words[..], &[&below]].concat());
    assert!(refused.code == 1 && refused.errors.contains("Make the directory usable"), "{}", refused.errors);
    assert!(refused.errors.contains(&below), "{}", refused.errors);
    let state = world.path("state").display().to_string();
    let server = world.start(&[&words[..], &[&state]].concat(), None);
    assert!(server.says("no daemon can be reached").contains(&nobody));
}

/// What `INFO` says of one entry.
fn info(server: &mut Connected, key: &str) -> String {
    let Reply::Bulk(all) = call(server, "INFO") else { panic!("INFO has no answer") };
    let all = String::from_utf8(all.to_vec()).unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{key} is not in {all}")).to_owned()
}

#[test]
fn each_store_says_what_a_stop_of_all_its_servers_would_lose() {
    let cluster = Cluster::new("ring");
    let (daemon, state) = (cluster.address(0).to_string(), cluster.world.path("kept"));
    let state = state.display().to_string();
    for (store, more, kept) in [
        ("forgets", &[][..], "if all servers stop at a time, everything is lost"),
        ("keeps", &["--state", &state], "if all servers stop at a time, writes since the last checkpoint are lost"),
    ] {
        let words = ["kv", "serve", "--listen", "127.0.0.1:0", "--name", store, "--daemon", &daemon];
        let process = cluster.world.start(&[&words[..], more].concat(), None);
        let ready = process.prints(&format!("ready: store {store} ({kept}) serves clients at "));
        let logged = process.says(kept);
        assert!(logged.contains("WARN") && logged.contains(store), "{logged}");
        let mut server = connect(ready.rsplit_once(' ').unwrap().1).unwrap();
        assert_eq!(info(&mut server, "kept"), kept);
        assert_eq!(call(&mut server, "SET tea green"), Reply::Simple("OK"));
        if !more.is_empty() {
            wait_until("a checkpoint is written without a stop", || {
                let files = std::fs::read_dir(&state).into_iter().flatten().flatten();
                let mut names = files.flat_map(|file| std::fs::read_dir(file.path()).into_iter().flatten().flatten());
                names.any(|file| file.file_name().to_string_lossy().starts_with("checkpoint-"))
            });
        }
    }
}

#[test]
fn the_three_lines_of_the_help_are_a_store() {
    let world = World::new();
    let _daemon = world.daemon(&["--protocol", "paxos", "--nodes", "1"]);
    let cluster = world.cluster.clone();
    let words = ["kv", "serve", "--listen", "127.0.0.1:0", "--cluster", &cluster, "--state"];
    let refused = world.run(&words[..6]);
    assert!(refused.errors.contains("give this one a directory"), "{}", refused.errors);
    let state = world.path("store").display().to_string();
    let server = world.start(&[&words[..], &[&state]].concat(), None);
    let kept = "a write that was answered outlives the loss of every process";
    let ready = server.prints(&format!("ready: store main ({kept}) serves clients at "));
    let address = ready.rsplit_once(' ').unwrap().1;
    assert_eq!(world.run(&["kv", "put", "tea", "green", "--server", address]).code, 0);
    assert_eq!(world.run(&["kv", "get", "tea", "--server", address]).out, "green\n");
}

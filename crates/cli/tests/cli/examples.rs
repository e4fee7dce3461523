//! The examples of the client library, against real daemons.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../../client/examples/chat.rs"]
mod chat;
#[allow(dead_code, reason = "its `main`")]
#[path = "../../../client/examples/counter.rs"]
mod counter;
#[allow(dead_code, reason = "its `main`")]
#[path = "../../../client/examples/undo.rs"]
mod undo;
#[allow(dead_code, reason = "its `main`")]
#[path = "../../../client/examples/work_queue.rs"]
mod work_queue;

use crate::support::{World, wait_until};
use consort::{Address, Client, ClientName, ConnectOptions, GroupName, Undo};
use counter::Counter;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use work_queue::Worker;

/// No event of these tests takes longer to come, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(5);

fn group() -> GroupName {
    GroupName::new(b"tea").unwrap()
}

fn connect(world: &World, node: u16, name: &str) -> Client {
    let options = ConnectOptions::default().called(name).unwrap().with_views();
    Client::connect(&Address::Unix(world.socket_path(node)), &options).unwrap()
}

/// Somebody who chats: what they type, and what they see.
struct Chatter {
    types: Option<PipeWriter>,
    sees: Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Chatter {
    fn new(world: &World, node: u16, name: &str) -> Self {
        let client = connect(world, node, name);
        let ((keys, types), (screen, paints)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let talk = move || chat::talk(client, group(), BufReader::new(keys), paints).unwrap();
        Self { types: Some(types), sees: forward(screen), thread: Some(std::thread::spawn(talk)) }
    }

    fn says(&mut self, line: &str) {
        writeln!(self.types.as_mut().unwrap(), "{line}").unwrap();
    }

    fn sees(&self, line: &str) {
        assert_eq!(self.sees.recv_timeout(PATIENCE).as_deref(), Ok(line));
    }

    fn leaves(&mut self) {
        drop(self.types.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn forward(screen: PipeReader) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(screen).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    lines
}

#[test]
fn chatters_see_the_same_lines_and_each_other() {
    let world = World::new();
    let _daemons = world.daemons(2, &[]);
    let mut ann = Chatter::new(&world, 1, "ann");
    ann.sees("-- join: now 1 here: ann");
    let mut bob = Chatter::new(&world, 2, "bob");
    ann.sees("-- join: now 2 here: ann bob");
    bob.sees("-- join: now 2 here: ann bob");
    bob.says("a cup of tea?");
    ann.sees("bob: a cup of tea?");
    ann.says("yes, please");
    bob.says("last words");
    bob.leaves();
    ann.says("gone?");
    let seen: Vec<String> = (0..4).map(|_| ann.sees.recv_timeout(PATIENCE).unwrap()).collect();
    let at = |line: &str| seen.iter().position(|seen| seen == line).unwrap_or_else(|| panic!("no {line} in {seen:?}"));
    assert!(at("bob: last words") < at("-- disconnect: now 1 here: ann"), "{seen:?}");
    assert!(at("ann: yes, please") < at("ann: gone?"), "{seen:?}");
    let bobs: Vec<String> = bob.sees.try_iter().collect();
    assert!(bobs.contains(&"bob: last words".to_owned()), "{bobs:?}");
    ann.leaves();
}

/// Lets the counters take their events until all stand at `value`.
fn count_to(value: i64, counters: &mut [&mut Counter]) {
    wait_until(&format!("all counters stand at {value}"), || {
        for counter in &mut *counters {
            while counter.step(Duration::ZERO).unwrap() {}
        }
        counters.iter().all(|counter| counter.value() == Some(value))
    });
}

#[test]
fn counters_agree_and_newcomers_are_told_what_was_counted() {
    let world = World::new();
    let _daemons = world.daemons(3, &[]);
    let mut ann = Counter::join(connect(&world, 1, "ann"), group()).unwrap();
    (1..=10).for_each(|n| ann.add(n).unwrap());
    count_to(55, &mut [&mut ann]);
    let mut bob = Counter::join(connect(&world, 2, "bob"), group()).unwrap();
    ann.add(100).unwrap(); // before bob comes, or behind
    count_to(155, &mut [&mut ann, &mut bob]);
    bob.add(-5).unwrap();
    ann.add(1000).unwrap();
    count_to(1150, &mut [&mut ann, &mut bob]);
    drop(ann);
    let mut eve = Counter::join(connect(&world, 1, "eve"), group()).unwrap();
    bob.add(1).unwrap();
    eve.add(2).unwrap();
    count_to(1153, &mut [&mut bob, &mut eve]);
    bob.close().unwrap();
    eve.close().unwrap();
}

#[test]
fn a_counter_outlives_the_daemon_of_the_member_that_knew_it_first() {
    let world = World::new();
    let mut daemons = world.daemons(3, &[]);
    let mut ann = Counter::join(connect(&world, 1, "ann"), group()).unwrap();
    ann.add(7).unwrap();
    count_to(7, &mut [&mut ann]);
    let mut bob = Counter::join(connect(&world, 2, "bob"), group()).unwrap();
    count_to(7, &mut [&mut ann, &mut bob]);
    daemons[0].kill();
    let mut eve = Counter::join(connect(&world, 3, "eve"), group()).unwrap();
    bob.add(1).unwrap();
    count_to(8, &mut [&mut bob, &mut eve]);
}

#[test]
fn jobs_are_shared_and_those_of_the_gone_are_taken_over() {
    let world = World::new();
    let _daemons = world.daemons(2, &[]);
    let mut ann = Worker::join(connect(&world, 1, "ann"), group()).unwrap();
    let mut bob = Worker::join(connect(&world, 2, "bob"), group()).unwrap();
    let (mut anns, mut bobs) = (Vec::new(), Vec::new());
    wait_until("both are members", || {
        ann.step(STEP, &mut |_| {}).unwrap();
        bob.step(STEP, &mut |_| {}).unwrap();
        ann.members() == 2 && bob.members() == 2
    });
    (0..6).for_each(|job| ann.ask(&format!("job {job}")).unwrap());
    wait_until("the jobs are done", || {
        ann.step(STEP, &mut |job| anns.push(job.to_owned())).unwrap();
        bob.step(STEP, &mut |job| bobs.push(job.to_owned())).unwrap();
        ann.ordered() == 6 && ann.open() == 0 && bob.open() == 0
    });
    assert_eq!((anns.join(", "), bobs.join(", ")), ("job 0, job 2, job 4".into(), "job 1, job 3, job 5".into()));
    anns.clear();
    // Bob does nothing more, and goes.
    (6..12).for_each(|job| ann.ask(&format!("job {job}")).unwrap());
    wait_until("ann has done hers", || {
        ann.step(STEP, &mut |job| anns.push(job.to_owned())).unwrap();
        ann.ordered() == 12 && ann.open() == 3
    });
    assert_eq!(anns, ["job 6", "job 8", "job 10"]);
    drop(bob);
    wait_until("ann has done bob's, too", || {
        ann.step(STEP, &mut |job| anns.push(job.to_owned())).unwrap();
        ann.open() == 0
    });
    anns[3..].sort();
    assert_eq!(anns[3..], ["job 11", "job 7", "job 9"]);
}

#[test]
fn counters_that_do_not_wait_for_the_order_agree_once_all_is_confirmed() {
    ["ring", "plato"].into_iter().for_each(undoing_counters);
}

fn undoing_counters(protocol: &str) {
    use undo::{Change, Counter};
    let world = World::new();
    let _daemons = world.daemons(3, &["--protocol", protocol]);
    let join = |node| {
        let address = Address::Unix(world.socket_path(node));
        let client = Client::connect(&address, &ConnectOptions::default().optimistic(Undo::Latest)).unwrap();
        Counter::join(client, group()).unwrap()
    };
    let mut counters = [1, 2, 3].map(join);
    let step_until = |what: &str, counters: &mut [Counter; 3], done: &dyn Fn(&Counter) -> bool| {
        wait_until(what, || {
            counters.iter_mut().for_each(|counter| while counter.step(Duration::ZERO).unwrap() {});
            counters.iter().all(done)
        });
    };
    step_until("all are members", &mut counters, &|counter| counter.members() == 3);
    for (counter, number) in counters.iter_mut().zip([1, 10, 100]) {
        (0..5).for_each(|_| [Change::Add(number), Change::Double].iter().for_each(|c| counter.ask(*c).unwrap()));
        counter.ask(Change::Add(0)).unwrap();
    }
    step_until("all is confirmed", &mut counters, &|counter| counter.confirmed() == 33 && counter.log().open() == 0);
    let values = counters.each_ref().map(|counter| counter.log().certain());
    assert!(values.iter().all(|value| *value == values[0] && *value > 0), "{values:?}");
}

#[test]
fn a_log_undoes_the_latest_first_and_knows_what_is_certain() {
    use undo::{Change, Log};
    let mut log = Log::default();
    for (offer, change) in [(1, "5"), (2, "double"), (3, "what?"), (4, "1")] {
        log.offer(offer, Change::read(change));
    }
    assert_eq!((log.likely(), log.certain(), log.open()), (11, 0, 4));
    assert!(!log.revoke(3) && !log.confirm(2), "neither the latest nor the oldest");
    assert!(log.revoke(4) && log.revoke(3) && log.revoke(2));
    log.offer(5, Change::read("1"));
    log.offer(6, Change::read("double"));
    assert_eq!(log.likely(), 12);
    assert!(log.confirm(1) && log.confirm(5));
    assert_eq!((log.likely(), log.certain(), log.open()), (12, 6, 1));
    assert!(log.confirm(6) && !log.confirm(6) && !log.revoke(6));
}

#[test]
fn what_is_wrong_with_the_words_of_an_example_is_named() {
    use chat::common::Arguments;
    let read = |words: &str| Arguments::read(words.split_whitespace().map(str::to_owned));
    for (words, named) in [
        ("", "<daemon> is missing"),
        ("nowhere", "<daemon>: `nowhere` is no address: there is no port"),
        ("localhost:4840", "<group> is missing"),
        ("localhost:4840 #tea", "<group> `#tea`: "),
        ("localhost:4840 tea ann#", "<name> `ann#`: 1 to 23 printable ASCII characters"),
        ("localhost:4840 tea ann more", "`more` is one word too many"),
    ] {
        let problem = read(words).unwrap_err();
        assert!(problem.starts_with(named), "{words}: {problem}");
    }
    let read = read("/run/socket tea ann").unwrap();
    assert_eq!((read.group, read.name), (group(), ClientName::new(b"ann")));
}

//! Replicas at real daemons whose history was forced, or begun anew, without them; and machines that cannot be restored.

use crate::cluster::{Cluster, PATIENCE};
use crate::support::wait_until;
use consort::{GroupName, SessionOptions};
use consort_replica::{Error, Merge, Options, Parted, Position, Replica, StateMachine};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What a machine does where it is asked to take another state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Manner {
    /// What is so by default where the history is the same.
    #[default]
    Yields,
    /// It keeps what it has.
    Insists,
    /// It takes a part, and fails.
    Breaks,
}

/// All commands, one a line.
#[derive(Default)]
struct Notes {
    text: String,
    manner: Manner,
    told: Arc<Mutex<Vec<Parted>>>,
}

impl StateMachine for Notes {
    type Snapshot = String;

    fn apply(&mut self, _at: Position, command: &[u8]) -> Vec<u8> {
        self.text += &format!("{}\n", String::from_utf8_lossy(command));
        self.text.len().to_string().into()
    }

    fn snapshot(&self) -> String {
        self.text.clone()
    }

    fn write(snapshot: String, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(snapshot.as_bytes())
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        self.text.clear();
        state.read_to_string(&mut self.text)?;
        if self.manner != Manner::Breaks {
            return Ok(());
        }
        self.text.truncate(1);
        Err(io::Error::other("half of it is missing"))
    }

    fn on_parted(&mut self, parted: Parted) -> Merge {
        self.told.lock().unwrap().push(parted);
        if self.manner == Manner::Insists || parted.is_other_history { Merge::Stop } else { Merge::Restore }
    }
}

struct Scene {
    cluster: Cluster,
    told: Arc<Mutex<Vec<Parted>>>,
}

impl Scene {
    fn new() -> Self {
        Self { cluster: Cluster::new("ring"), told: Arc::default() }
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.cluster.world.path(name)
    }

    /// The replica of this name, with its checkpoints.
    fn start(&self, name: &str, manner: Manner, adjust: impl FnOnce(Options) -> Options) -> Replica<Notes> {
        let session = SessionOptions::default().reconnect_within(PATIENCE);
        let options = Options::at(&self.cluster.addresses(0)).session(session).founders(2);
        let options = adjust(options.checkpoints(self.directory(name)));
        let mut started = None;
        // One that has ended by itself lets its directory go a little later.
        wait_until("its directory is free", || {
            let notes = Notes { text: String::new(), manner, told: Arc::clone(&self.told) };
            let replica = Replica::start(notes, &GroupName::new("notes").unwrap(), options.clone());
            let used = matches!(&replica, Err(error) if error.to_string().contains("another replica uses"));
            started = (!used).then(|| replica.unwrap());
            !used
        });
        started.unwrap()
    }

    /// The files of checkpoints of the replica of this name.
    fn checkpoints(&self, name: &str) -> usize {
        let files = std::fs::read_dir(self.directory(name)).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("checkpoint-")).count()
    }

    fn told(&self) -> Vec<Parted> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

fn text(replica: &Replica<Notes>) -> String {
    replica.read(|notes| notes.text.clone())
}

fn as_is(options: Options) -> Options {
    options
}

#[test]
fn one_that_is_forced_goes_on_and_those_that_have_more_yield_or_end_as_their_rule_says() {
    let scene = Scene::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| scene.start(name, Manner::Yields, as_is));
    a.call("one").unwrap();
    [&b, &c].iter().for_each(|replica| replica.catch_up().wait().unwrap());
    c.stop().unwrap();
    ["two", "three"].iter().for_each(|command| drop(a.call(*command).unwrap()));
    b.catch_up().wait().unwrap();
    [a, b].into_iter().for_each(|replica| replica.stop().unwrap());
    // C alone may know less. It waits until it is told that nobody else is left.
    let c = scene.start("c", Manner::Yields, as_is);
    wait_until("it waits for the others", || {
        c.waits_for().is_some_and(|why| why.starts_with("replicas that may know more are missing"))
    });
    c.stop().unwrap();
    let c = scene.start("c", Manner::Yields, Options::forced);
    assert_eq!(c.call("four").unwrap().at, Position(2));
    assert_eq!(scene.told(), []);
    // A takes the state that counts, and keeps that alone.
    let a = scene.start("a", Manner::Yields, as_is);
    assert_eq!(a.call("five").unwrap().at, Position(3));
    let parted = Parted { own: Position(3), counts: Position(2), is_other_history: false };
    assert_eq!((scene.told(), text(&a)), (vec![parted], "one\nfour\nfive\n".into()));
    a.stop().unwrap();
    let a = scene.start("a", Manner::Yields, as_is);
    assert_eq!((a.position(), text(&a)), (Position(3), "one\nfour\nfive\n".into()), "its checkpoint is of what counts");
    a.catch_up().wait().unwrap();
    assert_eq!(scene.told(), []);
    // B ends: what is called there is told why, and its checkpoint stays what it was.
    let b = scene.start("b", Manner::Insists, as_is);
    let error = b.call("six").unwrap_err();
    assert!(matches!(&error, Error::Parted(Parted { own: Position(3), .. })), "{error}");
    assert!(matches!(b.ended(), Some(Error::Parted(_))) && b.read_latest(|_| ()).is_err());
    assert_eq!(text(&b), "one\ntwo\nthree\n", "what is here can be looked at");
    drop(b);
    assert_eq!((scene.told().len(), scene.checkpoints("b")), (1, 1));
    let b = scene.start("b", Manner::Yields, as_is);
    b.catch_up().wait().unwrap();
    assert_eq!((scene.told().len(), text(&b)), (1, text(&c)), "it had what it insisted on, and yields it now");
}

#[test]
fn a_history_begun_anew_ends_a_replica_that_has_another_one() {
    let scene = Scene::new();
    let founder = |options: Options| options.founders(1);
    let old = scene.start("old", Manner::Yields, founder);
    ["one", "two"].iter().for_each(|command| drop(old.call(*command).unwrap()));
    old.stop().unwrap();
    let new = scene.start("new", Manner::Yields, founder);
    new.call("other").unwrap();
    let old = scene.start("old", Manner::Yields, founder);
    let error = old.call("three").unwrap_err();
    let parted = Parted { own: Position(2), counts: Position(1), is_other_history: true };
    assert!(matches!(&error, Error::Parted(told) if *told == parted), "{error}");
    assert!(error.to_string().contains("stop the other replicas to keep this one"), "{error}");
    new.call("goes on").unwrap();
    assert_eq!(text(&new), "other\ngoes on\n");
}

#[test]
fn a_machine_that_took_a_part_of_a_state_leaves_no_checkpoint_of_it() {
    let mut scene = Scene::new();
    // All begin together, so that none begins with a state.
    let forgetful = |options: Options| options.founders(3).log_bytes(1).checkpoint_every(1_000);
    let [a, _b] = ["a", "b"].map(|name| scene.start(name, Manner::Yields, forgetful));
    let at_third = |mut options: Options| {
        options.daemons.rotate_left(2);
        options.daemons.truncate(1);
        forgetful(options)
    };
    // It takes commands one by one, and a state only behind those that it misses.
    let c = scene.start("c", Manner::Breaks, at_third);
    c.catch_up().wait().unwrap();
    ["one", "two", "three"].iter().for_each(|command| drop(c.call(*command).unwrap()));
    scene.cluster.kill(2);
    wait_until("it has lost its daemon", || c.waits_for().is_some());
    ["four", "five"].iter().for_each(|command| drop(a.call(*command).unwrap()));
    scene.cluster.start(2);
    wait_until("it has failed", || c.ended().is_some());
    let error = c.stop().unwrap_err();
    assert!(matches!(&error, Error::Restore(why) if why.contains("half of it is missing")), "{error}");
    let c = scene.start("c", Manner::Yields, at_third);
    assert_eq!(scene.checkpoints("c"), 0, "it begins with nothing rather than with a part");
    c.catch_up().wait().unwrap();
    assert_eq!(text(&c), "one\ntwo\nthree\nfour\nfive\n");
}

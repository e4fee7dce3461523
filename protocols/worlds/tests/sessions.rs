//! Sessions and servers that outlive their daemons: seeds that once broke a promise.
#![allow(clippy::unwrap_used, reason = "tests")]
use consort_multiring::MultiRing;
use consort_paxos::Paxos;
use consort_ring::Ring;
use consort_sim::fault::Kinds;
use consort_sim::machine::ServerTouch;
use consort_sim::world::Totals;
use consort_worlds::{SessionsDrawn, Simulated, run_sessions};
use std::rc::Rc;

/// A daemon crashed amid what a reader was told, who knew all of it, and its trace did not.
const READERS: [u64; 5] = [694, 1300, 1864, 2534, 3384];

/// One node alone went back to an old disk, and numbered its views anew. Tokens of a node were lost for good, and copies kept
/// it in a ring with one of two that hear each other. One of two nodes crashed, the other one went on telling what was ordered,
/// and that was forgotten where the next view counted. A node was kept out for two seconds when the network was well again.
const CANDIDATES: [u64; 4] = [41, 61, 292, 757];

/// The log was full: a server that had started waited for its opening before it made checkpoints; one that had others fill the
/// log waited for its mark; what one acknowledged waited behind what it had sent. A start was killed, and its binding counted
/// after the next had asked for one. A daemon that had yet to read its log knew of no copies, or of earlier bindings. The log
/// had released what was before the first binding.
///
/// A server with an empty directory had bound a second copy while its first binding was under way: an operator has to decide.
const SERVERS: [u64; 11] = [6, 10, 20, 32, 44, 51, 80, 106, 140, 144, 2086];

/// Servers that keep their log themselves. A directory was lost, or was put back from before, while the store began.
const DURABLE: [u64; 3] = [53, 58, 61];
/// A checkpoint of another copy had the opening of the one that took it.
const DURABLE_OVER_RINGS: [u64; 1] = [70];

/// Servers with their history in memory. One moved to a part of the network that counts its views lower, and what it answered
/// there was earlier than an old state, by the numbers.
const IN_MEMORY: [u64; 1] = [59];

fn keep_all_promises<E: Simulated>(seeds: &[u64], sessions: &SessionsDrawn) -> Vec<Totals> {
    let run = |seed: &u64| {
        let outcome = run_sessions::<E>(*seed, &Kinds::all(), (&|_| {}, &|_| {}), sessions, false).unwrap();
        let broken: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {}", broken.join("\n"));
        outcome.totals
    };
    seeds.iter().map(run).collect()
}

#[test]
fn readers_go_on_where_they_were_whatever_goes_wrong() {
    //= E21 test
    let totals = keep_all_promises::<Ring>(&READERS, &SessionsDrawn::ByChance);
    assert!(totals.iter().all(|totals| totals.resumed > 0), "each run has readers: {totals:?}");
}

#[test]
fn candidates_lead_one_at_a_time_whatever_goes_wrong() {
    //= L09 test
    let totals = keep_all_promises::<Ring>(&CANDIDATES, &SessionsDrawn::Candidates(None));
    assert!(totals.iter().any(|totals| totals.elections > 0), "somebody is elected: {totals:?}");
}

#[test]
fn servers_lose_nothing_that_they_answered() {
    //= RS11 test
    //= RS13 test
    let servers = SessionsDrawn::Servers(ServerTouch::default());
    let totals = keep_all_promises::<Paxos>(&SERVERS, &servers);
    assert!(totals.iter().all(|totals| totals.answered > 0), "in each run something is answered: {totals:?}");
}

#[test]
fn durable_servers_lose_nothing_that_they_answered() {
    //= RS20 test
    //= RS21 test
    //= RS24 test
    // A touch of the log that they keep has all of them keep one.
    let touch = ServerTouch { durable: Some(Rc::new(|engine| engine)), ..ServerTouch::default() };
    let servers = SessionsDrawn::Servers(touch);
    let totals = keep_all_promises::<Ring>(&DURABLE, &servers);
    let others = keep_all_promises::<MultiRing>(&DURABLE_OVER_RINGS, &servers);
    let answered = totals.iter().chain(&others).all(|totals| totals.answered > 0);
    assert!(answered, "in each run something is answered: {totals:?} {others:?}");
}

#[test]
fn servers_in_memory_lose_nothing_while_most_of_them_live() {
    let totals = keep_all_promises::<Ring>(&IN_MEMORY, &SessionsDrawn::Servers(ServerTouch::default()));
    assert!(totals.iter().all(|totals| totals.answered > 0), "in each run something is answered: {totals:?}");
}

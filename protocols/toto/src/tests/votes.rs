//! The order, on DAGs drawn by hand and by chance.
use crate::config::{Phi, TotoConfig};
use crate::dag::{Dag, DagMark};
use crate::packet::{DagContent, DagMessage};
use crate::votes::{CandidateVote, Votes};
use consort_types::{NodeId, Rng, ViewId};
use std::collections::BTreeMap;

/// A message drawn by hand: its sender's letter, its number, what it acknowledges beside its sender's previous one.
#[derive(Clone, Debug)]
struct Drawn {
    mark: DagMark,
    acks: Vec<DagMark>,
    ordered: bool,
}

fn mark(name: &str) -> DagMark {
    let bytes = name.as_bytes();
    (usize::from(bytes[0] - b'a'), u64::from(bytes[1] - b'0'))
}

fn drawn(name: &str, acks: &[&str], ordered: bool) -> Drawn {
    Drawn { mark: mark(name), acks: acks.iter().map(|ack| mark(ack)).collect(), ordered }
}

fn config(n: u16, phi: Phi) -> TotoConfig {
    super::break_a_rule(TotoConfig { phi, ..TotoConfig::new(NodeId(0), (0..n).map(NodeId).collect()) })
}

struct Machine {
    dag: Dag,
    votes: Votes,
    kinds: BTreeMap<DagMark, bool>,
    released: Vec<Vec<DagMark>>,
}

impl Machine {
    fn new(config: &TotoConfig) -> Self {
        let n = config.members.len();
        let dag = Dag::new(ViewId::default(), 0, n, 1_000);
        Self { dag, votes: Votes::new(config, n), kinds: BTreeMap::new(), released: Vec::new() }
    }

    fn take(&mut self, message: &Drawn) {
        self.kinds.insert(message.mark, message.ordered);
        let mut acks: Vec<_> = message.acks.iter().map(|(place, k)| (*place as u16, *k)).collect();
        acks.sort_unstable();
        let (sender, k) = (message.mark.0 as u16, message.mark.1);
        self.dag.take(DagMessage { view: ViewId::default(), sender, k, acks, content: DagContent::Primary });
        while let Some(mark) = self.dag.insert_next(None) {
            self.votes.insert(&self.dag, mark, self.kinds[&mark]);
            self.settle();
        }
    }

    fn settle(&mut self) {
        loop {
            let released = self.votes.release(&self.dag);
            if released.is_empty() {
                return;
            }
            self.released.push(released);
        }
    }

    fn order(&self) -> Vec<DagMark> {
        self.released.concat()
    }
}

/// The paper's worked example; what was delivered before is drawn as causal. `last` is what a2 acknowledges.
fn table_1(last: &[&str]) -> Vec<Drawn> {
    vec![
        drawn("a1", &[], false),
        drawn("d1", &[], false),
        drawn("e1", &[], false),
        drawn("b1", &["a1"], true),
        drawn("c1", &["a1"], true),
        drawn("e2", &["d1"], true),
        drawn("d2", &["c1", "e2"], false),
        drawn("a2", last, false),
        drawn("d3", &["a2"], false),
        drawn("c2", &[], true),
    ]
}

/// All orders in which the messages can be inserted, in turn.
fn each_extension(messages: &[Drawn], see: &mut impl FnMut(&[&Drawn])) {
    fn go<'a>(messages: &'a [Drawn], taken: &mut Vec<&'a Drawn>, see: &mut impl FnMut(&[&Drawn])) {
        if taken.len() == messages.len() {
            return see(taken);
        }
        let has = |mark: DagMark, taken: &[&Drawn]| taken.iter().any(|message| message.mark == mark);
        for message in messages {
            let (place, k) = message.mark;
            let ready = (k == 1 || has((place, k - 1), taken)) && message.acks.iter().all(|ack| has(*ack, taken));
            if ready && !has(message.mark, taken) {
                taken.push(message);
                go(messages, taken, see);
                taken.pop();
            }
        }
    }
    go(messages, &mut Vec::new(), see);
}

fn released_in_every_extension(messages: &[Drawn], phi: Phi) -> Vec<Vec<DagMark>> {
    let mut found: Option<Vec<Vec<DagMark>>> = None;
    let mut extensions = 0;
    each_extension(messages, &mut |order| {
        let mut machine = Machine::new(&config(5, phi));
        order.iter().for_each(|message| machine.take(message));
        extensions += 1;
        let known = found.get_or_insert_with(|| machine.released.clone());
        assert_eq!(*known, machine.released, "{order:?}");
    });
    assert!(extensions > 500, "{extensions}");
    found.unwrap()
}

#[test]
fn the_papers_example_gives_one_order_in_every_linear_extension() {
    //= A10 test
    //= A13 test
    //= A16 test
    let together = vec![vec![mark("b1"), mark("c1"), mark("e2")]];
    let messages = table_1(&["b1", "d2"]);
    assert_eq!(released_in_every_extension(&messages, Phi::Half), together);
    assert_eq!(released_in_every_extension(&messages, Phi::Percent(80)), together);
    assert_eq!(released_in_every_extension(&messages, Phi::All), together);
}

#[test]
fn a_candidate_that_is_beaten_waits_for_the_next_activation() {
    //= A14 test
    let first = vec![mark("c1"), mark("e2")];
    let messages = table_1(&["d2"]);
    let half = released_in_every_extension(&messages, Phi::Half);
    assert_eq!(half[0], first, "three prefer each of them to b1");
    let together = vec![vec![mark("b1"), mark("c1"), mark("e2")]];
    assert_eq!(released_in_every_extension(&messages, Phi::Percent(80)), together);
    assert_eq!(released_in_every_extension(&messages, Phi::All), together);
}

#[test]
fn the_example_goes_step_by_step_as_told() {
    //= A11 test
    //= A12 test
    //= A15 test
    let mut machine = Machine::new(&config(5, Phi::Half));
    let messages = table_1(&["b1", "d2"]);
    let of = |name: &str| messages.iter().find(|message| message.mark == mark(name)).unwrap();
    for name in ["a1", "d1", "e1", "b1", "c1", "e2", "d2"] {
        machine.take(of(name));
        assert!(machine.released.is_empty(), "after {name}");
    }
    assert_eq!(machine.votes.candidates(), [mark("b1"), mark("c1"), mark("e2")]);
    machine.take(of("a2"));
    assert_eq!(machine.released, [[mark("b1"), mark("c1"), mark("e2")]], "all five have voted");
    machine.take(of("d3"));
    machine.take(of("c2"));
    assert_eq!(machine.votes.candidates(), [mark("c2")]);
    machine.take(&drawn("a3", &["c2"], false));
    assert_eq!(machine.released.len(), 1, "two approve, which is not more than 2.5");
    machine.take(&drawn("b2", &["c2"], false));
    assert_eq!(machine.released[1], [mark("c2")]);
}

#[test]
fn votes_stand_as_in_the_papers_table() {
    //= A11 test
    use CandidateVote::{Against, For, Open};
    let messages = table_1(&["b1", "d2"]);
    let mut machine = Machine::new(&config(5, Phi::Half));
    for message in messages.iter().filter(|message| message.mark != mark("a2") && message.mark != mark("d3")) {
        machine.take(message);
    }
    let standings = machine.votes.standings(&machine.dag);
    let votes: Vec<_> = standings.iter().map(|standing| (standing.sender, standing.votes.clone())).collect();
    let expected = [
        (1, vec![Open, For(1), Against, Against, Against]),
        (2, vec![Open, Against, For(1), For(2), Against]),
        (4, vec![Open, Against, Against, For(2), For(2)]),
    ];
    assert_eq!(votes, expected);
    let rest: Vec<_> =
        standings.iter().map(|standing| (standing.k, &standing.followers[..], standing.approvals)).collect();
    assert_eq!(rest, [(1, &[1][..], 1), (1, &[2, 3][..], 2), (2, &[3, 4][..], 2)]);
}

/// A DAG that many machines make together by chance; each message follows what its sender has heard of.
fn random_dag(rng: &mut Rng, n: u16, messages: usize) -> Vec<Drawn> {
    let mut held: Vec<Vec<u64>> = vec![vec![0; usize::from(n)]; usize::from(n)];
    let mut pasts: BTreeMap<DagMark, Vec<u64>> = BTreeMap::new();
    let mut drawn = Vec::new();
    for _ in 0..messages {
        let sender = rng.below(u64::from(n)) as usize;
        for _ in 0..rng.below(3) {
            let other = rng.below(u64::from(n)) as usize;
            let theirs = held[other].clone();
            held[sender].iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = theirs.max(*mine));
        }
        let mut past = held[sender].clone();
        let acks = (0..usize::from(n)).filter(|of| *of != sender && past[*of] > 0).map(|of| (of, past[of])).collect();
        past[sender] += 1;
        let mark = (sender, past[sender]);
        held[sender].clone_from(&past);
        pasts.insert(mark, past);
        drawn.push(Drawn { mark, acks, ordered: rng.chance(0.6) });
    }
    drawn
}

/// The same messages in another order that keeps their past before them.
fn shuffled(rng: &mut Rng, messages: &[Drawn]) -> Vec<Drawn> {
    let mut left: Vec<_> = messages.to_vec();
    let mut order: Vec<Drawn> = Vec::new();
    while !left.is_empty() {
        let has = |mark: DagMark, order: &[Drawn]| order.iter().any(|message| message.mark == mark);
        let ready = |message: &Drawn| {
            let (place, k) = message.mark;
            (k == 1 || has((place, k - 1), &order)) && message.acks.iter().all(|ack| has(*ack, &order))
        };
        let ready: Vec<_> = (0..left.len()).filter(|at| ready(&left[*at])).collect();
        let at = ready[rng.below(ready.len() as u64) as usize];
        order.push(left.remove(at));
    }
    order
}

#[test]
fn whatever_the_dag_all_machines_release_the_same_however_it_comes() {
    //= A20 test
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let n = rng.between(2, 7) as u16;
        let phi = [Phi::Half, Phi::Percent(75), Phi::All][rng.below(3) as usize];
        let floor = rng.chance(0.3);
        let messages = random_dag(&mut rng, n, 60);
        let config = TotoConfig { ack_floor: floor, ..config(n, phi) };
        let mut orders = (0..4).map(|_| {
            let mut machine = Machine::new(&config);
            shuffled(&mut rng, &messages).iter().for_each(|message| machine.take(message));
            machine.order()
        });
        let first = orders.next().unwrap();
        assert!(orders.all(|order| order == first), "seed {seed}");
    }
}

#[test]
fn closing_decides_all_that_is_left_alike() {
    //= A31 test
    //= A32 test
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let n = rng.between(2, 6) as u16;
        let messages = random_dag(&mut rng, n, 40);
        let stays: Vec<_> = (0..n).map(|_| rng.chance(0.6)).collect();
        let close = |order: Vec<Drawn>| {
            let mut machine = Machine::new(&config(n, Phi::Half));
            order.iter().for_each(|message| machine.take(message));
            let before = machine.order();
            machine.votes.close(&stays);
            machine.settle();
            assert_eq!(machine.votes.waiting(), 0, "seed {seed}");
            assert!(machine.order().starts_with(&before));
            machine.order()
        };
        let first = close(shuffled(&mut rng, &messages));
        assert_eq!(first.len(), messages.iter().filter(|message| message.ordered).count());
        assert_eq!(close(shuffled(&mut rng, &messages)), first, "seed {seed}");
    }
}

#[test]
fn what_is_parked_is_not_lacking() {
    //= A06 test
    let mut dag = Dag::new(ViewId::default(), 0, 2, 100);
    let message = |k| DagMessage { view: ViewId::default(), sender: 1, k, acks: vec![], content: DagContent::Null };
    dag.take(message(3));
    dag.take(message(5));
    assert_eq!(dag.missing(1, 5, 16), [(1, 2), (4, 4)]);
    assert_eq!(dag.missing(1, 5, 1), [(1, 2)]);
    assert!(dag.lacks(1, 5) && dag.lacks(1, 2) && !dag.lacks(1, 0));
    for k in [1, 2, 4] {
        dag.take(message(k));
    }
    assert!(!dag.lacks(1, 5) && !dag.lacks(1, 2) && dag.lacks(1, 6), "all but the sixth wait to be inserted");
    assert_eq!(dag.missing(1, 6, 16), [(6, 6)]);
}

//! Asking for what is lost, and answering. The origin is asked first; then all, of whom any holder may answer after a
//! moment drawn by chance, unless it sees another's answer.
use crate::config::TotoConfig;
use crate::dag::{Dag, DagMark};
use crate::packet::Nak;
use consort_order::Destination;
use consort_types::{Duration, Instant, NodeId, Rng, ViewId};
use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Repair {
    wants: Vec<Option<Want>>,
    /// What this member will send again, and when.
    answers: BTreeMap<DagMark, Instant>,
    /// What was sent again lately.
    sent: BTreeMap<DagMark, Instant>,
}

/// What is lacking of one member's messages.
#[derive(Clone, Copy, Debug)]
struct Want {
    /// Up to where.
    up_to: u64,
    /// When to ask.
    at: Instant,
    tries: u32,
    /// How much was held when that was noticed.
    held: u64,
}

/// How often the origin alone is asked.
const ORIGIN_TRIES: u32 = 2;
/// The pause between requests doubles so often.
const DOUBLINGS: u32 = 4;
/// Runs that one request names.
const RUNS: usize = 16;
/// Messages that one request is answered with.
const ANSWERS: usize = 64;

impl Repair {
    pub fn new(n: usize) -> Self {
        Self { wants: vec![None; n], answers: BTreeMap::new(), sent: BTreeMap::new() }
    }

    /// Looks what is lacking. While a view is closed that is what is agreed on, and asked for at once.
    pub fn look(&mut self, now: Instant, config: &TotoConfig, dag: &Dag, agreed: Option<&[u64]>) {
        //= A06
        for (place, want) in self.wants.iter_mut().enumerate().filter(|(place, _)| *place != dag.me()) {
            let up_to = agreed.map_or_else(|| dag.rumoured(place), |agreed| agreed[place]);
            let held = dag.held(place);
            let lacks = dag.lacks(place, up_to);
            *want = match *want {
                _ if !lacks => None,
                Some(known) if known.held == held => Some(Want { up_to, ..known }),
                None if agreed.is_some() => Some(Want { up_to, held, at: now, tries: 0 }),
                _ => Some(Want { up_to, held, at: now + config.nak, tries: 0 }),
            };
        }
    }

    /// Nothing is wanted any more, for now.
    pub fn forget(&mut self) {
        self.wants.fill(None);
    }

    /// When to act.
    pub fn next(&self) -> Option<Instant> {
        let asks = self.wants.iter().flatten().map(|want| want.at);
        asks.chain(self.answers.values().copied()).min()
    }

    /// The requests whose time has come. `holder` says whom to ask instead of the origin.
    pub fn ask(
        &mut self,
        now: Instant,
        config: &TotoConfig,
        dag: &Dag,
        view: ViewId,
        whom: impl Fn(usize, bool) -> Destination,
    ) -> Vec<(Destination, Nak)> {
        //= A06
        let mut naks = Vec::new();
        for (place, want) in self.wants.iter_mut().enumerate() {
            let Some(want) = want.as_mut().filter(|want| want.at <= now) else { continue };
            let ranges = dag.missing(place, want.up_to, RUNS);
            naks.push((whom(place, want.tries >= ORIGIN_TRIES), Nak { view, sender: place as u16, ranges }));
            want.tries += 1;
            want.at = now + config.nak * (1 << want.tries.min(DOUBLINGS));
        }
        naks
    }

    /// Somebody asks. The origin answers at once, and so does who alone is asked; others after a moment.
    pub fn on_nak(&mut self, now: Instant, config: &TotoConfig, dag: &Dag, rng: &mut Rng, nak: &Nak, alone: bool) {
        //= A07
        let place = usize::from(nak.sender);
        if place >= dag.n() || crate::mutated!(config, NaksIgnored) {
            return;
        }
        let asked = nak.ranges.iter().flat_map(|(first, last)| *first..=(*last).min(dag.held(place)));
        for k in asked.take(ANSWERS) {
            let lately = self.sent.get(&(place, k)).is_some_and(|at| now.since(*at) < config.nak / 2);
            if lately || dag.node((place, k)).is_none() {
                continue;
            }
            let wait = if alone || place == dag.me() { 0 } else { rng.below(config.nak.as_nanos() as u64) };
            let at = now + Duration::from_nanos(wait);
            self.answers.entry((place, k)).and_modify(|known| *known = at.min(*known)).or_insert(at);
        }
    }

    /// A message was seen on the network: whoever else wanted it has it now.
    pub fn seen(&mut self, mark: DagMark) {
        //= A07
        self.answers.remove(&mark);
    }

    /// What to send again now.
    pub fn answer(&mut self, now: Instant, config: &TotoConfig) -> Vec<DagMark> {
        //= A07
        let due: Vec<_> = self.answers.iter().filter(|(_, at)| **at <= now).map(|(mark, _)| *mark).collect();
        self.sent.retain(|_, at| now.since(*at) < config.nak);
        for mark in &due {
            self.answers.remove(mark);
            self.sent.insert(*mark, now);
        }
        due
    }
}

/// Whom to ask for a member's messages.
pub(crate) fn whom(origin: NodeId, everybody: bool) -> Destination {
    if everybody { Destination::All } else { Destination::One(origin) }
}

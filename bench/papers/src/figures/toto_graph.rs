//! ToTo's worked example: its graph goes to an engine that ships, and that tells what it makes of each candidate.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use crate::net::{self, Net, Seen};
use bytes::{Bytes, BytesMut};
use consort_order::{Arrival, Engine, Lane, Output, Payload, Submission};
use consort_toto::packet::{DagContent, DagMessage, TotoPacket};
use consort_toto::{CandidateStanding, CandidateVote, Phi, Toto, TotoConfig};
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Rng, Service, ViewId};
use consort_wire::pack::{Body, OutgoingMessage};

/// The machine that looks: B, whose first message is one of the candidates.
const ME: usize = 1;
const MACHINES: usize = 5;
/// How many messages of each machine are delivered before the example begins: `a1`, `d1` and `e1`.
const BEFORE: [i64; MACHINES] = [1, 0, 0, 1, 1];

/// A message of the graph: its name, and what it acknowledges. Those whose content is ordered are `b1`, `c1`, `c2`, `e2`.
type Drawn = (&'static str, &'static [&'static str]);

/// What comes before the last vote. The paper states what `d2` acknowledges, and that `c2` follows `c1`.
const FIRST: [Drawn; 4] = [("c1", &["a1"]), ("e2", &["d1"]), ("d2", &["c1", "e2"]), ("c2", &[])];
/// What is left follows from the table: a message of A follows all candidates, and one of D follows it.
const LAST: [Drawn; 2] = [("a2", &["b1", "d2"]), ("d3", &["a2"])];

/// The paper's table: Tail, NTail, VT, NVT.
const TABLE: [(&str, &str, f64); 3] = [
    ("b1", "{a, b, d} 3 (2, 1, inf, inf, inf) 2", 2.0),
    ("c1", "{a, c, d} 3 (2, inf, 1, 2, inf) 3", 3.0),
    ("e2", "{a, d, e} 3 (2, inf, inf, 2, 2) 3", 3.0),
];

/// An engine in a view of five in which all is delivered, and what it delivers from then on.
struct Machine {
    engine: Toto,
    now: Instant,
    view: ViewId,
    /// How many more messages there are of each than the paper counts; fewer below 0.
    base: Vec<i64>,
    delivered: Vec<u64>,
}

impl Machine {
    fn start(seed: u64) -> Result<Self, String> {
        let nodes = net::nodes(MACHINES);
        let make = |me: &NodeId| {
            let mut config = TotoConfig::new(*me, nodes.clone());
            (config.phi, config.ack_every) = (Phi::Half, u64::MAX);
            Toto::new(config, Incarnation(1)).map_err(|error| error.to_string())
        };
        let engines: Vec<_> = nodes.iter().map(make).collect::<Result<_, _>>()?;
        let mut net = Net::start(engines, Box::new(|_, _, _| Duration::from_millis(1)), Rng::new(seed))?;
        net.watch(&[ME]);
        net.run_until(net.now() + Duration::from_secs(10));
        let status = net.take_seen().into_iter().rev().find_map(|Seen { packet, .. }| match packet {
            TotoPacket::Status(status) => Some(status),
            _ => None,
        });
        let status = status.ok_or("no member told what it holds")?;
        if net.counter(ME, "undecided") > 0 {
            return Err("something waits for votes before the example begins".into());
        }
        let base = status.held.iter().zip(BEFORE).map(|(held, before)| held.cast_signed() - before).collect();
        let engine = net.engines()[ME].clone();
        Ok(Self { engine, now: net.now(), view: status.view, base, delivered: Vec::new() })
    }

    /// The machine and the number that a name stands for.
    fn mark(&self, name: &str) -> (u16, u64) {
        let letter = name.bytes().next().unwrap_or(b'a');
        let place = usize::from(letter - b'a');
        let number: u64 = name[1..].parse().unwrap_or_default();
        (place as u16, number.saturating_add_signed(self.base[place]))
    }

    fn message(&self, (name, acks): &Drawn) -> Result<DagMessage, String> {
        let (sender, k) = self.mark(name);
        let mut acks: Vec<_> = acks.iter().map(|ack| self.mark(ack)).collect();
        acks.sort_unstable();
        let ordered = ["c1", "c2", "e2"].contains(name);
        let content = if ordered { DagContent::Body(body(number(name))?) } else { DagContent::Null };
        Ok(DagMessage { view: self.view, sender, k, acks, content })
    }

    /// This machine sends `b1`.
    fn send(&mut self) -> Result<(), String> {
        let (class, service, stream) = (Class::Client, Service::Agreed, OrderStream(0));
        let submission = Submission { class, service, stream, payload: payload(number("b1")) };
        self.engine.submit(self.now, submission).map_err(|refused| refused.to_string())?;
        self.drain();
        Ok(())
    }

    fn take(&mut self, drawn: &Drawn) -> Result<(), String> {
        let message = self.message(drawn)?;
        let from = MemberId { node: NodeId(message.sender + 1), incarnation: Incarnation(1) };
        let arrival = Arrival { at: self.now, from, lane: Lane::Data };
        self.engine.handle_packet(self.now, arrival, TotoPacket::Message(message));
        self.drain();
        Ok(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            if let Output::Deliver(delivery) = output {
                self.delivered.push(net::read(&delivery.payload.to_bytes()));
            }
        }
    }

    /// A candidate as the paper names it, and its row of the table.
    fn row(&self, standing: &CandidateStanding) -> (String, String) {
        let letter = |place: usize| char::from(b'a' + place as u8);
        let number = |place: usize, k: u64| k.saturating_add_signed(-self.base[place]);
        let tail: Vec<_> = standing.followers.iter().map(|place| letter(*place).to_string()).collect();
        let votes: Vec<_> = (0..)
            .zip(&standing.votes)
            .map(|(place, vote)| match vote {
                CandidateVote::Open => "*".into(),
                CandidateVote::Against => "inf".into(),
                CandidateVote::For(k) => number(place, *k).to_string(),
            })
            .collect();
        let name = format!("{}{}", letter(standing.sender), number(standing.sender, standing.k));
        let (ntail, nvt) = (tail.len(), standing.approvals);
        (name, format!("{{{}}} {ntail} ({}) {nvt}", tail.join(", "), votes.join(", ")))
    }
}

/// A message's name as a number that travels, and back.
fn number(name: &str) -> u64 {
    name.bytes().fold(0, |number, byte| number << 8 | u64::from(byte))
}

fn name(number: u64) -> String {
    [number >> 8, number].map(|byte| char::from(byte as u8)).iter().collect()
}

fn payload(number: u64) -> Payload {
    Payload::from(Bytes::from(net::written(number, 8)))
}

fn body(number: u64) -> Result<Body, String> {
    let mut bytes = BytesMut::new();
    OutgoingMessage::new(Class::Client, Service::Agreed, payload(number)).pack(&mut bytes, 1_000);
    Body::new(bytes.freeze()).map_err(|error| error.to_string())
}

/// The candidates of the paper's graph, as an engine sees them.
pub fn table_1(lab: &Lab) -> Result<Outcome, String> {
    let mut machine = Machine::start(lab.scale.seed)?;
    machine.send()?;
    FIRST.iter().try_for_each(|drawn| machine.take(drawn))?;
    let last: Vec<_> = LAST.iter().map(|drawn| machine.message(drawn)).collect::<Result<_, _>>()?;
    let standings = machine.engine.standings_with(&last);
    let rows: Vec<_> = standings.iter().map(|standing| machine.row(standing)).collect();
    let mut names: Vec<_> = rows.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    let mut claims = vec![Claim::exactly("candidates", "b1, c1, e2", names.join(", "))];
    let row = |wanted: &str| rows.iter().find(|(name, _)| name == wanted).map_or("none".into(), |(_, row)| row.clone());
    claims.extend(
        TABLE
            .iter()
            .map(|(name, paper, _)| Claim::exactly(&format!("Tail, NTail, VT, NVT of {name}"), paper, row(name))),
    );
    let early = machine.delivered.len();
    claims.push(Claim::at_most("delivered before the last vote", "none", early as f64, 0.0, "messages"));
    machine.take(&LAST[0])?;
    let order: Vec<_> = machine.delivered.iter().map(|number| name(*number)).collect();
    claims.push(Claim::exactly("delivered once all five have voted", "b1, c1, e2", order.join(", ")));
    let votes = |wanted: &str| {
        let standing = rows.iter().zip(&standings).find(|((name, _), _)| name == wanted);
        standing.map_or(f64::NAN, |(_, standing)| standing.approvals as f64)
    };
    let points = |of: &dyn Fn(&(&'static str, &'static str, f64)) -> f64| {
        TABLE.iter().zip(1..).map(|(row, place)| (f64::from(place), of(row))).collect()
    };
    let chart = Chart {
        title: "Votes for each candidate (NVT)".into(),
        x: Axis::linear("candidate: b1, c1, e2"),
        y: Axis::linear("votes"),
        curves: vec![Curve::line("engine", points(&|row| votes(row.0))), Curve::paper("paper", points(&|row| row.2))],
    };
    let setting =
        "Five machines, Phi = n/2. An engine in a view of five sends b1 and is given the other messages of the graph. \
                   Arcs that the paper does not state follow from its table; a1, d1 and e1 are delivered before."
            .into();
    Ok(Outcome { setting, charts: vec![chart], claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_makes_the_papers_table_of_its_graph() {
        let outcome = table_1(&Lab::new(1, true)).unwrap();
        assert_eq!(outcome.claims.len(), 6);
        assert!(outcome.is_reproduced(), "{outcome:#?}");
    }

    #[test]
    fn messages_that_are_not_of_the_view_change_nothing_and_without_a_view_there_are_no_candidates() {
        let machine = Machine::start(1).unwrap();
        let message = machine.message(&FIRST[0]).unwrap();
        assert_eq!(machine.engine.standings_with(std::slice::from_ref(&message)).len(), 1);
        let (stranger, other) =
            (DagMessage { sender: 99, ..message.clone() }, DagMessage { view: ViewId::default(), ..message });
        assert!(machine.engine.standings_with(&[stranger, other.clone()]).is_empty());
        let alone = Toto::new(TotoConfig::new(NodeId(1), net::nodes(5)), Incarnation(1)).unwrap();
        assert!(alone.standings_with(&[other]).is_empty());
    }

    #[test]
    fn with_other_arcs_the_table_is_another_and_says_so() {
        let mut machine = Machine::start(1).unwrap();
        machine.send().unwrap();
        machine.take(&("c1", &["a1", "b1"])).unwrap();
        let rows: Vec<_> = machine.engine.standings_with(&[]).iter().map(|standing| machine.row(standing)).collect();
        assert_eq!(rows, [("b1".into(), "{b, c} 2 (*, 1, 1, *, *) 2".into())], "c1 follows b1: no candidate");
        assert!(!Claim::exactly("row", TABLE[1].1, rows[0].1.clone()).holds);
    }
}

//! What `consort bench floor` found.
use crate::figures::thousands;
use crate::page::{Chart, Page, Series, Table, exact, percentiles};
use consort_testbed::{Quantiles, Times};
use serde::Serialize;

/// The JSON object.
#[derive(Debug, Serialize)]
pub struct Report {
    bench: &'static str,
    /// How many processes the ring had.
    hop_processes: u16,
    hop_blocking_us: Quantiles,
    hop_spinning_us: Quantiles,
    /// The same between two processes.
    pair_hop_blocking_us: Quantiles,
    pair_hop_spinning_us: Quantiles,
    multicast: Vec<Multicast>,
    stream: Vec<Writes>,
    #[serde(skip)]
    hops: Vec<Hops>,
}

/// A datagram in a ring of so many processes: those that sleep, and those that spin.
#[derive(Clone, Debug)]
pub struct Hops {
    pub processes: u16,
    pub blocking: Times,
    pub spinning: Times,
}

/// One sender, several receivers.
#[derive(Debug, Serialize)]
pub struct Multicast {
    /// How datagrams are handed to the kernel and back.
    pub sent: &'static str,
    pub packet_bytes: usize,
    pub receivers: usize,
    /// Datagrams a second at the slowest receiver.
    pub pps: f64,
}

/// Messages through a Unix stream socket.
#[derive(Debug, Serialize)]
pub struct Writes {
    /// In one write.
    pub messages: usize,
    pub message_bytes: usize,
    pub messages_per_s: f64,
    /// CPU time a message, in microseconds; `null` where the kernel does not tell.
    pub writer_us: Option<f64>,
    pub reader_us: Option<f64>,
}

impl Report {
    /// Puts all together; hops in the ring that was asked for, then between two processes.
    pub fn new([ring, pair]: [Hops; 2], multicast: Vec<Multicast>, stream: Vec<Writes>) -> Self {
        Self {
            bench: "floor",
            hop_processes: ring.processes,
            hop_blocking_us: ring.blocking.quantiles(),
            hop_spinning_us: ring.spinning.quantiles(),
            pair_hop_blocking_us: pair.blocking.quantiles(),
            pair_hop_spinning_us: pair.spinning.quantiles(),
            multicast,
            stream,
            // A ring of two is the pair.
            hops: if ring.processes == pair.processes { vec![ring] } else { vec![ring, pair] },
        }
    }

    /// The same for people.
    pub fn page(&self) -> Page {
        Page {
            title: "What bare sockets reach".into(),
            facts: vec!["No order, no daemon: the floor that a daemon stands on.".into()],
            tables: vec![
                Table::new(
                    "Hop in a ring of processes, us",
                    ["processes", "wait", "p50", "p90", "p99", "p99.9", "max"],
                )
                .rows(self.hops.iter().flat_map(Hops::rows)),
                Table::new("Multicast", ["sent", "bytes", "receivers", "datagrams/s", "Gbit/s each"])
                    .rows(self.multicast.iter().map(Multicast::row)),
                Table::new("Unix stream", ["messages a write", "bytes", "messages/s", "writer us", "reader us"])
                    .rows(self.stream.iter().map(Writes::row)),
            ],
            charts: vec![Chart::latency(
                "Hop in a ring of processes",
                self.hops.iter().flat_map(Hops::curves).collect(),
            )],
        }
    }
}

impl Hops {
    fn kinds(&self) -> [(&'static str, &Times); 2] {
        [("blocking", &self.blocking), ("spinning", &self.spinning)]
    }

    fn rows(&self) -> [Vec<String>; 2] {
        let row = |(name, times): (&str, &Times)| {
            [vec![self.processes.to_string(), name.to_owned()], percentiles(&times.quantiles())].concat()
        };
        self.kinds().map(row)
    }

    fn curves(&self) -> [Series; 2] {
        let curve = |(name, times): (&str, &Times)| Series {
            name: format!("{} {name}", self.processes),
            points: times.curve(),
        };
        self.kinds().map(curve)
    }
}

impl Multicast {
    fn row(&self) -> Vec<String> {
        let bits = self.pps * self.packet_bytes as f64 * 8.0;
        let numbers = [self.packet_bytes, self.receivers].map(|number| number.to_string());
        let [bytes, receivers] = numbers;
        vec![self.sent.to_owned(), bytes, receivers, thousands(self.pps as u64), format!("{:.2}", bits / 1e9)]
    }
}

impl Writes {
    fn row(&self) -> Vec<String> {
        let numbers = [self.messages, self.message_bytes].map(|number| number.to_string());
        let [messages, bytes] = numbers;
        vec![messages, bytes, thousands(self.messages_per_s as u64), exact(self.writer_us), exact(self.reader_us)]
    }
}

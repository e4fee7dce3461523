//! What `consort bench floor` found.
use crate::bench::page::{Chart, Page, Series, Table, exact, percentiles};
use crate::lab::figures::{Quantiles, Times, thousands};
use serde::Serialize;

/// The JSON object.
#[derive(Debug, Serialize)]
pub struct Report {
    bench: &'static str,
    hop_blocking_us: Quantiles,
    hop_spinning_us: Quantiles,
    multicast: Vec<Multicast>,
    stream: Vec<Writes>,
    #[serde(skip)]
    curves: Vec<Series>,
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
    /// Puts all together; hops of those who sleep, then of those who spin.
    pub fn new([blocking, spinning]: [&Times; 2], multicast: Vec<Multicast>, stream: Vec<Writes>) -> Self {
        let curve = |name: &str, times: &Times| Series { name: name.into(), points: times.curve() };
        Self {
            bench: "floor",
            hop_blocking_us: blocking.quantiles(),
            hop_spinning_us: spinning.quantiles(),
            multicast,
            stream,
            curves: vec![curve("blocking", blocking), curve("spinning", spinning)],
        }
    }

    /// The same for people.
    pub fn page(&self) -> Page {
        let hops = [("blocking", self.hop_blocking_us), ("spinning", self.hop_spinning_us)];
        Page {
            title: "What bare sockets reach".into(),
            facts: vec!["No order, no daemon: the floor that a daemon stands on.".into()],
            tables: vec![
                Table::new("Hop, us", ["waits", "p50", "p90", "p99", "p99.9", "max"])
                    .rows(hops.iter().map(|(name, us)| [vec![(*name).to_owned()], percentiles(us)].concat())),
                Table::new("Multicast", ["sent", "bytes", "receivers", "datagrams/s", "Gbit/s each"])
                    .rows(self.multicast.iter().map(Multicast::row)),
                Table::new("Unix stream", ["messages a write", "bytes", "messages/s", "writer us", "reader us"])
                    .rows(self.stream.iter().map(Writes::row)),
            ],
            charts: vec![Chart::latency("Hop", self.curves.clone())],
        }
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

//! What work takes on this machine: measured with bare sockets and with one and two daemons. More daemons are left to
//! `predict`.
use super::host_file::{ClientCosts, DaemonCosts, HostFile, MachineCosts};
use super::programs::{Cpu, Programs, Round, round};
use super::{Machine, Work};
use consort_types::Duration;
use serde_json::Value;

/// Lengths of messages, in bytes.
const SMALL: usize = 100;
pub const LARGE: usize = 1_350;
/// How many clients read what one sends, at most, where one daemon serves them.
const READERS: usize = 4;
/// How many processes receive bare datagrams.
const RECEIVERS: [usize; 2] = [2, 7];
/// Bytes of a datagram.
const DATAGRAM: f64 = 1_472.0;
/// Messages a second of the moderate rate.
const PACE: f64 = 1_000.0;
/// How many times a daemon is cold on the way of a message then, about.
const COLD: f64 = 3.0;
/// How long an idle core looks for work: where a guest's kernel begins with it.
const POLL_US: f64 = 50.0;
/// How often that is mended by what the simulator says.
const ROUNDS: usize = 8;
/// How long the simulator runs then, before it measures and while it does.
const BEFORE: Duration = Duration::from_millis(30);
const PACED: Duration = Duration::from_millis(600);

/// What was measured.
pub struct Observed {
    pub cores: usize,
    pub socket_kib: usize,
    /// A datagram from one process to another that sleeps, and to one that looks again and again.
    pub hop_us: f64,
    pub spin_us: f64,
    /// Bare datagrams a second to two and to seven receivers, which all processors work for.
    pub floods: [f64; 2],
    /// As much as goes with one daemon, small and large messages; with several that read; and with two daemons.
    pub one: [Round; 2],
    pub read: [Cpu; 2],
    pub two: Round,
    /// How long half of the messages of two daemons take at most at a moderate rate.
    pub paced_us: f64,
}

/// Measures.
///
/// # Errors
/// What kept it from that.
pub fn observe(programs: &Programs) -> Result<Observed, String> {
    let floor = |receivers: usize| programs.bench(&format!("floor --nodes {} --seconds 500ms", receivers + 1));
    let floors = [floor(RECEIVERS[0])?, floor(RECEIVERS[1])?];
    let unsaid = |name: &str| format!("consort bench floor: it says nothing of {name}");
    let hop = |name: &str| floors[0][name]["p50"].as_f64().ok_or_else(|| unsaid(name));
    let flood = |floor: &Value| {
        let all = floor["multicast"].as_array().and_then(|kinds| kinds.last());
        all.and_then(|kind| kind["pps"].as_f64()).ok_or_else(|| unsaid("multicast"))
    };
    let ring = |nodes, size| {
        programs.round(&format!("ring --nodes {nodes} --size {size} --seconds 700ms --warm-up 300ms --runs 5"))
    };
    let read = |size| {
        let words = "--nodes 1 --senders 1 --seconds 700ms --warm-up 300ms --runs 3";
        readers(&programs.bench(&format!("clients --clients {READERS} --size {size} {words}"))?)
    };
    let paced = format!("latency --nodes 2 --size {LARGE} --rate {PACE:.0} --seconds 2 --warm-up 300ms --runs 3");
    Ok(Observed {
        cores: std::thread::available_parallelism().map_or(1, Into::into),
        socket_kib: socket_kib(),
        hop_us: hop("pair_hop_blocking_us")?,
        spin_us: hop("pair_hop_spinning_us")?,
        floods: [flood(&floors[0])?, flood(&floors[1])?],
        one: [ring(1, SMALL)?, ring(1, LARGE)?],
        read: [read(SMALL)?, read(LARGE)?],
        two: ring(2, LARGE)?,
        paced_us: programs.round(&paced)?.latency_us.p50,
    })
}

/// The round with the most readers.
fn readers(printed: &Value) -> Result<Cpu, String> {
    let step = printed["steps"].as_array().and_then(|steps| steps.last());
    let step = step.filter(|step| step["clients"].as_u64() == Some(READERS as u64));
    let step = step.ok_or_else(|| format!("consort bench clients: no step has {READERS} clients"))?;
    Ok(round(&step["batched"])?.cpu_us_per_delivery)
}

/// What a daemon asks for, as far as the kernel grants it; the kernel keeps half for itself.
fn socket_kib() -> usize {
    let granted = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok().and_then(|text| text.trim().parse().ok());
    granted.map_or(208, |bytes: usize| bytes >> 10).min(4_096)
}

/// A cost of one and of one more, from what one and what several came to.
fn apart(one: f64, several: f64) -> (f64, f64) {
    let more = (several - one) / (READERS as f64 - 1.0);
    let more = more.clamp(one * 0.05, one * 0.95);
    (one - more, more)
}

/// What each message and each byte cost, from what small and large messages do.
fn by_byte(small: f64, large: f64) -> (f64, f64) {
    let byte = ((large - small) / (LARGE - SMALL) as f64).max(0.0);
    ((small - byte * SMALL as f64).max(0.0), byte)
}

impl Observed {
    /// The costs that the simulator needs to come to the same.
    ///
    /// # Errors
    /// The simulator's.
    pub fn fit(&self) -> Result<HostFile, String> {
        let mut host = self.first();
        for _ in 0..ROUNDS {
            self.mend(&mut host)?;
        }
        Ok(host)
    }

    /// What CPU times say by themselves.
    fn first(&self) -> HostFile {
        let several = READERS as f64;
        let split = |size: usize, of: fn(&Cpu) -> f64| {
            apart(of(&self.one[size].cpu_us_per_delivery), of(&self.read[size]) * several)
        };
        let daemon = [0, 1].map(|size| split(size, |cpu| cpu.daemon));
        let client = [0, 1].map(|size| split(size, |cpu| cpu.client));
        let (message_in_us, in_byte) = by_byte(daemon[0].0, daemon[1].0);
        let (message_out_us, out_byte) = by_byte(daemon[0].1, daemon[1].1);
        let (write_us, write_byte) = by_byte(client[0].0, client[1].0);
        let (read_us, read_byte) = by_byte(client[0].1, client[1].1);
        let call_us = self.spin_us / 2.0;
        let waking = (self.hop_us - self.spin_us).max(0.0);
        // What the second daemon adds: a packet sent and received, and another client.
        let two = 2.0 * self.two.cpu_us_per_delivery.daemon;
        let packet = (two - daemon[1].0 - 2.0 * daemon[1].1).max(0.0);
        // Of its bytes as much as of those that go to a client: both are copied once.
        let bytes = (out_byte * DATAGRAM).min(packet * 0.2);
        let out = self.sending().clamp(packet * 0.2, packet * 0.8);
        HostFile {
            machine: MachineCosts {
                cores: self.cores,
                // Who wakes and who is woken both take a part of it; the waker's is CPU time.
                wake_us: waking / 2.0,
                switch_us: 2.0 * call_us,
                call_us,
                kick_us: waking / 2.0,
                poll_us: POLL_US,
                socket_kib: self.socket_kib,
            },
            daemon: DaemonCosts {
                cold_us: 0.0,
                message_in_us,
                message_out_us,
                packet_out_us: out - bytes.min(out),
                packet_in_us: packet - out - bytes.min(packet - out),
                message_in_byte_ns: in_byte * 1e3,
                message_out_byte_ns: out_byte * 1e3,
                packet_byte_ns: bytes / DATAGRAM * 1e3,
            },
            client: ClientCosts { write_us, read_us, byte_ns: f64::midpoint(write_byte, read_byte) * 1e3 },
        }
    }

    /// CPU time to send a bare datagram: each receiver more takes as long as the others.
    fn sending(&self) -> f64 {
        let [few, many] = self.floods.map(|pps| self.cores as f64 * 1e6 / pps.max(1.0));
        let receiving = (many - few) / (RECEIVERS[1] - RECEIVERS[0]) as f64;
        few - receiving * RECEIVERS[0] as f64
    }

    /// Brings the simulator nearer to two daemons' latency at a moderate rate, when they sleep in between.
    fn mend(&self, host: &mut HostFile) -> Result<(), String> {
        let more = (self.paced_us - paced(host, 2)?) / COLD;
        host.daemon.cold_us = (host.daemon.cold_us + more).max(0.0);
        Ok(())
    }
}

/// The latency of so many daemons at the moderate rate, as the simulator has it.
fn paced(host: &HostFile, daemons: usize) -> Result<f64, String> {
    let work = Work { daemons, senders: daemons, receivers: daemons, len: LARGE, rate: Some(PACE) };
    Ok(Machine::start(host, work)?.measure(BEFORE, PACED).p50_us)
}

#[cfg(test)]
mod tests {
    use super::super::programs::Latency;
    use super::*;
    use serde_json::json;

    fn round(daemon: f64, client: f64) -> Round {
        Round {
            ordered_per_s: 1.0,
            latency_us: Latency { p50: 1.0, p99: 1.0 },
            cpu_us_per_delivery: Cpu { daemon, client },
        }
    }

    #[test]
    fn costs_are_told_apart() {
        assert_eq!(apart(1.0, 2.5), (0.5, 0.5), "three more cost 1.5");
        assert_eq!(apart(1.0, 0.5), (0.95, 0.05), "noise makes no cost negative");
        let (message, byte) = by_byte(0.3, 1.55);
        assert!((message - 0.2).abs() < 1e-9 && (byte - 0.001).abs() < 1e-9);
        assert_eq!(by_byte(0.3, 0.2).1, 0.0);
    }

    fn observed() -> Observed {
        Observed {
            cores: 2,
            socket_kib: 2_048,
            hop_us: 50.0,
            spin_us: 5.0,
            floods: [1e6, 4e5], // 2 us and 5 us of two processors: 0.6 for a receiver
            one: [round(0.15, 0.2), round(1.4, 0.7)],
            read: [Cpu { daemon: 0.06, client: 0.1 }, Cpu { daemon: 0.5, client: 0.325 }],
            two: round(1.75, 0.5),
            paced_us: 250.0,
        }
    }

    #[test]
    fn the_simulator_comes_to_the_latency_that_two_daemons_have() {
        let host = observed().fit().unwrap();
        let [simulated, before] = [host, observed().first()].map(|host| paced(&host, 2).unwrap());
        assert!(
            (200.0..300.0).contains(&simulated) && before + 15.0 < simulated,
            "{simulated}, before {before}: {host:?}"
        );
        assert!(host.daemon.cold_us > 5.0, "{host:?}");
        let quick = Observed { paced_us: 1.0, ..observed() }.fit().unwrap();
        assert_eq!(quick.daemon.cold_us, 0.0, "nothing takes less than no time");
    }

    #[test]
    fn costs_follow_from_cpu_times() {
        let host = observed().first();
        assert_eq!((host.machine.wake_us, host.machine.kick_us, host.machine.call_us), (22.5, 22.5, 2.5));
        let of = |us: f64, byte_ns: f64| us + byte_ns * LARGE as f64 / 1e3;
        let DaemonCosts { message_in_us, message_in_byte_ns, message_out_us, message_out_byte_ns, .. } = host.daemon;
        let (read, written) = (of(message_in_us, message_in_byte_ns), of(message_out_us, message_out_byte_ns));
        assert!((read - 1.2).abs() < 1e-6 && (written - 0.2).abs() < 1e-6, "three more readers cost 0.6: {host:?}");
        let DaemonCosts { packet_out_us, packet_in_us, packet_byte_ns, .. } = host.daemon;
        let packet = packet_out_us + packet_in_us + 2.0 * packet_byte_ns * DATAGRAM / 1e3;
        assert!((packet - 1.9).abs() < 1e-6, "3.5 of two daemons, less 1.2 and twice 0.2: {host:?}");
    }

    #[test]
    fn a_receiver_more_tells_sending_from_receiving() {
        assert!((observed().sending() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn the_most_readers_are_read_and_fewer_refused() {
        let step = |clients| {
            json!({"clients": clients, "batched": {"ordered_per_s": 1.0,
            "latency_us": {"p50": 1.0, "p99": 1.0}, "cpu_us_per_delivery": {"daemon": 0.25, "client": 0.125}}})
        };
        assert_eq!(readers(&json!({"steps": [step(1), step(4)]})), Ok(Cpu { daemon: 0.25, client: 0.125 }));
        for other in [json!({"steps": [step(1)]}), json!({})] {
            assert!(readers(&other).unwrap_err().ends_with("no step has 4 clients"));
        }
    }
}

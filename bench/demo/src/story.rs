//! The demonstration as it is told.
use super::outcome::{HandedOver, Majority, Trouble, Viewed};
use super::verdict::{self, Cpu, DemoVerdict};
use crate::config::Protocol;
use crate::failure::{Outcome, heard_or_not};
use crate::figures::{bytes, micros, thousands};
use crate::words;
use consort_testbed::{RoundResult, Testbed};
use std::io::{self, IsTerminal, Write};

/// Tells the story, or keeps silent until the end for the sake of a machine.
pub struct Story {
    json: bool,
    live: bool,
}

impl Story {
    /// For people, or for machines.
    pub fn new(json: bool) -> Self {
        Self { json, live: io::stdout().is_terminal() }
    }

    fn say(&self, text: &str) -> Outcome {
        if !self.json {
            let mut out = io::stdout();
            heard_or_not(writeln!(out, "{text}").and_then(|()| out.flush()))?;
        }
        Ok(())
    }

    /// The daemons run.
    pub fn daemons(&self, testbed: &Testbed, protocol: Protocol) -> Outcome {
        let pids: Vec<String> = testbed.daemon_ids().iter().map(u32::to_string).collect();
        self.say(&format!("{} daemons run on this machine: processes {}.", pids.len(), pids.join(", ")))?;
        let how = match protocol {
            Protocol::Ring => "pass a token round",
            Protocol::Toto => "order messages by votes",
            Protocol::Plato => "have the lowest of them say the order",
            Protocol::Paxos => "have a majority of them keep the order",
            Protocol::MultiRingPaxos => "merge three such orders, each kept by a majority, into one",
            Protocol::MultiRing => {
                "pass a token round in each of two rings, which one of them joins while another stands by"
            }
        };
        let linked = matches!(protocol, Protocol::Paxos | Protocol::MultiRingPaxos);
        let way = if linked { "TCP" } else { "multicast" };
        self.say(&format!("They talk by {way} on the loopback interface and {how}."))
    }

    /// The sending begins.
    pub fn start(&self, nodes: u16, lines: u64) -> Outcome {
        let (lines, all) = (thousands(lines), thousands(lines * u64::from(nodes)));
        self.say(&format!(
            "\nEach serves a client that sends and one that receives.\nNow all {nodes} senders multicast a file of {lines} \
             lines, at once and at full speed: {all} messages.\n"
        ))
    }

    /// Live progress towards so many deliveries.
    pub fn progress(&self, deliveries: u64) -> impl FnMut(u64) + use<> {
        let (silent, live) = (self.json, self.live);
        let mut shown = 0;
        move |done| {
            let step = if live { 1 } else { 25 };
            let percent = done * 100 / deliveries.max(1);
            if silent || percent / step <= shown / step {
                return;
            }
            shown = percent;
            // A progress bar that cannot be shown is no reason to stop.
            let _ = match live {
                true => write!(
                    io::stdout(),
                    "\r  [{:<40}] {percent:>3} %{}",
                    "#".repeat(percent as usize * 40 / 100),
                    end_of(percent)
                ),
                false => writeln!(io::stdout(), "  {percent:>3} % delivered"),
            };
            let _ = io::stdout().flush();
        }
    }

    /// What each receiver saw.
    pub fn sequences(&self, loud: &RoundResult, lines: u64) -> Outcome {
        self.say("\nEach receiver wrote down what it got, in the order it got it, and hashed it (SHA-256):\n")?;
        for (at, one) in loud.received.iter().enumerate() {
            self.say(&format!("  node {}  {:>10} messages  {}", at + 1, thousands(one.messages), one.digest))?;
        }
        let all = lines * loud.received.len() as u64;
        let whole = loud.received.iter().all(|one| one.messages == all);
        match verdict::agree(loud) && whole {
            true => self.say("\nThe same sequence everywhere, and nothing is missing."),
            false => self.say("\nThese are NOT the same complete sequences. That must not happen."),
        }
    }

    /// The figures of the loud part.
    pub fn load(&self, loud: &RoundResult, retransmissions: u64) -> Outcome {
        let receivers = loud.received.len().max(1) as u64;
        let deliveries: u64 = loud.received.iter().map(|one| one.messages).sum();
        let rate = (deliveries / receivers) as f64 / loud.seconds;
        let cpu = Cpu::of(loud, deliveries);
        let latency = loud.times.quantiles();
        self.say(&format!(
            "  throughput       {} messages/s, each delivered {receivers} times",
            thousands(rate as u64)
        ))?;
        self.say(&format!(
            "  CPU              {} per delivery in the daemons, {} in the clients",
            spent(cpu.daemon),
            spent(cpu.client)
        ))?;
        self.say(&format!(
            "  latency          half within {}, 99 % within {} (all queues full)",
            micros(latency.p50),
            micros(latency.p99)
        ))?;
        let peak = loud.daemon_peak.map_or_else(|| "unknown".into(), bytes);
        self.say(&format!("  memory           {peak} at most in a daemon"))?;
        self.say(&format!("  retransmissions  {}", thousands(retransmissions)))
    }

    /// A daemon is about to be killed.
    pub fn kill(&self, node: u16, rate: f64) -> Outcome {
        self.say(&format!(
            "\nNow {} messages/s flow, and the daemon of node {node} is killed (kill -9). The client at node 1 is told:\n",
            thousands(rate as u64)
        ))
    }

    /// It comes back.
    pub fn revive(&self, node: u16, crash_ms: f64) -> Outcome {
        self.say(&format!(
            "\nAll survivors were told within {crash_ms:.0} ms, and messages flow on. Node {node} is started again:\n"
        ))
    }

    /// The daemon that joins two rings is about to be killed.
    pub fn hand_over(&self, node: u16, standby: u16, restart_ms: f64) -> Outcome {
        self.say(&format!(
            "\nAll were told within {restart_ms:.0} ms. Node {node} joins the two rings, and node {standby} stands by. Node \
             {node} is killed now:\n"
        ))
    }

    /// It comes back.
    pub fn taken_over(&self, handed_over: &HandedOver) -> Outcome {
        let HandedOver { node, standby, taken_over_ms, .. } = handed_over;
        self.say(&format!(
            "\nNode {standby} joins the rings now: all were told within {taken_over_ms:.0} ms. Node {node} is started \
             again:\n"
        ))
    }

    /// A client was told a view.
    pub fn view(&self, viewed: &Viewed) -> Outcome {
        let (ms, view, nodes) = (viewed.ms, &viewed.view, words::nodes(viewed.members.iter().copied()));
        self.say(&match viewed.kind {
            "transitional" if viewed.members.len() == 1 => {
                format!("  after {ms:>6.1} ms  view {view} ends; {nodes} goes on alone")
            }
            "transitional" => format!("  after {ms:>6.1} ms  view {view} ends; {nodes} go on together"),
            _ => format!("  after {ms:>6.1} ms  view {view} is {nodes}: {}", viewed.cause),
        })
    }

    /// What the clients saw was judged.
    pub fn judged(&self, trouble: &Trouble) -> Outcome {
        let Trouble { restart_ms, handed_over, clients, sent, delivered, promises, violations, .. } = trouble;
        let restart_ms = handed_over.as_ref().map_or(*restart_ms, |handed_over| handed_over.back_ms);
        self.say(&format!(
            "\nAll were told within {restart_ms:.0} ms. {clients} clients wrote down what they saw: {} messages sent, {} \
             delivered.\nThe simulator's {promises} checkers judged it: one order, no gaps, safe delivery, views that agree, and so on.",
            thousands(*sent),
            thousands(*delivered)
        ))?;
        match violations.as_slice() {
            [] => self.say("No promise is broken."),
            broken => self.say(&format!("These promises are BROKEN. That must not happen:\n  {}", broken.join("\n  "))),
        }
    }

    /// The coordinator is about to be killed.
    pub fn coordinator(&self, majority: &Majority) -> Outcome {
        let Majority { acceptors, coordinator, .. } = majority;
        self.say(&format!(
            "\n{acceptors} of the daemons vote, and a majority of them decides. Node {coordinator} is their coordinator. It is \
             killed (kill -9) while others send."
        ))
    }

    /// A majority is about to be killed.
    pub fn minority(&self, majority: &Majority) -> Outcome {
        let Majority { again_ms, next, .. } = majority;
        self.say(&format!(
            "After {again_ms:.0} ms orders go on; the coordinator is node {next}. Now so many are killed that no majority \
             is left, and one that is left sends."
        ))
    }

    /// They are about to come back.
    pub fn back(&self, majority: &Majority) -> Outcome {
        let Majority { in_vain, killed, violations, .. } = majority;
        match violations.first() {
            Some(violation) => self.say(&format!("That must not happen: {violation}.")),
            None => self.say(&format!("Nothing is ordered. Its client waits and is told: {in_vain}.")),
        }?;
        self.say(&format!("{} are started again.", words::nodes(killed.iter().copied())))
    }

    /// The order was read again.
    pub fn reread(&self, majority: &Majority) -> Outcome {
        let Majority { back_ms, acknowledged, read, violations, .. } = majority;
        self.say(&format!(
            "After {back_ms:.0} ms the message that waited is ordered. The order is read again from its start:\n"
        ))?;
        for one in read {
            self.say(&format!("  node {}  {:>10} messages  {}", one.node, thousands(one.messages as u64), one.digest))?;
        }
        match violations.as_slice() {
            [] => self.say(&format!(
                "\nThe same sequence, with all {} messages that their senders knew to be ordered.",
                thousands(*acknowledged as u64)
            )),
            broken => self.say(&format!("\nThis must not happen:\n  {}", broken.join("\n  "))),
        }
    }

    /// The figures of the quiet part.
    pub fn quiet(&self, quiet: &RoundResult, rate: f64) -> Outcome {
        let latency = quiet.times.quantiles();
        self.say(&format!(
            "\nThe same at a walking pace, {} messages/s in all, from sending to each delivery:\n",
            thousands(rate as u64)
        ))?;
        for bar in quiet.times.picture() {
            self.say(&format!("  {bar}"))?;
        }
        let [p50, p99, p999] = [latency.p50, latency.p99, latency.p999].map(micros);
        self.say(&format!("\n  p50 {p50}   p99 {p99}   p99.9 {p999}"))
    }

    /// The end: for machines, all of it.
    pub fn end(&self, verdict: &DemoVerdict) -> Outcome {
        if self.json {
            let text = serde_json::to_string(verdict).unwrap_or_default();
            return heard_or_not(writeln!(io::stdout(), "{text}"));
        }
        self.say(&format!("\nAll processes are gone again; it took {:.1} s.", verdict.seconds))?;
        self.say("Your turn: `consort daemon`, then `consort receive` and `consort send hello` in two other terminals.")
    }
}

const fn end_of(percent: u64) -> &'static str {
    if percent >= 100 { "\n" } else { "" }
}

fn spent(us: Option<f64>) -> String {
    us.map_or_else(|| "unknown".into(), |us| format!("{us:.2} us"))
}

//! The members of a measurement: they meet in a group, send, and say to each other what they received.
use super::packet::{Packet, Record};
use super::plan::Plan;
use crate::clock::now_ns;
use crate::failure::{Code, Failure, Outcome, Trying};
use consort::{Client, Event, GroupView, Member, Message, Receiver, Sender, Service};
use consort_testbed::clocks::Reading;
use consort_types::Rng;
use std::thread;
use std::time::Duration;

/// How long members wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many records go into a message.
const CHUNK: usize = 1_000;

/// What a measurement found: all messages that counted, as each receiver's clock saw them.
pub struct Found {
    /// The members, as people know them.
    pub names: Vec<String>,
    pub readings: Vec<Reading>,
}

/// One of the members, from when all are there.
struct Meeting<'a> {
    plan: &'a Plan,
    members: Vec<Member>,
    me: usize,
    receiver: Receiver,
    /// What this one received.
    records: Vec<Record>,
    /// What the others did.
    readings: Vec<Reading>,
}

/// Measures together with the others.
pub fn measure(plan: &Plan, mut client: Client) -> Outcome<Found> {
    client.join(&plan.group).and_then(|_| client.flush()).trying(|| format!("cannot join {}", plan.group))?;
    let members = gather(plan, &mut client)?;
    let own = (client.welcome().daemon, client.welcome().client);
    let me = members.iter().position(|member| member.key() == own);
    let me = me.ok_or_else(|| Failure::new("the daemon counts this client in, and does not list it"))?;
    let (sender, receiver) = client.split();
    let mut meeting = Meeting { plan, members, me, receiver, records: Vec::new(), readings: Vec::new() };
    let sender = meeting.while_sending(|| send_probes(plan, sender, me), &Packet::Sent)?;
    let records = meeting.records.clone();
    let sender = meeting.while_sending(|| send_records(plan, sender, &records), &Packet::Done)?;
    sender.goodbye().trying(|| "cannot leave the daemon".into())?;
    Ok(meeting.found())
}

/// Waits until as many are there as shall be.
fn gather(plan: &Plan, client: &mut Client) -> Outcome<Vec<Member>> {
    let until = now_ns() + PATIENCE.as_nanos() as u64;
    let mut there = 0;
    loop {
        let left = Duration::from_nanos(until.saturating_sub(now_ns()));
        if left.is_zero() {
            let (group, members) = (&plan.group, plan.members);
            let why = format!("after {PATIENCE:?} {there} of {members} members are in the group {group}");
            return Err(Failure::new(format!("{why}; run the same at the other daemons meanwhile")).with(Code::Timeout));
        }
        if let Some(Event::GroupView(view)) = client.receive(left).trying(|| "cannot wait for the others".into())?
            && view.group == plan.group
        {
            there = view.members.len();
            if there > plan.members {
                let why = format!("{there} clients are in the group {}, and --members is {}", plan.group, plan.members);
                return Err(Failure::new(format!("{why}; choose another group with --group")));
            }
            if there == plan.members {
                return Ok(view.members);
            }
        }
    }
}

/// Sends probes at random times, this member's share of them, and says that it has.
fn send_probes(plan: &Plan, mut sender: Sender, me: usize) -> Outcome<Sender> {
    let (start, mut rng) = (now_ns(), Rng::new(me as u64 + 1));
    let (warm, end) = (start + plan.warm_up.as_nanos() as u64, start + plan.whole().as_nanos() as u64);
    let mean = 1e9 * plan.members as f64 / plan.rate;
    let mut due = start as f64 + rng.exponential(mean);
    while due < end as f64 {
        thread::sleep(Duration::from_nanos((due as u64).saturating_sub(now_ns())));
        let sent = now_ns();
        send(plan, &mut sender, plan.service, &Packet::Probe { counts: sent >= warm, sent })?;
        due += rng.exponential(mean);
    }
    send(plan, &mut sender, plan.service, &Packet::Sent)?;
    Ok(sender)
}

/// Says what this member received. That it is ordered shows where it is received.
fn send_records(plan: &Plan, mut sender: Sender, records: &[Record]) -> Outcome<Sender> {
    for chunk in records.chunks(CHUNK) {
        send(plan, &mut sender, Service::Agreed, &Packet::Records(chunk.to_vec()))?;
    }
    send(plan, &mut sender, Service::Agreed, &Packet::Done)?;
    Ok(sender)
}

fn send(plan: &Plan, sender: &mut Sender, service: Service, packet: &Packet) -> Outcome {
    let to = std::slice::from_ref(&plan.group);
    let sent = sender.multicast(service, to, &packet.write(plan.size)).and_then(|_| sender.flush());
    sent.trying(|| format!("cannot send to {}", plan.group))
}

impl Meeting<'_> {
    /// Receives while another thread sends, until all members have sent `last`.
    fn while_sending(&mut self, work: impl FnOnce() -> Outcome<Sender> + Send, last: &Packet) -> Outcome<Sender> {
        thread::scope(|scope| {
            let sending = scope.spawn(work);
            let received = self.receive_until(last);
            let sent = sending.join().map_err(|_| Failure::new("sending ended early"))?;
            received.and(sent)
        })
    }

    fn receive_until(&mut self, last: &Packet) -> Outcome {
        let mut ended = vec![false; self.members.len()];
        let quiet = PATIENCE + self.plan.whole();
        while ended.contains(&false) {
            match self.receiver.receive(quiet).trying(|| "cannot receive".into())? {
                Some(Event::Message(message)) => {
                    let now = now_ns();
                    if let Some((from, packet)) = self.packet(&message) {
                        ended[from] |= packet == *last;
                        self.take(from, packet, now);
                    }
                }
                Some(Event::GroupView(view)) => self.all_there(&view)?,
                Some(_) => {}
                None => return Err(Failure::new(format!("no member says anything for {quiet:?}")).with(Code::Timeout)),
            }
        }
        Ok(())
    }

    /// A member's message, with the place of the member; that of others is passed over.
    fn packet(&self, message: &Message) -> Option<(usize, Packet)> {
        let from = self.members.iter().position(|member| (member.daemon.node, member.client) == message.sender())?;
        Some((from, Packet::read(message.payload())?))
    }

    fn take(&mut self, from: usize, packet: Packet, now: u64) {
        let us = |ns: u64| ns as f64 / 1e3;
        match packet {
            Packet::Probe { counts: true, sent } if from != self.me => {
                self.records.push(Record { from: from as u16, sent, received: now });
            }
            Packet::Records(records) => {
                let known = records.into_iter().filter(|record| usize::from(record.from) < self.members.len());
                self.readings.extend(known.map(|record| Reading {
                    from: record.from.into(),
                    to: from,
                    sent: us(record.sent),
                    received: us(record.received),
                }));
            }
            Packet::Probe { .. } | Packet::Sent | Packet::Done => {}
        }
    }

    /// The same members as when it began.
    fn all_there(&self, view: &GroupView) -> Outcome {
        let gone = |member: &&Member| !view.members.iter().any(|there| there.key() == member.key());
        match self.members.iter().find(gone) {
            Some(member) if view.group == self.plan.group => {
                let why = format!("{} left before all was measured: {}", name(member), view.cause);
                Err(Failure::new(format!("{why}; begin again at all daemons")))
            }
            _ => Ok(()),
        }
    }

    fn found(self) -> Found {
        Found { names: self.members.iter().map(name).collect(), readings: self.readings }
    }
}

fn name(member: &Member) -> String {
    format!("{} at {}", member.name, member.daemon.node)
}

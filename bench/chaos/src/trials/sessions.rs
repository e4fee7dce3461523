//! Sessions that are cut off, ended and taken over while daemons are killed: each send is ordered once.
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use consort::{
    Address, Client, ConnectOptions, Event, Fate, GroupName, ProducerId, Service, Session, SessionEvent, SessionOptions,
};
use consort_sim::fault::Disk;
use consort_types::Rng;
use std::sync::Arc;

use super::outcome::Figures;
use super::receivers::{self, PATIENCE, Read, SESSIONS};
use super::relay::Relay;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;

const BEAT: Beat = Beat { node: 2, every: Duration::from_millis(20), service: Service::Agreed };
/// How many read.
const READERS: usize = 3;
/// Between two cuts.
const APART: Duration = Duration::from_millis(20);
/// One of so many cuts is the end of a session, which another one takes over, and one of so many a daemon's.
const ENDS: u64 = 5;
const KILLS: u64 = 25;

pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    cut_off(site, "ring")
}

pub fn toto(site: &Site<'_>) -> Result<Figures, String> {
    cut_off(site, "toto")
}

pub fn plato(site: &Site<'_>) -> Result<Figures, String> {
    cut_off(site, "plato")
}

pub fn paxos(site: &Site<'_>) -> Result<Figures, String> {
    cut_off(site, "paxos")
}

/// The numbers that a member heard of each sender, or what went wrong.
type Heard = Result<Vec<Vec<u64>>, String>;

/// What one sender did, over all its sessions.
#[derive(Debug, Default)]
struct Sent {
    count: u64,
    /// Fates told, over all sessions.
    fates: u64,
    /// Of the session that is under way: how many were sent, and which of them have their fate. Only the last one ends in good
    /// order, and must tell all.
    begun: usize,
    fated: BTreeSet<u64>,
    /// Sends that are not ordered though they should be, or have not one fate, in words.
    wrong: Vec<String>,
}

/// A sender on a thread of its own.
struct SendingThread {
    /// Its session is to end at once, and another one to go on.
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Result<Sent, String>>,
}

fn cut_off(site: &Site<'_>, protocol: &'static str) -> Result<Figures, String> {
    let all = [0, 1, 2];
    with(site, &Setup { hosts: Hosts::Together, nodes: 3, first: &all, beat: BEAT, protocol }, |stage| {
        let group = GroupName::new("cut").map_err(text)?;
        let relays = (0..3).map(|node| relay(stage, node)).collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let member = listen(stage, &group)?;
        // There a reader may be told what had no effect, G53.
        let readers = if protocol == "paxos" { 0 } else { READERS };
        let readers = (0..readers)
            .map(|at| receivers::start(at, &relays, &group, options(None)))
            .collect::<Result<Vec<_>, _>>()?;
        let senders: Vec<_> = (0..SESSIONS).map(|which| sender(which, &relays, &group, &stop)).collect();
        let kills = trouble(site, stage, &relays, &senders)?;
        stop.store(true, Ordering::Relaxed);
        let began = Instant::now();
        let sent: Vec<_> = senders.into_iter().map(|sender| sender.thread.join()).collect();
        let settled = began.elapsed();
        let heard = finish(&relays, &group, member)?;
        let mut figures = stage.figures(&[2], 2 * kills);
        let (mut total, mut fates) = (0, 0);
        for (which, sent) in sent.into_iter().enumerate() {
            let sent = sent.map_err(|_| "a sender panicked".to_owned())??;
            total += sent.count;
            fates += sent.fates;
            judge(&mut figures, which, &sent, &heard);
        }
        let mut parted = 0;
        for (which, reader) in readers.into_iter().enumerate() {
            let read = reader.join().map_err(|_| "a reader panicked".to_owned())?;
            let read = read.map_err(|problem| format!("reader {which}: {problem}"))?;
            parted += read.parted;
            judge_reader(&mut figures, which, &read, &heard);
        }
        let cuts = site.lengths.cuts;
        figures.notes.push(format!(
            "{total} sends, {fates} fates told, {cuts} cuts, {kills} daemons killed, readers parted {parted} times, settled {} ms after the last",
            settled.as_millis()
        ));
        Ok(figures)
    })
}

pub(super) fn relay(stage: &Stage<'_>, node: usize) -> Result<Relay, String> {
    let Address::Unix(daemon) = address(stage.directory, node) else { return Err("a daemon without a socket".into()) };
    Relay::start(&stage.directory.join(format!("relay-{node}")), &daemon).map_err(text)
}

/// Cuts connections, ends sessions and kills daemons; returns how many of these.
fn trouble(
    site: &Site<'_>,
    stage: &mut Stage<'_>,
    relays: &[Relay],
    senders: &[SendingThread],
) -> Result<usize, String> {
    let (mut rng, mut kills) = (Rng::new(24), 0);
    for _ in 0..site.lengths.cuts {
        stage.pass(APART)?;
        match rng.below(KILLS) {
            0 => {
                // The third has the member that judges.
                let node = rng.below(2) as usize;
                stage.fleet.kill(node, Disk::Kept).map_err(text)?;
                stage.pass(APART * rng.below(40) as u32)?;
                stage.fleet.start(node).map_err(text)?;
                stage.together(&[0, 1, 2])?;
                remembers(stage)?;
                kills += 1;
            }
            n if n % ENDS == 0 => senders[rng.below(SESSIONS as u64) as usize].ends.store(true, Ordering::Relaxed),
            _ => drop(relays[rng.below(3) as usize].cut()),
        }
    }
    Ok(kills)
}

/// Waits until all daemons know again what was sent: else the next kill could leave no majority that does.
pub(super) fn remembers(stage: &mut Stage<'_>) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counts = |node: usize| {
            let status = stage.fleet.status(node).ok();
            status.and_then(|status| status.counter("counts_for_producers")) == Some(1)
        };
        if (0..3).all(counts) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("no view counts for sessions".into());
        }
        stage.pass(APART)?;
    }
}

/// Starts a sender: it sends numbers until it is to stop, over as many sessions as that takes.
fn sender(which: usize, relays: &[Relay], group: &GroupName, stop: &Arc<AtomicBool>) -> SendingThread {
    let ends = Arc::new(AtomicBool::new(false));
    let addresses = (0..3).map(|at| Address::Unix(relays[(which + at) % 3].path().to_owned())).collect();
    let job = SendingJob { which, addresses, group: group.clone(), stop: Arc::clone(stop), ends: Arc::clone(&ends) };
    SendingThread { ends, thread: thread::spawn(move || job.run()) }
}

struct SendingJob {
    which: usize,
    addresses: Vec<Address>,
    group: GroupName,
    stop: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
}

impl SendingJob {
    fn run(self) -> Result<Sent, String> {
        let (mut sent, mut producer) = (Sent::default(), None);
        loop {
            let mut session = Session::connect(&self.addresses, options(producer)).map_err(text)?;
            (sent.begun, sent.fated) = (0, BTreeSet::new());
            if producer.is_some() {
                sent.count = ordered_before(&mut session)?;
            }
            producer = Some(session.producer());
            while !self.stop.load(Ordering::Relaxed) && !self.ends.load(Ordering::Relaxed) {
                self.send_next(&mut session, &mut sent)?;
            }
            if !self.ends.swap(false, Ordering::Relaxed) {
                let events = session.finish(PATIENCE).map_err(text)?;
                events.iter().for_each(|event| sent.note(event));
                sent.all_have_a_fate();
                return Ok(sent);
            }
            // As if its process had been killed: what has no fate is left as it is.
        }
    }

    fn send_next(&self, session: &mut Session, sent: &mut Sent) -> Result<(), String> {
        sent.count += 1;
        sent.begun += 1;
        let payload = [self.which as u64, sent.count].map(u64::to_be_bytes).concat();
        session.send(Service::Agreed, std::slice::from_ref(&self.group), &payload).map_err(text)?;
        while let Some(event) = session.receive(Duration::from_millis(1)).map_err(text)? {
            sent.note(&event);
        }
        Ok(())
    }
}

fn options(producer: Option<ProducerId>) -> SessionOptions {
    let connect = ConnectOptions::default().connect_within(Duration::from_secs(5)).without_shared_memory();
    let options = SessionOptions::default().connect(connect).reconnect_within(PATIENCE);
    producer.map_or(options.clone(), |producer| options.producer(producer))
}

/// How many of the sends of the sessions before are ordered: the next one goes on behind them.
fn ordered_before(session: &mut Session) -> Result<u64, String> {
    loop {
        match session.receive(PATIENCE).map_err(text)? {
            Some(SessionEvent::Resumed { ordered }) => return ordered.ok_or("the producer was forgotten".into()),
            Some(_) => {}
            None => return Err(format!("no answer within {PATIENCE:?}")),
        }
    }
}

impl Sent {
    fn note(&mut self, event: &SessionEvent) {
        let SessionEvent::Sent { send, fate } = event else { return };
        self.fates += 1;
        if !self.fated.insert(*send) {
            self.wrong.push(format!("send {send}: a second fate, {fate:?}"));
        }
        if !matches!(fate, Fate::Ordered { .. }) {
            self.wrong.push(format!("send {send}: {fate:?}"));
        }
    }

    /// A session that ended in good order has told the fate of each of its sends.
    fn all_have_a_fate(&mut self) {
        let (begun, fated) = (self.begun, self.fated.len());
        if begun != fated {
            self.wrong.push(format!("{begun} sends have {fated} fates"));
        }
    }
}

/// A member at the daemon that is not killed: what it hears, by sender.
fn listen(stage: &Stage<'_>, group: &GroupName) -> Result<JoinHandle<Heard>, String> {
    let mut client = Client::connect(&address(stage.directory, 2), &ConnectOptions::default()).map_err(text)?;
    client.join(group).map_err(text)?;
    while !matches!(client.receive(PATIENCE).map_err(text)?, Some(Event::GroupView(_))) {}
    Ok(thread::spawn(move || {
        let mut heard = vec![Vec::new(); SESSIONS];
        loop {
            let event = client.receive(2 * PATIENCE).map_err(text)?;
            let Some(event) = event else { return Err("nothing more came".into()) };
            let Event::Message(message) = event else { continue };
            let Some((which, number)) = message.payload().split_first_chunk::<8>() else { return Ok(heard) };
            let number = number.try_into().map_err(|_| "a message that nobody sends")?;
            let own = heard.get_mut(u64::from_be_bytes(*which) as usize).ok_or("a message that nobody sends")?;
            own.push(u64::from_be_bytes(number));
        }
    }))
}

/// Says the end, and returns what the member heard up to there.
fn finish(relays: &[Relay], group: &GroupName, member: JoinHandle<Heard>) -> Heard {
    let mut last = Session::connect(&[Address::Unix(relays[2].path().to_owned())], options(None)).map_err(text)?;
    last.send(Service::Agreed, std::slice::from_ref(group), b"").map_err(text)?;
    last.finish(PATIENCE).map_err(text)?;
    member.join().map_err(|_| "the member panicked".to_owned())?
}

/// What a reader read is what the member heard: each message once, in order.
fn judge_reader(figures: &mut Figures, which: usize, read: &Read, heard: &[Vec<u64>]) {
    for (sender, (own, wanted)) in read.numbers.iter().zip(heard).enumerate() {
        let wrong = own.iter().zip(wanted).position(|(read, heard)| read != heard);
        figures.wants(own == wanted, || {
            let at = wrong.unwrap_or(own.len().min(wanted.len()));
            let (read, heard) = (own.get(at), wanted.get(at));
            format!(
                "reader {which} of sender {sender}: {read:?} instead of {heard:?} at {at}, {} of {}",
                own.len(),
                wanted.len()
            )
        });
    }
}

/// Each number once, in its order, and none left out.
fn judge(figures: &mut Figures, which: usize, sent: &Sent, heard: &[Vec<u64>]) {
    let own = &heard[which];
    let wrong = own.iter().zip(1..).find(|(heard, wanted)| *heard != wanted);
    figures.wants(wrong.is_none(), || {
        format!("sender {which}: {} heard, wanted {}", wrong.map_or(0, |w| *w.0), wrong.map_or(0, |w| w.1))
    });
    figures.wants(own.len() as u64 == sent.count, || format!("sender {which}: {} heard of {}", own.len(), sent.count));
    let first = sent.wrong.first().cloned().unwrap_or_default();
    figures.wants(sent.wrong.is_empty(), || format!("sender {which}: {} sends went wrong, {first}", sent.wrong.len()));
}

//! Clients that do not read: what is done about each, and for how long.
//!
//! Whoever keeps up costs a comparison for each thing told. What follows beyond a client's threshold depends on its
//! policy: it is sent away, or others wait for it, or what it has yet to read goes to disk.
use super::Sessions;
use crate::Effect;
use crate::clients::entry::ClientRecord;
use crate::clients::slow_terms::{SlowState, SlowTerms};
use crate::demotion::Demotions;
use crate::notice::Notice;
use consort_session::{Disconnect, DisconnectReason, SlowPolicies, SlowPolicy, SlowRule};
use consort_types::{ClientId, Duration, GroupName, Instant, NodeId, OrderWait};
use consort_wire::Bytes;
use std::collections::{BTreeSet, VecDeque};

/// How often those are looked at that do not read.
const LOOK: Duration = Duration::from_millis(100);
/// Who has read nothing for so long is told of.
const NOTABLE: Duration = Duration::from_secs(1);
/// How many of them the status names.
const NAMED: usize = 8;

/// Who does not read, and what is to be said and done of that.
#[derive(Debug, Default)]
pub(super) struct SlowClients {
    /// The rules for groups.
    rules: Vec<SlowRule>,
    /// Something was left in their outputs when they had read what they could, or others wait for them.
    stalled: BTreeSet<ClientId>,
    looked: Instant,
    /// Who has begun or ended to have others wait.
    changed: VecDeque<ClientId>,
    /// Those whose next request waits for a client that does not read.
    held: Vec<ClientId>,
    /// How many bytes lie there.
    pub spooled: u64,
    holds_begun: u64,
    spooled_total: u64,
    /// Who is made to leave its groups.
    pub demotions: Demotions,
}

impl SlowClients {
    /// A client that is gone, or sent away, holds up nobody and keeps nothing on disk: what the driver is to do for that.
    #[must_use]
    pub fn forget(&mut self, client: ClientId, state: &mut SlowState) -> Option<Effect> {
        let SlowState { holds_since, spooled, on_disk, .. } = std::mem::take(state);
        self.held.retain(|held| *held != client);
        self.demotions.forget(client);
        if !self.stalled.remove(&client) {
            return None;
        }
        self.changed.extend(holds_since.map(|_| client));
        self.spooled -= spooled;
        on_disk.then_some(Effect::DropSpool { client })
    }
}

impl Sessions {
    pub(crate) fn say_of_groups(&mut self, rules: Vec<SlowRule>) {
        self.slow.rules = rules;
    }

    /// What is to be done about a client that was let in; `Err` with the farewell of one that asks for what it may not have.
    pub(crate) fn agree(&mut self, client: ClientId) -> Result<(), Disconnect> {
        let Some(entry) = self.all.get_mut(&client) else { return Ok(()) };
        //= G60
        let asked = entry.session.slow();
        let (policy, allowed) = (self.limits.slow.policy, self.limits.slow.allowed.with(self.limits.slow.policy));
        let policy = asked.map_or(policy, |asked| asked.policy);
        if !allowed.has(policy) {
            return Err(not_allowed(policy, allowed));
        }
        entry.terms = SlowTerms::new(for_client(client, policy), asked, &self.limits);
        Ok(())
    }

    /// A client asks to join a group. What is said of the group holds for those that said nothing, if it is more patient
    /// than what holds for them already.
    pub(crate) fn note_group(&mut self, client: ClientId, group: &GroupName) {
        let Some(policy) = SlowRule::of(&self.slow.rules, group) else { return };
        let policy = for_client(client, policy);
        let Some(entry) = self.all.get_mut(&client).filter(|entry| entry.session.slow().is_none()) else { return };
        if policy.patience() > entry.terms.policy.patience() {
            let terms = SlowTerms::new(policy, None, &self.limits);
            entry.terms = SlowTerms { everywhere: false, ..terms };
        }
    }

    /// Whether those who send to this group wait for a client that has others wait.
    pub(crate) fn holds_group(&self, client: ClientId, group: &GroupName) -> bool {
        let everywhere = self.all.get(&client).is_some_and(|entry| entry.terms.everywhere);
        everywhere || SlowRule::of(&self.slow.rules, group) == Some(SlowPolicy::Block)
    }

    /// More waits for a client than it may without more ado. Whether it is sent away.
    #[cold]
    pub(super) fn on_behind(&mut self, client: ClientId) -> bool {
        let Some(entry) = self.all.get_mut(&client) else { return false };
        match entry.terms.policy {
            SlowPolicy::Disconnect => {}
            SlowPolicy::Spool => return self.spool(client),
            //= G65
            SlowPolicy::Demote if entry.joined => self.slow.demotions.begin(client),
            SlowPolicy::Demote => {}
            SlowPolicy::Block => {
                if !entry.slow.holds() && entry.joined {
                    entry.slow.holds_since = Some(self.notices.now());
                    self.slow.holds_begun += 1;
                    self.slow.stalled.insert(client);
                    self.slow.changed.push_back(client);
                    let name = entry.session.named().cloned();
                    self.notices.push(Notice::Holds { client, name, waiting: entry.session.output().len() });
                }
            }
        }
        let entry = self.all.get(&client);
        let Some((waiting, terms)) = entry.map(|entry| (entry.session.output().len(), entry.terms)) else {
            return false;
        };
        let most = if terms.policy == SlowPolicy::Disconnect { terms.from } else { self.limits.output_max };
        if waiting > most {
            let text = format!("{waiting} bytes wait to be read; this daemon keeps {most}");
            self.end(client, &Disconnect::new(DisconnectReason::Slow, text));
        }
        waiting > most
    }

    /// Has what a client does not read taken to disk. Whether it is sent away, for want of room.
    fn spool(&mut self, client: ClientId) -> bool {
        let Some(entry) = self.all.get_mut(&client) else { return false };
        //= G63
        let Some(output) = entry.session.spoolable() else { return false };
        if !output.is_spooling() {
            self.notices.push(Notice::Spools { client, name: entry.session.named().cloned() });
            self.slow.stalled.insert(client);
            if let Some(output) = entry.session.spoolable() {
                output.begin_spooling();
            }
        }
        self.move_spool(client);
        let Some(text) = self.beyond_spool(client) else { return false };
        self.end(client, &Disconnect::new(DisconnectReason::Slow, text));
        true
    }

    /// What is too much for the disk, or for its pace.
    fn beyond_spool(&self, client: ClientId) -> Option<String> {
        let entry = self.all.get(&client)?;
        let (spooled, most) = (entry.slow.spooled, entry.terms.disk);
        let in_memory = entry.session.output().in_memory() + entry.slow.unwritten;
        if spooled > most {
            return Some(format!("{spooled} bytes wait on disk to be read; this daemon keeps {most} there for one"));
        }
        if self.slow.spooled > self.limits.slow.spools {
            let (all, most) = (self.slow.spooled, self.limits.slow.spools);
            return Some(format!("{all} bytes wait on disk to be read by all clients; this daemon keeps {most} there"));
        }
        (in_memory > self.limits.output_max).then(|| {
            format!("{in_memory} bytes wait in memory: the disk is too slow for what this client does not read")
        })
    }

    /// Takes to disk what is to go there, and asks for what a client is to read next, if that lies there.
    fn move_spool(&mut self, client: ClientId) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let Some(output) = entry.session.spoolable().filter(|output| output.is_spooling()) else { return };
        while let Some(bytes) = output.next_to_spool() {
            entry.slow.unwritten += bytes.len();
            entry.slow.on_disk = true;
            self.slow.spooled_total += bytes.len() as u64;
            self.effects.push_back(Effect::Spool { client, bytes });
        }
        if let Some(len) = output.next_to_read() {
            self.effects.push_back(Effect::Unspool { client, len });
        } else if !output.is_spooling() && std::mem::take(&mut entry.slow.on_disk) {
            self.effects.push_back(Effect::DropSpool { client });
        }
        entry.account(&mut self.outputs);
        entry.account_spool(&mut self.slow.spooled);
        if entry.session.wakes() {
            self.writable.push_back(client);
        }
    }

    /// So many bytes are on disk.
    pub(crate) fn spool_written(&mut self, client: ClientId, n: usize) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.slow.unwritten = entry.slow.unwritten.saturating_sub(n);
        }
    }

    /// What was asked for was read from disk.
    pub(crate) fn spool_read(&mut self, client: ClientId, bytes: Bytes) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let Some(output) = entry.session.spoolable().filter(|output| output.is_spooling()) else { return };
        if !output.put_read(bytes) {
            return self.spool_failed(client, "something else was read than was written");
        }
        self.move_spool(client);
    }

    /// The disk does not keep, or give back, what it should.
    pub(crate) fn spool_failed(&mut self, client: ClientId, why: &str) {
        if self.all.get(&client).is_none_or(|entry| !entry.session.output().is_spooling()) {
            return;
        }
        let text = format!("what this client has yet to read cannot be kept on disk: {why}");
        self.end(client, &Disconnect::new(DisconnectReason::SpoolFailed, text));
    }

    /// A client has taken `n` bytes, and something is left or it was slow before.
    #[cold]
    pub(super) fn note_unread(&mut self, now: Instant, client: ClientId, n: usize) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let left = entry.session.output().len();
        if left == 0 {
            entry.slow.unread_since = None;
        } else if n > 0 || entry.slow.unread_since.is_none() {
            entry.slow.unread_since = Some(now);
        }
        //= G62
        if entry.slow.holds() && left <= entry.terms.from / 2 {
            entry.slow.holds_since = None;
            self.slow.changed.push_back(client);
        }
        // Whoever is spooled for has something left.
        match entry.slow.unread_since.or(entry.slow.holds_since) {
            Some(_) => self.slow.stalled.insert(client),
            None => self.slow.stalled.remove(&client),
        };
        self.move_spool(client);
    }

    /// Sends those away whose time is over.
    pub(crate) fn end_slow(&mut self, now: Instant) {
        if self.next_slow().is_none_or(|at| at > now) {
            return;
        }
        self.slow.looked = now;
        let late = |client: &ClientId| {
            let entry = self.all.get(client)?;
            Some((*client, entry.terms.policy, entry.overdue(now)?))
        };
        let late: Vec<_> = self.slow.stalled.iter().filter_map(late).collect();
        for (client, policy, text) in late {
            match policy {
                SlowPolicy::Demote => self.slow.demotions.begin(client),
                _ => self.end(client, &Disconnect::new(DisconnectReason::Slow, text)),
            }
        }
    }

    pub(crate) fn next_slow(&self) -> Option<Instant> {
        (!self.slow.stalled.is_empty()).then(|| self.slow.looked + LOOK)
    }

    /// Who has begun or ended to have others wait, and whether it has them wait now.
    pub(crate) fn next_hold(&self) -> Option<(ClientId, bool)> {
        let client = *self.slow.changed.front()?;
        Some((client, self.all.get(&client).is_some_and(|entry| entry.slow.holds())))
    }

    pub(crate) fn has_said_hold(&mut self) {
        self.slow.changed.pop_front();
    }

    /// All that have others wait are to be told of again.
    pub(crate) fn say_holds_again(&mut self) {
        let holding = self.slow.stalled.iter().filter(|client| self.all.get(client).is_some_and(|e| e.slow.holds()));
        self.slow.changed = holding.copied().collect();
    }

    /// A client's next request waits for another client, or for room in the log, until [`Self::release_held`].
    pub(crate) fn hold_back(&mut self, client: ClientId, cause: OrderWait) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.paused = true;
            entry.waits_for = Some(cause);
            self.slow.held.push(client);
        }
    }

    /// Whether a client's request was held back just now.
    pub(crate) fn waits_for_client(&self, client: ClientId) -> bool {
        self.all.get(&client).is_some_and(|entry| entry.waits_for.is_some())
    }

    /// What the client waits for that waited first.
    pub(crate) fn held_by(&self) -> Option<OrderWait> {
        self.slow.held.iter().find_map(|client| self.all.get(client)?.waits_for)
    }

    /// What a client waits for, if one waits for something else than the order.
    pub(crate) fn first_cause(&self) -> Option<OrderWait> {
        self.held_by().or_else(|| self.all.values().find_map(|entry| entry.unread_for))
    }

    /// Who is made to leave its groups.
    pub(crate) const fn demotions(&mut self) -> &mut Demotions {
        &mut self.slow.demotions
    }

    /// Whether a client asked itself for what is done about it.
    pub(crate) fn chose_policy(&self, client: ClientId) -> bool {
        self.all.get(&client).is_some_and(|entry| entry.session.slow().is_some())
    }

    /// Those that wait for other clients, or for room in the log, try again.
    pub(crate) fn release_held(&mut self) {
        for client in std::mem::take(&mut self.slow.held) {
            if let Some(entry) = self.all.get_mut(&client) {
                entry.waits_for = None;
                self.paused.push_back(client);
            }
        }
    }

    /// Who does not read, for the status: the worst first.
    pub(crate) fn slow_clients(&self, now: Instant, node: NodeId) -> String {
        let all = self.slow.stalled.iter().filter_map(|client| Some((*client, self.all.get(client)?)));
        let mut found: Vec<_> = all.filter(|(_, entry)| entry.is_worth_telling(now)).collect();
        found.sort_by_key(|(_, entry)| std::cmp::Reverse((entry.slow.holds(), entry.session.output().len())));
        let more = found.len().saturating_sub(NAMED);
        let mut words: Vec<_> =
            found.iter().take(NAMED).map(|(client, entry)| entry.tell(*client, node, now)).collect();
        words.extend((more > 0).then(|| format!("and {more} more")));
        words.join("; ")
    }

    pub(super) fn observe_slow(&self, see: &mut dyn FnMut(&str, u64)) {
        let holding = self.slow.stalled.iter().filter(|client| self.all.get(client).is_some_and(|e| e.slow.holds()));
        let worth = |client: &&ClientId| self.all.get(*client).is_some_and(|e| e.is_worth_telling(self.notices.now()));
        see("clients_unread", self.slow.stalled.iter().filter(worth).count() as u64);
        see("clients_holding", holding.count() as u64);
        see("clients_held", self.slow.held.len() as u64);
        see("client_holds", self.slow.holds_begun);
        see("client_demotions", self.slow.demotions.begun);
        see("client_spooled_bytes", self.slow.spooled);
        see("client_bytes_spooled", self.slow.spooled_total);
    }
}

impl ClientRecord {
    /// Counts what lies on disk for it, where all is counted.
    fn account_spool(&mut self, all: &mut u64) {
        let spooled = self.session.output().spooled();
        *all = *all + spooled - std::mem::replace(&mut self.slow.spooled, spooled);
    }

    /// Why it is sent away now, if its time is over.
    fn overdue(&self, now: Instant) -> Option<String> {
        let most = self.terms.time?;
        let (since, what) = match self.terms.policy {
            SlowPolicy::Block => {
                (self.slow.holds_since?, "those who send to its groups have waited for it to read for")
            }
            SlowPolicy::Disconnect | SlowPolicy::Spool | SlowPolicy::Demote => {
                (self.slow.unread_since?, "it has read nothing for")
            }
        };
        let (lasted, waiting) = (now.since(since), self.session.output().len());
        (lasted > most && !self.session.is_closed()).then(|| {
            format!("{what} {} ms, {} are allowed; {waiting} bytes wait", lasted.as_millis(), most.as_millis())
        })
    }

    /// Whether it is slow for longer than a moment.
    fn is_worth_telling(&self, now: Instant) -> bool {
        let unread = self.slow.unread_since.is_some_and(|since| now.since(since) >= NOTABLE);
        unread || self.slow.holds() || self.session.output().is_spooling()
    }

    /// How it is slow, for people.
    fn tell(&self, client: ClientId, node: NodeId, now: Instant) -> String {
        let name = self.session.named().map_or_else(|| client.to_string(), |name| format!("#{name}#{node}"));
        let (output, since) = (self.session.output(), self.slow.holds_since.or(self.slow.unread_since));
        let lasted = since.map_or(0, |since| now.since(since).as_millis());
        let does = if self.slow.holds() { "has its groups wait" } else { "reads nothing" };
        let spooled = match output.spooled() {
            0 => String::new(),
            bytes => format!(", {bytes} of them on disk"),
        };
        format!("{name} {does} for {lasted} ms, policy {}: {} bytes wait{spooled}", self.terms.policy, output.len())
    }
}

/// What Spread clients are to read is not kept on disk, and they do not read by position.
fn for_client(client: ClientId, policy: SlowPolicy) -> SlowPolicy {
    match policy {
        SlowPolicy::Spool | SlowPolicy::Demote if client.speaks_spread() => SlowPolicy::Disconnect,
        policy => policy,
    }
}

fn not_allowed(policy: SlowPolicy, allowed: SlowPolicies) -> Disconnect {
    let names = SlowPolicy::ALL.iter().filter(|policy| allowed.has(**policy)).map(|policy| policy.name());
    let names: Vec<_> = names.collect();
    let text = format!(
        "this daemon does not let clients ask for the slow policy {policy}, only for {}; ask for one of them, or name it in \
         `slow_allowed` below [clients]",
        names.join(", ")
    );
    Disconnect::new(DisconnectReason::NotAllowed, text)
}

//! All sessions of one node, and who of them waits for what.
use crate::backlog::Backlog;
use crate::begun::Begun;
use crate::door::{Door, Placed, Telling, Wish};
use crate::entry::Entry;
use consort_session::listing::{Connection, Transport};
use consort_session::{ClientName, Farewell, Limits, Offered, Parting, Refusal, Waits};
use consort_types::{ClientId, GroupName, Hold, Instant, MemberId, NodeId, OfferId};
use consort_wire::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

#[derive(Debug)]
pub(crate) struct Clients {
    limits: Limits,
    all: BTreeMap<ClientId, Entry>,
    /// By when each connection without a hello must have said one.
    silent: BTreeSet<(Instant, ClientId)>,
    /// Paused for want of room in the engine; first come first served.
    paused: VecDeque<ClientId>,
    /// Paused until there is time for answers again, likewise.
    asking: VecDeque<ClientId>,
    /// Gone, and not all daemons know it yet.
    leaving: VecDeque<ClientId>,
    closing: VecDeque<ClientId>,
    /// To be closed once their going is ordered.
    lingering: BTreeSet<ClientId>,
    writable: VecDeque<ClientId>,
    backlog: Backlog,
    begun: Begun,
    /// What the outputs of all cost.
    outputs: usize,
    progressed: Vec<ClientId>,
    /// Those who are offered messages before their place is final.
    optimists: BTreeSet<ClientId>,
    /// Whose names are free again.
    parted: Vec<(ClientId, ClientName)>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    accepted: u64,
    refused: u64,
    messages: u64,
    untold: u64,
    offers: u64,
    revokes: u64,
    message_bytes: u64,
    ended: BTreeMap<Parting, u64>,
    /// How often requests were seen to wait for long, by cause.
    waits: BTreeMap<&'static str, u64>,
}

impl Clients {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: BTreeMap::new(),
            silent: BTreeSet::new(),
            paused: VecDeque::new(),
            asking: VecDeque::new(),
            leaving: VecDeque::new(),
            closing: VecDeque::new(),
            lingering: BTreeSet::new(),
            writable: VecDeque::new(),
            backlog: Backlog::default(),
            begun: Begun::new(limits.frames_max, limits.frame_within),
            outputs: 0,
            progressed: Vec::new(),
            optimists: BTreeSet::new(),
            parted: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn open(&mut self, now: Instant, client: ClientId) {
        let hello_by = now + self.limits.hello_within;
        self.silent.insert((hello_by, client));
        self.all.insert(client, Entry::new(client, hello_by));
    }

    /// What carries a client's connection.
    pub(crate) fn carried_by(&mut self, client: ClientId, transport: Transport) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.transport = transport;
        }
    }

    /// The connections behind this one, by number; in how many groups each is, others know.
    pub(crate) fn after(&self, client: ClientId) -> impl Iterator<Item = Connection> {
        let behind = (Bound::Excluded(client), Bound::Unbounded);
        self.all.range(behind).map(|(client, entry)| entry.connection(*client, &self.limits))
    }

    /// The connection is gone, and what it sent and was not taken with it.
    pub(crate) fn forget(&mut self, client: ClientId) {
        let Some(entry) = self.all.remove(&client) else { return };
        self.backlog.forget(client);
        self.begun.finish(client);
        self.outputs -= entry.charge;
        self.silent.remove(&(entry.hello_by, client));
        self.part(client, entry.session.named().cloned(), entry.joined && entry.session.is_open());
    }

    /// A client's name is free again; its going is to be ordered if it was in any group.
    fn part(&mut self, client: ClientId, name: Option<ClientName>, joined: bool) {
        self.optimists.remove(&client);
        self.parted.extend(name.map(|name| (client, name)));
        if joined {
            self.leaving.push_back(client);
        }
    }

    /// Clients that are gone, and what they were called.
    pub(crate) fn next_parted(&mut self) -> Option<(ClientId, ClientName)> {
        self.parted.pop()
    }

    pub(crate) fn feed(&mut self, client: ClientId, bytes: Bytes) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.session.feed(bytes);
        }
    }

    /// What a client asks next. One that breaks the protocol is sent away.
    pub(crate) fn next(&mut self, now: Instant, client: ClientId) -> Option<Wish> {
        let entry = self.all.get_mut(&client)?;
        //= S20
        entry.held_back = entry.session.is_held_back(&self.limits);
        if entry.held_back {
            return None;
        }
        let session = &mut entry.session;
        let before = (session.refused(), session.progress_is_due());
        let next = session.next(&self.limits);
        self.counts.refused += session.refused() - before.0;
        if session.progress_is_due() && !before.1 {
            self.progressed.push(client);
        }
        match next {
            Ok(Some(wish)) => Some(wish),
            Ok(None) => {
                self.note_begun(now, client);
                self.note(client);
                None
            }
            Err(farewell) => {
                self.end(client, &farewell);
                None
            }
        }
    }

    pub(crate) fn get(&self, client: ClientId) -> Option<&Door> {
        self.all.get(&client).map(|entry| &entry.session)
    }

    /// Whether more may be read from a client that is known.
    pub(crate) fn may_read(&self, client: ClientId) -> bool {
        self.all.get(&client).is_some_and(Entry::may_read)
    }

    pub(crate) fn welcome(&mut self, client: ClientId, me: MemberId) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.session.welcome(me, &self.limits);
            self.optimists.extend(entry.session.is_optimistic().then_some(client));
            self.entered(client);
        }
    }

    /// The client's handshake is over.
    pub(crate) fn entered(&mut self, client: ClientId) {
        if let Some(entry) = self.all.get_mut(&client) {
            self.silent.remove(&(entry.hello_by, client));
        }
    }

    /// Lets a Spread client go on with its handshake under this name.
    pub(crate) fn name(&mut self, client: ClientId, name: ClientName, node: NodeId) {
        if let Some(entry) = self.all.get_mut(&client) {
            entry.session.name(name, node);
            if entry.session.is_open() {
                self.entered(client);
            }
            self.wake(client);
        }
    }

    /// Sees to it that what a session says before it is open is written, too.
    fn wake(&mut self, client: ClientId) {
        if self.all.get_mut(&client).is_some_and(|entry| entry.session.wakes()) {
            self.writable.push_back(client);
        }
    }

    /// Sends a client away whose name is another's.
    pub(crate) fn reject_name(&mut self, client: ClientId, name: &ClientName) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let farewell = entry.session.reject_name(name);
        self.end_unwelcome(client, &farewell);
    }

    /// The client's name under which it joins; from now on its going must be ordered.
    pub(crate) fn name_for_join(&mut self, client: ClientId) -> Option<ClientName> {
        let entry = self.all.get_mut(&client)?;
        entry.joined = true;
        entry.session.named().cloned()
    }

    pub(crate) fn accept(&mut self, client: ClientId) {
        if let Some(entry) = self.all.get_mut(&client) {
            self.counts.accepted += entry.session.accept();
        }
    }

    pub(crate) fn refuse(&mut self, client: ClientId, refusal: &Refusal) {
        if let Some(entry) = self.all.get_mut(&client) {
            if !entry.session.progress_is_due() {
                self.progressed.push(client);
            }
            entry.session.refuse(refusal);
            self.counts.refused += 1;
            self.note(client);
        }
    }

    /// A client's oldest request under way has its place, and changed nothing if there is a refusal.
    pub(crate) fn order(&mut self, client: ClientId, placed: Placed<'_>, refusal: Option<&Refusal>) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let was_due = entry.session.progress_is_due();
        entry.session.order(placed, refusal);
        if entry.session.progress_is_due() && !was_due {
            self.progressed.push(client);
        }
        let goes_on = entry.held_back && !entry.session.is_held_back(&self.limits);
        if refusal.is_some() {
            self.counts.refused += placed.requests();
            self.note(client);
        }
        if goes_on {
            self.pause(client);
        }
    }

    pub(crate) fn tell_message(&mut self, client: ClientId, telling: &Telling<'_>) {
        self.counts.messages += telling.messages as u64;
        self.counts.message_bytes += telling.payload.len() as u64;
        let mut told = true;
        self.tell_with(client, |session| told = session.tell_message(telling));
        self.counts.untold += if told { 0 } else { telling.messages as u64 };
    }

    pub(crate) fn has_optimists(&self) -> bool {
        !self.optimists.is_empty()
    }

    pub(crate) fn is_optimist(&self, client: ClientId) -> bool {
        self.optimists.contains(&client)
    }

    pub(crate) fn tell_offer(&mut self, client: ClientId, now: Instant, offered: &Offered) {
        self.counts.offers += 1;
        self.tell_with(client, |session| session.tell_offer(now, offered));
    }

    /// Takes an offer back from a client, if it has it.
    pub(crate) fn tell_revoke(&mut self, client: ClientId, now: Instant, offer: OfferId) {
        let mut revoked = false;
        self.tell_with(client, |session| revoked = session.tell_revoke(now, offer));
        self.counts.revokes += u64::from(revoked);
    }

    /// Tells a Spread client what was written for such.
    pub(crate) fn tell_membership(&mut self, client: ClientId, written: &Bytes, readers: usize) {
        self.tell_with(client, |session| session.tell_membership(written, readers));
    }

    pub(crate) fn tell_self_leave(&mut self, client: ClientId, group: &GroupName) {
        self.tell_with(client, |session| session.tell_self_leave(group));
    }

    pub(crate) fn tell(&mut self, client: ClientId, frames: &[u8]) {
        self.tell_with(client, |session| session.tell(frames));
    }

    /// The same for frames that `readers` clients are told.
    pub(crate) fn tell_shared(&mut self, client: ClientId, frames: &Bytes, readers: usize) {
        self.tell_with(client, |session| session.tell_shared(frames, readers));
    }

    fn tell_with(&mut self, client: ClientId, say: impl FnOnce(&mut Door)) {
        let Some(entry) = self.all.get_mut(&client).filter(|entry| entry.session.is_open()) else { return };
        say(&mut entry.session);
        if entry.session.wakes() {
            self.writable.push_back(client);
        }
        entry.account(&mut self.outputs);
        //= S43
        let (waiting, messages) = (entry.session.output().len(), entry.session.messages_waiting());
        self.backlog.grew(client, waiting);
        if let Some(most) = self.limits.spread_messages.filter(|most| messages > *most) {
            let text = format!("{messages} messages wait to be read; this daemon keeps {most} for a Spread client");
            self.end(client, &Farewell::new(Parting::Slow, text));
        } else if waiting > self.limits.output_max {
            let text = format!("{waiting} bytes wait to be read; this daemon keeps {}", self.limits.output_max);
            self.end(client, &Farewell::new(Parting::Slow, text));
        } else if self.outputs > self.limits.outputs_max {
            self.end_furthest_behind();
        }
    }

    /// All outputs together are too large: what the largest holds is given back. Whoever has no more than its share stays,
    /// though those that are gone may not have read their last frame yet.
    fn end_furthest_behind(&mut self) {
        let share = self.limits.outputs_max / self.all.len().max(1);
        let may_go = |entry: &Entry| !entry.cut && entry.charge > share;
        let largest = self.all.iter_mut().filter(|(_, entry)| may_go(entry)).max_by_key(|(_, entry)| entry.charge);
        let Some((client, entry)) = largest else { return };
        entry.cut = true;
        let text = format!(
            "{} bytes wait to be read by all clients, {} of them by this one; this daemon keeps {} for all",
            self.outputs, entry.charge, self.limits.outputs_max
        );
        let farewell = Farewell::new(Parting::Slow, text);
        if entry.session.is_closed() {
            entry.session.close(&farewell);
            entry.account(&mut self.outputs);
        } else {
            let client = *client;
            self.end(client, &farewell);
        }
    }

    /// Looks whether a client from which no whole frame is left has begun another, and whether there is room for it.
    fn note_begun(&mut self, now: Instant, client: ClientId) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        match entry.session.begun() {
            Some(frame) => {
                entry.begun = true;
                entry.wants_room = !self.begun.begin(now, client, frame);
            }
            None if entry.begun => {
                entry.begun = false;
                self.begun.finish(client);
            }
            None => return,
        }
        self.make_room(now);
    }

    /// Has those go on for whose frames there is room again.
    fn make_room(&mut self, now: Instant) {
        while let Some(client) = self.begun.next_with_room(now) {
            if let Some(entry) = self.all.get_mut(&client) {
                entry.wants_room = false;
                self.pause(client);
            }
        }
    }

    pub(crate) fn tell_viewers(&mut self, frames: &Bytes) {
        let viewers = self.all.iter().filter(|(_, entry)| entry.session.wants_views()).map(|(client, _)| *client);
        let viewers: Vec<_> = viewers.collect();
        viewers.iter().for_each(|client| self.tell_shared(*client, frames, viewers.len()));
    }

    /// Looks whose requests wait, and tells those that wait for long what for. Returns how long the longest waits.
    pub(crate) fn tell_waiting(&mut self, hold: Option<Hold>) -> Waits {
        let waiting = self.all.iter().filter(|(_, entry)| entry.paused || entry.session.outstanding() > 0);
        let waiting: Vec<_> = waiting.map(|(client, _)| *client).collect();
        let mut most = Waits::No;
        for client in waiting {
            self.tell_with(client, |session| most = most.max(session.tell_waiting(hold)));
        }
        if let Some(hold) = hold.filter(|_| most == Waits::Long) {
            *self.counts.waits.entry(hold.name()).or_default() += 1;
        }
        most
    }

    /// Looks after a client whose session may have said something by itself.
    fn note(&mut self, client: ClientId) {
        self.tell_with(client, |_| {});
    }

    /// Sends a client away whose hello was read but not granted: it never had a name here.
    pub(crate) fn end_unwelcome(&mut self, client: ClientId, farewell: &Farewell) {
        let parted = self.parted.len();
        self.end(client, farewell);
        self.parted.truncate(parted);
    }

    /// Sends a client away.
    pub(crate) fn end(&mut self, client: ClientId, farewell: &Farewell) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let (name, joined) = (entry.session.named().cloned(), entry.joined && entry.session.is_open());
        entry.session.close(farewell);
        if entry.session.wakes() {
            self.writable.push_back(client);
        }
        entry.account(&mut self.outputs);
        self.silent.remove(&(entry.hello_by, client));
        self.begun.finish(client);
        self.part(client, name, joined);
        //= S41
        if joined && client.speaks_spread() && farewell.parting == Parting::Goodbye {
            self.lingering.insert(client);
        } else {
            self.closing.push_back(client);
        }
        *self.counts.ended.entry(farewell.parting).or_default() += 1;
    }

    pub(crate) fn end_all(&mut self, farewell: &Farewell) {
        let open = self.all.iter().filter(|(_, entry)| !entry.session.is_closed());
        let open: Vec<_> = open.map(|(client, _)| *client).collect();
        open.into_iter().for_each(|client| self.end(client, farewell));
    }

    pub(crate) fn end_silent(&mut self, now: Instant) {
        while let Some((_, client)) = self.silent.first().copied().filter(|(by, _)| *by <= now) {
            let text = format!("no hello within {} ms", self.limits.hello_within.as_millis());
            self.end(client, &Farewell::new(Parting::Silent, text));
        }
    }

    /// Sends those away that have begun a frame and do not finish it.
    pub(crate) fn end_unfinished(&mut self, now: Instant) {
        while let Some(client) = self.begun.next_late(now) {
            let frame = self.all.get(&client).and_then(|entry| entry.session.begun());
            let Some((_, len)) = frame else { continue };
            let text = format!("a frame of {len} bytes was begun and not finished in time");
            self.end(client, &Farewell::new(Parting::Silent, text));
        }
        self.make_room(now);
    }

    pub(crate) fn next_unfinished(&self) -> Option<Instant> {
        self.begun.next_by()
    }

    pub(crate) fn next_silent(&self) -> Option<Instant> {
        self.silent.first().map(|(by, _)| *by)
    }

    /// Puts a client behind all others that wait for room.
    pub(crate) fn pause(&mut self, client: ClientId) {
        if self.set_paused(client) {
            self.paused.push_back(client);
        }
    }

    /// Puts a client behind all others whose questions wait for the next slice of answers.
    pub(crate) fn pause_asking(&mut self, client: ClientId) {
        if self.set_paused(client) {
            self.asking.push_back(client);
        }
    }

    /// Whether it is one more that waits.
    fn set_paused(&mut self, client: ClientId) -> bool {
        let Some(entry) = self.all.get_mut(&client) else { return false };
        let newly = !std::mem::replace(&mut entry.paused, true);
        if newly {
            self.note(client);
        }
        newly
    }

    /// Whether somebody waits for room.
    pub(crate) fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Whether somebody's questions wait.
    pub(crate) fn has_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    /// The client that waited longest for room.
    pub(crate) fn next_paused(&mut self) -> Option<ClientId> {
        std::iter::from_fn(|| self.paused.pop_front()).find(|client| go_on(&mut self.all, *client))
    }

    /// The client whose questions waited longest.
    pub(crate) fn next_asking(&mut self) -> Option<ClientId> {
        std::iter::from_fn(|| self.asking.pop_front()).find(|client| go_on(&mut self.all, *client))
    }

    /// Whose going is to be ordered next.
    pub(crate) fn next_leaving(&self) -> Option<ClientId> {
        self.leaving.front().copied()
    }

    pub(crate) fn has_left(&mut self) {
        self.leaving.pop_front();
    }

    /// A client's going is ordered, or never will be.
    pub(crate) fn gone(&mut self, client: ClientId) {
        if self.lingering.remove(&client) {
            self.closing.push_back(client);
        }
    }

    pub(crate) fn next_closing(&mut self) -> Option<ClientId> {
        self.closing.pop_front()
    }

    pub(crate) fn next_writable(&mut self) -> Option<ClientId> {
        let mut progressed = std::mem::take(&mut self.progressed);
        for client in progressed.drain(..) {
            self.tell_with(client, Door::tell_progress);
        }
        self.progressed = progressed;
        self.writable.pop_front()
    }

    pub(crate) fn written(&mut self, client: ClientId, n: usize) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        entry.session.written(n);
        entry.account(&mut self.outputs);
        self.backlog.read(client, n, entry.session.output().len());
        if entry.session.output().is_empty() && entry.session.is_closed() {
            self.all.remove(&client);
        }
    }

    /// So much was ordered, for whomever.
    pub(crate) const fn ordered(&mut self, bytes: usize) {
        self.backlog.ordered(bytes);
    }

    /// How many bytes clients can take soon, where that may have changed.
    pub(crate) fn room(&mut self, now: Instant) -> Option<usize> {
        self.backlog.look(now)
    }

    pub(crate) fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        see("clients", self.all.len() as u64);
        see("clients_paused", (self.paused.len() + self.asking.len()) as u64);
        see("requests_accepted", self.counts.accepted);
        see("requests_refused", self.counts.refused);
        see("messages_delivered", self.counts.messages);
        see("messages_untold", self.counts.untold);
        see("clients_optimistic", self.optimists.len() as u64);
        see("messages_offered", self.counts.offers);
        see("messages_revoked", self.counts.revokes);
        see("message_bytes_delivered", self.counts.message_bytes);
        let waiting = self.all.values().map(|entry| entry.session.output().len() as u64).sum();
        see("client_output_bytes", waiting);
        see("client_output_memory_bytes", self.outputs as u64);
        see("client_frames_begun_bytes", self.begun.bytes() as u64);
        see("clients_behind", self.backlog.len() as u64);
        self.counts.waits.iter().for_each(|(cause, count)| see(&format!("requests_waited_{cause}"), *count));
        self.counts.ended.iter().for_each(|(parting, count)| see(&format!("sessions_ended_{parting}"), *count));
    }
}

/// Takes a client's pause from it; false if it has gone.
fn go_on(all: &mut BTreeMap<ClientId, Entry>, client: ClientId) -> bool {
    all.get_mut(&client).map(|entry| entry.paused = false).is_some()
}

//! How clients go: by themselves, or sent away; and what is to be ordered then.
use super::Sessions;
use crate::Effect;
use crate::notice::Notice;
use consort_session::{ClientName, Disconnect, DisconnectReason};
use consort_types::{ClientId, Instant};

/// Giving so many bytes back takes as long as copying one.
const FREED: usize = 16;

impl Sessions {
    /// The connection is gone, and what it sent and was not taken with it.
    pub(crate) fn forget(&mut self, client: ClientId) {
        let Some(mut entry) = self.all.remove(&client) else { return };
        self.count_no_more(self.notices.now(), &entry.under_way);
        self.effects.extend(self.slow.forget(client, &mut entry.slow));
        self.backlog.forget(client);
        self.partial_frames.finish(client);
        self.outputs -= entry.charge;
        if !entry.session.is_closed() {
            self.leave_place(entry.session.only_asks());
        }
        self.silent.remove(&(entry.hello_by, client));
        self.heartbeats.remove(entry.heartbeat_at, client);
        let name = entry.session.named().cloned();
        if !entry.session.is_closed() {
            self.notices.push(Notice::Disconnected { client, name: name.clone() });
        }
        self.part(client, name, entry.joined && entry.session.is_open());
    }

    fn leave_place(&mut self, only_asks: bool) {
        *if only_asks { &mut self.asking_only } else { &mut self.served } -= 1;
    }

    /// A client's name is free again; its going is to be ordered if it was in any group.
    pub(super) fn part(&mut self, client: ClientId, name: Option<ClientName>, joined: bool) {
        self.optimistic.remove(&client);
        self.positioned.remove(&client);
        self.parted.extend(name.map(|name| (client, name)));
        if joined {
            self.leaving.push_back(client);
        }
    }

    /// Clients that are gone, and what they were called.
    pub(crate) fn next_parted(&mut self) -> Option<(ClientId, ClientName)> {
        self.parted.pop()
    }

    /// Sends a client away whose name is another's.
    pub(crate) fn reject_name(&mut self, client: ClientId, name: &ClientName) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let farewell = entry.session.reject_name(name);
        self.end_unwelcome(client, &farewell);
    }

    /// The token that a client showed, once.
    pub(crate) fn take_token(&mut self, client: ClientId) -> Option<String> {
        self.all.get_mut(&client)?.session.take_token()
    }

    /// Sends a client away that may not come in.
    pub(crate) fn deny(&mut self, client: ClientId, farewell: &Disconnect) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        entry.session.deny();
        self.end_unwelcome(client, farewell);
    }

    /// Turns a client back for which there is no place.
    pub(super) fn turn_back(&mut self, client: ClientId) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        let text = format!(
            "this daemon serves {} clients, as many as it may; connect to another daemon, or raise `most` below [clients]",
            self.limits.clients_most
        );
        let farewell = entry.session.turn_back(text);
        self.end_unwelcome(client, &farewell);
    }

    /// Sends a client away whose hello was read but not granted: it never had a name here.
    pub(crate) fn end_unwelcome(&mut self, client: ClientId, farewell: &Disconnect) {
        let parted = self.parted.len();
        self.end(client, farewell);
        self.parted.truncate(parted);
    }

    /// Sends a client away that was not sent away before.
    pub(crate) fn end(&mut self, client: ClientId, farewell: &Disconnect) {
        let Some(entry) = self.all.get_mut(&client).filter(|entry| !entry.session.is_closed()) else { return };
        let (name, joined) = (entry.session.named().cloned(), entry.joined && entry.session.is_open());
        self.work += entry.session.output().in_memory() / FREED;
        let only_asks = entry.session.only_asks();
        let identity = entry.identity.clone();
        entry.session.close(farewell);
        entry.cut = matches!(farewell.reason, DisconnectReason::Slow | DisconnectReason::SpoolFailed);
        if entry.session.wakes() {
            self.writable.push_back(client);
        }
        self.effects.extend(self.slow.forget(client, &mut entry.slow));
        entry.account(&mut self.outputs);
        self.silent.remove(&(entry.hello_by, client));
        self.heartbeats.remove(entry.heartbeat_at.take(), client);
        self.leave_place(only_asks);
        self.partial_frames.finish(client);
        self.notices.push(Notice::ended(client, name.clone(), identity, farewell));
        self.part(client, name, joined);
        //= S41
        if joined && client.speaks_spread() && farewell.reason == DisconnectReason::Goodbye {
            self.lingering.insert(client);
        } else {
            self.effects.push_back(Effect::Close { client });
        }
        *self.counts.ended.entry(farewell.reason).or_default() += 1;
    }

    pub(crate) fn end_all(&mut self, farewell: &Disconnect) {
        let open = self.all.iter().filter(|(_, entry)| !entry.session.is_closed());
        let open: Vec<_> = open.map(|(client, _)| *client).collect();
        open.into_iter().for_each(|client| self.end(client, farewell));
    }

    pub(crate) fn end_silent(&mut self, now: Instant) {
        while let Some((_, client)) = self.silent.first().copied().filter(|(by, _)| *by <= now) {
            let text = format!("no hello within {} ms", self.limits.hello_within.as_millis());
            self.end(client, &Disconnect::new(DisconnectReason::Silent, text));
        }
    }

    /// Sends those away that have begun a frame and do not finish it.
    pub(crate) fn end_unfinished(&mut self, now: Instant) {
        while let Some((client, number)) = self.partial_frames.next_late(now) {
            let Some(entry) = self.all.get(&client) else { continue };
            let Some((_, len)) = entry.session.begun().filter(|(begun, _)| *begun == number) else {
                // It is whole, and waits here.
                self.partial_frames.finish(client);
                continue;
            };
            if entry.paused || !entry.may_read() {
                self.partial_frames.postpone(now, client);
                continue;
            }
            let text = format!("a frame of {len} bytes was begun and not finished in time");
            self.end(client, &Disconnect::new(DisconnectReason::Silent, text));
        }
        self.make_room(now);
    }

    pub(crate) fn next_unfinished(&self) -> Option<Instant> {
        self.partial_frames.next_by()
    }

    pub(crate) fn next_silent(&self) -> Option<Instant> {
        self.silent.first().map(|(by, _)| *by)
    }

    /// Whether somebody's going is to be ordered.
    pub(crate) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Those whose going is to be ordered, in their order.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = ClientId> {
        self.leaving.iter().copied()
    }

    /// That of one of them was handed over.
    pub(crate) fn has_left(&mut self, client: ClientId) {
        if let Some(at) = self.leaving.iter().position(|other| *other == client) {
            self.leaving.remove(at);
        }
    }

    /// A client's going is ordered, or never will be.
    pub(crate) fn gone(&mut self, client: ClientId) {
        if self.lingering.remove(&client) {
            self.effects.push_back(Effect::Close { client });
        }
    }

    /// What the driver is to do next about a client, but for writing.
    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }
}

//! Clients in shared memory, looked at without a bell while there is traffic.
use super::{ClientConnection, ClientConnections, DriverCounters};
use crate::rings::{Declined, Rings};
use consort_shm::MemoryFile;
use consort_types::ClientId;

/// After so many turns in which a client neither sent nor read anything, its bell is waited for.
const IN_VAIN: u32 = 64;

impl ClientConnections {
    /// Takes a client's offer of shared memory, if there is some left.
    pub(super) fn share(&mut self, id: ClientId, file: MemoryFile, counters: &mut DriverCounters) {
        match self.try_share(id, file) {
            Ok(()) => {
                counters.clients_shared += 1;
                self.sharing += 1;
                self.watch(id);
            }
            Err(why) => {
                counters.clients_not_shared += 1;
                tracing::debug!(client = %id, %why, "uses its socket, not shared memory");
            }
        }
    }

    fn try_share(&mut self, id: ClientId, file: MemoryFile) -> Result<(), Declined> {
        if self.sharing >= self.sharing_max {
            return Err(Declined::Budget);
        }
        let Some(mut client) = self.open.remove(&id) else { return Ok(()) };
        let (stream, taken) = client.stream.share(file);
        client.stream = stream;
        self.open.insert(id, client);
        taken
    }

    /// Looks at a client every turn.
    pub(super) fn watch(&mut self, id: ClientId) {
        let Some(client) = self.open.get_mut(&id) else { return };
        if client.watched.replace(0).is_none() {
            client.stream.rings().into_iter().for_each(Rings::end_sleep);
            self.watched.push(id);
        }
    }

    /// A client was read. If it was left with unread bytes, it was not asked to ring for more: once there are none, it is to
    /// be looked at again.
    pub(super) fn see_read(&mut self, id: ClientId) {
        let Some(client) = self.open.get_mut(&id) else { return };
        if !client.has_bytes && client.watched.is_none() && client.stream.rings().is_some() {
            self.watch(id);
        }
    }

    /// Sees who of those that are watched has sent or read something.
    pub(crate) fn look(&mut self) {
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|id| {
            let news = self.note(*id);
            let Some(client) = self.open.get_mut(id) else { return false };
            let in_vain = client.watched.map_or(0, |in_vain| if news { 0 } else { in_vain + 1 });
            client.watched = Some(in_vain);
            in_vain < IN_VAIN || !client.begin_sleep()
        });
        self.watched = watched;
    }

    /// To be called before the loop sleeps: those that are watched ring from here on. Returns whether it may sleep: none
    /// of them has sent or read anything meanwhile.
    pub(crate) fn begin_sleep(&mut self) -> bool {
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|id| self.open.get_mut(id).is_some_and(|client| !client.begin_sleep()));
        for id in &watched {
            self.note(*id);
        }
        self.watched = watched;
        self.watched.is_empty()
    }

    /// Puts a client in turn for what it sent or read; returns whether there was something.
    fn note(&mut self, id: ClientId) -> bool {
        let Some(client) = self.open.get_mut(&id) else { return false };
        let (reads, writes) = (!client.has_bytes, client.full);
        let Some(rings) = client.stream.rings() else { return false };
        let (bytes, room) = (reads && rings.has_bytes(), writes && rings.has_room());
        if bytes {
            client.has_bytes = true;
            self.queue_reading(id);
        }
        if room {
            self.unblock(id);
        }
        bytes || room
    }
}

impl ClientConnection {
    /// Its bell is waited for; false if there is something already.
    fn begin_sleep(&mut self) -> bool {
        let (reads, writes) = (!self.has_bytes, self.full);
        let sleeps = self.stream.rings().is_none_or(|rings| rings.begin_sleep(reads, writes));
        match sleeps {
            true => self.watched = None,
            false => self.stream.rings().into_iter().for_each(Rings::end_sleep),
        }
        sleeps
    }
}

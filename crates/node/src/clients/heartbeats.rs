//! Clients that asked for it are told again and again that this daemon is at work.
use super::Sessions;
use crate::clients::client_session::ClientSession;
use consort_types::{ClientId, Duration, Instant};
use std::collections::BTreeSet;

/// No client is told so more often, whatever it asks for.
const SHORTEST: Duration = Duration::from_millis(100);
/// So many are told in one go; the others have their turn behind packets.
const AT_ONCE: usize = 64;

/// Who is to be told next, and when.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(BTreeSet<(Instant, ClientId)>);

impl Heartbeats {
    fn due(&self, now: Instant) -> Option<(Instant, ClientId)> {
        self.0.first().copied().filter(|(at, _)| *at <= now)
    }

    /// Forgets a client that was to be told at `at`.
    pub(super) fn remove(&mut self, at: Option<Instant>, client: ClientId) {
        if let Some(at) = at {
            self.0.remove(&(at, client));
        }
    }
}

impl Sessions {
    /// A client was let in.
    pub(super) fn begin_heartbeats(&mut self, now: Instant, client: ClientId) {
        let Some(entry) = self.all.get_mut(&client) else { return };
        if let Some(interval) = entry.session.heartbeats() {
            let at = now + interval.max(SHORTEST);
            entry.heartbeat_at = Some(at);
            self.heartbeats.0.insert((at, client));
        }
    }

    /// Tells those whose time it is. After a pause each is told once, however many were due.
    pub(crate) fn tell_heartbeats(&mut self, now: Instant) {
        for _ in 0..AT_ONCE {
            let Some((at, client)) = self.heartbeats.due(now) else { return };
            self.heartbeats.remove(Some(at), client);
            self.tell_with(client, ClientSession::tell_heartbeat);
            // It may have been sent away by that.
            if self.get(client).is_some_and(ClientSession::is_open) {
                self.begin_heartbeats(now, client);
            }
        }
    }

    pub(crate) fn next_heartbeat(&self) -> Option<Instant> {
        self.heartbeats.0.first().map(|(at, _)| *at)
    }
}

//! Who is let in, and what holds for those that are.
use super::Driver;
use super::log::AUDIT;
use crate::advisor::Advisor;
use crate::clock::unix_seconds;
use crate::error::RunError;
use crate::reload::Reload;
use consort_node::{ClientOrigin, Disconnect, DisconnectReason, Engine};
use consort_types::ClientId;

impl<E: Engine> Driver<E> {
    /// A client connected. Whoever may not speak is told so and sent away.
    pub(super) fn open(&mut self, client: ClientId) -> Result<(), RunError> {
        let (transport, identity) = (self.clients.transport(client), self.clients.identity(client));
        let origin = ClientOrigin { transport, identity, unix_seconds: unix_seconds() };
        self.node.open_client_from(self.now, client, origin);
        if self.clients.is_owners(client) {
            self.node.note_owner(client);
        }
        if let Some(why) = self.clients.objection(client) {
            let (who, reason) = (self.clients.describe(client), DisconnectReason::NotAllowed);
            tracing::warn!(target: AUDIT, %client, who, %reason, "client sent away: {why}");
            self.node.turn_away(self.now, client, &Disconnect::new(DisconnectReason::NotAllowed, why));
        }
        self.drain()
    }

    /// What clients may do has changed, or the key file was read again.
    pub(super) fn take_policy(&mut self) -> Result<(), RunError> {
        let Some(policy) = self.reload.as_ref().and_then(Reload::take) else { return Ok(()) };
        self.tick();
        self.take_keys();
        self.node.set_policy(self.now, policy);
        self.drain()
    }

    /// What a registry advises now: an engine that has heard it already does nothing.
    pub(super) fn take_advice(&mut self) -> Result<(), RunError> {
        self.tick();
        for advice in self.advisor.iter().flat_map(Advisor::all).collect::<Vec<_>>() {
            self.node.advise(self.now, advice);
        }
        self.drain()
    }
}

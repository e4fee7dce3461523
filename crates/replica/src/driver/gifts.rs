//! Gifts: what comes of one, and what is sent of others.
use super::{Driver, End};
use crate::engine::{Base, Gift};
use crate::gift::{Parts, Private};
use crate::machine::{Merge, Parted, Position, StateMachine};
use crate::options::Error;
use bytes::Bytes;
use consort::{ClientId, NodeId, Service};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long until a snapshot is written again that could not be written.
const AGAIN: Duration = Duration::from_secs(10);

impl<M: StateMachine> Driver<M> {
    pub(super) fn take_part(
        &mut self,
        from: (NodeId, ClientId),
        (ask, number, last): (u64, u64, bool),
        bytes: Bytes,
    ) -> Result<(), End> {
        if !self.engine.awaits(ask) {
            return Ok(());
        }
        let donor = self.names.iter().find(|(peer, _)| (peer.0.node, peer.1) == from);
        let Some((peer, donor)) = donor.map(|(peer, name)| (*peer, name.clone())) else { return Ok(()) };
        self.engine.on_served(ask, peer);
        let whole = self.incoming.take(from, (ask, number, last), bytes);
        let (id, next) = (self.engine.id(), self.incoming.next());
        let received = Private::Received { id, ask, next };
        self.session.send(Service::Agreed, &[donor], &received.encode())?;
        whole.map_or(Ok(()), |parts| self.take_gift(parts))
    }

    fn take_gift(&mut self, mut parts: Parts) -> Result<(), End> {
        let gift = parts.gift().map_err(|error| Error::Restore(error.to_string()))?;
        if matches!(gift.base, Base::Snapshot { .. }) {
            self.restore(&gift, &mut parts)?;
        }
        self.engine.on_gift(gift);
        Ok(())
    }

    /// The machine takes a snapshot in place of what it has.
    fn restore(&mut self, gift: &Gift, parts: &mut Parts) -> Result<(), End> {
        let mut machine = self.shared.machine.write().unwrap_or_else(PoisonError::into_inner);
        if self.engine.has_parted(gift) {
            let parted = Parted {
                own: Position(self.engine.applied().position),
                counts: Position(gift.line.end.position),
                is_other_history: gift.line.history != self.engine.history(),
            };
            tracing::warn!("the machine has parted from the history that counts: {parted:?}");
            if machine.on_parted(parted) == Merge::Stop {
                return Err(Error::Parted(parted).into());
            }
            // No checkpoint is of this history.
            self.saved = 0;
        }
        if let Err(error) = machine.restore(parts) {
            // What is restored in part must not be kept.
            self.checkpoints = None;
            return Err(Error::Restore(error.to_string()).into());
        }
        drop(machine);
        self.shared.state().position = Position(gift.line.end.position);
        Ok(())
    }

    pub(super) fn send_gifts(&mut self, now: Instant) -> Result<bool, End> {
        let mut any = false;
        let mut failed = Vec::new();
        for (id, donation) in &mut self.donations {
            let Some(name) = self.names.get(&donation.peer) else { continue };
            match donation.next(now) {
                Ok(Some(part)) => {
                    self.session.send(Service::Agreed, std::slice::from_ref(name), &part.encode())?;
                    any = true;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!("a snapshot cannot be written, and is tried again in {AGAIN:?}: {error}");
                    failed.push((*id, now + AGAIN));
                }
            }
        }
        failed.iter().for_each(|(id, _)| drop(self.donations.remove(id)));
        self.failed.extend(failed);
        for (id, _) in self.failed.extract_if(.., |(_, at)| now >= *at) {
            self.engine.on_not_donated(id);
        }
        self.act()?;
        Ok(any)
    }
}

//! One start of one sender, as its receivers know it: its keys, and what came of it.
use crate::cipher::{Forged, Key};
use crate::sealer::nonce;
use crate::view::{SealedView, Unopened};
use crate::window::Window;
use crate::{ADDRESSEE, COUNTER, KINDS, KeyEpoch, KeyRing, Salt};
use consort_types::{ClusterId, Instant, MemberId};
use consort_wire::envelope;

pub(crate) struct Session {
    pub(crate) from: MemberId,
    pub(crate) salt: Salt,
    /// What it asked this node last.
    pub(crate) asked: u32,
    /// When something of it was opened last.
    pub(crate) heard: Instant,
    /// Of each epoch that it was heard in.
    keys: Vec<(KeyEpoch, Key)>,
    windows: [Window; KINDS.len()],
}

impl Session {
    pub(crate) fn new(from: MemberId, salt: Salt) -> Self {
        Self { from, salt, asked: 0, heard: Instant::ZERO, keys: Vec::new(), windows: Default::default() }
    }

    pub(crate) fn is_of(&self, view: &SealedView) -> bool {
        (self.salt, self.from) == (view.salt, view.from)
    }

    /// Whatever was sealed before this greeting, which says so by these counters, is not taken any more, or never was.
    pub(crate) fn begin(&mut self, counters: &[u64; KINDS.len()], greeting: &SealedView) {
        self.windows = counters.map(Window::from);
        self.take(greeting);
    }

    fn take(&mut self, view: &SealedView) {
        self.windows.iter_mut().skip(view.place).take(1).for_each(|window| window.take(view.counter));
    }

    /// What was sealed in that epoch is opened with another key from here on, or with none.
    pub(crate) fn forget(&mut self, epoch: KeyEpoch) {
        self.keys.retain(|(known, _)| *known != epoch);
    }

    /// Decrypts a datagram in place unless it came before.
    pub(crate) fn open(
        &mut self,
        ring: &KeyRing,
        cluster: ClusterId,
        now: Instant,
        view: &SealedView,
        datagram: &mut [u8],
    ) -> Result<(), Unopened> {
        let window = self.windows.get(view.place).ok_or(Unopened::Foreign)?;
        window.check(view.counter).map_err(|_| Unopened::Replayed)?;
        let end = datagram.len().saturating_sub(ADDRESSEE + COUNTER);
        let (head, rest) = datagram.split_at_mut(envelope::LEN);
        let packet = rest.get_mut(..end - envelope::LEN).ok_or(Unopened::Foreign)?;
        let nonce = nonce(view.kind, view.to, view.counter);
        let forged = |Forged| Unopened::Forged(view.from.node);
        match self.keys.iter().find(|(epoch, _)| *epoch == view.epoch) {
            Some((_, key)) => key.open(nonce, head, packet).map_err(forged)?,
            None => {
                let key = ring.derive(view.epoch, cluster, self.from, &self.salt);
                let key = key.ok_or(Unopened::KeyEpoch(view.epoch.get(), view.from.node))?;
                key.open(nonce, head, packet).map_err(forged)?;
                // Only a key that has opened something is worth keeping.
                self.keys.push((view.epoch, key));
            }
        }
        self.take(view);
        self.heard = now;
        Ok(())
    }
}

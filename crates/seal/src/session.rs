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
    /// The counters that it began with, and the epoch in which it told them.
    began: Option<(KeyEpoch, Counters)>,
    /// Of each epoch that it was heard in.
    keys: Vec<(KeyEpoch, Key)>,
    /// The same. Where somebody else has a key, and seals in this sender's name, the next key's counters are the sender's
    /// alone again.
    windows: Vec<(KeyEpoch, Windows)>,
}

type Counters = [u64; KINDS.len()];
type Windows = [Window; KINDS.len()];

impl Session {
    pub(crate) fn new(from: MemberId, salt: Salt) -> Self {
        Self { from, salt, asked: 0, heard: Instant::ZERO, began: None, keys: Vec::new(), windows: Vec::new() }
    }

    pub(crate) fn is_of(&self, view: &SealedView) -> bool {
        (self.salt, self.from) == (view.salt, view.from)
    }

    /// Whatever was sealed before this greeting, which says so by these counters, is not taken any more, or never was.
    pub(crate) fn begin(&mut self, counters: &Counters, greeting: &SealedView) {
        self.began = Some((greeting.epoch, *counters));
        self.windows.clear();
        self.take(greeting);
    }

    /// What an epoch's windows are at first: with a newer key than it began with, it had sealed nothing before.
    fn first_windows(&self, epoch: KeyEpoch) -> Windows {
        match &self.began {
            Some((began, counters)) if epoch <= *began => counters.map(Window::from),
            _ => Windows::default(),
        }
    }

    fn check(&self, view: &SealedView) -> Result<(), Unopened> {
        //= K11
        let check = |windows: &Windows| {
            let window = windows.get(view.place).ok_or(Unopened::Foreign)?;
            window.check(view.counter).map_err(|_| Unopened::Replayed)
        };
        match self.windows.iter().find(|(epoch, _)| *epoch == view.epoch) {
            Some((_, windows)) => check(windows),
            None => check(&self.first_windows(view.epoch)),
        }
    }

    fn take(&mut self, view: &SealedView) {
        if self.windows.iter().all(|(epoch, _)| *epoch != view.epoch) {
            self.windows.push((view.epoch, self.first_windows(view.epoch)));
        }
        let windows = self.windows.iter_mut().filter(|(epoch, _)| *epoch == view.epoch);
        let window = windows.filter_map(|(_, windows)| windows.get_mut(view.place));
        window.for_each(|window| window.take(view.counter));
    }

    /// The key of that epoch is gone, or is another one now. One that is newer than the one in use may come back: its windows
    /// go on.
    pub(crate) fn forget(&mut self, epoch: KeyEpoch, in_use: KeyEpoch) {
        self.keys.retain(|(known, _)| *known != epoch);
        self.windows.retain(|(known, _)| *known != epoch || epoch > in_use);
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
        self.check(view)?;
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

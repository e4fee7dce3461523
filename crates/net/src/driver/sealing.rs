//! What the driver does about seals.
use super::Driver;
use super::log::{AUDIT, LOOK};
use crate::error::RunError;
use crate::reload::Reload;
use crate::seals::{self, Drops};
use consort_node::Engine;
use consort_seal::KeyEpoch;
use consort_types::{Instant, MemberId};
use std::path::PathBuf;
use std::time::Duration;

/// So long it is waited for the order before a key is followed that others were heard to use.
const FOLLOWS_AFTER: Duration = Duration::from_secs(1);
/// How often that is tried.
const FOLLOWS_EVERY: Duration = Duration::from_secs(10);

/// What is kept of keys beside the seals.
#[derive(Debug, Default)]
pub(super) struct KeyKeeping {
    /// Where the epoch stands that was adopted last.
    file: Option<PathBuf>,
    /// When a newer key is followed next.
    follow_at: Instant,
    /// Who lacks which key, as `status` tells.
    apart: String,
}

impl KeyKeeping {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file, ..Self::default() }
    }

    /// A start begins with that epoch, if its file has it.
    fn note(&self, epoch: u16) {
        let Some(path) = &self.file else { return };
        let new = path.with_extension("new");
        // Not synced: one that is lost is learnt from others.
        let written = std::fs::write(&new, format!("{epoch}\n")).and_then(|()| std::fs::rename(&new, path));
        if let Err(error) = written {
            let path = path.display();
            tracing::warn!(%path, epoch, %error, "cannot keep which key was adopted; the next start learns it from others");
        }
    }
}

impl<E: Engine> Driver<E> {
    /// Greets where that is due, follows keys, and tells people what did not open.
    pub(super) fn keep_seals(&mut self) -> Result<(), RunError> {
        if let Some(exhausted) = self.seals.exhausted() {
            return Err(exhausted.into());
        }
        if let Some(greeting) = self.seals.greeting(self.now) {
            self.outbox.push_probe(greeting);
        }
        let proven = self.seals.proven();
        if std::mem::replace(&mut self.proven, proven) != proven {
            self.note_facts();
        }
        self.follow_key()?;
        if let Some(epoch) = self.seals.expire(self.now) {
            tracing::info!(target: AUDIT, %epoch, "old key dropped");
            self.note_facts();
        }
        if self.now >= self.log.seals_at {
            self.log.seals_at = self.now + LOOK;
            let (news, apart) = (self.seals.news(self.now), self.seals.apart(self.now));
            if !news.is_empty() || apart != self.keys.apart {
                self.keys.apart = apart;
                news.into_iter().for_each(|drops: Drops| drops.tell(self.seals.epoch()));
                self.note_facts();
            }
        }
        Ok(())
    }

    /// Others seal with a newer key than this node, and it holds that.
    fn follow_key(&mut self) -> Result<(), RunError> {
        //= K06
        let Some((epoch, since)) = self.seals.newer() else { return Ok(()) };
        let in_view = self.node.view().is_some();
        if in_view && (self.now < self.keys.follow_at || self.now.since(since) < FOLLOWS_AFTER) {
            return Ok(());
        }
        self.keys.follow_at = self.now + FOLLOWS_EVERY;
        self.node.follow_key(self.now, epoch.get());
        self.drain()
    }

    /// All members of the view seal with this key from here on.
    pub(super) fn adopt_key(&mut self, epoch: u16, members: &[MemberId]) {
        let before = self.seals.epoch();
        let Some(epoch) = self.seals.adopt(self.now, epoch, members) else { return };
        if before != epoch.get() {
            self.keys.note(epoch.get());
            self.reload.iter().for_each(|reload| reload.note_adopted(epoch));
        }
        self.node.hold_keys(self.seals.key_names());
        self.note_facts();
    }

    /// The key file was read again.
    pub(super) fn take_keys(&mut self) {
        //= K08
        let Some(keys) = self.reload.as_ref().and_then(Reload::take_keys) else { return };
        if let Err(why) = self.node.may_hold_keys(&seals::names(&keys, |_| true)) {
            tracing::error!(target: AUDIT, "told by SIGHUP: keys stay as they were: {why}");
            return;
        }
        self.seals.hold(&keys);
        self.node.hold_keys(self.seals.key_names());
        let (epoch, keys_held) = (self.seals.epoch(), self.seals.epochs());
        tracing::info!(target: AUDIT, epoch, keys = keys_held, "told by SIGHUP: key file read again");
        self.reload.iter().for_each(|reload| reload.note_held(&keys));
        self.reload.iter().zip(KeyEpoch::new(epoch)).for_each(|(reload, epoch)| reload.note_adopted(epoch));
        self.note_facts();
    }
}

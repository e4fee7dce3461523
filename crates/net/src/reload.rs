//! What of a running loop's settings can change: what clients may do, what they are shown, and the cluster's keys.
use crate::stop::Stop;
use consort_node::ClientPolicy;
use consort_seal::{KeyEpoch, KeyRing};
use consort_tls::ServerTls;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What holds for clients now. Clones stand for the same: what one sets, a running loop takes up.
#[derive(Clone, Debug)]
pub struct Reload {
    now: Arc<Mutex<Reloaded>>,
    news: Stop,
}

#[derive(Debug, Default)]
struct Reloaded {
    policy: ClientPolicy,
    /// The keys that are held, if there are any.
    held: Option<KeyRing>,
    /// Those that are to be held instead.
    offered: Option<KeyRing>,
    /// What is shown to clients that speak TLS, if any may.
    tls: Option<ServerTls>,
}

impl Reload {
    /// This holds at first, and there are no keys.
    ///
    /// # Errors
    /// Those of making a pair of sockets: no descriptors left.
    pub fn new(policy: ClientPolicy) -> io::Result<Self> {
        let now = Reloaded { policy, ..Reloaded::default() };
        Ok(Self { now: Arc::new(Mutex::new(now)), news: Stop::new()? })
    }

    /// The same with these keys.
    #[must_use]
    pub fn with_keys(self, keys: Option<KeyRing>) -> Self {
        self.lock().held = keys;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Reloaded> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on this holds; a running loop takes it up at once.
    pub fn set(&self, policy: ClientPolicy) {
        self.lock().policy = policy;
        self.news.set();
    }

    /// These keys are to be held from here on; a running loop takes them up at once, or logs why it cannot.
    pub fn offer_keys(&self, keys: KeyRing) {
        self.lock().offered = Some(keys);
        self.news.set();
    }

    /// The keys that are held, if there are any, the one in use to seal with.
    pub fn keys(&self) -> Option<KeyRing> {
        self.lock().held.clone()
    }

    /// What is shown to clients that speak TLS from the start on.
    pub fn note_tls(&self, tls: Option<ServerTls>) {
        self.lock().tls = tls;
    }

    /// This is shown to clients that connect by TLS from here on. False where no client may.
    pub fn set_tls(&self, tls: &ServerTls) -> bool {
        self.lock().tls.as_ref().map(|shown| shown.replace(tls)).is_some()
    }

    /// What holds now.
    pub fn now(&self) -> ClientPolicy {
        self.lock().policy.clone()
    }

    /// The keys that were offered last and not looked at yet.
    pub(crate) fn take_keys(&self) -> Option<KeyRing> {
        self.lock().offered.take()
    }

    /// The loop holds these.
    pub(crate) fn note_held(&self, keys: &KeyRing) {
        self.lock().held = Some(keys.clone());
    }

    /// The loop has adopted a key: what starts anew begins with it.
    pub(crate) fn note_adopted(&self, epoch: KeyEpoch) {
        let mut now = self.lock();
        let adopted = now.held.as_ref().and_then(|held| held.sealing_with(epoch));
        let adopted = adopted.map(|held| held.without(|older| older < epoch));
        now.held = adopted.or(now.held.take());
    }

    /// What was set since it was last asked for.
    pub(crate) fn take(&self) -> Option<ClientPolicy> {
        self.news.take().then(|| self.now())
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.news.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_node::Rules;
    use consort_rights::Rule;

    #[test]
    fn what_is_set_is_taken_once_and_stays() {
        let reload = Reload::new(ClientPolicy::default()).unwrap();
        assert!(reload.take().is_none() && reload.now().rules.is_empty());
        let one = Rules::new(vec![Rule::default()]);
        reload.clone().set(ClientPolicy::default());
        reload.clone().set(ClientPolicy { rules: one.clone(), ..ClientPolicy::default() });
        assert_eq!(reload.take().map(|policy| policy.rules), Some(one.clone()));
        assert!(reload.take().is_none());
        assert_eq!(reload.now().rules, one);
    }

    #[test]
    fn keys_are_offered_once_and_what_starts_anew_begins_with_the_one_adopted() {
        let epoch = |number| KeyEpoch::new(number).unwrap();
        let keys = KeyRing::new(epoch(1), &[1; 32]);
        let reload = Reload::new(ClientPolicy::default()).unwrap().with_keys(Some(keys.clone()));
        reload.offer_keys(keys.with_other(epoch(2), &[2; 32]));
        let offered = reload.take_keys().unwrap();
        assert!(reload.take_keys().is_none());
        reload.note_held(&offered);
        reload.note_adopted(epoch(2));
        reload.note_adopted(epoch(7));
        assert_eq!(reload.keys().map(|keys| keys.sealing()), Some(epoch(2)));
    }
}

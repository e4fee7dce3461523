//! What of a running loop's settings can change: what clients may do.
use crate::stop::Stop;
use consort_node::ClientPolicy;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

/// What holds for clients now. Clones stand for the same: what one sets, a running loop takes up.
#[derive(Clone, Debug)]
pub struct Reload {
    now: Arc<Mutex<ClientPolicy>>,
    news: Stop,
}

impl Reload {
    /// This holds at first.
    ///
    /// # Errors
    /// Those of making a pair of sockets: no descriptors left.
    pub fn new(policy: ClientPolicy) -> io::Result<Self> {
        Ok(Self { now: Arc::new(Mutex::new(policy)), news: Stop::new()? })
    }

    /// From here on this holds; a running loop takes it up at once.
    pub fn set(&self, policy: ClientPolicy) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = policy;
        self.news.set();
    }

    /// What holds now.
    pub fn now(&self) -> ClientPolicy {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
}

//! What the clients of one identity have of what all share, and how much they may have.
use consort_rights::IdentityLimits;
use consort_session::ProducerId;
use consort_types::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most groups that an identity may be in at a daemon if no rule says otherwise: as many as one connection.
pub(super) const GROUPS: usize = consort_group::Groups::PER_CLIENT;
/// The most producers of an identity, likewise: a quarter of all.
const PRODUCERS: usize = consort_group::Producers::MOST / 4;
/// One of this number of connections stays free for other identities, likewise.
const KEPT_FREE: usize = 16;
/// How often it is looked which producers are forgotten, where that would make room.
const LOOK: Duration = Duration::from_secs(1);

/// What each identity has, by its name.
#[derive(Debug, Default)]
pub(super) struct Shares {
    all: BTreeMap<Arc<str>, Share>,
}

/// What one identity has.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// What its connections have.
    pub held: Holdings,
    /// How many connections there are, whether they have said hello or not.
    clients: usize,
    /// Those that it opened here, and some that are forgotten since.
    producers: BTreeSet<ProducerId>,
    looked: Option<Instant>,
}

/// What one connection has, or all of an identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holdings {
    /// 1 for a connection that was admitted and does not only ask.
    pub connections: usize,
    /// The groups that it is in, and its joins under way.
    pub groups: usize,
}

impl Shares {
    /// A connection is of this identity, and has that.
    pub fn enter(&mut self, name: &Arc<str>, has: Holdings) {
        let share = self.all.entry(Arc::clone(name)).or_default();
        share.clients += 1;
        share.held.connections += has.connections;
        share.held.groups += has.groups;
    }

    /// A connection is of this identity no more.
    pub fn leave(&mut self, name: &Arc<str>, had: Holdings) {
        let Some(share) = self.all.get_mut(name) else { return };
        share.clients -= 1;
        share.held.connections -= had.connections;
        share.held.groups -= had.groups;
        self.drop_if_empty(name);
    }

    pub fn get_mut(&mut self, name: &Arc<str>) -> Option<&mut Share> {
        self.all.get_mut(name)
    }

    /// What one of this name has.
    pub fn held(&self, name: &Arc<str>) -> Holdings {
        self.all.get(name).map_or(Holdings::default(), |share| share.held)
    }

    /// Releases the producers that are not known any more.
    pub fn forget_producers(&mut self, is_known: impl Fn(ProducerId) -> bool) {
        self.all.values_mut().for_each(|share| share.producers.retain(|producer| is_known(*producer)));
        self.all.retain(|_, share| share.clients > 0 || !share.producers.is_empty());
    }

    fn drop_if_empty(&mut self, name: &Arc<str>) {
        if self.all.get(name).is_some_and(|share| share.clients == 0 && share.producers.is_empty()) {
            self.all.remove(name);
        }
    }

    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        let most = |of: fn(&Share) -> usize| self.all.values().map(of).max().unwrap_or(0) as u64;
        see("identity_connections_most", most(|share| share.held.connections));
        see("identity_groups_most", most(|share| share.held.groups));
        see("identity_producers_most", most(|share| share.producers.len()));
    }
}

impl Share {
    /// Counts a producer that is to be opened.
    ///
    /// # Errors
    /// The most that it may have, where it has that many others.
    pub fn take_producer(
        &mut self,
        now: Instant,
        producer: ProducerId,
        limits: &IdentityLimits,
        is_known: impl Fn(ProducerId) -> bool,
    ) -> Result<(), usize> {
        let most = limits.producers.unwrap_or(PRODUCERS);
        if self.producers.contains(&producer) {
            return Ok(());
        }
        if self.producers.len() >= most && self.looked.is_none_or(|looked| now >= looked + LOOK) {
            self.looked = Some(now);
            self.producers.retain(|producer| is_known(*producer));
        }
        if self.producers.len() >= most {
            return Err(most);
        }
        self.producers.insert(producer);
        Ok(())
    }
}

/// How many connections one identity may have of all that there may be.
pub(super) const fn connections(limits: &IdentityLimits, all: usize) -> usize {
    match limits.connections {
        Some(most) => most,
        None => all - all / KEPT_FREE,
    }
}

/// Who says that an identity may have no more.
pub(super) fn why(said: Option<usize>, key: &str, most: usize) -> String {
    match said {
        Some(_) => format!("the rules allow it {most}"),
        None => format!("one identity may have {most} at a daemon, unless `{key}` of a rule says otherwise"),
    }
}

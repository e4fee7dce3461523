//! Who each client is, and what was found out about its rights.
use super::proof::{ClientOrigin, ClientPolicy, TokenHolder};
use super::shares::{self, Holdings, Shares};
use consort_group::Targets;
use consort_rights::{Bucket, Denial, Identity, IdentityLimits, Rules, Tokens, Verb};
use consort_session::ProducerId;
use consort_types::{ClientId, GroupName, Instant};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// So many identities whose bytes are counted are looked through before those that send nothing are forgotten.
const BUCKETS: usize = 1 << 10;

/// A join or leave of a client that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipStep {
    /// It asked to join.
    Join,
    /// It asked to leave.
    Leave,
    /// It is made to leave.
    Expelled(Denial),
    /// The same, as it does not read.
    Demoted,
}

/// The rights of all clients of a node.
#[derive(Debug, Default)]
pub(crate) struct RightsDesk {
    rules: Rules,
    pub(super) tokens: Tokens,
    pub(super) tcp_proves: bool,
    /// When tokens expire, and whose.
    pub(super) expiries: BTreeSet<(Instant, ClientId)>,
    /// How often they changed.
    version: u64,
    pub(super) all: BTreeMap<ClientId, ClientRights>,
    /// How many bytes each limited identity may send, by its name.
    buckets: BTreeMap<Arc<str>, Bucket>,
    shares: Shares,
    /// Who is to leave what, the next one first.
    expulsions: VecDeque<(ClientId, GroupName)>,
    counts: RightsCounts,
    /// How many rules were compared with a name, at most, since [`Self::take_judged`] was called last.
    judged: Cell<usize>,
}

#[derive(Debug, Default)]
struct RightsCounts {
    /// How often rules came.
    loads: u64,
    expulsions: u64,
}

#[derive(Debug)]
pub(super) struct ClientRights {
    pub(super) identity: Identity,
    /// What the identity is called; connections of one name share limits.
    name: Arc<str>,
    /// It is counted among those of that name, with what it holds.
    is_counted: bool,
    held: Holdings,
    /// Where it comes from, and what it has shown.
    pub(super) token: TokenHolder,
    limits: IdentityLimits,
    /// The list of targets that it may send to, which it named last.
    sends_to: Vec<u8>,
    /// Its joins and leaves under way, in their order.
    steps: VecDeque<MembershipStep>,
}

impl RightsDesk {
    /// Whether there are rules.
    pub fn is_on(&self) -> bool {
        !self.rules.is_empty()
    }

    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A number that changes with the rules.
    pub const fn version(&self) -> u64 {
        self.version
    }

    pub fn set(&mut self, policy: ClientPolicy) {
        (self.rules, self.tokens, self.tcp_proves) = (policy.rules, policy.tokens, policy.tcp_proves);
        self.version += 1;
        self.counts.loads += 1;
        self.expulsions.clear();
        self.buckets.clear();
        for client in self.all.values_mut() {
            client.sends_to.clear();
            client.limits = self.rules.limits(&client.identity);
        }
    }

    /// A client came from there.
    pub fn enter(&mut self, now: Instant, client: ClientId, origin: ClientOrigin) {
        let token = TokenHolder { transport: origin.transport, opened: now, unix: origin.unix_seconds, shown: None };
        self.identify(client, origin.identity);
        if let Some(known) = self.all.get_mut(&client) {
            known.token = token;
        }
    }

    /// A client came, or more is known of it.
    pub fn identify(&mut self, client: ClientId, identity: Identity) {
        let (name, limits) = (Arc::from(identity.to_string()), self.rules.limits(&identity));
        let known = self.all.entry(client).or_insert_with(ClientRights::unknown);
        self.shares.enter(&name, known.held);
        if known.is_counted {
            self.shares.leave(&known.name, known.held);
        }
        known.sends_to.clear();
        (known.identity, known.name, known.limits, known.is_counted) = (identity, name, limits, true);
    }

    pub fn forget(&mut self, client: ClientId) {
        if let Some(known) = self.all.remove(&client) {
            self.shares.leave(&known.name, known.held);
        }
        self.expiries.retain(|(_, other)| *other != client);
    }

    pub fn identity(&self, client: ClientId) -> &Identity {
        self.all.get(&client).map_or(&Identity::UNKNOWN, |known| &known.identity)
    }

    pub fn judge(&self, client: ClientId, group: &[u8], verb: Verb) -> Result<(), Denial> {
        self.judged.set(self.judged.get() + self.rules.len());
        self.rules.judge(self.identity(client), group, verb)
    }

    pub fn take_judged(&self) -> usize {
        self.judged.take()
    }

    /// The same without the reason, for those that ask about many groups.
    pub fn allows(&self, client: ClientId, group: &[u8], verb: Verb) -> bool {
        self.rules.allow(self.identity(client), group, verb)
    }

    /// Whether this is the list to which the client was allowed to send last.
    pub fn has_judged(&self, client: ClientId, targets: Targets<'_>) -> bool {
        self.all.get(&client).is_some_and(|known| known.sends_to == targets.as_bytes())
    }

    /// Whether a client may send to all of these. The list that it named last is compared as a whole.
    pub fn judge_targets(&mut self, client: ClientId, targets: Targets<'_>) -> Result<(), Denial> {
        if self.has_judged(client, targets) {
            return Ok(());
        }
        let known = self.all.entry(client).or_insert_with(ClientRights::unknown);
        targets.names().try_for_each(|name| {
            self.judged.set(self.judged.get() + self.rules.len());
            self.rules.judge(&known.identity, name, Verb::Send)
        })?;
        known.sends_to.clear();
        known.sends_to.extend_from_slice(targets.as_bytes());
        Ok(())
    }

    /// Counts what a client sends.
    ///
    /// # Errors
    /// When it may send more: nothing was counted.
    pub fn take_bytes(&mut self, now: Instant, client: ClientId, bytes: usize) -> Result<(), Instant> {
        let Some(known) = self.all.get(&client) else { return Ok(()) };
        let Some(rate) = known.limits.bytes_per_second else { return Ok(()) };
        if self.buckets.len() >= BUCKETS {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        let bucket = self.buckets.entry(Arc::clone(&known.name)).or_insert_with(|| Bucket::new(now, rate));
        bucket.take(now, bytes)
    }

    /// A client was admitted with a name, and does not only ask.
    pub fn admit(&mut self, client: ClientId) {
        self.hold(client, |held| held.connections = 1);
    }

    /// A client that was admitted is done, though its connection may still be there.
    pub fn part(&mut self, client: ClientId) {
        self.hold(client, |held| held.connections = 0);
    }

    /// Why a client's identity may have no more connections, of all that there may be.
    pub fn connections_denial(&self, client: ClientId, all: usize) -> Option<Denial> {
        let known = self.all.get(&client).filter(|known| known.held.connections == 0)?;
        let (held, most) = (self.shares.held(&known.name).connections, shares::connections(&known.limits, all));
        (held >= most).then(|| {
            let why = shares::why(known.limits.connections, "connections", most);
            Denial { text: format!("{} has {held} connections; {why}", known.name) }
        })
    }

    /// Why a client's identity may be in no more groups.
    pub fn groups_denial(&self, client: ClientId) -> Option<Denial> {
        let known = self.all.get(&client)?;
        let (held, most) = (self.shares.held(&known.name).groups, known.limits.groups.unwrap_or(shares::GROUPS));
        (held >= most).then(|| {
            let why = shares::why(known.limits.groups, "member_of", most);
            Denial { text: format!("{} is in {held} groups; {why}", known.name) }
        })
    }

    /// Counts a producer that a client wants to open.
    ///
    /// # Errors
    /// Its identity has as many as it may have.
    pub fn take_producer(
        &mut self,
        now: Instant,
        client: ClientId,
        producer: ProducerId,
        is_known: impl Fn(ProducerId) -> bool,
    ) -> Result<(), Denial> {
        let Some(known) = self.all.get(&client) else { return Ok(()) };
        let Some(share) = self.shares.get_mut(&known.name) else { return Ok(()) };
        share.take_producer(now, producer, &known.limits, is_known).map_err(|most| {
            let why = shares::why(known.limits.producers, "producers", most);
            let text = format!(
                "{} has opened {most} producers here that are not forgotten yet; {why}; sessions that are closed have \
                 theirs forgotten",
                known.name
            );
            Denial { text }
        })
    }

    /// Releases the producers that are not known any more.
    pub fn forget_producers(&mut self, is_known: impl Fn(ProducerId) -> bool) {
        self.shares.forget_producers(is_known);
    }

    fn hold(&mut self, client: ClientId, change: impl FnOnce(&mut Holdings)) {
        let Some(known) = self.all.get_mut(&client) else { return };
        let before = known.held;
        change(&mut known.held);
        if let Some(share) = self.shares.get_mut(&known.name) {
            share.held.connections += known.held.connections;
            share.held.connections -= before.connections;
            share.held.groups += known.held.groups;
            share.held.groups -= before.groups;
        }
    }

    /// A join or leave of a client is on its way into the order.
    pub fn begin_step(&mut self, client: ClientId, step: MembershipStep) {
        if step == MembershipStep::Join {
            self.hold(client, |held| held.groups += 1);
        }
        if let Some(known) = self.all.get_mut(&client) {
            known.steps.push_back(step);
        }
    }

    /// The oldest one under way is ordered, and had an effect or not.
    pub fn end_step(&mut self, client: ClientId, changed: bool) -> Option<MembershipStep> {
        let step = self.all.get_mut(&client)?.steps.pop_front()?;
        if changed != (step == MembershipStep::Join) {
            self.hold(client, |held| held.groups = held.groups.saturating_sub(1));
        }
        Some(step)
    }

    /// Has every client leave what it may not be in.
    pub fn expel_all<'g, G: Iterator<Item = &'g GroupName>>(&mut self, mut groups_of: impl FnMut(ClientId) -> G) {
        if !self.is_on() {
            return;
        }
        for (client, known) in &self.all {
            let denied = |group: &&GroupName| self.rules.judge(&known.identity, group.as_bytes(), Verb::Join).is_err();
            self.expulsions.extend(groups_of(*client).filter(denied).map(|group| (*client, group.clone())));
        }
    }

    /// Has a client leave a group if it may not be in it.
    pub fn expel_if_denied(&mut self, client: ClientId, group: &GroupName) {
        if self.judge(client, group.as_bytes(), Verb::Join).is_err() {
            self.expulsions.push_back((client, group.clone()));
        }
    }

    pub fn has_expulsions(&self) -> bool {
        !self.expulsions.is_empty()
    }

    pub fn next_expulsion(&self) -> Option<&(ClientId, GroupName)> {
        self.expulsions.front()
    }

    /// The next one is on its way into the order, or never will be.
    pub fn expelled(&mut self, accepted: bool) {
        let Some((client, group)) = self.expulsions.pop_front() else { return };
        if !accepted {
            return;
        }
        self.counts.expulsions += 1;
        let may_not = self.judge(client, group.as_bytes(), Verb::Join);
        let denial =
            may_not.err().unwrap_or_else(|| Denial { text: format!("the rules did not allow to be in {group}") });
        self.begin_step(client, MembershipStep::Expelled(denial));
    }

    pub fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        self.shares.observe(see);
        see("rights_rules", self.rules.len() as u64);
        see("rights_tokens", self.tokens.len() as u64);
        see("rights_loads", self.counts.loads);
        see("rights_expulsions", self.counts.expulsions);
    }
}

impl ClientRights {
    fn unknown() -> Self {
        Self {
            identity: Identity::UNKNOWN,
            name: Arc::from(""),
            is_counted: false,
            held: Holdings::default(),
            token: TokenHolder::default(),
            limits: IdentityLimits::default(),
            sends_to: Vec::new(),
            steps: VecDeque::new(),
        }
    }
}

//! What clients may do: who each is, what rules let it do, and who is made to leave because they changed.
//!
//! Rules concern this node's own clients. They are looked at when a request is read; what was taken before stays taken.
//! Without rules only shares are looked at: how much one identity may have of what all share.
mod desk;
mod lists;
mod proof;
mod shares;

pub(crate) use desk::{MembershipStep, RightsDesk};
pub(crate) use lists::COMPARE;
pub(crate) use lists::GroupScan;
pub use proof::{ClientOrigin, ClientPolicy};

use crate::{MembershipChange, Node, Notice};
use consort_group::ordered::{self, Ordered};
use consort_group::{ClientName, Targets};
use consort_order::{Engine, Refused};
use consort_rights::{Denial, Rules, Verb};
use consort_session::{Disconnect, DisconnectReason, Refusal, RefusalCause};
use consort_types::{ClientId, GroupName, Instant};
use consort_wire::Payload;

/// What making a client leave costs, counted as bytes copied.
const EXPELLING: usize = 1 << 10;
/// The number of no request: that of a refusal which concerns none.
pub(crate) const NO_REQUEST: u64 = 0;

impl<E: Engine> Node<E> {
    /// The same for whose clients this holds.
    #[must_use]
    pub fn with_policy(mut self, policy: ClientPolicy) -> Self {
        self.rights.set(policy);
        self
    }

    /// A client's connection was accepted, and this is known of where it comes from. Ids are never reused.
    pub fn open_client_from(&mut self, now: Instant, client: ClientId, origin: ClientOrigin) {
        self.open_client_over(now, client, origin.transport);
        self.clients.known_as(now, client, origin.identity.to_string());
        self.rights.enter(now, client, origin);
    }

    /// From here on this holds for clients. Who is in a group that it may not join any more is made to leave it: its leave
    /// is ordered like any other, and the client is told the cause. Whose token proves nothing any more is sent away.
    pub fn set_policy(&mut self, now: Instant, policy: ClientPolicy) {
        self.begin(now);
        self.rights.set(policy);
        self.end_unknown_tokens();
        self.readers.look_again();
        let me = self.datagrams.identity().me;
        let Self { rights, groups, .. } = self;
        rights.expel_all(|client| groups.groups_of((me, client)));
    }

    /// The rules that hold.
    pub const fn rights(&self) -> &Rules {
        self.rights.rules()
    }

    /// Whether a client may send to all that a message names; it is refused else. `None` where there is no time to find out
    /// in this slice, and the client waits for the next one.
    #[cold]
    pub(crate) fn may_say(&mut self, client: ClientId, payload: &Payload) -> Option<bool> {
        let Ok(Ordered::Multicast { told, .. }) = ordered::decode(payload) else { return Some(true) };
        let (has_time, rights) = (!self.has_answered_enough(), &mut self.rights);
        let judged = Targets::of(payload, told.targets_at, |targets| {
            (has_time || rights.has_judged(client, targets)).then(|| rights.judge_targets(client, targets))
        });
        match judged {
            Ok(None) => {
                self.clients.pause_asking(client);
                None
            }
            Ok(Some(Err(denial))) => {
                self.clients.refuse(client, &denied(denial));
                Some(false)
            }
            Ok(Some(Ok(()))) | Err(_) => Some(true),
        }
    }

    /// Whether a client may send so much now, which then counts; it waits else. To be asked last, for it is asked again then.
    #[cold]
    pub(crate) fn has_rate(&mut self, client: ClientId, payload: &Payload) -> bool {
        if !matches!(ordered::decode(payload), Ok(Ordered::Multicast { .. })) {
            return true;
        }
        let taken = self.rights.take_bytes(self.now, client, payload.len());
        if let Err(again) = taken {
            self.clients.pause_until(again, client);
        }
        taken.is_ok()
    }

    /// Why a client may not join a group, and close it by that; `None` where it may.
    pub(crate) fn join_refusal(&self, client: ClientId, group: &GroupName, closed: bool) -> Option<Refusal> {
        if self.rights.is_on()
            && let Err(denial) = self.judge_join(client, group, closed)
        {
            return Some(denied(denial));
        }
        let denial = self.rights.groups_denial(client)?;
        Some(Refusal::new(RefusalCause::TooManyGroups, denial.text))
    }

    fn judge_join(&self, client: ClientId, group: &GroupName, closed: bool) -> Result<(), Denial> {
        self.rights.judge(client, group.as_bytes(), Verb::Join)?;
        if closed { self.rights.judge(client, group.as_bytes(), Verb::Close) } else { Ok(()) }
    }

    /// Why a client may not be let in under this name, or at all; `None` where it may.
    pub(crate) fn entry_denial(&self, client: ClientId, name: Option<&ClientName>) -> Option<Disconnect> {
        let judge = |name: &ClientName| self.rights.rules().judge_name(self.rights.identity(client), name.as_str());
        let named = name.filter(|_| self.rights.is_on()).map_or(Ok(()), judge);
        let only_asks = self.clients.get(client).is_none_or(|session| session.only_asks());
        let many = || self.rights.connections_denial(client, self.clients.most()).filter(|_| !only_asks);
        let Denial { text } = named.err().or_else(many)?;
        Some(Disconnect::new(DisconnectReason::Denied, text))
    }

    /// Why a client may not read a group by position; `None` where it may.
    pub(crate) fn reading_denial(&self, client: ClientId, group: &GroupName) -> Option<String> {
        let judged = self.rights.is_on().then(|| self.rights.judge(client, group.as_bytes(), Verb::Receive));
        judged?.err().map(|denial| denial.text)
    }

    /// Has the next client leave a group that it may not be in any more, if there is one and room for it.
    pub(crate) fn expel_next(&mut self) -> bool {
        if !self.rights.has_expulsions() || !self.pending.may_tell() {
            return false;
        }
        let Some((client, group)) = self.rights.next_expulsion().cloned() else { return false };
        self.pending.spend(EXPELLING);
        let answer = self.ask_leave(client, &group);
        // Before the drain: an engine may deliver at once what it has just accepted.
        if !matches!(answer, Err(Refused::Full { .. })) {
            self.rights.expelled(answer.is_ok());
        }
        self.drain_engine();
        true
    }

    /// An own client's join or leave has its place. Whether it was the client that asked for it.
    pub(crate) fn end_step(&mut self, client: ClientId, group: &GroupName, changed: bool) -> bool {
        let step = self.rights.end_step(client, changed);
        let change = match step {
            Some(MembershipStep::Join) => Some(MembershipChange::Joined),
            Some(MembershipStep::Leave) => Some(MembershipChange::Left),
            Some(MembershipStep::Expelled(_)) => Some(MembershipChange::Expelled),
            Some(MembershipStep::Demoted) => Some(MembershipChange::Demoted),
            None => None,
        };
        if let Some(change) = change.filter(|_| changed) {
            self.clients.notices.push(Notice::Membership { client, group: group.clone(), change });
        }
        match step {
            Some(MembershipStep::Expelled(denial)) => {
                if changed {
                    self.clients.tell_refused(client, NO_REQUEST..NO_REQUEST + 1, &denied(denial));
                }
                false
            }
            Some(MembershipStep::Demoted) => {
                self.end_demotion(client, group, changed);
                false
            }
            Some(MembershipStep::Join) if changed && self.rights.is_on() => {
                // Rules that came while it was under way.
                self.rights.expel_if_denied(client, group);
                true
            }
            _ => true,
        }
    }
}

pub(crate) fn denied(denial: Denial) -> Refusal {
    Refusal::new(RefusalCause::Denied, denial.text)
}

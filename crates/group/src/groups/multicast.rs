//! Who gets a client's message.
use super::{GroupDelivery, Groups};
use crate::batch;
use crate::member::Member;
use crate::ordered::{self, MulticastLayout, Ordered};
use crate::private::PrivateName;
use crate::producers::Numbered;
use crate::spread_limits::NotRepresentable;
use crate::table::{ClientKey, GroupTable};
use crate::targets::Targets;
use consort_types::{ClientId, GroupName, MemberId};
use consort_wire::{Malformed, Payload};

/// Why nobody gets a message.
enum Obstacle {
    /// A closed group that the sender is not in.
    Closed(GroupName),
    /// A member that could not be told it.
    NotRepresentable(NotRepresentable, Member),
}

impl Groups {
    /// This daemon's clients that would get a payload if it had its place here, each once, and what stands where in it; none
    /// where it is no client's message, or nobody may get it. Nothing changes by asking.
    pub fn recipients(&mut self, sender: MemberId, payload: &Payload) -> Option<(MulticastLayout, &[ClientId])> {
        let Ok(Ordered::Multicast { client, told, numbered }) = ordered::decode(payload) else { return None };
        //= G40
        if numbered.is_some_and(|numbered| !self.producers.may_count(&numbered)) {
            return None;
        }
        match self.on_multicast((sender, client), payload, told, None) {
            Ok(GroupDelivery::Multicast { told, recipients, .. }) => Some((told, recipients)),
            _ => None,
        }
    }

    /// Who gets the message that was delivered last, until another is asked about.
    pub fn last_recipients(&self) -> &[ClientId] {
        &self.recipients
    }

    pub(super) fn on_multicast(
        &mut self,
        key: ClientKey,
        payload: &Payload,
        told: MulticastLayout,
        numbered: Option<Numbered>,
    ) -> Result<GroupDelivery<'_>, Malformed> {
        let client = key.1;
        let (messages, obstacle) = self.find_obstacle(key, payload, told)?;
        if let Some(number) = &numbered
            && let Err(cause) = self.producers.judge(number)
            && !(crate::mutated!(self, RefusedDelivered) && key.0 != self.table.me())
        {
            return Ok(GroupDelivery::NotNumbered { client, messages, cause });
        }
        //= E04
        // A refusal takes no number.
        let counts = !crate::mutated!(self, OwnSendsCounted) || key.0 == self.table.me();
        let takes = counts && (obstacle.is_none() || crate::mutated!(self, RefusalNumbered));
        if let Some(number) = numbered.as_ref().filter(|_| takes) {
            self.producers.advance(number, messages, self.place());
        }
        Ok(match obstacle {
            Some(Obstacle::Closed(group)) => GroupDelivery::Shut { client, messages, group },
            Some(Obstacle::NotRepresentable(cause, member)) => {
                GroupDelivery::NotRepresentable { client, messages, cause, member }
            }
            None => GroupDelivery::Multicast { client, messages, told, numbered, recipients: &self.recipients },
        })
    }

    /// How many messages it is, and what keeps them from their receivers, who are collected.
    fn find_obstacle(
        &mut self,
        key: ClientKey,
        payload: &Payload,
        told: MulticastLayout,
    ) -> Result<(usize, Option<Obstacle>), Malformed> {
        let left = payload.len().saturating_sub(told.targets_at);
        let judge = |targets: Targets<'_>| {
            let len = targets.encoded_len();
            //= G09
            let messages = if told.batch { batch::check(payload, told.body_at(), len)? } else { 1 };
            let shut = self.find_recipients(key, targets).map(Obstacle::Closed);
            let not_representable = self.find_not_representable(targets, left.saturating_sub(len));
            Ok((messages, shut.or(not_representable.map(|(cause, member)| Obstacle::NotRepresentable(cause, member)))))
        };
        Targets::of(payload, told.targets_at, judge)?
    }

    //= S21
    /// The first member who could not be told a message of `data` bytes, and why.
    fn find_not_representable(&mut self, targets: Targets<'_>, data: usize) -> Option<(NotRepresentable, Member)> {
        let cause = NotRepresentable::of(targets, data)?;
        for name in targets.names() {
            let Some(group) = self.table.look_up(name) else { continue };
            if let Some(member) = group.members.iter().find(|member| member.client.speaks_spread()) {
                return Some((cause, member.clone()));
            }
        }
        None
    }

    /// Collects this daemon's clients that get a message; the closed group that refuses it, if there is one.
    fn find_recipients(&mut self, sender: ClientKey, targets: Targets<'_>) -> Option<GroupName> {
        //= G05
        self.recipients.clear();
        let is_member = |table: &GroupTable, group: &GroupName| {
            table.client(sender).is_some_and(|client| client.groups.contains(group))
        };
        let guards = !crate::mutated!(self, ClosedToNobody);
        for name in targets.names() {
            if name.first() == Some(&b'#') {
                self.recipients.extend(self.private(name));
                continue;
            }
            let Some(group) = self.table.look_up(name) else { continue };
            if group.closed && guards {
                //= G07
                let group = group.name.clone();
                if !is_member(&self.table, &group) {
                    self.recipients.clear();
                    return Some(group);
                }
            }
            if let Some(group) = self.table.look_up(name) {
                self.recipients.extend_from_slice(&group.local);
            }
        }
        if targets.count() > 1 && !crate::mutated!(self, EachGroupAgain) {
            self.recipients.sort_unstable();
            self.recipients.dedup();
        }
        None
    }

    fn private(&self, target: &[u8]) -> Option<ClientId> {
        //= G06
        let (client, node) = PrivateName::read(target)?;
        self.called(client).filter(|_| node == self.table.me().node)
    }
}

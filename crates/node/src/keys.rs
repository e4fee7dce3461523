//! The keys with which the driver seals, as far as the order decides over them: [`Rotation`], wired to engine and clients.
use crate::rotation::{KeysKept, NotAdopted, Rotation, RotationStep};
use crate::{Effect, Node, Notice};
use consort_group::{KeyMessage, KeyName};
use consort_order::{Engine, Refused};
use consort_session::{RotationRefusal, RotationRefusalCause, RotationStatus};
use consort_types::{Class, ClientId, Instant, MemberId, Service};
use std::collections::BTreeSet;

/// Where this node's keys stand, and who waits for the next one.
#[derive(Debug)]
pub(crate) struct KeyDesk {
    pub(crate) rotation: Rotation,
    /// Clients of the daemon's owner: they may ask for it.
    owners: BTreeSet<ClientId>,
    waiting: Vec<(ClientId, KeyName)>,
    adopted: u64,
    ended: u64,
}

impl KeyDesk {
    pub(crate) const fn new(me: MemberId) -> Self {
        Self { rotation: Rotation::new(me), owners: BTreeSet::new(), waiting: Vec::new(), adopted: 0, ended: 0 }
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        self.owners.remove(&client);
        self.waiting.retain(|(waiting, _)| *waiting != client);
    }

    /// Whether something is to be said of keys.
    pub(crate) fn has_to_say(&self) -> bool {
        self.rotation.next_message().is_some()
    }

    pub(crate) fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        let Some(key) = self.rotation.in_use() else { return };
        see("key_epoch", u64::from(key.epoch));
        see("key_rotations", self.adopted);
        see("key_rotations_refused", self.ended);
        see("key_lacking_members", self.rotation.lacking().count() as u64);
    }
}

impl<E: Engine> Node<E> {
    /// The driver holds these keys from here on, the one that it seals with first.
    pub fn hold_keys(&mut self, keys: Vec<KeyName>) {
        self.keys.rotation.hold(keys);
    }

    /// Whether the driver may hold these keys in place of those that it holds.
    ///
    /// # Errors
    /// A key is missing that others count on.
    pub fn may_hold_keys(&self, keys: &[KeyName]) -> Result<(), KeysKept> {
        self.keys.rotation.may_hold(keys)
    }

    /// The driver has heard somebody seal with a key of this epoch, which is newer than its own.
    pub fn follow_key(&mut self, now: Instant, epoch: u16) {
        self.begin(now);
        self.keys.rotation.follow(epoch, self.view.is_some());
        self.take_key_steps();
    }

    /// A client is a process of the daemon's own user, or root's: it may ask for the next key.
    pub fn note_owner(&mut self, client: ClientId) {
        self.keys.owners.insert(client);
    }

    #[cold]
    pub(crate) fn on_rotate(&mut self, client: ClientId) {
        if !self.keys.owners.contains(&client) {
            let text = "only the daemon's own user and root may, at the daemon's Unix socket".to_owned();
            return self.tell_rotated(client, 0, Some((RotationRefusalCause::NotAllowed, text)));
        }
        // One answer at a time: else what waits for one has no bound.
        if let Some((_, key)) = self.keys.waiting.iter().find(|(waiting, _)| *waiting == client) {
            let busy = NotAdopted::Busy(key.epoch);
            return self.tell_rotated(client, 0, Some((cause(busy), busy.to_string())));
        }
        match self.keys.rotation.ask() {
            Ok(key) => self.keys.waiting.push((client, key)),
            Err(why) => {
                let epoch = if let NotAdopted::NothingNewer(in_use) = why { in_use } else { 0 };
                self.tell_rotated(client, epoch, Some((cause(why), why.to_string())));
            }
        }
    }

    /// Says the next thing of keys, if there is one.
    pub(crate) fn say_key(&mut self) -> bool {
        self.keys.has_to_say() && self.say_next_of_keys()
    }

    // Seldom and large: out of line, so that what is asked after every request stays small.
    #[cold]
    fn say_next_of_keys(&mut self) -> bool {
        let Some(said) = self.keys.rotation.next_message() else { return false };
        let answer = self.hand_over(Class::Client, Service::Agreed, said.encode().into());
        if !matches!(answer, Err(Refused::Full { .. })) {
            self.keys.rotation.has_said();
        }
        true
    }

    #[cold]
    pub(crate) fn on_key_message(&mut self, sender: MemberId, said: KeyMessage) {
        self.keys.rotation.deliver(sender, said);
        self.take_key_steps();
    }

    #[cold]
    pub(crate) fn take_key_steps(&mut self) {
        while let Some(step) = self.keys.rotation.poll_step() {
            match step {
                RotationStep::Promise(epoch) => self.effects.push_back(Effect::PromiseKey { epoch }),
                RotationStep::Adopt { key, members } => self.adopt_key(key, members),
                RotationStep::Ended { key, why } => {
                    self.keys.ended += 1;
                    self.clients.notices.push(Notice::KeyNotAdopted { epoch: key.epoch, why });
                    self.answer_waiting(key, Some((cause(why), why.to_string())));
                }
            }
        }
    }

    fn adopt_key(&mut self, key: KeyName, members: Vec<MemberId>) {
        self.keys.adopted += 1;
        self.clients.notices.push(Notice::KeyAdopted { epoch: key.epoch, members: members.len() });
        self.effects.push_back(Effect::SealWith { epoch: key.epoch, members });
        self.answer_waiting(key, None);
    }

    fn answer_waiting(&mut self, key: KeyName, refused: Option<(RotationRefusalCause, String)>) {
        let answered: Vec<_> = self.keys.waiting.extract_if(.., |(_, waits_for)| *waits_for == key).collect();
        for (client, _) in answered {
            self.tell_rotated(client, key.epoch, refused.clone());
        }
    }

    fn tell_rotated(&mut self, client: ClientId, epoch: u16, refused: Option<(RotationRefusalCause, String)>) {
        let refused = refused.map(|(cause, text)| RotationRefusal { cause, text });
        self.frames.clear();
        RotationStatus { epoch, refused }.put(&mut self.frames);
        self.answer(client);
    }
}

const fn cause(why: NotAdopted) -> RotationRefusalCause {
    match why {
        NotAdopted::Plain => RotationRefusalCause::Plain,
        NotAdopted::NothingNewer(_) => RotationRefusalCause::NothingNewer,
        NotAdopted::NoView | NotAdopted::ViewChanged => RotationRefusalCause::ViewChanged,
        NotAdopted::Minority { .. } => RotationRefusalCause::Minority,
        NotAdopted::Busy(_) => RotationRefusalCause::Busy,
        NotAdopted::Lacks(_) => RotationRefusalCause::Lacks,
        NotAdopted::Differs(_) => RotationRefusalCause::Differs,
        NotAdopted::Superseded(_) => RotationRefusalCause::Superseded,
    }
}

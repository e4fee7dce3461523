//! Sealing, as the driver uses it: one place for what leaves and what comes, shared by sockets and links.
use crate::options::{Peer, Security};
use crate::probe;
use consort_node::{Datagram, KeyName};
use consort_seal::{Exhausted, KeyEpoch, KeyRing, OVERHEAD, Opened, Opener, Sealer, Unopened};
use consort_types::{Instant, MemberId, NodeId};
use consort_wire::envelope::{self, EnvelopeView};
use consort_wire::{Bump, Bytes, BytesMut, Identity, Lane, Proof};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Memory for sealed datagrams is taken in chunks of that many bytes: what waits for one call, twice.
const CHUNK: usize = 128 << 10;
/// A node that lacks a key, or has one that this node lacks, is named while it was heard so lately.
const NAMED: Duration = Duration::from_secs(10);
/// People are told of one cause no more often.
const PAUSE: Duration = Duration::from_secs(60);

/// The seals of one node, or that it has none.
pub(crate) struct Seals {
    identity: Identity,
    sealed: Option<Sealed>,
    /// Other machines carry what nodes say to each other.
    exposed: bool,
    tally: RefCell<BTreeMap<&'static str, Tally>>,
}

/// What a node with a key has.
struct Sealed {
    sealer: RefCell<Sealer>,
    opener: RefCell<Opener>,
    room: RefCell<Bump>,
    exhausted: Cell<Option<Exhausted>>,
    nodes: Vec<NodeId>,
    /// Which epoch that is not held here nodes were heard to seal with, and when that was.
    apart: RefCell<BTreeMap<NodeId, (KeyEpoch, Instant)>>,
    now: Cell<Instant>,
}

/// What was dropped for one cause.
#[derive(Clone, Copy, Debug)]
struct Tally {
    count: u64,
    /// How many of them people know of, and since when.
    told: u64,
    told_at: Option<Instant>,
    last: Dropped,
}

/// Why a datagram was dropped before anything else looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It did not open.
    Unopened(Unopened),
    /// It is sealed, and there is no key here.
    Sealed(NodeId),
}

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadFrame {
    /// It does not open.
    #[error("a frame does not open: {0}")]
    Unopened(Unopened),
    /// It is not the one that follows.
    #[error("frames are missing, or came from elsewhere")]
    Misplaced,
}

/// Something to tell people: so many more were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drops {
    pub(crate) datagrams: u64,
    pub(crate) last: Dropped,
}

impl Seals {
    /// For the node that speaks as `identity` in a cluster of these nodes.
    ///
    /// # Errors
    /// There is a key and it cannot be used: the node must not talk plainly instead.
    pub(crate) fn new(identity: Identity, security: Option<Security>, peers: &[Peer]) -> io::Result<Self> {
        let sealed = security.map(|security| Sealed::new(identity, security, peers)).transpose()?;
        let exposed = peers.iter().any(|peer| !peer.token.ip().is_loopback());
        Ok(Self { identity, sealed, exposed, tally: RefCell::default() })
    }

    /// By what datagrams show, once they were opened here, that they are as they were written.
    pub(crate) const fn proof(&self) -> Proof {
        if self.sealed.is_some() { Proof::Opened } else { Proof::Checksum }
    }

    /// So many bytes a datagram is longer on its way than when it is written and read.
    pub(crate) const fn overhead(&self) -> usize {
        if self.sealed.is_some() { OVERHEAD } else { 0 }
    }

    /// The datagram as it leaves, to one node or to all. `None` if it must not: see [`Self::exhausted`].
    #[inline]
    pub(crate) fn seal(&self, to: Option<NodeId>, datagram: Datagram) -> Option<Datagram> {
        match &self.sealed {
            None => Some(datagram),
            Some(sealed) => sealed.seal(to, &datagram).map(|head| Datagram { head, body: Bytes::new() }),
        }
    }

    /// The datagram as it was written. `None` if it is not to be looked at.
    #[inline]
    pub(crate) fn open(&self, mut datagram: BytesMut) -> Option<Bytes> {
        let Some(sealed) = &self.sealed else {
            self.note_sealed(&datagram);
            return Some(datagram.freeze());
        };
        let opened = sealed.opener.borrow_mut().open(&mut datagram);
        match opened {
            Ok(Opened::Datagram { len, .. }) => {
                datagram.truncate(len);
                return Some(datagram.freeze());
            }
            Ok(Opened::Greeting { from, proven: true }) => tracing::info!(node = %from.node, "node has proven its key"),
            Ok(Opened::Greeting { .. }) => {}
            Err(Unopened::Foreign) if probe::is_probe(&datagram) => {}
            Err(cause) => {
                sealed.note_apart(cause);
                self.count(Dropped::Unopened(cause));
            }
        }
        None
    }

    /// What is sealed in this epoch is taken from here on; with `None`, not any more before it is adopted.
    pub(crate) fn promise(&self, epoch: Option<u16>) {
        if let Some(sealed) = &self.sealed {
            sealed.opener.borrow_mut().promise(epoch.and_then(KeyEpoch::new));
        }
    }

    /// Seals in that epoch from here on, as these members of a view do. Returns it, unless there is no key of it.
    pub(crate) fn adopt(&self, now: Instant, epoch: u16, members: &[MemberId]) -> Option<KeyEpoch> {
        let sealed = self.sealed.as_ref()?;
        let (epoch, mut opener) = (KeyEpoch::new(epoch)?, sealed.opener.borrow_mut());
        let adopted = opener.adopt(epoch, members, now);
        (adopted && sealed.sealer.borrow_mut().change_key(opener.ring(), &self.identity)).then_some(epoch)
    }

    /// Holds these keys from here on, the one in use among them.
    pub(crate) fn hold(&self, keys: &KeyRing) {
        if let Some(sealed) = &self.sealed {
            let held = sealed.opener.borrow_mut().hold(keys);
            debug_assert!(held, "it was asked whether they may be held");
            sealed.apart.borrow_mut().clear();
        }
    }

    /// The keys that are held, the one in use first, without an old one; none where nothing is sealed.
    pub(crate) fn key_names(&self) -> Vec<KeyName> {
        let Some(sealed) = &self.sealed else { return Vec::new() };
        let opener = sealed.opener.borrow();
        names(opener.ring(), |epoch| epoch >= opener.ring().sealing())
    }

    /// The newest epoch that somebody was heard to seal with, and since when, where that is not in use here.
    pub(crate) fn newer(&self) -> Option<(KeyEpoch, Instant)> {
        let sealed = self.sealed.as_ref()?;
        sealed.opener.borrow().epochs().newer().map(|(epoch, _, since)| (epoch, since))
    }

    /// Drops the old key once its time is over. Returns its epoch then.
    pub(crate) fn expire(&self, now: Instant) -> Option<KeyEpoch> {
        self.sealed.as_ref().and_then(|sealed| sealed.opener.borrow_mut().expire(now))
    }

    /// Who lacks which key, for `status`; empty where nobody was heard lately that does.
    pub(crate) fn apart(&self, now: Instant) -> String {
        //= K09
        let Some(sealed) = &self.sealed else { return String::new() };
        let in_use = sealed.sealer.borrow().epoch();
        let apart = sealed.apart.borrow();
        let lately = apart.iter().filter(|(_, (_, heard))| now.since(*heard) < NAMED);
        let each = lately.map(|(node, (epoch, _))| match *epoch > in_use {
            true => format!("this node lacks the key of epoch {epoch}, which {node} uses"),
            false => format!("{node} uses epoch {epoch}: it lacks the key of epoch {in_use}, or is about to adopt it"),
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// A frame as it leaves in a link to that node, behind the one that gave `chain`; and what it gives itself. A frame that
    /// is taken out of a link, or put into it again, breaks the chain.
    pub(crate) fn seal_frame(&self, to: NodeId, chain: u64, frame: Datagram) -> Option<(Datagram, u64)> {
        let Some(sealed) = &self.sealed else { return Some((frame, 0)) };
        let (head, counter) = sealed.seal_with(Some(to), &frame, |bytes| envelope::set_nonce(bytes, chain))?;
        Some((Datagram { head, body: Bytes::new() }, counter + 1))
    }

    /// The same of a frame that has come through a link.
    ///
    /// # Errors
    /// Why the link must be broken.
    pub(crate) fn open_frame(&self, chain: u64, mut frame: BytesMut) -> Result<(Bytes, u64), BadFrame> {
        let Some(sealed) = &self.sealed else { return Ok((frame.freeze(), 0)) };
        match sealed.opener.borrow_mut().open(&mut frame) {
            Ok(Opened::Datagram { len, counter, .. }) => {
                let view = EnvelopeView::new(&frame).map_err(|_| BadFrame::Misplaced)?;
                if (view.lane(), view.nonce()) != (Some(Lane::Reliable), chain) {
                    return Err(BadFrame::Misplaced);
                }
                frame.truncate(len);
                Ok((frame.freeze(), counter + 1))
            }
            Ok(Opened::Greeting { .. }) => Err(BadFrame::Misplaced),
            Err(cause) => {
                self.count(Dropped::Unopened(cause));
                Err(BadFrame::Unopened(cause))
            }
        }
    }

    /// Whoever has no key hears of those that have one.
    #[inline]
    fn note_sealed(&self, datagram: &[u8]) {
        if let Ok(view) = EnvelopeView::new(datagram)
            && view.key_epoch() != 0
            && view.cluster() == self.identity.cluster
        {
            self.count(Dropped::Sealed(view.from().node));
        }
    }

    #[cold]
    fn count(&self, dropped: Dropped) {
        let fresh = Tally { count: 0, told: 0, told_at: None, last: dropped };
        let mut tally = self.tally.borrow_mut();
        let entry = tally.entry(dropped.name()).or_insert(fresh);
        (entry.count, entry.last) = (entry.count + 1, dropped);
    }

    /// Whether nothing can be sealed any more.
    pub(crate) fn exhausted(&self) -> Option<Exhausted> {
        self.sealed.as_ref().and_then(|sealed| sealed.exhausted.get())
    }

    /// As if almost all counters were used.
    #[cfg(test)]
    fn wear_out(&self) {
        self.sealed.iter().for_each(|sealed| sealed.sealer.borrow_mut().skip_to(consort_seal::COUNTER_LAST));
    }

    /// When to ask for [`Self::greeting`] next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let opener = self.sealed.as_ref()?.opener.borrow();
        opener.poll_timeout().into_iter().chain(opener.epochs().poll_timeout()).min()
    }

    /// What is to be said to all now, not sealed yet.
    pub(crate) fn greeting(&self, now: Instant) -> Option<Bytes> {
        let sealed = self.sealed.as_ref()?;
        sealed.now.set(now);
        let greeting = sealed.opener.borrow_mut().greeting(now, sealed.sealer.borrow().counters());
        greeting.map(BytesMut::freeze)
    }

    /// How this node's datagrams travel, for `status`.
    pub(crate) fn words(&self) -> String {
        let Some(sealed) = &self.sealed else {
            return match self.exposed {
                true => "plain: no key is configured, so whoever reaches the daemons' ports can read and forge".into(),
                false => "plain, on this machine alone".into(),
            };
        };
        let (sealer, opener) = (sealed.sealer.borrow(), sealed.opener.borrow());
        let (cipher, epoch) = (sealer.salt().cipher().name(), sealer.epoch());
        let (proven, others) = (opener.proven_count(), opener.others());
        format!("sealed with {cipher}, key epoch {epoch}; {proven} of {others} other nodes have proven their key")
    }

    /// The epoch in use; 0 where nothing is sealed.
    pub(crate) fn epoch(&self) -> u16 {
        self.sealed.as_ref().map_or(0, |sealed| sealed.sealer.borrow().epoch().get())
    }

    /// All epochs of which there are keys, for `status`.
    pub(crate) fn epochs(&self) -> String {
        let Some(sealed) = &self.sealed else { return String::new() };
        let opener = sealed.opener.borrow();
        let (in_use, mut epochs) = (opener.ring().sealing(), opener.ring().epochs().collect::<Vec<_>>());
        epochs.sort_unstable();
        let words = epochs.iter().map(|epoch| match epoch.cmp(&in_use) {
            Ordering::Less => format!("{epoch} old"),
            Ordering::Equal => format!("{epoch} in use"),
            Ordering::Greater => format!("{epoch} next"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Who has proven that it speaks now.
    pub(crate) fn proven(&self) -> usize {
        self.sealed.as_ref().map_or(0, |sealed| sealed.opener.borrow().proven_count())
    }

    /// Calls `see` with how many datagrams were dropped for each cause.
    pub(crate) fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        self.tally.borrow().iter().for_each(|(cause, tally)| see(&format!("unopened_{cause}"), tally.count));
    }

    /// What is to be told to people.
    pub(crate) fn news(&self, now: Instant) -> Vec<Drops> {
        let mut tally = self.tally.borrow_mut();
        let worth = tally.values_mut().filter(|tally| tally.last.is_news() && tally.count > tally.told);
        let due = worth.filter(|tally| tally.told_at.is_none_or(|at| now.since(at) >= PAUSE));
        due.map(|tally| {
            let datagrams = tally.count - tally.told;
            (tally.told, tally.told_at) = (tally.count, Some(now));
            Drops { datagrams, last: tally.last }
        })
        .collect()
    }
}

impl Sealed {
    fn new(identity: Identity, security: Security, peers: &[Peer]) -> io::Result<Self> {
        let sealer = Sealer::new(&security.keys, &identity, security.salt);
        let sealer = sealer.ok_or_else(|| io::Error::other("the cluster's key cannot be used"))?;
        let opener = Opener::new(security.keys, identity, security.salt, peers.iter().map(|peer| peer.node));
        Ok(Self {
            sealer: RefCell::new(sealer),
            opener: RefCell::new(opener),
            room: RefCell::new(Bump::new(CHUNK)),
            exhausted: Cell::new(None),
            nodes: peers.iter().map(|peer| peer.node).collect(),
            apart: RefCell::default(),
            now: Cell::new(Instant::ZERO),
        })
    }

    /// A node seals with a key that is not held here.
    #[cold]
    fn note_apart(&self, cause: Unopened) {
        let (epoch, node) = match cause {
            Unopened::KeyEpoch(epoch, node) => (KeyEpoch::new(epoch), node),
            Unopened::Superseded(node) => (self.opener.borrow().epochs().old(), node),
            _ => return,
        };
        if let Some(epoch) = epoch.filter(|_| self.nodes.contains(&node)) {
            self.apart.borrow_mut().insert(node, (epoch, self.now.get()));
        }
    }

    /// Copies while it gathers, then seals in place.
    fn seal(&self, to: Option<NodeId>, datagram: &Datagram) -> Option<Bytes> {
        self.seal_with(to, datagram, |_| {}).map(|(sealed, _)| sealed)
    }

    /// The same after something has been done to it; and its counter.
    fn seal_with(
        &self,
        to: Option<NodeId>,
        Datagram { head, body }: &Datagram,
        prepare: impl FnOnce(&mut [u8]),
    ) -> Option<(Bytes, u64)> {
        let mut room = self.room.borrow_mut();
        let sealed = room.room(head.len() + body.len() + OVERHEAD);
        sealed.extend_from_slice(head);
        sealed.extend_from_slice(body);
        prepare(sealed);
        match self.sealer.borrow_mut().seal(to, sealed) {
            Ok(counter) => Some((room.take(), counter)),
            Err(exhausted) => {
                self.exhausted.set(Some(exhausted));
                None
            }
        }
    }
}

impl Dropped {
    const fn name(self) -> &'static str {
        match self {
            Self::Unopened(cause) => cause.name(),
            Self::Sealed(_) => "sealed",
        }
    }

    /// Whether somebody can do something about it. Starts prove themselves, own datagrams come back, and keys are taken up.
    const fn is_news(self) -> bool {
        use Unopened::{NotAdopted, Own, Superseded, Unproven};
        !matches!(self, Self::Unopened(Own | Unproven(_) | NotAdopted(_) | Superseded(_)))
    }
}

impl Drops {
    /// Writes it into the log.
    pub(crate) fn tell(self, in_use: u16) {
        let (datagrams, cause) = (self.datagrams, self.last.name());
        match self.last {
            Dropped::Sealed(node) => tracing::warn!(
                %node, datagrams, cause,
                "sealed datagrams come, and no key is configured here: give this node the cluster's key file, below [security]"
            ),
            Dropped::Unopened(Unopened::Plain(node)) => tracing::warn!(
                %node, datagrams, cause,
                "plain datagrams come that say they are of the node: it has no key, or somebody forges; give all nodes the same key file, below [security]"
            ),
            Dropped::Unopened(Unopened::Forged(node)) => tracing::warn!(
                %node, datagrams, cause,
                "datagrams that say they are of the node do not open: it has another key, or somebody forges; give all nodes the same key file"
            ),
            Dropped::Unopened(Unopened::KeyEpoch(epoch, node)) if epoch > in_use => tracing::warn!(
                %node, epoch, in_use, datagrams, cause,
                "the node seals with a key that this node lacks; copy its key file to this node, and send this daemon SIGHUP"
            ),
            Dropped::Unopened(Unopened::KeyEpoch(epoch, node)) => tracing::warn!(
                %node, epoch, in_use, datagrams, cause,
                "the node seals with a key that is not in use any more, and seems to lack the one in use; copy the key file to it, and send its daemon SIGHUP"
            ),
            Dropped::Unopened(why) => {
                tracing::warn!(datagrams, cause, "datagrams were not opened, the last one: {why}")
            }
        }
    }
}

/// The keys of a ring in these epochs, the one to seal with first.
pub(crate) fn names(ring: &KeyRing, of: impl Fn(KeyEpoch) -> bool) -> Vec<KeyName> {
    let held = ring.fingerprints().filter(|(epoch, _)| of(*epoch));
    held.map(|(epoch, fingerprint)| KeyName { epoch: epoch.get(), fingerprint }).collect()
}

#[cfg(test)]
mod model;
#[cfg(test)]
pub(crate) mod tests;

//! Producers: how far each one's messages are ordered, so that a send whose fate is unknown is asked about, not repeated.
//!
//! `docs/protocols/sessions.md` states the rules.
use bytes::{BufMut, BytesMut};
use consort_types::{MemberId, Position, Primary, View, ViewId};
use consort_wire::{Malformed, Reader};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Names a producer; chosen at random by its client library, and known to nobody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub [u8; Self::LEN]);

/// A place in the history that counts: the number of the view, and the position in it. Later places are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryPlace {
    /// The number of the regular view.
    pub view: u64,
    /// Where in it.
    pub at: Position,
}

/// What opens a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// Which one.
    pub producer: ProducerId,
    /// Which session: a number that it has drawn.
    pub session: u64,
    /// How often that session had asked before.
    pub attempt: u64,
    /// It was opened before, by this session or an earlier one.
    pub known: bool,
    /// The last of its attempts of which this session was told that it is open; 0 for none. Until then whoever has it is to be
    /// stopped, and never again.
    pub opened: u64,
}

/// What daemons know of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Which session opened it last, and with which of its attempts.
    pub opener: (u64, u64),
    /// Where it was opened last: what it sends is numbered from there on.
    pub epoch: HistoryPlace,
    /// The number of its last message in the order; 0 for none.
    pub last: u64,
    /// Where that stands, or where it was opened if that is later.
    pub at: HistoryPlace,
    /// It had been forgotten when it was opened again, and has sent nothing since: whoever opens it must be told.
    pub renewed: bool,
}

/// What a numbered multicast says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Who sends.
    pub producer: ProducerId,
    /// Where it was opened.
    pub epoch: HistoryPlace,
    /// The number of the message, or of the first one of a batch, from 1.
    pub number: u64,
}

/// Why a numbered message has no effect at its place; the same at every daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberRefused {
    /// The view does not count: it is not primary, or not all of its members have completed it.
    NotPrimary,
    /// The producer is not known, or not any more.
    Forgotten,
    /// It was opened again since.
    Fenced,
    /// It does not follow the producer's last one.
    Missing,
}

/// What a producer is told where it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where it was opened; what it sends from here on carries this.
    pub epoch: HistoryPlace,
    /// The number of its last message in the order.
    pub last: u64,
    /// Where that stands, or where it was opened then.
    pub at: HistoryPlace,
    /// It said that it was opened before, and nobody knows of it.
    pub forgotten: bool,
}

/// Why nothing was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRefused {
    /// The view does not count: it may be asked again in the next one that does.
    NotPrimary,
    /// The session has opened it since, from another connection, or another session has claimed it.
    Fenced,
    /// There are [`Producers::MOST`] already.
    Full,
}

/// What producers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsWhen {
    /// It counts now.
    Now,
    /// No policy says which part of the network goes on: never.
    NoPolicy,
    /// The members are still telling each other what they know.
    Completed,
    /// A view of the primary part.
    Primary,
    /// A view with more daemons that remember, or with all there are.
    Remembered,
}

//= E01
/// The table of producers, and whether the view that is on counts for it.
#[derive(Debug, Default)]
pub struct Producers {
    records: BTreeMap<ProducerId, ProducerRecord>,
    /// The latest view that counts of which this table is.
    of: Option<u64>,
    /// How many daemons are configured; 0 if that is not known.
    nodes: usize,
    /// All views are in one order.
    one_order: bool,
    /// Who remembers, of the members that know the same: they were in a view that counted, and in one order missed none since that
    /// was primary. One that has its table from others does not: no majority that decided anything can count on it.
    remembering: BTreeSet<MemberId>,
    members: BTreeSet<MemberId>,
    /// Who has completed it.
    completed: BTreeSet<MemberId>,
    /// This daemon has said that it has.
    said: bool,
    view: ViewId,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::Mutant>,
}

impl ProducerId {
    /// How many bytes it has.
    pub const LEN: usize = 16;
}

/// Not shown whole: who knows it may send under it.
impl fmt::Debug for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, ..] = self.0;
        write!(f, "p{a:02x}{b:02x}..")
    }
}

impl HistoryPlace {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn put(self, out: &mut BytesMut) {
        out.put_u64(self.view);
        out.put_u64(self.at.0);
    }

    pub(crate) fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<Self, Malformed> {
        Ok(Self { view: reader.u64(what)?, at: Position(reader.u64(what)?) })
    }
}

impl Numbered {
    pub(crate) const LEN: usize = ProducerId::LEN + HistoryPlace::LEN + 8;

    pub(crate) fn put(self, out: &mut BytesMut) {
        out.put_slice(&self.producer.0);
        self.epoch.put(out);
        out.put_u64(self.number);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let producer = read_producer(reader)?;
        Ok(Self { producer, epoch: HistoryPlace::read(reader, "epoch")?, number: reader.u64("number")? })
    }
}

impl OpenRequest {
    /// How many bytes it takes.
    pub const LEN: usize = ProducerId::LEN + 25;

    /// Appends it, as it travels in frames and in the order.
    pub fn put(&self, out: &mut BytesMut) {
        out.put_slice(&self.producer.0);
        out.put_u64(self.session);
        out.put_u64(self.attempt);
        out.put_u64(self.opened);
        out.put_u8(self.known.into());
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`Malformed`] says which field is wrong.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let producer = read_producer(reader)?;
        let (session, attempt) = (reader.u64("session")?, reader.u64("attempt")?);
        let opened = reader.u64("opened")?;
        let known = match reader.u8("known")? {
            0 => false,
            1 => true,
            _ => return Err(reader.bad("known")),
        };
        Ok(Self { producer, session, attempt, opened, known })
    }
}

impl ProducerRecord {
    /// How many bytes it takes in a part, its producer included.
    pub(crate) const LEN: usize = ProducerId::LEN + 2 * HistoryPlace::LEN + 25;

    pub(crate) fn put(&self, producer: ProducerId, out: &mut BytesMut) {
        out.put_slice(&producer.0);
        out.put_u64(self.opener.0);
        out.put_u64(self.opener.1);
        self.epoch.put(out);
        out.put_u64(self.last);
        self.at.put(out);
        out.put_u8(u8::from(self.renewed));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<(ProducerId, Self), Malformed> {
        let producer = read_producer(reader)?;
        let opener = (reader.u64("session")?, reader.u64("attempt")?);
        let epoch = HistoryPlace::read(reader, "epoch")?;
        let (last, at) = (reader.u64("number")?, HistoryPlace::read(reader, "place")?);
        let renewed = match reader.u8("renewed")? {
            0 => false,
            1 => true,
            _ => return Err(reader.bad("renewed")),
        };
        Ok((producer, Self { opener, epoch, last, at, renewed }))
    }
}

impl ProducerRecord {
    /// Whether an opening comes too late: the session has opened it since, or another one has claimed it.
    const fn outlives(&self, request: &OpenRequest) -> bool {
        let (session, attempt) = self.opener;
        if session == request.session { request.attempt < attempt } else { request.opened > 0 }
    }

    /// Whether an opening made it that its session has gone on from: it knows of a later one, whose record is forgotten.
    const fn is_of_late_opening(&self, request: &OpenRequest) -> bool {
        let (session, attempt) = self.opener;
        session == request.session && attempt < request.opened
    }
}

pub(crate) fn read_producer(reader: &mut Reader<'_>) -> Result<ProducerId, Malformed> {
    let before = reader.clone();
    let bytes = reader.take(ProducerId::LEN, "producer")?;
    bytes.first_chunk().map(|bytes| ProducerId(*bytes)).ok_or(before.bad("producer"))
}

impl Producers {
    //= E11
    /// How many producers are known at most. Part of the protocol: every daemon must refuse the same.
    pub const MOST: usize = 16_384;

    /// So many daemons are configured. All views are in `one_order`, or parts of the network may have their own.
    pub const fn configure(&mut self, nodes: usize, one_order: bool) {
        (self.nodes, self.one_order) = (nodes, one_order);
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What is known of one.
    pub fn get(&self, producer: ProducerId) -> Option<&ProducerRecord> {
        self.records.get(&producer)
    }

    /// All that is known, by producer.
    pub fn all(&self) -> impl Iterator<Item = (&ProducerId, &ProducerRecord)> {
        self.records.iter()
    }

    /// The latest view that counts of which this table is; `None` for a daemon that remembers none.
    pub const fn of(&self) -> Option<u64> {
        self.of
    }

    /// Whether a member that knows the same was in a view that counted.
    pub(crate) fn remembers(&self, member: MemberId) -> bool {
        self.remembering.contains(&member)
    }

    /// Those behind this one, by producer.
    pub(crate) fn after(&self, last: Option<ProducerId>) -> impl Iterator<Item = (ProducerId, &ProducerRecord)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = last.map_or(Unbounded, Excluded);
        self.records.range((from, Unbounded)).map(|(producer, record)| (*producer, record))
    }

    /// A regular view begins; who is `synced` knows the same.
    pub(crate) fn begin(&mut self, view: &View, synced: &[MemberId]) {
        //= E08
        let missed = view.missed_primary && !crate::mutated!(self, MissedViewIgnored);
        self.view = view.id;
        self.members = view.members.iter().copied().collect();
        self.completed.clear();
        self.said = false;
        self.remembering.retain(|member| synced.contains(member) && !missed);
    }

    /// The exchange of the view is complete: this is the table to go on with, and those members remember.
    pub(crate) fn take(&mut self, taken: Option<TakenTable>, remembering: BTreeSet<MemberId>) {
        //= E07
        if let Some(TakenTable { of, records }) = taken {
            let of = if crate::mutated!(self, TableOfNoView) { self.of } else { of };
            (self.of, self.records) = (of, records);
        }
        self.remembering = remembering;
        if crate::mutated!(self, MemoryBorrowed) && self.of.is_some() {
            self.remembering.clone_from(&self.members);
        }
    }

    /// Whether this daemon has yet to say that it has completed a view that may count.
    pub(crate) fn has_to_complete(&self, primary: bool) -> bool {
        primary && !self.said && self.nodes > 0 && self.is_remembered()
    }

    /// The name of the view that this daemon says it has completed.
    pub(crate) const fn complete(&mut self) -> ViewId {
        self.said = true;
        self.view
    }

    /// A member has completed a view.
    pub(crate) fn on_complete(&mut self, member: MemberId, view: ViewId) {
        //= E05
        if view != self.view || !self.members.contains(&member) || !self.completed.insert(member) {
            return;
        }
        if self.counts() {
            //= E08
            // Of those that were there for the latest table, none may be left: this one may be older.
            if !self.enough_remember() && !crate::mutated!(self, StaleTableKept) {
                self.records.clear();
            }
            self.of = Some(self.view.number);
            self.remembering.clone_from(&self.members);
        }
    }

    /// Whether the view that is on, or closing, counts at this place.
    pub fn counts(&self) -> bool {
        let some = crate::mutated!(self, FirstCompleteCounts) && !self.completed.is_empty();
        some || !self.members.is_empty() && self.completed.len() == self.members.len()
    }

    /// What producers wait for.
    pub(crate) fn counts_when(&self, primary: Primary, settled: bool) -> CountsWhen {
        match primary {
            _ if self.counts() => CountsWhen::Now,
            _ if self.nodes == 0 => CountsWhen::NoPolicy,
            Primary::NoPolicy => CountsWhen::NoPolicy,
            Primary::No => CountsWhen::Primary,
            Primary::Yes if settled && !self.is_remembered() => CountsWhen::Remembered,
            Primary::Yes | Primary::Pending => CountsWhen::Completed,
        }
    }

    fn is_remembered(&self) -> bool {
        //= E08
        self.enough_remember() || self.members.len() == self.nodes || crate::mutated!(self, MemoryUncounted)
    }

    /// Whether one of those that remember was in the latest view that counted.
    fn enough_remember(&self) -> bool {
        let least = if self.one_order { 1 } else { self.nodes / 2 + 1 };
        self.remembering.len() >= least
    }

    /// A producer is opened at a place.
    pub(crate) fn open(&mut self, request: &OpenRequest, place: HistoryPlace) -> Result<Opened, OpenRefused> {
        let OpenRequest { producer, known, .. } = *request;
        //= E02
        if !self.counts() && !crate::mutated!(self, OpenedAnywhere) {
            return Err(OpenRefused::NotPrimary);
        }
        let told_once = crate::mutated!(self, RenewalForgotten);
        let anew = crate::mutated!(self, NumbersAnew);
        let found = self.records.get_mut(&producer);
        //= E08
        let is_new = |record: &ProducerRecord| record.renewed || record.is_of_late_opening(request);
        let forgotten = known && found.as_deref().is_none_or(|record| is_new(record) && !told_once);
        if let Some(record) = found {
            //= E12
            if record.outlives(request) && !crate::mutated!(self, OpenedLate) {
                return Err(OpenRefused::Fenced);
            }
            record.opener = (request.session, request.attempt);
            let (last, at) = (record.last, record.at);
            (record.epoch, record.at) = (place, place);
            record.renewed |= forgotten;
            if anew {
                record.last = 0;
            }
            return Ok(Opened { epoch: place, last, at, forgotten });
        }
        if self.records.len() >= Self::MOST {
            return Err(OpenRefused::Full);
        }
        let opener = (request.session, request.attempt);
        self.records.insert(producer, ProducerRecord { opener, epoch: place, last: 0, at: place, renewed: forgotten });
        Ok(Opened { epoch: place, last: 0, at: place, forgotten })
    }

    /// Whether numbered messages take effect at their place.
    pub(crate) fn judge(&self, numbered: &Numbered) -> Result<(), NumberRefused> {
        //= E03
        if !self.counts() && !crate::mutated!(self, EffectAnywhere) {
            return Err(NumberRefused::NotPrimary);
        }
        let record = self.records.get(&numbered.producer).ok_or(NumberRefused::Forgotten)?;
        if record.epoch != numbered.epoch && !crate::mutated!(self, FenceForgotten) {
            return Err(NumberRefused::Fenced);
        }
        let follows = Some(numbered.number) == record.last.checked_add(1) || crate::mutated!(self, NumbersUnchecked);
        if follows { Ok(()) } else { Err(NumberRefused::Missing) }
    }

    /// Whether a numbered message may still take effect at some place behind this one: what it follows may be on its way.
    pub(crate) fn may_count(&self, numbered: &Numbered) -> bool {
        let record = self.records.get(&numbered.producer);
        self.counts() && record.is_some_and(|record| record.epoch == numbered.epoch && numbered.number > record.last)
    }

    /// So many numbered messages took effect at a place.
    pub(crate) fn advance(&mut self, numbered: &Numbered, messages: usize, place: HistoryPlace) {
        //= E03
        let messages = if crate::mutated!(self, BatchCountedOnce) { 1 } else { messages };
        if let Some(record) = self.records.get_mut(&numbered.producer) {
            // Of what a member says in an exchange nothing is too large.
            record.last = record.last.saturating_add(messages as u64);
            record.at = place;
            record.renewed = false;
        }
    }

    /// A producer is forgotten, unless something moved since it stood there.
    pub(crate) fn forget(&mut self, producer: ProducerId, at: HistoryPlace) {
        //= E10
        let stands = self.records.get(&producer).is_some_and(|record| record.at == at);
        if self.counts() && stands {
            self.records.remove(&producer);
        }
    }
}

/// A table that others said they had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenTable {
    pub of: Option<u64>,
    pub records: BTreeMap<ProducerId, ProducerRecord>,
}

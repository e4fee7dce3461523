//! The producers of this node's clients: opened where the view counts, answered and told once all hold what was ordered.
use crate::clients::client_session::Placed;
use crate::fan_out::READER;
use crate::{Node, Position};
use consort_group::{CountsWhen, HistoryPlace, NumberRefused, Numbered, OpenRefused, Opened, Producers, ordered};
use consort_order::{Engine, Refused};
use consort_rights::Denial;
use consort_session::{
    OpenRefusal, OpenRefusalCause, OpenRequest, OpeningWait, ProducerId, ProducerStatus, Refusal, RefusalCause,
};
use consort_types::{Class, ClientId, Duration, Instant, Service, ViewKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// How long a producer is known of which nothing is ordered, unless the node is told otherwise.
pub(crate) const KEEP: Duration = Duration::from_secs(3_600);
/// The same for one under which nothing was ever ordered, at most.
const KEEP_UNUSED: Duration = Duration::from_secs(300);
/// How often it is looked for those.
const SWEEP: Duration = Duration::from_secs(60);

/// The producers of this node's clients.
#[derive(Debug, Default)]
pub(crate) struct ProducerDesk {
    clients: BTreeMap<ClientId, ClientProducer>,
    /// Those of them that are to be opened as soon as the view counts.
    waiting: BTreeSet<ClientId>,
    /// Those of them that are told something once all members hold it.
    unsettled: BTreeSet<ClientId>,
    confirm: ConfirmStage,
    /// Where producers stood when it was looked, and since when they stand there.
    idle: BTreeMap<ProducerId, IdleProducer>,
    swept: Option<Instant>,
}

/// A producer of which nothing is ordered.
#[derive(Clone, Copy, Debug)]
struct IdleProducer {
    at: HistoryPlace,
    since: Instant,
    /// Nothing ever was.
    unused: bool,
}

#[derive(Debug)]
struct ClientProducer {
    request: OpenRequest,
    stage: ProducerStage,
    /// Where it was opened for this client last.
    epoch: Option<HistoryPlace>,
}

/// How far a client's producer is.
#[derive(Debug)]
enum ProducerStage {
    /// It waits for a view that counts.
    Waits,
    /// Its opening is on its way into the order; `again` if it was asked for once more since.
    Asked { again: bool },
    /// It was opened, and not all members hold that yet.
    Placed(Opened),
    /// It sends. What is ordered and not held by all, ascending: numbers, and where they stand.
    Open { ordered: VecDeque<(u64, Position)>, refused: Option<PlacedRefusal> },
    /// It must be opened again.
    Ended,
}

/// What has its place and no effect, and is told so once all members hold that.
#[derive(Debug)]
struct PlacedRefusal {
    at: Position,
    /// The requests of the client that it is about.
    requests: Range<u64>,
    refusal: Refusal,
}

/// Whether a message is under way that shows what all members hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConfirmStage {
    #[default]
    Idle,
    Asked,
}

impl ProducerDesk {
    /// A client's connection is no more.
    pub fn remove(&mut self, client: ClientId) {
        self.clients.remove(&client);
        self.waiting.remove(&client);
        self.unsettled.remove(&client);
    }

    /// A client's message has its place.
    pub fn note(&mut self, client: ClientId, number: u64, at: Position) {
        if let Some(ClientProducer { stage: ProducerStage::Open { ordered, .. }, .. }) = self.clients.get_mut(&client) {
            ordered.push_back((number, at));
            self.unsettled.insert(client);
        }
    }

    /// When to look for those that are not used any more.
    pub fn next_sweep(&self) -> Option<Instant> {
        self.swept.map(|swept| swept + SWEEP)
    }

    fn set(&mut self, client: ClientId, stage: ProducerStage) {
        self.waiting.remove(&client);
        self.unsettled.remove(&client);
        match stage {
            ProducerStage::Waits => self.waiting.insert(client),
            ProducerStage::Placed(_) => self.unsettled.insert(client),
            ProducerStage::Asked { .. } | ProducerStage::Open { .. } | ProducerStage::Ended => false,
        };
        if let Some(producer) = self.clients.get_mut(&client) {
            producer.stage = stage;
        }
    }
}

impl<E: Engine> Node<E> {
    /// A client wants its sends numbered.
    pub(crate) fn on_open(&mut self, client: ClientId, request: OpenRequest) {
        //= E02
        let again = matches!(
            self.producers.clients.get(&client),
            Some(ClientProducer { stage: ProducerStage::Asked { .. }, .. })
        );
        //= E11
        let known = self.groups.producers();
        let taken = self.rights.take_producer(self.now, client, request.producer, |other| known.get(other).is_some());
        if let Err(Denial { text }) = taken {
            return self.refuse_opening(client, OpenRefusalCause::Full, text);
        }
        let stage = if again { ProducerStage::Asked { again } } else { ProducerStage::Waits };
        self.producers.clients.insert(client, ClientProducer { request, stage: ProducerStage::Ended, epoch: None });
        self.producers.set(client, stage);
        self.tell_opening(client);
    }

    /// A client that is done wants its producer forgotten. Where there is no room for that it is forgotten later, unused.
    pub(crate) fn on_forget(&mut self, client: ClientId) {
        //= E10
        let Some(ClientProducer { request, epoch, .. }) = self.producers.clients.get(&client) else { return };
        let (producer, epoch) = (request.producer, *epoch);
        self.producers.remove(client);
        // Who was taken over would have it forgotten under the session that goes on with it.
        let record = self.groups.producers().get(producer).filter(|record| Some(record.epoch) == epoch);
        if let Some(at) = record.map(|record| record.at) {
            let forget = ordered::forget(client, producer, at);
            let _ = self.hand_over(Class::Client, Service::Agreed, forget.into());
        }
    }

    fn counts_when(&self) -> CountsWhen {
        if self.view.is_none() { CountsWhen::Completed } else { self.groups.counts_when() }
    }

    fn is_closing(&self) -> bool {
        self.view.as_ref().is_none_or(|view| view.kind == ViewKind::Transitional)
    }

    /// Tells all that wait to be opened what for.
    pub(crate) fn tell_openings(&mut self) {
        let waiting: Vec<_> = self.producers.waiting.iter().copied().collect();
        self.pending.spend(READER * waiting.len());
        waiting.into_iter().for_each(|client| self.tell_opening(client));
    }

    fn tell_opening(&mut self, client: ClientId) {
        if !self.producers.waiting.contains(&client) {
            return;
        }
        let wait = match self.counts_when() {
            CountsWhen::Now => return,
            CountsWhen::NoPolicy => {
                let text = "no policy says which part of a parted network goes on, so nobody could tell what is ordered; \
                            describe the nodes in a file for `consort daemon --config`, whose default is primary = \"majority\", \
                            or start all daemons with --protocol paxos";
                return self.refuse_opening(client, OpenRefusalCause::NoPolicy, text.to_owned());
            }
            CountsWhen::Completed => OpeningWait::Membership,
            CountsWhen::Primary => OpeningWait::Primary,
            CountsWhen::Remembered => OpeningWait::Memory,
        };
        self.clients.tell_producer(client, &ProducerStatus::Waits(wait));
    }

    fn refuse_opening(&mut self, client: ClientId, cause: OpenRefusalCause, text: String) {
        self.producers.remove(client);
        self.clients.tell_producer(client, &ProducerStatus::Refused(OpenRefusal { cause, text }));
    }

    /// Opens the next producer that waits for the view to count.
    pub(crate) fn open_next(&mut self) -> bool {
        if self.producers.waiting.is_empty() || self.is_closing() || self.counts_when() != CountsWhen::Now {
            return false;
        }
        let Some(client) = self.producers.waiting.first().copied() else { return false };
        let Some(ClientProducer { request, .. }) = self.producers.clients.get(&client) else { return false };
        let request = *request;
        if crate::mutant::mutated!(self, OpenedFromTable)
            && let Some(record) = self.groups.producers().get(request.producer)
        {
            let (epoch, last, at) = (record.epoch, record.last, record.at);
            let opened = Opened { epoch, last, at, forgotten: false };
            self.producers.set(client, ProducerStage::Placed(opened));
            return true;
        }
        let open = ordered::open(client, &request);
        self.producers.set(client, ProducerStage::Asked { again: false });
        match self.hand_over(Class::Client, Service::Agreed, open.into()) {
            Ok(()) => true,
            Err(Refused::Full { .. }) => {
                self.producers.set(client, ProducerStage::Waits);
                false
            }
            Err(refused) => {
                self.refuse_opening(client, OpenRefusalCause::Leaving, refused.to_string());
                true
            }
        }
    }

    /// An own client's opening has its place.
    pub(crate) fn on_opened(&mut self, client: ClientId, opened: Result<Opened, OpenRefused>) {
        let Some(ClientProducer { stage: ProducerStage::Asked { again }, .. }) = self.producers.clients.get(&client)
        else {
            return;
        };
        match opened {
            Ok(opened) if !again && !self.is_closing() => self.producers.set(client, ProducerStage::Placed(opened)),
            Ok(_) | Err(OpenRefused::NotPrimary) => self.producers.set(client, ProducerStage::Waits),
            Err(OpenRefused::Fenced) => {
                let text = "this session has opened the producer since, elsewhere, or another session has claimed it";
                self.refuse_opening(client, OpenRefusalCause::Fenced, text.to_owned());
            }
            Err(OpenRefused::Full) => {
                let text = format!("{} producers are known, which is all there may be", Producers::MOST);
                self.refuse_opening(client, OpenRefusalCause::Full, text);
            }
        }
    }

    /// Asks what all members hold, where somebody waits for that.
    pub(crate) fn confirm_next(&mut self) -> bool {
        //= E09
        let idle = self.producers.confirm == ConfirmStage::Idle;
        if !idle || self.producers.unsettled.is_empty() || self.control_full || self.is_closing() {
            return false;
        }
        self.producers.confirm = ConfirmStage::Asked;
        if self.hand_over(Class::Control, Service::Safe, ordered::confirm().into()).is_err() {
            self.producers.confirm = ConfirmStage::Idle;
            return false;
        }
        true
    }

    /// All members hold what stands before this place, unless the view is closing.
    pub(crate) fn on_confirmed(&mut self, at: Position) {
        self.producers.confirm = ConfirmStage::Idle;
        if !self.is_closing() {
            self.settle_before(at);
        }
    }

    /// Where a majority has decided what is delivered, nobody need ask.
    pub(crate) fn settle_at_once(&mut self) {
        //= E09
        if !self.producers.unsettled.is_empty() && self.engine.capability().quorum {
            self.settle_before(Position(u64::MAX));
        }
        #[cfg(feature = "mutants")]
        self.settle_unstable();
    }

    #[cfg(feature = "mutants")]
    fn settle_unstable(&mut self) {
        let unsettled: Vec<_> = self.producers.unsettled.iter().copied().collect();
        for client in unsettled {
            let broken = match self.producers.clients.get(&client).map(|producer| &producer.stage) {
                Some(ProducerStage::Placed(_)) => crate::mutant::mutated!(self, OpenedUnstable),
                Some(ProducerStage::Open { .. }) => crate::mutant::mutated!(self, SettledUnstable),
                _ => false,
            };
            if broken {
                self.settle_client(client, Position(u64::MAX));
            }
        }
    }

    fn settle_before(&mut self, at: Position) {
        let unsettled: Vec<_> = self.producers.unsettled.iter().copied().collect();
        self.pending.spend(READER * unsettled.len());
        for client in unsettled {
            self.settle_client(client, at);
        }
    }

    fn settle_client(&mut self, client: ClientId, before: Position) {
        let Some(producer) = self.producers.clients.get_mut(&client) else { return };
        match &mut producer.stage {
            ProducerStage::Placed(opened) if opened.epoch.at < before => {
                let Opened { epoch, last, at, forgotten } = *opened;
                let first = Numbered { producer: producer.request.producer, epoch, number: last.saturating_add(1) };
                producer.epoch = Some(epoch);
                self.producers.set(client, ProducerStage::Open { ordered: VecDeque::new(), refused: None });
                self.clients.number(client, first, &ProducerStatus::Opened { last, at, forgotten });
            }
            ProducerStage::Open { ordered, refused } => {
                let view = self.view.as_ref().map_or(0, |view| view.id.number);
                let settled: Vec<_> = ordered.drain(..ordered.partition_point(|(_, at)| *at < before)).collect();
                let refused = refused.take_if(|refused| refused.at < before);
                if ordered.is_empty() && refused.is_none() {
                    self.producers.unsettled.remove(&client);
                }
                for (number, at) in settled {
                    let at = HistoryPlace { view, at };
                    self.clients.tell_producer(client, &ProducerStatus::Settled { number, at });
                }
                if let Some(PlacedRefusal { requests, refusal, .. }) = refused {
                    self.clients.tell_refused(client, requests, &refusal);
                    self.end_numbering(client);
                }
            }
            _ => {}
        }
    }

    /// A view begins or is closing: what was not told as settled is asked about again where the next one counts.
    pub(crate) fn end_numberings(&mut self) {
        //= E06
        let clients: Vec<_> = self.producers.clients.keys().copied().collect();
        self.pending.spend(READER * clients.len());
        for client in clients {
            match self.producers.clients.get(&client).map(|producer| &producer.stage) {
                Some(ProducerStage::Open { .. }) if crate::mutant::mutated!(self, NumberingGoesOn) => {}
                Some(ProducerStage::Open { .. }) => self.end_numbering(client),
                Some(ProducerStage::Placed(_)) => self.producers.set(client, ProducerStage::Waits),
                _ => {}
            }
        }
    }

    /// A client's sends are refused until its producer is opened again.
    pub(crate) fn end_numbering(&mut self, client: ClientId) {
        if let Some(ClientProducer { stage: ProducerStage::Open { .. }, .. }) = self.producers.clients.get(&client) {
            self.producers.set(client, ProducerStage::Ended);
            self.clients.end_numbering(client);
        }
    }

    /// An own client's numbered messages have their place, and no effect, as they do not follow the last one.
    pub(crate) fn not_numbered(&mut self, client: ClientId, placed: Placed<'_>, cause: NumberRefused, at: Position) {
        //= E03
        match cause {
            NumberRefused::Fenced => {
                let text = "the producer was opened again, here or elsewhere";
                self.refuse_numbered(client, placed, Refusal::new(RefusalCause::Fenced, text), at);
            }
            NumberRefused::Forgotten => {
                let text = "the producer is not known any more";
                self.refuse_numbered(client, placed, Refusal::new(RefusalCause::Forgotten, text), at);
            }
            // Whoever opens the producer again is told what is ordered.
            NumberRefused::NotPrimary | NumberRefused::Missing => {
                self.clients.order(client, placed, None);
                if !self.has_refused(client) {
                    self.end_numbering(client);
                }
            }
        }
    }

    fn has_refused(&self, client: ClientId) -> bool {
        let stage = self.producers.clients.get(&client).map(|producer| &producer.stage);
        matches!(stage, Some(ProducerStage::Open { refused: Some(_), .. }))
    }

    /// An own client's numbered messages have their place, and no effect. It is told so once all members hold that; what is
    /// behind them is missing one, and of no interest.
    pub(crate) fn refuse_numbered(&mut self, client: ClientId, placed: Placed<'_>, refusal: Refusal, at: Position) {
        //= E09
        let requests = self.clients.order(client, placed, None);
        let Some(ClientProducer { stage: ProducerStage::Open { refused, .. }, .. }) =
            self.producers.clients.get_mut(&client)
        else {
            return;
        };
        if refused.is_none() {
            *refused = Some(PlacedRefusal { at, requests, refusal });
            self.producers.unsettled.insert(client);
        }
    }

    /// Has producers forgotten of which nothing was ordered for long. The lowest member does so for all.
    pub(crate) fn expire_producers(&mut self) {
        //= E10
        let due = self.producers.swept.is_none_or(|swept| self.now >= swept + SWEEP);
        if !due {
            return;
        }
        let lowest = self.view.as_ref().and_then(|view| view.members.first().copied());
        let speaks = lowest == Some(self.datagrams.identity().me) && self.counts_when() == CountsWhen::Now;
        let known = self.groups.producers();
        if self.producers.swept.is_some() || !known.is_empty() {
            self.rights.forget_producers(|producer| known.get(producer).is_some());
        }
        self.producers.swept = (!known.is_empty()).then_some(self.now);
        let idle = std::mem::take(&mut self.producers.idle);
        for (producer, record) in known.all() {
            let (at, unused) = (record.at, record.last == 0);
            let since = idle.get(producer).filter(|idle| idle.at == at).map_or(self.now, |idle| idle.since);
            self.producers.idle.insert(*producer, IdleProducer { at, since, unused });
        }
        if !speaks {
            return;
        }
        let (now, keep) = (self.now, self.producers_for);
        let keep = |idle: &IdleProducer| if idle.unused { keep.min(KEEP_UNUSED) } else { keep };
        let old = self.producers.idle.iter().filter(|(_, idle)| now.since(idle.since) >= keep(idle));
        let old: Vec<_> = old.map(|(producer, idle)| (*producer, idle.at)).collect();
        for (producer, at) in old {
            let forget = ordered::forget(ClientId(0), producer, at);
            if self.hand_over(Class::Client, Service::Agreed, forget.into()).is_err() {
                return;
            }
        }
    }
}

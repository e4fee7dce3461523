//! What the daemon says: of the copies, of the binding, and the log itself.
use super::{ASK_EVERY, Bound, Driver, EVENTS, End, Source, Stage, missed};
use crate::frame::Frame;
use crate::lasting::engine::Progress;
use crate::lasting::identity::Identity;
use crate::lasting::seat::{self, Choice, Wanted, copy_of};
use crate::lasting::transfer::{self, Donor, Fetched, Wish};
use crate::machine::{Position as CommandPosition, StateMachine};
use crate::options::{Error, with_remedy};
use bytes::Bytes;
use consort::{
    BindRefusalCause, Binding, Bookmark, Copies, DeclareRefusalCause, DeclareStatus, Event, Message, Place, Position,
    ReadFrom, ReadingEnd, ReadingEndCause, ReadingStatus, Refusal, RefusalCause, Seat, WaitCause,
};
use std::sync::PoisonError;
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long it waits before it sends again what the daemon refused, and asks again for a checkpoint.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it waits before it asks again for an order that the daemon does not know yet.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long a state may be further than the log.
const BEYOND_MAX: Duration = Duration::from_secs(30);

/// Whether clients should know this cause: the others pass by themselves.
pub(super) const fn is_to_be_known(cause: &WaitCause) -> bool {
    !matches!(cause, WaitCause::Budget | WaitCause::Window | WaitCause::Slow(_))
}

impl<M: StateMachine> Driver<M> {
    pub(super) fn on_connected(&mut self) -> Result<(), End> {
        if matches!(self.parts.source, Source::Own(_)) {
            return self.join();
        }
        self.ask_at = Instant::now();
        self.keeping.asks_again();
        if matches!(self.stage, Stage::Consumes(_)) {
            self.consume();
        } else if !matches!(self.stage, Stage::Lacks { .. }) {
            // A binding that is under way is known by its token.
            self.stage = Stage::Asks;
        }
        Ok(())
    }

    /// Asks the order for the copies where something of them may be news.
    pub(super) fn ask(&mut self, now: Instant) {
        if now < self.ask_at || matches!(self.parts.source, Source::Own(_)) {
            return;
        }
        self.ask_at = now + ASK_EVERY;
        let any = seat::any_of(&self.parts.group);
        if let Some(client) = self.parts.link.client()
            && let Err(error) = client.ask_copies(&any)
        {
            self.lose(&error);
        }
    }

    pub(super) fn take_events(&mut self) -> Result<bool, End> {
        for taken in 0..EVENTS {
            let Some(client) = self.parts.link.client() else { return Ok(taken > 0) };
            let received = if taken == 0 { client.receive(Duration::ZERO) } else { client.receive_buffered() };
            match received {
                Ok(Some(event)) => self.take(event)?,
                Ok(None) => return Ok(taken > 0),
                Err(error) => {
                    self.lose(&error);
                    return Ok(true);
                }
            }
            self.act()?;
        }
        Ok(true)
    }

    fn take(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Read(message) => self.take_message(&message),
            Event::Reading(status) => return self.take_reading(status),
            Event::Copies(copies) => return self.take_copies(copies),
            Event::Bound(bound) => return self.take_bound(bound),
            Event::Declared(status) => return self.take_declared(&status),
            Event::Refused { send, refusal } => self.take_refusal(send, &refusal),
            event => self.take_for_own_log(event),
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Message) {
        // What comes before the reading begins is of an earlier one, which may have left something out.
        let Some(placement) = message.placement().filter(|_| self.reads) else { return };
        match Frame::decode(&Bytes::copy_from_slice(message.payload())) {
            Ok(Frame::Hello(_) | Frame::Command { .. } | Frame::Claim(_)) => {
                self.keeping.warn_of_stranger(&self.parts.group, message.sender_name());
                self.parts.engine.on_nothing_before(placement.next);
            }
            Ok(frame) => self.parts.engine.on_frame(frame, placement.place, placement.next),
            Err(error) => {
                tracing::warn!("{} sent what is no command: {error}", message.sender_name());
                self.parts.engine.on_nothing_before(placement.next);
            }
        }
    }

    fn take_reading(&mut self, status: ReadingStatus) -> Result<(), End> {
        match status {
            ReadingStatus::Began { .. } => {
                self.reads = matches!(self.stage, Stage::Consumes(_));
                self.parts.link.is_of_use();
                self.keeping.beyond_since = None;
                self.parts.engine.on_connected();
            }
            ReadingStatus::CaughtUp { position } if self.reads => {
                self.parts.engine.on_nothing_before(Place::at(position + 1))
            }
            ReadingStatus::Lost { to, .. } if self.reads && to >= self.parts.engine.progress().next.position => {
                //= RS16
                self.lack(to + 1);
            }
            ReadingStatus::Ended(end) => return self.on_reading_ended(&end),
            _ => {}
        }
        Ok(())
    }

    fn on_reading_ended(&mut self, end: &ReadingEnd) -> Result<(), End> {
        match end.cause {
            ReadingEndCause::Ended => Ok(()),
            ReadingEndCause::Trimmed => {
                self.lack(end.oldest);
                Ok(())
            }
            //= RS14
            ReadingEndCause::BeyondEnd => {
                let since = *self.keeping.beyond_since.get_or_insert_with(Instant::now);
                if since.elapsed() < BEYOND_MAX {
                    self.consume();
                    return Ok(());
                }
                let why = format!(
                    "its state ends before position {}, and the log of the daemons ends at {}: they have lost what they \
                     acknowledged, because votes were put back from a backup or a majority of disks is lost. Give the daemons \
                     their newest directories back; or move this directory away to go on with less",
                    self.parts.engine.progress().next,
                    end.newest
                );
                Err(self.cannot_use(why).into())
            }
            //= RS14
            ReadingEndCause::OtherOrder => {
                let why = "its state is of an order that the daemons do not keep any more: they began another one, because they \
                           lost their votes. Have the daemons take up their old state directories; only if those are lost for \
                           good, move this directory away to begin with what the daemons have, and put what it has into that \
                           (`consort kv load`)";
                Err(self.cannot_use(why.to_owned()).into())
            }
            _ => Err(Error::Session(end.text.clone()).into()),
        }
    }

    /// What the log has no more is to come from another replica, up to there at least.
    pub(super) fn lack(&mut self, from: u64) {
        let Stage::Consumes(bound) = &self.stage else { return };
        tracing::info!("the replica of group {} fetches a checkpoint: the log begins at {from}", self.parts.group);
        let why = format!("it fetches a checkpoint of another copy: the log begins at position {from}");
        self.keeping.lacks_from = from;
        self.stage = Stage::Lacks { bound: bound.clone(), fetch: None, why };
        if matches!(self.parts.source, Source::Daemons) {
            self.reads = false;
            self.parts.engine.on_lost();
        }
        self.keeping.fetch_at = Instant::now();
        // Who has it, and where the history begins, may have changed since the order was asked.
        (self.copies, self.ask_at) = (None, Instant::now());
    }

    /// It was the first to be bound, and the log has released what was before: the history begins behind that.
    fn begin_later(&mut self, bound: Bound) {
        //= RS15
        let Some(copies) = self.copies.as_ref().filter(|_| matches!(self.stage, Stage::Lacks { .. })) else { return };
        let Progress { next, applied, .. } = *self.parts.engine.progress();
        if applied == 0 && next.position < copies.began.0 && self.keeping.lacks_from <= copies.began.0 {
            self.parts.engine.on_nothing_before(Place::at(copies.began.0));
            self.stage = Stage::Consumes(bound);
            self.consume();
        }
    }

    /// Consumes the log from where the state ends.
    pub(super) fn consume(&mut self) {
        self.reads = false;
        let group = std::slice::from_ref(&self.parts.group);
        let (order, next) = (self.keeping.order, self.parts.engine.progress().next);
        let Some(client) = self.parts.link.client() else { return };
        if let Err(error) = client.read(group, ReadFrom::After(Bookmark::new(order, next))) {
            self.lose(&error);
        }
    }

    fn take_copies(&mut self, copies: Copies) -> Result<(), End> {
        if !copies.lasts {
            let why = "the daemons keep their order in memory now, and its state is of an order that lasts; run them as \
                       before (`paxos` with storage sync or async)";
            return Err(self.cannot_use(why.to_owned()).into());
        }
        let known = copies.order != 0;
        self.copies = Some(copies);
        match &self.stage {
            Stage::Asks if known => self.choose(),
            Stage::Asks => {
                self.ask_at = Instant::now() + ASK_AGAIN;
                Ok(())
            }
            Stage::Consumes(bound) | Stage::Lacks { bound, .. } if known => {
                let bound = bound.clone();
                self.check_seat(&bound)?;
                self.begin_later(bound);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Asks the order to bind a copy, once the directory says which.
    fn choose(&mut self) -> Result<(), End> {
        let Some(copies) = &self.copies else { return Ok(()) };
        let label = format!("{} {}", self.parts.name, self.parts.address);
        let options = &self.parts.options;
        let group = self.parts.group.to_string();
        let prefers = self.parts.link.seen().map_or(1, |client| client.welcome().daemon.node.0);
        let wanted = Wanted {
            group: &self.parts.group,
            directory: self.parts.checkpoints.directory(),
            label: &label,
            copies: options.copies,
            takes: options.copy,
            prefers,
            from: Position(self.keeping.declared()),
            has_state: self.parts.has_state,
            mark: self.parts.mark,
            token: crate::line::random(),
        };
        let binding = match seat::choose(copies, self.parts.identity.as_ref(), &wanted) {
            Choice::Bind(binding) => binding,
            Choice::Later => {
                self.ask_at = Instant::now() + ASK_AGAIN;
                return Ok(());
            }
            Choice::Refuse(why) => return Err(self.cannot_use(why).into()),
        };
        self.keeping.order = copies.order;
        if !self.parts.has_state {
            //= RS15
            let begins = if copies.began.0 > 0 { copies.began.0 } else { copies.last.0 + 1 };
            self.parts.engine.on_nothing_before(Place::at(begins));
        }
        let epoch = seat::known_epoch(self.parts.identity.as_ref(), &binding);
        let Binding { order, holder: seat, token, .. } = binding.clone();
        self.save_identity(Identity { group, order, seat, epoch, token, mark: self.parts.mark })?;
        if let Some(client) = self.parts.link.client()
            && let Err(error) = client.bind(&binding)
        {
            self.lose(&error);
        }
        self.stage = Stage::Binds(binding);
        Ok(())
    }

    fn save_identity(&mut self, identity: Identity) -> Result<(), End> {
        if let Err(error) = identity.save(self.parts.checkpoints.directory()) {
            return Err(self
                .cannot_use(format!("the file `identity` cannot be written: {}", with_remedy(&error)))
                .into());
        }
        self.parts.identity = Some(identity);
        Ok(())
    }

    fn take_bound(&mut self, answer: consort::Bound) -> Result<(), End> {
        let Stage::Binds(binding) = &self.stage else { return Ok(()) };
        if answer.token != binding.token {
            return Ok(());
        }
        match answer.outcome {
            Ok(epoch) => {
                //= RS05
                let seat = binding.holder.clone();
                tracing::info!("group {}: bound as copy {} by entry {epoch}", self.parts.group, copy_of(&seat));
                if let Some(identity) = self.parts.identity.clone() {
                    self.save_identity(Identity { epoch, ..identity })?;
                }
                self.stage = Stage::Consumes(Bound { seat, epoch });
                self.consume();
            }
            // Another one was bound meanwhile: what the order says now decides.
            Err(refusal) if matches!(refusal.cause, BindRefusalCause::Superseded | BindRefusalCause::SeatsTaken) => {
                (self.stage, self.ask_at) = (Stage::Asks, Instant::now());
            }
            Err(refusal) if refusal.cause == BindRefusalCause::TooMany => {
                (self.stage, self.ask_at) = (Stage::Asks, Instant::now() + AGAIN);
            }
            Err(refusal) => return Err(self.cannot_use(refusal.text).into()),
        }
        Ok(())
    }

    /// Whether the copy is still bound by this server.
    fn check_seat(&mut self, bound: &Bound) -> Result<(), End> {
        //= RS08
        let seats = self.copies.iter().flat_map(|copies| &copies.seats);
        match seats.into_iter().find(|seat| seat.holder == bound.seat) {
            // The daemon may not have come so far yet.
            Some(seat) if seat.epoch > bound.epoch => {
                let why = format!(
                    "copy {} of group {} was bound by another server, as {} (entry {} of the log, and this one by entry {}); \
                     this one ends",
                    copy_of(&bound.seat),
                    self.parts.group,
                    seat.label,
                    seat.epoch,
                    bound.epoch
                );
                Err(self.cannot_use(why).into())
            }
            _ => Ok(()),
        }
    }

    fn take_declared(&mut self, status: &DeclareStatus) -> Result<(), End> {
        match &status.refused {
            None => self.keeping.declare_stands(),
            Some(refusal) if refusal.cause == DeclareRefusalCause::Superseded => self.ask_at = Instant::now(),
            Some(refusal) => tracing::warn!("a checkpoint of group {} was not taken: {refusal}", self.parts.group),
        }
        Ok(())
    }

    fn take_refusal(&mut self, request: u64, refusal: &Refusal) {
        if let Some(id) = self.cuts.remove(&request) {
            return self.parts.shared.miss(id, Error::Refused(refusal.to_string()));
        }
        if refusal.cause == RefusalCause::Leaving || matches!(self.parts.source, Source::Own(_)) {
            let leaves = consort::Error::ConnectionLost { why: refusal.to_string(), unknown_fate: 1..1 };
            return self.lose(&leaves);
        }
        // Later commands are numbered behind this one: all are sent again.
        if self.refused.is_none() {
            tracing::warn!("the daemon refuses what the replica of group {} sends: {refusal}", self.parts.group);
            self.refused = Some((Instant::now() + AGAIN, refusal.to_string()));
        }
    }

    /// Begins to fetch a checkpoint, and takes it once it is there.
    pub(super) fn take_fetched(&mut self, now: Instant) -> Result<(), End> {
        let Stage::Lacks { fetch, .. } = &self.stage else { return Ok(()) };
        let came = match fetch {
            None => return self.begin_fetch(now),
            Some(fetch) => fetch.try_recv(),
        };
        match came {
            Ok(Ok(fetched)) => self.restore(&fetched),
            Ok(Err(why)) => {
                self.fetch_again(now, format!("no copy has a checkpoint that it can go on from: {why}"));
                Ok(())
            }
            Err(TryRecvError::Empty) => Ok(()),
            Err(TryRecvError::Disconnected) => {
                self.fetch_again(now, "the thread that fetches a checkpoint panicked".to_owned());
                Ok(())
            }
        }
    }

    fn fetch_again(&mut self, now: Instant, reason: String) {
        self.keeping.fetch_at = now + AGAIN;
        if let Stage::Lacks { fetch, why, .. } = &mut self.stage {
            *fetch = None;
            if *why != reason {
                tracing::warn!("group {}: {reason}", self.parts.group);
                *why = reason;
            }
        }
    }

    fn begin_fetch(&mut self, now: Instant) -> Result<(), End> {
        let Stage::Lacks { bound, fetch, .. } = &mut self.stage else { return Ok(()) };
        if now < self.keeping.fetch_at {
            return Ok(());
        }
        let shared = self.parts.shared_directory.clone().map(Donor::Shared);
        let others: Vec<_> = match (&self.parts.source, &self.copies) {
            (Source::Own(own), _) => own.engine.donors(),
            (Source::Daemons, Some(copies)) => {
                // A daemon that has yet to read the log of its start does not know who else there is.
                let is_known = |seat: &Seat| seat.holder == bound.seat && seat.epoch >= bound.epoch;
                if !copies.seats.iter().any(is_known) {
                    return Ok(());
                }
                seat::donors(copies, &bound.seat).map(|seat| seat::address_of(seat).to_owned()).collect()
            }
            (Source::Daemons, None) => return Ok(()),
        };
        let donors: Vec<_> = shared.into_iter().chain(others.into_iter().map(Donor::Replica)).collect();
        let from = self.keeping.lacks_from;
        if donors.is_empty() && matches!(self.parts.source, Source::Own(_)) {
            self.fetch_again(now, format!("no other copy is here that could have what is before position {from}"));
            return Ok(());
        }
        if donors.is_empty() {
            //= RS13
            let why = format!(
                "the log begins at position {from}, and this copy has nothing from before; there is no other copy that could \
                 have it. Give this server the directory that it had; what was acknowledged before is lost without it"
            );
            return Err(self.cannot_use(why).into());
        }
        let directory = self.parts.checkpoints.directory().to_owned();
        let wish = Wish { directory, group: self.parts.group.to_string(), order: self.keeping.order, from };
        let (sender, receiver) = channel();
        let shared = std::sync::Arc::clone(&self.parts.shared);
        thread::spawn(move || {
            let _ = sender.send(transfer::fetch(&wish, &donors));
            shared.wake();
        });
        *fetch = Some(receiver);
        Ok(())
    }

    /// The machine takes the checkpoint of another instead of what it has.
    fn restore(&mut self, fetched: &Fetched) -> Result<(), End> {
        let Stage::Lacks { bound, .. } = &self.stage else { return Ok(()) };
        let bound = bound.clone();
        if let Source::Own(own) = &self.parts.source
            && fetched.head.progress.next.position <= own.engine.applied() + 1
        {
            // What it lacked has come in another way.
            self.stage = Stage::Consumes(bound);
            return Ok(());
        }
        let mut machine = self.parts.shared.machine.write().unwrap_or_else(PoisonError::into_inner);
        let head = self.parts.checkpoints.restore(&fetched.path, &mut *machine);
        drop(machine);
        let head: crate::lasting::head::Head = head.map_err(|error| {
            // What is restored in part must not be kept.
            self.keeping.spoilt = true;
            Error::Restore(error.to_string())
        })?;
        debug_assert_eq!(head, fetched.head, "the file is as it was checked");
        self.parts.shared.state().position = CommandPosition(head.progress.applied);
        self.keeping.came(&head);
        self.parts.has_state = true;
        let applied = head.progress.next.position.saturating_sub(1);
        self.parts.engine.on_checkpoint(head.progress);
        self.stage = Stage::Consumes(bound);
        self.parts.shared.told_current(self.parts.engine.serves(), &missed());
        match &mut self.parts.source {
            Source::Own(own) => own.engine.on_checkpoint(applied),
            Source::Daemons => self.consume(),
        }
        self.act()
    }

    pub(super) fn cannot_use(&self, why: String) -> Error {
        Error::Checkpoints { directory: self.parts.checkpoints.directory().to_owned(), why }
    }
}

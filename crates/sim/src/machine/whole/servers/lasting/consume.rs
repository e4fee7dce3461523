//! What the daemon says of the copies, of the binding and of the reading.
use super::super::flaw::ServerFlaw;
use super::{AGAIN, ASK_AGAIN, Ask, End, Here, Process, Stage, sum_of};
use crate::trace::ReplicaStep;
use consort_replica::simulated::lasting::{Choice, Identity, Progress, Wanted, choose, known_epoch};
use consort_session::{
    BindRefusalCause, Bound, DeclareRefusalCause, DeclareStatus, Place, ReadingEnd, ReadingEndCause, ReadingStatus,
};
use consort_types::{Binding, Copies, Duration, Holder, Instant, Position};
use std::path::Path;

/// How long a state may be further than the log.
const BEYOND_MAX: Duration = Duration::from_secs(30);

impl Process {
    pub(super) fn on_copies(&mut self, copies: Copies, here: &mut Here<'_>) -> Result<(), End> {
        if !copies.lasts {
            return Err(End::Order("the daemons keep their order in memory".to_owned()));
        }
        let known = copies.order != 0;
        self.copies = Some(copies);
        match &self.stage {
            Stage::Asks if known => self.choose(here),
            Stage::Asks => {
                self.ask_at = here.now + ASK_AGAIN;
                Ok(())
            }
            Stage::Consumes { seat, epoch } | Stage::Lacks { seat, epoch, .. } if known => {
                self.check_seat(seat, *epoch)?;
                self.begin_later();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Asks the order to bind a copy, once the directory says which.
    fn choose(&mut self, here: &mut Here<'_>) -> Result<(), End> {
        let Some(copies) = &self.copies else { return Ok(()) };
        let server = self.settings.server;
        let label = format!("s{server} {server}");
        let wanted = Wanted {
            group: &self.settings.group,
            directory: Path::new("simulated"),
            label: &label,
            copies: self.settings.copies,
            takes: self.takes,
            prefers: here.node,
            from: Position(self.kept.declared()),
            has_state: self.has_state,
            mark: here.directory.mark,
            token: here.token,
        };
        let binding = match choose(copies, here.directory.identity.as_ref(), &wanted) {
            Choice::Bind(binding) => binding,
            Choice::Later => {
                self.ask_at = here.now + ASK_AGAIN;
                return Ok(());
            }
            Choice::Refuse(why) => return Err(End::Directory(why)),
        };
        self.order = copies.order;
        if !self.has_state {
            //= RS15 test
            let end = copies.last.0 + 1;
            let begins = if copies.began.0 > 0 { copies.began.0 } else { end };
            let begins = if self.is(ServerFlaw::BeginsAtEnd) { end } else { begins };
            self.engine.on_nothing_before(Place::at(begins));
        }
        self.bind(binding, here);
        Ok(())
    }

    fn bind(&mut self, binding: Binding, here: &mut Here<'_>) {
        let Binding { order, holder: seat, token, .. } = binding.clone();
        let epoch = known_epoch(here.directory.identity.as_ref(), &binding);
        if self.is(ServerFlaw::ServesUnbound) {
            self.stage = Stage::Consumes { seat, epoch: u64::MAX };
            return self.consume();
        }
        if !self.is(ServerFlaw::IdentityLate) {
            let (group, mark) = (self.settings.group.to_string(), here.directory.mark);
            here.directory.identity = Some(Identity { group, order, seat, epoch, token, mark });
        }
        self.asks.push_back(Ask::Bind(binding.clone()));
        self.stage = Stage::Binds(binding);
    }

    pub(super) fn on_bound(&mut self, answer: &Bound, here: &mut Here<'_>) -> Result<(), End> {
        let Stage::Binds(binding) = self.stage.clone() else { return Ok(()) };
        if answer.token != binding.token {
            return Ok(());
        }
        match &answer.outcome {
            Ok(epoch) => {
                let (order, seat, token) = (binding.order, binding.holder, binding.token);
                let (group, mark, epoch) = (self.settings.group.to_string(), here.directory.mark, *epoch);
                here.directory.identity = Some(Identity { group, order, seat: seat.clone(), epoch, token, mark });
                self.stage = Stage::Consumes { seat, epoch };
                self.consume();
            }
            // Another one was bound meanwhile: what the order says now decides.
            Err(refusal) if matches!(refusal.cause, BindRefusalCause::Superseded | BindRefusalCause::SeatsTaken) => {
                (self.stage, self.ask_at) = (Stage::Asks, here.now);
            }
            Err(refusal) if refusal.cause == BindRefusalCause::TooMany => {
                (self.stage, self.ask_at) = (Stage::Asks, here.now + AGAIN);
            }
            Err(refusal) => return Err(End::Directory(refusal.text.clone())),
        }
        Ok(())
    }

    /// Whether the copy is still bound by this server.
    fn check_seat(&self, own: &Holder, epoch: u64) -> Result<(), End> {
        //= RS08 test
        let seats = self.copies.iter().flat_map(|copies| &copies.seats);
        match seats.into_iter().find(|seat| seat.holder == *own) {
            Some(seat) if seat.epoch > epoch => Err(End::Directory(format!("its copy was bound as {}", seat.label))),
            _ => Ok(()),
        }
    }

    pub(super) fn on_declared(&mut self, status: &DeclareStatus, now: Instant) {
        match &status.refused {
            None => self.kept.is_acknowledged(),
            Some(refusal) if refusal.cause == DeclareRefusalCause::Superseded => self.ask_at = now,
            Some(_) => {}
        }
    }

    pub(super) fn on_reading(&mut self, status: &ReadingStatus, now: Instant) -> Result<(), End> {
        match status {
            ReadingStatus::Began { .. } => {
                self.reads = matches!(self.stage, Stage::Consumes { .. });
                self.beyond_since = None;
                self.engine.on_connected();
            }
            ReadingStatus::CaughtUp { position } if self.reads => {
                self.engine.on_nothing_before(Place::at(position + 1));
            }
            ReadingStatus::Lost { to, .. } if self.reads && *to >= self.engine.progress().next.position => {
                self.lack(to + 1, now);
            }
            ReadingStatus::Ended(end) => return self.on_reading_ended(end, now),
            _ => {}
        }
        Ok(())
    }

    fn on_reading_ended(&mut self, end: &ReadingEnd, now: Instant) -> Result<(), End> {
        match end.cause {
            ReadingEndCause::Ended => Ok(()),
            ReadingEndCause::Trimmed => {
                self.lack(end.oldest, now);
                Ok(())
            }
            //= RS14 test
            ReadingEndCause::BeyondEnd => {
                let since = *self.beyond_since.get_or_insert(now);
                if now.since(since) >= BEYOND_MAX {
                    return Err(End::Order(format!("the log ends at {}, before its state", end.newest)));
                }
                self.consume();
                Ok(())
            }
            _ => Err(End::Order(end.text.clone())),
        }
    }

    /// What the log has no more is to come from another server, up to there at least.
    pub(super) fn lack(&mut self, from: u64, now: Instant) {
        let Stage::Consumes { seat, epoch } = self.stage.clone() else { return };
        if self.is(ServerFlaw::SkipsLost) {
            self.engine.on_nothing_before(Place::at(from));
            return self.consume();
        }
        self.stage = Stage::Lacks { seat, epoch, from, fetch: None };
        if self.own.is_none() {
            self.reads = false;
            self.engine.on_lost();
        }
        (self.copies, self.fetch_at, self.ask_at) = (None, now, now);
    }

    /// It was the first to be bound, and the log has released what was before: the history begins behind that.
    fn begin_later(&mut self) {
        let (Stage::Lacks { seat, epoch, from, .. }, Some(copies)) = (self.stage.clone(), &self.copies) else { return };
        let Progress { next, applied, .. } = *self.engine.progress();
        if applied == 0 && next.position < copies.began.0 && from <= copies.began.0 {
            self.engine.on_nothing_before(Place::at(copies.began.0));
            self.stage = Stage::Consumes { seat, epoch };
            self.consume();
        }
    }

    /// Consumes the log from where the state ends.
    pub(super) fn consume(&mut self) {
        self.reads = false;
        let mut from = self.engine.progress().next;
        if self.is(ServerFlaw::BookmarkAhead) {
            from.position += 1;
        }
        self.asks.push_back(Ask::Read { order: self.order, from });
    }

    /// Another's checkpoint is the state.
    pub(super) fn tell_restored(&mut self) {
        let (at, sum) = (self.engine.progress().applied, sum_of(&self.registers));
        self.tell(ReplicaStep::Restored, |told| (told.at, told.sum) = (at, sum));
    }
}

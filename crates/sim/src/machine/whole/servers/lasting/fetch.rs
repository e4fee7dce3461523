//! Checkpoints: its own, and another's where the log has no more what its state lacks.
use super::super::directory::{Checkpoint, Directory};
use super::super::flaw::ServerFlaw;
use super::{AGAIN, Ask, End, Fetch, Here, Process, Stage};
use consort_replica::simulated::lasting::{Origins, address_of, donors};
use consort_session::DeclareRequest;
use consort_types::{Duration, Instant, Position, Rng, Seat};

/// How long it takes to write a checkpoint, at most.
const WRITES: Duration = Duration::from_millis(40);
/// How long it takes to send one, at most.
const SENDS: Duration = Duration::from_millis(80);

impl Process {
    /// A checkpoint is written, and is acknowledged once two are there.
    pub(super) fn collect(&mut self, here: &mut Here<'_>) {
        if let Some((checkpoint, _)) = self.saving.take_if(|(_, done)| here.now >= *done) {
            let position = checkpoint.progress.next.position;
            here.directory.keep(checkpoint);
            self.kept.note(position);
            self.since = here.now;
        }
        let Stage::Consumes { seat, epoch } = &self.stage else { return };
        let Some(from) = self.kept.to_acknowledge().filter(|_| self.connected || self.own.is_some()) else {
            return;
        };
        if let Some(own) = &mut self.own {
            self.kept.acknowledges(from);
            self.kept.is_acknowledged();
            return own.on_kept(from);
        }
        let (holder, epoch, order) = (seat.clone(), *epoch, self.order);
        self.asks.push_back(Ask::Declare(DeclareRequest { order, holder, from: Some(Position(from)), epoch }));
        self.kept.acknowledges(from);
    }

    /// Begins a checkpoint if it is time.
    pub(super) fn keep(&mut self, here: &Here<'_>) {
        let next = self.engine.progress().next.position;
        let takes = self.reads || self.own.is_some() && self.engine.serves();
        if !matches!(self.stage, Stage::Consumes { .. }) || !takes || self.saving.is_some() {
            return;
        }
        self.move_on(next);
        let age = here.now.since(self.since);
        if self.kept.is_due(age, self.settings.checkpoint_every, self.copies.as_ref(), next) {
            let takes = next.wrapping_mul(0x9e37_79b9) % WRITES.as_nanos() as u64;
            self.saving = Some((self.checkpoint(), here.now + Duration::from_nanos(takes)));
        }
    }

    /// Others fill the log: a mark shows how far it is.
    fn move_on(&mut self, next: u64) {
        //= RS11 test
        let Some(copies) = &self.copies else { return };
        let is_behind = copies.last.0 > next && self.kept.is_pressed(Some(copies), 1);
        if is_behind && copies.held >= copies.budget {
            self.copies = None;
            self.outbox.clear();
            self.engine.on_lost();
            return self.consume();
        }
        if is_behind && self.readers.is_empty() && self.outbox.is_empty() {
            let mark = self.engine.send_mark();
            self.readers.insert(mark, Vec::new());
            self.act();
        }
    }

    fn checkpoint(&mut self) -> Checkpoint {
        self.serial += 1;
        let (order, serial, mut progress) = (self.order, self.serial, self.engine.progress().clone());
        match self.settings.flaw {
            Some(ServerFlaw::TableUnkept) => progress.origins = Origins::of_most(self.settings.origins),
            Some(ServerFlaw::PlaceKeptLate) => progress.next.position += 1,
            _ => {}
        }
        Checkpoint { order, serial, progress, registers: self.registers, damaged: false }
    }

    /// It is stopped: all that was applied is on disk then.
    pub fn keep_last(&mut self, directory: &mut Directory) {
        let next = self.engine.progress().next.position;
        if let Some((checkpoint, _)) = self.saving.take() {
            self.kept.note(checkpoint.progress.next.position);
            directory.keep(checkpoint);
        }
        self.own.iter_mut().for_each(|own| own.stop(directory));
        if matches!(self.stage, Stage::Consumes { .. }) && self.kept.newest().is_none_or(|last| last < next) {
            let checkpoint = self.checkpoint();
            directory.keep(checkpoint);
        }
    }

    /// It is killed: of what its disk owes it may have a part.
    pub fn crash(&mut self, directory: &mut Directory, rng: &mut Rng) {
        self.own.iter_mut().for_each(|own| own.crash(directory, rng));
    }

    /// Begins to fetch a checkpoint, if it lacks one. Of the servers that it may ask, the first has sent it after a while.
    ///
    /// # Errors
    /// There is no other copy.
    pub fn begin_fetch(&mut self, now: Instant, rng: &mut Rng) -> Result<(), End> {
        if let Some(end) = self.end.take() {
            return Err(end);
        }
        let sends = Duration::from_nanos(rng.below(SENDS.as_nanos() as u64));
        if let (Stage::Lacks { fetch: fetch @ None, .. }, Some(own)) = (&mut self.stage, &self.own) {
            let donors = own.donors();
            *fetch = (now >= self.fetch_at && !donors.is_empty()).then(|| Fetch { donors, done: now + sends });
            return Ok(());
        }
        let (Stage::Lacks { seat, epoch, fetch, from }, Some(copies)) = (&mut self.stage, &self.copies) else {
            return Ok(());
        };
        let is_known = |of: &Seat| of.holder == *seat && of.epoch >= *epoch;
        if fetch.is_some() || now < self.fetch_at || !copies.seats.iter().any(is_known) {
            return Ok(());
        }
        let donors: Vec<u16> = donors(copies, seat).filter_map(|seat| address_of(seat).parse().ok()).collect();
        if donors.is_empty() {
            //= RS13 test
            return Err(End::Directory(format!("the log begins at {from}, and there is no other copy")));
        }
        *fetch = Some(Fetch { donors, done: now + sends });
        Ok(())
    }

    /// The next server that has sent it a checkpoint by now, or that it has none.
    pub fn fetched_from(&mut self, now: Instant) -> Option<u16> {
        let Stage::Lacks { fetch, .. } = &mut self.stage else { return None };
        let known = fetch.as_mut().filter(|fetch| fetch.done <= now)?;
        if known.donors.is_empty() {
            *fetch = None;
            self.fetch_at = now + AGAIN;
            return None;
        }
        Some(known.donors.remove(0))
    }

    /// Takes another's checkpoint instead of what it has, if it can go on from it.
    pub fn restore(&mut self, newest: Option<Checkpoint>, here: &mut Here<'_>) {
        let Stage::Lacks { seat, epoch, from, .. } = self.stage.clone() else { return };
        //= RS16 test
        let reaches = |newest: &Checkpoint| newest.order == self.order && newest.progress.next.position >= from;
        let Some(newest) = newest.filter(reaches) else { return };
        if self.own.as_ref().is_some_and(|own| newest.progress.next.position <= own.applied() + 1) {
            // What it lacked has come in another way.
            self.stage = Stage::Consumes { seat, epoch };
            return;
        }
        self.registers = newest.registers;
        self.serial = self.serial.max(newest.serial);
        self.kept.note(newest.progress.next.position);
        (self.since, self.has_state) = (here.now, true);
        let applied = newest.progress.next.position.saturating_sub(1);
        self.engine.on_checkpoint(newest.progress.clone());
        here.directory.keep(newest);
        self.stage = Stage::Consumes { seat, epoch };
        self.tell_restored();
        self.own.iter_mut().for_each(|own| own.on_checkpoint(applied));
        self.act_for_own_log(here.now);
        if self.connected && self.own.is_none() {
            self.consume();
        }
    }
}

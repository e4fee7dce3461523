//! Sessions whose candidates want to lead: they send what an election says, and tell it what they are told.
use super::roaming_sessions::RoamingSession;
use consort_leader::{Command, Election};
use consort_session::Message;
use consort_types::{Duration, Instant, Rng, Service, ViewKind};

impl RoamingSession {
    /// Something happens to its candidate, and what follows from that is to be sent.
    fn elect(&mut self, now: Instant, happens: impl FnOnce(&mut Election, Instant)) {
        let Some(candidate) = &mut self.candidate else { return };
        let sends = candidate.elect(now, happens);
        self.commands.extend(sends.iter().map(|command| (command.serial, command.to_bytes().into())));
    }

    /// Time has passed for a candidate, and sends of its may have a fate.
    pub fn pass_candidate(&mut self, now: Instant, rng: &mut Rng, calm: bool) {
        if self.candidate.as_ref().is_none_or(|candidate| candidate.paused.is_some()) {
            return;
        }
        if std::mem::take(&mut self.lost) {
            self.candidate.iter_mut().for_each(|candidate| candidate.lose());
            self.elect(now, Election::handle_hole);
        }
        for (serial, ordered) in std::mem::take(&mut self.settled) {
            self.elect(now, |election, now| election.handle_settled(now, serial, ordered));
        }
        self.elect(now, Election::handle_timeout);
        if !calm {
            self.trouble_candidate(now, rng);
        }
    }

    /// Now and then a candidate resigns, stands still for a while, or ends and comes back.
    fn trouble_candidate(&mut self, now: Instant, rng: &mut Rng) {
        let Some(candidate) = &mut self.candidate else { return };
        match rng.below(2_000) {
            0..10 if candidate.leads() => self.elect(now, |election, now| {
                election.resign(now);
                election.stand(now);
            }),
            10..16 => candidate.paused = Some(now + Duration::from_nanos(rng.exponential(400e6).min(1.5e9) as u64)),
            16..18 => {
                candidate.restart(now);
                self.settled.clear();
                self.part();
            }
            _ => {}
        }
    }

    /// It is told a view.
    pub fn candidate_view(&mut self, now: Instant, kind: ViewKind, number: u64) {
        match kind {
            ViewKind::Regular => self.elect(now, |election, now| election.handle_view(now, number)),
            ViewKind::Transitional => self.elect(now, Election::handle_closing),
        }
    }

    /// It is given a message to its group.
    pub fn candidate_given(&mut self, now: Instant, message: &Message, command: &[u8]) {
        //= L12 test
        let command = Command::read(command).filter(|_| message.service() == Service::Safe);
        let (Some(command), Some(placement)) = (command, message.placement()) else { return };
        let position = consort_leader::place(placement.place.position, placement.place.index);
        self.candidate.iter_mut().for_each(|candidate| candidate.receive(&command));
        self.elect(now, |election, now| election.handle_command(now, position, &command));
    }

    /// Whether its candidate does nothing now.
    pub fn is_paused(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.paused.is_some())
    }

    /// It goes on if its time has come.
    pub fn unpause(&mut self, now: Instant) -> bool {
        let Some(candidate) = &mut self.candidate else { return false };
        candidate.paused.take_if(|until| *until <= now).is_some()
    }
}

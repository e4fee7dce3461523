//! The log that durable replicas keep: words of the group for its engine, and what that asks for.
use super::{Bound, Driver, End, Source, Stage, missed};
use crate::durable::Effect;
use crate::frame::Frame;
use crate::machine::StateMachine;
use crate::options::with_remedy;
use bytes::Bytes;
use consort::{ChangeCause, Event, Holder, Message};
use std::time::Instant;

impl<M: StateMachine> Driver<M> {
    /// Takes part in the group; the view that follows begins a meeting of the copies.
    pub(super) fn join(&mut self) -> Result<(), End> {
        let Source::Own(own) = &mut self.parts.source else { return Ok(()) };
        if matches!(self.stage, Stage::Asks) {
            let seat = Holder::of_group(&self.parts.group, own.engine.copy());
            self.stage = Stage::Consumes(Bound { seat, epoch: 0 });
        }
        let Some(client) = self.parts.link.client() else { return Ok(()) };
        own.engine.on_connected(client.welcome().message_max as usize);
        if let Err(error) = client.join(&self.parts.group) {
            self.lose(&error);
        }
        Ok(())
    }

    /// Events of the group.
    pub(super) fn take_for_own_log(&mut self, event: Event) {
        let Source::Own(own) = &mut self.parts.source else { return };
        match event {
            Event::GroupView(view) if view.cause != ChangeCause::Primary && view.group == self.parts.group => {
                self.parts.link.is_of_use();
                own.engine.on_membership(view.id.view.number, view.id.change);
            }
            Event::GroupSignal(signal) if signal.group == self.parts.group => own.engine.on_signal(),
            Event::Message(message) if is_of(&message, self.parts.group.as_bytes()) => self.take_word(&message),
            _ => {}
        }
    }

    fn take_word(&mut self, message: &Message) {
        let Source::Own(own) = &mut self.parts.source else { return };
        let bytes = Bytes::copy_from_slice(message.payload());
        match Frame::decode(&bytes) {
            Ok(Frame::Said(said)) => own.engine.on_said(*said),
            Ok(Frame::Open { .. } | Frame::Numbered { .. }) => own.engine.on_entry(bytes),
            Ok(frame @ Frame::Mark { .. }) if self.parts.engine.is_own_mark(&frame) => {
                // One that does not count is sent again once a term is in force.
                let _counts = own.engine.on_behind(bytes);
            }
            Ok(Frame::Mark { .. }) => {}
            Ok(Frame::Cut { origin, number }) => {
                if !own.engine.on_behind(bytes) {
                    self.parts.shared.miss((origin, number), missed());
                }
            }
            Ok(_) => self.keeping.warn_of_stranger(&self.parts.group, message.sender_name()),
            Err(error) => tracing::warn!("{} sent what is no command: {error}", message.sender_name()),
        }
    }

    /// What the journal has synced since.
    pub(super) fn take_written(&mut self) -> Result<bool, End> {
        let Source::Own(own) = &mut self.parts.source else { return Ok(false) };
        match own.take_written() {
            Ok(written) => {
                own.watch_disk(&self.parts.group);
                self.act()?;
                Ok(written)
            }
            Err(error) => Err(self.cannot_use(format!("its log cannot be written: {}", with_remedy(&error))).into()),
        }
    }

    /// Does what the engine of the own log asks for.
    pub(super) fn act_for_own_log(&mut self) -> Result<(), End> {
        while let Source::Own(own) = &mut self.parts.source
            && let Some(effect) = own.next_effect()
        {
            match effect {
                Effect::Say(said) => self.outbox.push_back(Frame::Said(Box::new(said))),
                Effect::Counts(true) => self.count_from_now(),
                Effect::Counts(false) => self.count_no_more(),
                Effect::Take { frame, at, next } => match Frame::decode(&frame) {
                    Ok(frame) => {
                        // What it lacked has come in another way.
                        if let Stage::Lacks { bound, .. } = &self.stage {
                            self.stage = Stage::Consumes(bound.clone());
                        }
                        self.parts.engine.on_frame(frame, at, next);
                    }
                    Err(error) => {
                        return Err(self.cannot_use(format!("entry {at} of its log is damaged: {error}")).into());
                    }
                },
                Effect::Lacks { from } => self.lack(from),
                Effect::End(why) => return Err(self.cannot_use(why).into()),
                // The journal's own.
                Effect::Write { .. } | Effect::Trim { .. } => {}
            }
        }
        Ok(())
    }

    /// A term is in force: what is of unknown fate is sent again.
    fn count_from_now(&mut self) {
        let Source::Own(own) = &mut self.parts.source else { return };
        if let Some((term, history, copies)) = own.engine.in_force() {
            self.keeping.order = history;
            tracing::info!(
                "group {}: term {term} of store {history:016x} is in force, by copies {copies:?}",
                self.parts.group
            );
        }
        self.parts.engine.on_connected();
        self.parts.shared.told_current(self.parts.engine.serves(), &missed());
    }

    /// What was sent and is not committed may never count.
    fn count_no_more(&mut self) {
        self.parts.engine.on_lost();
        self.outbox.retain(|frame| matches!(frame, Frame::Said(_)));
        self.parts.shared.told_current(false, &missed());
    }

    pub(super) fn why_own_log_waits(&mut self, now: Instant) -> Option<String> {
        match &mut self.parts.source {
            Source::Own(own) => own.waits_for(now),
            Source::Daemons => None,
        }
    }
}

fn is_of(message: &Message, group: &[u8]) -> bool {
    message.groups().any(|of| of.as_bytes() == group)
}

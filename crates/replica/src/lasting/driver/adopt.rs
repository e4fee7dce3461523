//! A state of an order that is lost becomes the beginning of another one, because an operator says so.
use super::{Driver, End, keeping};
use crate::frame::Adopted;
use crate::lasting::engine::{Adoption, Progress};
use crate::lasting::identity::{self, Identity};
use crate::machine::{Position, StateMachine};
use crate::options::with_remedy;
use std::fs;

impl<M: StateMachine> Driver<M> {
    /// Where the daemons keep another order than the state is of, its files get a directory until the log says whether it counts.
    pub(super) fn adopt(&mut self) -> Result<(), End> {
        //= RS14
        let Some(order) = self.copies.as_ref().map(|copies| copies.order) else { return Ok(()) };
        let Some(state) = self.parts.adopts.take().filter(|state| state.order != order) else { return Ok(()) };
        let is_of_state = |identity: &Identity| identity.order == state.order;
        let identity: &[_] =
            if self.parts.identity.as_ref().is_some_and(is_of_state) { &[identity::NAME] } else { &[] };
        let moved = if identity.is_empty() { Ok(()) } else { self.parts.checkpoints.move_apart(state.order, identity) };
        if let Err(error) = moved {
            let why =
                format!("its checkpoints cannot be moved into a directory `adopted-...`: {}", with_remedy(&error));
            return Err(self.cannot_use(why).into());
        }
        self.parts.identity = self.parts.identity.take().filter(|identity| !is_of_state(identity));
        let progress = if identity.is_empty() {
            // It was begun in an earlier start.
            self.parts.engine.progress().clone()
        } else {
            (self.parts.has_state, self.keeping) = (false, keeping(Vec::new(), order, 0));
            Progress::default()
        };
        self.parts.engine.adopt(state, progress);
        Ok(())
    }

    pub(super) fn take_adoption(&mut self, adoption: Adoption) -> Result<(), End> {
        match adoption {
            Adoption::Counts(Adopted { order, applied, .. }) => {
                tracing::warn!(
                    "group {}: its history in the order {:016x} begins with the state of the order {order:016x}, which has \
                     {applied} commands",
                    self.parts.group,
                    self.keeping.order
                );
                self.parts.has_state = true;
                self.parts.shared.state().position = Position(applied);
                self.keeping.earlier = self.parts.checkpoints.earlier().ok().flatten();
                Ok(())
            }
            Adoption::IsElsewhere { at, .. } => {
                self.lack(at.position + 1);
                Ok(())
            }
            Adoption::ComesLate { own, first } => {
                self.keeping.spoilt = true;
                let instead = first.map_or("with other commands".to_owned(), |first| {
                    format!("with the state of the order {:016x} that has {} commands", first.order, first.applied)
                });
                Err(self
                    .cannot_use(format!(
                        "the history of group {} in the order {:016x} has begun already, {instead}, and not with what this \
                         server has: the state of the order {:016x} with {} commands. That is in its directory `adopted-...` \
                         now. Move that away to have this server take up the history; to have its state instead, end all \
                         servers, have the daemons begin another order (the runbook docs/runbooks/no-majority.md), and start \
                         this server first",
                        self.parts.group, self.keeping.order, own.order, own.applied
                    ))
                    .into())
            }
        }
    }

    /// What was adopted is in a checkpoint of this order.
    pub(super) fn forget_earlier(&mut self) {
        if let Some(earlier) = self.keeping.earlier.take()
            && let Err(error) = fs::remove_dir_all(&earlier)
        {
            tracing::warn!("{} is not needed any more, and cannot be removed: {error}", earlier.display());
        }
    }
}

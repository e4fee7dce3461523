//! What the driver does about seals.
use super::Driver;
use crate::error::RunError;
use consort_node::Engine;

impl<E: Engine> Driver<E> {
    /// Greets where that is due, and tells people what did not open.
    pub(super) fn keep_seals(&mut self) -> Result<(), RunError> {
        if let Some(exhausted) = self.seals.exhausted() {
            return Err(exhausted.into());
        }
        if let Some(greeting) = self.seals.greeting(self.now) {
            self.outbox.push_probe(greeting);
        }
        let proven = self.seals.proven();
        if std::mem::replace(&mut self.proven, proven) != proven {
            self.note_facts();
        }
        if self.now >= self.log.seals_at {
            self.log.seals_at = self.now + super::log::LOOK;
            let news = self.seals.news(self.now);
            if !news.is_empty() {
                news.into_iter().for_each(crate::seals::Drops::tell);
                self.note_facts();
            }
        }
        Ok(())
    }
}

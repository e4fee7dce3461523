//! What the driver does for clients whose unread bytes are kept on disk.
use super::Driver;
use crate::error::RunError;
use crate::spool::{Spool, Spooled};
use bytes::Bytes;
use consort_node::Engine;
use consort_types::ClientId;
use std::sync::Arc;

impl<E: Engine> Driver<E> {
    /// Has bytes written; the thread starts with the first ones.
    pub(super) fn spool(&mut self, client: ClientId, bytes: Bytes) {
        if self.spool.is_none() {
            match self.start_spool() {
                Ok(spool) => self.spool = Some(spool),
                Err(why) => return self.node.handle_spool_failure(self.now, client, &why),
            }
        }
        self.spool.iter().for_each(|spool| spool.write(client, bytes.clone()));
    }

    fn start_spool(&self) -> Result<Spool, String> {
        let directory = self.spool_directory.clone();
        let directory = directory.ok_or_else(|| "this daemon has no directory for it; set `state`".to_owned())?;
        Spool::start(directory, Arc::clone(&self.waker)).map_err(|error| format!("no thread for it: {error}"))
    }

    /// Takes what the thread has done.
    pub(super) fn note_spooled(&mut self) -> Result<(), RunError> {
        while let Some(done) = self.spool.as_ref().and_then(Spool::next_done) {
            match done {
                Spooled::Written(client, n) => self.node.handle_spooled(self.now, client, n),
                Spooled::Read(client, bytes) => self.node.handle_unspooled(self.now, client, bytes),
                Spooled::Failed(client, why) => self.node.handle_spool_failure(self.now, client, &why),
            }
            self.drain()?;
        }
        Ok(())
    }
}

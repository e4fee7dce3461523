//! Partitions that end alone while the others go on.
use super::failed;
use crate::failure::Outcome;
use consort_kv::{Store, StoreError};
use consort_replica::Error;
use std::collections::BTreeSet;

/// The partitions whose end is in the log.
#[derive(Debug, Default)]
pub(super) struct Watch {
    logged: BTreeSet<usize>,
}

impl Watch {
    /// Logs each partition that has ended since.
    ///
    /// # Errors
    /// The first reason, if no partition goes on.
    pub(super) fn look(&mut self, store: &Store) -> Outcome {
        for ended in store.ended() {
            if let StoreError::Replica { partition, error } = ended
                && self.logged.insert(partition)
            {
                let remedy = remedy(&error);
                tracing::error!("partition {partition} is not served any more: {error}{remedy}");
            }
        }
        store.check().map_err(|error| failed(&error))
    }
}

/// What to do, unless the error says so itself.
const fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Parted(_) | Error::Checkpoints { .. } => "",
        Error::Restore(_) => ". Start this server again, so that it is sent the state once more",
        _ => ". Remove the cause, then start this server again",
    }
}

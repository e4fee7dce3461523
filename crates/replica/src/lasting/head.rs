//! What is in front of the machine in a checkpoint of an order that lasts.
use super::engine::Progress;
use super::origins::Origins;
use crate::checkpoint::CheckpointHead;
use crate::frame::{put_place, read_place};
use bytes::{BufMut, BytesMut};
use consort_wire::{Malformed, Reader};

/// How far the state is, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Names the order.
    pub order: u64,
    /// Counts the checkpoints of one position: near the log's budget a second one is made of the same state.
    pub serial: u64,
    pub progress: Progress,
}

impl CheckpointHead for Head {
    const FORMAT: &'static [u8; 8] = b"CONSREP2";

    fn rank(&self) -> String {
        let Progress { next, applied, .. } = &self.progress;
        format!("{:020}-{:05}-{:010}-{applied:020}", next.position, next.index, self.serial)
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_u64(self.order);
        out.put_u64(self.serial);
        put_place(out, self.progress.next);
        out.put_u64(self.progress.applied);
        self.progress.origins.put(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (order, serial, next) = (reader.u64("order")?, reader.u64("serial")?, read_place(reader)?);
        let (applied, origins) = (reader.u64("applied")?, Origins::read(reader)?);
        Ok(Self { order, serial, progress: Progress { next, applied, origins } })
    }
}

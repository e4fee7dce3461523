//! Bytes of what recipes say: integers big-endian, byte strings behind their length in four bytes.
use crate::{CandidateId, Fence};

#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn kind(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub fn fence(mut self, fence: Fence) -> Self {
        self.0.extend_from_slice(&u128::from(fence).to_be_bytes());
        self
    }

    pub fn candidate(mut self, candidate: CandidateId) -> Self {
        self.0.extend_from_slice(&candidate.0);
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Reads what a writer has written; `None` where there is less.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn kind(&mut self) -> Option<u8> {
        self.take().map(|[kind]| kind)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    pub fn fence(&mut self) -> Option<Fence> {
        self.take().map(|bytes| u128::from_be_bytes(bytes).into())
    }

    pub fn candidate(&mut self) -> Option<CandidateId> {
        self.take().map(CandidateId)
    }

    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = u32::from_be_bytes(self.take()?) as usize;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    /// Everything that is left, one by one.
    pub fn all<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut all = Vec::new();
        while !self.0.is_empty() {
            all.push(read(self)?);
        }
        Some(all)
    }
}

//! One connection: how far it is, bytes to frames, frames to bytes.
use super::{FRAME_MAX, READ, hello};
use crate::seals::{BadFrame, Seals};
use crate::sys::Arena;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use consort_node::Datagram;
use consort_types::{Instant, MemberId, NodeId};
use consort_wire::{Identity, envelope};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write};

/// The bytes of a frame's length.
const PREFIX: usize = 4;
/// Bodies up to that many bytes are copied behind what stands before them; larger ones leave from where they lie.
const SMALL: usize = 2 << 10;
/// At most that many pieces with one call.
const PIECES: usize = 64;

/// How far a connection is.
///
/// | from | to | when |
/// |---|---|---|
/// | `Dialing` | `Greeting` | the other end has accepted |
/// | `Greeting` | `Up` | the other end has said who it is |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkStage {
    /// This node dials that one.
    Dialing { peer: NodeId, until: Instant },
    /// The other's first frame is awaited; who dials knows whose it must be.
    Greeting { peer: Option<NodeId>, until: Instant },
    /// Frames flow.
    Up { member: MemberId, since: Instant },
}

/// What reading gave.
#[derive(Debug)]
pub(super) enum Read {
    /// Bytes.
    Bytes,
    /// Nothing for now.
    Nothing,
    /// It has ended, and why.
    Ended(String),
}

#[derive(Debug)]
pub(super) struct PeerConnection {
    stream: TcpStream,
    stage: LinkStage,
    input: Input,
    output: Output,
    /// What the last frame in each direction gave, for the next one.
    chain_in: u64,
    chain_out: u64,
    /// The kernel has, or may have, bytes of it.
    has_bytes: bool,
    /// Its end was seen: there is something to read up to that end.
    has_ended: bool,
    /// The kernel takes no more for now; an event will tell.
    full: bool,
}

impl PeerConnection {
    pub(super) fn new(stream: TcpStream, stage: LinkStage) -> Self {
        let (input, output) = (Input::default(), Output::default());
        let (chain_in, chain_out) = (0, 0);
        Self { stream, stage, input, output, chain_in, chain_out, has_bytes: true, has_ended: false, full: true }
    }

    /// Who is at the other end, once it has said so.
    pub(super) const fn member(&self) -> Option<MemberId> {
        if let LinkStage::Up { member, .. } = self.stage { Some(member) } else { None }
    }

    /// Who must be at the other end, where this node dials.
    pub(super) const fn expected(&self) -> Option<NodeId> {
        match self.stage {
            LinkStage::Dialing { peer, .. } => Some(peer),
            LinkStage::Greeting { peer, .. } => peer,
            LinkStage::Up { .. } => None,
        }
    }

    /// By when it must have come up.
    pub(super) const fn until(&self) -> Option<Instant> {
        match self.stage {
            LinkStage::Dialing { until, .. } | LinkStage::Greeting { until, .. } => Some(until),
            LinkStage::Up { .. } => None,
        }
    }

    /// The same where nobody knows who it is.
    pub(super) const fn stranger_until(&self) -> Option<Instant> {
        if let LinkStage::Greeting { peer: None, until } = self.stage { Some(until) } else { None }
    }

    /// Since when it is up.
    pub(super) const fn up_since(&self) -> Option<Instant> {
        if let LinkStage::Up { since, .. } = self.stage { Some(since) } else { None }
    }

    /// The kernel has something, perhaps the end.
    pub(super) const fn note_readable(&mut self, ended: bool) {
        self.has_bytes = true;
        self.has_ended |= ended;
    }

    /// The kernel may take bytes again.
    pub(super) const fn unblock(&mut self) {
        self.full = false;
    }

    /// Where it was dialling: sees whether it was accepted, and if so says who this is.
    pub(super) fn note_connected(&mut self, identity: &Identity, seals: &Seals, until: Instant) -> io::Result<()> {
        let LinkStage::Dialing { peer, .. } = self.stage else { return Ok(()) };
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.stage = LinkStage::Greeting { peer: Some(peer), until };
                self.push(seals, peer, Datagram { head: hello::seal(identity, peer), body: Bytes::new() });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The other end has said who it is. Whoever was dialled answers.
    pub(super) fn come_up(&mut self, identity: &Identity, seals: &Seals, member: MemberId, since: Instant) {
        if self.expected().is_none() {
            let hello = Datagram { head: hello::seal(identity, member.node), body: Bytes::new() };
            self.push(seals, member.node, hello);
        }
        self.stage = LinkStage::Up { member, since };
    }

    /// The next whole frame of what was read, opened.
    pub(super) fn next_frame(&mut self, seals: &Seals) -> Result<Option<Bytes>, NoFrame> {
        let most = if self.member().is_some() { FRAME_MAX } else { hello::LEN };
        let Some(frame) = self.input.next(most + seals.overhead())? else { return Ok(None) };
        let (frame, chain) = seals.open_frame(self.chain_in, frame)?;
        self.chain_in = chain;
        Ok(Some(frame))
    }

    /// Reads once, if all that was read before is taken.
    pub(super) fn read(&mut self, arena: &mut Arena) -> Read {
        if !self.has_bytes || matches!(self.stage, LinkStage::Dialing { .. }) {
            return Read::Nothing;
        }
        match self.stream.read(&mut arena.room(READ)[..READ]) {
            Ok(0) => Read::Ended("the other end closed it".to_owned()),
            Ok(n) => {
                // A short read has emptied the socket; only an end that was seen may still stand behind it.
                self.has_bytes = n == READ || self.has_ended;
                self.input.unread = arena.take_mut(n);
                Read::Bytes
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.has_bytes = false;
                Read::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Read::Bytes,
            Err(error) => Read::Ended(error.to_string()),
        }
    }

    /// Puts a frame to that node behind those that wait. Returns how many bytes wait now; `None` where it cannot be sealed.
    pub(super) fn push(&mut self, seals: &Seals, to: NodeId, frame: Datagram) -> Option<usize> {
        let (frame, chain) = seals.seal_frame(to, self.chain_out, frame)?;
        self.chain_out = chain;
        self.output.push(frame);
        Some(self.output.bytes)
    }

    /// Writes what the kernel takes.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while self.output.bytes > 0 && !self.full {
            match self.output.write(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.full = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A frame says that it is longer, or shorter, than a frame can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes")]
pub(super) struct BadLength(usize);

/// Why there is no next frame, and never will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoFrame {
    #[error(transparent)]
    Length(#[from] BadLength),
    #[error(transparent)]
    Frame(#[from] BadFrame),
}

/// Bytes that came.
#[derive(Debug, Default)]
struct Input {
    /// What was read and not taken yet.
    unread: BytesMut,
    /// A frame, with its length, that began in an earlier read.
    partial: BytesMut,
}

impl Input {
    fn next(&mut self, most: usize) -> Result<Option<BytesMut>, BadLength> {
        if self.partial.is_empty() {
            if let Some(len) = frame_length(&self.unread, most)?
                && self.unread.len() >= PREFIX + len
            {
                self.unread.advance(PREFIX);
                return Ok(Some(self.unread.split_to(len)));
            }
            self.partial.extend_from_slice(&self.unread);
            self.unread.clear();
            return Ok(None);
        }
        self.fill(PREFIX);
        let Some(len) = frame_length(&self.partial, most)? else { return Ok(None) };
        self.fill(PREFIX + len);
        if self.partial.len() < PREFIX + len {
            return Ok(None);
        }
        let mut frame = std::mem::take(&mut self.partial);
        frame.advance(PREFIX);
        Ok(Some(frame))
    }

    /// Moves bytes behind the frame that has begun until it has so many.
    fn fill(&mut self, len: usize) {
        let missing = len.saturating_sub(self.partial.len());
        self.partial.reserve(missing);
        let come = self.unread.split_to(missing.min(self.unread.len()));
        self.partial.extend_from_slice(&come);
    }
}

/// What a frame says of its length, if that much of it is there.
fn frame_length(bytes: &[u8], most: usize) -> Result<Option<usize>, BadLength> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Ok(None) };
    let len = u32::from_be_bytes(*prefix) as usize;
    if (envelope::LEN..=most).contains(&len) { Ok(Some(len)) } else { Err(BadLength(len)) }
}

/// Bytes that wait.
#[derive(Debug, Default)]
struct Output {
    pieces: VecDeque<Bytes>,
    /// What stands behind them, to be added to.
    tail: BytesMut,
    bytes: usize,
}

impl Output {
    fn push(&mut self, frame: Datagram) {
        let len = frame.head.len() + frame.body.len();
        // Whoever hands it in has seen to it that it is no longer than a frame can be.
        self.tail.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
        self.push_part(frame.head);
        self.push_part(frame.body);
        self.bytes += PREFIX + len;
    }

    fn push_part(&mut self, part: Bytes) {
        if part.len() <= SMALL {
            self.tail.put_slice(&part);
        } else {
            self.seal_tail();
            self.pieces.push_back(part);
        }
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
    }

    fn write(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        self.seal_tail();
        let mut slices = [IoSlice::new(&[]); PIECES];
        let n = self.pieces.iter().zip(&mut slices).map(|(piece, slot)| *slot = IoSlice::new(piece)).count();
        let written = stream.write_vectored(&slices[..n])?;
        self.advance(written);
        Ok(written)
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(piece) = self.pieces.front_mut() {
            let n = written.min(piece.len());
            piece.advance(n);
            written -= n;
            if !piece.is_empty() {
                return;
            }
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u32(len as u32);
        bytes.put_bytes(len as u8, len);
        bytes.freeze()
    }

    #[test]
    fn frames_come_whole_however_they_were_cut() {
        let lens = [envelope::LEN, 57, 3_000, 56, 100_000, 60];
        let all: Vec<u8> = lens.iter().flat_map(|len| frame(*len)).collect();
        for cut in [1, 3, 4, 5, 59, 61, 1_000, 65_536, all.len()] {
            let mut input = Input::default();
            let mut seen = Vec::new();
            for piece in all.chunks(cut) {
                input.unread = BytesMut::from(piece);
                while let Some(frame) = input.next(FRAME_MAX).unwrap() {
                    assert!(frame.iter().all(|byte| *byte == frame.len() as u8));
                    seen.push(frame.len());
                }
                assert!(input.unread.is_empty());
            }
            assert_eq!(seen, lens, "in pieces of {cut}");
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_seen_before_room_is_made_for_it() {
        for len in [0, 55, FRAME_MAX as u32 + 1, u32::MAX] {
            for cut in [1, 4, 7] {
                let mut input = Input::default();
                let bytes: Vec<u8> = len.to_be_bytes().into_iter().chain([0; 3]).collect();
                let mut result = Ok(None);
                for piece in bytes.chunks(cut) {
                    input.unread = BytesMut::from(piece);
                    result = result.and(input.next(FRAME_MAX));
                }
                assert_eq!(result, Err(BadLength(len as usize)));
                assert!(input.partial.capacity() < 1_000);
            }
        }
    }
}

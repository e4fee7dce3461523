//! The client's end of one connection.
//!
//! [`RequestWriter`] writes and counts what is sent, [`Replies`] reads what comes back; a program with two threads keeps one
//! in each and hands the latest [`Progress`] across. [`ClientEnd`] is both in one.
use crate::event::{Batch, BorrowedMessage, DaemonEvent, Message, Progress, Welcome};
use crate::frame::{Frames, HEAD_LEN};
use crate::numbering;
use crate::reading::{self, Place};
use crate::request::{self, Hello};
use crate::{DeclareRequest, copies, keys};
use bytes::{Buf, Bytes, BytesMut};
use consort_group::{Addressee, OpenRequest, Targets, ViewTrail};
use consort_types::{Binding, GroupName, Holder, Incarnation, NodeId, Service};
use consort_wire::{Malformed, append};
use std::collections::BTreeMap;
use std::ops::Range;

/// No daemon sends a larger frame.
const FRAME_MAX: usize = 256 << 20;

/// Why a request was not sent. Nothing changed; no number was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The credit does not allow it yet.
    #[error("{needs} bytes of credit are needed, {free} are free until earlier requests are ordered")]
    Credit {
        /// How many bytes the frame takes.
        needs: usize,
        /// How many are free.
        free: usize,
    },
    /// Larger than this cluster allows.
    #[error("a message of {len} bytes; this cluster allows {max}")]
    TooLarge {
        /// The payload's length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// To no group, or to more than one multicast may name.
    #[error("a message to {count} groups; name 1 to {max}")]
    Targets {
        /// How many were named.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The daemon has not said welcome yet, or has said farewell.
    #[error("the session is not open")]
    NotOpen,
}

/// Writes requests and counts them.
#[derive(Clone, Debug)]
pub struct RequestWriter {
    sent: u64,
    spent: u64,
    message_max: usize,
    credit: u64,
    groups_max: usize,
}

impl RequestWriter {
    /// Starts counting with the limits that the daemon named.
    pub const fn new(welcome: &Welcome) -> Self {
        Self {
            sent: 0,
            spent: 0,
            message_max: welcome.message_max as usize,
            credit: welcome.credit as u64,
            groups_max: welcome.groups_max as usize,
        }
    }

    /// Appends a join and returns its number. If the group has no members yet, `closed` says whether only members may
    /// send to it.
    ///
    /// # Errors
    /// [`NotSent::Credit`] where `known`, the latest progress, leaves too little.
    pub fn join(
        &mut self,
        out: &mut BytesMut,
        group: &GroupName,
        closed: bool,
        known: Progress,
    ) -> Result<u64, NotSent> {
        let number = self.count(request::membership_len(group), known)?;
        request::put_join(out, group, closed);
        Ok(number)
    }

    /// Appends a leave and returns its number.
    ///
    /// # Errors
    /// [`NotSent::Credit`] where `known`, the latest progress, leaves too little.
    pub fn leave(&mut self, out: &mut BytesMut, group: &GroupName, known: Progress) -> Result<u64, NotSent> {
        let number = self.count(request::membership_len(group), known)?;
        request::put_leave(out, group);
        Ok(number)
    }

    /// Appends a multicast and returns its number.
    ///
    /// # Errors
    /// [`NotSent`] says which limit it breaks.
    pub fn multicast<T: Addressee>(
        &mut self,
        out: &mut BytesMut,
        service: Service,
        to: &[T],
        payload: &[u8],
        known: Progress,
    ) -> Result<u64, NotSent> {
        let number = self.multicast_front(out, service, to, payload.len(), known)?;
        append(out, payload);
        Ok(number)
    }

    /// The same without the payload of that many bytes, which is to follow.
    ///
    /// # Errors
    /// As [`Self::multicast`].
    pub fn multicast_front<T: Addressee>(
        &mut self,
        out: &mut BytesMut,
        service: Service,
        to: &[T],
        payload: usize,
        known: Progress,
    ) -> Result<u64, NotSent> {
        if payload > self.message_max {
            return Err(NotSent::TooLarge { len: payload, max: self.message_max });
        }
        let max = self.groups_max.min(Targets::MAX);
        if to.is_empty() || to.len() > max {
            return Err(NotSent::Targets { count: to.len(), max });
        }
        let number = self.count(request::multicast_len(to, payload), known)?;
        request::put_multicast_front(out, service, to, payload);
        Ok(number)
    }

    /// How many numbered requests were sent: the last one's number.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// How many bytes of credit are free. A request that needs more than all credit may go while nothing is under way.
    pub const fn free(&self, known: Progress) -> usize {
        self.credit.saturating_sub(self.spent.saturating_sub(known.credit)) as usize
    }

    const fn count(&mut self, cost: usize, known: Progress) -> Result<u64, NotSent> {
        let free = self.free(known);
        if self.spent > known.credit && cost > free {
            return Err(NotSent::Credit { needs: cost, free });
        }
        self.spent += cost as u64;
        self.sent += 1;
        Ok(self.sent)
    }
}

/// Which of the requests up to `sent` have an unknown fate if the connection ends now: those of which the daemon has
/// not said that they are ordered. They may be ordered still, or never.
pub const fn unknown_fate(sent: u64, known: Progress) -> Range<u64> {
    known.ordered + 1..sent + 1
}

/// Reads what a daemon says. Events share the bytes that were read.
#[derive(Debug)]
pub struct Replies {
    frames: Frames,
    progress: Progress,
    batch: Option<Batch>,
    /// Which incarnation of each node sends.
    incarnations: BTreeMap<NodeId, Incarnation>,
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            frames: Frames::new(FRAME_MAX),
            progress: Progress::default(),
            batch: None,
            incarnations: BTreeMap::new(),
        }
    }
}

impl Replies {
    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: Bytes) {
        self.frames.push(bytes);
    }

    /// The next message of a batch of which some were taken; no other event, and a quick way to these.
    pub fn next_of_batch(&mut self) -> Option<Message> {
        let next = self.batch.as_mut()?.next();
        if next.is_none() {
            self.batch = None;
        }
        next
    }

    /// The same where it lies. There is none in a batch that was read by position.
    pub fn borrow_of_batch(&mut self) -> Option<BorrowedMessage<'_>> {
        self.batch.as_mut().filter(|batch| !batch.is_read())?.next_borrowed()
    }

    /// The next event; `None` until more bytes come. Progress is kept, too.
    ///
    /// # Errors
    /// [`Malformed`] where the daemon sent what is no frame; nothing can be read after it.
    pub fn next_event(&mut self) -> Result<Option<DaemonEvent>, Malformed> {
        // Nobody knows what stands behind it.
        self.read_event().inspect_err(|_| self.frames.clear())
    }

    fn read_event(&mut self) -> Result<Option<DaemonEvent>, Malformed> {
        loop {
            if let Some(message) = self.next_of_batch() {
                return Ok(Some(DaemonEvent::of(message)));
            }
            let Some(head) = self.frames.whole()? else { return Ok(None) };
            let (kind, body) = (head.kind, self.frames.take_body(head));
            let in_body = |error: Malformed| Malformed { at: error.at + HEAD_LEN, ..error };
            if Batch::is_one(kind) {
                let mut batch = Batch::decode(kind, body).map_err(in_body)?;
                batch.sent_by(|node| self.incarnations.get(&node).copied());
                self.batch = Some(batch);
                continue;
            }
            let mut event = DaemonEvent::decode(kind, body).map_err(in_body)?;
            match &mut event {
                DaemonEvent::Progress(progress) => self.progress = *progress,
                DaemonEvent::Message(message) | DaemonEvent::Read(message) => self.sent_by(message),
                DaemonEvent::Incarnation(incarnation) => {
                    self.incarnations.insert(incarnation.node, incarnation.incarnation);
                    continue;
                }
                _ => {}
            }
            return Ok(Some(event));
        }
    }

    /// Adds to a message which incarnation of its node has sent it, where it is known where it stands.
    pub fn sent_by<B>(&self, message: &mut Message<B>) {
        if message.has_placement() {
            message.sent_by(self.incarnations.get(&message.node()).copied());
        }
    }

    /// How many bytes the frame lacks that has begun; nothing where none has, or its length is not there.
    pub fn lacks(&self) -> Option<usize> {
        self.frames.begun().map(|len| len - self.frames.held())
    }

    /// Whether all that was fed was taken: what comes next begins with a frame.
    pub const fn is_through(&self) -> bool {
        self.batch.is_none() && self.frames.held() == 0
    }

    /// The latest progress that was read.
    pub const fn progress(&self) -> Progress {
        self.progress
    }
}

/// Both halves of a client, for one thread.
#[derive(Debug)]
pub struct ClientEnd {
    output: BytesMut,
    requests: Option<RequestWriter>,
    replies: Replies,
}

impl ClientEnd {
    /// A client that says hello first.
    pub fn new(hello: &Hello) -> Self {
        let mut output = BytesMut::new();
        hello.put(&mut output);
        Self { output, requests: None, replies: Replies::default() }
    }

    /// What is to be written to the daemon.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// The first `n` bytes of the output are written.
    pub fn written(&mut self, n: usize) {
        self.output.advance(n.min(self.output.len()));
    }

    /// Takes the whole output.
    pub fn take_output(&mut self) -> Bytes {
        self.output.split().freeze()
    }

    /// Asks to join a group; returns the request's number.
    ///
    /// # Errors
    /// [`NotSent`] says why it cannot be sent now.
    pub fn join(&mut self, group: &GroupName) -> Result<u64, NotSent> {
        let known = self.replies.progress();
        self.requests.as_mut().ok_or(NotSent::NotOpen)?.join(&mut self.output, group, false, known)
    }

    /// The same; if the group has no members yet, only members may send to it from here on.
    ///
    /// # Errors
    /// [`NotSent`] says why it cannot be sent now.
    pub fn join_closed(&mut self, group: &GroupName) -> Result<u64, NotSent> {
        let known = self.replies.progress();
        self.requests.as_mut().ok_or(NotSent::NotOpen)?.join(&mut self.output, group, true, known)
    }

    /// Asks to leave a group; returns the request's number.
    ///
    /// # Errors
    /// [`NotSent`] says why it cannot be sent now.
    pub fn leave(&mut self, group: &GroupName) -> Result<u64, NotSent> {
        let known = self.replies.progress();
        self.requests.as_mut().ok_or(NotSent::NotOpen)?.leave(&mut self.output, group, known)
    }

    /// Sends a message to groups and clients; returns the request's number.
    ///
    /// # Errors
    /// [`NotSent`] says why it cannot be sent now.
    pub fn multicast<T: Addressee>(&mut self, service: Service, to: &[T], payload: &[u8]) -> Result<u64, NotSent> {
        let known = self.replies.progress();
        let requests = self.requests.as_mut().ok_or(NotSent::NotOpen)?;
        requests.multicast(&mut self.output, service, to, payload, known)
    }

    /// Asks to read by position; with no groups, to end that.
    pub fn read(&mut self, order: u64, from: Place, groups: &[GroupName]) {
        reading::put_read(&mut self.output, order, from, groups);
    }

    /// Says what a holder keeps by itself.
    pub fn declare(&mut self, request: &DeclareRequest) {
        request.put(&mut self.output);
    }

    /// Asks what the order knows of the copies of a holder's program.
    pub fn ask_copies(&mut self, holder: &Holder) {
        copies::put_ask_copies(holder, &mut self.output);
    }

    /// Asks to have a copy of a program bound.
    pub fn bind(&mut self, binding: &Binding) {
        copies::put_bind(binding, &mut self.output);
    }

    /// Asks that all daemons seal with the next key.
    pub fn rotate(&mut self) {
        keys::put_rotate(&mut self.output);
    }

    /// Asks to read on from a place in a view.
    pub fn read_on(&mut self, trail: &ViewTrail, from: Place, groups: &[GroupName]) {
        reading::put_read_on(&mut self.output, trail, from, groups);
    }

    /// Asks to have multicasts numbered under a producer. Send none before it is opened.
    pub fn open_producer(&mut self, request: &OpenRequest) {
        numbering::put_open(request, &mut self.output);
    }

    /// Asks to have the producer that is open forgotten.
    pub fn forget_producer(&mut self) {
        numbering::put_forget(&mut self.output);
    }

    /// Asks for the daemon's status.
    pub fn status(&mut self) {
        request::put_status(&mut self.output);
    }

    /// Asks for an answer with the same token.
    pub fn ping(&mut self, token: u64) {
        request::put_ping(&mut self.output, token);
    }

    /// Says good-bye; the daemon answers with a disconnect once it has taken all that was sent before.
    pub fn goodbye(&mut self) {
        request::put_goodbye(&mut self.output);
    }

    /// Takes bytes that the daemon sent.
    pub fn feed(&mut self, bytes: Bytes) {
        self.replies.feed(bytes);
    }

    /// The next event; `None` until more bytes come.
    ///
    /// # Errors
    /// [`Malformed`] where the daemon sent what is no frame; nothing can be read after it.
    pub fn next_event(&mut self) -> Result<Option<DaemonEvent>, Malformed> {
        let event = self.replies.next_event()?;
        match &event {
            Some(DaemonEvent::Welcome(welcome)) => self.requests = Some(RequestWriter::new(welcome)),
            Some(DaemonEvent::Disconnect(_)) => self.requests = None,
            _ => {}
        }
        Ok(event)
    }

    /// How many bytes of credit are free; 0 before the welcome.
    pub fn free(&self) -> usize {
        self.requests.as_ref().map_or(0, |requests| requests.free(self.replies.progress()))
    }

    /// How far the numbered requests are.
    pub const fn progress(&self) -> Progress {
        self.replies.progress()
    }
}

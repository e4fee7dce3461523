//! What is to be written to the daemon. Writes to no socket: blocking and async clients take from it what they write.
use crate::shared::SessionState;
use crate::{Addressee, Binding, Error, GroupName, Holder, Progress, ReadFrom, Service, WaitCause};
use bytes::{Buf, BytesMut};
use consort_session::client::{NotSent, RequestWriter};
use consort_session::{DeclareRequest, OpenRequest, append, copies, keys, numbering, request};
use std::sync::Arc;

/// The buffer is written when it holds this many bytes.
const WRITE_AT: usize = 64 << 10;

/// Payloads from that many bytes on are not collected where the daemon shares memory: they go there from where they lie.
const LARGE: usize = 16 << 10;

/// Numbers sends and collects them.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    buffer: BytesMut,
    requests: RequestWriter,
    known: Progress,
    unbatched: bool,
    /// How often the daemon was asked for its status.
    asked: u64,
    /// A join or a leave is among what is collected: it is written at once, for what follows from it comes from others.
    prompt: bool,
    shared: Arc<SessionState>,
}

/// One send, before it has a number.
pub(crate) enum Outgoing<'a, T = GroupName> {
    Join(&'a GroupName, bool),
    Leave(&'a GroupName),
    Multicast(Service, &'a [T], &'a [u8]),
}

// Derives would ask the same of `T`.
impl<T> Clone for Outgoing<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Outgoing<'_, T> {}

impl<'a, T> Outgoing<'a, T> {
    /// The payload that is left to [`SendBuffer::put_rest`].
    pub(crate) fn large(&self) -> Option<&'a [u8]> {
        match self {
            Self::Multicast(_, _, payload) if payload.len() >= LARGE => Some(payload),
            _ => None,
        }
    }
}

impl SendBuffer {
    pub(crate) fn new(requests: RequestWriter, unbatched: bool, shared: Arc<SessionState>) -> Self {
        let (buffer, known) = (BytesMut::with_capacity(2 * WRITE_AT), Progress::default());
        Self { buffer, requests, known, unbatched, asked: 0, prompt: false, shared }
    }

    pub(crate) fn shared(&self) -> &SessionState {
        &self.shared
    }

    pub(crate) const fn sent(&self) -> u64 {
        self.requests.sent()
    }

    /// The credit that the last send without room knew of, in bytes since the start.
    pub(crate) const fn credit_seen(&self) -> u64 {
        self.known.credit
    }

    /// What is to be written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The first `n` bytes are written; true if nothing is left.
    pub(crate) fn written(&mut self, n: usize) -> bool {
        self.buffer.advance(n);
        let empty = self.buffer.is_empty();
        self.prompt &= !empty;
        empty
    }

    /// Numbers and collects a send, if there is credit for it; of a large one all but the payload, which is to follow by
    /// [`Self::put_rest`].
    pub(crate) fn append<T: Addressee>(&mut self, send: Outgoing<'_, T>) -> Result<u64, Error> {
        self.shared.check()?;
        let appended = self.put(send).or_else(|why| match why {
            NotSent::Credit { .. } => {
                self.known = self.shared.progress();
                self.put(send)
            }
            other => Err(other),
        });
        match appended {
            Ok(number) => {
                self.prompt |= !matches!(send, Outgoing::Multicast(..));
                self.shared.has_sent(number);
            }
            Err(_) => self.shared.ended().map_or(Ok(()), Err)?,
        }
        appended.map_err(|why| Error::not_sent(why, self.shared.cause().unwrap_or(WaitCause::Budget)))
    }

    fn put<T: Addressee>(&mut self, send: Outgoing<'_, T>) -> Result<u64, NotSent> {
        match send {
            Outgoing::Join(group, closed) => self.requests.join(&mut self.buffer, group, closed, self.known),
            Outgoing::Leave(group) => self.requests.leave(&mut self.buffer, group, self.known),
            Outgoing::Multicast(service, to, payload) => {
                let known = self.known;
                if send.large().is_some() {
                    return self.requests.multicast_front(&mut self.buffer, service, to, payload.len(), known);
                }
                self.requests.multicast(&mut self.buffer, service, to, payload, known)
            }
        }
    }

    /// Of what was collected and the payload that belongs behind it the first `n` bytes are written; collects the rest. What is
    /// begun is to be ended at once.
    pub(crate) fn put_rest(&mut self, payload: &[u8], n: usize) {
        let collected = n.min(self.buffer.len());
        self.written(collected);
        append(&mut self.buffer, &payload[n - collected..]);
        // The daemon gives who has begun a frame only so much time to end it; it may have no more than the front of its head.
        self.prompt |= n > 0 && !self.buffer.is_empty();
    }

    /// Returns which answer of all is the one to this.
    pub(crate) fn put_status(&mut self) -> u64 {
        request::put_status(&mut self.buffer);
        self.asked += 1;
        self.asked
    }

    /// A reading, or with no groups its end. It is written at once.
    pub(crate) fn put_read(&mut self, from: &ReadFrom, groups: &[GroupName]) {
        from.put(&mut self.buffer, groups);
        self.prompt = true;
    }

    /// Has it known what a holder keeps by itself. It is written at once.
    pub(crate) fn put_declare(&mut self, request: DeclareRequest) {
        request.put(&mut self.buffer);
        self.prompt = true;
    }

    /// Has it asked what the order knows of the copies of a program. It is written at once.
    pub(crate) fn put_ask_copies(&mut self, program: &Holder) {
        copies::put_ask_copies(program, &mut self.buffer);
        self.prompt = true;
    }

    /// Has a copy of a program bound. It is written at once.
    pub(crate) fn put_bind(&mut self, binding: &Binding) {
        copies::put_bind(binding, &mut self.buffer);
        self.prompt = true;
    }

    /// Has all daemons asked to seal with the next key. It is written at once.
    pub(crate) fn put_rotate(&mut self) {
        keys::put_rotate(&mut self.buffer);
        self.prompt = true;
    }

    /// Has what is sent numbered under a producer, once it is open. It is written at once.
    pub(crate) fn put_open(&mut self, open: &OpenRequest) {
        numbering::put_open(open, &mut self.buffer);
        self.prompt = true;
    }

    /// Has the producer that is open forgotten.
    pub(crate) fn put_forget(&mut self) {
        numbering::put_forget(&mut self.buffer);
        self.prompt = true;
    }

    pub(crate) fn put_goodbye(&mut self) {
        request::put_goodbye(&mut self.buffer);
    }

    /// Whether what was collected is to be written now.
    pub(crate) fn wants_write(&self) -> bool {
        self.unbatched || self.prompt || self.buffer.len() >= WRITE_AT
    }
}

//! A daemon's end of one connection.
use crate::MulticastNote;
use crate::header::{self, SpreadHeader};
use crate::hello::{self, Library, Reject};
use crate::input::Input;
use crate::messages::{self, RegularMessage};
use crate::request::{self, ParsedRequest};
use bytes::{BufMut, Bytes, BytesMut};
use consort_group::ClientName;
use consort_session::{Disconnect, DisconnectReason, FrameQueue};
use consort_types::{GroupName, Service};
use consort_wire::Malformed;
use std::collections::VecDeque;

/// About how many bytes a message has beside its data.
const WORD: usize = 128;

/// One Spread client of a daemon: what it said and was not yet taken, what it has under way, what it is to read.
///
/// Bytes go in by [`Self::feed`]; [`Self::ask`] says what the client asks. A numbered request (join, leave, multicast)
/// stays at the front until [`Self::accept`] or [`Self::refuse`] settles it, so one that cannot be taken now is simply
/// asked for again later and nothing overtakes it.
#[derive(Debug)]
pub struct SpreadSession {
    stage: HandshakeStage,
    private: Box<str>,
    wants_membership: bool,
    input: Input,
    asked: Option<RequestFrame>,
    passed: u64,
    under_way: VecDeque<RequestFrame>,
    outstanding: usize,
    refused: u64,
    output: FrameQueue,
    /// The lengths of the messages that are not written yet, oldest first.
    waiting: VecDeque<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeStage {
    /// Says its version and name.
    Hello,
    /// Waits until the daemon has looked at its name.
    Naming(Library),
    /// Chooses a method of authentication.
    Choosing(Library),
    /// Takes requests.
    Open,
    /// Said its last; only its output still matters.
    Closed,
}

/// A request and what it takes to give it back.
#[derive(Clone, Debug)]
struct RequestFrame {
    header: SpreadHeader,
    body: Bytes,
}

impl RequestFrame {
    const fn len(&self) -> usize {
        header::LEN + self.body.len()
    }
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpreadRequest {
    /// To be let in under this name, or one that the daemon chooses; answer with [`SpreadSession::name`] or [`SpreadSession::reject`].
    Name(Option<ClientName>),
    /// Nothing: the handshake is over.
    Entered,
    /// To join a group. Numbered.
    Join(GroupName),
    /// To leave a group. Numbered.
    Leave(GroupName),
    /// To have a message ordered. Numbered.
    Multicast {
        /// How strongly.
        service: Service,
        /// What rides along.
        note: MulticastNote,
        /// The list of names, in the form of [`consort_group::Targets`].
        targets: Bytes,
        /// The message; shares the bytes that were read.
        data: Bytes,
    },
    /// Nothing any more: what it has asked is given back already, because it is impossible.
    GivenBack,
    /// To end the session; all it sent is in the order or on its way there.
    Kill,
}

impl Default for SpreadSession {
    fn default() -> Self {
        Self::new()
    }
}

impl SpreadSession {
    /// A connection that has not said anything.
    pub fn new() -> Self {
        Self {
            stage: HandshakeStage::Hello,
            private: Box::default(),
            wants_membership: false,
            input: Input::default(),
            asked: None,
            passed: 0,
            under_way: VecDeque::new(),
            outstanding: 0,
            refused: 0,
            output: FrameQueue::default(),
            waiting: VecDeque::new(),
        }
    }

    /// What everybody calls the client: `#user#daemon`. Empty until [`Self::name`] was called.
    pub const fn private(&self) -> &str {
        &self.private
    }

    /// Whether it takes requests.
    pub fn is_open(&self) -> bool {
        self.stage == HandshakeStage::Open
    }

    /// Whether it was sent away.
    pub fn is_closed(&self) -> bool {
        self.stage == HandshakeStage::Closed
    }

    /// Whether its handshake is not over.
    pub fn is_silent(&self) -> bool {
        !self.is_open() && !self.is_closed()
    }

    /// The frame of which the head has come and not all of the rest, by its number in the session, and its length.
    pub fn begun(&self) -> Option<(u64, usize)> {
        if !self.is_open() || self.asked.is_some() {
            return None;
        }
        let header = SpreadHeader::decode(self.input.front(header::LEN)?.first_chunk()?).ok()?;
        let len = header::LEN + header.body()?;
        (self.input.held() < len).then_some((self.passed, len))
    }

    /// How many bytes it sent that were not taken yet.
    pub fn input_held(&self) -> usize {
        self.input.held() + self.asked.as_ref().map_or(0, RequestFrame::len)
    }

    /// How many bytes of its requests are under way.
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// How many of its requests were rejected.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    //= S20
    /// Whether it has as much under way as it may have: nothing more is read from it until something stands in the order.
    /// A client of Spread cannot be told to wait, so its bytes wait in its socket.
    pub const fn is_held_back(&self, credit: usize) -> bool {
        self.outstanding >= credit
    }

    /// The client's next bytes. A closed session takes none.
    pub fn feed(&mut self, bytes: Bytes) {
        if !self.is_closed() {
            self.input.push(bytes);
        }
    }

    //= S02
    /// What the client asks next; `None` until more bytes come, or while its name is looked at.
    ///
    /// # Errors
    /// The [`Disconnect`] for a client that breaks the protocol; hand it to [`Self::close`].
    pub fn ask(&mut self) -> Result<Option<SpreadRequest>, Disconnect> {
        loop {
            match self.stage {
                HandshakeStage::Hello => return self.on_hello(),
                HandshakeStage::Choosing(library) => return self.on_choice(library),
                HandshakeStage::Naming(_) | HandshakeStage::Closed => return Ok(None),
                HandshakeStage::Open => {}
            }
            if !self.fetch()? {
                return Ok(None);
            }
            if let Some(ask) = self.on_frame()? {
                return Ok(Some(ask));
            }
        }
    }

    fn on_hello(&mut self) -> Result<Option<SpreadRequest>, Disconnect> {
        let Some(hello) = hello::read(&mut self.input) else { return Ok(None) };
        let hello = hello.map_err(|reject| self.reject(reject))?;
        self.stage = HandshakeStage::Naming(hello.library);
        self.wants_membership = hello.wants_membership;
        Ok(Some(SpreadRequest::Name(hello.name)))
    }

    fn on_choice(&mut self, library: Library) -> Result<Option<SpreadRequest>, Disconnect> {
        let Some(choice) = hello::read_choice(&mut self.input) else { return Ok(None) };
        choice.map_err(|reject| self.reject(reject))?;
        self.enter(library);
        Ok(Some(SpreadRequest::Entered))
    }

    fn enter(&mut self, library: Library) {
        self.say(WORD, |session, out| hello::put_accept(out, library, &session.private));
        self.stage = HandshakeStage::Open;
    }

    //= S06
    /// The client is called `private` by everybody. Call [`Self::ask`] again, and [`Self::is_open`].
    pub fn name(&mut self, private: &str) {
        let HandshakeStage::Naming(library) = self.stage else { return };
        self.private = private.into();
        if library.chooses_method() {
            self.say(WORD, |_, out| hello::put_methods(out));
            self.stage = HandshakeStage::Choosing(library);
        } else {
            self.enter(library);
        }
    }

    /// The client is not let in. Hand the [`Disconnect`] to [`Self::close`].
    pub fn reject(&mut self, reject: Reject) -> Disconnect {
        self.say(WORD, |_, out| out.put_u8(reject.code()));
        let parting = if reject == Reject::Version { DisconnectReason::Version } else { DisconnectReason::Malformed };
        Disconnect::new(parting, format!("rejected with code {}: {}", reject as i8, reject.text()))
    }

    /// Takes the next whole frame off the input, unless one is there already.
    fn fetch(&mut self) -> Result<bool, Disconnect> {
        if self.asked.is_some() {
            return Ok(true);
        }
        let Some(front) = self.input.peek(header::LEN).and_then(|front| front.first_chunk()) else { return Ok(false) };
        let header = SpreadHeader::decode(front).map_err(|error| self.malformed(error))?;
        request::check(&header, &self.private).map_err(|error| self.malformed(error))?;
        let len = header::LEN + header.body().unwrap_or(0);
        let Some(mut frame) = self.input.take(len) else { return Ok(false) };
        let body = frame.split_off(header::LEN);
        self.asked = Some(RequestFrame { header, body });
        Ok(true)
    }

    /// What the frame at the front asks. `None` if it is settled already.
    fn on_frame(&mut self) -> Result<Option<SpreadRequest>, Disconnect> {
        let Some(RequestFrame { header, body }) = &self.asked else { return Ok(None) };
        let request = request::read(header, body).map_err(|error| self.malformed(error))?;
        let ask = match request {
            ParsedRequest::Join(group) => SpreadRequest::Join(group),
            ParsedRequest::Leave(group) => SpreadRequest::Leave(group),
            ParsedRequest::Multicast { service, note, targets, data } => {
                SpreadRequest::Multicast { service, note, targets, data }
            }
            ParsedRequest::Kill => {
                self.settle();
                SpreadRequest::Kill
            }
            ParsedRequest::Nothing => {
                self.settle();
                return Ok(None);
            }
            ParsedRequest::Impossible => {
                self.refuse();
                SpreadRequest::GivenBack
            }
        };
        Ok(Some(ask))
    }

    /// The numbered request that [`Self::ask`] returned is on its way into the order.
    pub fn accept(&mut self) {
        if let Some(frame) = self.settle() {
            self.outstanding += frame.len();
            self.under_way.push_back(frame);
        }
    }

    /// The numbered request that [`Self::ask`] returned is not taken: the client gets it back.
    pub fn refuse(&mut self) {
        if let Some(frame) = self.settle() {
            self.return_credit(&frame);
        }
    }

    /// The oldest request under way has its place in the order; if it was `refused` there, the client gets it back.
    pub fn order(&mut self, refused: bool) {
        let Some(frame) = self.under_way.pop_front() else { return };
        self.outstanding -= frame.len();
        if refused && self.is_open() {
            self.return_credit(&frame);
        }
    }

    fn return_credit(&mut self, frame: &RequestFrame) {
        self.refused += 1;
        self.tell(frame.body.len() + WORD, |session, out| {
            messages::put_reject(out, &frame.header, &frame.body, &session.private)
        });
    }

    fn settle(&mut self) -> Option<RequestFrame> {
        self.passed += u64::from(self.asked.is_some());
        self.asked.take()
    }

    //= S23
    /// Appends a message, unless it is the client's `own` and it wants none of those back.
    pub fn tell_message(&mut self, message: &RegularMessage<'_>, own: bool) {
        if !(own && message.note.is_self_discard()) {
            self.tell(message.payload.len() + WORD, |_, out| messages::put_message(out, message));
        }
    }

    //= S30
    /// Appends a group view or signal that [`messages::put_view`] or [`messages::put_signal`] has written, if this client wants such.
    pub fn tell_membership(&mut self, written: &Bytes) {
        if self.wants_membership {
            self.tell_shared(written);
        }
    }

    /// Appends one message that [`crate::messages`] has written and other clients are told, too.
    pub fn tell_shared(&mut self, written: &Bytes) {
        if self.is_open() {
            self.output.share(written);
            self.waiting.push_back(written.len());
        }
    }

    /// Appends that the client has left a group, if it wants to know.
    pub fn tell_self_leave(&mut self, group: &GroupName) {
        if self.wants_membership {
            self.tell(WORD, |_, out| messages::put_self_leave(out, group));
        }
    }

    fn tell(&mut self, len: usize, write: impl FnOnce(&Self, &mut BytesMut)) {
        if self.is_open() {
            self.say(len, write);
        }
    }

    fn say(&mut self, len: usize, write: impl FnOnce(&Self, &mut BytesMut)) {
        let mut output = std::mem::take(&mut self.output);
        let before = output.len();
        write(self, output.put(len));
        self.waiting.push_back(output.len() - before);
        self.output = output;
    }

    //= S40
    /// Ends the session: what the client sent and was not taken is forgotten. It is told nothing, as Spread's are not; what
    /// stands in its output is still to be read, unless it is `slow` to do so.
    pub fn close(&mut self, slow: bool) {
        self.stage = HandshakeStage::Closed;
        if slow {
            (self.output, self.waiting) = Default::default();
        }
        self.input = Input::default();
        self.asked = None;
    }

    /// What the client is to read.
    pub const fn output(&self) -> &FrameQueue {
        &self.output
    }

    /// How many messages wait to be read, whole or in part.
    pub fn messages_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The first `n` bytes of the output are written.
    pub fn written(&mut self, n: usize) {
        self.output.written(n);
        let mut left = n;
        while let Some(first) = self.waiting.front_mut() {
            if left < *first && !self.output.is_empty() {
                *first -= left;
                return;
            }
            left = left.saturating_sub(*first);
            self.waiting.pop_front();
        }
    }

    /// Whether there is output that nobody was told of yet; says so once, until all of it is written.
    pub fn wakes(&mut self) -> bool {
        self.output.wakes()
    }

    fn malformed(&self, error: Malformed) -> Disconnect {
        let Malformed { what, at } = error;
        Disconnect::new(
            DisconnectReason::Malformed,
            format!("malformed {what} at byte {at} of message {}", self.passed + 1),
        )
    }
}

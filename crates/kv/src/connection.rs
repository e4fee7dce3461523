//! One connection: commands are begun as they come, and answered in their order.
use crate::answer::{self, Answer, Kind};
use crate::limits::{ANSWER_MAX, VALUE_MAX};
use crate::request::{Request, request};
use crate::resp::{Decoder, Reply};
use crate::store::Store;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::net::TcpStream;

/// Behind commands of this price, counted as bytes copied, other connections have their turn.
const TURN: usize = 256 << 10;
/// What each command costs, each key that it names, and a scan that compares keys with a pattern.
const COMMAND: usize = 256;
const KEY: usize = 64;
const COMPARISONS: usize = 64 << 10;
/// So much is read at once.
const READ: usize = 16 << 10;
/// Behind so many bytes of replies that are not taken, nothing more is answered.
const OUTPUT_MAX: usize = 256 << 10;

/// Bytes that begun commands may hold besides those of writes that are under way; one command always.
const HELD_MAX: usize = ANSWER_MAX;

/// A command that is begun.
struct Begun {
    kind: Kind,
    /// What it may hold until it is answered.
    bytes: usize,
    /// What carrying it out costs.
    price: usize,
    answer: Answer,
}

/// Whether commands are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serves,
    /// The client sends no more; what came is carried out yet.
    Drains,
    /// Nothing more is taken; what was begun is answered yet.
    Ends,
}

/// A connection to one client; it is over when the future is.
pub(crate) struct Connection {
    store: Arc<Store>,
    stream: TcpStream,
    phase: Phase,
    decoder: Decoder,
    input: BytesMut,
    output: BytesMut,
    scratch: Box<[u8]>,
    /// A command that waits for those before it.
    held: Option<(Kind, Request)>,
    begun: VecDeque<Begun>,
    /// What these hold.
    bytes: usize,
    reads: usize,
    whole: usize,
    /// Whether a whole command has come; looked at when there are too many connections.
    has_asked: Arc<AtomicBool>,
    /// What has been spent in this turn.
    spent: usize,
}

impl Connection {
    pub(crate) fn new(store: Arc<Store>, stream: TcpStream, has_asked: Arc<AtomicBool>) -> Self {
        Self {
            store,
            stream,
            has_asked,
            spent: 0,
            phase: Phase::Serves,
            decoder: Decoder::default(),
            input: BytesMut::new(),
            output: BytesMut::new(),
            scratch: vec![0; READ].into(),
            held: None,
            begun: VecDeque::new(),
            bytes: 0,
            reads: 0,
            whole: 0,
        }
    }

    /// Begins what may be begun; true if anything was.
    fn begin_more(&mut self) -> bool {
        let mut any = false;
        while self.begun.len() < self.store.limits().pipeline && self.output.len() < OUTPUT_MAX {
            let Some((kind, request)) = self.held.take().or_else(|| self.next_request()) else { break };
            let bytes = held(&request);
            if !self.may_begin(kind) || self.bytes > 0 && self.bytes + bytes > HELD_MAX {
                self.held = Some((kind, request));
                break;
            }
            if request == Request::Quit {
                self.phase = Phase::Ends;
            }
            let price = price(&request);
            let answer = answer::begin(&self.store, request);
            self.enter(kind, (bytes, price), answer);
            any = true;
        }
        any
    }

    /// A read of one partition looks when its turn comes: a write begins behind it.
    fn may_begin(&self, kind: Kind) -> bool {
        self.whole == 0
            && match kind {
                Kind::Local | Kind::Read => true,
                Kind::Write => self.reads == 0,
                Kind::Whole => self.begun.is_empty(),
            }
    }

    fn enter(&mut self, kind: Kind, (bytes, price): (usize, usize), answer: Answer) {
        self.bytes += bytes;
        self.reads += usize::from(kind == Kind::Read);
        self.whole += usize::from(kind == Kind::Whole);
        self.begun.push_back(Begun { kind, bytes, price, answer });
    }

    /// The next command that can be carried out; what is wrong with others is answered.
    fn next_request(&mut self) -> Option<(Kind, Request)> {
        while self.phase != Phase::Ends && self.begun.len() < self.store.limits().pipeline {
            match self.decoder.next(&mut self.input) {
                Ok(Some(words)) => {
                    self.has_asked.store(true, Ordering::Relaxed);
                    match request(&words) {
                        Ok(request) => return Some((answer::kind(&self.store, &request), request)),
                        Err(error) => self.refuse(error.to_string()),
                    }
                }
                Ok(None) => {
                    if self.phase == Phase::Drains {
                        self.phase = Phase::Ends;
                    }
                    return None;
                }
                Err(error) => {
                    self.refuse(format!("ERR Protocol error: {error}"));
                    self.phase = Phase::Ends;
                }
            }
        }
        None
    }

    fn refuse(&mut self, why: String) {
        self.enter(Kind::Local, (why.len(), COMMAND), Box::pin(std::future::ready(Reply::Error(why))));
    }

    /// Writes down what is answered, in order; true if anything is.
    fn answer(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.output.len() < OUTPUT_MAX
            && self.spent < TURN
            && let Some(first) = self.begun.front_mut()
            && let Poll::Ready(reply) = first.answer.as_mut().poll(context)
        {
            let before = self.output.len();
            reply.put(&mut self.output);
            let Some(Begun { kind, bytes, price, .. }) = self.begun.pop_front() else { break };
            self.spent += price + self.output.len() - before;
            self.bytes -= bytes;
            self.reads -= usize::from(kind == Kind::Read);
            self.whole -= usize::from(kind == Kind::Whole);
            any = true;
        }
        any
    }

    fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut any = false;
        while !self.output.is_empty() && self.stream.poll_write_ready(context)?.is_ready() {
            match self.stream.try_write(&self.output) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.output.advance(written);
                    any = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(any)
    }

    /// Reads where a command is wanted.
    fn read(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let wants = self.phase == Phase::Serves
            && self.held.is_none()
            && self.begun.len() < self.store.limits().pipeline
            && self.output.len() < OUTPUT_MAX;
        while wants && self.stream.poll_read_ready(context)?.is_ready() {
            match self.stream.try_read(&mut self.scratch) {
                Ok(0) => {
                    self.phase = Phase::Drains;
                    return Ok(true);
                }
                Ok(read) => {
                    self.input.extend_from_slice(self.scratch.get(..read).unwrap_or_default());
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn turn(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut any = self.begin_more();
        any |= self.answer(context);
        any |= self.write(context)?;
        any |= self.read(context)?;
        Ok(any)
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.spent = 0;
        loop {
            match self.turn(context) {
                Ok(true) if self.spent < TURN => {}
                Ok(true) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!("a connection is lost: {error}");
                    return Poll::Ready(());
                }
            }
        }
        let is_done =
            self.phase == Phase::Ends && self.held.is_none() && self.begun.is_empty() && self.output.is_empty();
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// What a command holds until it is answered: what it says again, the keys that it looks for, the value that was there. The
/// bytes of writes are counted elsewhere, and reads find theirs when it is their turn.
fn held(request: &Request) -> usize {
    match request {
        Request::Echo(text) | Request::Ping(Some(text)) => text.len(),
        Request::GetAll(keys) | Request::Exists(keys) | Request::Delete(keys) => keys.iter().map(Bytes::len).sum(),
        Request::Put { returns_old: true, .. } => VALUE_MAX,
        _ => 0,
    }
}

/// What carrying out a command costs besides writing its answer.
fn price(request: &Request) -> usize {
    match request {
        Request::Scan { pattern: Some(_), .. } => COMPARISONS,
        Request::GetAll(keys) | Request::Exists(keys) | Request::Delete(keys) => COMMAND + keys.len() * KEY,
        _ => COMMAND,
    }
}

/// What one is told who is one too many.
pub(crate) fn too_many() -> Bytes {
    Bytes::from_static(b"-ERR max number of clients reached\r\n")
}

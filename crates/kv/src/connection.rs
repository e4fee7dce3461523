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
use std::task::{Context, Poll};
use tokio::net::TcpStream;

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
}

impl Connection {
    pub(crate) fn new(store: Arc<Store>, stream: TcpStream) -> Self {
        Self {
            store,
            stream,
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
            let answer = answer::begin(&self.store, request);
            self.enter(kind, bytes, answer);
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

    fn enter(&mut self, kind: Kind, bytes: usize, answer: Answer) {
        self.bytes += bytes;
        self.reads += usize::from(kind == Kind::Read);
        self.whole += usize::from(kind == Kind::Whole);
        self.begun.push_back(Begun { kind, bytes, answer });
    }

    /// The next command that can be carried out; what is wrong with others is answered.
    fn next_request(&mut self) -> Option<(Kind, Request)> {
        while self.phase != Phase::Ends && self.begun.len() < self.store.limits().pipeline {
            match self.decoder.next(&mut self.input) {
                Ok(Some(words)) => match request(&words) {
                    Ok(request) => return Some((answer::kind(&self.store, &request), request)),
                    Err(error) => self.refuse(error.to_string()),
                },
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
        self.enter(Kind::Local, why.len(), Box::pin(std::future::ready(Reply::Error(why))));
    }

    /// Writes down what is answered, in order; true if anything is.
    fn answer(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.output.len() < OUTPUT_MAX
            && let Some(first) = self.begun.front_mut()
            && let Poll::Ready(reply) = first.answer.as_mut().poll(context)
        {
            reply.put(&mut self.output);
            let (kind, bytes) = self.begun.pop_front().map(|begun| (begun.kind, begun.bytes)).unzip();
            self.bytes -= bytes.unwrap_or(0);
            self.reads -= usize::from(kind == Some(Kind::Read));
            self.whole -= usize::from(kind == Some(Kind::Whole));
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
        loop {
            match self.turn(context) {
                Ok(true) => {}
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

/// What one is told who is one too many.
pub(crate) fn too_many() -> Bytes {
    Bytes::from_static(b"-ERR max number of clients reached\r\n")
}

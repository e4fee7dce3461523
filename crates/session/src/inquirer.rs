//! A client that joins nothing and sends nothing: it asks, also where all places of a daemon are taken.
use crate::frame::{Frames, HEAD_LEN};
use crate::listing::{ListQuery, Listing};
use crate::{DaemonEvent, Disconnect, Hello, Refusal, Welcome, request};
use bytes::{Bytes, BytesMut};
use consort_wire::Malformed;

/// No page is larger.
const FRAME_MAX: usize = 1 << 20;

/// The asking end of one connection, without I/O. Says hello first.
#[derive(Debug)]
pub struct Inquirer {
    output: BytesMut,
    frames: Frames,
}

/// What a daemon answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The session is open.
    Welcome(Welcome),
    /// The page that was asked for; answers come in the order of the questions.
    Listing(Listing),
    /// The status that was asked for: pairs of key and value.
    Status(Vec<(String, String)>),
    /// The page that was asked for is not for this client.
    Refused(Refusal),
    /// The daemon ends the session.
    Farewell(Disconnect),
}

impl Default for Inquirer {
    fn default() -> Self {
        Self::new()
    }
}

impl Inquirer {
    /// An inquirer that has only its hello to send.
    pub fn new() -> Self {
        Self::showing(None)
    }

    /// The same that shows a token, of 1 to 160 bytes.
    pub fn showing(token: Option<String>) -> Self {
        let mut output = BytesMut::new();
        Hello { only_asks: true, token, ..Hello::default() }.put(&mut output);
        Self { output, frames: Frames::new(FRAME_MAX) }
    }

    /// Asks for a page of a list.
    pub fn ask(&mut self, question: &ListQuery) {
        question.put(&mut self.output);
    }

    /// Asks for the daemon's status.
    pub fn ask_status(&mut self) {
        request::put_status(&mut self.output);
    }

    /// Takes what is to be written to the daemon.
    pub fn take_output(&mut self) -> Bytes {
        self.output.split().freeze()
    }

    /// Takes bytes that the daemon sent.
    pub fn feed(&mut self, bytes: Bytes) {
        self.frames.push(bytes);
    }

    /// The next answer; `None` until more bytes come.
    ///
    /// # Errors
    /// [`Malformed`] where the daemon sent what is no frame; nothing can be read after it.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, Malformed> {
        while let Some(head) = self.frames.whole()? {
            let body = self.frames.take_body(head);
            let in_frame = |error: Malformed| Malformed { at: error.at + HEAD_LEN, ..error };
            if Listing::is_one(head.kind) {
                return Listing::decode(head.kind, &body)
                    .map(|listing| Some(Reply::Listing(listing)))
                    .map_err(in_frame);
            }
            match DaemonEvent::decode(head.kind, body).map_err(in_frame)? {
                DaemonEvent::Welcome(welcome) => return Ok(Some(Reply::Welcome(welcome))),
                DaemonEvent::Disconnect(farewell) => return Ok(Some(Reply::Farewell(farewell))),
                DaemonEvent::Refused { refusal, .. } => return Ok(Some(Reply::Refused(refusal))),
                DaemonEvent::Status(pairs) => return Ok(Some(Reply::Status(pairs))),
                _ => {}
            }
        }
        Ok(None)
    }
}

//! Clients of a Spread daemon, by the session protocol of Spread 5.0.1 (`docs/spread-listener.md`), from its other end.
use bytes::BytesMut;
use consort_daemon::clock::now_ns;
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_spread::{header, header::SpreadHeader, kind, name_field};
use consort_testbed::job::{Job, Role};
use consort_testbed::{Listener, Speaker, Take, spread};
use consort_types::Service;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The most bytes that a message to one group may carry. The original daemon ends at the next few above.
pub const PAYLOAD_MAX: usize = consort_spread::MESSAGE_MAX - header::LEN - name_field::LEN;
/// Collected messages are written from so many bytes on, as the native library does; and so much is read at once.
const WRITE: usize = 64 << 10;
const READ: usize = 256 << 10;

/// A connection with its name among all.
struct Session {
    stream: UnixStream,
    /// `#user#daemon`.
    name: Vec<u8>,
}

/// A client that sends.
pub struct SpreadSpeaker {
    session: Session,
    kind: u32,
    group: Vec<u8>,
    unbatched: bool,
    collected: BytesMut,
}

/// A client that receives.
pub struct SpreadListener {
    session: Session,
    unread: Vec<u8>,
    room: Vec<u8>,
}

impl Session {
    fn open(job: &Job, path: &Path) -> Outcome<Self> {
        let what = || format!("the Spread daemon at {}", path.display());
        let mut stream = UnixStream::connect(path).trying(what)?;
        let (role, wants_views) = match job.role {
            Role::Sender => ('s', false),
            Role::Receiver => ('r', true),
        };
        let user = format!("{role}{}", job.index);
        let name = spread::enter(&mut stream, &user, wants_views).trying(what)?.into_bytes();
        Ok(Self { stream, name })
    }
}

impl SpreadSpeaker {
    /// Connects.
    pub fn connect(job: &Job, path: &Path) -> Outcome<Self> {
        let service: Service = job.service.parse().map_err(Failure::new)?;
        Ok(Self {
            session: Session::open(job, path)?,
            kind: kind::of_service(service),
            group: job.group.clone().into_bytes(),
            unbatched: job.unbatched,
            collected: BytesMut::with_capacity(2 * WRITE),
        })
    }
}

impl Speaker for SpreadSpeaker {
    fn multicast(&mut self, message: &[u8]) -> Outcome {
        if message.len() > PAYLOAD_MAX {
            return Err(Failure::new(format!("Spread takes messages of {PAYLOAD_MAX} bytes at most")));
        }
        header::put(&mut self.collected, self.kind, &self.session.name, 1, header::NO_HINT, message.len());
        name_field::put(&self.group, &mut self.collected);
        self.collected.extend_from_slice(message);
        if self.unbatched || self.collected.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Outcome {
        self.session.stream.write_all(&self.collected).trying(|| "the Spread daemon ended the session".into())?;
        self.collected.clear();
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        self.flush()
    }
}

impl SpreadListener {
    /// Connects, joins, and waits until all receivers are in the group.
    pub fn join(job: &Job, path: &Path) -> Outcome<Self> {
        let session = Session::open(job, path)?;
        let mut listener = Self { session, unread: Vec::new(), room: vec![0; READ] };
        let mut ask = BytesMut::new();
        header::put(&mut ask, kind::JOIN, &listener.session.name, 1, header::NO_HINT, 0);
        name_field::put(job.group.as_bytes(), &mut ask);
        listener.session.stream.write_all(&ask).trying(|| "cannot join a group of Spread".into())?;
        let mut members = 0;
        while members != usize::from(job.receivers) {
            listener.read()?;
            listener.each(&mut |header, _| {
                if header.kind & kind::REGULAR_VIEW != 0 {
                    members = header.groups;
                }
                Ok(())
            })?;
        }
        Ok(listener)
    }

    fn read(&mut self) -> Outcome {
        let read = self.session.stream.read(&mut self.room).trying(|| "cannot read from a Spread daemon".into())?;
        if read == 0 {
            let why = "the Spread daemon ended the session; it drops clients that do not keep up";
            return Err(Failure::new(why));
        }
        self.unread.extend_from_slice(&self.room[..read]);
        Ok(())
    }

    /// Hands over each whole frame.
    fn each(&mut self, take: &mut dyn FnMut(&SpreadHeader, &[u8]) -> Outcome) -> Outcome {
        let mut rest = &self.unread[..];
        while let Some((head, behind)) = rest.split_first_chunk() {
            let header = SpreadHeader::decode(head).trying(|| "a frame of a Spread daemon".into())?;
            let names = header.groups * name_field::LEN;
            let Some(body) = behind.get(..names + header.data) else { break };
            take(&header, &body[names..])?;
            rest = &behind[body.len()..];
        }
        let done = self.unread.len() - rest.len();
        self.unread.drain(..done);
        Ok(())
    }
}

impl Listener for SpreadListener {
    fn receive(&mut self, take: Take<'_>) -> Outcome {
        self.read()?;
        let now = now_ns();
        self.each(&mut |header, data| match header.kind & kind::REGULAR {
            0 => Ok(()),
            _ => take(now, data),
        })
    }
}

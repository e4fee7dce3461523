//! A session at a Spread listener: what it sent, what it heard, how it ended.
use crate::told::told;
use consort_conformance::words::{payload, sent, wrong};
use consort_testbed::spread::{AGREED, CAUSAL, FIFO, Frame, KILL, RELIABLE, SAFE, Session, UNRELIABLE};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// How long the end of a session is waited for.
const CLOSE: Duration = Duration::from_secs(10);
/// Spread's limits: names of a message, bytes of a group's name, and bytes of a message with a header and its names.
const NAMES_MAX: usize = 100;
const GROUP_MAX: usize = 31;
const MESSAGE_MAX: usize = 143_200;
const HEADER: usize = 48;
const NAME: usize = 32;
/// What a message to oneself begins with that is sent only to come back.
const MARK: &[u8] = b"all before this is ordered: ";

pub(crate) struct Speaker {
    session: Session,
    /// How many joins, leaves and messages were sent, and how many of them were seen to be ordered.
    sent: u64,
    ordered: u64,
    /// What came while something else was waited for.
    unread: VecDeque<Frame>,
    /// Why the session is over.
    over: Option<String>,
}

impl Speaker {
    pub(crate) fn new(session: Session) -> Self {
        Self { session, sent: 0, ordered: 0, unread: VecDeque::new(), over: None }
    }

    /// What the daemon said of it. `#ann#n1` is `ann` at node 1.
    pub(crate) fn welcome(&self) -> String {
        let (user, daemon) = self.session.private().rsplit_once('#').unwrap_or_default();
        let (name, node) = (user.trim_start_matches('#'), daemon.trim_start_matches('n'));
        format!("ok name={name} node={node} message_max={}", MESSAGE_MAX - HEADER - NAME)
    }

    /// Joins or leaves a group.
    pub(crate) fn ask(&mut self, kind: u32, words: &[&str]) -> Result<String, String> {
        let group = legal(words.first().copied().unwrap_or_default())?;
        self.say(kind, &[group], b"")?;
        Ok(self.number())
    }

    pub(crate) fn send(&mut self, words: &[&str]) -> Result<String, String> {
        let [service, written, names @ ..] = words else { return Err(wrong("no service or no payload")) };
        let (kind, data) = (level(service)?, payload(written)?);
        names.iter().try_for_each(|name| target(name))?;
        if names.is_empty() || names.len() > NAMES_MAX {
            return Err(format!("error kind=targets : a message goes to 1 to {NAMES_MAX} names"));
        }
        let bytes = HEADER + NAME * names.len() + data.len();
        if bytes > MESSAGE_MAX {
            return Err(format!("error kind=too_large : it takes {bytes} bytes; Spread's messages take {MESSAGE_MAX}"));
        }
        self.say(kind, names, &data)?;
        Ok(self.number())
    }

    fn say(&mut self, kind: u32, names: &[&str], data: &[u8]) -> Result<(), String> {
        if self.over.is_some() {
            return Err(self.end());
        }
        self.session.send(kind, names, data).map_err(|error| self.lose(&error))
    }

    fn number(&mut self) -> String {
        self.sent += 1;
        sent(self.sent)
    }

    /// The next event.
    pub(crate) fn receive(&mut self, within: Duration) -> Result<String, String> {
        let until = Instant::now() + within;
        loop {
            match self.unread.pop_front().map_or_else(|| self.read(until), |frame| Ok(Some(frame)))? {
                None => return Ok("none".into()),
                Some(frame) if self.is_mark(&frame) => {}
                Some(frame) => return told(&frame, self.session.private()).map_err(|error| self.lose(&error)),
            }
        }
    }

    /// Waits until all that was sent is ordered. Spread tells nobody; so a message to oneself goes behind it.
    pub(crate) fn wait(&mut self, within: Duration) -> Result<String, String> {
        let until = Instant::now() + within;
        let own = self.session.private().to_owned();
        self.say(AGREED, &[&own], &[MARK, &self.sent.to_be_bytes()].concat())?;
        while self.ordered < self.sent {
            let Some(frame) = self.read(until)? else { return Err("error kind=timed_out : the time is over".into()) };
            if !self.is_mark(&frame) {
                self.unread.push_back(frame);
            }
        }
        Ok("ok".into())
    }

    /// The next frame of the daemon.
    fn read(&mut self, until: Instant) -> Result<Option<Frame>, String> {
        if self.over.is_some() {
            return Err(self.end());
        }
        let left = until.saturating_duration_since(Instant::now());
        self.session.receive(left).map_err(|error| self.lose(&error))
    }

    /// Whether this is what was sent to come back; then so much is ordered.
    fn is_mark(&mut self, frame: &Frame) -> bool {
        let own = frame.name == self.session.private() && frame.names == [self.session.private()];
        let count = frame.message().filter(|_| own).and_then(|data| data.strip_prefix(MARK)?.try_into().ok());
        let Some(count) = count.map(u64::from_be_bytes) else { return false };
        self.ordered = self.ordered.max(count);
        true
    }

    /// Ends the session in good order, and waits until the daemon has closed the connection.
    pub(crate) fn close(mut self) -> Result<String, String> {
        let own = self.session.private().to_owned();
        self.say(KILL, &[&own], b"")?;
        let until = Instant::now() + CLOSE;
        loop {
            match self.session.receive(until.saturating_duration_since(Instant::now())) {
                Ok(Some(_)) => {}
                Ok(None) => return Err("error kind=timed_out : the daemon did not close the connection".into()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok("ok".into()),
                Err(error) => return Err(self.lose(&error)),
            }
        }
    }

    fn lose(&mut self, error: &io::Error) -> String {
        self.over = Some(error.to_string());
        self.end()
    }

    /// How the session ended.
    fn end(&self) -> String {
        let (unknown, why) = (self.sent - self.ordered, self.over.as_deref().unwrap_or_default());
        format!("error kind=connection_lost unknown={unknown} : the connection is lost: {why}")
    }
}

/// A group's name, as Spread's library allows it.
fn legal(name: &str) -> Result<&str, String> {
    let bytes = name.bytes();
    if (1..=GROUP_MAX).contains(&bytes.len()) && bytes.into_iter().all(|byte| (0x24..=0x7e).contains(&byte)) {
        return Ok(name);
    }
    Err(wrong(format!("{name:?} names no group; write 1 to {GROUP_MAX} bytes from 24 to 7e hex")))
}

/// A group, or a client: `#user#daemon`.
fn target(name: &str) -> Result<(), String> {
    let Some(client) = name.strip_prefix('#') else { return legal(name).map(drop) };
    match client.split_once('#') {
        Some((user, daemon)) if !user.is_empty() && !daemon.is_empty() && name.len() < NAME => Ok(()),
        _ => Err(wrong(format!("{name:?} names no client"))),
    }
}

fn level(service: &str) -> Result<u32, String> {
    match service {
        "unreliable" => Ok(UNRELIABLE),
        "reliable" => Ok(RELIABLE),
        "fifo" => Ok(FIFO),
        "causal" => Ok(CAUSAL),
        "agreed" => Ok(AGREED),
        "safe" => Ok(SAFE),
        other => Err(wrong(format!("{other:?} is no service"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// A session, and the daemon's end of it.
    fn session() -> (Speaker, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (Speaker::new(Session::over(here)), there)
    }

    #[test]
    fn what_the_library_does_not_send_is_refused_and_counts_for_nothing() {
        let (mut speaker, _there) = session();
        let names = vec!["g"; NAMES_MAX + 1];
        for (words, said) in [
            (vec!["agreed"], "invalid : no service or no payload"),
            (vec!["loud", "00", "g"], "invalid : \"loud\" is no service"),
            (vec!["agreed", "0x", "g"], "invalid : \"0x\" is no byte"),
            (vec!["agreed", "00", "a b"], "invalid : \"a b\" names no group"),
            (vec!["agreed", "00", "#ann#"], "invalid : \"#ann#\" names no client"),
            (vec!["agreed", "00"], "targets : "),
            ([&["agreed", "00"][..], &names].concat(), "targets : "),
            (vec!["safe", "00*143089", "g", "h"], "too_large : it takes 143201 bytes"),
        ] {
            let error = speaker.send(&words).unwrap_err();
            assert!(error.starts_with(&format!("error kind={said}")), "{error}");
        }
        assert_eq!(speaker.send(&["safe", "-", "g"]), Ok("ok send=1".into()));
    }

    #[test]
    fn sends_of_unknown_fate_are_those_that_no_wait_has_seen() {
        let (mut speaker, mut there) = session();
        assert_eq!(speaker.send(&["agreed", "6869", "g"]), Ok("ok send=1".into()));
        assert!(speaker.wait(Duration::ZERO).unwrap_err().starts_with("error kind=timed_out"));
        // What was sent to come back does, late; it is no event.
        let mut back = Session::over(there.try_clone().unwrap());
        back.send(AGREED, &["#g#n1"], &[MARK, &1_u64.to_be_bytes()].concat()).unwrap();
        back.send(AGREED, &["g"], b"hi").unwrap();
        let heard = speaker.receive(Duration::from_secs(50)).unwrap();
        assert!(heard.starts_with("message service=agreed sender=#g#n1 length=2"), "{heard}");
        assert_eq!(speaker.send(&["agreed", "6869", "g"]), Ok("ok send=2".into()));
        there.write_all(&[0; 48]).unwrap();
        let end = speaker.receive(Duration::from_secs(50)).unwrap_err();
        assert!(end.starts_with("error kind=connection_lost unknown=1 : ") && end.contains("a header"), "{end}");
        assert_eq!(speaker.send(&["agreed", "6869", "g"]), Err(end));
    }
}

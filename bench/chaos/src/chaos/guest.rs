//! Guests: clients that come and go during storms, through both listeners. All talk in one group of their own, and what
//! they hear there must be in one order, whichever listener it came through. In the groups of the others they are only
//! seen.
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use consort::{ChangeCause, Client, ConnectOptions, Error, Event, GroupName, Service};
use consort_testbed::spread;
use consort_types::Rng;

use super::board::Board;
use super::fleet::{address, spread_socket, times_started_anew};
use super::ledger::{LEN, Ledger, VisitLog, Word};

/// The group of the guests.
pub const GROUP: &str = "guests";
/// How long a guest waits between two visits, or for its daemon.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a guest waits for news before it looks at something else.
const TURN: Duration = Duration::from_millis(10);
/// By when somebody who stays to the end must have heard his own words, for then all is at rest.
pub const LAST: Duration = Duration::from_secs(5);

/// What guests of one listener and one node need.
pub struct Visits<'a> {
    /// The node, from 0.
    pub node: usize,
    /// The directory of the run.
    pub directory: &'a Path,
    /// Where all know of each other.
    pub board: &'a Board,
    /// What they heard.
    pub ledger: &'a Ledger,
    /// What their chance comes from.
    pub seed: u64,
    /// [`LAST`].
    pub last: Duration,
}

impl Visits<'_> {
    fn is_over(&self) -> bool {
        self.board.stop.load(Ordering::Relaxed)
    }

    /// Whether those who stay are to hear the last of their words.
    fn is_last_call(&self) -> bool {
        self.board.last_call.load(Ordering::Relaxed)
    }

    fn may_talk(&self) -> bool {
        self.board.talk.load(Ordering::Relaxed)
    }

    fn log(&self, spread: bool) -> VisitLog {
        let who =
            format!("a guest at n{}, at the {} listener", self.node + 1, if spread { "Spread" } else { "native" });
        VisitLog { who, spread, ..VisitLog::default() }
    }

    /// Visits a node's daemon again and again through the native listener, until told to stop. Joins some of these
    /// groups; what it sends goes to the last, which is the guests' own.
    pub fn native(&self, groups: &[GroupName]) {
        let mut rng = Rng::new(self.seed);
        let address = address(self.directory, self.node);
        let options = ConnectOptions::default().connect_within(PATIENCE);
        while !self.is_over() {
            if self.may_talk()
                && let Ok(client) = Client::connect(&address, &options)
            {
                let mut log = self.log(false);
                // That its daemon is killed under it is what a guest must reckon with.
                let _ = self.stay(client, groups, &mut log, &mut rng);
                self.ledger.add(log);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// One visit. Some guests leave their groups, some say good-bye, some just go.
    fn stay(&self, mut client: Client, groups: &[GroupName], log: &mut VisitLog, rng: &mut Rng) -> Result<(), Error> {
        let joined: Vec<_> = groups.iter().filter(|_| rng.chance(0.6)).collect();
        joined.iter().try_for_each(|group| client.join(group).map(drop))?;
        let (visit, turns, mut count) = (rng.next_u64(), rng.between(1, 80), 0);
        for _ in 0..turns {
            if !self.may_talk() {
                break;
            }
            if let (true, Some(own)) = (rng.chance(0.2), groups.last()) {
                let word = Word { visit, count: count + 1 };
                let before = client.sent();
                let payload = word.payload(rng.below(2_000) as usize);
                let sent = client.try_multicast(Service::Agreed, std::slice::from_ref(own), &payload);
                count += u64::from(client.sent() > before);
                sent?;
            }
            while let Some(event) = client.receive(TURN)? {
                note(log, &event);
            }
        }
        match rng.below(3) {
            0 => joined.iter().try_for_each(|group| client.leave(group).map(drop)),
            1 => client.close(PATIENCE),
            _ => Ok(()),
        }
    }

    /// Visits a node's daemon again and again as a Spread client. Who comes so stays through calms.
    pub fn spread(&self) {
        let mut rng = Rng::new(self.seed);
        let socket = spread_socket(self.directory, self.node);
        for number in 1_u64.. {
            if self.is_over() || self.is_last_call() {
                break;
            }
            let incarnation = self.board.incarnation(self.node);
            let session = spread::Session::enter(&socket, &format!("g{number}"), PATIENCE);
            if let (Some(incarnation), Ok(session)) = (incarnation, session)
                && self.board.incarnation(self.node) == Some(incarnation)
            {
                self.sit(session, incarnation, &mut rng);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// One visit of a Spread client.
    fn sit(&self, session: spread::Session, incarnation: u64, rng: &mut Rng) {
        self.board.seated.fetch_add(1, Ordering::Relaxed);
        self.visit(session, incarnation, rng);
        self.board.seated.fetch_sub(1, Ordering::Relaxed);
    }

    fn visit(&self, session: spread::Session, incarnation: u64, rng: &mut Rng) {
        let log = self.log(true);
        let mut seat = Seat { session, log, visit: rng.next_u64(), said: 0, heard: 0, rejected: false };
        let stays = Duration::from_millis(rng.between(200, 8_000));
        let ended = self.talk_and_listen(&mut seat, stays, rng);
        // A daemon that was told to leave takes no more messages.
        if self.board.end(self.node, incarnation).is_none() {
            if let Err(error) = ended
                && !self.was_sent_away(incarnation)
            {
                self.ledger.broken(format!("{}: its session ended though its daemon runs: {error}", seat.log.who));
            }
            if seat.rejected {
                self.ledger.broken(format!("{}: what it sent was rejected", seat.log.who));
            }
        }
        self.ledger.add(seat.log);
    }

    /// Whether its daemon starts anew, which it logs before it sends its clients away.
    fn was_sent_away(&self, incarnation: u64) -> bool {
        let until = Instant::now() + PATIENCE;
        while times_started_anew(self.directory, self.node, incarnation) == 0 {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(TURN);
        }
        true
    }

    fn talk_and_listen(&self, seat: &mut Seat, stays: Duration, rng: &mut Rng) -> std::io::Result<()> {
        let until = Instant::now() + stays;
        seat.session.send(spread::JOIN, &[GROUP], b"")?;
        while Instant::now() < until && !self.is_over() && !self.is_last_call() {
            if self.may_talk() && rng.chance(0.2) {
                seat.speak(rng)?;
            }
            seat.listen()?;
        }
        if self.is_last_call() {
            self.hear_the_last(seat)?;
        }
        if rng.chance(0.5) {
            let me = seat.session.private().to_owned();
            seat.session.send(spread::KILL, &[&me], b"")?;
        }
        Ok(())
    }

    /// All is at rest: what it said must come back.
    fn hear_the_last(&self, seat: &mut Seat) -> std::io::Result<()> {
        let until = Instant::now() + self.last;
        while seat.heard < seat.said && Instant::now() < until {
            seat.listen()?;
        }
        if seat.heard < seat.said {
            let (Seat { log, heard, said, .. }, last) = (seat, self.last);
            self.ledger
                .broken(format!("{}: heard {heard} of its own {said} words, {last:?} after all was at rest", log.who));
        }
        Ok(())
    }
}

/// Takes down what a guest is told of its group.
fn note(log: &mut VisitLog, event: &Event) {
    match event {
        Event::Message(message) if message.groups().any(|group| group == GROUP) => {
            Word::of(message.payload()).into_iter().for_each(|word| log.hear(word));
        }
        Event::GroupSignal(signal) if signal.group.as_str() == GROUP => log.closing = true,
        Event::GroupView(view) if view.group.as_str() == GROUP && view.cause == ChangeCause::Network => {
            log.closing = false
        }
        _ => {}
    }
}

/// A Spread client at its daemon.
struct Seat {
    session: spread::Session,
    log: VisitLog,
    visit: u64,
    said: u64,
    /// Of its own.
    heard: u64,
    rejected: bool,
}

impl Seat {
    fn speak(&mut self, rng: &mut Rng) -> std::io::Result<()> {
        let word = Word { visit: self.visit, count: self.said + 1 };
        let kind = if rng.chance(0.5) { spread::SAFE } else { spread::AGREED };
        self.said += 1;
        self.session.send(kind, &[GROUP], &word.payload(rng.between(LEN as u64, 2_000) as usize))
    }

    fn listen(&mut self) -> std::io::Result<()> {
        while let Some(frame) = self.session.receive(TURN)? {
            self.rejected |= frame.is_rejected();
            if let Some(word) = frame.message().and_then(Word::of) {
                self.heard += u64::from(word.visit == self.visit);
                self.log.hear(word);
            }
            self.log.closing = frame.is_signal() || self.log.closing && !frame.is_by_network();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sim::trace::witness::SessionEnding;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// A daemon that gives back what it is sent, but for the words with these counts.
    fn echo(mut stream: UnixStream, lost: &'static [u64]) {
        let mut unread = Vec::new();
        let mut bytes = [0; 4 << 10];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            unread.extend(&bytes[..n]);
            while let Ok(Some((frame, len))) = spread::Frame::first(&unread) {
                let word = frame.message().and_then(Word::of);
                if word.is_some_and(|word| !lost.contains(&word.count)) {
                    let _ = stream.write_all(&unread[..len]);
                }
                unread.drain(..len);
            }
        }
    }

    /// What the ledger says of a guest at such a daemon who has said three words when the last call comes.
    fn verdict(lost: &'static [u64], call: impl Fn(&Board)) -> Result<(), String> {
        let (board, ledger) = (Board::new(1, 1, 1), Ledger::default());
        board.begins(0);
        call(&board);
        let last = Duration::from_millis(300);
        let visits = Visits { node: 0, directory: Path::new("/"), board: &board, ledger: &ledger, seed: 1, last };
        let (here, there) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || echo(there, lost));
            let mut rng = Rng::new(1);
            let (session, log) = (spread::Session::over(here), visits.log(true));
            let mut seat = Seat { session, log, visit: 7, said: 0, heard: 0, rejected: false };
            (0..3).for_each(|_| seat.speak(&mut rng).unwrap());
            visits.talk_and_listen(&mut seat, Duration::from_secs(60), &mut rng).unwrap();
        });
        ledger.judge(false).map(drop)
    }

    #[test]
    fn a_word_that_never_comes_back_is_noticed_before_the_daemons_end() {
        let last_call = |board: &Board| board.last_call.store(true, Ordering::Relaxed);
        assert_eq!(verdict(&[], last_call), Ok(()));
        let lost = verdict(&[2], last_call).unwrap_err();
        assert!(lost.contains("heard 2 of its own 3 words"), "{lost}");
        let stopped = |board: &Board| {
            board.ends(0, SessionEnding::Left);
            board.stop.store(true, Ordering::Relaxed);
        };
        assert_eq!(verdict(&[2], stopped), Ok(()), "daemons that end owe nothing more");
    }

    /// What the ledger says of a Spread guest whose daemon has logged this and then closes the connection.
    fn parted(log: &str) -> Result<(), String> {
        let (board, ledger, directory) = (Board::new(1, 1, 1), Ledger::default(), tempfile::tempdir().unwrap());
        board.begins(0);
        std::fs::write(directory.path().join("daemon-1-incarnation-1.log"), log).unwrap();
        let visits =
            Visits { node: 0, directory: directory.path(), board: &board, ledger: &ledger, seed: 1, last: LAST };
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        visits.visit(spread::Session::over(here), 1, &mut Rng::new(1));
        ledger.judge(false).map(drop)
    }

    #[test]
    fn a_session_may_end_under_a_daemon_that_runs_only_where_it_starts_anew() {
        assert_eq!(parted(" WARN consort{node=1}: starts anew cause=\"the other nodes retain\"\n"), Ok(()));
        let broken = parted(" INFO consort{node=1}: serving node=1\n").unwrap_err();
        assert!(broken.contains("its session ended though its daemon runs"), "{broken}");
    }
}

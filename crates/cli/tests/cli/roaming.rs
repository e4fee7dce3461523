//! Sessions that go from daemon to daemon: those that have just started, and programs that do not wait.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../../client/examples/four_feeds.rs"]
mod four_feeds;

use crate::cluster::{Cluster, PATIENCE, collect, fates, group, options};
use crate::support::wait_until;
use consort::{
    AsyncSession, AsyncSessionSender, Client, ConnectOptions, Draft, Error, Event, Fate, ReadFrom, ReadingStatus,
    Service, Session, SessionEvent,
};
use futures_core::Stream;
use futures_sink::Sink;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

fn send(session: &mut Session, numbers: std::ops::RangeInclusive<u32>) {
    for n in numbers {
        session.send(Service::Agreed, &[group()], &n.to_be_bytes()).unwrap();
    }
    session.settle(PATIENCE).unwrap();
}

/// Somebody who reads numbers, and which daemons it met.
struct Reader {
    session: Session,
    read: Vec<u32>,
    met: usize,
    /// What it was told beside messages.
    told: Vec<SessionEvent>,
}

impl Reader {
    fn begin(mut session: Session) -> Self {
        session.read(&[group()], ReadFrom::New).unwrap();
        let mut reader = Self { session, read: Vec::new(), met: 0, told: Vec::new() };
        while !matches!(reader.step(), SessionEvent::Event(Event::Reading(ReadingStatus::CaughtUp { .. }))) {}
        reader
    }

    fn step(&mut self) -> SessionEvent {
        let event = self.session.receive(PATIENCE).unwrap().expect("more to read");
        match &event {
            SessionEvent::Event(Event::Read(message)) => {
                self.read.push(u32::from_be_bytes(message.payload().try_into().unwrap()));
            }
            SessionEvent::Connected { .. } => self.met += 1,
            SessionEvent::Parted { .. } | SessionEvent::Gap { .. } => panic!("{event:?} behind {:?}", self.read),
            _ => {}
        }
        if !matches!(event, SessionEvent::Event(Event::Read(_))) {
            self.told.push(event.clone());
        }
        event
    }

    fn reads_to(&mut self, last: u32) {
        let late = Instant::now() + PATIENCE;
        while self.read.last() != Some(&last) {
            assert!(Instant::now() < late, "no {last} behind {:?}; it was told {:?}", self.read, self.told);
            self.step();
        }
    }
}

#[test]
fn a_reading_goes_on_behind_a_daemon_that_has_just_started() {
    //= E28 test
    let mut cluster = Cluster::new("ring");
    wait_until("the view counts", || cluster.counts(0));
    let mut sender = Session::connect(&[cluster.address(1)], options()).unwrap();
    let addresses = [0, 2, 1].map(|at| cluster.address(at));
    let mut reader = Reader::begin(Session::connect(&addresses, options()).unwrap());
    send(&mut sender, 1..=20);
    reader.reads_to(20);
    // The third is away, and back only once the reader's daemon is gone: it never is in the reader's view.
    cluster.kill(2);
    send(&mut sender, 21..=40);
    reader.reads_to(40);
    cluster.kill(0);
    cluster.start(2);
    wait_until("the third is in a view with the second", || cluster.members(2) == 2);
    cluster.start(0);
    wait_until("the view counts again", || cluster.counts(1));
    send(&mut sender, 41..=60);
    reader.reads_to(60);
    assert_eq!(reader.read, (1..=60).collect::<Vec<_>>());
    assert!(reader.met >= 3, "it met the one that had just started");
}

/// What a reader is told whose daemon is cut off while the others order more; it knows the daemons at these addresses. The
/// daemon may be in a view of its own first.
fn told_where_the_first_was_cut_off(addresses: &[usize], alone: bool) -> Vec<String> {
    let cluster = Cluster::new("ring");
    wait_until("the view counts", || cluster.counts(0));
    let mut sender = Session::connect(&[cluster.address(1), cluster.address(2)], options()).unwrap();
    let addresses: Vec<_> = addresses.iter().map(|at| cluster.address(*at)).collect();
    let mut reader = Session::connect(&addresses, options()).unwrap();
    reader.read(&[group()], ReadFrom::New).unwrap();
    let mut next = || reader.receive(PATIENCE).unwrap().expect("more to read");
    while !matches!(next(), SessionEvent::Event(Event::Reading(ReadingStatus::CaughtUp { .. }))) {}
    send(&mut sender, 1..=3);
    if alone {
        [1, 2].into_iter().for_each(|at| cluster.freeze(at, true));
        wait_until("the first is alone", || cluster.members(0) == 1);
    }
    cluster.freeze(0, true);
    if alone {
        [1, 2].into_iter().for_each(|at| cluster.freeze(at, false));
    }
    wait_until("the others go on", || cluster.members(1) == 2 && cluster.counts(1));
    send(&mut sender, 4..=6);
    cluster.freeze(0, false);
    wait_until("all are together", || cluster.members(1) == 3 && cluster.counts(1));
    send(&mut sender, 7..=7);
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "7") {
        match next() {
            SessionEvent::Event(Event::Read(message)) => {
                told.push(u32::from_be_bytes(message.payload().try_into().unwrap()).to_string());
            }
            SessionEvent::Gap { .. } => told.push("gap".into()),
            SessionEvent::Lost { why } if why == Error::Lacking.to_string() => told.push("elsewhere".into()),
            SessionEvent::Parted { common } => panic!("parted at {common:?} behind {told:?}"),
            _ => {}
        }
    }
    told
}

#[test]
fn a_reader_whose_daemon_was_cut_off_is_told_that_something_is_missing() {
    //= E29 test
    assert_eq!(told_where_the_first_was_cut_off(&[0], false), ["1", "2", "3", "gap", "7"]);
}

#[test]
fn a_reader_whose_daemon_was_cut_off_reads_on_at_another() {
    //= E30 test
    let told = told_where_the_first_was_cut_off(&[0, 1], false);
    assert_eq!(told, ["1", "2", "3", "elsewhere", "4", "5", "6", "7"]);
}

#[test]
fn a_reader_whose_daemon_was_alone_reads_on_at_another() {
    //= E30 test
    //= E31 test
    let told = told_where_the_first_was_cut_off(&[0, 2], true);
    let messages: Vec<_> = told.iter().filter(|told| *told != "elsewhere").collect();
    assert_eq!(messages, ["1", "2", "3", "4", "5", "6", "7"], "{told:?}");
    assert!(told.contains(&"elsewhere".to_owned()), "{told:?}");
}

fn run<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(2 * PATIENCE, story).await.expect("an end in time") })
}

/// Polls a call at most so often, and drops it then, whatever it waits for.
async fn at_most<T>(polls: u32, call: impl Future<Output = T>) -> Option<T> {
    let (mut call, mut left) = (pin!(call), polls);
    poll_fn(|cx| {
        left -= 1;
        match call.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Makes a call again and again, each time given up after a few polls, until it once comes to its end.
async fn insist<S, T>(session: &mut S, call: impl AsyncFn(&mut S) -> Result<T, Error>) -> T {
    for polls in (1..=3).cycle() {
        if let Some(done) = at_most(polls, call(session)).await {
            return done.unwrap();
        }
        sleep(Duration::from_millis(1)).await;
    }
    unreachable!("it goes on for ever")
}

fn is_all_ordered(events: &[SessionEvent], sent: u64) {
    let fates = fates(events);
    assert!(fates.values().all(|fate| matches!(fate, Fate::Ordered { .. })), "{fates:?}");
    assert_eq!(fates.len() as u64, sent, "each has its fate");
}

#[test]
fn calls_that_are_given_up_at_every_await_lose_and_double_nothing() {
    let mut cluster = Cluster::new("ring");
    wait_until("the view counts", || cluster.counts(2));
    let member = collect(&cluster.address(2));
    run(async {
        let options = options().unsettled_max(2_000);
        let mut session = AsyncSession::connect(&cluster.addresses(0), options).await.unwrap();
        let (mut events, count) = (Vec::new(), 400);
        for n in 1..=count {
            let payload = format!("line {n}");
            let send =
                async |session: &mut AsyncSession| session.send(Service::Agreed, &[group()], payload.as_bytes()).await;
            assert_eq!(insist(&mut session, send).await, n, "what was given up uses no number");
            match n {
                100 => cluster.kill(0),
                200 => cluster.start(0),
                300 => {
                    wait_until("the view counts again", || cluster.counts(0));
                    cluster.kill(1);
                }
                _ => {}
            }
            while let Some(event) = at_most(1, session.receive()).await {
                events.push(event.unwrap());
            }
        }
        session.send(Service::Agreed, &[group()], b"end").await.unwrap();
        insist(&mut session, async |session| session.flush().await).await;
        insist(&mut session, async |session| session.settle().await).await;
        events.extend(session.finish().await.unwrap());
        is_all_ordered(&events, count + 1);
        let told = member.join().unwrap();
        assert_eq!(told, (1..=count).map(|n| format!("line {n}")).collect::<Vec<_>>());
    });
}

#[test]
fn a_reading_that_is_given_up_at_every_await_goes_on_at_other_daemons() {
    let mut cluster = Cluster::new("ring");
    wait_until("the view counts", || cluster.counts(0));
    run(async {
        let mut sender = AsyncSession::connect(&[cluster.address(2)], options()).await.unwrap();
        let mut reader = AsyncSession::connect(&cluster.addresses(0), options()).await.unwrap();
        reader.read(&[group()], ReadFrom::New).unwrap();
        let begun =
            |event: &SessionEvent| matches!(event, SessionEvent::Event(Event::Reading(ReadingStatus::CaughtUp { .. })));
        while !begun(&insist(&mut reader, async |reader| reader.receive().await).await) {}
        let (mut read, mut lost) = (Vec::new(), 0);
        for n in 1..=200_u32 {
            sender.send(Service::Agreed, &[group()], &n.to_be_bytes()).await.unwrap();
            sender.flush().await.unwrap();
            if n == 100 {
                cluster.kill(0);
            }
        }
        // A session does nothing while nobody awaits it.
        sender.settle().await.unwrap();
        while read.len() < 200 {
            match insist(&mut reader, async |reader| reader.receive().await).await {
                SessionEvent::Event(Event::Read(message)) => {
                    read.push(u32::from_be_bytes(message.payload().try_into().unwrap()));
                }
                SessionEvent::Lost { .. } => lost += 1,
                event => assert!(!matches!(event, SessionEvent::Parted { .. } | SessionEvent::Gap { .. }), "{event:?}"),
            }
        }
        assert_eq!(read, (1..=200).collect::<Vec<_>>());
        assert!(lost > 0 && reader.bookmark().is_some());
        sender.finish().await.unwrap();
    });
}

/// Puts lines into a sink, and closes it.
async fn feed(mut sender: AsyncSessionSender, name: &'static str, count: u32) {
    for n in 1..=count {
        poll_fn(|cx| Pin::new(&mut sender).poll_ready(cx)).await.unwrap();
        let draft = Draft::new(Service::Agreed, &[group()], format!("{name} {n}")).unwrap();
        Pin::new(&mut sender).start_send(draft).unwrap();
        sleep(Duration::from_millis(1)).await;
    }
    poll_fn(|cx| Pin::new(&mut sender).poll_close(cx)).await.unwrap();
}

#[test]
fn halves_of_a_session_feed_and_are_told_though_its_daemon_is_killed() {
    let mut cluster = Cluster::new("ring");
    wait_until("the view counts", || cluster.counts(2));
    let member = collect(&cluster.address(2));
    run(async {
        let session = AsyncSession::connect(&cluster.addresses(0), options()).await.unwrap();
        let (mut sender, mut receiver) = session.split();
        let told = tokio::spawn(async move {
            let mut events = Vec::new();
            while events.iter().filter(|event| matches!(event, SessionEvent::Sent { .. })).count() < 601 {
                events.push(poll_fn(|cx| Pin::new(&mut receiver).poll_next(cx)).await.unwrap().unwrap());
            }
            (receiver, events)
        });
        let feeds = ["a", "b", "c"].map(|name| tokio::spawn(feed(sender.clone(), name, 200)));
        sleep(Duration::from_millis(100)).await;
        cluster.kill(0);
        for fed in feeds {
            fed.await.unwrap();
        }
        sender.send(Service::Agreed, &[group()], b"end").await.unwrap();
        sender.settle().await.unwrap();
        let (receiver, events) = told.await.unwrap();
        is_all_ordered(&events, 601);
        receiver.unite(sender).unwrap().finish().await.unwrap();
        let all = member.join().unwrap();
        for name in ["a", "b", "c"] {
            let own: Vec<_> = all.iter().filter(|line| line.starts_with(name)).cloned().collect();
            assert_eq!(own, (1..=200).map(|n| format!("{name} {n}")).collect::<Vec<_>>());
        }
    });
}

#[test]
fn an_async_session_is_stopped_where_another_takes_over_and_its_stream_ends() {
    let cluster = Cluster::new("ring");
    run(async {
        let mut first = AsyncSession::connect(&cluster.addresses(0), options()).await.unwrap();
        first.send(Service::Agreed, &[group()], b"one").await.unwrap();
        first.settle().await.unwrap();
        let options = options().producer(first.producer());
        let mut second = AsyncSession::connect(&cluster.addresses(1), options).await.unwrap();
        second.send(Service::Agreed, &[group()], b"two").await.unwrap();
        second.settle().await.unwrap();
        first.send(Service::Agreed, &[group()], b"late").await.unwrap();
        let mut ends = Vec::new();
        while let Some(event) = poll_fn(|cx| Pin::new(&mut first).poll_next(cx)).await {
            ends.extend(event.err());
        }
        assert!(matches!(ends[..], [Error::TakenOver]), "{ends:?}");
        let late = first.send(Service::Agreed, &[group()], b"later").await;
        assert!(matches!(late, Err(Error::TakenOver)), "{late:?}");
        second.finish().await.unwrap();
    });
}

#[test]
fn an_async_session_sends_far_more_than_its_credit() {
    let cluster = Cluster::new("ring");
    run(async {
        let options = options().unsettled_max(8 << 20);
        let mut session = AsyncSession::connect(&cluster.addresses(0), options).await.unwrap();
        let credit = session.welcome().unwrap().credit as usize;
        let (payload, count) = ([7; 1_000], (20 * credit / 1_000) as u64);
        for n in 1..=count {
            assert_eq!(session.send(Service::Agreed, &[group()], &payload).await.unwrap(), n);
        }
        session.settle().await.unwrap();
        is_all_ordered(&session.finish().await.unwrap(), count);
    });
}

#[test]
fn an_async_session_that_finds_no_daemon_says_so() {
    let nowhere = ["/nonexistent/a".parse().unwrap(), "/nonexistent/b".parse().unwrap()];
    let error =
        run(AsyncSession::connect(&nowhere, options().reconnect_within(Duration::from_millis(300)))).unwrap_err();
    assert!(error.to_string().starts_with("no daemon could be reached within 300ms: "), "{error}");
}

#[test]
fn four_feeds_are_read_exactly_once_though_daemons_are_killed() {
    let mut cluster = Cluster::new("ring");
    wait_until("the view counts", || cluster.counts(2));
    let lines = 3_000;
    let mut member = Client::connect(&cluster.address(2), &ConnectOptions::default()).unwrap();
    member.join(&group()).unwrap();
    let mut sees = |count: usize| {
        let mut seen = 0;
        while seen < count {
            let event = member.receive(PATIENCE).unwrap().expect("more to see");
            seen += usize::from(matches!(event, Event::Message(_)));
        }
    };
    let daemons = cluster.addresses(0);
    let run =
        std::thread::spawn(move || four_feeds::run(&daemons, &[group()], lines).map_err(|error| error.to_string()));
    sees(lines);
    cluster.kill(0);
    sees(lines);
    cluster.start(0);
    wait_until("the view counts again", || cluster.counts(0));
    cluster.kill(1);
    sees(2 * lines);
    let all = run.join().unwrap().unwrap();
    for name in ["a", "b", "c", "d"] {
        let own: Vec<_> = all.iter().filter(|line| line.starts_with(name)).cloned().collect();
        assert!(
            own == (1..=lines).map(|n| format!("{name} {n}")).collect::<Vec<_>>(),
            "{name}: each once, in its order"
        );
    }
}

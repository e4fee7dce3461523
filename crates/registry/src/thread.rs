//! Sessions one after the other, on a thread of their own.
use crate::reading::Reading;
use crate::session::Session;
use crate::{Event, Member, Settings};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use zookeeper_client::{Client, SessionState, StateWatcher};

/// After so long without a session another is tried, and each time after twice as long.
const RETRY: Duration = Duration::from_millis(200);
/// The longest that this grows to.
const RETRY_MOST: Duration = Duration::from_secs(5);
/// At the end the servers may take so long to hear of it.
const FAREWELL: Duration = Duration::from_millis(500);

/// The thread that keeps this node registered. Dropped, it takes the node off the registry and ends; that takes half a second
/// where no server answers.
#[derive(Debug)]
pub struct Registry {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps `member` registered from here on, and tells what happens. No server need be there.
///
/// # Errors
/// Those of beginning a thread.
pub fn start(settings: Settings, member: Member, tell: impl FnMut(Event) + Send + 'static) -> io::Result<Registry> {
    let stop = Arc::new(Notify::new());
    let told = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let thread = std::thread::Builder::new().name("registry".into()).spawn(move || {
        runtime.block_on(run(&settings, &member, tell, &told));
    })?;
    Ok(Registry { stop, thread: Some(thread) })
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop.notify_one();
        let ended = self.thread.take().map(JoinHandle::join);
        if let Some(Err(_)) = ended {
            tracing::error!("the registry's thread has failed");
        }
    }
}

async fn run(settings: &Settings, member: &Member, mut tell: impl FnMut(Event), stop: &Notify) {
    let open = Rc::new(RefCell::new(None));
    until(stop, sessions(settings, member, &mut tell, &open)).await;
    // The session is closed by now, and the servers need to hear of it: else they wait until it times out.
    let watcher: Option<StateWatcher> = open.borrow_mut().take();
    if let Some(mut states) = watcher {
        let closed = async {
            while !matches!(states.state(), SessionState::Closed | SessionState::Expired | SessionState::AuthFailed) {
                states.changed().await;
            }
        };
        let _given_up = timeout(FAREWELL, closed).await;
    }
}

/// One session after the other, for ever.
async fn sessions(
    settings: &Settings,
    member: &Member,
    tell: &mut impl FnMut(Event),
    open: &Rc<RefCell<Option<StateWatcher>>>,
) {
    let (mut reading, mut retry) = (Reading::default(), RETRY);
    loop {
        let cause = match Session::connect(settings).await {
            Ok(client) => {
                retry = RETRY;
                open.replace(Some(client.state_watcher()));
                keep(settings, member, &mut reading, tell, client).await
            }
            Err(error) => format!("no server answers: {error}"),
        };
        tell(Event::Ended { cause });
        reading.withdraw().into_iter().for_each(|advice| tell(Event::Advised(advice)));
        sleep(retry).await;
        retry = (retry * 2).min(RETRY_MOST);
    }
}

async fn keep(
    settings: &Settings,
    member: &Member,
    reading: &mut Reading,
    tell: &mut impl FnMut(Event),
    client: Client,
) -> String {
    Session { settings, member, reading, tell }.keep(&client).await.to_string()
}

/// Goes on with some work until told to stop.
async fn until(stop: &Notify, work: impl Future<Output = ()>) {
    let (mut stopped, mut work) = (pin!(stop.notified()), pin!(work));
    poll_fn(|context| match stopped.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => work.as_mut().poll(context),
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;
    use std::sync::mpsc;

    #[test]
    fn without_servers_it_says_so_goes_on_and_ends_at_once_when_dropped() {
        // Nobody listens at a port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings =
            Settings { servers: vec![free.to_string()], prefix: "/ringpaxos".into(), session: Duration::from_secs(3) };
        let member = Member { node: NodeId(1), address: free, rings: Vec::new() };
        let (sender, events) = mpsc::channel();
        let registry = start(settings, member, move |event| drop(sender.send(event))).unwrap();
        for _ in 0..2 {
            let event = events.recv_timeout(Duration::from_secs(20)).unwrap();
            let Event::Ended { cause } = event else { panic!("{event:?}") };
            assert!(cause.contains("no server answers"), "{cause}");
        }
        let began = std::time::Instant::now();
        drop(registry);
        assert!(began.elapsed() < Duration::from_secs(2));
    }
}

//! Serves a store to clients that speak RESP2.
use crate::connection::{Connection, too_many};
use crate::store::Store;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

/// How long it waits where the machine has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves clients in this thread, until the listener fails.
///
/// # Errors
/// The listener or the runtime cannot be used.
pub fn serve(listener: std::net::TcpListener, store: &Arc<Store>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    listener.set_nonblocking(true)?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let mut guests = Guests::default();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("a client cannot be taken: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if guests.0.len() >= store.limits().connections {
                // Those that have just come may have asked something.
                tokio::task::yield_now().await;
            }
            if !guests.make_room(store.limits().connections) {
                let _ = stream.try_write(&too_many());
                continue;
            }
            // Replies leave as soon as they are there; those of one moment leave together.
            let _ = stream.set_nodelay(true);
            let has_asked = Arc::new(AtomicBool::new(false));
            let connection = Connection::new(Arc::clone(store), stream, Arc::clone(&has_asked));
            guests.0.push_back(Guest { task: tokio::spawn(connection), has_asked });
        }
    })
}

/// All connections, the oldest first, and some that have ended since.
#[derive(Default)]
struct Guests(VecDeque<Guest>);

struct Guest {
    task: JoinHandle<()>,
    has_asked: Arc<AtomicBool>,
}

impl Guests {
    /// Whether there is room for one more of this number. If there is none, the oldest that has never asked anything goes.
    fn make_room(&mut self, most: usize) -> bool {
        if self.0.len() >= most {
            self.0.retain(|guest| !guest.task.is_finished());
        }
        if self.0.len() < most {
            return true;
        }
        let silent = self.0.iter().position(|guest| !guest.has_asked.load(Ordering::Relaxed));
        let Some(guest) = silent.and_then(|at| self.0.remove(at)) else { return false };
        guest.task.abort();
        true
    }
}

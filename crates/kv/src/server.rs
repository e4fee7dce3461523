//! Serves a store to clients that speak RESP2.
use crate::connection::{Connection, too_many};
use crate::store::Store;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

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
        // Each connection holds a handle of it.
        let all = Arc::new(());
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("a client cannot be taken: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if Arc::strong_count(&all) > store.limits().connections {
                let _ = stream.try_write(&too_many());
                continue;
            }
            // Replies leave as soon as they are there; those of one moment leave together.
            let _ = stream.set_nodelay(true);
            let (connection, handle) = (Connection::new(Arc::clone(store), stream), Arc::clone(&all));
            tokio::spawn(async move {
                connection.await;
                drop(handle);
            });
        }
    })
}

//! A socket between sessions and a daemon, whose connections can be cut.
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Carries what comes at one socket to another, until it is told to cut.
#[derive(Debug)]
pub struct Relay {
    path: PathBuf,
    open: Arc<Mutex<Vec<UnixStream>>>,
}

impl Relay {
    /// Listens at `path`, and connects to `daemon` for each connection. Its threads end with the process.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start(path: &Path, daemon: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let open = Arc::new(Mutex::new(Vec::new()));
        let (kept, daemon) = (Arc::clone(&open), daemon.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Where no daemon is, the connection ends at once.
                let Ok(server) = UnixStream::connect(&daemon) else { continue };
                if let Some(ends) = carry(client, server) {
                    held(&kept).extend(ends);
                }
            }
        });
        Ok(Self { path: path.to_owned(), open })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Cuts all its connections. Returns how many there were.
    pub fn cut(&self) -> usize {
        let ends = std::mem::take(&mut *held(&self.open));
        ends.iter().filter(|end| end.shutdown(Shutdown::Both).is_ok()).count() / 2
    }
}

/// Carries bytes both ways; returns both ends, for cutting.
fn carry(client: UnixStream, server: UnixStream) -> Option<[UnixStream; 2]> {
    let ends = [client.try_clone().ok()?, server.try_clone().ok()?];
    let (there, back) = ((client.try_clone().ok()?, server.try_clone().ok()?), (server, client));
    for (from, to) in [there, back] {
        thread::spawn(move || drop(copy(from, to)));
    }
    Some(ends)
}

fn copy(mut from: UnixStream, mut to: UnixStream) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).unwrap_or(0);
        let written = if read > 0 { to.write_all(&bytes[..read]) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        if written.is_err() {
            let _ = from.shutdown(Shutdown::Both);
            return to.shutdown(Shutdown::Both);
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

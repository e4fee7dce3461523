//! Checkpoints on their way from one replica to another, outside of the order: whole files, over TCP, at a rate, and resumed
//! by their offset.
//!
//! A request is `CONSXFR1`, the order (8), the position from which on the asker can go on (8), the group (2 + n), the name of
//! the file that it has begun to take (2 + n), and how many bytes of that it has (8). The answer is 1, the file's name
//! (2 + n), its length (8), the offset of what follows (8), and the bytes; or 0 and a reason (2 + n).
use super::head::Head;
use crate::checkpoint;
use bytes::{BufMut, BytesMut};
use consort_journal::{make_private, private};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MAGIC: &[u8; 8] = b"CONSXFR1";
/// Where a file is kept until all of it is there.
const INCOMING: &str = "incoming";
const CHUNK: usize = 64 << 10;
/// How long the other side may say nothing.
const SILENCE: Duration = Duration::from_secs(10);
/// How many are served at a time.
const SERVED_MAX: usize = 4;
/// A name or a reason is not longer.
const TEXT_MAX: usize = 1024;

/// What is served, and how fast.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub directory: PathBuf,
    pub group: String,
    /// Bytes a second for each.
    pub rate: u64,
}

/// Serves the checkpoints of a directory in threads, as long as what is returned is held.
pub(crate) fn serve(listener: TcpListener, served: Served) -> io::Result<Arc<Served>> {
    listener.set_nonblocking(true)?;
    let served = Arc::new(served);
    let replica = Arc::downgrade(&served);
    thread::spawn(move || {
        let busy = Arc::new(AtomicUsize::new(0));
        while let Some(served) = replica.upgrade() {
            let came = accept(&listener);
            let Some(stream) = came.filter(|_| busy.load(Ordering::Relaxed) < SERVED_MAX) else { continue };
            busy.fetch_add(1, Ordering::Relaxed);
            let busy = Arc::clone(&busy);
            thread::spawn(move || {
                if let Err(error) = answer(stream, &served) {
                    tracing::debug!("a replica of group {} is sent no checkpoint: {error}", served.group);
                }
                busy.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Ok(served)
}

/// The next connection, if one comes within a moment.
fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 200_000_000 }));
    let (stream, _) = listener.accept().ok()?;
    stream.set_nonblocking(false).ok()?;
    Some(stream)
}

fn answer(mut stream: TcpStream, served: &Served) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut magic = [0; 8];
    stream.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(bad("that is no request for a checkpoint"));
    }
    let (order, from) = (read_u64(&mut stream)?, read_u64(&mut stream)?);
    let (group, begun) = (read_text(&mut stream)?, read_text(&mut stream)?);
    let offset = read_u64(&mut stream)?;
    let mut out = BytesMut::new();
    match newest(served, order, from, &group) {
        Err(why) => {
            out.put_u8(0);
            put_text(&mut out, &why);
            stream.write_all(&out)
        }
        Ok((path, name)) => {
            let mut file = File::open(&path)?;
            let len = file.metadata()?.len();
            let offset = if begun == name && offset <= len { offset } else { 0 };
            out.put_u8(1);
            put_text(&mut out, &name);
            out.put_u64(len);
            out.put_u64(offset);
            stream.write_all(&out)?;
            file.seek(SeekFrom::Start(offset))?;
            send(&mut file, &mut stream, served.rate)
        }
    }
}

/// The newest checkpoint, if the asker can go on from it.
fn newest(served: &Served, order: u64, from: u64, group: &str) -> Result<(PathBuf, String), String> {
    if group != served.group {
        return Err(format!("here is a replica of group {}, not of {group}", served.group));
    }
    let files = checkpoint::files(&served.directory).map_err(|error| error.to_string())?;
    for path in files.into_iter().rev() {
        let Ok((head, _)) = checkpoint::open::<Head>(&path) else { continue };
        if head.order != order {
            return Err(format!("its state is of the order {:016x}, not of {order:016x}", head.order));
        }
        if head.progress.next.position < from {
            return Err(format!("its newest checkpoint ends at {}, before {from}", head.progress.next));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((path, name));
    }
    Err("it has no checkpoint yet".to_owned())
}

fn send(file: &mut File, stream: &mut TcpStream, rate: u64) -> io::Result<()> {
    let (mut chunk, began, mut sent) = (vec![0; CHUNK], Instant::now(), 0_u64);
    loop {
        let len = file.read(&mut chunk)?;
        if len == 0 {
            return Ok(());
        }
        stream.write_all(&chunk[..len])?;
        sent += len as u64;
        let due = Duration::from_secs_f64(sent as f64 / rate.max(1) as f64);
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
}

/// Copies a checkpoint into the directory that all servers share, unless a later one is there.
///
/// # Errors
/// The system's.
pub(crate) fn share(shared: &Path, file: &Path, head: &Head) -> io::Result<()> {
    make_private(shared)?;
    let Some(name) = file.file_name() else { return Ok(()) };
    if checkpoint::files(shared)?.last().and_then(|last| last.file_name()).is_some_and(|last| last >= name) {
        return Ok(());
    }
    let unfinished = shared.join(format!("{}.{}", name.display(), std::process::id()));
    let copied = copy(&mut File::open(file)?, &unfinished);
    if copied.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    copied?;
    checkpoint::enter(shared, &unfinished, head).map(drop)
}

fn copy(from: &mut impl Read, to: &Path) -> io::Result<()> {
    let mut file = private().truncate(true).open(to)?;
    io::copy(from, &mut file)?;
    file.sync_all()
}

/// Who has checkpoints.
#[derive(Clone, Debug)]
pub(crate) enum Donor {
    /// A replica that serves them at this address.
    Replica(String),
    /// The directory that all servers share.
    Shared(PathBuf),
}

/// What a replica asks others for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub directory: PathBuf,
    pub group: String,
    pub order: u64,
    /// It can go on where the state has all below this position.
    pub from: u64,
}

/// A checkpoint that came.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub path: PathBuf,
    pub head: Head,
}

/// Takes a checkpoint of one of these donors, the first that has one: as a file of the directory, whole and synced. What came
/// before a loss is not sent again.
///
/// # Errors
/// Why each of them sent none, in words.
pub(crate) fn fetch(wish: &Wish, donors: &[Donor]) -> Result<Fetched, String> {
    let mut reasons = Vec::new();
    for donor in donors {
        let (fetched, name) = match donor {
            Donor::Replica(address) => (fetch_from(wish, address), address.clone()),
            Donor::Shared(directory) => (fetch_shared(wish, directory), directory.display().to_string()),
        };
        match fetched {
            Ok(fetched) => return Ok(fetched),
            Err(error) => reasons.push(format!("{name}: {error}")),
        }
    }
    Err(reasons.join("; "))
}

fn fetch_shared(wish: &Wish, shared: &Path) -> io::Result<Fetched> {
    let newest = checkpoint::files(shared)?.pop().ok_or_else(|| bad("it has no checkpoint yet"))?;
    let incoming = wish.directory.join(INCOMING);
    copy(&mut File::open(newest)?, &incoming)?;
    enter(wish, &incoming)
}

fn fetch_from(wish: &Wish, donor: &str) -> io::Result<Fetched> {
    let address: SocketAddr = donor.parse().map_err(|_| bad("that is no address and port"))?;
    let mut stream = TcpStream::connect_timeout(&address, SILENCE / 4)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let incoming = wish.directory.join(INCOMING);
    let begun = fs::read_to_string(incoming.with_extension("name")).unwrap_or_default();
    let have = if begun.is_empty() { 0 } else { fs::metadata(&incoming).map_or(0, |metadata| metadata.len()) };
    let mut request = BytesMut::new();
    request.put_slice(MAGIC);
    request.put_u64(wish.order);
    request.put_u64(wish.from);
    put_text(&mut request, &wish.group);
    put_text(&mut request, &begun);
    request.put_u64(have);
    stream.write_all(&request)?;
    let mut stream = BufReader::with_capacity(CHUNK, stream);
    let mut has = [0];
    stream.read_exact(&mut has)?;
    if has == [0] {
        return Err(bad(&read_text(&mut stream)?));
    }
    let (name, len, offset) = (read_text(&mut stream)?, read_u64(&mut stream)?, read_u64(&mut stream)?);
    if offset > have {
        return Err(bad("it sends what is behind that which is missing"));
    }
    // The name is written first: bytes of another file would be taken for its own.
    let mut file = if offset == 0 {
        let file = private().truncate(true).open(&incoming)?;
        fs::write(incoming.with_extension("name"), &name)?;
        file
    } else {
        File::options().write(true).open(&incoming)?
    };
    file.set_len(offset)?;
    file.seek(SeekFrom::Start(offset))?;
    if io::copy(&mut stream.take(len.saturating_sub(offset)), &mut file)? < len.saturating_sub(offset) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.sync_all()?;
    enter(wish, &incoming)
}

/// All of the file is there: is it what was asked for?
fn enter(wish: &Wish, incoming: &Path) -> io::Result<Fetched> {
    let _ = fs::remove_file(incoming.with_extension("name"));
    let checked = checkpoint::check(incoming).and_then(|()| checkpoint::open::<Head>(incoming)).map(|(head, _)| head);
    let fits = |head: &Head| head.order == wish.order && head.progress.next.position >= wish.from;
    let head = match checked {
        Ok(head) if fits(&head) => head,
        other => {
            let _ = fs::remove_file(incoming);
            return Err(other.err().unwrap_or_else(|| bad("it sent another checkpoint than that which was asked for")));
        }
    };
    let path = checkpoint::enter(&wish.directory, incoming, &head)?;
    Ok(Fetched { path, head })
}

fn put_text(out: &mut BytesMut, text: &str) {
    let text = &text.as_bytes()[..text.len().min(TEXT_MAX)];
    out.put_u16(text.len() as u16);
    out.put_slice(text);
}

fn read_u64(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

fn read_text(input: &mut impl Read) -> io::Result<String> {
    let mut len = [0; 2];
    input.read_exact(&mut len)?;
    let len = usize::from(u16::from_be_bytes(len));
    if len > TEXT_MAX {
        return Err(bad("a text is longer than any may be"));
    }
    let mut bytes = vec![0; len];
    input.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| bad("a text is not UTF-8"))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lasting::engine::Progress;
    use crate::machine::{Position, StateMachine};
    use consort::Place;
    use std::sync::atomic::AtomicU64;

    struct Bytes(Vec<u8>);

    impl StateMachine for Bytes {
        type Snapshot = Vec<u8>;

        fn apply(&mut self, _: Position, _: &[u8]) -> Vec<u8> {
            Vec::new()
        }

        fn snapshot(&self) -> Vec<u8> {
            self.0.clone()
        }

        fn write(snapshot: Vec<u8>, out: &mut dyn Write) -> io::Result<()> {
            out.write_all(&snapshot)
        }

        fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
            self.0.clear();
            state.read_to_end(&mut self.0).map(drop)
        }
    }

    const ORDER: u64 = 9;

    fn save(directory: &Path, head: &Head, state: Vec<u8>) {
        checkpoint::save::<Bytes>(directory, head, state, &AtomicU64::new(0)).unwrap();
    }

    fn head(position: u64) -> Head {
        Head { order: ORDER, serial: 1, progress: Progress { next: Place::at(position), ..Progress::default() } }
    }

    fn wish(directory: &Path, from: u64) -> Wish {
        Wish { directory: directory.to_owned(), group: "g".into(), order: ORDER, from }
    }

    fn donor(directory: &Path) -> (Donor, Arc<Served>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = Served { directory: directory.to_owned(), group: "g".into(), rate: 1 << 30 };
        (Donor::Replica(address), serve(listener, served).unwrap())
    }

    #[test]
    fn a_checkpoint_comes_whole_and_goes_on_at_its_offset() {
        //= RS16 test
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state: Vec<_> = (0..200_000_u32).flat_map(u32::to_be_bytes).collect();
        save(from.path(), &head(70), state.clone());
        let (address, _served) = donor(from.path());
        // What was taken before a loss: the first half, and the name of its file.
        let file = checkpoint::files(from.path()).unwrap().remove(0);
        let whole = fs::read(&file).unwrap();
        let incoming = to.path().join(INCOMING);
        fs::write(&incoming, &whole[..whole.len() / 2]).unwrap();
        fs::write(incoming.with_extension("name"), file.file_name().unwrap().as_encoded_bytes()).unwrap();
        let fetched = fetch(&wish(to.path(), 70), &[Donor::Replica("127.0.0.1:1".into()), address.clone()]).unwrap();
        assert_eq!((fetched.head, fs::read(&fetched.path).unwrap()), (head(70), whole));
        let mut machine = Bytes(Vec::new());
        checkpoint::Checkpoints::open(to.path()).unwrap().restore::<_, Head>(&fetched.path, &mut machine).unwrap();
        assert_eq!(machine.0, state);
        // A first half of something else is noticed by the checksum, and is not used.
        fs::write(&incoming, b"something else").unwrap();
        fs::write(incoming.with_extension("name"), file.file_name().unwrap().as_encoded_bytes()).unwrap();
        let why = fetch(&wish(to.path(), 70), std::slice::from_ref(&address)).unwrap_err();
        assert!(why.contains("checksum"), "{why}");
        fetch(&wish(to.path(), 70), &[address]).unwrap();
    }

    #[test]
    fn a_donor_that_has_nothing_of_use_says_why() {
        //= RS16 test
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (address, _served) = donor(from.path());
        let ask = |wish: &Wish| fetch(wish, std::slice::from_ref(&address)).unwrap_err();
        assert!(ask(&wish(to.path(), 1)).contains("it has no checkpoint yet"));
        save(from.path(), &head(70), vec![1]);
        assert!(ask(&wish(to.path(), 71)).contains("its newest checkpoint ends at 70, before 71"));
        assert!(ask(&Wish { group: "other".into(), ..wish(to.path(), 1) }).contains("here is a replica of group g"));
        assert!(ask(&Wish { order: 8, ..wish(to.path(), 1) }).contains("is of the order 0000000000000009"));
        assert!(checkpoint::files(to.path()).unwrap().is_empty());
    }

    #[test]
    fn a_directory_that_all_share_has_the_newest_checkpoint() {
        //= RS16 test
        let [from, shared, to] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        for position in [70, 90, 80] {
            save(from.path(), &head(position), vec![position as u8]);
            let file = checkpoint::files(from.path()).unwrap().pop().unwrap();
            share(&shared.path().join("g"), &file, &checkpoint::open::<Head>(&file).unwrap().0).unwrap();
        }
        let donor = Donor::Shared(shared.path().join("g"));
        let fetched = fetch(&wish(to.path(), 85), std::slice::from_ref(&donor)).unwrap();
        assert_eq!(fetched.head, head(90));
        let why = fetch(&wish(to.path(), 91), &[donor, Donor::Shared("/dev/null".into())]).unwrap_err();
        assert!(why.contains("another checkpoint than that") && why.contains("/dev/null: "), "{why}");
    }

    #[test]
    fn bytes_that_are_no_request_end_the_connection() {
        let from = tempfile::tempdir().unwrap();
        let (address, _served) = donor(from.path());
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"CONSXFR1",
            &[0xff; 64],
            b"CONSXFR1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff",
        ] {
            let Donor::Replica(address) = &address else { panic!("{address:?}") };
            let mut stream = TcpStream::connect(address).unwrap();
            // It may be closed already.
            let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert_eq!(answer, b"", "{bytes:?}");
        }
    }
}

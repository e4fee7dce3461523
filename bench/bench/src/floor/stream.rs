//! A client's channel without a daemon: one process writes messages into a Unix stream socket, another reads them.
use super::raw::Helpers;
use super::report::Writes;
use crate::clock::now_ns;
use crate::failure::{Outcome, Trying};
use crate::usage;
use consort_testbed::helper::Task;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// Writes messages of so many bytes for so long, so many in each write.
pub fn measure(helpers: &Helpers, size: usize, messages: usize, span: Duration) -> Outcome<Writes> {
    let path = helpers.directory().join(format!("stream-{messages}"));
    let listener = UnixListener::bind(&path).trying(|| format!("cannot bind {}", path.display()))?;
    let mut reader = helpers.start(&format!("stream-{messages}"), &Task::ReadStream { path })?;
    let ready: bool = helpers.answer(&mut reader)?;
    let (mut stream, _) = listener.accept().trying(|| "cannot accept the reader of a stream".into())?;
    let cpu = || [usage::cpu(std::process::id()), usage::cpu(reader.id())];
    let (before, began, block) = (cpu(), now_ns(), vec![b'.'; size * messages]);
    let mut written = 0u64;
    while ready && now_ns() - began < span.as_nanos() as u64 {
        stream.write_all(&block).trying(|| "cannot write into a stream".into())?;
        written += messages as u64;
    }
    let (seconds, after) = ((now_ns() - began) as f64 / 1e9, cpu());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let read: u64 = helpers.answer(&mut reader)?;
    reader.stop();
    let spent = |which: usize| {
        let spent = after[which]?.saturating_sub(before[which]?);
        Some(spent.as_secs_f64() * 1e6 / written.max(1) as f64)
    };
    let messages_per_s = read as f64 / size as f64 / seconds;
    Ok(Writes { messages, message_bytes: size, messages_per_s, writer_us: spent(0), reader_us: spent(1) })
}

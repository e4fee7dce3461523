//! What a server says of itself.
use crate::limits::{KEY_MAX, VALUE_MAX};
use crate::request::COMMANDS;
use crate::resp::Reply;
use crate::store::Store;

/// The answer to HELLO.
pub(crate) fn hello() -> Reply {
    let text = |text: &str| Reply::text(text);
    let fields = [
        [text("server"), text("consort")],
        [text("version"), text(env!("CARGO_PKG_VERSION"))],
        [text("proto"), Reply::Integer(2)],
        [text("mode"), text("standalone")],
        [text("role"), text("master")],
        [text("modules"), Reply::Array(Vec::new())],
    ];
    Reply::Array(fields.into_iter().flatten().collect())
}

/// The answer to INFO, as this server sees it now, without asking others.
pub(crate) fn info(store: &Store) -> String {
    let limits = store.limits();
    let mut text = format!(
        "# Server\r\nconsort_version:{}\r\ncommands:{COMMANDS}\r\n\r\n# Limits\r\nkey_bytes:{KEY_MAX}\r\n\
         value_bytes:{VALUE_MAX}\r\nmaxclients:{}\r\npipeline:{}\r\nmaxmemory:{}\r\n\r\n# Store\r\nname:{}\r\n\
         partitions:{}\r\nkept:{}\r\nwaits_for:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        limits.connections,
        limits.pipeline,
        limits.memory,
        store.name(),
        store.arcs().partitions(),
        store.what_is_kept(),
        store.waits_for(store.all()).unwrap_or_default(),
    );
    for at in store.all() {
        text += &format!("partition{}:{}\r\n", at + 1, of_partition(store, at));
    }
    text
}

/// What INFO says of a partition. One that has ended says so last, because the reason may have any signs.
fn of_partition(store: &Store, at: usize) -> String {
    let replica = match store.replica(at) {
        Ok(replica) => replica,
        Err(error) => {
            let error = error.to_string().replace(char::is_control, " ");
            return format!("position=0,keys=0,used_memory=0,ended={error}");
        }
    };
    // A state that is being taken over is not looked at: that would wait until it is whole.
    let look = || replica.read(|partition| (partition.len(), partition.bytes()));
    let (keys, bytes) = if replica.waits_for().is_none() { look() } else { (0, 0) };
    format!("position={},keys={keys},used_memory={bytes}", replica.position().0)
}

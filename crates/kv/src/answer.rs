//! What becomes of a request: it is begun at once, and its reply comes later.
use crate::command::{Command, Condition, Outcome};
use crate::glob;
use crate::info::{hello, info};
use crate::limits::{ANSWER_MAX, SCAN_MAX, SHORT_PATTERN};
use crate::partition::{Entries, Partition};
use crate::request::{Request, When};
use crate::resp::Reply;
use crate::store::Store;
use bytes::Bytes;
use consort_replica::{Error, Pending, Replica, Response};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a cut waits before it is asked for again, and how often it is.
const AGAIN: Duration = Duration::from_millis(10);
const ATTEMPTS: usize = 500;

/// A reply under way.
pub type Answer = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// How a request gets on with others of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is answered at once.
    Local,
    /// It looks at one partition.
    Read,
    /// It changes something.
    Write,
    /// It looks at several partitions, and so begins behind all before it and before all behind it.
    Whole,
}

/// How this request gets on with others.
pub fn kind(store: &Store, request: &Request) -> Kind {
    let of_all = if store.arcs().partitions() == 1 { Kind::Read } else { Kind::Whole };
    match request {
        Request::Get(_) | Request::Scan { .. } => Kind::Read,
        Request::Put { .. } | Request::Delete(_) => Kind::Write,
        Request::Exists(keys) | Request::GetAll(keys) => {
            only_partition(store, keys).map_or(Kind::Whole, |_| Kind::Read)
        }
        Request::Range { .. } | Request::Size => of_all,
        _ => Kind::Local,
    }
}

/// Begins a request. Whatever is begun later at the same partition comes behind it, unless it only reads.
pub fn begin(store: &Arc<Store>, request: Request) -> Answer {
    if let Some(why) = waits_for(store, &request) {
        return ready(outside(&why));
    }
    match request {
        Request::Ping(None) => ready(Reply::Simple("PONG")),
        Request::Ping(Some(text)) | Request::Echo(text) => ready(Reply::Bulk(text)),
        Request::Accept | Request::Quit => ready(Reply::Simple("OK")),
        Request::Nothing => ready(Reply::Array(Vec::new())),
        Request::Hello => ready(hello()),
        Request::Info => ready(Reply::text(info(store))),
        Request::Get(key) => read(store, store.arcs().of(&key), move |partition| {
            Reply::value(partition.value(&key).map(Bytes::copy_from_slice))
        }),
        Request::Put { key, value, when, returns_old } => put(store, (&key, &value), &when, returns_old),
        Request::Delete(keys) => delete(store, keys),
        Request::Exists(keys) => look_up(
            store,
            keys,
            |value| value.map(|_| Bytes::new()),
            |found| Reply::Integer(found.iter().flatten().count() as i64),
        ),
        Request::GetAll(keys) => look_up(
            store,
            keys,
            |value| value.map(Bytes::copy_from_slice),
            |found| Reply::Array(found.into_iter().map(Reply::value).collect()),
        ),
        Request::Scan { cursor, pattern, count } => scan(store, cursor, pattern, count),
        Request::Range { from, to, limit } => look(
            store,
            store.all().collect(),
            move |_, partition| partition.range(&from, to.as_deref(), limit),
            move |parts| range(parts, limit),
        ),
        Request::Size => {
            let sum = |parts: Vec<usize>| Reply::Integer(parts.iter().sum::<usize>() as i64);
            look(store, store.all().collect(), |_, partition| partition.len(), sum)
        }
    }
}

/// Why one of the partitions that a request concerns orders nothing here. The others have no say.
fn waits_for(store: &Store, request: &Request) -> Option<String> {
    let arcs = store.arcs();
    match request {
        Request::Get(key) | Request::Put { key, .. } => store.waits_for([arcs.of(key)]),
        Request::Delete(keys) | Request::Exists(keys) | Request::GetAll(keys) => {
            store.waits_for(keys.iter().map(|key| arcs.of(key)))
        }
        Request::Scan { cursor, .. } => store.waits_for([arcs.at(*cursor)]),
        Request::Range { .. } | Request::Size => store.waits_for(store.all()),
        _ => None,
    }
}

fn ready(reply: Reply) -> Answer {
    Box::pin(std::future::ready(reply))
}

fn outside(why: &str) -> Reply {
    Reply::Error(format!("CLUSTERDOWN nothing was done; {why}"))
}

fn failed(error: &Error) -> Reply {
    match error {
        Error::Outside(why) => outside(why),
        Error::Refused(why) => Reply::error(format!("nothing was done: {why}")),
        Error::Unseen => Reply::Error("UNKNOWN the command was applied, but its answer was lost".to_owned()),
        other => Reply::Error(format!("UNKNOWN the command may be applied, or not: {other}")),
    }
}

fn busy() -> Reply {
    Reply::Error("BUSY nothing was done: too many bytes of writes are under way; write less at a time".to_owned())
}

fn put(store: &Arc<Store>, (key, value): (&Bytes, &Bytes), when: &When, returns_old: bool) -> Answer {
    let condition = match when {
        When::Always => Condition::Always,
        When::Absent => Condition::Absent,
        When::Present => Condition::Present,
        When::Equals(expected) => Condition::Equals(expected),
    };
    let budget = store.budget();
    let command = Command::Put { condition, returns_old, budget, key, value };
    let Some(pending) = store.begin(store.arcs().of(key), &command) else { return ready(busy()) };
    Box::pin(async move {
        match outcome(pending).await {
            Ok(Outcome::Put(old) | Outcome::Kept(old)) if returns_old => Reply::value(old),
            Ok(Outcome::Put(_)) => Reply::Simple("OK"),
            Ok(Outcome::Kept(_)) => Reply::Nil,
            Ok(Outcome::Full) => {
                Reply::Error(format!("OOM nothing was done: the key's partition would hold more than {budget} bytes"))
            }
            other => unexpected(other),
        }
    })
}

/// The keys of each partition at once; those of several are not one step.
fn delete(store: &Arc<Store>, keys: Vec<Bytes>) -> Answer {
    let mut parts = BTreeMap::<usize, Vec<Bytes>>::new();
    keys.into_iter().for_each(|key| parts.entry(store.arcs().of(&key)).or_default().push(key));
    let begin = |(partition, keys): (usize, Vec<Bytes>)| {
        store.begin(partition, &Command::Delete { keys: keys.iter().map(|key| &**key).collect() })
    };
    let pending: Vec<_> = parts.into_iter().map(begin).collect();
    let is_one_step = pending.len() == 1;
    Box::pin(async move {
        let (mut sum, mut wrong) = (0, None);
        for pending in pending {
            let Some(pending) = pending else {
                wrong = wrong.or_else(|| Some(busy()));
                continue;
            };
            match outcome(pending).await {
                Ok(Outcome::Deleted(count)) => sum += count as i64,
                other => wrong = wrong.or_else(|| Some(unexpected(other))),
            }
        }
        match wrong {
            None => Reply::Integer(sum),
            Some(wrong) if is_one_step => wrong,
            Some(_) => Reply::Error("UNKNOWN some of the keys may be deleted; delete them again".to_owned()),
        }
    })
}

async fn outcome(pending: Pending<Response>) -> Result<Outcome, Error> {
    let response = pending.await?;
    Ok(Outcome::decode(&response.bytes.into()).unwrap_or(Outcome::Malformed))
}

fn unexpected(outcome: Result<Outcome, Error>) -> Reply {
    match outcome {
        Err(error) => failed(&error),
        Ok(_) => Reply::error("the servers of this store do not understand each other; run one version of them"),
    }
}

/// Looks at one partition once it has all that was answered before.
fn read(store: &Arc<Store>, partition: usize, look: impl FnOnce(&Partition) -> Reply + Send + 'static) -> Answer {
    let replica = match store.replica(partition) {
        Ok(replica) => replica.clone(),
        Err(error) => return ready(failed(&error)),
    };
    let pending = replica.catch_up();
    Box::pin(async move {
        match pending.await {
            Ok(()) => replica.read(look),
            Err(error) => failed(&error),
        }
    })
}

/// The one partition that holds all these keys, if there is one.
fn only_partition(store: &Store, keys: &[Bytes]) -> Option<usize> {
    let mut partitions = keys.iter().map(|key| store.arcs().of(key));
    let first = partitions.next()?;
    partitions.all(|other| other == first).then_some(first)
}

/// What each key has, as it was at one time.
fn look_up(
    store: &Arc<Store>,
    keys: Vec<Bytes>,
    take: fn(Option<&[u8]>) -> Option<Bytes>,
    tell: fn(Vec<Option<Bytes>>) -> Reply,
) -> Answer {
    if let Some(partition) = only_partition(store, &keys) {
        return read(store, partition, move |partition| {
            let all = keys.iter().map(|key| partition.value(key));
            match bounded(all, take) {
                Some(found) => tell(found),
                None => too_much(),
            }
        });
    }
    let arcs = store.arcs();
    let partitions: BTreeSet<_> = keys.iter().map(|key| arcs.of(key)).collect();
    let keys = Arc::new(keys);
    let own = move |which: usize, partition: &Partition| {
        let held = |key: &Bytes| (arcs.of(key) == which).then(|| partition.value(key)).flatten();
        bounded(keys.iter().map(held), take)
    };
    look(store, partitions.into_iter().collect(), own, move |parts| {
        let parts: Option<Vec<_>> = parts.into_iter().collect();
        let merged = parts.and_then(|parts| parts.into_iter().reduce(merged));
        let size = |found: &Vec<Option<Bytes>>| found.iter().flatten().map(Bytes::len).sum::<usize>();
        merged.filter(|found| size(found) <= ANSWER_MAX).map_or_else(too_much, tell)
    })
}

fn merged(first: Vec<Option<Bytes>>, second: Vec<Option<Bytes>>) -> Vec<Option<Bytes>> {
    first.into_iter().zip(second).map(|(first, second)| first.or(second)).collect()
}

/// All of them, unless they are more bytes than an answer has.
fn bounded<'a>(
    values: impl Iterator<Item = Option<&'a [u8]>>,
    take: fn(Option<&[u8]>) -> Option<Bytes>,
) -> Option<Vec<Option<Bytes>>> {
    let mut left = ANSWER_MAX;
    values
        .map(|value| {
            let taken = take(value);
            left = left.checked_sub(taken.as_ref().map_or(0, Bytes::len))?;
            Some(taken)
        })
        .collect()
}

fn too_much() -> Reply {
    Reply::error(format!("the answer would have more than {ANSWER_MAX} bytes; ask for fewer keys at a time"))
}

/// Looks at these partitions at one position of the order. `look` is given which partition it sees.
fn look<T: Send + 'static>(
    store: &Arc<Store>,
    partitions: Vec<usize>,
    look: impl Fn(usize, &Partition) -> T + Send + Sync + 'static,
    tell: impl FnOnce(Vec<T>) -> Reply + Send + 'static,
) -> Answer {
    if let [only] = partitions[..] {
        return read(store, only, move |partition| tell(vec![look(only, partition)]));
    }
    let replicas: Result<Vec<_>, _> = partitions.iter().map(|at| store.replica(*at).cloned()).collect();
    let replicas = match replicas {
        Ok(replicas) => replicas,
        Err(error) => return ready(failed(&error)),
    };
    let (store, look, partitions) = (Arc::clone(store), Arc::new(look), Arc::new(partitions));
    Box::pin(async move {
        let mut last = Reply::Nil;
        for _ in 0..ATTEMPTS {
            let (look, which) = (Arc::clone(&look), Arc::clone(&partitions));
            match Replica::cut(&replicas, move |at, partition| look(which[at], partition)).await {
                Ok(parts) => return tell(parts),
                Err(Error::Outside(why)) => last = outside(&why),
                Err(error) => return failed(&error),
            }
            if store.waits_for(partitions.iter().copied()).is_some() {
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
        last
    })
}

/// The key to go on at, empty behind the last, and then keys and values.
fn range(parts: Vec<Entries>, limit: usize) -> Reply {
    let cut = parts.iter().filter_map(|part| part.more_from.clone()).min();
    let mut all: Vec<_> = parts.into_iter().flat_map(|part| part.entries).collect();
    all.sort_unstable_by(|(first, _), (second, _)| first.cmp(second));
    let (mut taken, mut bytes, mut next) = (Vec::new(), 0, cut.clone());
    for (key, value) in all {
        if cut.as_ref().is_some_and(|cut| key >= *cut) {
            break;
        }
        if taken.len() >= 2 * limit || bytes > 0 && bytes + key.len() + value.len() > ANSWER_MAX {
            next = Some(key);
            break;
        }
        bytes += key.len() + value.len();
        taken.extend([Reply::Bulk(key), Reply::Bulk(value)]);
    }
    Reply::Array(vec![Reply::Bulk(next.unwrap_or_default()), Reply::Array(taken)])
}

fn scan(store: &Arc<Store>, cursor: u64, pattern: Option<Bytes>, count: usize) -> Answer {
    let (arcs, at) = (store.arcs(), store.arcs().at(cursor));
    read(store, at, move |partition| {
        let within = |pattern: &Bytes| SCAN_MAX / pattern.len().div_ceil(SHORT_PATTERN).max(1);
        let most = pattern.as_ref().map_or(ANSWER_MAX, within);
        let (keys, next) = partition.scan(cursor, count, most);
        let next = next.or_else(|| arcs.end_of(at)).unwrap_or(0);
        let wanted = |key: &Bytes| pattern.as_ref().is_none_or(|pattern| glob::fits(pattern, key));
        let keys = keys.into_iter().filter(wanted).map(Reply::Bulk).collect();
        Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(keys)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[&'static str], more_from: Option<&'static str>) -> Entries {
        let entry = |key: &&'static str| (Bytes::from_static(key.as_bytes()), Bytes::new());
        let more_from = more_from.map(|key| Bytes::from_static(key.as_bytes()));
        Entries { entries: keys.iter().map(entry).collect(), more_from }
    }

    /// Keys of the answer, and where to go on.
    fn told(parts: Vec<Entries>, limit: usize) -> (Vec<String>, String) {
        let Reply::Array(both) = range(parts, limit) else { panic!("no array") };
        let [Reply::Bulk(next), Reply::Array(words)] = &both[..] else { panic!("{both:?}") };
        let text = |reply: &Reply| match reply {
            Reply::Bulk(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        (words.iter().step_by(2).map(text).collect(), String::from_utf8(next.to_vec()).unwrap())
    }

    #[test]
    fn ranges_of_partitions_are_merged_as_far_as_all_have_told() {
        let parts = || vec![entries(&["a", "d"], None), entries(&["b", "c"], None)];
        assert_eq!(told(parts(), 9), (["a", "b", "c", "d"].map(String::from).to_vec(), String::new()));
        assert_eq!(told(parts(), 2), (["a", "b"].map(String::from).to_vec(), "c".into()));
        let cut = vec![entries(&["a", "d"], Some("e")), entries(&["b"], Some("c"))];
        assert_eq!(told(cut, 2), (["a", "b"].map(String::from).to_vec(), "c".into()), "d is not next");
        assert_eq!(told(vec![], 5), (vec![], String::new()));
    }

    #[test]
    fn values_beyond_the_bound_of_an_answer_are_none() {
        let value = vec![0; ANSWER_MAX / 2];
        let take: fn(Option<&[u8]>) -> Option<Bytes> = |value| value.map(Bytes::copy_from_slice);
        assert_eq!(bounded([Some(&value[..]), None, Some(&value[..])].into_iter(), take).unwrap().len(), 3);
        assert_eq!(bounded([Some(&value[..]); 3].into_iter(), take), None);
    }

    #[test]
    fn errors_say_whether_anything_was_done() {
        let told = |error| match failed(&error) {
            Reply::Error(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(told(Error::Outside("no majority".into())).starts_with("CLUSTERDOWN nothing was done; no majority"));
        assert!(told(Error::Refused("too large".into())).starts_with("ERR nothing was done: too large"));
        assert!(told(Error::Unseen).starts_with("UNKNOWN the command was applied"));
        assert!(told(Error::Stopped).starts_with("UNKNOWN the command may be applied"));
    }
}

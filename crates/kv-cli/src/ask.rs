//! `consort kv put`, `get`, `delete`, `range`: one command to a server each.
use crate::args::Args;
use crate::failure::{Failure, Outcome, note};
use crate::servers::{Repeat, Servers};
use consort_kv::Reply;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStringExt;

macro_rules! help {
    ($text:literal) => {
        concat!(
            $text,
            "\n  --server ADDR    the server at this HOST:PORT; several are tried in turn\n",
            "                   [127.0.0.1:6379]\n",
            "  --timeout TIME   give up after so long [10s]\n",
        )
    };
}

const PUT: &str = help!(
    "Usage: consort kv put KEY VALUE [options]

Puts VALUE under KEY, and waits until it is applied at its place in the order.

  --if-absent      only if KEY has no value
  --if-present     only if it has one
  --if VALUE       only if it has this one: compare-and-set

Exit code 1 says that the condition was not met, 4 that the server was lost and
the value may be put or not.
"
);

const GET: &str = help!(
    "Usage: consort kv get KEY [options]

Prints the value of KEY. Exit code 1 says that it has none.
"
);

const DELETE: &str = help!(
    "Usage: consort kv delete KEY... [options]

Takes keys and their values away, and says how many there were. Keys of several
partitions are not taken away in one step.
"
);

const RANGE: &str = help!(
    "Usage: consort kv range [FROM [TO]] [options]

Prints keys and their values, a tab between them, from FROM on and before TO, in
the order of keys, as all of them were at one time.

  --limit N        so many at most; the standard error says where there are more
                   [1000]
  --json           print each as a JSON object
"
);

/// Runs `consort kv put`.
pub fn put(words: Vec<OsString>) -> Outcome {
    let (servers, words) = read_put(words)?;
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match servers.ask(&words, Repeat::Never)? {
        Reply::Nil => Err(Failure::new("nothing was put: the condition is not met")),
        Reply::Simple(_) => Ok(()),
        other => Err(strange(&other)),
    }
}

fn read_put(words: Vec<OsString>) -> Outcome<(Servers, Vec<Vec<u8>>)> {
    let (mut servers, mut condition) = (Servers::default(), Vec::new());
    let words = Args::each(words, PUT, |option, args| {
        let given: Vec<Vec<u8>> = match option {
            "--if-absent" => vec![b"NX".into()],
            "--if-present" => vec![b"XX".into()],
            "--if" => vec![b"IFEQ".into(), args.raw()?.into_vec()],
            _ => return servers.take(option, args),
        };
        if !condition.is_empty() {
            return Err(Failure::usage(format!("{option}: there is a condition already; give one")));
        }
        condition = given;
        Ok(true)
    })?;
    let words: Vec<_> = words.into_iter().map(OsString::into_vec).collect();
    match <[Vec<u8>; 2]>::try_from(words) {
        Ok(words) => Ok((servers, std::iter::once(b"SET".to_vec()).chain(words).chain(condition).collect())),
        Err(_) => Err(Failure::usage("name one key and its value: consort kv put tea green")),
    }
}

/// Runs `consort kv get`.
pub fn get(words: Vec<OsString>) -> Outcome {
    let (servers, words) = only_servers(words, GET)?;
    let [key] = words.as_slice() else {
        return Err(Failure::usage("name one key: consort kv get tea"));
    };
    match servers.ask(&[b"GET", key], Repeat::Harmless)? {
        Reply::Bulk(value) => {
            let mut out = io::stdout();
            Ok(out.write_all(&value).and_then(|()| writeln!(out))?)
        }
        Reply::Nil => Err(Failure::new(format!("`{}` has no value", String::from_utf8_lossy(key)))),
        other => Err(strange(&other)),
    }
}

/// Runs `consort kv delete`.
pub fn delete(words: Vec<OsString>) -> Outcome {
    let (servers, keys) = only_servers(words, DELETE)?;
    if keys.is_empty() {
        return Err(Failure::usage("name a key at least: consort kv delete tea"));
    }
    let words: Vec<&[u8]> = std::iter::once(&b"DEL"[..]).chain(keys.iter().map(Vec::as_slice)).collect();
    match servers.ask(&words, Repeat::Never)? {
        Reply::Integer(count) => Ok(writeln!(io::stdout(), "deleted {count} of {}", keys.len())?),
        other => Err(strange(&other)),
    }
}

fn only_servers(words: Vec<OsString>, help: &'static str) -> Outcome<(Servers, Vec<Vec<u8>>)> {
    let mut servers = Servers::default();
    let words = Args::each(words, help, |option, args| servers.take(option, args))?;
    Ok((servers, words.into_iter().map(OsString::into_vec).collect()))
}

struct Range {
    servers: Servers,
    from: Vec<u8>,
    to: Vec<u8>,
    limit: u64,
    json: bool,
}

/// Runs `consort kv range`.
pub fn range(words: Vec<OsString>) -> Outcome {
    let range = read_range(words)?;
    let limit = range.limit.to_string();
    let words: [&[u8]; 5] = [b"KV.RANGE", &range.from, &range.to, b"LIMIT", limit.as_bytes()];
    let reply = range.servers.ask(&words, Repeat::Harmless)?;
    let Reply::Array(both) = &reply else { return Err(strange(&reply)) };
    let [Reply::Bulk(next), Reply::Array(entries)] = &both[..] else { return Err(strange(&reply)) };
    let mut out = BufWriter::new(io::stdout().lock());
    for entry in entries.chunks(2) {
        let [Reply::Bulk(key), Reply::Bulk(value)] = entry else { return Err(strange(&reply)) };
        if range.json {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            writeln!(out, "{}", json!({ "key": key, "value": value }))?;
        } else {
            out.write_all(key)?;
            out.write_all(b"\t")?;
            out.write_all(value)?;
            out.write_all(b"\n")?;
        }
    }
    out.flush()?;
    if !next.is_empty() {
        note(format!("there are more, from {} on", String::from_utf8_lossy(next)));
    }
    Ok(())
}

fn read_range(words: Vec<OsString>) -> Outcome<Range> {
    let mut range = Range { servers: Servers::default(), from: Vec::new(), to: Vec::new(), limit: 1_000, json: false };
    let words = Args::each(words, RANGE, |option, args| {
        match option {
            "--limit" => range.limit = args.number(1..=consort_kv::limits::RANGE_MAX as u64)?,
            "--json" => range.json = true,
            _ => return range.servers.take(option, args),
        }
        Ok(true)
    })?;
    let mut words = words.into_iter().map(OsString::into_vec);
    (range.from, range.to) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match words.next() {
        None => Ok(range),
        Some(_) => Err(Failure::usage("name two keys at most: consort kv range a b")),
    }
}

fn strange(reply: &Reply) -> Failure {
    Failure::new(format!("the server answers what no server of a store does: {reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn what_is_asked_becomes_words_of_the_protocol() {
        let asked = |line: &str| {
            let (_, words) = read_put(words(line)).unwrap();
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(asked("tea green"), "SET tea green");
        assert_eq!(asked("tea green --if black --server a:1"), "SET tea green IFEQ black");
        assert_eq!(asked("tea green --if-absent"), "SET tea green NX");
        assert_eq!(asked("--if-present tea green"), "SET tea green XX");
        let range = read_range(words("a b --limit 7 --json")).unwrap();
        assert_eq!((&range.from[..], &range.to[..], range.limit, range.json), (&b"a"[..], &b"b"[..], 7, true));
    }

    #[test]
    fn what_is_missing_or_too_much_is_told_with_an_example() {
        assert!(read_put(words("tea")).unwrap_err().message.contains("consort kv put tea green"));
        let twice = read_put(words("tea green --if x --if-absent")).unwrap_err().message;
        assert_eq!(twice, "--if-absent: there is a condition already; give one");
        assert!(get(words("a b")).unwrap_err().message.contains("consort kv get tea"));
        assert!(delete(words("")).unwrap_err().message.contains("consort kv delete tea"));
        assert!(range(words("a b c")).unwrap_err().message.contains("two keys at most"));
        let many = range(words("--limit 10001")).unwrap_err().message;
        assert_eq!(many, "--limit: `10001` does not fit; give a number from 1 to 10000");
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(PUT, read_put), [""; 0]);
        assert_eq!(crate::args::shown_but_unknown(GET, |words| only_servers(words, GET)), [""; 0]);
        assert_eq!(crate::args::shown_but_unknown(DELETE, |words| only_servers(words, DELETE)), [""; 0]);
        assert_eq!(crate::args::shown_but_unknown(RANGE, read_range), [""; 0]);
    }
}

//! `consort kv bench`: what a store does under load.
use crate::args::Args;
use crate::clock;
use crate::failure::{Failure, Outcome, Trying};
use crate::figures::thousands;
use crate::servers::{Servers, connect};
use consort_kv::Reply;
use consort_types::Rng;
use hdrhistogram::Histogram;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// What `consort kv bench --help` prints.
pub const HELP: &str = "\
Usage: consort kv bench [options]

Puts and gets values at random keys, and tells how many a second, and how long
each took. What it writes stays in the store, under keys that begin with bench:.

  --connections N  so many at a time, spread over the servers [50]
  --pipeline N     commands of each that are under way [1]
  --time TIME      for so long [5s]
  --keys N         so many keys [100000]
  --value SIZE     bytes of each value [100]
  --reads PERCENT  so many of a hundred commands are gets [50]
  --json           print the summary as a JSON object

  --server ADDR    the server at this HOST:PORT; may be given several times
                   [127.0.0.1:6379]
  --timeout TIME   give up on an answer after so long [10s]
";

/// Latencies are told up to a minute, in microseconds, to 0.1 %.
const LONGEST_US: u64 = 60_000_000;

#[derive(Clone, Debug)]
struct Options {
    servers: Servers,
    connections: usize,
    pipeline: usize,
    time: Duration,
    keys: u64,
    value: usize,
    reads: u64,
    json: bool,
}

/// What one connection, or all, came to.
struct Measured {
    puts: Histogram<u64>,
    gets: Histogram<u64>,
    errors: u64,
    first_error: Option<String>,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let addresses: Vec<_> = options.servers.addresses().into_iter().map(str::to_owned).collect();
    let began = clock::now_ns();
    let end = began + options.time.as_nanos() as u64;
    let threads: Vec<_> = (0..options.connections)
        .zip(addresses.iter().cycle())
        .map(|(number, address)| {
            let (options, address) = (options.clone(), address.clone());
            thread::spawn(move || load(&options, &address, number as u64, end))
        })
        .collect();
    let mut all = Measured::new()?;
    for thread in threads {
        let measured = thread.join().map_err(|_| Failure::new("a connection's thread panicked"))??;
        all.add(measured)?;
    }
    let seconds = (clock::now_ns() - began) as f64 / 1e9;
    all.tell(&options, seconds)
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let time = Duration::from_secs(5);
    let servers = Servers::default();
    let mut options =
        Options { servers, connections: 50, pipeline: 1, time, keys: 100_000, value: 100, reads: 50, json: false };
    Args::only_options(words, HELP, |option, args| {
        match option {
            "--connections" => options.connections = args.number(1..=10_000)? as usize,
            "--pipeline" => options.pipeline = args.number(1..=10_000)? as usize,
            "--time" => options.time = args.duration()?,
            "--keys" => options.keys = args.number(1..=u64::from(u32::MAX))?,
            "--value" => options.value = args.size(0..=consort_kv::limits::VALUE_MAX as u64)? as usize,
            "--reads" => options.reads = args.number(0..=100)?,
            "--json" => options.json = true,
            _ => return options.servers.take(option, args),
        }
        Ok(true)
    })?;
    Ok(options)
}

/// One connection's commands, until it is time.
fn load(options: &Options, address: &str, number: u64, end: u64) -> Outcome<Measured> {
    let mut server = connect(address, options.servers.timeout())?;
    server.set_timeout(Some(options.servers.timeout())).trying(|| address.to_owned())?;
    let (mut rng, mut measured) = (Rng::new(number), Measured::new()?);
    let value = vec![b'x'; options.value];
    let mut gets = Vec::new();
    while clock::now_ns() < end {
        gets.clear();
        for _ in 0..options.pipeline {
            let key = format!("bench:{:010}", rng.below(options.keys)).into_bytes();
            let is_get = rng.below(100) < options.reads;
            gets.push(is_get);
            if is_get { server.add(&[&b"GET"[..], &key]) } else { server.add(&[&b"SET"[..], &key, &value]) }
        }
        let sent = clock::now_ns();
        server.flush().trying(|| address.to_owned())?;
        for is_get in &gets {
            let reply = server.receive().trying(|| address.to_owned())?;
            measured.note(*is_get, clock::now_ns() - sent, reply);
        }
    }
    Ok(measured)
}

impl Measured {
    fn new() -> Outcome<Self> {
        let histogram = || Histogram::new_with_bounds(1, LONGEST_US, 3).trying(|| "cannot measure".into());
        Ok(Self { puts: histogram()?, gets: histogram()?, errors: 0, first_error: None })
    }

    fn note(&mut self, is_get: bool, ns: u64, reply: Reply) {
        match reply {
            Reply::Error(why) => {
                self.errors += 1;
                self.first_error.get_or_insert(why);
            }
            _ if is_get => self.gets.saturating_record(ns / 1_000),
            _ => self.puts.saturating_record(ns / 1_000),
        }
    }

    fn add(&mut self, other: Self) -> Outcome {
        self.puts.add(&other.puts).trying(|| "cannot add".into())?;
        self.gets.add(&other.gets).trying(|| "cannot add".into())?;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        Ok(())
    }

    fn tell(&self, options: &Options, seconds: f64) -> Outcome {
        let mut out = io::stdout();
        if options.json {
            let of = |histogram: &Histogram<u64>| {
                let at = |quantile| histogram.value_at_quantile(quantile);
                json!({ "count": histogram.len(), "p50_us": at(0.5), "p99_us": at(0.99), "max_us": histogram.max() })
            };
            let (puts, gets) = (of(&self.puts), of(&self.gets));
            writeln!(out, "{}", json!({ "seconds": seconds, "puts": puts, "gets": gets, "errors": self.errors }))?;
        } else {
            for (what, histogram) in [("puts", &self.puts), ("gets", &self.gets)] {
                writeln!(out, "{what}: {}", line(histogram, seconds))?;
            }
        }
        match &self.first_error {
            None => Ok(()),
            Some(first) => Err(Failure::new(format!("{} commands failed; the first: {first}", thousands(self.errors)))),
        }
    }
}

/// `1,200 a second, p50 0.40 ms, p99 2.00 ms, at most 3.00 ms`.
fn line(histogram: &Histogram<u64>, seconds: f64) -> String {
    let ms = |us: u64| us as f64 / 1e3;
    let (p50, p99) = (ms(histogram.value_at_quantile(0.5)), ms(histogram.value_at_quantile(0.99)));
    let rate = thousands((histogram.len() as f64 / seconds.max(1e-9)) as u64);
    format!("{rate} a second, p50 {p50:.2} ms, p99 {p99:.2} ms, at most {:.2} ms", ms(histogram.max()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_and_latencies() {
        let mut measured = Measured::new().unwrap();
        (0..99).for_each(|_| measured.note(true, 400_000, Reply::Nil));
        measured.note(true, 2_000_000, Reply::Nil);
        measured.note(false, 1, Reply::error("no"));
        assert_eq!(line(&measured.gets, 2.0), "50 a second, p50 0.40 ms, p99 0.40 ms, at most 2.00 ms");
        assert_eq!((measured.puts.len(), measured.errors), (0, 1));
        assert_eq!(measured.first_error.as_deref(), Some("ERR no"));
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}

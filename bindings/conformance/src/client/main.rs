//! This project's own client, told what to do line by line.
#![allow(clippy::disallowed_methods, reason = "a program")]

mod told;

use consort::{Address, Client, ConnectOptions, GroupName, PrivateName, Service, Target};
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;
use told::{failure, told, wrong};

/// How long the end of a session is waited for.
const CLOSE: Duration = Duration::from_secs(10);

fn main() -> std::io::Result<()> {
    let mut client = None;
    for line in stdin().lock().lines() {
        let reply = answer(&mut client, &line?).unwrap_or_else(|error| error);
        writeln!(stdout(), "{reply}")?;
    }
    Ok(())
}

/// Does what a line asks for. Both ways it comes to a line.
fn answer(client: &mut Option<Client>, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (request, words) = words.split_first().ok_or_else(|| wrong("an empty line"))?;
    if *request == "connect" {
        let opened = connect(words)?;
        let reply = welcome(&opened);
        *client = Some(opened);
        return Ok(reply);
    }
    if *request == "close" {
        let closing = client.take().ok_or_else(nobody)?;
        return closing.close(CLOSE).map(|()| "ok".into()).map_err(failure);
    }
    let client = client.as_mut().ok_or_else(nobody)?;
    match *request {
        "join" => client.join(&group(words)?).map(sent).map_err(failure),
        "join_closed" => client.join_closed(&group(words)?).map(sent).map_err(failure),
        "leave" => client.leave(&group(words)?).map(sent).map_err(failure),
        "send" => send(client, words),
        "receive" => client.receive(milliseconds(words)?).map(|event| told(event.as_ref())).map_err(failure),
        "wait" => client.wait_ordered(milliseconds(words)?).map(|()| "ok".into()).map_err(failure),
        other => Err(wrong(format!("{other:?} is no request"))),
    }
}

fn nobody() -> String {
    "error kind=closed : there is no session".into()
}

fn connect(words: &[&str]) -> Result<Client, String> {
    let (address, words) = words.split_first().ok_or_else(|| wrong("no address"))?;
    let mut options = ConnectOptions::default();
    for word in words {
        options = match *word {
            "views" => options.with_views(),
            "positions" => options.with_positions(),
            _ => options.called(word.strip_prefix("name=").unwrap_or_default()).map_err(wrong)?,
        };
    }
    let address: Address = address.parse().map_err(wrong)?;
    Client::connect(&address, &options).map_err(failure)
}

fn welcome(client: &Client) -> String {
    let welcome = client.welcome();
    format!("ok name={} node={} message_max={}", welcome.name, welcome.daemon.node.0, welcome.message_max)
}

fn sent(number: u64) -> String {
    format!("ok send={number}")
}

fn group(words: &[&str]) -> Result<GroupName, String> {
    GroupName::new(words.first().copied().unwrap_or_default()).map_err(wrong)
}

fn milliseconds(words: &[&str]) -> Result<Duration, String> {
    let number = words.first().and_then(|word| word.parse().ok());
    number.map(Duration::from_millis).ok_or_else(|| wrong("no milliseconds"))
}

fn send(client: &mut Client, words: &[&str]) -> Result<String, String> {
    let [service, payload, targets @ ..] = words else { return Err(wrong("no service or no payload")) };
    let service: Service = service.parse().map_err(wrong)?;
    let targets: Vec<Target> = targets.iter().copied().map(target).collect::<Result<_, _>>()?;
    let number = client.multicast(service, &targets, &bytes(payload)?).map_err(failure)?;
    client.flush().map(|()| sent(number)).map_err(failure)
}

fn target(name: &str) -> Result<Target, String> {
    if name.starts_with('#') {
        return PrivateName::parse(name).map(Target::Client).ok_or_else(|| wrong(format!("{name} names no client")));
    }
    GroupName::new(name).map(Target::Group).map_err(wrong)
}

/// A payload as it is written: hexadecimal, `-` for none, `5a*9` for nine times the same.
fn bytes(written: &str) -> Result<Vec<u8>, String> {
    let byte = |at: &str| u8::from_str_radix(at, 16).map_err(|_| wrong(format!("{at:?} is no byte")));
    if let Some((one, count)) = written.split_once('*') {
        return Ok(vec![byte(one)?; count.parse().map_err(wrong)?]);
    }
    if written == "-" {
        return Ok(Vec::new());
    }
    (0..written.len()).step_by(2).map(|at| byte(written.get(at..at + 2).unwrap_or_default())).collect()
}

//! This project's own client, told what to do line by line.
#![allow(clippy::disallowed_methods, reason = "a program")]

mod session;
mod told;

use consort::{Address, Client, ConnectOptions, GroupName, PrivateName, Service, Session, Target};
use consort_conformance::words::{milliseconds, nobody, payload, sent, wrong};
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;
use told::{failure, told};

/// How long the end of a session is waited for.
const CLOSE: Duration = Duration::from_secs(10);

fn main() -> std::io::Result<()> {
    let mut speaker = None;
    for line in stdin().lock().lines() {
        let reply = answer(&mut speaker, &line?).unwrap_or_else(|error| error);
        writeln!(stdout(), "{reply}")?;
    }
    Ok(())
}

/// Who does what is asked for.
enum Speaker {
    Client(Box<Client>),
    Session(Box<Session>),
}

/// Does what a line asks for. Both ways it comes to a line.
fn answer(speaker: &mut Option<Speaker>, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (request, words) = words.split_first().ok_or_else(|| wrong("an empty line"))?;
    match (*request, words) {
        ("has", ["session"]) => return Ok("ok".into()),
        ("connect", words) => {
            let opened = connect(words)?;
            let reply = welcome(&opened);
            *speaker = Some(Speaker::Client(Box::new(opened)));
            return Ok(reply);
        }
        ("session", words) => {
            *speaker = Some(Speaker::Session(Box::new(session::connect(words)?)));
            return Ok("ok".into());
        }
        ("close", _) => return close(speaker.take().ok_or_else(nobody)?),
        _ => {}
    }
    match speaker.as_mut().ok_or_else(nobody)? {
        Speaker::Client(client) => ask(client, request, words),
        Speaker::Session(session) => session::ask(session, request, words),
    }
}

fn close(speaker: Speaker) -> Result<String, String> {
    let closed = match speaker {
        Speaker::Client(client) => client.close(CLOSE),
        Speaker::Session(session) => session.finish(CLOSE).map(drop),
    };
    closed.map(|()| "ok".into()).map_err(failure)
}

fn ask(client: &mut Client, request: &str, words: &[&str]) -> Result<String, String> {
    match request {
        "join" => client.join(&group(words)?).map(sent).map_err(failure),
        "join_closed" => client.join_closed(&group(words)?).map(sent).map_err(failure),
        "leave" => client.leave(&group(words)?).map(sent).map_err(failure),
        "send" => send(client, words),
        "receive" => client.receive(milliseconds(words)?).map(|event| told(event.as_ref())).map_err(failure),
        "wait" => client.wait_ordered(milliseconds(words)?).map(|()| "ok".into()).map_err(failure),
        other => Err(wrong(format!("{other:?} is no request"))),
    }
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

fn group(words: &[&str]) -> Result<GroupName, String> {
    GroupName::new(words.first().copied().unwrap_or_default()).map_err(wrong)
}

fn send(client: &mut Client, words: &[&str]) -> Result<String, String> {
    let (service, targets, payload) = message(words)?;
    let number = client.multicast(service, &targets, &payload).map_err(failure)?;
    client.flush().map(|()| sent(number)).map_err(failure)
}

fn message(words: &[&str]) -> Result<(Service, Vec<Target>, Vec<u8>), String> {
    let [service, written, targets @ ..] = words else { return Err(wrong("no service or no payload")) };
    let targets = targets.iter().copied().map(target).collect::<Result<_, _>>()?;
    Ok((service.parse().map_err(wrong)?, targets, payload(written)?))
}

fn target(name: &str) -> Result<Target, String> {
    if name.starts_with('#') {
        return PrivateName::parse(name).map(Target::Client).ok_or_else(|| wrong(format!("{name} names no client")));
    }
    GroupName::new(name).map(Target::Group).map_err(wrong)
}

//! A chat: lines from standard input go to a group; messages and changes of the group are printed, to everybody in the
//! same order. One thread sends, one receives.
//!
//! `cargo run -p consort --example chat -- 127.0.0.1:4840 tea ann`
#![allow(clippy::disallowed_methods, reason = "one thread sends while the other receives")]

pub mod common;
use common::Arguments;
use consort::{ChangeCause, Client, DisconnectReason, Error, Event, GroupName, Sender, Service};
use std::io::{BufRead, BufReader, Write};
use std::process::ExitCode;
use std::time::Duration;

/// How long to wait at the end until the last lines are ordered.
const LAST_WORDS: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let talked = Arguments::connect("chat").and_then(|(client, group)| {
        talk(client, group, BufReader::new(std::io::stdin()), std::io::stdout()).map_err(|error| error.to_string())
    });
    if let Err(problem) = talked {
        eprintln!("chat: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Talks until the input ends.
pub fn talk(
    mut client: Client,
    group: GroupName,
    lines: impl BufRead + Send + 'static,
    mut out: impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    client.join(&group)?;
    let (sender, mut receiver) = client.split();
    std::thread::spawn(move || {
        if let Err(error) = send_lines(sender, &group, lines) {
            eprintln!("chat: {error}");
        }
    });
    loop {
        match receiver.receive(None) {
            Ok(Some(event)) => print(&mut out, event)?,
            Ok(None) => {}
            Err(Error::Disconnected { farewell, .. }) if farewell.reason == DisconnectReason::Goodbye => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn send_lines(mut sender: Sender, group: &GroupName, lines: impl BufRead) -> Result<(), Error> {
    sender.flush()?; // the join
    for line in lines.lines().map_while(Result::ok) {
        match sender.multicast(Service::Agreed, std::slice::from_ref(group), line.as_bytes()) {
            Err(error @ Error::TooLarge { .. }) => eprintln!("chat: not sent: {error}"),
            sent => drop(sent?),
        }
        sender.flush()?;
    }
    sender.wait_ordered(LAST_WORDS)?;
    sender.goodbye()
}

fn print(out: &mut impl Write, event: Event) -> std::io::Result<()> {
    match event {
        Event::Message(message) => {
            writeln!(out, "{}: {}", message.sender_name(), String::from_utf8_lossy(message.payload()))
        }
        Event::GroupView(view) if view.cause != ChangeCause::Primary => {
            let names: Vec<_> = view.members.iter().map(|member| member.name.as_str()).collect();
            writeln!(out, "-- {}: now {} here: {}", view.cause, names.len(), names.join(" "))
        }
        Event::Refused { send, refusal } => writeln!(out, "-- send {send} was refused: {refusal}"),
        _ => Ok(()),
    }
}

//! Events as lines.
use super::escape::{json_without_controls, without_controls};
use super::written;
use crate::failure::{Failure, Outcome, note};
use consort::{ChangeCause, Event, GroupView, Member, Message, NetworkView, Offer, Primary, ReadingStatus};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// How messages are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Each on a line.
    Plain,
    /// The same behind its position and its sender.
    Placed,
    /// Events as objects.
    Json,
    /// No messages.
    Quiet,
    /// Events as objects, but for messages.
    QuietJson,
}

impl Style {
    const fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::QuietJson)
    }

    const fn is_quiet(self) -> bool {
        matches!(self, Self::Quiet | Self::QuietJson)
    }
}

/// Prints events, counts and hashes messages.
pub struct Printer {
    out: BufWriter<Stdout>,
    /// Control characters are named, because the output is a terminal's.
    escapes: bool,
    style: Style,
    digest: Option<Sha256>,
    /// The message that ends it.
    until: Option<Vec<u8>>,
    /// What is on offer.
    open: BTreeMap<u64, Message>,
    /// Messages so far.
    pub count: u64,
    /// Whether the last of them was printed.
    pub has_ended: bool,
}

impl Printer {
    /// As the options say. What messages say goes to a terminal as it is only where it is to be `raw`.
    pub fn new(style: Style, digest: bool, until: Option<Vec<u8>>, raw: bool) -> Self {
        let escapes = !raw && io::stdout().is_terminal();
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let digest = digest.then(Sha256::new);
        Self { out, escapes, style, digest, until, open: BTreeMap::new(), count: 0, has_ended: false }
    }

    /// Prints an event.
    pub fn print(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Message(message) | Event::Read(message) => self.message(message),
            Event::Reading(status) => self.change(|| reading(status), || describe_reading(status)),
            Event::Offer(offer) => self.offer(offer),
            Event::Revoke { offer } => self.close("revoke", *offer).map(drop),
            Event::Confirm { offer } => {
                let message = self.close("confirm", *offer)?;
                self.count(&message);
                Ok(())
            }
            Event::GroupView(view) => self.change(|| group_view(view), || describe_group(view)),
            Event::View(view) => self.change(|| network_view(view), || describe_network(view)),
            _ => Ok(()),
        }
    }

    fn change(&mut self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Outcome {
        if self.style.is_json() {
            return self.line(&json());
        }
        // Messages that came before go before.
        self.flush()?;
        note(text());
        Ok(())
    }

    fn count(&mut self, message: &Message) {
        self.count += 1;
        self.has_ended |= self.until.as_deref() == Some(message.payload());
        if let Some(digest) = &mut self.digest {
            digest.update(message.payload());
            digest.update(b"\n");
        }
    }

    fn offer(&mut self, offer: &Offer) -> Outcome {
        self.open.insert(offer.number, offer.message.clone());
        match (self.style.is_quiet(), self.style.is_json()) {
            (true, _) => Ok(()),
            (_, true) => self.line(&offer_as_json(offer)),
            _ => {
                let text = self.text(offer.message.payload()).into_owned();
                written(writeln!(self.out, "offer {}: {text}", offer.number))
            }
        }
    }

    /// An offer is confirmed or revoked.
    fn close(&mut self, what: &str, offer: u64) -> Outcome<Message> {
        let Some(message) = self.open.remove(&offer) else {
            return Err(Failure::new(format!("the daemon says {what} of offer {offer}, which is not open")));
        };
        match (self.style.is_quiet(), self.style.is_json()) {
            (true, _) => {}
            (_, true) => self.line(&json!({ "event": what, "offer": offer }))?,
            _ => written(writeln!(self.out, "{what} {offer}"))?,
        }
        Ok(message)
    }

    fn message(&mut self, message: &Message) -> Outcome {
        self.count(message);
        match (self.style.is_quiet(), self.style.is_json()) {
            (true, _) => Ok(()),
            (_, true) => self.line(&as_json(message)),
            _ if self.style == Style::Placed => {
                let text = self.text(message.payload()).into_owned();
                let (node, place) = (message.sender().0, place(message));
                written(writeln!(self.out, "{place} {node}/{}: {text}", message.sender_name()))
            }
            _ if self.escapes => {
                let text = self.text(message.payload()).into_owned();
                written(writeln!(self.out, "{text}"))
            }
            _ => written(self.out.write_all(message.payload()).and_then(|()| self.out.write_all(b"\n"))),
        }
    }

    fn line(&mut self, value: &Value) -> Outcome {
        match self.escapes {
            true => written(writeln!(self.out, "{}", json_without_controls(&value.to_string()))),
            false => written(writeln!(self.out, "{value}")),
        }
    }

    fn text<'a>(&self, payload: &'a [u8]) -> Cow<'a, str> {
        match String::from_utf8_lossy(payload) {
            Cow::Borrowed(text) if self.escapes => without_controls(text),
            Cow::Owned(text) if self.escapes => Cow::Owned(without_controls(&text).into_owned()),
            text => text,
        }
    }

    /// Shows everything printed so far.
    pub fn flush(&mut self) -> Outcome {
        written(self.out.flush())
    }

    /// The end: the digest, if it is wanted.
    pub fn finish(mut self) -> Outcome {
        if let Some(digest) = self.digest.take() {
            let text: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            let count = self.count;
            match self.style.is_json() {
                true => self.line(&json!({ "event": "end", "sha256": text, "count": count }))?,
                false => written(writeln!(self.out, "{text} {count}"))?,
            }
        }
        self.flush()
    }
}

fn as_json(message: &Message) -> Value {
    let (node, client) = message.sender();
    let groups: Vec<&str> = message.groups().collect();
    let mut value = json!({
        "event": if message.is_read() { "read" } else { "message" },
        "node": node.0,
        "client": client.0,
        "service": message.service().name(),
        "groups": groups,
    });
    if let Some(placement) = message.placement() {
        value["position"] = placement.place.position.into();
        value["index"] = placement.place.index.into();
    }
    if let Some(daemon) = message.sender_daemon() {
        value["incarnation"] = daemon.incarnation.0.into();
    }
    // Bytes that are no text would not survive as text.
    match std::str::from_utf8(message.payload()) {
        Ok(text) => value["text"] = text.into(),
        Err(_) => value["hex"] = message.payload().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
    value
}

/// Where a message stands; `-` where that is not known.
fn place(message: &Message) -> String {
    message.placement().map_or_else(|| "-".to_owned(), |placement| placement.place.to_string())
}

fn reading(status: &ReadingStatus) -> Value {
    match status {
        ReadingStatus::Began { order, from, oldest, newest } => json!({
            "event": "reading",
            "order": format!("{order:016x}"),
            "from": from.to_string(),
            "oldest": oldest,
            "newest": newest,
        }),
        ReadingStatus::CaughtUp { position } => json!({ "event": "caught_up", "position": position }),
        ReadingStatus::Lost { from, to } => json!({ "event": "lost", "from": from, "to": to }),
        ReadingStatus::InView { view, .. } => json!({ "event": "reading_in_view", "view": view.to_string() }),
        ReadingStatus::Gap { from, to, .. } => {
            json!({ "event": "gap", "from": from.to_string(), "to": to.to_string() })
        }
        ReadingStatus::Ended(end) => json!({ "event": "reading_ended", "cause": end.cause.name() }),
    }
}

fn describe_reading(status: &ReadingStatus) -> String {
    match status {
        ReadingStatus::Began { from, oldest, newest, .. } => {
            format!("reading from {from}; the daemon has {oldest} to {newest}")
        }
        ReadingStatus::CaughtUp { position } => format!("read all up to {position}; what follows is new"),
        ReadingStatus::Lost { from, to } => format!("positions {from} to {to} are lost: the daemon cannot tell them"),
        ReadingStatus::InView { view, .. } => format!("positions are of view {view}"),
        ReadingStatus::Gap { from, to, .. } => format!("lost from {from} to {to}: the daemon does not retain it"),
        ReadingStatus::Ended(end) => end.to_string(),
    }
}

fn offer_as_json(offer: &Offer) -> Value {
    let mut value = as_json(&offer.message);
    value["event"] = "offer".into();
    value["offer"] = offer.number.into();
    value["free_us"] = u64::try_from(offer.free.as_micros()).unwrap_or(u64::MAX).into();
    value
}

fn group_view(view: &GroupView) -> Value {
    json!({
        "event": "group_view",
        "group": view.group.as_str(),
        "id": view.id.to_string(),
        "primary": view.primary.word(),
        "cause": view.cause.to_string(),
        "who": view.who.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "members": view.members.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn network_view(view: &NetworkView) -> Value {
    json!({
        "event": "view",
        "id": view.id.to_string(),
        "kind": format!("{:?}", view.kind).to_lowercase(),
        "primary": view.primary.word(),
        "cause": view.cause,
        "members": view.members.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// `lobby: n1/c2 by join; 1 member: n1/c2`. Nodes without their incarnations: those are for programs.
fn describe_group(view: &GroupView) -> String {
    let name = |member: &Member| format!("{}/{}", member.daemon.node, member.name);
    let names = |members: &[Member]| members.iter().map(name).collect::<Vec<_>>().join(", ");
    let plural = if view.members.len() == 1 { "member" } else { "members" };
    let (now, primary) = (names(&view.members), primary(view.primary));
    let count = view.members.len();
    match view.cause {
        ChangeCause::Primary => {
            format!("{}: now{primary}; {count} {plural}: {now}", view.group).replace("now; ", "now ")
        }
        cause => format!("{}: {} by {cause}{primary}; {count} {plural}: {now}", view.group, names(&view.who)),
    }
}

fn describe_network(view: &NetworkView) -> String {
    let members: Vec<String> = view.members.iter().map(|member| member.node.to_string()).collect();
    let kind = format!("{:?}", view.kind).to_lowercase();
    let (number, primary) = (view.id.number, primary(view.primary));
    format!("{kind} view {number}: {}{primary}; {} daemons: {}", view.cause, members.len(), members.join(", "))
}

/// Nothing where no policy asks.
const fn primary(is: Primary) -> &'static str {
    match is {
        Primary::Yes => "; primary",
        Primary::Pending => "; not yet primary",
        Primary::No => "; not primary",
        Primary::NoPolicy => "",
    }
}

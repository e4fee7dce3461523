//! Events and errors as lines.
use consort::{
    ChangeCause, Error, Event, Fate, GroupView, Member, Message, NetworkView, Primary, PrivateName, ReadingStatus,
    SessionEvent, ViewKind,
};
use consort_conformance::words::told_payload;
use std::fmt::Write;

/// An event; `none` where there is none.
pub(crate) fn told(event: Option<&Event>) -> String {
    match event {
        None => "none".into(),
        Some(Event::Message(message)) => of_message("message", message),
        Some(Event::Read(message)) => of_message("read", message),
        Some(Event::Reading(status)) => of_reading(status).into(),
        Some(Event::GroupView(view)) => of_group_view(view),
        Some(Event::GroupSignal(signal)) => format!("group_signal group={}", signal.group),
        Some(Event::View(view)) => of_view(view),
        Some(Event::Refused { send, refusal }) => {
            format!("refused send={send} cause={} : {}", refusal.cause, refusal.text)
        }
        Some(_) => "other".into(),
    }
}

/// An event of a session; `none` where there is none.
pub(crate) fn told_of_session(event: Option<&SessionEvent>) -> String {
    match event {
        None => "none".into(),
        Some(SessionEvent::Event(event)) => told(Some(event)),
        Some(SessionEvent::Sent { send, fate }) => match fate {
            Fate::Ordered { .. } => format!("sent send={send} fate=ordered"),
            Fate::Refused(refusal) => format!("sent send={send} fate=refused cause={} : {refusal}", refusal.cause),
            Fate::Forgotten => format!("sent send={send} fate=forgotten"),
        },
        Some(SessionEvent::Connected { address }) => format!("connected : {address}"),
        Some(SessionEvent::Lost { why }) => format!("lost : {why}"),
        Some(SessionEvent::Gap { .. }) => "gap".into(),
        Some(SessionEvent::Parted { .. }) => "parted".into(),
        Some(_) => "other".into(),
    }
}

const fn of_reading(status: &ReadingStatus) -> &'static str {
    match status {
        ReadingStatus::CaughtUp { .. } => "caught_up",
        ReadingStatus::Lost { .. } | ReadingStatus::Gap { .. } => "gap",
        ReadingStatus::Ended(_) => "reading_ended",
        _ => "other",
    }
}

fn of_message(kind: &str, message: &Message) -> String {
    let sender = message.sender_private().map(|name| name.to_string()).unwrap_or_default();
    let (service, payload) = (message.service(), told_payload(message.payload()));
    let to = message.groups().collect::<Vec<_>>().join(",");
    let mut line = format!("{kind} service={service} sender={sender} {payload} to={to}");
    if let Some((position, daemon)) = message.position().zip(message.sender_daemon()) {
        let _ = write!(line, " position={position} incarnation={}", daemon.incarnation.0);
    }
    line
}

fn of_group_view(view: &GroupView) -> String {
    let names = |members: &[Member]| {
        let name = |member: &Member| PrivateName::new(&member.name, member.daemon.node).to_string();
        members.iter().map(name).collect::<Vec<_>>().join(",")
    };
    let (group, cause, primary) = (&view.group, cause(view.cause), primary(view.primary));
    let closed = if view.closed { "yes" } else { "no" };
    let (changed, members) = (names(&view.who), names(&view.members));
    format!(
        "group_view group={group} cause={cause} closed={closed} primary={primary} changed={changed} members={members}"
    )
}

fn of_view(view: &NetworkView) -> String {
    let kind = if view.kind == ViewKind::Regular { "regular" } else { "transitional" };
    let members: Vec<_> = view.members.iter().map(|member| member.node.to_string()).collect();
    format!("view kind={kind} primary={} members={} : {}", primary(view.primary), members.join(","), view.cause)
}

const fn cause(cause: ChangeCause) -> &'static str {
    match cause {
        ChangeCause::Join => "join",
        ChangeCause::Leave => "leave",
        ChangeCause::Disconnect => "disconnect",
        ChangeCause::Network => "network",
        ChangeCause::Primary => "primary",
    }
}

const fn primary(primary: Primary) -> &'static str {
    match primary {
        Primary::Yes => "yes",
        Primary::Pending => "pending",
        Primary::No => "no",
        Primary::NoPolicy => "no_policy",
    }
}

/// Why a call failed.
pub(crate) fn failure(error: Error) -> String {
    let mut line = format!("error kind={}", kind(&error));
    if let Error::NotWelcome(farewell) | Error::Disconnected { farewell, .. } = &error {
        let _ = write!(line, " reason={}", farewell.reason);
    }
    if let Some(unknown) = error.unknown_fate() {
        let _ = write!(line, " unknown={}", unknown.end.saturating_sub(unknown.start));
    }
    format!("{line} : {error}")
}

const fn kind(error: &Error) -> &'static str {
    match error {
        Error::Connect { .. } => "cannot_connect",
        Error::NoDaemon { .. } => "no_daemon",
        Error::NotWelcome(_) => "not_welcome",
        Error::WouldBlock { .. } => "would_block",
        Error::TimedOut { .. } => "timed_out",
        Error::TooLarge { .. } => "too_large",
        Error::Targets { .. } => "targets",
        Error::Unread { .. } => "unread",
        Error::NobodyReceives => "nobody_receives",
        Error::ConnectionLost { .. } => "connection_lost",
        Error::Disconnected { .. } => "disconnected",
        Error::Unreachable { .. } => "unreachable",
        Error::TakenOver => "taken_over",
        Error::NotOpened(_) => "not_opened",
        _ => "other",
    }
}

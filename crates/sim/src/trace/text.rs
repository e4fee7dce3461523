//! A trace as text.
use super::{
    DeliveryRecord, DeliverySender, Grouped, InstallRecord, LedRecord, LedStep, NumberedRecord, NumberedStep,
    Occurrence, OfferRecord, ReadingRecord, ReadingStep, RegisterCommand, RegisterDeed, ReplicaRecord, ReplicaStep,
    ResumedRecord, ResumedStep, SaidMessage, Submitted, Trace, TraceEvent,
};
use crate::message::{Mark, Process, ProcessIncarnation};
use consort_types::{Class, Incarnation, Instant, MemberId, MessageId, NodeId, OrderStream, Position, Service, ViewId};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A line that is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which line, from 1.
    pub line: usize,
    /// Which field is missing or wrong.
    pub field: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the trace: field `{}` is missing or wrong", self.line, self.field)
    }
}

impl std::error::Error for Unreadable {}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

impl FromStr for Trace {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let events =
            lines.map(|(line, number)| read(line).ok_or_else(|| Unreadable { line: number, field: wrong(line) }));
        Ok(Self { events: events.collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.at.0, self.process)?;
        match &self.what {
            Occurrence::Start { late } => write!(f, "start late={late}"),
            Occurrence::View(view) => write_view(f, "view", view),
            Occurrence::Network(view) => write_view(f, "network", view),
            Occurrence::Primary(id) => write!(f, "primary id={id}"),
            Occurrence::Group(group) => write_group(f, group),
            Occurrence::Signal(group) => write!(f, "signal of={group}"),
            Occurrence::Spoke(said) => write_said(f, "spoke", said),
            Occurrence::Side(said) => write_said(f, "side", said),
            Occurrence::Reading(ReadingRecord { step, at, to, sum, oldest, retained }) => {
                let step = step.name();
                write!(f, "reading step={step} place={at} to={to} sum={sum} oldest={oldest} retained={retained}")
            }
            Occurrence::Numbered(step) => write!(f, "numbered {step}"),
            Occurrence::Resumed(step) => write!(f, "resumed {step}"),
            Occurrence::Led(step) => write!(f, "led {step}"),
            Occurrence::Replica(step) => write!(f, "replica {step}"),
            Occurrence::Gone => f.write_str("gone"),
            Occurrence::Submit(submitted) => write_submit(f, submitted),
            Occurrence::Wait => f.write_str("wait"),
            Occurrence::Spins => f.write_str("spins"),
            Occurrence::Room => f.write_str("room"),
            Occurrence::Refused(why) => write!(f, "refused why={}", why.replace(char::is_whitespace, "_")),
            Occurrence::Deliver(delivered) => write_deliver(f, delivered),
            Occurrence::Offer(OfferRecord { offer, sum, strict }) => {
                write!(f, "offer offer={offer} sum={sum} strict={strict}")
            }
            Occurrence::Revoke(offer) => write!(f, "revoke offer={offer}"),
            Occurrence::Confirm { offer, sum } => write!(f, "confirm offer={offer} sum={sum}"),
            Occurrence::Ordered(count) => write!(f, "ordered count={count}"),
            Occurrence::Stable { stream, up_to, missing } => {
                write!(f, "stable stream={} up_to={up_to} missing={}", stream.0, list(missing))
            }
            Occurrence::Gauge { name, value } => write!(f, "gauge name={name} value={value}"),
            Occurrence::Leave => f.write_str("leave"),
            Occurrence::Left => f.write_str("left"),
            Occurrence::Crash => f.write_str("crash"),
            Occurrence::Calm => f.write_str("calm"),
            Occurrence::Quiet => f.write_str("quiet"),
        }
    }
}

fn write_view(f: &mut fmt::Formatter<'_>, what: &str, view: &InstallRecord) -> fmt::Result {
    let InstallRecord { id, transitional, members, together, pending } = view;
    write!(f, "{what} id={id} transitional={transitional} members={}", list(members))?;
    write!(f, " together={} pending={pending}", list(together))
}

fn write_group(f: &mut fmt::Formatter<'_>, group: &Grouped) -> fmt::Result {
    let Grouped { group, id, change, network, again, closed, primary, members, together } = group;
    write!(f, "group of={group} id={id} change={change} network={network} again={again} closed={closed}")?;
    write!(f, " primary={primary} members={} together={}", list(members), list(together))
}

fn write_said(f: &mut fmt::Formatter<'_>, what: &str, said: &SaidMessage) -> fmt::Result {
    let SaidMessage { from, count, groups } = said;
    write!(f, "{what} from={from} count={count} groups={}", list(groups))
}

fn write_submit(f: &mut fmt::Formatter<'_>, submitted: &Submitted) -> fmt::Result {
    let Submitted { count, id, class, service, len } = submitted;
    write!(f, "submit count={count} service={service} len={len} class={}", class_name(*class))?;
    write!(f, " id={}", option(id.map(|id| id.0)))
}

fn write_deliver(f: &mut fmt::Formatter<'_>, d: &DeliveryRecord) -> fmt::Result {
    write!(f, "deliver mark={} nameless={} intact={}", option(d.mark), d.nameless, d.intact)?;
    write!(
        f,
        " sender={} incarnation={}",
        option(d.sender.map(|sender| sender.node)),
        option(d.sender.and_then(|s| s.incarnation))
    )?;
    write!(f, " client={}", option(d.sender.and_then(|sender| sender.client)))?;
    write!(f, " stream={} position={}", d.stream.0, option(d.position))?;
    write!(f, " class={} service={} len={}", class_name(d.class), d.service, d.len)?;
    write!(f, " own={} missing={}", option(d.own.map(|id| id.0)), list(&d.missing))
}

const fn class_name(class: Option<Class>) -> &'static str {
    match class {
        Some(Class::Control) => "control",
        Some(Class::Client) => "client",
        None => "-",
    }
}

fn option<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<_> = items.iter().map(T::to_string).collect();
    if items.is_empty() { "-".into() } else { items.join(",") }
}

fn read(line: &str) -> Option<TraceEvent> {
    let mut words = line.split_whitespace();
    let at = Instant(words.next()?.parse().ok()?);
    let process = process(words.next()?)?;
    let word = words.next()?;
    Some(TraceEvent { at, process, what: read_what(word, Fields(line))? })
}

fn read_what(word: &str, fields: Fields<'_>) -> Option<Occurrence> {
    Some(match word {
        "start" => Occurrence::Start { late: fields.number("late")? },
        "primary" => Occurrence::Primary(view_id(fields.text("id")?)?),
        "leave" => Occurrence::Leave,
        "left" => Occurrence::Left,
        "crash" => Occurrence::Crash,
        "wait" => Occurrence::Wait,
        "spins" => Occurrence::Spins,
        "room" => Occurrence::Room,
        "calm" => Occurrence::Calm,
        "quiet" => Occurrence::Quiet,
        "refused" => Occurrence::Refused(Cow::Owned(fields.text("why")?.to_owned())),
        "gauge" => {
            Occurrence::Gauge { name: Cow::Owned(fields.text("name")?.to_owned()), value: fields.number("value")? }
        }
        "view" => Occurrence::View(Box::new(read_view(fields)?)),
        "network" => Occurrence::Network(Box::new(read_view(fields)?)),
        "group" => Occurrence::Group(Box::new(Grouped {
            group: fields.text("of")?.into(),
            id: view_id(fields.text("id")?)?,
            change: fields.number("change")?,
            network: fields.number("network")?,
            again: fields.number("again")?,
            closed: fields.number("closed")?,
            primary: fields.number("primary")?,
            members: fields.list("members", process)?,
            together: fields.list("together", process)?,
        })),
        "signal" => Occurrence::Signal(fields.text("of")?.into()),
        "spoke" => Occurrence::Spoke(Box::new(read_said(fields)?)),
        "side" => Occurrence::Side(Box::new(read_said(fields)?)),
        "reading" => Occurrence::Reading(ReadingRecord {
            step: ReadingStep::named(fields.text("step")?)?,
            at: fields.number("place")?,
            to: fields.number("to")?,
            sum: fields.number("sum")?,
            oldest: fields.number("oldest")?,
            retained: fields.number("retained")?,
        }),
        "numbered" => Occurrence::Numbered(NumberedRecord {
            step: NumberedStep::named(fields.text("step")?)?,
            producer: fields.number("producer")?,
            send: fields.number("send")?,
            attempt: fields.number("attempt")?,
            number: fields.number("number")?,
            flag: fields.number("flag")?,
            view: fields.number("view")?,
            at: fields.number("at")?,
            sum: fields.number("sum")?,
        }),
        "resumed" => Occurrence::Resumed(Box::new(ResumedRecord {
            step: ResumedStep::named(fields.text("step")?)?,
            reader: fields.number("reader")?,
            groups: fields.number("groups")?,
            view: view_id(fields.text("view")?)?,
            at: fields.number("place")?,
            to_view: view_id(fields.text("to_view")?)?,
            to: fields.number("to")?,
            sum: fields.number("sum")?,
            len: fields.number("len")?,
            flag: fields.number("flag")?,
        })),
        "led" => Occurrence::Led(Box::new(LedRecord {
            step: LedStep::named(fields.text("step")?)?,
            candidate: fields.number("candidate")?,
            serial: fields.number("serial")?,
            fence: fields.number("fence")?,
            until: Instant(fields.number("until")?),
            lease: fields.number("lease")?,
        })),
        "replica" => Occurrence::Replica(Box::new(read_replica(fields)?)),
        "gone" => Occurrence::Gone,
        "offer" => Occurrence::Offer(OfferRecord {
            offer: fields.number("offer")?,
            sum: fields.number("sum")?,
            strict: fields.number("strict")?,
        }),
        "revoke" => Occurrence::Revoke(fields.number("offer")?),
        "confirm" => Occurrence::Confirm { offer: fields.number("offer")?, sum: fields.number("sum")? },
        "submit" => Occurrence::Submit(Submitted {
            count: fields.number("count")?,
            id: fields.option("id", |text| text.parse().ok().map(MessageId))?,
            class: fields.option("class", class)?,
            service: fields.number("service")?,
            len: fields.number("len")?,
        }),
        "deliver" => Occurrence::Deliver(read_deliver(fields)?),
        "ordered" => Occurrence::Ordered(fields.number("count")?),
        "stable" => Occurrence::Stable {
            stream: OrderStream(fields.number("stream")?),
            up_to: Position(fields.number("up_to")?),
            missing: fields.list("missing", node)?,
        },
        _ => return None,
    })
}

fn read_replica(fields: Fields<'_>) -> Option<ReplicaRecord> {
    let deed: usize = fields.number("deed")?;
    Some(ReplicaRecord {
        step: ReplicaStep::named(fields.text("step")?)?,
        server: fields.number("server")?,
        call: fields.number("call")?,
        at: fields.number("at")?,
        sum: fields.number("sum")?,
        command: RegisterCommand {
            deed: *RegisterDeed::ALL.get(deed)?,
            key: fields.number("key")?,
            value: fields.number("value")?,
            expected: fields.number("expected")?,
        },
    })
}

fn read_said(fields: Fields<'_>) -> Option<SaidMessage> {
    Some(SaidMessage {
        from: process(fields.text("from")?)?,
        count: fields.number("count")?,
        groups: fields.list("groups", |text| Some(text.into()))?,
    })
}

fn read_deliver(fields: Fields<'_>) -> Option<DeliveryRecord> {
    let (incarnation, client) = (fields.option("incarnation", number)?, fields.option("client", number)?);
    let sender = fields.option("sender", node)?.map(|node| DeliverySender { node, incarnation, client });
    Some(DeliveryRecord {
        mark: fields.option("mark", mark)?,
        nameless: fields.number("nameless")?,
        intact: fields.number("intact")?,
        sender,
        stream: OrderStream(fields.number("stream")?),
        position: fields.option("position", |text| text.parse().ok().map(Position))?,
        class: fields.option("class", class)?,
        service: fields.number::<Service>("service")?,
        own: fields.option("own", |text| text.parse().ok().map(MessageId))?,
        len: fields.number("len")?,
        missing: fields.list("missing", node)?,
    })
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok()
}

fn read_view(fields: Fields<'_>) -> Option<InstallRecord> {
    Some(InstallRecord {
        id: view_id(fields.text("id")?)?,
        transitional: fields.number("transitional")?,
        members: fields.list("members", incarnation)?,
        together: fields.list("together", incarnation)?,
        pending: fields.number("pending")?,
    })
}

/// Which field stops a line from being read.
fn wrong(line: &str) -> &'static str {
    let mut words = line.split_whitespace();
    if words.next().and_then(|at| at.parse::<u64>().ok()).is_none() {
        return "time";
    }
    if words.next().and_then(process).is_none() {
        return "process";
    }
    match words.next() {
        Some("start") => "late",
        Some("view" | "network") => "id, transitional, members, together or pending",
        Some("primary") => "id",
        Some("group") => "of, id, change, network, closed, members or together",
        Some("signal") => "of",
        Some("spoke" | "side") => "from, count or groups",
        Some("reading") => "step, place, to, sum, oldest or retained",
        Some("numbered") => "step, producer, send, attempt, number, flag, view, at or sum",
        Some("submit") => "count, service, len, class or id",
        Some("deliver") => {
            "mark, nameless, intact, sender, incarnation, client, stream, position, class, service, len, own or missing"
        }
        Some("ordered") => "count",
        Some("offer") => "offer, sum or strict",
        Some("revoke") => "offer",
        Some("confirm") => "offer or sum",
        Some("stable") => "stream, up_to or missing",
        Some("gauge") => "name or value",
        Some("refused") => "why",
        _ => "what",
    }
}

/// The `name=value` words of a line.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn text(self, name: &str) -> Option<&'a str> {
        self.0.split_whitespace().skip(3).find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number<T: FromStr>(self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    fn option<T>(self, name: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
        match self.text(name)? {
            "-" => Some(None),
            text => read(text).map(Some),
        }
    }

    fn list<T>(self, name: &str, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        match self.text(name)? {
            "-" => Some(Vec::new()),
            text => text.split(',').map(read).collect(),
        }
    }
}

fn node(text: &str) -> Option<NodeId> {
    text.strip_prefix('n')?.parse().ok().map(NodeId)
}

fn incarnation(text: &str) -> Option<ProcessIncarnation> {
    let (of, count) = match text.split_once('.') {
        Some((of, count)) => (of, count.parse::<u16>().ok()?.checked_sub(1)?),
        None => (text, 0),
    };
    Some(ProcessIncarnation { node: node(of)?, count })
}

fn process(text: &str) -> Option<Process> {
    if text == "world" {
        return Some(Process::WORLD);
    }
    let (of, client) = text.split_once('c')?;
    Some(Process::of(incarnation(of)?, client.parse().ok()?))
}

fn mark(text: &str) -> Option<Mark> {
    let (origin, count) = text.split_once('#')?;
    Some(Mark { origin: process(origin)?, count: count.parse().ok()? })
}

fn member(text: &str) -> Option<MemberId> {
    let (of, incarnation) = text.split_once('.')?;
    Some(MemberId { node: node(of)?, incarnation: Incarnation(incarnation.parse().ok()?) })
}

fn view_id(text: &str) -> Option<ViewId> {
    let (number, representative) = text.split_once('@')?;
    Some(ViewId { number: number.parse().ok()?, representative: member(representative)? })
}

fn class(text: &str) -> Option<Class> {
    match text {
        "control" => Some(Class::Control),
        "client" => Some(Class::Client),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_session::Place;

    fn events() -> Trace {
        let process = Process { node: NodeId(2), incarnation: 3, client: 1 };
        let id = ViewId { number: 4, representative: MemberId::new(0, 7) };
        let view = InstallRecord {
            id,
            transitional: true,
            members: vec![ProcessIncarnation { node: NodeId(0), count: 0 }, process.incarnation()],
            together: vec![process.incarnation()],
            pending: true,
        };
        let group = Grouped {
            group: "few1".into(),
            id,
            change: 3,
            network: true,
            again: true,
            closed: true,
            primary: true,
            members: vec![Process::new(NodeId(0), 0), process],
            together: vec![process],
        };
        let said = SaidMessage { from: process, count: 4, groups: vec!["a".into(), "#c1#n2".into()] };
        let delivered = DeliveryRecord {
            mark: Some(Mark { origin: process, count: 9 }),
            intact: true,
            sender: Some(DeliverySender { node: NodeId(2), incarnation: Some(3), client: None }),
            position: Some(Position(12)),
            class: Some(Class::Control),
            service: Service::Safe,
            own: Some(MessageId(4)),
            len: 33,
            missing: vec![NodeId(1), NodeId(3)],
            ..DeliveryRecord::default()
        };
        let submitted = Submitted { count: 9, class: Some(Class::Client), len: 33, ..Submitted::default() };
        let whats = [
            Occurrence::Start { late: true },
            Occurrence::View(Box::new(view.clone())),
            Occurrence::Network(Box::new(view)),
            Occurrence::Primary(id),
            Occurrence::Group(Box::new(group)),
            Occurrence::Signal("few1".into()),
            Occurrence::Spoke(Box::new(said.clone())),
            Occurrence::Side(Box::new(said)),
            Occurrence::Reading(ReadingRecord {
                step: ReadingStep::CaughtUp,
                at: Place { position: 7, index: 2 },
                to: 9,
                sum: 3,
                oldest: 4,
                retained: 5,
            }),
            Occurrence::Numbered(NumberedRecord {
                producer: 1,
                send: 2,
                attempt: 3,
                number: 4,
                flag: true,
                view: 5,
                at: 6,
                sum: 7,
                ..NumberedRecord::of(NumberedStep::Refused)
            }),
            Occurrence::Resumed(Box::new(ResumedRecord {
                reader: 1,
                groups: 3,
                view: id,
                at: Place { position: 7, index: 2 },
                to_view: id,
                to: Place::at(9),
                sum: 3,
                len: 4,
                flag: true,
                ..ResumedRecord::of(ResumedStep::Gap)
            })),
            Occurrence::Led(Box::new(LedRecord {
                candidate: 1,
                serial: 2,
                fence: 1 << 100,
                until: Instant(3),
                lease: 4,
                ..LedRecord::of(LedStep::Leads)
            })),
            Occurrence::Replica(Box::new(ReplicaRecord {
                call: 2,
                at: 3,
                sum: 4,
                command: RegisterCommand { deed: RegisterDeed::Swap, key: 1, value: 5, expected: 6 },
                ..ReplicaRecord::of(ReplicaStep::Called, 7)
            })),
            Occurrence::Gone,
            Occurrence::Submit(submitted),
            Occurrence::Wait,
            Occurrence::Spins,
            Occurrence::Room,
            Occurrence::Refused("too_large".into()),
            Occurrence::Deliver(delivered),
            Occurrence::Deliver(DeliveryRecord::default()),
            Occurrence::Offer(OfferRecord { offer: 3, sum: 9, strict: true }),
            Occurrence::Revoke(3),
            Occurrence::Confirm { offer: 4, sum: 8 },
            Occurrence::Ordered(5),
            Occurrence::Stable { stream: OrderStream(1), up_to: Position(8), missing: vec![] },
            Occurrence::Gauge { name: "store_bytes".into(), value: 17 },
            Occurrence::Leave,
            Occurrence::Left,
            Occurrence::Crash,
            Occurrence::Calm,
            Occurrence::Quiet,
        ];
        let event = |(what, at)| match what {
            Occurrence::Calm | Occurrence::Quiet => TraceEvent { at: Instant(at), process: Process::WORLD, what },
            what => TraceEvent { at: Instant(at), process, what },
        };
        Trace { events: whats.into_iter().zip(1_000..).map(event).collect() }
    }

    #[test]
    fn what_is_written_is_read() {
        let trace = events();
        assert_eq!(trace.to_string().parse(), Ok(trace));
    }

    #[test]
    fn a_bad_line_is_named_with_its_field() {
        let wrong = |text: &str| text.parse::<Trace>().unwrap_err().to_string();
        assert!(wrong("1 n0c0 start late=true\n\nx n0c0 start late=true").contains("line 3"));
        assert!(wrong("1 n0c0 start late=true\n\nx n0c0 start late=true").contains("time"));
        assert!(wrong("1 0c0 crash").contains("process"));
        assert!(wrong("1 n0c0 dance").contains("what"));
        assert!(wrong("1 n0c0 gauge name=x value=-1").contains("name or value"));
        assert!(wrong("1 n0c0 deliver mark=n0c0").contains("mark"));
    }

    #[test]
    fn no_mutation_panics() {
        consort_wire::mutate::each(events().to_string().as_bytes(), 5_000, |bytes| {
            let _ = String::from_utf8_lossy(bytes).parse::<Trace>();
        });
    }
}

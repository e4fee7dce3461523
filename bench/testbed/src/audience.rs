//! The clients at all daemons that run, and the view that each was told last.
use super::Testbed;
use super::observer::{Heard, Observer, Task, Told, Visitor};
use consort::{Event, NetworkView, ViewKind};
use consort_daemon::clock;
use consort_daemon::failure::{Code, Failure, Outcome};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// By then a change must have come, in nanoseconds.
const PATIENCE: u64 = 15_000_000_000;
/// How often is looked whether all daemons still run.
const LOOK: u64 = 50_000_000;

/// One client at each daemon that runs.
pub struct Audience {
    seats: BTreeMap<u16, Seat>,
    /// Those whose daemons were taken away, until they have noticed.
    retired: Vec<Observer>,
    tell: Sender<Told>,
    told: Receiver<Told>,
    /// How many were started so far; each is known by its number.
    started: u64,
}

struct Seat {
    observer: Observer,
    /// The last regular view that it was told, with the time.
    last: Option<(u64, NetworkView)>,
}

/// When the last of all was told a view, at which node, and which.
#[derive(Clone, Debug)]
pub struct Together {
    pub at: u64,
    pub node: u16,
    pub view: NetworkView,
}

/// Nobody yet.
impl Default for Audience {
    fn default() -> Self {
        let (tell, told) = channel();
        Self { seats: BTreeMap::new(), retired: Vec::new(), tell, told, started: 0 }
    }
}

impl Audience {
    /// The number of the next observer.
    pub const fn next_number(&self) -> u64 {
        self.started
    }

    /// Lets a visitor observe at its node.
    pub fn seat(&mut self, node: u16, visitor: Visitor, task: Task) {
        let observer = visitor.observe(self.started, task, self.tell.clone());
        self.started += 1;
        self.seats.insert(node, Seat { observer, last: None });
    }

    /// The node's daemon is about to be taken away: that the client's session ends is no wonder.
    pub fn retire(&mut self, node: u16) {
        self.retired.extend(self.seats.remove(&node).map(|seat| seat.observer));
    }

    /// Asks all to send no more; each says so once.
    pub fn hush(&self) {
        self.seats.values().for_each(|seat| seat.observer.hush());
    }

    /// The numbers of those that are seated.
    pub fn numbers(&self) -> Vec<u64> {
        self.seats.values().map(|seat| seat.observer.number).collect()
    }

    /// The number of the one that is seated at a node.
    pub fn number_at(&self, node: u16) -> Option<u64> {
        self.seats.get(&node).map(|seat| seat.observer.number)
    }

    /// What is told next by anybody, retired ones too; `None` if nothing is before `until`.
    pub fn listen(&mut self, testbed: &mut Testbed, until: u64) -> Outcome<Option<Told>> {
        loop {
            testbed.check()?;
            let left = until.saturating_sub(clock::now_ns());
            if left == 0 {
                return Ok(None);
            }
            match self.told.recv_timeout(Duration::from_nanos(left.min(LOOK))) {
                Ok(told) => return self.note(told).map(Some),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Hands everything that is told before `until` to `sink`.
    pub fn listen_until(&mut self, testbed: &mut Testbed, until: u64, sink: &mut dyn FnMut(Told)) -> Outcome {
        while let Some(told) = self.listen(testbed, until)? {
            sink(told);
        }
        Ok(())
    }

    /// Waits until all that are seated are told one view of just their daemons. Whoever was told before now was told in
    /// time.
    pub fn await_view(&mut self, testbed: &mut Testbed, sink: &mut dyn FnMut(Told)) -> Outcome<Together> {
        let deadline = clock::now_ns() + PATIENCE;
        loop {
            if let Some(together) = self.together() {
                return Ok(together);
            }
            match self.listen(testbed, deadline)? {
                Some(told) => sink(told),
                None => return Err(Failure::new(self.scattered()).with(Code::Timeout)),
            }
        }
    }

    /// Whether all that are seated were told one view of just their daemons.
    fn together(&self) -> Option<Together> {
        let seen = self.seats.iter().map(|(node, seat)| seat.last.as_ref().map(|(at, view)| (*at, *node, view)));
        let seen: Vec<_> = seen.collect::<Option<_>>()?;
        let (at, node, view) = seen.iter().max_by_key(|(at, ..)| *at)?;
        let same = seen.iter().all(|(_, _, other)| other.id == view.id);
        let just_them = view.members.iter().map(|member| member.node.0).eq(self.seats.keys().copied());
        (same && just_them).then(|| Together { at: *at, node: *node, view: (*view).clone() })
    }

    fn scattered(&self) -> String {
        let seen = self.seats.iter().map(|(node, seat)| match &seat.last {
            None => format!("the client at node {node} was told no view"),
            Some((_, view)) => {
                let members: Vec<String> = view.members.iter().map(ToString::to_string).collect();
                format!("the client at node {node} was told view {} of {} ({})", view.id, members.join(" "), view.cause)
            }
        });
        format!("waited too long for one view of all that run; last:\n  {}", seen.collect::<Vec<_>>().join("\n  "))
    }

    fn note(&mut self, told: Told) -> Outcome<Told> {
        let seated = self.seats.iter_mut().find(|(_, seat)| seat.observer.number == told.by);
        match (seated, &told.heard) {
            // Told once more it has become primary: that is no news here.
            (Some((_, seat)), Heard::Event(Event::View(view)))
                if view.kind == ViewKind::Regular && seat.last.as_ref().is_none_or(|(_, last)| last.id != view.id) =>
            {
                seat.last = Some((told.at, view.clone()));
            }
            (Some((node, _)), Heard::Ended(why)) => {
                return Err(Failure::new(format!("the client at node {node} lost its session: {why}")));
            }
            (None, Heard::Ended(_)) => self.retired.retain(|observer| observer.number != told.by),
            _ => {}
        }
        Ok(told)
    }
}

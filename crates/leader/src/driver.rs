//! The thread of a candidate: between its session and its election.
use crate::fence::place;
use crate::shared::Shared;
use crate::{Act, Command, Effect, Election, Error, Fence, LeadershipEvent, clock};
use consort::{Address, Event, Fate, GroupName, Message, Service, Session, SessionEvent, SessionOptions, ViewKind};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError};
use std::time::Duration;

/// How long an order of the program waits at most.
const TICK: Duration = Duration::from_millis(10);
/// How long the end waits for what was said before it to be ordered.
const FAREWELL: Duration = Duration::from_millis(500);

/// What a program wants of the thread.
#[derive(Debug)]
pub(crate) enum Order {
    Stand,
    Resign,
    Say(Act),
    End,
}

/// A session, and the election that it serves.
#[derive(Debug)]
pub(crate) struct Driver {
    session: Session,
    group: GroupName,
    election: Election,
    /// Which message of the election each send is.
    sends: BTreeMap<u64, u64>,
    view: u64,
    notices: Vec<LeadershipEvent>,
}

impl Driver {
    pub fn connect(
        addresses: &[Address],
        group: &GroupName,
        mut options: SessionOptions,
        election: Election,
    ) -> Result<Self, Error> {
        let connect = &mut options.connect;
        (connect.wants_views, connect.wants_positions, connect.optimistic) = (true, true, None);
        let mut session = Session::connect(addresses, options)?;
        session.join(group)?;
        let (sends, notices) = (BTreeMap::new(), Vec::new());
        Ok(Self { session, group: group.clone(), election, sends, view: 0, notices })
    }

    /// Goes on until the daemons have taken its first message, or said what for it waits.
    pub fn begin(&mut self) -> Result<(), Error> {
        loop {
            let event = self.session.receive(self.patience())?;
            let begun = matches!(event, Some(SessionEvent::Sent { .. } | SessionEvent::Waits(_)));
            self.take(event)?;
            self.pass_effects()?;
            if begun {
                return Ok(());
            }
        }
    }

    /// Goes on until the program ends it, or the session ends.
    pub fn run(mut self, orders: &Receiver<Order>, tell: &SyncSender<LeadershipEvent>, shared: &Shared) {
        let ended = loop {
            let published = self.publish(tell, shared);
            match published.and_then(|()| self.turn(orders, shared)) {
                Ok(true) => {}
                Ok(false) => return self.end(),
                Err(error) => break error,
            }
        };
        shared.seen().lease = None;
        // Where there is no room for it the program finds that nothing follows.
        let _ = tell.try_send(LeadershipEvent::Ended(ended));
    }

    fn turn(&mut self, orders: &Receiver<Order>, shared: &Shared) -> Result<bool, Error> {
        loop {
            match orders.try_recv() {
                Ok(Order::End) | Err(TryRecvError::Disconnected) => return Ok(false),
                Ok(order) => self.follow(order, shared)?,
                Err(TryRecvError::Empty) => break,
            }
        }
        let event = self.session.receive(self.patience().min(TICK))?;
        self.take(event)?;
        self.pass_effects()?;
        Ok(true)
    }

    fn follow(&mut self, order: Order, shared: &Shared) -> Result<(), Error> {
        let now = clock::now();
        match order {
            Order::Stand => self.election.stand(now),
            Order::Resign => {
                self.election.resign(now);
                shared.seen().resigns = false;
            }
            Order::Say(act) => {
                let command = self.election.command(act);
                self.send(&command)?;
            }
            Order::End => {}
        }
        self.pass_effects()
    }

    /// Nobody need wait for its lease to end.
    fn end(mut self) {
        self.election.resign(clock::now());
        let _ = self.pass_effects();
        let _ = self.session.finish(FAREWELL);
    }

    fn patience(&self) -> Duration {
        let now = clock::now();
        self.election.poll_timeout().map_or(TICK, |next| next.since(now).min(Duration::from_millis(100)))
    }

    /// The time is read after an event was received: a successor thus waits longer, never less.
    fn take(&mut self, event: Option<SessionEvent>) -> Result<(), Error> {
        let now = clock::now();
        match event {
            None => self.election.handle_timeout(now),
            Some(SessionEvent::Event(Event::View(view))) => {
                self.view = view.id.number;
                match view.kind {
                    ViewKind::Regular => self.election.handle_view(now, view.id.number),
                    ViewKind::Transitional => self.election.handle_closing(now),
                }
            }
            Some(SessionEvent::Event(Event::Message(message))) => self.take_message(&message),
            Some(SessionEvent::Event(Event::GroupView(view))) if view.group == self.group => {
                self.notices.push(LeadershipEvent::Members(view.members));
            }
            Some(SessionEvent::Sent { send, fate }) => {
                if let Some(serial) = self.sends.remove(&send) {
                    self.election.handle_settled(now, serial, matches!(fate, Fate::Ordered { .. }));
                }
            }
            Some(SessionEvent::JoinRefused { group, refusal }) => return Err(Error::JoinRefused { group, refusal }),
            Some(SessionEvent::Lost { why }) => {
                self.election.handle_hole(now);
                self.notices.push(LeadershipEvent::Disconnected { why });
            }
            Some(SessionEvent::Waits(wait)) => self.notices.push(LeadershipEvent::Waits(wait)),
            Some(_) => {}
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Message) {
        //= L12
        // Only what all members hold counts.
        let counts = message.service() == Service::Safe && message.groups().any(|group| group == self.group.as_str());
        let command = Command::read(message.payload()).filter(|_| counts);
        let (Some(command), Some(placement)) = (command, message.placement()) else { return };
        let position = place(placement.place.position, placement.place.index);
        self.election.handle_command(clock::now(), position, &command);
        let (fence, payload) = match command.act {
            Act::Say(payload) => (None, payload),
            Act::Decide(fence, payload) if self.election.is_current(fence) => (Some(fence), payload),
            _ => return,
        };
        let (candidate, sender, place) = (command.candidate, message.sender(), Fence::new(self.view, position));
        self.notices.push(LeadershipEvent::Said { candidate, sender, fence, place, payload });
    }

    fn pass_effects(&mut self) -> Result<(), Error> {
        while let Some(effect) = self.election.poll_effect() {
            match effect {
                Effect::Send(command) => self.send(&command)?,
                Effect::Tell(notice) => self.notices.push(notice.into()),
            }
        }
        Ok(())
    }

    fn send(&mut self, command: &Command) -> Result<(), Error> {
        let group = std::slice::from_ref(&self.group);
        let send = self.session.send(Service::Safe, group, &command.to_bytes())?;
        self.sends.insert(send, command.serial);
        Ok(())
    }

    fn publish(&mut self, tell: &SyncSender<LeadershipEvent>, shared: &Shared) -> Result<(), Error> {
        let mut seen = shared.seen();
        if !seen.resigns {
            seen.lease = self.election.lease();
        }
        seen.leader = self.election.leader();
        drop(seen);
        for notice in self.notices.drain(..) {
            if let Err(TrySendError::Full(_)) = tell.try_send(notice) {
                return Err(Error::Unread);
            }
        }
        Ok(())
    }
}

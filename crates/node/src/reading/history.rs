//! Reading by position where positions belong to views: what this node has kept, then what comes.
use super::readers::{ReaderWait, ReadingStage};
use super::retention::{KeptMessage, LocalPlace};
use super::{FoundMessage, LOOK};
use crate::Node;
use crate::mutant::mutated;
use consort_group::{Resumption, Targets, ViewPlace, batch, ordered};
use consort_order::{Engine, Refused};
use consort_session::{Place, ReadRequest, ReadingEndCause, ReadingStatus};
use consort_types::{Class, ClientId, GroupName, Position, Service, ViewKind};

/// What a reader is told next.
enum Told {
    /// It is in this view now, or that is being closed.
    View(u64),
    /// It is in a view now, and something is missing before that.
    Gap {
        from: LocalPlace,
        to: LocalPlace,
    },
    Message(FoundMessage),
}

impl<E: Engine> Node<E> {
    /// Tells a reader what is kept for it, as far as there is room.
    pub(super) fn serve_kept(&mut self, client: ClientId, room: usize) -> ReaderWait {
        let Some(reader) = self.readers.get_mut(client) else { return ReaderWait::Order };
        if matches!(reader.stage, ReadingStage::Asked { .. }) {
            return self.begin_kept(client);
        }
        self.read_kept(client, room)
    }

    fn begin_kept(&mut self, client: ClientId) -> ReaderWait {
        let is_settled = self.place_in_order().1;
        let Some(reader) = self.readers.get_mut(client) else { return ReaderWait::Order };
        if !is_settled {
            return ReaderWait::Order;
        }
        //= E27
        match self.retention.is_read(&reader.groups, self.now) {
            Ok(true) => {}
            Ok(false) => return ReaderWait::Order,
            Err(most) => {
                let text = format!("{most} groups are read, which is all there may be; try again later");
                self.end_reading(client, ReadingEndCause::Unsupported, text);
                return ReaderWait::Turn;
            }
        }
        let (next, order, retention) = (reader.next, reader.order, &self.retention);
        let (Some(oldest), Some(end)) = (retention.kept_from(&reader.groups), retention.end()) else {
            return ReaderWait::Order;
        };
        let answer = match &reader.trail {
            Some(trail) => retention.histories.resume(trail, Position(next.position), next.index),
            None if (order, next.position) == (0, 0) => {
                let first = retention.histories.settled_from(oldest.view);
                let start = LocalPlace { view: first, at: 0, index: 0 };
                return self.start_kept(client, oldest.max(start));
            }
            None if (order, next.position) == (0, ReadRequest::NEW) => return self.start_kept(client, end),
            None => {
                let position = next.position;
                let text = format!(
                    "position {position} means nothing without its view: go on with a bookmark, or from the start"
                );
                self.end_reading(client, ReadingEndCause::OtherOrder, text);
                return ReaderWait::Turn;
            }
        };
        match answer {
            Resumption::Goes(view) => {
                self.start_kept(client, LocalPlace { view, at: next.position, index: next.index })
            }
            Resumption::Waits => {
                self.retention.wait_for(next.position);
                ReaderWait::Order
            }
            Resumption::Parted(_) if mutated!(self, PartedGoesOn) => {
                let view = end.view;
                self.start_kept(client, LocalPlace { view, at: next.position, index: next.index })
            }
            Resumption::MayCome(_) if self.readers.is_patient(client, self.now) => ReaderWait::Order,
            Resumption::MayCome(common) | Resumption::Parted(common) => {
                self.part_reader(client, common);
                ReaderWait::Turn
            }
        }
    }

    pub(super) fn start_kept(&mut self, client: ClientId, at: LocalPlace) -> ReaderWait {
        let newest = self.retention.histories.end().0 - 1;
        let Some(reader) = self.readers.get_mut(client) else { return ReaderWait::Order };
        let oldest = self.retention.kept_from(&reader.groups).unwrap_or_default().at;
        (reader.stage, reader.at) = (ReadingStage::Begun, at);
        reader.told_view = at.view;
        let from = Place { position: at.at, index: at.index };
        self.say(client, &ReadingStatus::Began { order: 0, from, oldest, newest });
        self.say_view(client, at.view);
        ReaderWait::Turn
    }

    fn part_reader(&mut self, client: ClientId, common: Option<ViewPlace>) {
        //= E23
        let text = match common {
            Some(place) => format!(
                "this daemon's history is another than the one that was read: both are the same up to {place}; restore \
                 what you know, and read on from there"
            ),
            None => "this daemon's history is another than the one that was read, and has no view in common with it: \
                     restore what you know, and read from the start"
                .to_owned(),
        };
        self.end_reading_at(client, ReadingEndCause::Parted, text, common);
    }

    /// Tells a reader which view follows, or how the one it is in is being closed.
    fn say_view(&mut self, client: ClientId, number: u64) {
        //= E24
        let histories = &self.retention.histories;
        let Some(view) = histories.view(number) else { return };
        let before = histories.settled_before(number).and_then(|before| histories.closing(before));
        let line = before.map_or(Position(0), |closing| closing.line);
        let closing = histories.closing(number);
        if let Some(reader) = self.readers.get_mut(client) {
            (reader.told_view, reader.told_closing) = (number, closing.is_some());
        }
        self.say(client, &ReadingStatus::InView { view, line, closing });
    }

    fn read_kept(&mut self, client: ClientId, room: usize) -> ReaderWait {
        let (Some(end), Some(reader)) = (self.retention.end(), self.readers.get_mut(client)) else {
            return ReaderWait::Order;
        };
        let Some(kept) = self.retention.kept_from(&reader.groups) else { return ReaderWait::Order };
        if reader.at < kept {
            let from = std::mem::replace(&mut reader.at, kept);
            if !mutated!(self, GapUntold) {
                self.tell_gap(client, from, kept);
            }
            return ReaderWait::Turn;
        }
        let most = room.min(self.readers.left()).max(1);
        let all = self.tell_kept(client, most);
        if !all {
            return ReaderWait::Turn;
        }
        if !self.retention.histories.is_settled(end.view) {
            // Whether something is missing before this view is not known yet.
            return ReaderWait::Order;
        }
        let Some(reader) = self.readers.get_mut(client) else { return ReaderWait::Order };
        reader.at = reader.at.max(end);
        if std::mem::replace(&mut reader.stage, ReadingStage::Live) != ReadingStage::Live {
            self.say(client, &ReadingStatus::CaughtUp { position: end.at - 1 });
        }
        ReaderWait::Order
    }

    fn tell_gap(&mut self, client: ClientId, from: LocalPlace, to: LocalPlace) {
        //= E26
        let closing = self.retention.histories.closing(to.view);
        if let Some(reader) = self.readers.get_mut(client) {
            (reader.told_view, reader.told_closing) = (to.view, closing.is_some());
        }
        let [from, to] = [from, to].map(|place| self.retention.place_of(place));
        self.say(client, &ReadingStatus::Gap { from, to, closing });
    }

    /// Tells a reader of messages and views from its place on, until so many bytes are told or looked at. Whether that was
    /// all.
    fn tell_kept(&mut self, client: ClientId, most: usize) -> bool {
        let (closing_untold, from_start) = (mutated!(self, ClosingUntold), mutated!(self, BatchFromStart));
        let Self { readers, retention, .. } = self;
        let last = retention.histories.last_settled();
        let Some(reader) = readers.get_mut(client) else { return true };
        let (mut told, mut spent, mut all, from) = (Vec::new(), 0, true, reader.at);
        let (mut view, mut closing) = (reader.told_view, reader.told_closing);
        let mut go_to = |to: u64, told: &mut Vec<Told>| {
            let closes = !closing && !closing_untold && retention.histories.closing(view).is_some();
            if closes && view == to {
                told.push(Told::View(view));
            }
            let entered = (view + 1..=to).filter(|next| *next == to || retention.histories.is_settled(*next));
            //= E29
            told.extend(entered.map(|next| match retention.histories.gap_before(next, view) {
                Some((view, Position(at))) => {
                    let to = LocalPlace { view: next, at: 0, index: 0 };
                    Told::Gap { from: LocalPlace { view, at, index: 0 }, to }
                }
                None => Told::View(next),
            }));
            (view, closing) = (to, retention.histories.closing(to).is_some());
        };
        for kept in retention.from(from) {
            if spent >= most {
                all = false;
                break;
            }
            spent += LOOK;
            let here = (kept.at.view, kept.at.at) == (from.view, from.at);
            let skipped = if here && !from_start { from.index } else { 0 };
            if let Some(message) = look(kept, skipped, &reader.groups) {
                spent += message.payload.len();
                go_to(kept.at.view, &mut told);
                told.push(Told::Message(message));
            }
            reader.at = LocalPlace { at: kept.at.at.saturating_add(1), ..kept.at };
        }
        if all && let Some(last) = last {
            go_to(last.max(reader.told_view), &mut told);
        }
        readers.spend(spent);
        for told in told {
            match told {
                Told::View(number) => self.say_view(client, number),
                Told::Gap { from, to } => self.tell_gap(client, from, to),
                Told::Message(message) => self.tell_read(client, &message),
            }
        }
        all
    }

    /// It stands in the order that groups are read.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_reads(&mut self, groups: Vec<GroupName>) {
        let closing = self.view.as_ref().is_some_and(|view| view.kind == ViewKind::Transitional);
        // Before all have settled into the view no client's message of it has its place.
        let settled = closing || self.groups.is_settled();
        self.retention.on_reads(groups, settled, self.now);
    }

    /// Has all know which groups are read; there is something to say. False if there is no room.
    #[cold]
    pub(crate) fn say_reads(&mut self) -> bool {
        if self.control_full || self.view.is_none() {
            return false;
        }
        let groups = self.retention.next_to_say();
        let payload = ordered::reads(groups.iter());
        self.retention.has_said(groups.clone());
        match self.hand_over(Class::Control, Service::Agreed, payload.into()) {
            Ok(()) => true,
            Err(Refused::Full { .. }) => {
                self.retention.has_not_said(groups);
                false
            }
            Err(_) => false,
        }
    }

    /// Says again which groups are read here, from time to time.
    pub(crate) fn sweep_retention(&mut self) {
        let Self { retention, readers, now, .. } = self;
        retention.sweep(readers.groups().cloned(), *now);
    }
}

/// What a reader of these groups is told of a message.
fn look(kept: &KeptMessage, skipped: u16, wanted: &[GroupName]) -> Option<FoundMessage> {
    let KeptMessage { at, sender, client, service, messages, payload, told, .. } = kept;
    let is_wanted = |name: &[u8]| wanted.binary_search_by(|group| group.as_bytes().cmp(name)).is_ok();
    Targets::of(payload, told.targets_at, |targets| targets.names().any(is_wanted)).ok().filter(|names| *names)?;
    let index = usize::from(skipped);
    let payload = match (index, told.batch) {
        (0, _) => payload.clone(),
        (_, false) => return None,
        (_, true) => batch::behind(payload, told.body_at(), index)?,
    };
    let (place, messages) = (Place { position: at.at, index: skipped }, messages - index.min(*messages));
    let (sender, client, service, told) = (*sender, *client, *service, *told);
    Some(FoundMessage { sender, client, service, messages, payload, told, place })
}

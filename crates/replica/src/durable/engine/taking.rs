//! The log of a term on its way to a copy that lacks a part of it.
use super::meeting::Force;
use super::parts::{Parts, Taking};
use super::{Effect, Engine, INDEX_MAX, RUNS_MAX, Then, broken};
use crate::durable::disk::Record;
use crate::durable::log::Item;
use crate::durable::said::{PART, PART_ITEM, Said};

/// A part has this number of bytes at most.
const PART_MAX: usize = if cfg!(test) { 128 } else { 256 << 10 };
/// What a frame of the group has in front of a part.
const FRAME: usize = 16;

impl Engine {
    /// Compares its log with that of the term, and asks for what it lacks.
    pub(super) fn begin_to_take(&mut self) {
        let (own, token) = (self.settings.copy, self.settings.token);
        let is_here =
            |meeting: &super::Meeting| meeting.hellos.iter().any(|hello| hello.copy == own && hello.token == token);
        if !self.meeting.as_ref().is_some_and(is_here) {
            return;
        }
        let extent = self.disk.log.extent(self.applied, RUNS_MAX);
        let (applied, base) = (self.applied, self.disk.log.base());
        let committed =
            self.meeting.as_ref().and_then(|meeting| meeting.hello_of(own)).map_or(0, |own| own.extent.committed);
        let Some(force) = self.force_mut() else { return };
        if committed > force.decision.line.end {
            let end = force.decision.line.end;
            return self.end(format!(
                "its state has {committed} entries, and the log that a majority of the copies agrees on ends at {end}: a \
                 majority of the directories is lost or was put back from a backup. Give those servers their newest \
                 directories back; or move this directory away to go on with less"
            ));
        }
        let line = &force.decision.line;
        let common = extent.common(line).max(applied);
        if common < line.base {
            let from = line.base + 1;
            force.taking = Taking::Lacks;
            return self.effects.push_back(Effect::Lacks { from });
        }
        force.taking = Taking::Parts(Parts::new(common));
        if applied < base {
            // Its own log is there, and others can take it; only its state is to come.
            self.effects.push_back(Effect::Lacks { from: base + 1 });
        }
        self.go_on_taking();
    }

    /// Takes the log if all of it is here; otherwise asks for the next part.
    pub(super) fn go_on_taking(&mut self) {
        let copy = self.settings.copy;
        let Some(Force { taking: Taking::Parts(parts), end, decision, .. }) = self.force_mut() else { return };
        parts.join();
        let next = parts.next();
        if next == *end + 1 {
            return self.take_log();
        }
        if next > *end {
            // The entries in between are yet to come here.
            return;
        }
        let said = Said::Ask { term: decision.term, copy, from: next };
        self.say(said);
    }

    /// The whole log, with its term, goes to the disk as one.
    fn take_log(&mut self) {
        //= RS23
        let (apart, keeps_tail) = (broken!(self, TermApart), broken!(self, TailKept));
        let Some(force) = self.force_mut() else { return };
        let Taking::Parts(Parts { common, items, .. }) = std::mem::replace(&mut force.taking, Taking::Whole) else {
            return;
        };
        let (term, history) = (force.decision.term, force.history());
        if keeps_tail && items.is_empty() && self.disk.log.end() > common {
            // As if what is beyond the log were of it.
            let end = self.disk.log.end();
            self.force_mut().into_iter().for_each(|force| force.end = end);
        } else {
            self.disk.cut_to(common);
        }
        if self.disk.log.end() < common {
            self.disk.release_to(common);
        }
        let known = &mut self.disk.known;
        (known.history, known.term, known.remembers, known.lost) = (history, term, true, false);
        known.promised = known.promised.max(term);
        let count = if apart { 0 } else { items.len() as u64 };
        let from = self.disk.log.end();
        let is_last =
            |index: u64| if index == from + items.len() as u64 { Then::Synced { term, index } } else { Then::Nothing };
        self.write(&Record::Line { history, term, from, count }, is_last(from));
        for (index, item) in (from + 1..).zip(items.iter().cloned()) {
            self.write(&Record::Entry { index, item: item.clone() }, is_last(index));
            self.disk.push(self.records, item);
        }
        self.deliver();
    }

    /// The copy that has the log sends a part of it.
    pub(super) fn on_ask(&mut self, term: u64, copy: u16, from: u64) {
        let is_donor = |force: &&Force| force.decision.term == term && force.decision.donor == self.settings.copy;
        let has_log = |force: &&Force| matches!(force.taking, Taking::Whole);
        if self.force().filter(is_donor).filter(has_log).is_none() || copy == self.settings.copy || from > INDEX_MAX {
            return;
        }
        let log = &self.disk.log;
        if from <= log.base() {
            let from = log.base() + 1;
            return self.say(Said::Part { term, to: copy, from, items: Vec::new() });
        }
        let most = self.message_max.saturating_sub(PART + FRAME).min(PART_MAX);
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(item) = log.get(from + items.len() as u64) {
            bytes += PART_ITEM + item.1.len();
            if bytes > most && !items.is_empty() {
                break;
            }
            items.push(item.clone());
        }
        self.say(Said::Part { term, to: copy, from, items });
    }

    pub(super) fn on_part(&mut self, term: u64, from: u64, mut items: Vec<Item>) {
        let Some(force) = self.force_mut().filter(|force| force.decision.term == term) else { return };
        let Taking::Parts(parts) = &mut force.taking else { return };
        let next = parts.next();
        if items.is_empty() && from > next {
            force.taking = Taking::Lacks;
            return self.effects.push_back(Effect::Lacks { from });
        }
        if from == next && !items.is_empty() {
            parts.items.append(&mut items);
            self.go_on_taking();
        }
    }
}

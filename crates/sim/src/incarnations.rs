//! What outlasts a crash: a node's disk, its clock, and the count of its incarnations.
use crate::machine::SeenView;
use crate::message::ProcessIncarnation;
use crate::trace::InstallRecord;
use crate::trace::witness::installed;
use bytes::Bytes;
use consort_types::{Incarnation, Instant, MemberId, NodeId, Ticket};
use std::collections::BTreeMap;

/// What every clock shows when a run begins, in microseconds: clocks that jump back never reach zero.
const EPOCH_US: u64 = 1 << 40;

/// Every so many records a backup is made.
const BACKUP: u64 = 3;

/// A node's disk and clock.
#[derive(Clone, Debug, Default)]
struct NodeDisk {
    incarnation: Option<ProcessIncarnation>,
    /// The name of the last incarnation, as the disk remembers it.
    stored: u64,
    records: Vec<(Ticket, Bytes)>,
    /// What is being written, or is written and not synced.
    unsynced: Vec<(Ticket, Bytes)>,
    /// What a backup of the records holds.
    backup: Vec<(Ticket, Bytes)>,
    writes: u64,
    /// What the last incarnation handed to the next.
    carried: Vec<Bytes>,
    clock_us: i64,
}

/// All incarnations of all nodes.
#[derive(Debug)]
pub(crate) struct Incarnations {
    places: Vec<NodeDisk>,
    known: BTreeMap<MemberId, ProcessIncarnation>,
}

impl Incarnations {
    /// Nodes that have names for their first incarnations already.
    pub fn new(members: &[MemberId]) -> Self {
        let first = |member: &MemberId| (*member, ProcessIncarnation { node: member.node, count: 0 });
        Self { places: vec![NodeDisk::default(); members.len()], known: members.iter().map(first).collect() }
    }

    /// A node begins an incarnation.
    pub fn begin(&mut self, member: MemberId) -> ProcessIncarnation {
        let place = &mut self.places[usize::from(member.node.0)];
        let count = place.incarnation.map_or(0, |incarnation| incarnation.count + 1);
        let incarnation = ProcessIncarnation { node: member.node, count };
        place.incarnation = Some(incarnation);
        place.stored = member.incarnation.0;
        self.known.insert(member, incarnation);
        incarnation
    }

    /// The name for a node's next incarnation: what the clock shows, but more than the disk remembers. A node whose
    /// disk is new and whose clock was set back has neither, and may go by a smaller number than before; but not by the
    /// same.
    pub fn next(&self, now: Instant, node: NodeId) -> MemberId {
        let place = &self.places[usize::from(node.0)];
        let clock = (EPOCH_US + now.0 / 1_000).saturating_add_signed(place.clock_us);
        let mut incarnation = Incarnation(clock.max(place.stored + 1));
        while self.known.contains_key(&MemberId { node, incarnation }) {
            incarnation.0 += 1;
        }
        MemberId { node, incarnation }
    }

    /// Whether a node ever ran.
    pub fn has_begun(&self, node: u16) -> bool {
        self.places[usize::from(node)].incarnation.is_some()
    }

    /// The incarnation that a node is in, or was in last.
    pub fn present(&self, node: u16) -> ProcessIncarnation {
        self.places[usize::from(node)].incarnation.unwrap_or(ProcessIncarnation { node: NodeId(node), count: 0 })
    }

    /// The incarnation that a member's name means; one that never was, where it means none.
    pub fn of(&self, member: MemberId) -> ProcessIncarnation {
        let nobody = ProcessIncarnation { node: member.node, count: u16::MAX };
        self.known.get(&member).copied().unwrap_or(nobody)
    }

    /// In which incarnation of a node a message came, if that was told.
    pub fn count(&self, node: NodeId, incarnation: Option<Incarnation>) -> Option<u16> {
        incarnation.map(|incarnation| self.of(MemberId { node, incarnation }).count)
    }

    /// A view with its members by their incarnations.
    pub fn view(&self, seen: &SeenView) -> InstallRecord {
        installed(seen, |member| self.of(member))
    }

    /// A record is on its way to the disk.
    pub fn write(&mut self, node: u16, ticket: Ticket, record: Bytes) {
        self.places[usize::from(node)].unsynced.push((ticket, record));
    }

    /// A record is written; with `sync` it has reached the disk, and all before it.
    pub fn wrote(&mut self, node: u16, ticket: Ticket, sync: bool) {
        let unsynced = &self.places[usize::from(node)].unsynced;
        let last = unsynced.iter().position(|(known, _)| *known == ticket).filter(|_| sync);
        self.reach_disk(node, last.map_or(0, |last| last + 1));
    }

    fn reach_disk(&mut self, node: u16, records: usize) {
        let place = &mut self.places[usize::from(node)];
        for record in place.unsynced.drain(..records) {
            place.records.push(record);
            place.writes += 1;
            if place.writes.is_multiple_of(BACKUP) {
                place.backup = place.records.clone();
            }
        }
    }

    /// A node stops. Of what is not synced the disk has the first so many records, and nothing of the rest.
    pub fn stop(&mut self, node: u16, keeps: impl FnOnce(usize) -> usize) {
        let unsynced = self.places[usize::from(node)].unsynced.len();
        self.reach_disk(node, keeps(unsynced).min(unsynced));
        self.places[usize::from(node)].unsynced.clear();
    }

    /// Records are not needed any more.
    pub fn trim(&mut self, node: u16, up_to: Ticket) {
        self.places[usize::from(node)].records.retain(|(ticket, _)| *ticket > up_to);
    }

    /// An incarnation hands these to the one that follows at once.
    pub fn carry(&mut self, node: u16, records: Vec<Bytes>) {
        self.places[usize::from(node)].carried = records;
    }

    /// What an incarnation starts with: the records on its disk, else what the last one handed to it. From here on the
    /// records have the tickets from 1 on.
    pub fn begin_records(&mut self, node: u16) -> Vec<Bytes> {
        let NodeDisk { records, carried, .. } = &mut self.places[usize::from(node)];
        let carried = std::mem::take(carried);
        records.iter_mut().zip(1..).for_each(|((known, _), ticket)| *known = Ticket(ticket));
        if records.is_empty() { carried } else { self.records(node) }
    }

    /// What is on a node's disk.
    pub fn records(&self, node: u16) -> Vec<Bytes> {
        self.places[usize::from(node)].records.iter().map(|(_, record)| record.clone()).collect()
    }

    /// A node's disk is put back to what the backup holds. Nobody tells the node yet that it goes by an old name, as with a
    /// new disk.
    pub fn restore_disk(&mut self, node: u16) {
        let place = &mut self.places[usize::from(node)];
        place.records = place.backup.clone();
        place.stored = 0;
    }

    /// A node has a new disk.
    pub fn lose_disk(&mut self, node: u16) {
        let place = &mut self.places[usize::from(node)];
        place.records.clear();
        place.stored = 0;
    }

    /// A node's clock is set.
    pub fn jump(&mut self, node: u16, by_us: i64) {
        self.places[usize::from(node)].clock_us += by_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(0);

    #[test]
    fn a_incarnation_is_newer_than_what_clock_or_disk_remembers() {
        let mut incarnations = Incarnations::new(&[MemberId::new(0, 1)]);
        incarnations.begin(MemberId::new(0, 1));
        let second = incarnations.next(Instant(5_000_000), NODE);
        assert_eq!(second.incarnation.0, EPOCH_US + 5_000);
        assert_eq!(incarnations.begin(second), ProcessIncarnation { node: NODE, count: 1 });
        incarnations.jump(0, -3_600_000_000);
        let third = incarnations.next(Instant(6_000_000), NODE);
        assert_eq!(third.incarnation.0, second.incarnation.0 + 1, "the disk remembers");
        incarnations.lose_disk(0);
        let neither = EPOCH_US + 6_000 - 3_600_000_000;
        assert_eq!(incarnations.next(Instant(6_000_000), NODE).incarnation.0, neither, "neither does");
        incarnations.jump(0, 3_600_000_000);
        assert_eq!(incarnations.next(Instant(6_000_000), NODE).incarnation.0, EPOCH_US + 6_000, "the clock does");
    }

    #[test]
    fn an_old_disk_holds_what_it_held_when_the_backup_was_made() {
        let mut incarnations = Incarnations::new(&[MemberId::new(0, 1)]);
        for n in 1..=4 {
            incarnations.write(0, Ticket(n), Bytes::from(vec![n as u8]));
            incarnations.wrote(0, Ticket(n), true);
            incarnations.trim(0, Ticket(n - 1));
        }
        assert_eq!(incarnations.records(0), [&[4][..]]);
        incarnations.restore_disk(0);
        assert_eq!(incarnations.records(0), [&[2][..], &[3]]);
    }

    #[test]
    fn what_is_not_synced_may_be_lost_from_somewhere_on() {
        let mut incarnations = Incarnations::new(&[MemberId::new(0, 1)]);
        (1..=5).for_each(|n| incarnations.write(0, Ticket(n), Bytes::from(vec![n as u8])));
        incarnations.wrote(0, Ticket(1), false);
        assert!(incarnations.records(0).is_empty(), "written is not synced");
        incarnations.wrote(0, Ticket(2), true);
        assert_eq!(incarnations.records(0), [&[1][..], &[2]]);
        incarnations.wrote(0, Ticket(3), false);
        incarnations.stop(0, |unsynced| unsynced - 1);
        assert_eq!(incarnations.records(0), [&[1][..], &[2], &[3], &[4]]);
        incarnations.stop(0, |unsynced| unsynced);
        assert_eq!(incarnations.records(0).len(), 4);
    }

    #[test]
    fn what_is_written_outlasts_the_process_and_of_the_rest_the_first_so_many() {
        let mut incarnations = Incarnations::new(&[MemberId::new(0, 1)]);
        (1..=5).for_each(|n| incarnations.write(0, Ticket(n), Bytes::from(vec![n as u8])));
        // With `Tears::Unwritten` the world takes what is written for safe.
        incarnations.wrote(0, Ticket(3), true);
        incarnations.stop(0, |left| left - 1);
        assert_eq!(incarnations.records(0), [&[1][..], &[2], &[3], &[4]]);
    }

    #[test]
    fn records_are_counted_anew_by_each_incarnation_and_what_is_handed_over_counts_once() {
        let mut incarnations = Incarnations::new(&[MemberId::new(0, 1)]);
        incarnations.carry(0, vec![Bytes::from_static(b"memory")]);
        assert_eq!(incarnations.begin_records(0), [&b"memory"[..]]);
        assert!(incarnations.begin_records(0).is_empty());
        (7..=9).for_each(|n| incarnations.write(0, Ticket(n), Bytes::from(vec![n as u8])));
        incarnations.wrote(0, Ticket(9), true);
        incarnations.carry(0, vec![Bytes::from_static(b"memory")]);
        assert_eq!(incarnations.begin_records(0).len(), 3, "the disk knows better");
        incarnations.trim(0, Ticket(2));
        assert_eq!(incarnations.records(0), [&[9][..]]);
    }

    #[test]
    fn records_outlast_a_crash_but_not_the_disk() {
        let mut incarnations = Incarnations::new(&[MemberId::new(0, 1)]);
        incarnations.write(0, Ticket(1), Bytes::from_static(b"a"));
        incarnations.write(0, Ticket(2), Bytes::from_static(b"b"));
        incarnations.wrote(0, Ticket(2), true);
        incarnations.trim(0, Ticket(1));
        assert_eq!(incarnations.records(0), [&b"b"[..]]);
        incarnations.lose_disk(0);
        assert!(incarnations.records(0).is_empty());
    }
}

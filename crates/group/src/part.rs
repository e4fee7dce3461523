//! Parts of the exchange: what one daemon's clients are in, cut into pieces of bounded size.
//!
//! | size | field |
//! |---|---|
//! | 1 | kind: 6 |
//! | 18 | the view that is exchanged in |
//! | 10 | the lowest daemon of the sender's synced set |
//! | 4 | the part's number, from 0 |
//! | 1 | flags: bit 0, the sender's last; bit 1, of producers, not of groups; bit 2, only with bit 1, their table is of a view that counted; bit 3, the sender remembers: it was in a view that counted |
//! | 8 | only with bit 2: the number of that view |
//! | each to the end | an entry; with bit 1 a producer: its name (16), its epoch (8 + 8), its last number (8), its place (8 + 8), 1 if it is to be told that it was forgotten, else 0 |
//!
//! An entry:
//!
//! | size | field |
//! |---|---|
//! | 1 + n | the group's name |
//! | 1 | flags: bit 0, closed; bit 1, members of it departed since its last group view |
//! | 26 | the name of its last group view |
//! | 2 | how many of the sender's clients follow, at least 1 |
//! | 4, 1 + n each | a client: its number and its name |
use crate::member::{ClientName, GroupViewId};
use crate::producers::{ProducerId, ProducerRecord};
use crate::targets::{put_name, read_group};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{ClientId, GroupName, MemberId, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{MEMBER_LEN, Malformed, Reader, Writer};

/// The first byte of a part.
pub(crate) const PART: u8 = 6;

/// The most bytes of one part.
pub const PART_MAX: usize = 8 << 10;
const HEAD_LEN: usize = 1 + VIEW_ID_LEN + MEMBER_LEN + 4 + 1;
const LAST: u8 = 1;
const OF_PRODUCERS: u8 = 2;
const COUNTED: u8 = 4;
const REMEMBERS: u8 = 8;
const CLOSED: u8 = 1;
const DEPARTED: u8 = 2;
/// The least bytes of a client in an entry.
const CLIENT_LEN: usize = 4 + 2;

/// What one part says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePart {
    /// The view that is exchanged in.
    pub view: ViewId,
    /// The lowest daemon of the sender's synced set.
    pub set: MemberId,
    /// Its number among the sender's parts, from 0.
    pub number: u32,
    /// Whether it is the sender's last.
    pub last: bool,
    /// Whether the sender was in a view that counted for producers.
    pub remembers: bool,
    /// Groups with clients of the sender; one with many may come again in the next part.
    pub entries: Vec<StateEntry>,
    /// What the sender's synced set knows of producers, in parts that have no groups.
    pub producers: Option<ProducersPart>,
}

/// Some of a table of producers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducersPart {
    /// The latest view that counts of which the table is.
    pub of: Option<u64>,
    /// Producers, and what is known of them.
    pub records: Vec<(ProducerId, ProducerRecord)>,
}

/// What a daemon says of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    /// Which group.
    pub group: GroupName,
    /// Whether only members may send to it.
    pub closed: bool,
    /// Whether members of it departed since its last group view.
    pub departed: bool,
    /// The name of its last group view.
    pub id: GroupViewId,
    /// The sender's clients in it.
    pub clients: Vec<(ClientId, ClientName)>,
}

/// Writes one part, entry by entry.
#[derive(Debug)]
pub(crate) struct PartWriter {
    out: BytesMut,
    /// Where the number of clients of the entry at the back stands, and what it is.
    entry: Option<(usize, u16)>,
    max: usize,
}

impl PartWriter {
    pub fn new(view: ViewId, set: MemberId, number: u32) -> Self {
        let mut out = BytesMut::with_capacity(PART_MAX);
        out.put_u8(PART);
        out.put_view_id(view);
        out.put_member(set);
        out.put_u32(number);
        out.put_u8(0);
        Self { out, entry: None, max: PART_MAX }
    }

    /// Writes more than any part may have.
    #[cfg(feature = "mutants")]
    pub const fn overflow(&mut self) {
        self.max = usize::MAX;
    }

    /// Begins a group; false, and nothing changed, where it does not fit with a client.
    pub fn group(&mut self, group: &GroupName, closed: bool, departed: bool, id: GroupViewId) -> bool {
        let len = 1 + group.as_bytes().len() + 1 + VIEW_ID_LEN + 8 + 2;
        if self.out.len() + len + CLIENT_LEN + ClientName::MAX > self.max {
            return false;
        }
        self.close();
        put_name(group.as_bytes(), &mut self.out);
        self.out.put_u8(if closed { CLOSED } else { 0 } | if departed { DEPARTED } else { 0 });
        self.out.put_view_id(id.view);
        self.out.put_u64(id.change);
        self.entry = Some((self.out.len(), 0));
        self.out.put_u16(0);
        true
    }

    /// Adds a client to the group begun last; false, and nothing changed, where it does not fit.
    pub fn client(&mut self, client: ClientId, name: &ClientName) -> bool {
        if self.out.len() + CLIENT_LEN + ClientName::MAX > self.max {
            return false;
        }
        self.out.put_u32(client.0);
        put_name(name.as_str().as_bytes(), &mut self.out);
        if let Some((_, count)) = &mut self.entry {
            *count += 1;
        }
        true
    }

    /// Says that the sender was in a view that counted.
    pub fn remembers(&mut self) {
        self.out[HEAD_LEN - 1] |= REMEMBERS;
    }

    /// Makes it a part of producers, whose table is of this view.
    pub fn of_producers(&mut self, of: Option<u64>) {
        self.out[HEAD_LEN - 1] |= OF_PRODUCERS | of.map_or(0, |_| COUNTED);
        if let Some(of) = of {
            self.out.put_u64(of);
        }
    }

    /// Adds a producer; false, and nothing changed, where it does not fit.
    pub fn producer(&mut self, producer: ProducerId, record: &ProducerRecord) -> bool {
        let fits = self.out.len() + ProducerRecord::LEN <= self.max;
        if fits {
            record.put(producer, &mut self.out);
        }
        fits
    }

    pub fn finish(mut self, last: bool) -> Bytes {
        self.close();
        self.out[HEAD_LEN - 1] |= if last { LAST } else { 0 };
        self.out.freeze()
    }

    fn close(&mut self) {
        if let Some((at, count)) = self.entry.take() {
            self.out[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
    }
}

/// Reads a part.
pub(crate) fn decode(bytes: &[u8]) -> Result<StatePart, Malformed> {
    if bytes.len() > PART_MAX {
        return Err(Malformed { what: "length", at: PART_MAX });
    }
    let mut reader = Reader::new(bytes);
    reader.u8("kind")?;
    let (view, set) = (reader.view_id("view")?, reader.member("synced set")?);
    let number = reader.u32("number")?;
    let before = reader.clone();
    let flags = read_flags(&mut reader, LAST | OF_PRODUCERS | COUNTED | REMEMBERS)?;
    let (last, of_producers, counted) = (flags & LAST != 0, flags & OF_PRODUCERS != 0, flags & COUNTED != 0);
    if counted && !of_producers {
        return Err(before.bad("flags"));
    }
    let producers = of_producers.then(|| read_producers(&mut reader, counted)).transpose()?;
    let mut entries = Vec::new();
    while reader.left() > 0 {
        entries.push(read_entry(&mut reader)?);
    }
    let remembers = flags & REMEMBERS != 0;
    Ok(StatePart { view, set, number, last, remembers, entries, producers })
}

fn read_producers(reader: &mut Reader<'_>, counted: bool) -> Result<ProducersPart, Malformed> {
    let of = counted.then(|| reader.u64("view")).transpose()?;
    let mut records = Vec::new();
    while reader.left() > 0 {
        records.push(ProducerRecord::read(reader)?);
    }
    Ok(ProducersPart { of, records })
}

fn read_entry(reader: &mut Reader<'_>) -> Result<StateEntry, Malformed> {
    let group = read_group(reader)?;
    let flags = read_flags(reader, CLOSED | DEPARTED)?;
    let id = GroupViewId { view: reader.view_id("group view")?, change: reader.u64("group view")? };
    let before = reader.clone();
    let count = reader.count(CLIENT_LEN, "clients")?;
    if count == 0 {
        return Err(before.bad("clients"));
    }
    let client = |_| Ok((ClientId(reader.u32("client")?), read_client(reader)?));
    let clients = (0..count).map(client).collect::<Result<_, _>>()?;
    Ok(StateEntry { group, closed: flags & CLOSED != 0, departed: flags & DEPARTED != 0, id, clients })
}

fn read_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, Malformed> {
    let before = reader.clone();
    let flags = reader.u8("flags")?;
    if flags & !known == 0 { Ok(flags) } else { Err(before.bad("flags")) }
}

/// Reads a client's name.
///
/// # Errors
/// [`Malformed`] where it is none.
pub fn read_client(reader: &mut Reader<'_>) -> Result<ClientName, Malformed> {
    let before = reader.clone();
    let len = reader.u8("client name")?;
    ClientName::new(reader.take(usize::from(len), "client name")?).ok_or(before.bad("client name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producers::HistoryPlace;
    use consort_types::Position;

    const SET: MemberId = MemberId::new(1, 7);
    const VIEW: ViewId = ViewId { number: 12, representative: MemberId::new(0, 3) };

    fn name(number: u32) -> ClientName {
        ClientName::unchosen(ClientId(number))
    }

    fn group(text: &str) -> GroupName {
        GroupName::new(text.as_bytes()).unwrap()
    }

    fn part() -> (Bytes, StatePart) {
        let id = GroupViewId { view: VIEW, change: 9 };
        let mut writer = PartWriter::new(VIEW, SET, 3);
        assert!(writer.group(&group("a"), true, false, id) && writer.client(ClientId(1), &name(1)));
        assert!(writer.group(&group("b"), false, true, id));
        assert!(writer.client(ClientId(1), &name(1)) && writer.client(ClientId(2), &name(2)));
        let client = |number| (ClientId(number), name(number));
        let entries = vec![
            StateEntry { group: group("a"), closed: true, departed: false, id, clients: vec![client(1)] },
            StateEntry { group: group("b"), closed: false, departed: true, id, clients: vec![client(1), client(2)] },
        ];
        let part =
            StatePart { view: VIEW, set: SET, number: 3, last: true, remembers: false, entries, producers: None };
        (writer.finish(true), part)
    }

    #[test]
    fn a_part_reads_back() {
        let (bytes, meant) = part();
        assert_eq!(decode(&bytes), Ok(meant));
        let empty = PartWriter::new(VIEW, SET, 0).finish(false);
        assert_eq!(
            decode(&empty),
            Ok(StatePart {
                view: VIEW,
                set: SET,
                number: 0,
                last: false,
                remembers: false,
                entries: Vec::new(),
                producers: None
            })
        );
    }

    #[test]
    fn a_part_of_producers_reads_back_and_is_no_longer_than_allowed() {
        //= E07 test
        let place = |at| HistoryPlace { view: 3, at: Position(at) };
        for of in [None, Some(7)] {
            let mut writer = PartWriter::new(VIEW, SET, 0);
            writer.remembers();
            writer.of_producers(of);
            let record = |n: u8| ProducerRecord {
                opener: (7, u64::from(n)),
                epoch: place(1),
                last: u64::from(n),
                at: place(2),
                renewed: n % 2 == 1,
            };
            let fits = |n: &u8| writer.producer(ProducerId([*n; 16]), &record(*n));
            let count = (0..=255).take_while(fits).count();
            assert!(count > 100 && count < 256, "{count}");
            let bytes = writer.finish(true);
            assert!(bytes.len() <= PART_MAX && bytes.len() + ProducerRecord::LEN > PART_MAX);
            let part = decode(&bytes).unwrap();
            let records = (0..count as u8).map(|n| (ProducerId([n; 16]), record(n))).collect();
            assert_eq!((part.last, part.remembers, part.entries.len()), (true, true, 0));
            assert_eq!(part.producers, Some(ProducersPart { of, records }));
            assert!(decode(&bytes[..bytes.len() - 1]).is_err());
            consort_wire::mutate::each(&bytes, 3_000, |bytes| drop(decode(bytes)));
        }
    }

    #[test]
    fn no_part_is_longer_than_allowed() {
        //= G14 test
        let mut writer = PartWriter::new(VIEW, SET, 0);
        let mut groups = 0;
        while writer.group(&group(&format!("g{groups}")), false, false, GroupViewId::default()) {
            assert!(writer.client(ClientId(1), &ClientName::new(&[b'x'; ClientName::MAX]).unwrap()));
            groups += 1;
        }
        assert!(!writer.client(ClientId(2), &name(2)) || groups > 0);
        let bytes = writer.finish(true);
        assert!(bytes.len() <= PART_MAX && bytes.len() > PART_MAX - 200, "{}", bytes.len());
        assert_eq!(decode(&bytes).unwrap().entries.len(), groups);
        let mut crowd = PartWriter::new(VIEW, SET, 0);
        assert!(crowd.group(&group("g"), false, false, GroupViewId::default()));
        let clients = (0..).take_while(|n| crowd.client(ClientId(*n), &name(*n))).count();
        assert_eq!(decode(&crowd.finish(false)).unwrap().entries[0].clients.len(), clients);
    }

    #[test]
    fn what_cannot_be_is_refused_and_no_mutation_panics() {
        //= G15 test
        let (bytes, _) = part();
        let mut bad = bytes.to_vec();
        for flags in [16, 4, 5] {
            bad[HEAD_LEN - 1] = flags;
            assert_eq!(decode(&bad), Err(Malformed { what: "flags", at: HEAD_LEN - 1 }));
        }
        bad = bytes.to_vec();
        bad[HEAD_LEN + 3 + VIEW_ID_LEN + 8 + 1] = 0;
        assert_eq!(decode(&bad), Err(Malformed { what: "clients", at: HEAD_LEN + 3 + VIEW_ID_LEN + 8 }));
        assert_eq!(decode(&[PART; PART_MAX + 1]), Err(Malformed { what: "length", at: PART_MAX }));
        consort_wire::mutate::each(&bytes, 20_000, |bytes| drop(decode(bytes)));
        for cut in HEAD_LEN + 1..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err() || cut == HEAD_LEN + 2 + 1 + VIEW_ID_LEN + 8 + 2 + 7, "{cut}");
        }
    }
}

//! What the membership puts on the network. An engine carries these packets among its own: their kind bytes are 0x80 and
//! above.
//!
//! | kind | packet | fields behind the kind byte |
//! |---|---|---|
//! | 0x80 | join | flags 1 (bit 0 leave), number 8, episode 8, counted proc and fail (10 each), counted heard (2 each) |
//! | 0x81 | beacon | flags 1 (bit 0 settled, bit 1 wants), view 18, wants 18, counted members (10), heard (2), annotation, padding |
//! | 0x82 | propose | view 18, counted members (10 each) |
//! | 0x83 | told | view 18, old view 18, counted pairs held 8, stable 8 |
//! | 0x84 | plan | view 18, counted members (10), counted old views: view 18, counted members (2: index), counted entries (18: held, holder 2, stable) |
//! | 0x85 | ready | view 18, done 1 |
//! | 0x86 | install | view 18 |
//!
//! Packets of large clusters may exceed the configured datagram; they alone may be fragmented by IP.
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{MemberId, NodeId, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{MEMBER_LEN, Malformed, Reader, Writer};
use std::collections::BTreeSet;

/// One packet of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipPacket {
    /// Who I think should form a view.
    Join(JoinProposal),
    /// Where I am and whom I hear.
    Beacon(MembershipBeacon),
    /// All agree: tell me what you hold of your old view.
    Propose {
        /// The view to be.
        view: ViewId,
        /// Its members, ascending.
        members: Vec<MemberId>,
    },
    /// What I hold of my old view.
    Told {
        /// The view to be.
        view: ViewId,
        /// The one I come from.
        old: ViewId,
        /// How much is held of each of its members, and how much of that all are known to hold.
        holding: Vec<(u64, u64)>,
    },
    /// What all hold together.
    Plan(HoldingsPlan),
    /// How far I am.
    Ready {
        /// The view to be.
        view: ViewId,
        /// Whether I hold the whole agreed set.
        done: bool,
    },
    /// All members hold the agreed set: the view stands.
    Install {
        /// The view.
        view: ViewId,
    },
}

/// Who the sender thinks should be in the next view, and who should not. Sent again and again while it gathers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinProposal {
    /// Who should be in.
    pub proc: BTreeSet<MemberId>,
    /// Who should be out.
    pub fail: BTreeSet<MemberId>,
    /// The highest view number the sender knows.
    pub number: u64,
    /// Whom it hears.
    pub heard: BTreeSet<NodeId>,
    /// It says good-bye.
    pub leave: bool,
    /// Counts its gatherings, so that a late packet of an earlier one is known.
    pub episode: u64,
}

/// Says where the sender is and whom it hears, in every state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipBeacon {
    /// The view it has installed.
    pub view: ViewId,
    /// That view's members.
    pub members: Vec<MemberId>,
    /// Whom it hears.
    pub heard: BTreeSet<NodeId>,
    /// The view its representative would like to merge with.
    pub wants: Option<ViewId>,
    /// Whether its view works.
    pub settled: bool,
    /// What the layer above wants carried.
    pub annotation: Bytes,
    /// Bytes added so that the beacon proves that full datagrams pass.
    pub padding: usize,
}

/// What the members that come from each old view hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingsPlan {
    /// The view to be.
    pub view: ViewId,
    /// Its members, ascending.
    pub members: Vec<MemberId>,
    /// The views they come from.
    pub olds: Vec<OldView>,
}

/// One old view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldView {
    /// Which.
    pub view: ViewId,
    /// Who comes from it: indices into the plan's members, ascending.
    pub from: Vec<u16>,
    /// For each member it had.
    pub entries: Vec<HoldingsEntry>,
}

/// What is held of one member of an old view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldingsEntry {
    /// How many of its packets.
    pub held: u64,
    /// By whom: an index into the plan's members.
    pub holder: u16,
    /// How many of them all members of the old view are known to hold.
    pub stable: u64,
}

const JOIN: u8 = 0x80;
const BEACON: u8 = 0x81;
const PROPOSE: u8 = 0x82;
const TOLD: u8 = 0x83;
const PLAN: u8 = 0x84;
const READY: u8 = 0x85;
const INSTALL: u8 = 0x86;
const LEAVE: u8 = 1;
const SETTLED: u8 = 1;
const WANTS: u8 = 2;
const ENTRY_LEN: usize = 18;

impl consort_wire::Packet for MembershipPacket {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Join(join) => join.encode(head),
            Self::Beacon(beacon) => beacon.encode(head),
            Self::Propose { view, members } => {
                head.put_u8(PROPOSE);
                head.put_view_id(*view);
                put_members(head, members.iter());
            }
            Self::Told { view, old, holding } => {
                head.put_u8(TOLD);
                head.put_view_id(*view);
                head.put_view_id(*old);
                head.put_count(holding.len());
                holding.iter().for_each(|(held, stable)| {
                    head.put_u64(*held);
                    head.put_u64(*stable);
                });
            }
            Self::Plan(plan) => plan.encode(head),
            Self::Ready { view, done } => {
                head.put_u8(READY);
                head.put_view_id(*view);
                head.put_u8(u8::from(*done));
            }
            Self::Install { view } => {
                head.put_u8(INSTALL);
                head.put_view_id(*view);
            }
        }
        Bytes::new()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let packet = match reader.u8("kind")? {
            JOIN => Self::Join(JoinProposal::decode(&mut reader)?),
            BEACON => return MembershipBeacon::decode(reader).map(Self::Beacon),
            PROPOSE => Self::Propose { view: reader.view_id("view")?, members: members(&mut reader, "members")? },
            TOLD => Self::told(&mut reader)?,
            PLAN => Self::Plan(HoldingsPlan::decode(&mut reader)?),
            READY => Self::Ready { view: reader.view_id("view")?, done: flag(&mut reader, "done")? },
            INSTALL => Self::Install { view: reader.view_id("view")? },
            _ => return Err(reader.bad("kind")),
        };
        reader.end("membership packet")?;
        Ok(packet)
    }
}

impl MembershipPacket {
    /// Whether a packet that begins with this byte is one of the membership's.
    pub const fn is_kind(byte: u8) -> bool {
        byte >= JOIN
    }

    fn told(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (view, old) = (reader.view_id("view")?, reader.view_id("old view")?);
        let n = reader.count(16, "holding")?;
        let pair = |_| {
            let (held, stable) = (reader.u64("held")?, reader.u64("stable")?);
            if stable > held { Err(reader.bad("stable beyond held")) } else { Ok((held, stable)) }
        };
        Ok(Self::Told { view, old, holding: (0..n).map(pair).collect::<Result<_, _>>()? })
    }
}

impl JoinProposal {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(JOIN);
        head.put_u8(if self.leave { LEAVE } else { 0 });
        head.put_u64(self.number);
        head.put_u64(self.episode);
        put_members(head, self.proc.iter());
        put_members(head, self.fail.iter());
        put_nodes(head, &self.heard);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = reader.u8("flags")?;
        if flags & !LEAVE != 0 {
            return Err(reader.bad("flags"));
        }
        Ok(Self {
            leave: flags & LEAVE != 0,
            number: reader.u64("number")?,
            episode: reader.u64("episode")?,
            proc: members(reader, "proc")?.into_iter().collect(),
            fail: members(reader, "fail")?.into_iter().collect(),
            heard: nodes(reader, "heard")?,
        })
    }
}

impl MembershipBeacon {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(BEACON);
        let wants = if self.wants.is_some() { WANTS } else { 0 };
        head.put_u8(wants | if self.settled { SETTLED } else { 0 });
        head.put_view_id(self.view);
        head.put_view_id(self.wants.unwrap_or_default());
        put_members(head, self.members.iter());
        put_nodes(head, &self.heard);
        head.put_count(self.annotation.len());
        head.put_slice(&self.annotation);
        head.put_bytes(0, self.padding);
    }

    fn decode(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let flags = reader.u8("flags")?;
        if flags & !(SETTLED | WANTS) != 0 {
            return Err(reader.bad("flags"));
        }
        let (view, wants) = (reader.view_id("view")?, reader.view_id("wants")?);
        let (members, heard) = (members(&mut reader, "members")?, nodes(&mut reader, "heard")?);
        let n = reader.count(1, "annotation")?;
        let annotation = Bytes::copy_from_slice(reader.take(n, "annotation")?);
        let padding = reader.rest().len();
        let wants = (flags & WANTS != 0).then_some(wants);
        Ok(Self { view, members, heard, wants, settled: flags & SETTLED != 0, annotation, padding })
    }

    /// The bytes it takes without padding.
    pub fn bare_len(&self) -> usize {
        let lists = MEMBER_LEN * self.members.len() + 2 * self.heard.len() + self.annotation.len();
        2 + 2 * VIEW_ID_LEN + 3 * 2 + lists
    }
}

impl HoldingsPlan {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(PLAN);
        head.put_view_id(self.view);
        put_members(head, self.members.iter());
        head.put_count(self.olds.len());
        for old in &self.olds {
            head.put_view_id(old.view);
            head.put_count(old.from.len());
            old.from.iter().for_each(|index| head.put_u16(*index));
            head.put_count(old.entries.len());
            for entry in &old.entries {
                head.put_u64(entry.held);
                head.put_u16(entry.holder);
                head.put_u64(entry.stable);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (view, members) = (reader.view_id("view")?, members(reader, "members")?);
        let n = reader.count(VIEW_ID_LEN + 4, "old views")?;
        let olds = (0..n).map(|_| OldView::decode(reader, members.len())).collect::<Result<_, _>>()?;
        Ok(Self { view, members, olds })
    }
}

impl OldView {
    fn decode(reader: &mut Reader<'_>, members: usize) -> Result<Self, Malformed> {
        let view = reader.view_id("old view")?;
        let n = reader.count(2, "from")?;
        let from = (0..n).map(|_| reader.u16("from")).collect::<Result<Vec<_>, _>>()?;
        if !from.is_sorted_by(|a, b| a < b) || from.last().is_some_and(|last| usize::from(*last) >= members) {
            return Err(reader.bad("from"));
        }
        let n = reader.count(ENTRY_LEN, "entries")?;
        let entry = |_| {
            let (held, holder) = (reader.u64("held")?, reader.u16("holder")?);
            let entry = HoldingsEntry { held, holder, stable: reader.u64("stable")? };
            let fits = from.binary_search(&holder).is_ok() && entry.stable <= held;
            if fits { Ok(entry) } else { Err(reader.bad("entry")) }
        };
        let entries = (0..n).map(entry).collect::<Result<_, _>>()?;
        Ok(Self { view, from, entries })
    }
}

fn put_members<'a>(head: &mut BytesMut, members: impl ExactSizeIterator<Item = &'a MemberId>) {
    head.put_count(members.len());
    members.for_each(|member| head.put_member(*member));
}

fn put_nodes(head: &mut BytesMut, nodes: &BTreeSet<NodeId>) {
    head.put_count(nodes.len());
    nodes.iter().for_each(|node| head.put_u16(node.0));
}

/// Reads members that ascend.
fn members(reader: &mut Reader<'_>, what: &'static str) -> Result<Vec<MemberId>, Malformed> {
    let n = reader.count(MEMBER_LEN, what)?;
    let members = (0..n).map(|_| reader.member(what)).collect::<Result<Vec<_>, _>>()?;
    if members.is_sorted_by(|a, b| a < b) { Ok(members) } else { Err(reader.bad(what)) }
}

fn nodes(reader: &mut Reader<'_>, what: &'static str) -> Result<BTreeSet<NodeId>, Malformed> {
    let n = reader.count(2, what)?;
    let nodes = (0..n).map(|_| reader.u16(what).map(NodeId)).collect::<Result<Vec<_>, _>>()?;
    if nodes.is_sorted_by(|a, b| a < b) { Ok(nodes.into_iter().collect()) } else { Err(reader.bad(what)) }
}

fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, Malformed> {
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.bad(what)),
    }
}

//! What the membership puts on the network. An engine carries these packets among its own: their kind bytes are 0x80 and
//! above.
//!
//! | kind | packet | fields behind the kind byte |
//! |---|---|---|
//! | 0x80 | join | flags 1 (bit 0 leave), number 8, episode 8, counted proc and fail (10 each), counted heard (2 each), clocks (see [`crate::Clocks`]) |
//! | 0x81 | beacon | flags 1 (bit 0 settled, bit 1 wants), view 18, wants 18, counted members (10), heard (2), clocks, annotation, padding |
//! | 0x82 | propose | view 18, counted members (10 each) |
//! | 0x83 | told | view 18, old view 18, hollow 1, counted pairs held 8, stable 8, counted links (20: network 1, configuration 18, before 1) |
//! | 0x84 | plan | view 18, counted members (10), counted old views: view 18, hollow 1, counted members (2: index), counted entries (18: held, holder 2, stable), counted links (22: member 2: index, link 20) |
//! | 0x85 | ready | view 18, done 1 |
//! | 0x86 | install | view 18 |
//!
//! Packets of large clusters may exceed the configured datagram; they alone may be fragmented by IP.
use super::Link;
use crate::{Beacon, Proposal};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{MemberId, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{Malformed, Reader, Writer};

/// One packet of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipPacket {
    /// Who I think should form a view.
    Join(Proposal),
    /// Where I am and whom I hear.
    Beacon(Beacon),
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
        /// Some of that is held without bytes.
        hollow: bool,
        /// Where the member stands.
        links: Vec<Link>,
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

/// What the members that come from each old view hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingsPlan {
    /// The view to be.
    pub view: ViewId,
    /// Its members, ascending.
    pub members: Vec<MemberId>,
    /// The views they come from.
    pub olds: Vec<OldView>,
    /// Where the members stand: indices into the plan's members, ascending, each with its links.
    pub links: Vec<(u16, Link)>,
}

/// One old view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldView {
    /// Which.
    pub view: ViewId,
    /// Some of these hold places alone.
    pub hollow: bool,
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
const ENTRY_LEN: usize = 18;
const LINK_LEN: usize = 2 + VIEW_ID_LEN;

impl consort_wire::Packet for MembershipPacket {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Join(join) => encode_join(join, head),
            Self::Beacon(beacon) => {
                head.put_u8(BEACON);
                beacon.encode(head);
            }
            Self::Propose { view, members } => {
                head.put_u8(PROPOSE);
                head.put_view_id(*view);
                head.put_members(members);
            }
            Self::Told { view, old, holding, hollow, links } => {
                head.put_u8(TOLD);
                head.put_view_id(*view);
                head.put_view_id(*old);
                head.put_u8(u8::from(*hollow));
                head.put_count(holding.len());
                holding.iter().for_each(|(held, stable)| {
                    head.put_u64(*held);
                    head.put_u64(*stable);
                });
                head.put_count(links.len());
                links.iter().for_each(|link| link.encode(head));
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
            JOIN => return decode_join(reader).map(Self::Join),
            BEACON => return Beacon::decode(reader).map(Self::Beacon),
            PROPOSE => Self::Propose { view: reader.view_id("view")?, members: reader.members("members")? },
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
        let hollow = flag(reader, "hollow")?;
        let n = reader.count(16, "holding")?;
        let pair = |_| {
            let (held, stable) = (reader.u64("held")?, reader.u64("stable")?);
            if stable > held { Err(reader.bad("stable beyond held")) } else { Ok((held, stable)) }
        };
        let holding = (0..n).map(pair).collect::<Result<_, _>>()?;
        let n = reader.count(LINK_LEN, "links")?;
        let links = (0..n).map(|_| Link::decode(reader)).collect::<Result<Vec<_>, _>>()?;
        if !links.is_sorted_by(|a, b| a.network < b.network) {
            return Err(reader.bad("links"));
        }
        Ok(Self::Told { view, old, holding, hollow, links })
    }
}

fn encode_join(join: &Proposal, head: &mut BytesMut) {
    head.put_u8(JOIN);
    head.put_u8(u8::from(join.leave));
    head.put_u64(join.number);
    head.put_u64(join.episode);
    join.encode_lists(head);
}

fn decode_join(mut reader: Reader<'_>) -> Result<Proposal, Malformed> {
    let leave = flag(&mut reader, "flags")?;
    let (number, episode) = (reader.u64("number")?, reader.u64("episode")?);
    Ok(Proposal { leave, number, episode, ..Proposal::decode_lists(reader)? })
}

impl HoldingsPlan {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(PLAN);
        head.put_view_id(self.view);
        head.put_members(&self.members);
        head.put_count(self.olds.len());
        for old in &self.olds {
            head.put_view_id(old.view);
            head.put_u8(u8::from(old.hollow));
            head.put_count(old.from.len());
            old.from.iter().for_each(|index| head.put_u16(*index));
            head.put_count(old.entries.len());
            for entry in &old.entries {
                head.put_u64(entry.held);
                head.put_u16(entry.holder);
                head.put_u64(entry.stable);
            }
        }
        head.put_count(self.links.len());
        for (member, link) in &self.links {
            head.put_u16(*member);
            link.encode(head);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (view, members) = (reader.view_id("view")?, reader.members("members")?);
        let n = reader.count(VIEW_ID_LEN + 5, "old views")?;
        let olds = (0..n).map(|_| OldView::decode(reader, members.len())).collect::<Result<_, _>>()?;
        let n = reader.count(LINK_LEN + 2, "links")?;
        let link = |_| Ok((reader.u16("member")?, Link::decode(reader)?));
        let links = (0..n).map(link).collect::<Result<Vec<_>, _>>()?;
        let ascend = links.is_sorted_by(|(a, one), (b, other)| (a, one.network) < (b, other.network));
        if !ascend || links.last().is_some_and(|(last, _)| usize::from(*last) >= members.len()) {
            return Err(reader.bad("links"));
        }
        Ok(Self { view, members, olds, links })
    }
}

impl Link {
    fn encode(self, head: &mut BytesMut) {
        head.put_u8(self.network);
        head.put_view_id(self.configuration);
        head.put_u8(self.before);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let network = reader.u8("network")?;
        Ok(Self { network, configuration: reader.view_id("configuration")?, before: reader.u8("before")? })
    }
}

impl OldView {
    fn decode(reader: &mut Reader<'_>, members: usize) -> Result<Self, Malformed> {
        let view = reader.view_id("old view")?;
        let hollow = flag(reader, "hollow")?;
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
        Ok(Self { view, hollow, from, entries })
    }
}

fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, Malformed> {
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.bad(what)),
    }
}

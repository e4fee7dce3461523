//! What every membership tells: whom it wants in the next view, and where it is. Each protocol has these among its packets,
//! with a kind byte of its own before them.
use crate::Clocks;
use crate::distance::{CLOCKS_LEN, ECHO_LEN};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{MemberId, NodeId, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{MEMBER_LEN, Malformed, Reader, Writer};
use std::collections::BTreeSet;

/// The largest view number that is believed: beyond it a packet is broken, and believing it would use up all numbers.
pub const NUMBER_MAX: u64 = 1 << 62;

/// The most bytes of annotation a beacon carries.
pub const ANNOTATION_MAX: usize = 64;

/// What a JOIN says: who its sender thinks should be in the next view, and who should not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
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
    /// For measuring the way. Few packets have any: the others shall not be as large.
    pub clocks: Box<Clocks>,
}

/// Says where the sender is and whom it hears, on the data path, in every state, under every load.
///
/// Bytes: flags 1 (bit 0 settled, bit 1 wants present), view 18, wants 18, counted members (10 each), counted heard (2
/// each), clocks (see [`Clocks`]), counted annotation, padding to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// The view it has installed.
    pub view: ViewId,
    /// That view's members.
    pub members: Vec<MemberId>,
    /// Whom it hears.
    pub heard: BTreeSet<NodeId>,
    /// The view its representative would like to merge with.
    pub wants: Option<ViewId>,
    /// Whether its view works, and it is not about to leave it.
    pub settled: bool,
    /// For measuring the way. Few packets have any: the others shall not be as large.
    pub clocks: Box<Clocks>,
    /// What the layer above wants carried.
    pub annotation: Bytes,
    /// Bytes added so that the beacon proves that full datagrams pass.
    pub padding: usize,
}

impl Proposal {
    /// Writes the counted lists: proc and fail (10 a member), heard (2 a node). Then the clocks.
    pub fn encode_lists(&self, head: &mut BytesMut) {
        head.put_members(&self.proc);
        head.put_members(&self.fail);
        head.put_nodes(&self.heard);
        self.clocks.encode(head);
    }

    /// Reads the lists, which are the last that a JOIN says; all else is left as by default.
    ///
    /// # Errors
    /// [`Malformed`] where they end early, do not ascend, or something follows.
    pub fn decode_lists(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let proc = reader.members("proc")?.into_iter().collect();
        let fail = reader.members("fail")?.into_iter().collect();
        let heard = reader.nodes("heard")?;
        let clocks = Box::new(Clocks::decode(&mut reader)?);
        reader.end("join")?;
        Ok(Self { proc, fail, heard, clocks, ..Self::default() })
    }
}

impl Beacon {
    /// Writes it behind the kind byte.
    pub fn encode(&self, head: &mut BytesMut) {
        head.put_u8(u8::from(self.settled) | u8::from(self.wants.is_some()) << 1);
        head.put_view_id(self.view);
        head.put_view_id(self.wants.unwrap_or_default());
        head.put_members(&self.members);
        head.put_nodes(&self.heard);
        self.clocks.encode(head);
        head.put_count(self.annotation.len());
        head.put_slice(&self.annotation);
        head.put_bytes(0, self.padding);
    }

    /// The bytes it takes without padding, the kind byte among them.
    pub fn bare_len(&self) -> usize {
        let clocks = CLOCKS_LEN + self.clocks.echoes.len() * ECHO_LEN;
        let lists = self.members.len() * MEMBER_LEN + self.heard.len() * 2 + self.annotation.len();
        8 + 2 * VIEW_ID_LEN + lists + clocks
    }

    /// Reads what stands behind the kind byte.
    ///
    /// # Errors
    /// [`Malformed`] where that is no beacon.
    pub fn decode(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let (settled, wanted) = flags(&mut reader)?;
        let view = reader.view_id("view")?;
        let wants = optional(&mut reader, wanted, "wants")?;
        let members = reader.members("members")?;
        let heard = reader.nodes("heard")?;
        let clocks = Box::new(Clocks::decode(&mut reader)?);
        let n = reader.count(1, "annotation")?;
        let annotation = Bytes::copy_from_slice(reader.take(n, "annotation")?);
        let padding = reader.rest();
        if view.number > NUMBER_MAX {
            return Err(reader.bad("number"));
        }
        if padding.iter().any(|byte| *byte != 0) {
            return Err(reader.bad("padding"));
        }
        Ok(Self { view, members, heard, wants, settled, clocks, annotation, padding: padding.len() })
    }
}

/// Reads a byte of two flags: bits 0 and 1.
///
/// # Errors
/// [`Malformed`] where it has others.
pub fn flags(reader: &mut Reader<'_>) -> Result<(bool, bool), Malformed> {
    let flags = reader.u8("flags")?;
    if flags > 3 { Err(reader.bad("flags")) } else { Ok((flags & 1 != 0, flags & 2 != 0)) }
}

/// Reads an optional view id: all zero where there is none, as its flag says.
///
/// # Errors
/// [`Malformed`] where flag and id disagree.
pub fn optional(reader: &mut Reader<'_>, present: bool, what: &'static str) -> Result<Option<ViewId>, Malformed> {
    let id = reader.view_id(what)?;
    match present {
        true => Ok(Some(id)),
        false if id == ViewId::default() => Ok(None),
        false => Err(reader.bad(what)),
    }
}

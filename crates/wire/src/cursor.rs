//! Reading and writing fields in order.
use crate::Malformed;
use bytes::{BufMut, BytesMut};
use consort_types::{MemberId, NodeId, ViewId};
use std::collections::BTreeSet;

/// Reads fields from the front; remembers how far it came, for errors.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! integers {
    ($($name:ident: $kind:ty),*) => { $(
        #[doc = concat!("Reads a big-endian `", stringify!($kind), "`.")]
        ///
        /// # Errors
        /// [`Malformed`] where the bytes end early.
        pub fn $name(&mut self, what: &'static str) -> Result<$kind, Malformed> {
            let mut raw = [0; size_of::<$kind>()];
            let taken = self.take(size_of::<$kind>(), what)?;
            raw.copy_from_slice(taken);
            Ok(<$kind>::from_be_bytes(raw))
        }
    )* };
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    integers!(u8: u8, u16: u16, u32: u32, u64: u64);

    /// Takes `n` bytes.
    ///
    /// # Errors
    /// [`Malformed`] where there are fewer.
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let taken = self.bytes.get(self.at..self.at.saturating_add(n)).ok_or(self.bad(what))?;
        self.at += n;
        Ok(taken)
    }

    /// Takes everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Reads a view's name.
    ///
    /// # Errors
    /// [`Malformed`] where the bytes end early.
    pub fn view_id(&mut self, what: &'static str) -> Result<ViewId, Malformed> {
        let number = self.u64(what)?;
        Ok(ViewId { number, representative: self.member(what)? })
    }

    /// Reads a count of items that take at least `item_len` bytes each, and checks that so many can follow: no list
    /// ever allocates more than its own bytes justify.
    ///
    /// # Errors
    /// [`Malformed`] where the count cannot be true.
    pub fn count(&mut self, item_len: usize, what: &'static str) -> Result<usize, Malformed> {
        let n = usize::from(self.u16(what)?);
        if n.saturating_mul(item_len.max(1)) > self.left() { Err(self.bad(what)) } else { Ok(n) }
    }

    /// Reads a counted list of members that ascend.
    ///
    /// # Errors
    /// [`Malformed`] where the bytes end early, or members do not ascend.
    pub fn members(&mut self, what: &'static str) -> Result<Vec<MemberId>, Malformed> {
        let n = self.count(crate::MEMBER_LEN, what)?;
        let members = (0..n).map(|_| self.member(what)).collect::<Result<Vec<_>, _>>()?;
        if members.is_sorted_by(|a, b| a < b) { Ok(members) } else { Err(self.bad(what)) }
    }

    /// Reads a counted list of nodes that ascend.
    ///
    /// # Errors
    /// [`Malformed`] where the bytes end early, or nodes do not ascend.
    pub fn nodes(&mut self, what: &'static str) -> Result<BTreeSet<NodeId>, Malformed> {
        let n = self.count(size_of::<u16>(), what)?;
        let nodes = (0..n).map(|_| self.u16(what).map(NodeId)).collect::<Result<Vec<_>, _>>()?;
        if nodes.is_sorted_by(|a, b| a < b) { Ok(nodes.into_iter().collect()) } else { Err(self.bad(what)) }
    }

    /// How many bytes are left.
    pub const fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// How many bytes were read.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Demands that nothing is left.
    ///
    /// # Errors
    /// [`Malformed`] where something is.
    pub fn end(&self, what: &'static str) -> Result<(), Malformed> {
        if self.left() == 0 { Ok(()) } else { Err(self.bad(what)) }
    }

    /// The error for a field that is wrong here.
    pub const fn bad(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }
}

/// Writes fields to the back of a buffer.
pub trait Writer {
    /// Writes one member.
    fn put_member(&mut self, member: MemberId);
    /// Writes a view's name.
    fn put_view_id(&mut self, id: ViewId);
    /// Writes a count for [`Reader::count`]. Lists never grow beyond 65,535 entries; a longer one is a bug here.
    fn put_count(&mut self, n: usize);
    /// Writes a counted list for [`Reader::members`].
    fn put_members<'a>(&mut self, members: impl IntoIterator<Item = &'a MemberId, IntoIter: ExactSizeIterator>);
    /// Writes a counted list for [`Reader::nodes`].
    fn put_nodes(&mut self, nodes: &BTreeSet<NodeId>);
}

impl Writer for BytesMut {
    fn put_member(&mut self, member: MemberId) {
        self.put_u16(member.node.0);
        self.put_u64(member.incarnation.0);
    }

    fn put_view_id(&mut self, id: ViewId) {
        self.put_u64(id.number);
        self.put_member(id.representative);
    }

    fn put_count(&mut self, n: usize) {
        debug_assert!(n <= usize::from(u16::MAX), "a list of {n} cannot be counted in 16 bits");
        self.put_u16(u16::try_from(n).unwrap_or(u16::MAX));
    }

    fn put_members<'a>(&mut self, members: impl IntoIterator<Item = &'a MemberId, IntoIter: ExactSizeIterator>) {
        let members = members.into_iter();
        self.put_count(members.len());
        members.for_each(|member| self.put_member(*member));
    }

    fn put_nodes(&mut self, nodes: &BTreeSet<NodeId>) {
        self.put_count(nodes.len());
        nodes.iter().for_each(|node| self.put_u16(node.0));
    }
}

/// The bytes of a [`ViewId`] on the wire.
pub const VIEW_ID_LEN: usize = 8 + crate::MEMBER_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_short_input_names_the_field() {
        let id = ViewId { number: 7, representative: MemberId::new(3, 99) };
        let mut out = BytesMut::new();
        out.put_view_id(id);
        out.put_count(1);
        out.put_u8(5);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.view_id("id"), Ok(id));
        assert_eq!(reader.count(1, "list"), Ok(1));
        assert_eq!(reader.u8("item"), Ok(5));
        assert_eq!(reader.end("packet"), Ok(()));
        assert_eq!(reader.u16("more"), Err(Malformed { what: "more", at: VIEW_ID_LEN + 3 }));
    }

    #[test]
    fn lists_ascend_or_are_refused() {
        let (low, high) = (MemberId::new(1, 9), MemberId::new(2, 4));
        let mut out = BytesMut::new();
        out.put_members([&low, &high]);
        out.put_nodes(&[NodeId(3), NodeId(5)].into());
        out.put_members([&high, &low]);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.members("members"), Ok(vec![low, high]));
        assert_eq!(reader.nodes("nodes"), Ok([NodeId(3), NodeId(5)].into()));
        assert_eq!(reader.members("descending"), Err(Malformed { what: "descending", at: out.len() }));
        assert!(Reader::new(&[0, 2, 0, 7, 0, 7]).nodes("twice").is_err());
    }

    #[test]
    fn a_count_that_cannot_be_true_is_refused_before_anything_is_allocated() {
        let mut reader = Reader::new(&[0xff, 0xff, 1, 2, 3]);
        assert_eq!(reader.count(8, "list"), Err(Malformed { what: "list", at: 2 }));
    }
}

//! What travels between the nodes.
//!
//! All packets begin with a kind byte. Lengths without the envelope:
//!
//! | kind | bytes | fields |
//! |---|---|---|
//! | 1 messages | 38 + body | flags, view, origin, seq, after, body |
//! | 2 orders | 48 + 10 a place | flags, view, origin, seq, after, first place, counted (origin, seq) |
//! | 3 primary | 38 | flags, view, origin, seq, after |
//! | 4 status | 30 + 8 a member | flags, view, sent, counted received |
//! | 5 request | 23 + 16 a run | view, origin, counted (first, last) |
//! | from 80 hex on | | the membership's: see [`vs::MembershipPacket`] |
//!
//! Flags of kinds 1 to 3: bit 0 marks a packet that was asked for. Of kind 4: bit 0 asks for the others' status.
use crate::pipeline::PacketKey;
use bytes::{BufMut, Bytes, BytesMut};
use consort_member::vs;
use consort_types::{NodeId, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::pack::Body;
use consort_wire::{Malformed, Reader, Writer};

const MESSAGES: u8 = 1;
const ORDERS: u8 = 2;
const PRIMARY: u8 = 3;
const STATUS: u8 = 4;
const REQUEST: u8 = 5;
/// The kinds of the membership begin here.
const MEMBERSHIP: u8 = 0x80;
const REPAIR: u8 = 1;
const ASKS: u8 = 1;
/// The bytes of a packet of messages before its body.
pub const DATA_LEN: usize = 2 + VIEW_ID_LEN + 2 + 8 + 8;
/// The bytes of one place.
const KEY_LEN: usize = 2 + 8;
/// The bytes of a request before its runs, and of one run.
const REQUEST_LEN: usize = 1 + VIEW_ID_LEN + 2 + 2;
const RUN_LEN: usize = 16;
/// The bytes of a status before its numbers, and of one number.
const STATUS_LEN: usize = 2 + VIEW_ID_LEN + 8 + 2;
const COUNT_LEN: usize = 8;
/// The most runs that one request asks for.
const RUNS_MAX: usize = 64;

/// How many places fit a packet of so many bytes.
pub const fn places_in(room: usize) -> usize {
    room.saturating_sub(DATA_LEN + 8 + 2) / KEY_LEN
}

/// How many runs a request of so many bytes may have.
pub fn runs_in(room: usize) -> usize {
    (room.saturating_sub(REQUEST_LEN) / RUN_LEN).min(RUNS_MAX)
}

/// How many members a status of so many bytes can tell of.
pub const fn members_in(room: usize) -> usize {
    room.saturating_sub(STATUS_LEN) / COUNT_LEN
}

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlatoPacket {
    /// The next one of a member's stream.
    Data(StreamPacket),
    /// How far its sender is.
    Status(StreamStatus),
    /// Asks for packets of a stream.
    Request(RetransmitRequest),
    /// The membership's.
    Membership(vs::MembershipPacket),
}

/// One packet of a member's stream in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPacket {
    /// The view.
    pub view: ViewId,
    /// Whose stream, and the how-manieth there.
    pub key: PacketKey,
    /// How many places its sender had delivered when it sent it.
    pub after: u64,
    /// Sent because it was asked for.
    pub repair: bool,
    /// What it carries.
    pub content: StreamContent,
}

/// What a packet of a stream carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamContent {
    /// Messages.
    Messages(Body),
    /// The next places of the order: only in the sequencer's stream.
    Orders {
        /// The place of the first, counted from 1.
        first: u64,
        /// Whose the places are.
        keys: Vec<PacketKey>,
    },
    /// All members installed the view: from its place on it is primary.
    Primary,
}

/// How far a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    /// The view.
    pub view: ViewId,
    /// How many packets it has sent.
    pub sent: u64,
    /// Whether it wants to know how far the others are.
    pub asks: bool,
    /// How many packets it holds of each member, by the view's order, without a gap.
    pub received: Vec<u64>,
}

/// Asks for packets of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetransmitRequest {
    /// The view.
    pub view: ViewId,
    /// Whose stream.
    pub origin: NodeId,
    /// First and last of each run.
    pub runs: Vec<(u64, u64)>,
}

impl PlatoPacket {
    /// The view it belongs to; none for the membership's.
    pub const fn view(&self) -> Option<ViewId> {
        match self {
            Self::Data(data) => Some(data.view),
            Self::Status(status) => Some(status.view),
            Self::Request(request) => Some(request.view),
            Self::Membership(_) => None,
        }
    }
}

impl consort_order::Packet for PlatoPacket {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Data(data) => return data.encode(head),
            Self::Status(status) => {
                head.put_u8(STATUS);
                head.put_u8(if status.asks { ASKS } else { 0 });
                head.put_view_id(status.view);
                head.put_u64(status.sent);
                head.put_count(status.received.len());
                status.received.iter().for_each(|count| head.put_u64(*count));
            }
            Self::Request(request) => {
                head.put_u8(REQUEST);
                head.put_view_id(request.view);
                head.put_u16(request.origin.0);
                head.put_count(request.runs.len());
                for (first, last) in &request.runs {
                    head.put_u64(*first);
                    head.put_u64(*last);
                }
            }
            Self::Membership(packet) => return packet.encode(head),
        }
        Bytes::new()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        match reader.u8("kind")? {
            kind @ (MESSAGES | ORDERS | PRIMARY) => StreamPacket::decode(kind, &bytes).map(Self::Data),
            STATUS => read_status(&mut reader).map(Self::Status),
            REQUEST => read_request(&mut reader).map(Self::Request),
            MEMBERSHIP.. => vs::MembershipPacket::decode(bytes).map(Self::Membership),
            _ => Err(Malformed { what: "kind", at: 0 }),
        }
    }
}

impl StreamPacket {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u8(match &self.content {
            StreamContent::Messages(_) => MESSAGES,
            StreamContent::Orders { .. } => ORDERS,
            StreamContent::Primary => PRIMARY,
        });
        head.put_u8(if self.repair { REPAIR } else { 0 });
        head.put_view_id(self.view);
        put_key(head, self.key);
        head.put_u64(self.after);
        match &self.content {
            StreamContent::Messages(body) => return body.as_bytes().clone(),
            StreamContent::Orders { first, keys } => {
                head.put_u64(*first);
                head.put_count(keys.len());
                keys.iter().for_each(|key| put_key(head, *key));
            }
            StreamContent::Primary => {}
        }
        Bytes::new()
    }

    fn decode(kind: u8, bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        reader.u8("kind")?;
        let flags = reader.u8("flags")?;
        if flags & !REPAIR != 0 {
            return Err(reader.bad("flags"));
        }
        let (view, key) = (reader.view_id("view")?, read_key(&mut reader)?);
        let after = reader.u64("after")?;
        let content = match kind {
            MESSAGES => {
                let at = reader.at();
                let body = Body::new(bytes.slice(at..));
                StreamContent::Messages(body.map_err(|error| Malformed { at: error.at + at, ..error })?)
            }
            ORDERS => {
                let first = reader.u64("first place")?;
                let count = reader.count(KEY_LEN, "places")?;
                let keys = (0..count).map(|_| read_key(&mut reader)).collect::<Result<_, _>>()?;
                reader.end("end of orders")?;
                StreamContent::Orders { first, keys }
            }
            _ => {
                reader.end("end of primary")?;
                StreamContent::Primary
            }
        };
        Ok(Self { view, key, after, repair: flags & REPAIR != 0, content })
    }

    /// About how many bytes it keeps.
    pub const fn weight(&self) -> usize {
        DATA_LEN
            + match &self.content {
                StreamContent::Messages(body) => body.as_bytes().len(),
                StreamContent::Orders { keys, .. } => keys.len() * KEY_LEN,
                StreamContent::Primary => 0,
            }
    }
}

fn put_key(head: &mut BytesMut, key: PacketKey) {
    head.put_u16(key.origin.0);
    head.put_u64(key.seq);
}

fn read_key(reader: &mut Reader<'_>) -> Result<PacketKey, Malformed> {
    let origin = NodeId(reader.u16("origin")?);
    let seq = reader.u64("seq")?;
    if seq == 0 { Err(reader.bad("seq")) } else { Ok(PacketKey { origin, seq }) }
}

fn read_status(reader: &mut Reader<'_>) -> Result<StreamStatus, Malformed> {
    let flags = reader.u8("flags")?;
    if flags & !ASKS != 0 {
        return Err(reader.bad("flags"));
    }
    let (view, sent) = (reader.view_id("view")?, reader.u64("sent")?);
    let count = reader.count(8, "received")?;
    let received = (0..count).map(|_| reader.u64("received")).collect::<Result<_, _>>()?;
    reader.end("end of status")?;
    Ok(StreamStatus { view, sent, asks: flags & ASKS != 0, received })
}

fn read_request(reader: &mut Reader<'_>) -> Result<RetransmitRequest, Malformed> {
    let (view, origin) = (reader.view_id("view")?, NodeId(reader.u16("origin")?));
    let count = reader.count(RUN_LEN, "runs")?;
    let runs = (0..count).map(|_| {
        let (first, last) = (reader.u64("first")?, reader.u64("last")?);
        if first == 0 || last < first { Err(reader.bad("run")) } else { Ok((first, last)) }
    });
    let runs = runs.collect::<Result<_, _>>()?;
    reader.end("end of request")?;
    Ok(RetransmitRequest { view, origin, runs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_order::Packet as _;
    use consort_types::{Class, MemberId, Service};
    use consort_wire::pack::OutgoingMessage;

    fn view() -> ViewId {
        ViewId { number: 7, representative: MemberId::new(1, 17) }
    }

    const fn key(origin: u16, seq: u64) -> PacketKey {
        PacketKey { origin: NodeId(origin), seq }
    }

    fn every_packet() -> Vec<PlatoPacket> {
        let mut body = BytesMut::new();
        let text = Bytes::from_static(b"hello");
        assert!(OutgoingMessage::new(Class::Client, Service::Safe, text.into()).pack(&mut body, 100));
        let messages = StreamContent::Messages(Body::new(body.freeze()).unwrap());
        let data = |content, repair| {
            PlatoPacket::Data(StreamPacket { view: view(), key: key(3, 9), after: 7, repair, content })
        };
        vec![
            data(messages, true),
            data(StreamContent::Orders { first: 12, keys: vec![key(1, 4), key(3, 1)] }, false),
            data(StreamContent::Primary, false),
            PlatoPacket::Status(StreamStatus { view: view(), sent: 3, asks: true, received: vec![1, 2, u64::MAX] }),
            PlatoPacket::Status(StreamStatus { view: view(), sent: 0, asks: false, received: vec![] }),
            PlatoPacket::Request(RetransmitRequest { view: view(), origin: NodeId(4), runs: vec![(1, 1), (5, 9)] }),
        ]
    }

    fn written(packet: &PlatoPacket) -> Bytes {
        let mut head = BytesMut::new();
        let rest = packet.encode(&mut head);
        head.extend_from_slice(&rest);
        head.freeze()
    }

    #[test]
    fn every_packet_reads_back_and_no_mutation_panics() {
        for packet in every_packet() {
            let bytes = written(&packet);
            assert_eq!(packet.view(), Some(view()));
            assert_eq!(PlatoPacket::decode(bytes.clone()), Ok(packet));
            consort_wire::mutate::each(&bytes, 3_000, |bytes| drop(PlatoPacket::decode(Bytes::copy_from_slice(bytes))));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_field() {
        let named = |packet: &PlatoPacket, at: usize, value: u8| {
            let mut bytes = written(packet).to_vec();
            bytes[at] = value;
            PlatoPacket::decode(bytes.into()).unwrap_err().what
        };
        let [messages, orders, primary, status, _, request] = <[PlatoPacket; 6]>::try_from(every_packet()).unwrap();
        assert_eq!(named(&messages, 0, 77), "kind");
        assert_eq!(named(&messages, 1, 2), "flags");
        assert_eq!(named(&status, 1, 2), "flags");
        assert_eq!(named(&primary, DATA_LEN - 9, 0), "seq");
        assert_eq!(named(&orders, DATA_LEN + 9, 9), "places");
        assert_eq!(named(&request, 1 + VIEW_ID_LEN + 2 + 2 + 7, 0), "run");
        let longer = [&written(&primary)[..], b"x"].concat();
        assert_eq!(PlatoPacket::decode(longer.into()).unwrap_err().what, "end of primary");
        assert_eq!(PlatoPacket::decode(Bytes::new()).unwrap_err().what, "kind");
    }

    #[test]
    fn what_fits_a_packet_is_counted_to_the_byte() {
        let view = view();
        let orders = |n| StreamContent::Orders { first: 1, keys: vec![key(1, 1); n] };
        let data =
            |n| PlatoPacket::Data(StreamPacket { view, key: key(1, 1), after: 0, repair: false, content: orders(n) });
        let request = |n| PlatoPacket::Request(RetransmitRequest { view, origin: NodeId(1), runs: vec![(1, 1); n] });
        let status = |n| PlatoPacket::Status(StreamStatus { view, sent: 0, asks: false, received: vec![0; n] });
        let ends = |most: usize, of: &dyn Fn(usize) -> PlatoPacket| {
            written(&of(most)).len() <= 520 && written(&of(most + 1)).len() > 520
        };
        assert!(ends(places_in(520), &data) && ends(runs_in(520), &request) && ends(members_in(520), &status));
        assert_eq!(runs_in(9_000), RUNS_MAX);
    }

    #[test]
    fn the_length_that_packing_counts_on_is_the_length_written() {
        let packet = &every_packet()[0];
        assert_eq!(written(packet).len(), DATA_LEN + 4 + 5);
        for packet in every_packet() {
            if let PlatoPacket::Data(data) = &packet {
                assert!(written(&packet).len() <= data.weight() + 10);
            }
        }
    }
}

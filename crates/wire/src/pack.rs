//! Packing and fragmentation. A packet's body is a run of *chunks*; a chunk is a whole message or a piece of one.
//!
//! Messages are laid behind each other like a stream of bytes and cut where a packet is full, so that all packets of one
//! visit but the last have equal size (what segmentation offload wants) and one packet is one datagram. A message larger
//! than a packet is cut the same way; there is no other fragmentation.
//!
//! | size | field |
//! |---|---|
//! | 4 | bit 31 first, bit 30 last, bit 29 control, bits 28-26 service, bits 25-0 length of the piece |
//! | 4 | length of the whole message; only where first and not last |
//! | … | the piece |
use crate::copy::append;
use crate::{Malformed, Payload, Reader};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{Class, Service};

const FIRST: u32 = 1 << 31;
const LAST: u32 = 1 << 30;
const CONTROL: u32 = 1 << 29;
const SERVICE_SHIFT: u32 = 26;
const LEN_MASK: u32 = (1 << SERVICE_SHIFT) - 1;

/// The bytes before a piece that is a whole message or a later piece of one.
pub const CHUNK_LEN: usize = 4;
/// The bytes before the first piece of a message that was cut.
pub const FIRST_CHUNK_LEN: usize = 8;
/// The largest message that the format can carry.
pub const LARGEST: usize = LEN_MASK as usize;

/// A message on its way into packets.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// Whose queue it came from.
    pub class: Class,
    /// What the sender asked for.
    pub service: Service,
    /// All its bytes.
    pub payload: Payload,
    /// How many of them are in packets already.
    pub sent: usize,
    begun: bool,
}

impl OutgoingMessage {
    /// A message of which nothing is packed yet.
    pub const fn new(class: Class, service: Service, payload: Payload) -> Self {
        Self { class, service, payload, sent: 0, begun: false }
    }

    /// Whether a first piece has left.
    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Makes as if nothing had been packed: the whole message will be sent anew.
    pub const fn restart(&mut self) {
        self.sent = 0;
        self.begun = false;
    }

    /// Packs as much as fits into `room` more bytes of `body`; returns true once the whole message is packed. Packs
    /// nothing where not even one byte of it would fit.
    pub fn pack(&mut self, body: &mut BytesMut, room: usize) -> bool {
        let left = self.payload.len() - self.sent;
        let whole = CHUNK_LEN + left <= room;
        let header = if self.begun || whole { CHUNK_LEN } else { FIRST_CHUNK_LEN };
        if !whole && room <= header {
            return false;
        }
        let len = if whole { left } else { left.min(room - header) };
        self.put_header(body, len, whole);
        self.payload.for_each(self.sent, len, |part| append(body, part));
        self.sent += len;
        self.begun = true;
        whole
    }

    fn put_header(&self, body: &mut BytesMut, len: usize, last: bool) {
        let mut word = len as u32 | (self.service as u32) << SERVICE_SHIFT;
        if !self.begun {
            word |= FIRST;
        }
        if last {
            word |= LAST;
        }
        if self.class == Class::Control {
            word |= CONTROL;
        }
        body.put_u32(word);
        if !self.begun && !last {
            body.put_u32(self.payload.len() as u32);
        }
    }
}

/// One piece, with its bytes shared from the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Whose queue it came from; control and client messages are put together apart.
    pub class: Class,
    /// What the sender asked for the message.
    pub service: Service,
    /// Set on a message's first piece: the length of the whole.
    pub begins: Option<usize>,
    /// Whether the message is complete with this piece.
    pub ends: bool,
    /// The piece.
    pub bytes: Bytes,
}

/// A packet body whose chunks were all checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body(Bytes);

impl Body {
    /// Checks that `bytes` are whole chunks of messages of at most [`LARGEST`] bytes, and at least one.
    ///
    /// # Errors
    /// [`Malformed`] says which field is wrong.
    pub fn new(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        if bytes.is_empty() {
            return Err(reader.bad("empty body"));
        }
        while reader.left() > 0 {
            read_header(&mut reader).and_then(|header| reader.take(header.len, "chunk"))?;
        }
        Ok(Self(bytes))
    }

    /// The same in memory that holds nothing else: what is kept for long must not keep the chunk that it came in.
    pub fn in_its_own_memory(&self) -> Self {
        let mut copy = BytesMut::with_capacity(self.0.len());
        append(&mut copy, &self.0);
        Self(copy.freeze())
    }

    /// The bytes as they travel.
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The chunk that starts at byte `at`, and where the next one starts. `None` at the end.
    pub fn chunk_at(&self, at: usize) -> Option<(Chunk, usize)> {
        let mut reader = Reader::new(self.0.get(at..)?);
        let header = read_header(&mut reader).ok()?;
        let start = at + reader.at();
        let end = start + header.len;
        let chunk = Chunk {
            class: header.class,
            service: header.service,
            begins: header.begins,
            ends: header.ends,
            bytes: self.0.slice(start..end),
        };
        Some((chunk, end))
    }

    /// All chunks in order.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (chunk, next) = self.chunk_at(at)?;
            at = next;
            Some(chunk)
        })
    }

    /// Whether the messages in it asked for safe delivery. A packet never mixes safe and other messages.
    pub fn is_safe(&self) -> bool {
        read_header(&mut Reader::new(&self.0)).is_ok_and(|header| header.service == Service::Safe)
    }
}

struct Header {
    class: Class,
    service: Service,
    begins: Option<usize>,
    ends: bool,
    len: usize,
}

fn read_header(reader: &mut Reader<'_>) -> Result<Header, Malformed> {
    let word = reader.u32("chunk header")?;
    let len = (word & LEN_MASK) as usize;
    let service = Service::from_wire((word >> SERVICE_SHIFT) as u8 & 7).ok_or(reader.bad("service"))?;
    let (first, ends) = (word & FIRST != 0, word & LAST != 0);
    let begins = match (first, ends) {
        (true, true) => Some(len),
        (true, false) => Some(whole_len(reader, len)?),
        (false, _) => None,
    };
    let class = if word & CONTROL != 0 { Class::Control } else { Class::Client };
    Ok(Header { class, service, begins, ends, len })
}

fn whole_len(reader: &mut Reader<'_>, piece: usize) -> Result<usize, Malformed> {
    let whole = reader.u32("message length")? as usize;
    if whole > LARGEST || whole <= piece { Err(reader.bad("message length")) } else { Ok(whole) }
}

/// A complete message, put together from its pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssembledMessage {
    /// Whose queue it came from.
    pub class: Class,
    /// What the sender asked for.
    pub service: Service,
    /// Its bytes.
    pub payload: Payload,
}

/// Puts one sender's pieces together, in the order in which they were sent. Control and client messages may be cut
/// into each other; two of one class never are.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    control: Option<Partial>,
    client: Option<Partial>,
}

#[derive(Clone, Debug)]
struct Partial {
    whole: usize,
    payload: Payload,
}

impl Assembly {
    /// Takes the next piece and returns the message that it completes.
    ///
    /// # Errors
    /// [`Malformed`] where a piece does not continue what came before; what was begun is given up.
    pub fn push(&mut self, chunk: Chunk) -> Result<Option<AssembledMessage>, Malformed> {
        let place = match chunk.class {
            Class::Control => &mut self.control,
            Class::Client => &mut self.client,
        };
        let mut partial = match (place.take(), chunk.begins) {
            (None, Some(whole)) => Partial { whole, payload: Payload::new() },
            (Some(partial), None) => partial,
            _ => return Err(Malformed { what: "order of pieces", at: 0 }),
        };
        partial.payload.push(chunk.bytes);
        let len = partial.payload.len();
        if len > partial.whole || chunk.ends != (len == partial.whole) {
            return Err(Malformed { what: "length of pieces", at: 0 });
        }
        if !chunk.ends {
            *place = Some(partial);
            return Ok(None);
        }
        Ok(Some(AssembledMessage { class: chunk.class, service: chunk.service, payload: partial.payload }))
    }

    /// The bytes held of messages that are not complete.
    pub fn held(&self) -> usize {
        [&self.control, &self.client].into_iter().flatten().map(|partial| partial.payload.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    fn message(rng: &mut Rng, max: u64) -> OutgoingMessage {
        let bytes: Vec<u8> = (0..rng.below(max)).map(|_| rng.next_u64() as u8).collect();
        let class = if rng.chance(0.1) { Class::Control } else { Class::Client };
        OutgoingMessage::new(class, Service::ALL[rng.below(5) as usize], Bytes::from(bytes).into())
    }

    fn pack_all(messages: &mut [OutgoingMessage], room: usize) -> Vec<Body> {
        let mut bodies = Vec::new();
        let mut body = BytesMut::new();
        for message in messages {
            while {
                let left = room - body.len();
                !message.pack(&mut body, left)
            } {
                bodies.push(Body::new(body.split().freeze()).unwrap());
            }
        }
        if !body.is_empty() {
            bodies.push(Body::new(body.freeze()).unwrap());
        }
        bodies
    }

    #[test]
    fn any_messages_in_any_room_come_out_whole_and_packets_are_full() {
        let mut rng = Rng::new(1);
        for _ in 0..300 {
            let room = rng.between(9, 600) as usize;
            let mut messages: Vec<_> = (0..rng.between(1, 20)).map(|_| message(&mut rng, 2_000)).collect();
            let bodies = pack_all(&mut messages, room);
            let last = bodies.len() - 1;
            assert!(bodies[..last].iter().all(|b| room - b.as_bytes().len() <= FIRST_CHUNK_LEN));
            let mut assembly = Assembly::default();
            let chunks = bodies.iter().flat_map(|body| body.chunks().collect::<Vec<_>>());
            let got: Vec<_> = chunks.filter_map(|chunk| assembly.push(chunk).unwrap()).collect();
            let sent = messages.into_iter().map(|m| AssembledMessage {
                class: m.class,
                service: m.service,
                payload: m.payload,
            });
            assert_eq!(got, sent.collect::<Vec<_>>());
            assert_eq!(assembly.held(), 0);
        }
    }

    #[test]
    fn a_body_in_its_own_memory_keeps_nothing_else() {
        let body = pack_all(&mut [message(&mut Rng::new(2), 500)], 600).remove(0);
        let chunk = Bytes::from([&[1; 1_000], body.as_bytes().as_ref(), &[2; 1_000]].concat());
        let cut = Body::new(chunk.slice(1_000..1_000 + body.as_bytes().len())).unwrap();
        let own = cut.in_its_own_memory();
        drop(cut);
        assert!(own == body && chunk.is_unique());
    }

    #[test]
    fn sixteen_mebibytes_pass_through_the_smallest_datagram() {
        let bytes = Bytes::from(vec![7; crate::MESSAGE_MAX]);
        let mut messages = [OutgoingMessage::new(Class::Client, Service::Safe, bytes.clone().into())];
        let bodies = pack_all(&mut messages, 400);
        let mut assembly = Assembly::default();
        let mut whole = None;
        for body in &bodies {
            assert!(body.is_safe());
            body.chunks().for_each(|chunk| whole = assembly.push(chunk).unwrap());
        }
        assert_eq!(whole.unwrap().payload.to_bytes(), bytes);
    }

    #[test]
    fn control_messages_may_stand_between_the_pieces_of_a_client_message() {
        let mut assembly = Assembly::default();
        let piece = |class, begins, ends, bytes| Chunk {
            class,
            service: Service::Agreed,
            begins,
            ends,
            bytes: Bytes::from_static(bytes),
        };
        assert_eq!(assembly.push(piece(Class::Client, Some(4), false, b"ab")), Ok(None));
        let control = assembly.push(piece(Class::Control, Some(1), true, b"!")).unwrap().unwrap();
        assert_eq!(&control.payload.to_bytes()[..], b"!");
        assert_eq!(assembly.held(), 2);
        let client = assembly.push(piece(Class::Client, None, true, b"cd")).unwrap().unwrap();
        assert_eq!(&client.payload.to_bytes()[..], b"abcd");
        assert!(assembly.push(piece(Class::Client, None, true, b"x")).is_err(), "a piece of nothing");
        assert_eq!(assembly.push(piece(Class::Client, Some(4), false, b"ab")), Ok(None));
        assert!(assembly.push(piece(Class::Client, None, true, b"c")).is_err(), "too short at its end");
        assert_eq!(assembly.held(), 0);
    }

    #[test]
    fn no_mutation_panics_and_what_is_accepted_reads_back() {
        let mut rng = Rng::new(2);
        let mut messages: Vec<_> = (0..5).map(|_| message(&mut rng, 300)).collect();
        for body in pack_all(&mut messages, 200) {
            crate::mutate::each(body.as_bytes(), 3_000, |bytes| {
                let Ok(body) = Body::new(Bytes::copy_from_slice(bytes)) else { return };
                let mut assembly = Assembly::default();
                let total: usize = body.chunks().map(|chunk| chunk.bytes.len()).sum();
                assert!(total <= bytes.len());
                body.chunks().for_each(|chunk| drop(assembly.push(chunk)));
                assert!(assembly.held() <= total);
            });
        }
    }
}

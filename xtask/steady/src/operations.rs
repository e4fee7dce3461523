//! What is counted: each operation is a function of this module, called from outside and never inlined, so that a profiler
//! finds it by its name.
use crate::World;
use crate::world::identity;
use bytes::{Bytes, BytesMut};
use consort_order::{Arrival, Engine, Lane, Packet as _};
use consort_ring::Ring;
use consort_ring::packet::{DataPacket, RingPacket, Token};
use consort_types::{Instant, NodeId};
use consort_wire::{Identity, envelope};
use std::hint::black_box;

/// More than the fields of a packet take.
const HEAD: usize = 512;

/// The engine takes a token, decides what to send and passes the token on; nothing of it is put into bytes.
#[inline(never)]
pub fn token(ring: &mut Ring, now: Instant, arrival: Arrival, token: Token) {
    ring.handle_packet(now, arrival, RingPacket::Token(token));
}

/// The engine takes a packet of messages.
#[inline(never)]
pub fn data(ring: &mut Ring, now: Instant, arrival: Arrival, data: DataPacket) {
    ring.handle_packet(now, arrival, RingPacket::Data(data));
}

/// A node takes a token's datagram and does all that follows, up to the datagrams it sends.
#[inline(never)]
pub fn visit(world: &mut World, at: usize, bytes: Bytes) {
    world.arrive(at, bytes);
    world.drain(at);
}

/// After a packet of messages: its messages get their places and become what the client reads.
#[inline(never)]
pub fn deliver(world: &mut World, at: usize) {
    world.drain(at);
}

/// One write of a client is read, checked and handed to the engine.
#[inline(never)]
pub fn request(world: &mut World, at: usize, said: Bytes) {
    world.say(at, said);
}

/// A packet of messages becomes a datagram.
#[inline(never)]
pub fn encode_data(sender: &Identity, head: &mut BytesMut, packet: &RingPacket) -> Bytes {
    seal(sender, Lane::Data, head, packet)
}

/// A token becomes a datagram.
#[inline(never)]
pub fn encode_token(sender: &Identity, head: &mut BytesMut, packet: &RingPacket) -> Bytes {
    seal(sender, Lane::Token, head, packet)
}

/// A datagram becomes a packet of messages.
#[inline(never)]
pub fn decode_data(receiver: &Identity, bytes: Bytes) -> Option<DataPacket> {
    match open(receiver, bytes)? {
        RingPacket::Data(data) => Some(data),
        _ => None,
    }
}

/// A datagram becomes a token.
#[inline(never)]
pub fn decode_token(receiver: &Identity, bytes: Bytes) -> Option<Token> {
    match open(receiver, bytes)? {
        RingPacket::Token(token) => Some(token),
        _ => None,
    }
}

#[inline(always)]
fn seal(sender: &Identity, lane: Lane, head: &mut BytesMut, packet: &RingPacket) -> Bytes {
    envelope::reserve(head);
    let body = packet.encode(head);
    envelope::seal(sender, lane, head, &body);
    body
}

#[inline(always)]
fn open(receiver: &Identity, bytes: Bytes) -> Option<RingPacket> {
    let (_, packet) = envelope::open(receiver, bytes).ok()?;
    RingPacket::decode(packet).ok()
}

/// Reads these datagrams as their receivers do and writes them again.
///
/// # Panics
/// If one of them does not read back.
pub fn codecs(datagrams: &[(NodeId, Lane, Bytes)]) {
    let mut head = BytesMut::with_capacity(HEAD);
    for (sender, lane, bytes) in datagrams {
        head.clear();
        let (sender, receiver) = (identity(*sender), identity(NodeId(sender.0 + 1)));
        match lane {
            Lane::Data => {
                let Some(data) = decode_data(&receiver, bytes.clone()) else { continue };
                let body = encode_data(&sender, &mut head, &RingPacket::Data(data));
                assert_eq!(black_box(head.len() + body.len()), bytes.len(), "{bytes:?}");
            }
            Lane::Token => {
                let Some(token) = decode_token(&receiver, bytes.clone()) else { continue };
                let body = encode_token(&sender, &mut head, &RingPacket::Token(token));
                assert_eq!(black_box(head.len() + body.len()), bytes.len(), "{bytes:?}");
            }
            Lane::Control | Lane::Reliable => {}
        }
    }
}

/// The traffic whose instructions are counted, and nothing before or after it.
#[inline(never)]
pub fn steady(world: &mut World, traffic: &crate::Traffic, rounds: usize) {
    world.tap();
    world.rounds(traffic, rounds);
    codecs(&world.tapped());
}

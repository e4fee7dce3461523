//! A whole node whose client and whose only peer are the fuzzer.
use crate::{member, pieces, ring};
use bytes::{Bytes, BytesMut};
use consort_node::{ClientId, Effect, Identity, Instant, Limits, Node};
use consort_ring::Ring;
use consort_session::Hello;
use consort_types::{ClusterId, ConfigHash, Duration};
use consort_wire::{Lane, envelope};

const CLIENT: ClientId = ClientId(1);

/// Does what a driver does until nothing is left to do, and returns the time of the next wake-up.
fn drain(node: &mut Node<Ring>, now: Instant) -> Option<Instant> {
    while let Some(effect) = node.poll_effect() {
        match effect {
            Effect::Persist { ticket, .. } => node.handle_persisted(now, ticket),
            Effect::Close { client } => node.close_client(now, client),
            _ => {}
        }
    }
    while let Some(client) = node.poll_writable() {
        node.client_written(now, client, node.client_output(client).len());
    }
    node.poll_timeout()
}

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let identity = |node| Identity { cluster: ClusterId(1), config: ConfigHash(2), me: member(node) };
    let mut now = Instant::ZERO;
    let mut node = Node::new(identity(1), ring(1, 2), Limits::default());
    node.start(now, &[]);
    node.open_client(now, CLIENT);
    let mut hello = BytesMut::new();
    Hello::default().put(&mut hello);
    let _ = node.handle_client(now, CLIENT, hello.freeze());
    for piece in pieces(bytes) {
        match piece.split_first() {
            Some((kind, body)) if kind % 2 == 0 => drop(node.handle_client(now, CLIENT, Bytes::copy_from_slice(body))),
            Some((kind, body)) => {
                let mut datagram = BytesMut::new();
                envelope::reserve(&mut datagram);
                let lane = Lane::from_wire(kind / 2 % 4).unwrap_or(Lane::Data);
                envelope::seal(&identity(2), lane, &mut datagram, body);
                datagram.extend_from_slice(body);
                node.handle_datagram(now, now, datagram.freeze());
            }
            None => now += Duration::from_millis(20),
        }
        if drain(&mut node, now).is_some_and(|at| at <= now) {
            node.handle_timeout(now);
            drain(&mut node, now);
        }
    }
}

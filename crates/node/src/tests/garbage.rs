//! Bytes of chance at both listeners of a node that serves others meanwhile.
use super::*;
use consort_types::Rng;

/// Clients that send garbage are numbered from here on.
const STRAY: u32 = 1 << 20;
const STREAMS: u32 = 10_000;

/// A native client's session, as one stream.
fn native(world: &mut World) -> Vec<u8> {
    let mut out = BytesMut::new();
    Hello { name: ClientName::new(b"stray"), wants_views: true, ..Hello::default() }.put(&mut out);
    let at = world.connect(0, "model");
    world.client(at).join(&group("room")).unwrap();
    world.multicast(at, &["room", "else"], "hello");
    world.client(at).leave(&group("room")).unwrap();
    out.extend_from_slice(world.client(at).output());
    world.vanish(at);
    out.to_vec()
}

/// A Spread client's.
fn spread() -> Vec<u8> {
    let client = spread_client::Client::new("#stray#n0");
    let mut hello = b"\x05\x00\x01\x01\x05strayNULL".to_vec();
    hello.resize(10 + 90, 0);
    let (join, leave, kill) = (0x1_0000, 0x2_0000, 0x4_0000);
    [
        hello,
        client.frame(join, &["room"], 0, b""),
        client.frame(0x10, &["room", "else"], 7, b"hello"),
        client.frame(leave, &["room"], 0, b""),
        client.frame(kill, &["#stray#n0"], 0, b""),
    ]
    .concat()
}

struct Garbage {
    world: World,
    rng: Rng,
    good: [usize; 2],
    streams: u32,
}

impl Garbage {
    /// One connection that says this in up to three pieces, reads what it is told, and ends.
    fn play(&mut self, listener: u32, bytes: &[u8]) {
        let world = &mut self.world;
        self.streams += 1;
        let client = ClientId(listener | (STRAY + self.streams));
        world.nodes[0].open_client(world.now, client);
        for piece in bytes.chunks(bytes.len() / self.rng.between(1, 3) as usize + 1) {
            let reading = world.nodes[0].handle_client(world.now, client, Bytes::copy_from_slice(piece));
            world.drain(0);
            world.carry();
            let told = world.nodes[0].client_output(client).len();
            world.nodes[0].client_written(world.now, client, told);
            if reading == Reading::Pause {
                break;
            }
        }
        world.nodes[0].close_client(world.now, client);
        world.drain(0);
        if self.streams.is_multiple_of(500) {
            self.check();
        }
    }

    /// Others are still served.
    fn check(&mut self) {
        let [here, there] = self.good;
        let word = format!("after {}", self.streams);
        self.world.multicast(here, &["room"], &word);
        self.world.settle();
        for at in [here, there] {
            let last = self.world.programs[at].events.iter().rev().find_map(|event| match event {
                DaemonEvent::Message(message) => Some(message.payload().to_vec()),
                _ => None,
            });
            assert_eq!(last, Some(word.clone().into_bytes()));
        }
    }
}

/// Ten thousand sessions with wrong bytes in them, and ten thousand that are nothing but chance.
fn play_all(listener: u32, good: &[u8], mut garbage: Garbage) {
    consort_wire::mutate::each(good, STREAMS, |bytes| garbage.play(listener, bytes));
    for _ in 0..STREAMS {
        let bytes: Vec<_> = (0..garbage.rng.below(300)).map(|_| garbage.rng.next_u64() as u8).collect();
        garbage.play(listener, &bytes);
    }
    garbage.check();
    assert!(garbage.streams >= 2 * STREAMS);
    let members = garbage.world.nodes[1].groups().members(b"room").unwrap();
    assert_eq!(members.len(), 2, "whoever came is gone again");
    assert!(garbage.world.programs.iter().all(|program| !program.paused));
    assert_eq!(garbage.world.counter(0, "ordered_malformed"), 0);
}

fn stage() -> Garbage {
    let mut world = World::new(2, Limits::default());
    let good = [world.connect(0, "ann"), world.connect(1, "bob")];
    good.iter().for_each(|at| world.join(*at, "room"));
    Garbage { world, rng: Rng::new(4840), good, streams: 0 }
}

#[test]
fn ten_thousand_streams_of_garbage_at_the_native_listener_disturb_nobody() {
    let mut garbage = stage();
    let good = native(&mut garbage.world);
    play_all(0, &good, garbage);
}

#[test]
fn ten_thousand_streams_of_garbage_at_the_spread_listener_disturb_nobody() {
    //= S40 test
    play_all(ClientId::SPREAD, &spread(), stage());
}

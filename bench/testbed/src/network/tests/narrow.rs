//! Real daemons between which something swallows large frames and does not say so.
use super::*;
use crate::network::directory;
use crate::network::process::Process;
use crate::network::program::{Program, Settings, program_for_tests};
use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};

const NODES: usize = 3;
/// The node behind the narrow way; the two others are not.
const BEHIND: usize = 2;
const LONGEST: usize = 1_000;
const VANISH: &str = "large datagrams vanish on the way to the node";
const WHOLE: &str = "datagrams of every size pass to the node again";
/// For what takes seconds on an idle machine.
const LONG: Duration = Duration::from_secs(40);

/// Daemons at the nodes of a network, and a client of each.
struct Fleet {
    clients: Vec<Client>,
    daemons: Vec<Process>,
    program: Program,
    network: Network,
    group: GroupName,
    _place: tempfile::TempDir,
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_true() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Fleet {
    /// Starts daemons with these settings, over links that take frames of so many bytes to the node behind.
    fn start(head: &str, mtu: usize, frame_max: usize) -> Option<Self> {
        let network = network_of(NODES, mtu)?;
        let place = directory("consort-narrow-").unwrap();
        let settings = Settings { nodes: NODES, head: head.into(), sections: String::new() };
        let program = Program::new(program_for_tests().unwrap(), place.path(), &settings).unwrap();
        let group = GroupName::new(b"narrow").unwrap();
        let mut fleet = Self { clients: Vec::new(), daemons: Vec::new(), program, network, group, _place: place };
        fleet.take_frames_up_to(frame_max);
        fleet.daemons = (0..NODES).map(|node| fleet.program.daemon(&fleet.network, node).unwrap()).collect();
        for node in 0..NODES {
            wait_for("a daemon serves clients", || fleet.program.serves(node));
            fleet.clients.push(fleet.client(node));
        }
        Some(fleet)
    }

    fn client(&self, node: usize) -> Client {
        Client::connect(&Address::Unix(self.program.socket_path(node)), &ConnectOptions::default()).unwrap()
    }

    fn take_frames_up_to(&self, frame_max: usize) {
        for from in (0..NODES).filter(|from| *from != BEHIND) {
            self.network.set(from, BEHIND, &LinkModel { frame_max, ..LinkModel::default() }).unwrap();
        }
    }

    /// What a daemon tells of itself by that name.
    fn told(&self, node: usize, key: &str) -> String {
        let status = self.client(node).status(PATIENCE).unwrap();
        status.get(key).unwrap_or_default().to_owned()
    }

    fn views(&self) -> Vec<String> {
        (0..NODES).map(|node| self.told(node, "view")).collect()
    }

    fn await_one_view(&self) {
        wait_for("all are in one view", || {
            let all = |node| self.told(node, "members").split_whitespace().count() == NODES;
            (0..NODES).all(all) && self.views().windows(2).all(|two| two[0] == two[1])
        });
    }

    /// Both nodes before the narrow way say this.
    fn await_said(&self, words: &str) {
        wait_for(words, || self.daemons[..BEHIND].iter().all(|daemon| daemon.has_said(words)));
    }

    fn join(&mut self) {
        for client in &mut self.clients {
            client.join(&self.group).unwrap();
            client.wait_ordered(LONG).unwrap();
        }
    }

    /// All send messages of many lengths at once, large and small; all must read them all, in one order.
    fn exchange(&mut self, each: u8) {
        let (total, mut orders) = (usize::from(each) * NODES, vec![Vec::new(); NODES]);
        for number in 0..each {
            for (node, (client, order)) in self.clients.iter_mut().zip(&mut orders).enumerate() {
                let message = [vec![node as u8, number], vec![number; usize::from(number) % 20 * 1_500]].concat();
                client.multicast(Service::Safe, std::slice::from_ref(&self.group), &message).unwrap();
                while read(client, Duration::ZERO, order) {}
            }
        }
        for (client, order) in self.clients.iter_mut().zip(&mut orders) {
            while order.len() < total {
                assert!(read(client, LONG, order), "{} of {total} messages came", order.len());
            }
        }
        assert!(orders.windows(2).all(|two| two[0] == two[1]), "the orders differ");
    }
}

/// Reads one event, and keeps it if it is a message.
fn read(client: &mut Client, within: Duration, into: &mut Vec<Vec<u8>>) -> bool {
    let event = client.receive(within).unwrap();
    let is_one = event.is_some();
    if let Some(Event::Message(message)) = event {
        into.push(message.payload().to_vec());
    }
    is_one
}

#[test]
fn a_ring_lives_on_when_a_way_begins_to_swallow_large_frames_and_is_told_when_it_mends() {
    let Some(mut fleet) = Fleet::start("datagram = 8900\n", 9_000, usize::MAX) else { return };
    fleet.await_one_view();
    fleet.join();
    fleet.exchange(60);
    let views = fleet.views();
    wait_for("it is told that all passes", || fleet.told(0, "path_n3") == "datagrams up to 8900 of 8900 bytes pass");
    fleet.take_frames_up_to(LONGEST);
    fleet.await_said(VANISH);
    fleet.exchange(120);
    wait_for("it is told what passes", || fleet.told(0, "path_n3") == "datagrams up to 740 of 8900 bytes pass");
    let counted = |node, key| fleet.told(node, key).parse::<u64>().unwrap();
    wait_for("pieces are counted", || counted(0, "datagrams_cut") > 0 && counted(BEHIND, "datagrams_joined") > 100);
    assert_eq!((counted(BEHIND, "datagrams_cut"), counted(0, "datagrams_joined")), (0, 0), "the way back is whole");
    fleet.take_frames_up_to(usize::MAX);
    fleet.await_said(WHOLE);
    fleet.exchange(60);
    assert_eq!(fleet.views(), views, "one view all the time");
}

#[test]
fn a_ring_forms_where_large_frames_vanish_from_the_start_and_lives() {
    let Some(mut fleet) = Fleet::start("", 1_500, LONGEST) else { return };
    fleet.await_said(VANISH);
    fleet.await_one_view();
    let views = fleet.views();
    fleet.join();
    fleet.exchange(120);
    assert_eq!(fleet.views(), views);
}

#[test]
fn without_probes_the_same_way_breaks_rings() {
    let Some(mut fleet) = Fleet::start("datagram = 8900\nprobe_paths = false\n", 9_000, usize::MAX) else { return };
    fleet.await_one_view();
    fleet.join();
    let views = fleet.views();
    fleet.take_frames_up_to(LONGEST);
    wait_for("another view", || {
        // What cannot be sent for want of credit is of no account: the ring is to break.
        let _ = fleet.clients[0].try_multicast(Service::Safe, std::slice::from_ref(&fleet.group), &[1; 20_000]);
        fleet.views() != views
    });
}

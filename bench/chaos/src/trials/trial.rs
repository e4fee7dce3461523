//! What there is to try.
use super::outcome::Figures;
use super::site::Site;
use super::{
    attack, dead_ring, hostile, hosts, insider, joiner, leadership, merge, networks, readers, regions, replica, rings,
    sessions, sites, slow, standby, store, wires,
};

/// One fault, and what it may cost.
#[derive(Debug)]
pub struct Trial {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Site<'_>) -> Result<Figures, String>,
}

impl PartialEq for Trial {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All of them.
pub static TRIALS: [Trial; 44] = [
    Trial {
        name: "stale-arp",
        about: "n1 knows n3 by a wrong MAC address: at most one view",
        run: networks::stale_arp,
    },
    Trial {
        name: "wrong-address",
        about: "n2's own file gives it another port: no view of the others, no pause above 200 ms",
        run: networks::wrong_address,
    },
    Trial {
        name: "future-incarnation",
        about: "a forged beacon of n2 from the far future, then n3 restarts twice, n2 once: all come together again",
        run: networks::future_incarnation,
    },
    Trial {
        name: "wires",
        about: "interface, address, MTU, one direction and multicast go away: all is well 10 s later, without a restart",
        run: wires::ring,
    },
    Trial { name: "wires-toto", about: "the same with ToTo", run: wires::toto },
    Trial { name: "wires-plato", about: "the same with PLATO", run: wires::plato },
    Trial { name: "wires-paxos", about: "the same with Ring Paxos", run: wires::paxos },
    Trial { name: "wires-rings", about: "the same with two token rings", run: wires::multiring },
    Trial { name: "wires-merged", about: "the same with two merged rings", run: wires::multiring_paxos },
    Trial {
        name: "attack",
        about: "up to 200,000 datagrams a second of somebody without the key, captured and changed: no view, none believed",
        run: attack::steady,
    },
    Trial {
        name: "attack-restart",
        about: "the same while n3 is killed and comes back: two views",
        run: attack::restart,
    },
    Trial {
        name: "insider",
        about: "somebody with the key lies in all names: no daemon ends, and once it stops all is well again",
        run: insider::ring,
    },
    Trial {
        name: "hostile",
        about: "a client sends all there is to a daemon, its Spread listener and a store: other identities hardly notice",
        run: hostile::ring,
    },
    Trial { name: "hostile-rules", about: "the same with 200 rules", run: hostile::ring_with_rules },
    Trial {
        name: "deaf-300",
        about: "300 clients of one group do not read 60 MiB: no view, no lost token, memory within budgets",
        run: readers::three_hundred,
    },
    Trial {
        name: "deaf-1000",
        about: "1,000 clients of one group do not read 40 MiB: the same",
        run: readers::thousand,
    },
    Trial {
        name: "slow",
        about: "one of five receivers stops reading, under each policy: a table of what the others notice",
        run: slow::policies,
    },
    Trial { name: "stops-250", about: "n3 is stopped for 250 ms, again and again: no view", run: hosts::stops_250 },
    Trial {
        name: "stops-500",
        about: "n3 is stopped for 500 ms, again and again: at most two views a stop",
        run: hosts::stops_500,
    },
    Trial {
        name: "stops-all",
        about: "all are stopped at once for 1 s, again and again: no view",
        run: hosts::stops_all,
    },
    Trial {
        name: "storm",
        about: "eight loops of fork and exec, memory and disk stress beside three idle daemons: no view",
        run: hosts::storm,
    },
    Trial { name: "crash", about: "kill -9: told to all others within 500 ms", run: hosts::crash },
    Trial { name: "crash-16", about: "the same among 16 daemons", run: hosts::crash_16 },
    Trial {
        name: "crash-storm",
        about: "kill -9 beside fork storms: told to all others within 2 s",
        run: hosts::crash_storm,
    },
    Trial {
        name: "standby",
        about: "the gateway of two rings is killed beside one that stands by: no pause above 1 s, nothing lost or doubled",
        run: standby::killed,
    },
    Trial {
        name: "rings",
        about: "two rings of four nodes and a gateway against one of nine: a table of what they carry",
        run: rings::compared,
    },
    Trial {
        name: "sites",
        about: "two sites 50 ms apart: what stays near is as fast as one ring; the line is cut and joined: a table",
        run: sites::apart,
    },
    Trial {
        name: "merge",
        about: "one, two and four rings of Ring Paxos against one by itself: what a delivery costs, and idle rings: a table",
        run: merge::compared,
    },
    Trial {
        name: "regions",
        about: "three regions with rings of their own and a global one: what stays near is fast; one is cut off: a table",
        run: regions::compared,
    },
    Trial {
        name: "dead-ring",
        about: "one of three rings loses its majority for a minute: the others carry as much as before, and have a leader",
        run: dead_ring::dead,
    },
    Trial {
        name: "sessions",
        about: "sessions cut off and ended, and daemons killed, a thousand times: each send is ordered once",
        run: sessions::ring,
    },
    Trial { name: "sessions-toto", about: "the same with ToTo", run: sessions::toto },
    Trial { name: "sessions-plato", about: "the same with PLATO", run: sessions::plato },
    Trial { name: "sessions-paxos", about: "the same with Ring Paxos", run: sessions::paxos },
    Trial {
        name: "leadership",
        about: "candidates cut off, stopped and killed, and daemons killed: never two leaders, and fences rise",
        run: leadership::ring,
    },
    Trial { name: "leadership-toto", about: "the same with ToTo", run: leadership::toto },
    Trial { name: "leadership-plato", about: "the same with PLATO", run: leadership::plato },
    Trial { name: "leadership-paxos", about: "the same with Ring Paxos", run: leadership::paxos },
    Trial {
        name: "replica",
        about: "replicas stopped and killed, and daemons cut off, stopped and killed: their registers are linearizable",
        run: replica::ring,
    },
    Trial { name: "replica-toto", about: "the same with ToTo", run: replica::toto },
    Trial { name: "replica-plato", about: "the same with PLATO", run: replica::plato },
    Trial { name: "replica-paxos", about: "the same with Ring Paxos", run: replica::paxos },
    Trial {
        name: "joiner",
        about: "a replica takes over 1 GB of state: the others keep 90 % of their calls; a table",
        run: joiner::ring,
    },
    Trial {
        name: "store",
        about: "a server of a store on many rings is killed with 1 GB and comes back: the others keep 95 % of their calls",
        run: store::killed,
    },
];

//! What the driver counts.

use crate::driver_packets::DriverPackets;

/// What one lane has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneTraffic {
    /// Datagrams.
    pub(crate) datagrams: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

impl LaneTraffic {
    pub(crate) const fn add(&mut self, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {
        /// Everything the driver counts, since the loop began.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct DriverCounters {
            /// Tokens and control packets that came to this node alone.
            pub(crate) token_in: LaneTraffic,
            /// Data that came, own datagrams looped back not counted.
            pub(crate) data_in: LaneTraffic,
            /// Tokens and control packets sent to one node.
            pub(crate) token_out: LaneTraffic,
            /// Data sent, probes and pieces among it; in unicast fan-out each copy counts.
            pub(crate) data_out: LaneTraffic,
            /// Frames that came through reliable links.
            pub(crate) link_in: LaneTraffic,
            /// Frames that were put into them.
            pub(crate) link_out: LaneTraffic,
            $($(#[$about])* pub(crate) $name: u64,)*
        }

        impl DriverCounters {
            /// Calls `see` with every counter's name and value.
            pub(crate) fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
                for (datagrams, bytes, traffic) in [
                    ("net_token_in_datagrams", "net_token_in_bytes", self.token_in),
                    ("net_data_in_datagrams", "net_data_in_bytes", self.data_in),
                    ("net_token_out_datagrams", "net_token_out_bytes", self.token_out),
                    ("net_data_out_datagrams", "net_data_out_bytes", self.data_out),
                ] {
                    see(datagrams, traffic.datagrams);
                    see(bytes, traffic.bytes);
                }
                if self.link_out.datagrams > 0 {
                    see("net_link_in_frames", self.link_in.datagrams);
                    see("net_link_in_bytes", self.link_in.bytes);
                    see("net_link_out_frames", self.link_out.datagrams);
                    see("net_link_out_bytes", self.link_out.bytes);
                }
                $(see(shown(concat!("net_", stringify!($name))), self.$name);)*
            }
        }
    };
}

/// The name of a counter in the status: those of the ways between nodes are not only of this node's sockets.
fn shown(name: &'static str) -> &'static str {
    const WAYS: [&str; 7] = [
        "probes_sent",
        "probes_received",
        "datagrams_filtered",
        "datagrams_cut",
        "pieces_received",
        "datagrams_joined",
        "datagrams_torn",
    ];
    name.strip_prefix("net_").filter(|name| WAYS.contains(name)).unwrap_or(name)
}

impl DriverCounters {
    /// Brings those up to date that are counted where datagrams for the driver are taken aside.
    pub(crate) const fn note_driver_packets(&mut self, driver_packets: &DriverPackets) {
        (self.probes_received, self.pieces_received) = (driver_packets.probed, driver_packets.fragments);
        (self.datagrams_joined, self.datagrams_torn) = (driver_packets.joins.joined, driver_packets.joins.given_up);
    }
}

counters! {
    /// Receive buffers that carried more than one packet (GRO).
    gro_batches,
    /// Sends that carried more than one packet (GSO).
    gso_batches,
    /// Datagrams the kernel dropped because the receive buffer was full: at least so many.
    receive_overflow,
    /// Datagrams that the kernel dropped because their address is no node's: at least so many.
    datagrams_filtered,
    /// Datagrams dropped because they were longer than a UDP datagram can be.
    receive_too_long,
    /// Receive calls that failed.
    receive_errors,
    /// Datagrams dropped because the kernel would not take them in time.
    send_drops,
    /// Datagrams dropped because the kernel refused them: no route, too long, forbidden.
    send_errors,
    /// Probes sent, to all others at once.
    probes_sent,
    /// Probes that came.
    probes_received,
    /// Datagrams that left in pieces.
    datagrams_cut,
    /// Pieces that came.
    pieces_received,
    /// Datagrams that came in pieces and were joined.
    datagrams_joined,
    /// Datagrams of which some pieces came, but not all.
    datagrams_torn,
    /// Times that the loop ran 10 ms later than it had asked to, or more.
    pauses,
    /// How often the loop slept and was woken.
    wakeups,
    /// How often the loop looked again instead of sleeping.
    spins,
    /// Reliable links that broke.
    links_broken,
    /// ClientConnections of other nodes, or of strangers, that were closed because what came was not right.
    links_refused,
    /// Frames that were dropped because their link was down.
    link_frames_unsent,
    /// Clients that connected.
    clients_accepted,
    /// Times that a connection could not be accepted for want of descriptors or memory.
    accept_failures,
    /// Clients whose bytes go through shared memory, since the start.
    clients_shared,
    /// Clients that offered to use shared memory and were left at their socket.
    clients_not_shared,
    /// Clients whose machine has not answered for too long.
    clients_vanished,
    /// Bytes read from clients.
    client_in_bytes,
    /// Bytes written to clients.
    client_out_bytes,
    /// Writes to clients.
    client_writes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_observed_once_under_its_own_name() {
        let counters =
            DriverCounters { spins: 7, data_in: LaneTraffic { datagrams: 2, bytes: 9 }, ..DriverCounters::default() };
        let mut seen = Vec::new();
        counters.observe(&mut |name, value| seen.push((name.to_owned(), value)));
        assert!(seen.contains(&("net_spins".to_owned(), 7)));
        assert!(seen.contains(&("net_data_in_bytes".to_owned(), 9)));
        let count = seen.len();
        seen.sort();
        seen.dedup_by(|a, b| a.0 == b.0);
        assert_eq!(seen.len(), count);
    }
}

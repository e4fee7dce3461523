//! Every number of a daemon's status that is told as a metric, and what is normal.

/// How a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Up only, from the daemon's start.
    Counter,
    /// Up and down.
    Gauge,
}

use MetricKind::{Counter, Gauge};

/// A number: its key in the status, how it moves, what it is and what is normal.
pub type Metric = (&'static str, MetricKind, &'static str);

/// All of them.
pub const METRICS: &[Metric] = &[
    // Clients.
    (
        "clients",
        Gauge,
        "Connections of clients, the one that asks for this included. Normal: as many as you run, and 1.",
    ),
    ("clients_most", Gauge, "As many clients as the daemon serves at a time. Normal: well above clients."),
    (
        "clients_paused",
        Gauge,
        "Clients whose next request waits for room. Normal: 0; under full load up to all that send.",
    ),
    (
        "client_output_bytes",
        Gauge,
        "Bytes that wait for clients to read them, what many read counted for each. Normal: below 1 MiB; one client may have 64 MiB.",
    ),
    (
        "client_output_memory_bytes",
        Gauge,
        "Memory that this takes; what many are told is kept once. Normal: below 16 MiB; all together may have 1 GiB.",
    ),
    (
        "client_output_shared_bytes",
        Gauge,
        "How much of that memory several clients share, each message counted once. Normal: below 16 MiB.",
    ),
    (
        "delivery_slice_max_bytes",
        Gauge,
        "The most that was told to clients without a look at the token, in bytes, each of many clients counted as 512. Normal: below 512 KiB; a large message adds its bytes.",
    ),
    (
        "client_frames_begun_bytes",
        Gauge,
        "Length of the frames above 64 KiB that clients are about to send. Normal: 0, or your large messages; at most 256 MiB.",
    ),
    (
        "clients_behind",
        Gauge,
        "Clients for whom more than 256 KiB wait: the ring waits for those that read. Normal: 0; under load some.",
    ),
    (
        "groups_read",
        Gauge,
        "Groups of which clients read by position here or elsewhere, or did lately. Normal: as many as you read.",
    ),
    (
        "messages_retained",
        Gauge,
        "Messages that are kept for clients that read on. Normal: 0 where nobody reads by position.",
    ),
    ("bytes_retained", Gauge, "Their bytes. Normal: at most `retain` below `[sessions]`, 16 MiB by default."),
    (
        "clients_unread",
        Gauge,
        "Clients that have read nothing for a second, have others wait, or are spooled for; `slow_clients` in the status \
         names them. Normal: 0.",
    ),
    ("clients_holding", Gauge, "Those of them for which the senders to their groups wait (`block`). Normal: 0."),
    ("clients_held", Gauge, "Clients whose next message waits for such a client, here or elsewhere. Normal: 0."),
    ("client_holds", Counter, "Times that a client began to have others wait. Normal: 0."),
    (
        "client_demotions",
        Counter,
        "Times that a client that did not read was made to leave its groups (`demote`). Normal: 0.",
    ),
    ("client_spooled_bytes", Gauge, "Bytes on disk that clients have yet to read (`spool`). Normal: 0."),
    ("client_bytes_spooled", Counter, "Bytes that went to disk because clients did not read. Normal: 0."),
    ("requests_accepted", Counter, "Joins, leaves and messages taken from clients. Normal: grows with what they send."),
    ("requests_refused", Counter, "Requests refused with a reason. Normal: 0."),
    (
        "messages_ordered",
        Counter,
        "Messages of all clients of all daemons that got their place. Normal: grows alike at all daemons of a view.",
    ),
    ("message_bytes_ordered", Counter, "Their bytes, with senders and targets. Normal: grows with what is sent."),
    (
        "messages_delivered",
        Counter,
        "Messages handed to clients, once for each receiver. Normal: grows with what is sent.",
    ),
    ("message_bytes_delivered", Counter, "Their bytes. Normal: grows with what is sent."),
    ("messages_untold", Counter, "Messages that a Spread client could not be told. Normal: 0."),
    ("clients_optimistic", Gauge, "Clients that are offered messages before their place is final. Normal: any."),
    ("messages_offered", Counter, "Messages offered before their place was final, once for each client. Normal: any."),
    ("messages_revoked", Counter, "Offers that were taken back. Normal: below 1 in 100 offers."),
    ("readers", Gauge, "Clients that read by position. Normal: any."),
    ("messages_read", Counter, "Messages told to them. Normal: any."),
    // Shares and rights.
    (
        "identity_connections_most",
        Gauge,
        "Connections of the identity that has most of them. Normal: well below clients_most.",
    ),
    ("identity_groups_most", Gauge, "Memberships of the identity that has most of them. Normal: below 131072."),
    (
        "clients_held_back",
        Counter,
        "Times that a request waited because its identity had its share under way while another one asked. Normal: \
         grows where some identity sends much faster than its messages are ordered.",
    ),
    (
        "identity_under_way_most",
        Gauge,
        "What the identity has under way that has most of it, as its share counts it. Normal: any.",
    ),
    (
        "identity_producers_most",
        Gauge,
        "Producers of the identity that has opened most of them at this daemon. Normal: well below 4096.",
    ),
    (
        "rights_rules",
        Gauge,
        "Rules that say what clients may do. Normal: as many as the files have; 0, everything is allowed.",
    ),
    ("rights_tokens", Gauge, "Tokens and keys for tokens that are known. Normal: as many as the file has."),
    ("rights_loads", Counter, "Times that rules were taken up. Normal: grows by one at each SIGHUP."),
    (
        "rights_expulsions",
        Counter,
        "Memberships that changed rules have ended. Normal: grows where rules take rights away.",
    ),
    // Groups.
    ("producers", Gauge, "Producers that are known, of 16384 at most. Normal: equal at all daemons of a view."),
    (
        "counts_for_producers",
        Gauge,
        "1 where the view orders what sessions send exactly once. Normal: 1 with a policy.",
    ),
    ("groups", Gauge, "Groups that have members. Normal: equal at all daemons of a view."),
    ("group_bytes", Gauge, "Memory that all groups take. Normal: far below 268435456, where joins are refused."),
    (
        "group_exchanges",
        Counter,
        "Times that daemons told each other their groups. Normal: grows by at most 1 for each view.",
    ),
    ("group_parts_broken", Counter, "Parts of such exchanges that made no sense. Normal: 0."),
    ("group_parts_refused", Counter, "Parts of such exchanges that could not be sent. Normal: 0."),
    ("group_early_messages", Counter, "Messages ordered before an exchange was done. Normal: 0."),
    ("group_hashes_compared", Counter, "Comparisons of all groups with another daemon's. Normal: grows."),
    ("group_hash_mismatches", Counter, "Comparisons that differed. Normal: 0; anything else is a fault of Consort."),
    ("group_digests_malformed", Counter, "Comparisons that could not be read. Normal: 0."),
    ("frames_misplaced", Counter, "Frames of reliable links that belong elsewhere. Normal: 0."),
    ("ordered_malformed", Counter, "Ordered messages that no daemon writes. Normal: 0."),
    // The ring at work.
    ("visits", Counter, "Visits of the token. Normal: thousands a second under load, tens at rest."),
    (
        "rotation_us",
        Gauge,
        "Microseconds of the last rotation of the token. Normal: below 1000; at rest the token is parked.",
    ),
    (
        "delay_us",
        Gauge,
        "Microseconds that packets take between members, one way, as the timers have it. Normal: 0 in a LAN, else what the distance wants.",
    ),
    (
        "personal_window",
        Gauge,
        "Packets that one node may send in a visit of the token. Normal: 20 to 320, tuned by what the network takes, unless the file fixes it.",
    ),
    ("packets_sent", Counter, "Packets of messages sent for the first time. Normal: grows with what is sent."),
    ("packets_sent_after_token", Counter, "Those of them that left behind the token. Normal: most of them under load."),
    ("retransmissions_sent", Counter, "Packets sent again. Normal: below 1 in 1000 packets."),
    ("requests_made", Counter, "Packets asked for again. Normal: below 1 in 1000 packets."),
    (
        "needless_retransmissions",
        Counter,
        "Packets that came again although they were there. Normal: below 1 in 1000 packets.",
    ),
    ("duplicates", Counter, "Packets that were there already. Normal: below 1 in 1000 packets."),
    ("duplicate_tokens", Counter, "Tokens that were there already. Normal: a few an hour."),
    ("tokens_retransmitted", Counter, "Tokens sent again. Normal: a few an hour; more when a network loses packets."),
    ("holds", Counter, "Times that the token was parked. Normal: grows at rest."),
    (
        "grants",
        Counter,
        "Times that a parked token was used by one node without going round. Normal: about one for each message at low rates, none under load.",
    ),
    (
        "token_requests_sent",
        Counter,
        "Times that a parked token was asked for. Normal: grows with the first messages after a rest.",
    ),
    ("queued_bytes", Gauge, "Bytes of messages that wait for their place. Normal: below 1 MiB; at most 32 MiB."),
    (
        "assembly_bytes",
        Gauge,
        "Bytes of large messages of which parts are missing yet. Normal: below the largest message for each sender.",
    ),
    ("store_packets", Gauge, "Packets kept until all members have them. Normal: below 1000; at most 4096."),
    ("store_bytes", Gauge, "Their bytes. Normal: below 2 MiB; at most 16 MiB."),
    (
        "aru",
        Gauge,
        "The place in the order up to which this node has everything. Normal: grows; begins anew with a ring.",
    ),
    ("stable", Gauge, "The place in the order up to which all members have everything. Normal: close behind aru."),
    (
        "torn_messages",
        Counter,
        "Messages of which a part is lost with the daemon that sent it. Normal: 0 but for crashes of senders.",
    ),
    ("beyond_window", Counter, "Packets too far ahead to be kept. Normal: 0."),
    // PLATO at work.
    ("packets_taken_in", Counter, "Packets of all members, own ones too. Normal: grows with what is sent."),
    ("orders_sent", Counter, "Packets that say the order. Normal: grows at the lowest member only."),
    ("statuses_sent", Counter, "Packets that say what is held. Normal: 40 a second, hundreds under load."),
    ("offers_made", Counter, "Messages offered before their place was known. Normal: grows with what is sent."),
    ("offers_revoked", Counter, "Offers taken back. Normal: below 1 in 10 offers."),
    ("late_revokes", Counter, "Packets whose offers were taken back too late. Normal: below 1 in 100 packets."),
    ("delta_ns", Gauge, "Nanoseconds between packets that are not suspected. Normal: 5000 to 1000000."),
    ("packets_undelivered", Gauge, "Packets that wait for their place. Normal: below 1000."),
    ("places_awaited", Gauge, "Places whose packets are still to come. Normal: below 100."),
    ("foreign_packets", Counter, "Packets of other views. Normal: a few whenever daemons come or go."),
    ("wrong_packets", Counter, "Packets that no right member sends. Normal: 0."),
    // Ring Paxos at work.
    ("terms_led", Counter, "Times that this node became the coordinator. Normal: grows only when daemons come or go."),
    (
        "terms_handed_over",
        Counter,
        "Times that this node let another lead because the registry advises so. Normal: 0; else as often as you move it.",
    ),
    (
        "registry_has_node",
        Gauge,
        "1 while this node is in the registry. Normal: 1 with a registry; 0 while that is away.",
    ),
    ("instances_proposed", Counter, "Items proposed here. Normal: grows at the coordinator only."),
    ("instances_decided", Counter, "Items decided here. Normal: grows at the coordinator only."),
    ("instances_known", Gauge, "Items of the order that this node holds. Normal: about equal at all nodes."),
    ("instances_retained", Gauge, "Items of the order that can be read again. Normal: any."),
    (
        "retained_bytes",
        Gauge,
        "Their bytes. Normal: at most `retain` below `[paxos]`; four times that for who is away, five for copies.",
    ),
    ("checkpoints_taken", Counter, "Times that this node went on behind what others retain. Normal: 0."),
    ("records_written", Counter, "Records of this node's votes. Normal: grows with what is sent; 0 with `memory`."),
    (
        "unwritten_bytes",
        Gauge,
        "Records on their way to this node's disk. Normal: below 1 MiB; 32 MiB where the disk does not keep up.",
    ),
    (
        "disk_wait_ms",
        Gauge,
        "For how long the oldest record has waited for this node's disk, in milliseconds. Normal: below 100; above 1000 the disk hangs, and the node votes for nothing.",
    ),
    (
        "disk_refuses",
        Gauge,
        "1 while this node's disk takes no records, for example because it is full. Normal: 0; `disk` in the status says why.",
    ),
    ("votes_put_off", Counter, "Requests that found no room for their record. Normal: 0; else the disk stalls."),
    ("ordered_messages", Gauge, "The place of the last message in the order. Normal: about equal at all nodes."),
    ("instances_learnt", Counter, "Items asked of other nodes. Normal: grows when this daemon was away."),
    ("open_instances", Gauge, "Items that wait for votes. Normal: below 256."),
    (
        "checkpoints_declared",
        Gauge,
        "Holders and copies of programs for which the order retains what they have yet to keep. Normal: as many as you \
         run; 4096 at most.",
    ),
    ("copies_bound", Gauge, "Copies of programs that are bound. Normal: as many as you run, for each partition."),
    (
        "copies_missing",
        Gauge,
        "Copies of programs that were never bound, so that the order is retained for them. Normal: 0 once all have started.",
    ),
    (
        "retention_budget_bytes",
        Gauge,
        "With more in `retained_bytes` because of copies of programs, clients wait or the oldest part goes. Normal: four \
         times `retain` below `[paxos]`.",
    ),
    (
        "programs_holding_back",
        Gauge,
        "Programs whose copies lack so much that messages to their groups wait; `log_full` in the status names them. \
         Normal: 0.",
    ),
    ("values_voided", Counter, "Values sent again in a later view. Normal: grows only when daemons come or go."),
    ("values_fetched", Counter, "Values asked of other nodes. Normal: grows only when daemons come or go."),
    ("under_way_bytes", Gauge, "Bytes of this node's values without a place. Normal: below 2097152."),
    ("pool_values", Gauge, "Values held without a place. Normal: below 1000."),
    ("links_lost", Counter, "Links to other nodes that broke. Normal: grows only when daemons come or go."),
    ("foreign_log", Counter, "Packets of another log. Normal: a few when daemons come or go."),
    ("outdated_packets", Counter, "Packets of earlier incarnations of nodes. Normal: a few when daemons come or go."),
    // The merge of many rings.
    ("merged_items", Counter, "Messages and views of all rings that got their place. Normal: grows with what is sent."),
    ("merged_void", Counter, "Messages sent again in a later view. Normal: grows only when daemons come or go."),
    ("merge_waiting_bytes", Gauge, "Bytes of some rings that wait for the others. Normal: below 1 MiB."),
    ("turn_waiting_bytes", Gauge, "Bytes of messages whose senders' earlier ones are to come. Normal: below 1 MiB."),
    ("merge_wait_max_us", Gauge, "The longest that messages waited for a ring. Normal: below 20000 but at the start."),
    ("skips_asked", Counter, "Times that a coordinator was asked to go on. Normal: hundreds a second under load."),
    ("skips_due", Counter, "Times that a ring led here went on without messages. Normal: 0 at rest."),
    // Totem's multiple rings.
    ("handed_out", Counter, "Messages of all rings that got their place. Normal: grows with what is sent."),
    ("forwarded", Counter, "Messages that a gateway sent on. Normal: grows at gateways with what is sent."),
    (
        "filtered",
        Counter,
        "Messages that a gateway did not send on, as nobody there reads them. Normal: 0 but with retain = 0.",
    ),
    ("filtered_bytes", Counter, "Their bytes. Normal: 0 but with retain = 0."),
    ("passed", Counter, "Messages of which this node was told the places alone. Normal: 0 but with retain = 0."),
    ("reads_sent", Counter, "Times that this node told what it reads. Normal: grows with joins, leaves and views."),
    ("echoes_sent", Counter, "Times that a gateway answered that. Normal: grows with joins, leaves and views."),
    ("horizons_sent", Counter, "Times that a gateway told how far rings are. Normal: grows while messages come."),
    (
        "repeated_packets",
        Counter,
        "Packets for other rings that had come before, on another way. Normal: grows where rings form a loop.",
    ),
    ("relayed_packets", Counter, "Packets of others that a gateway sent on. Normal: grows at gateways, at rest too."),
    ("waiting_messages", Gauge, "Messages that wait for their place. Normal: below 1000, and 0 at rest."),
    ("held_bytes", Gauge, "Bytes of messages not known to be handed out by all. Normal: below 16 MiB, 0 at rest."),
    ("own_held_bytes", Gauge, "Those of this node's messages. Normal: below 4194304."),
    ("pieces_sent", Counter, "Pieces of messages given to members that lack them. Normal: grows only with views."),
    ("sent_again", Counter, "Messages sent again in a later view. Normal: grows only when daemons come or go."),
    ("void_messages", Counter, "Messages of other views. Normal: a few whenever daemons come or go."),
    ("refused_messages", Counter, "Messages that others lacked before. Normal: a few whenever daemons come or go."),
    ("unrelated_packets", Counter, "Packets of nodes that are in no ring here. Normal: a few when daemons come or go."),
    ("unreadable_messages", Counter, "Messages that no right member sends. Normal: 0."),
    // Membership.
    ("attempts", Counter, "Attempts to form a view. Normal: grows only when daemons come or go."),
    ("views", Counter, "Regular views installed. Normal: grows only when daemons come or go."),
    (
        "tokens_late",
        Counter,
        "Times that the others were asked for a token. Normal: 0; else a machine is overloaded, or a daemon ended without a word.",
    ),
    ("token_losses", Counter, "Times that asking was in vain. Normal: grows only when a daemon ends without a word."),
    ("stale_tokens", Counter, "Tokens that came too late to be used. Normal: 0; else see pauses."),
    ("gathers", Counter, "Times that a ring was formed. Normal: grows only when daemons come or go."),
    (
        "pauses",
        Counter,
        "Times that this daemon was not run for long. Normal: 0; else the machine is overloaded or was stopped.",
    ),
    ("joins_sent", Counter, "Packets that form a ring. Normal: grows only when daemons come or go."),
    ("beacons_sent", Counter, "Packets that say where this node is. Normal: 5 a second."),
    (
        "stale_membership",
        Counter,
        "Packets that came too late to form a ring. Normal: a few whenever daemons come or go.",
    ),
    ("foreign_ring", Counter, "Packets of another ring. Normal: a few whenever daemons come or go."),
    ("wrong_sender", Counter, "Tokens of a node that is not the one before. Normal: 0."),
    (
        "old_incarnation",
        Counter,
        "Packets of an earlier incarnation of a node. Normal: a few whenever a daemon is restarted.",
    ),
    (
        "new_incarnation",
        Counter,
        "Packets of a later incarnation of a member. Normal: a few whenever a daemon is restarted.",
    ),
    ("strangers", Counter, "Packets of nodes that are not configured. Normal: 0."),
    ("twins", Counter, "Packets of another process that runs as this node. Normal: 0; stop one of the two."),
    ("unexpected", Counter, "Packets without a meaning in this state. Normal: a few whenever daemons come or go."),
    ("implausible", Counter, "Packets that cannot be true. Normal: 0."),
    ("assertion_failures", Counter, "Rules of Consort found broken. Normal: 0; anything else is a fault of Consort."),
    // Keys.
    ("key_epoch", Gauge, "Epoch of the key in use. Normal: the same at all nodes."),
    ("key_rotations", Counter, "Keys adopted. Normal: grows when a key is changed, or a node starts behind."),
    ("key_rotations_refused", Counter, "Keys proposed and not adopted. Normal: 0; else the log says who lacks one."),
    ("key_lacking_members", Gauge, "Members that could not adopt a key that was proposed. Normal: 0."),
    // The ways between nodes.
    ("probes_sent", Counter, "Probes of the ways to other nodes. Normal: 2 a second."),
    ("probes_received", Counter, "Probes of other nodes. Normal: 2 a second from each."),
    (
        "datagrams_filtered",
        Counter,
        "Datagrams from addresses that are no node's, dropped by the kernel. Normal: 0; else somebody else sends, or \
         a node's address is translated on its way.",
    ),
    (
        "datagrams_cut",
        Counter,
        "Datagrams sent in pieces because whole ones vanish on their way. Normal: 0; else see the runbook of rings that do not form.",
    ),
    ("pieces_received", Counter, "Pieces that came. Normal: 0."),
    ("datagrams_joined", Counter, "Datagrams joined from pieces. Normal: 0."),
    ("datagrams_torn", Counter, "Datagrams of which some pieces came, but not all. Normal: 0."),
    // Sockets.
    (
        "net_token_in_datagrams",
        Counter,
        "Tokens and control packets that came to this node alone. Normal: grows while others send.",
    ),
    ("net_token_in_bytes", Counter, "Their bytes. Normal: grows with them."),
    ("net_data_in_datagrams", Counter, "Data that came. Normal: grows while others send."),
    ("net_data_in_bytes", Counter, "Its bytes. Normal: grows with it."),
    (
        "net_token_out_datagrams",
        Counter,
        "Tokens and control packets sent to one node. Normal: grows while messages are sent.",
    ),
    ("net_token_out_bytes", Counter, "Their bytes. Normal: grows with them."),
    (
        "net_data_out_datagrams",
        Counter,
        "Data sent; where it goes to each node by itself, each copy counts. Normal: grows while clients send.",
    ),
    ("net_data_out_bytes", Counter, "Its bytes. Normal: grows with it."),
    ("net_link_in_frames", Counter, "Frames that came by reliable links. Normal: grows with what others send, or 0."),
    ("net_link_in_bytes", Counter, "Their bytes. Normal: grows with them."),
    ("net_link_out_frames", Counter, "Frames sent by reliable links. Normal: grows with what clients send, or 0."),
    ("net_link_out_bytes", Counter, "Their bytes. Normal: grows with them."),
    ("net_gro_batches", Counter, "Receive buffers with more than one packet. Normal: grows under load."),
    (
        "net_gso_batches",
        Counter,
        "Sends with more than one packet. Normal: grows under load; else the interface takes no super-packets.",
    ),
    (
        "net_receive_overflow",
        Counter,
        "Datagrams that the kernel dropped because the receive buffer was full: no fewer. Normal: 0; else raise net.core.rmem_max, or the machine is overloaded.",
    ),
    ("net_receive_too_long", Counter, "Datagrams that were longer than one can be. Normal: 0."),
    ("net_receive_errors", Counter, "Receive calls that failed. Normal: 0."),
    (
        "net_send_drops",
        Counter,
        "Datagrams dropped because the kernel would not take them in time. Normal: 0; else the interface is slower than the load.",
    ),
    (
        "net_send_errors",
        Counter,
        "Datagrams that the kernel refused. Normal: 0; else a route, an interface or a packet filter is missing or wrong, and the log says which.",
    ),
    (
        "net_pauses",
        Counter,
        "Times that the daemon's loop ran 10 ms late or more. Normal: few; else the machine is overloaded or was stopped.",
    ),
    ("net_wakeups", Counter, "Times that the loop slept and was woken. Normal: grows."),
    ("net_spins", Counter, "Times that the loop looked again, and did not sleep. Normal: grows under load."),
    ("net_links_broken", Counter, "Reliable links that broke. Normal: grows only when daemons come or go."),
    (
        "net_links_refused",
        Counter,
        "Connections of nodes or strangers that were closed because what came was not right. Normal: 0.",
    ),
    (
        "net_link_frames_unsent",
        Counter,
        "Frames dropped because their link was down. Normal: grows only when daemons come or go.",
    ),
    ("net_clients_accepted", Counter, "Clients that connected. Normal: grows as clients come."),
    (
        "net_accept_failures",
        Counter,
        "Times that a client could not be accepted for want of descriptors or memory. Normal: 0; else raise `ulimit -n`.",
    ),
    (
        "net_clients_shared",
        Counter,
        "Clients whose bytes went through shared memory. Normal: grows as clients of this machine come.",
    ),
    (
        "net_clients_not_shared",
        Counter,
        "Clients that offered shared memory and were left at their socket. Normal: 0, or there is no memory left to share.",
    ),
    ("net_clients_vanished", Counter, "Clients whose machine did not answer for too long. Normal: 0."),
    ("net_client_in_bytes", Counter, "Bytes read from clients. Normal: grows while clients send."),
    ("net_client_out_bytes", Counter, "Bytes written to clients. Normal: grows while clients receive."),
    ("net_client_writes", Counter, "Writes to clients. Normal: grows while clients receive."),
    ("datagrams_own", Counter, "Datagrams of this node that came back. Normal: grows with what is multicast, or 0."),
];

/// What is told of each ring where there are many, by the beginning of its keys; its number is the label.
pub const BY_RING: [(&str, &str); 5] = [
    ("ring_open_instances_", "Items of a ring led here that wait for votes. Normal: below 256."),
    ("ring_instances_", "Items of a ring that this node holds. Normal: about equal at all nodes."),
    ("ring_waiting_bytes_", "Bytes of a ring that wait for others. Normal: below 1 MiB."),
    ("ring_horizon_", "Stamp up to which nothing more comes from a ring. Normal: about equal for all, or at rest."),
    ("ring_wait_us_", "How long messages have waited for a ring by now. Normal: below 10000."),
];

/// Numbers whose key says more than which they are: prefix of the key, label, what it is and what is normal.
pub const LABELLED: [(&str, &str, &str); 4] = [
    (
        "sessions_ended_",
        "why",
        "Sessions that the daemon ended. Normal: goodbye grows, all others stay at 0; see the runbook of slow clients.",
    ),
    (
        "requests_waited_",
        "cause",
        "Times, 20 a second at most, that requests of native clients had waited for 50 ms or more. Normal: window grows \
         under full load, membership when daemons come or go; slow, slow_client, retention and ring stay at 0.",
    ),
    (
        "datagrams_rejected_",
        "cause",
        "Datagrams that were not for this node or not right. Normal: 0; else another cluster or other settings.",
    ),
    (
        "unopened_",
        "cause",
        "Datagrams dropped because they are not sealed with this cluster's key, or came before. Normal: 0, but for own \
         ones and a few unproven ones whenever daemons start; see SECURITY.md.",
    ),
];

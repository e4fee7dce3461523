//! What happened so far.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident $shown:literal,)*) => {
        /// Counts that only grow.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            pub fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
                $(see($shown, self.$name);)*
            }
        }
    };
}

counters! {
    /// Packets of streams taken in, own ones among them.
    packets "packets_taken_in",
    /// Own packets of messages sent.
    sent "packets_sent",
    /// Packets of places sent.
    orders "orders_sent",
    /// Statuses sent.
    statuses "statuses_sent",
    /// Requests sent.
    requests "requests_made",
    /// Packets sent again.
    repairs "retransmissions_sent",
    /// Packets that came again although they were there.
    needless "needless_retransmissions",
    /// Messages offered before their place was known.
    offers "offers_made",
    /// Offers taken back.
    revokes "offers_revoked",
    /// Packets whose offers were taken back after their free time.
    late "late_revokes",
    /// Pieces of messages that did not continue what came before.
    torn "torn_messages",
    /// Packets of other views, or of nodes that are not in this one.
    foreign "foreign_packets",
    /// Invariants of our own that did not hold.
    assertions "assertion_failures",
    /// Packets that no right member sends.
    wrong "wrong_packets",
}

//! What is counted.

macro_rules! counters {
    ($($name:ident $what:literal),* $(,)?) => {
        /// What happened so far. Shown by `status`, exported as metrics, read by tests.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Counters {
            $(#[doc = $what] pub $name: u64,)*
            /// The rule that was broken last.
            pub last_assertion: Option<&'static str>,
        }

        impl Counters {
            pub fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
                $(see(stringify!($name), self.$name);)*
            }
        }
    };
}

counters!(
    visits "Visits of the token.",
    packets_sent "Numbered packets sent for the first time.",
    packets_sent_after_token "Those of them that left after the token.",
    retransmissions_sent "Packets sent again because they were asked for.",
    requests_made "Places asked for.",
    needless_retransmissions "Retransmissions that arrived where the packet was held already.",
    duplicates "Data packets that were held already.",
    duplicate_tokens "Tokens that were accepted before.",
    tokens_retransmitted "Tokens sent again, commit tokens included.",
    tokens_late "Times that no token came for token_loss, and the others were asked.",
    token_losses "Times that a ring was given up because no token came.",
    stale_tokens "Tokens that had lain here for longer than the others wait.",
    holds "Times that the token was parked.",
    grants "Times that a granted token was used, or a resting one where it rests, and no rotation followed.",
    token_requests_sent "Requests for a parked token that were sent.",
    foreign_ring "Packets of another ring.",
    wrong_sender "Tokens from somebody who may not send them: not the predecessor, and nobody who grants or returns.",
    old_incarnation "Packets from an earlier incarnation of a member.",
    new_incarnation "Regular packets from a later incarnation of a member: it was restarted.",
    strangers "Packets from nodes that are not configured.",
    twins "Packets from another process that goes by this node's index, in a later incarnation.",
    beyond_window "Data packets too far ahead to be kept.",
    unexpected "Packets that have no meaning in this state.",
    implausible "Packets whose numbers or lists cannot be true.",
    stale_membership "Membership packets that came too late to mean anything.",
    joins_sent "JOINs sent.",
    beacons_sent "Beacons sent.",
    gathers "Times that members were gathered.",
    views "Regular views installed.",
    pauses "Times that this node was not run for long.",
    assertion_failures "Invariants found broken. Always 0.",
);

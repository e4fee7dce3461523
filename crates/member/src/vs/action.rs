//! What the membership asks of its engine, and what the two tell each other.
use super::MembershipPacket;
use bytes::Bytes;
use consort_order::Destination;
use consort_types::{MemberId, Ticket, View, ViewId};

/// What a member holds of its installed view. Both vectors go by the view's members in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// How many packets of each member were taken in without a gap.
    pub held: Vec<u64>,
    /// How many packets of each member are known to be held by every member of the view.
    pub stable: Vec<u64>,
    /// Some of what is held has places alone, without bytes: others may have to get it elsewhere.
    pub hollow: bool,
    /// Where the member stands, for an engine whose nodes do not all hear each other.
    pub links: Vec<Link>,
}

/// Where a member stands: its part of a network, in which it hears others with no node between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The number of the network.
    pub network: u8,
    /// Those that hear each other there know each other by this.
    pub configuration: ViewId,
    /// As which link of its installed view it carried that view's packets; 0 where it carried none.
    pub before: u8,
}

/// The agreed set of old messages. All vectors go by the members of the view that ends, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgreedSet {
    /// The members that come from that view together, ascending.
    pub together: Vec<MemberId>,
    /// How many packets of each member belong to the set: what any of them holds.
    pub held: Vec<u64>,
    /// Who of them holds so many.
    pub holders: Vec<MemberId>,
    /// How many packets of each member some of them knows to be held by every member of the view.
    pub stable: Vec<u64>,
    /// Others of that view go on, too, but apart from these: what was between them does not.
    pub apart: bool,
    /// Some of them hold places alone of what belongs to the set.
    pub hollow: bool,
}

/// The step from one view to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewChange {
    /// The transitional view that closes the old one; `None` for the first view of an incarnation.
    pub closing: Option<View>,
    /// What belongs to the old view.
    pub cut: AgreedSet,
    /// The new view.
    pub view: View,
    /// Where its members stand: by member, then as each of them told.
    pub links: Vec<(MemberId, Link)>,
}

/// Whether a view is called primary at a member, or may still be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryCall {
    /// The event that makes it primary has not been delivered.
    #[default]
    Awaited,
    /// It is called primary.
    Made,
    /// It never will be: [`MembershipAction::Renounce`] came first.
    Renounced,
}

/// What the membership asks for, in the order in which it must happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipAction {
    /// Put a membership packet on the network, on the control lane.
    Send {
        /// To whom.
        to: Destination,
        /// What.
        packet: MembershipPacket,
    },
    /// Write a record, synced; tell with `handle_persisted` when that is done.
    Persist {
        /// Names the write.
        ticket: Ticket,
        /// The bytes.
        record: Bytes,
    },
    /// Records up to this ticket are not needed any more.
    Trim {
        /// The last one that may go.
        up_to: Ticket,
    },
    /// A member's beacon carried this annotation.
    Beacon {
        /// Whose.
        from: MemberId,
        /// What its upper layer gave to `annotate`.
        annotation: Bytes,
    },
    /// Nothing was multicast in the view for a while: multicast something small that tells what this node has sent and
    /// holds, or it will be taken for dead.
    Speak,
    /// The installed view ends, or this node is about to leave it: tell what must be told in it, and send nothing new.
    Halt,
    /// Take in nothing more of the installed view, and answer with `tell`.
    Tell,
    /// Get what is lacking of the agreed set, then say `complete`. A later `Tell` ends it.
    Fetch(Box<AgreedSet>),
    /// Close the old view and install the new one, in one step.
    Install(Box<ViewChange>),
    /// All members have installed the view, and the policy holds: order an event that makes it primary. Only at the
    /// representative, once.
    Settled,
    /// This node goes on from the installed view without any other of its members: never call that view primary. The others
    /// may have gone on before, to one that is primary.
    Renounce,
    /// The node has said good-bye: nothing more will come.
    Left,
}

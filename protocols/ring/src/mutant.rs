//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

macro_rules! mutants {
    ($($name:ident $what:literal),* $(,)?) => {
        /// A rule that the ring under test breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant { $(#[doc = $what] $name),* }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// What it does wrong.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$name => $what),* }
            }
        }
    };
}

mutants!(
    OneAru "takes the aru of one visit for stable, not the least of two",
    RequestTooEarly "asks for packets that may still be in post-token flight",
    NoTokenDedup "accepts a token it has accepted before",
    StoreWhenSent "keeps its own packets only once a later visit has sent them",
    DeliverPastHole "delivers beyond a missing packet",
    CopyMutated "changes the copy of the token when sending it again",
    FccNotSubtracted "does not take its last visit's packets off the count",
    RetransmissionRaisesPriority "lets a retransmitted packet raise the token's priority",
    SafeAsAgreed "delivers safe messages without waiting for stability",
    DiscardEarly "lets go of packets that others may still ask for",
    AruNeverRaised "does not raise an aru that it lowered itself",
    AruRaisedBlindly "raises an aru that another lowered",
    AnyDataIsEvidence "takes any packet as evidence that the token moved on",
    SeqReused "gives a place away that it has used itself",
    WindowIgnored "sends as much as it likes",
    PiecesForgotten "loses the middle of cut messages",
    PayloadCut "delivers a message one byte short",
    TokenNotRetransmitted "never sends the token again",
    ParksWithWork "parks the token although requests are open, and never lets it go",
    RetransmissionNotAnswered "answers no requests",
);

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
    WindowNeverLowered "keeps the windows where they are however much is lost",
    TokensWindowIgnored "sends as much as the largest windows would let it, whatever the token says",
    PiecesForgotten "loses the middle of cut messages",
    PayloadCut "delivers a message one byte short",
    TokenNotRetransmitted "never sends the token again",
    ParksWithWork "parks the token although requests are open, and never lets it go",
    RetransmissionNotAnswered "answers no requests",
    AnyRingsTokens "takes tokens of any ring",
    AnyRingsData "takes packets of any ring for its own",
    DeadHeeded "heeds what an earlier life of a member said",
    StaleJoinsMerged "heeds JOINs of earlier gatherings",
    EarlierLifeKept "wants both lives of a restarted node in",
    LeaveAgrees "takes a good-bye for agreement",
    CommitsUnasked "commits before all agree",
    AgreementKept "counts on agreement to what it has changed since",
    SilentKept "waits for the silent for ever",
    StrangersAdmitted "lets a stranger tear the ring down whoever hears whom",
    ForeignDataGathers "gathers whenever it hears a packet of another ring",
    NoBeacons "never tells others of its ring",
    TokenLossIgnored "waits for a lost token for ever",
    CommitForOthers "takes part in a commit token for other members than it wants",
    NumberReused "numbers a ring as if the last attempt had not been",
    StoreUnfrozen "lets late packets into the store that it has told others of",
    ToldUnheld "tells the others that it holds what it misses",
    MapNotExtended "forgets that a later member holds less than the earlier ones",
    ObligationsForgotten "does not tell the others whose messages it owes",
    NoObligations "owes nobody but itself anything",
    EverybodySends "sends what others send already",
    NotPutBack "does not keep what it recovered",
    HolesRecovered "waits for packets that nobody holds",
    FirstTokenTwice "makes the first token again when the commit token comes again",
    InstallsEarly "installs before all hold what is recovered",
    NoCutLine "delivers every safe message in the old view",
    OwnLine "delivers safe messages in the old view only as far as it knew itself",
    ClosesTooSoon "closes the old view before it has delivered what belongs to it",
    NoTransitional "leaves the transitional view out",
    AllMovedTogether "says that all members came along",
    GapIgnored "delivers what stands behind a hole, whoever sent it",
    RecoveryAruInherited "counts what recovery proved for messages of the new view",
    PartForgotten "sends only the rest of a message that was cut by the change",
    QueueForgotten "forgets what waits when a view is installed",
    PrimaryAtInstall "calls a view primary as soon as it has installed it",
    PrimaryAnywhere "lets any view become primary",
    PrimaryWhileClosed "calls a view primary that is being closed",
);

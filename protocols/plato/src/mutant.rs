//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

macro_rules! mutants {
    ($($name:ident $what:literal),* $(,)?) => {
        /// A rule that the engine under test breaks.
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
    ConflictsStand "confirms a message without revoking what was offered before it and stands behind it",
    OffersLeftOpen "closes a view without closing the offers of it",
    ArrivalAsOrder "takes its own order of arrival for the order",
    OrderWithoutPacket "goes on to the next place where the packet of one is missing",
    PlacesForgotten "ignores at the end of a view the places that others hold of it",
    ListKept "keeps at the end of a view the places to itself that it gave and did not tell",
    PlacesAfterEnd "goes on giving places when the view has ended",
    GapsKept "keeps, when it has told what it holds, what stands behind gaps",
    KnowsAlone "decides at the end of a view by what it alone finds out while it fetches",
    CauseIgnored "delivers at the end of a view what may stand behind something that nobody there has",
    ClosingByArrival "closes a view in the order in which packets arrived",
    SafeAsAgreed "delivers safe messages without waiting for stability",
    OrderUnheld "calls a message safe although not all hold its place",
    NoTransitional "delivers what only some may get before the transitional view",
    GapsTaken "takes packets as they come, whatever is missing before them",
    TwiceTaken "takes a packet again that it has taken",
    NoRequests "asks nobody for what is missing",
    NoAnswers "answers no requests",
    NoStatus "tells nobody what it holds",
    FreedEarly "lets go of packets that others may still ask for",
    ListNeverFlushed "waits for a full list of places however long",
    WindowIgnored "sends as much as it likes",
    AnyViewsPackets "takes packets of any view for its own",
    PartForgotten "sends only the rest of a message that was cut by the change of views",
    OpenGate "sends clients' messages before the layer above has settled into a view",
    PrimaryWhileClosed "calls a view primary that is being closed",
);

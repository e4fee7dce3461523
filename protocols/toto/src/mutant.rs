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
    PhiReached "releases with Phi approvals, not more",
    PhiBelowHalf "takes n/2 - 1 for Phi",
    NoInternal "does not wait until every other candidate is beaten",
    NoExternal "does not wait until no unseen candidate can overtake",
    StarsCompared "compares votes that are not cast as if they were equal",
    CrashEarly "takes members for gone before it has all their messages of the agreed set",
    SafeAsAgreed "delivers safe messages without waiting until all hold them",
    DiscardEarly "lets go of messages that others may still ask for",
    InsertedBlindly "inserts a message before those that it follows",
    NaksIgnored "answers no requests",
    NeverAsks "asks for nothing that is lost",
    NoNulls "acknowledges nothing unless it has something to say",
    WindowIgnored "sends as much as it likes",
    TakenAfterTelling "goes on taking in messages after it has told what it holds",
    ParkedTaken "takes in what came too soon although it does not belong to the agreed set",
    KnowsAlone "decides at the end of a view by what it alone finds out while it fetches",
    SentAfterHalt "goes on sending in a view that ends",
    StatusForgotten "never tells what it holds",
    ClosesTooSoon "closes the view before it has delivered what belongs to it",
    RestLeftOut "leaves out what is not decided when the view ends",
    PartForgotten "sends only the rest of a message that was cut by the change",
    PrimaryWhileClosed "calls a view primary that is being closed",
);

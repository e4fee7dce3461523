//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

consort_types::mutants!(
    PartialKept "keeps what an exchange that was cut short had heard",
    ExchangeDropped "drops what an exchange has heard where its view is closing, though the rest is delivered behind",
    DeparturesLast "takes the departed out after it has let the arrived in",
    DeparturesFromView "takes for departed who is not in the view, not who did not come along",
    ExchangeSkipped "lets clients send before the exchange is complete",
    FirstPartOnly "takes each daemon's first part for all it says",
    OwnPartOnly "takes the exchange for complete when it has heard itself",
    PartsOfAnyView "heeds parts of other views",
    PartsNotSplit "sends all it has to say in one part",
    SyncedWithAll "counts on whoever comes along to know the same, even where the last exchange was cut short",
    JoinUnhashed "forgets own clients' joins in the hash",
    ArrivalsUntold "does not tell members of groups that others arrived",
    UntouchedTold "tells a new group view to groups that have not changed",
    SignalForgotten "gives no transitional signal",
    SignalForAll "gives every group a transitional signal",
    AllTogether "says that all members moved together",
    PrimaryTooSoon "calls the groups that were there primary while the daemons still tell each other theirs",
    PrimaryKept "leaves groups primary while their view is closing",
    PrimaryUntold "does not tell groups that have not changed that their view has become primary, or is so no more",
    EachGroupAgain "gives a message once for each of its groups that the receiver is in",
    LeaverServed "goes on giving messages to whoever has left",
    ClosedToNobody "lets everybody send to closed groups",
    JoinsCounted "counts joins that changed nothing, at its own daemon",
    OwnTableKept "goes on with its own table of producers where others have a later one",
    LowestTableTaken "takes the lowest daemon's table of producers, whatever view it is of",
    TableOfNoView "takes a table of producers, and not of which view it is",
    ClosingCompletesMissed "does not heed who completes a view while it is closing",
    MemoryBorrowed "counts as remembering who has its table of producers from others",
    StaleTableKept "goes on with a table of producers that too few remember",
    MemoryUncounted "counts views for producers where too few remember",
    MissedViewIgnored "counts as remembering who missed a view that was primary, where one is enough",
    FirstCompleteCounts "counts a view for producers once any member has completed it",
    EffectAnywhere "lets numbered messages have effect in views that do not count",
    OpenedAnywhere "opens producers in views that do not count",
    OpenedLate "opens a producer for whom another connection or session has come before",
    FenceForgotten "lets a connection send on when its producer was opened again",
    NumbersUnchecked "takes a producer's message whatever its number",
    RefusalNumbered "gives a number to what a closed group refuses",
    BatchCountedOnce "counts a batch of numbered messages as one",
    RenewalForgotten "says only once that a producer was forgotten",
    RefusedDelivered "gives its clients what others' producers were refused",
    OwnSendsCounted "counts the messages of its own clients' producers only",
    NumbersAnew "begins numbers anew with each opening",
    LineMoves "moves a view's line on while it is closing",
    OwnLineOnly "has a reader go on up to this daemon's line, wherever that of its former daemon is",
    AnyClosingTogether "takes any two daemons that close a view for closing it together",
    MissedUntold "says nothing of what the history that counts has before a view, and this daemon has not",
    CommonToOwnLine "says that histories are the same up to this daemon's line, wherever the reader's is",
    DisconnectForgotten "leaves clients in their groups when they are gone",
);

#[cfg(feature = "mutants")]
impl Mutant {
    /// Whether it breaks what is promised to readers whose positions belong to views.
    pub const fn is_of_readers(self) -> bool {
        matches!(
            self,
            Self::LineMoves | Self::OwnLineOnly | Self::AnyClosingTogether | Self::CommonToOwnLine | Self::MissedUntold
        )
    }

    /// Whether it breaks what is promised to producers.
    pub const fn is_of_producers(self) -> bool {
        matches!(
            self,
            Self::OwnTableKept
                | Self::LowestTableTaken
                | Self::TableOfNoView
                | Self::ClosingCompletesMissed
                | Self::MemoryBorrowed
                | Self::StaleTableKept
                | Self::MemoryUncounted
                | Self::MissedViewIgnored
                | Self::FirstCompleteCounts
                | Self::EffectAnywhere
                | Self::OpenedAnywhere
                | Self::OpenedLate
                | Self::FenceForgotten
                | Self::NumbersUnchecked
                | Self::RefusalNumbered
                | Self::BatchCountedOnce
                | Self::RenewalForgotten
                | Self::RefusedDelivered
                | Self::OwnSendsCounted
                | Self::NumbersAnew
        )
    }
}

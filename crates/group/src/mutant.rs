//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

consort_types::mutants!(
    PartialKept "keeps what an exchange that was cut short had heard",
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
    EachGroupAgain "gives a message once for each of its groups that the receiver is in",
    LeaverServed "goes on giving messages to whoever has left",
    ClosedToNobody "lets everybody send to closed groups",
    JoinsCounted "counts joins that changed nothing, at its own daemon",
    DisconnectForgotten "leaves clients in their groups when they are gone",
);

//! Rules of a replica's driver, broken on purpose. Those of its engine are broken there.
consort_types::mutants!(
    ServesUnbound "reads the log and serves before its copy is bound",
    BeginsAtEnd "begins without a state at the end of the log, not where the history began",
    SkipsLost "goes on where the log begins, without what its state lacks",
    IdentityLate "asks for its binding before its directory says which",
    AnswersSent "answers a command once it is sent",
    ReadsAtOnce "reads without a mark",
    BookmarkAhead "reads on behind the next message of the log",
    TableUnkept "keeps no origins in a checkpoint",
    PlaceKeptLate "keeps a later position in a checkpoint than its state has",
);
pub use Mutant as ServerFlaw;

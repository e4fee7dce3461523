//! Rules of a replica's driver, broken on purpose. Those of its engine are broken there.
consort_types::mutants!(
    ServesUnbound "reads the log and serves before its copy is bound",
    BeginsAtEnd "begins without a state at the end of the log, not where the history began",
    SkipsLost "goes on where the log begins, without what its state lacks",
    UnsyncedCounts "acknowledges a checkpoint that is not synced",
    IdentityLate "asks for its binding before its directory says which",
    CopiedDirectoryTaken "takes a directory that was put back for its own",
    AnswersSent "answers a command once it is sent",
    ReadsAtOnce "reads without a mark",
    StaleReadingTaken "takes messages of an earlier reading",
    DonorUnchecked "takes a checkpoint that ends before the log begins, and reads on from there",
    BookmarkAhead "reads on behind the next message of the log",
    DamagedTaken "takes a damaged checkpoint for a whole one, without its commands",
);
pub use Mutant as ServerFlaw;

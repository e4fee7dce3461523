//! Rules of durable copies, broken on purpose: a test shows that each is noticed.
consort_types::mutants!(
    EmptyRemembers "counts a copy with an empty directory among those that remember",
    LongestCounts "takes the longest log, not that of the highest term",
    TermUnkept "promises a term without writing it down",
    UnsyncedCounts "says that an entry is synced before it is",
    MinorityCommits "commits what one copy has on disk",
    TermApart "has a term on disk before its log",
    TailKept "keeps what it has beyond the log of a term",
    OneFounds "begins a store alone",
    LostFounds "goes on with what is left though a majority of the directories is lost",
    ClosingEntriesCount "takes commands that others may not receive",
    MarksUncommitted "lets a reader see what is not committed",
);

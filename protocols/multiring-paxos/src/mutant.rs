//! Rules to break on purpose, one at a time. Each must be noticed by the model.

consort_types::mutants!(
    TiesByArrival "orders equal slots by which ring has more to hand out",
    WaitsForNobody "does not wait for rings that have nothing to hand out",
    CursorForgotten "hands out again what it had handed out of an entry before its checkpoint",
    JoinsAtCopyBeside "joins a ring at the copy beside, wherever the ring's own copy stands",
    JoinsAtOwnCopy "joins a ring at the ring's own copy, wherever the copy beside stands",
    JoinsUnasked "hands on before it knows the copy in the ring that it joins",
    LeavesAtFirstCopy "leaves a ring at the first copy",
    CopiesCountTwice "takes a change's second copy in one ring for the copy in the other",
    OldCopiesCount "takes copies of changes that have taken effect for the next change",
    SettledAtOnce "proposes a change before all rings have passed where the last one took effect",
    ProgressForgotten "keeps nothing of a half read change in its checkpoint",
    GapsTaken "takes an entry that does not follow the last one",
    KnownTakenAgain "takes an entry that it has",
    BudgetIgnored "keeps entries beyond its budget",
    UncoveredInstalled "installs a checkpoint that does not reach what is cached",
    AnyViewCounts "hands out messages that were sent in another view",
    NothingTakenBack "does not send again what a view has made void",
    RingsOvertake "sends to a ring before what went to another one is handed out",
    ViewsOfAnyRing "changes its view where any ring does",
);

//! Rules to break on purpose, one at a time: `CONSORT_MULTIRING_MUTANT` names one for the tests of this crate.

consort_types::mutants!(
    HorizonsIgnored "hands out what comes without waiting for other rings",
    ClocksIgnored "stamps without regard to what this node has seen",
    TellsEarly "tells of the rings behind it ahead of what it has to send on",
    SafeByReach "hands out safe messages once all that stands before them has come",
    SafeAtHome "hands out safe messages once its own ring holds them",
    TellsUnclosed "tells what it holds while its rings go on",
    BeginsUnasked "sends as soon as it has begun, whoever else has not",
    ClosingCounts "takes what a ring hands out while it closes for everything up to there",
    ForwardsNothing "sends nothing on",
    EdgesIgnored "closes a view by what it knew alone",
    ReleasedEarly "lets go of what is handed out, whoever lacks it",
    StampsAnew "orders what a gateway sends on by the stamps of the ring that it comes by",
    TellsNothing "tells nobody what it has handed out",
    FetchUnanswered "answers nobody who lacks messages of a view that is being closed",
    RestForgotten "hands out nothing of what is left of a view",
    VoidLost "does not send again what had no place in the view that ended",
);

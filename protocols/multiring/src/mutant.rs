//! Rules to break on purpose, one at a time: `CONSORT_MULTIRING_MUTANT` names one for the tests of this crate.

consort_types::mutants!(
    HorizonsIgnored "hands out what comes without waiting for other rings",
    ClocksIgnored "stamps without regard to what this node has seen",
    TellsEarly "tells of the rings behind it ahead of what it has to send on",
    SafeByReach "hands out safe messages once all that stands before them has come",
    SafeAtHome "hands out safe messages once its own ring holds them",
    EndIgnored "takes in what stands behind the end of the view in a ring",
    TellsUnclosed "tells what it holds while its rings go on",
    BeginsUnasked "sends as soon as it has begun, whoever else has not",
    BeginsAnywhere "counts a beginning in whatever configuration of the ring",
    ClosingCounts "takes what a ring hands out while it closes for everything up to there",
    OwnVoided "sends again what stands behind the end of the view, though it was numbered",
    ForwardsNothing "sends nothing on",
    EdgesIgnored "closes a view by what it knew alone",
    ReleasedEarly "lets go of what is handed out, whoever lacks it",
    VoidLost "does not send again what had no place in the view that ended",
);

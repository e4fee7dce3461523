//! Rules to break on purpose, one at a time. Each must be noticed by a judge of the crate's own seeds.

consort_types::mutants!(
    SmallQuorum "decides with one vote less than a majority",
    AcceptsBelow "accepts by ballots below its promise",
    VotesUnkept "votes before its disk has the vote",
    AcceptedIgnored "proposes nothing where others have accepted something",
    RecoversAlone "votes after a lost disk when one other has answered",
);

//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

consort_types::mutants!(
    OwnCut "takes what it holds itself for the agreed set",
    LinksIgnored "lets members go on together that had others between them",
    FirstTellerOnly "plans with what the first teller of each old view holds",
    InstallsUnready "installs as soon as it is complete itself",
    NewViewIgnored "does not take a packet of the new view for its install, nor answers who is ready",
    SilenceIgnored "waits for a silent member for ever",
    NoHeartbeat "says nothing while it has nothing to say",
    SilentKept "waits for those that do not agree for ever",
    ProposesUnasked "proposes a view before all agree",
    DeadHeeded "heeds what an earlier incarnation of a member said",
    StrangersAdmitted "lets a stranger tear a view down whoever hears whom",
    QuarantineForgotten "lets others bring those that it keeps out itself",
    NoBeacons "never tells others of its view",
    NumberReused "numbers a view as the last one",
    AllMovedTogether "says that all members came along",
    PrimaryAnywhere "lets any view become primary",
    SettledAtInstall "calls a view settled as soon as it has installed it",
    RepeatsAlone "says to the proposer alone what this does not hear",
    OversleptStays "takes part in a pending view however long it was not run",
    OwnStable "closes a view with what it knows itself to be stable",
);

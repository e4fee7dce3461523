//! Rules of replicas, broken on purpose: a test shows that each is noticed, and the simulator notices some of them, too.
consort_types::mutants!(
    UnsentAgain "sends nothing again behind a lost connection",
    GapsTaken "counts a command though one before it is missing",
    CopiesTaken "counts a second copy of a command",
    EpochsIgnored "counts a command whatever opening its origin had when it was sent",
    OpeningsImplicit "opens an origin with the first command that it sees of it",
    OpeningRenews "gives an origin that is remembered a new epoch and new numbers",
    NewestForgotten "forgets the origin that spoke last for another",
    ForgottenGoesOn "goes on under an origin that is forgotten",
    NumbersGoOn "goes on with the numbers of the origin before under a new one",
    ReadTwice "applies what its checkpoint has already",
    OriginsUnkept "keeps no origins in a checkpoint",
    NextKeptLate "keeps a later position than its state has",
    LostAsUnsent "sends commands again that a checkpoint of another has",
    UnknownForgotten "does not say that the fate of a command is unknown",
    MarksUnsent "does not send the mark of those who read again",
);

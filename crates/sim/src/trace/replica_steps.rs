//! What happens to replicas: servers with a state, and those that call them.
use std::fmt;

/// How many registers a replicated state has.
pub const REGISTERS: usize = 4;

/// A step of a server. What a step has no use for is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRecord {
    /// Which.
    pub step: ReplicaStep,
    /// Which of the run's servers.
    pub server: u16,
    /// Which command or read.
    pub call: u64,
    /// A number in the history of commands: of a command, or of the last one that a state contains.
    pub at: u64,
    /// A response, or a sum of the state.
    pub sum: u64,
    /// What is called.
    pub command: RegisterCommand,
}

/// A command: what is done to one register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterCommand {
    /// What.
    pub deed: RegisterDeed,
    /// Which register.
    pub key: u8,
    /// What it is set to.
    pub value: u64,
    /// What it must be for that.
    pub expected: u64,
}

/// What a command does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegisterDeed {
    /// Nothing.
    #[default]
    Get,
    /// Sets it.
    Set,
    /// Sets it if it is as expected.
    Swap,
}

/// What is said of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaStep {
    /// It starts with a state.
    Starts,
    /// It ends, or is killed: who called it is not answered.
    Ends,
    /// Its directory is refused, as that was put back.
    Refused,
    /// It is up to date.
    Serves,
    /// A command is called.
    Called,
    /// It is answered.
    Answered,
    /// Its response is lost; `at` is 1 if it is said to be applied.
    Lost,
    /// The state is to be read.
    Reads,
    /// It was read.
    Read,
    /// The state takes a command.
    Applied,
    /// The state is replaced by another's.
    Restored,
}

impl RegisterCommand {
    /// Does it; returns what the register was before.
    pub const fn apply(&self, registers: &mut [u64; REGISTERS]) -> u64 {
        let register = &mut registers[self.key as usize % REGISTERS];
        let before = *register;
        match self.deed {
            RegisterDeed::Set => *register = self.value,
            RegisterDeed::Swap if before == self.expected => *register = self.value,
            RegisterDeed::Get | RegisterDeed::Swap => {}
        }
        before
    }
}

impl RegisterDeed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Get, Self::Set, Self::Swap];
}

impl ReplicaRecord {
    /// A step of which nothing is said.
    pub const fn of(step: ReplicaStep, server: u16) -> Self {
        let command = RegisterCommand { deed: RegisterDeed::Get, key: 0, value: 0, expected: 0 };
        Self { step, server, call: 0, at: 0, sum: 0, command }
    }
}

impl fmt::Display for ReplicaRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, server, call, at, sum, command } = self;
        let RegisterCommand { deed, key, value, expected } = command;
        write!(f, "step={} server={server} call={call} at={at} sum={sum}", step.name())?;
        write!(f, " deed={} key={key} value={value} expected={expected}", *deed as u8)
    }
}

impl ReplicaStep {
    /// All of them, with the words for them.
    const ALL: [(Self, &'static str); 11] = [
        (Self::Starts, "starts"),
        (Self::Ends, "ends"),
        (Self::Refused, "refused"),
        (Self::Serves, "serves"),
        (Self::Called, "called"),
        (Self::Answered, "answered"),
        (Self::Lost, "lost"),
        (Self::Reads, "reads"),
        (Self::Read, "read"),
        (Self::Applied, "applied"),
        (Self::Restored, "restored"),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(step, _)| *step == self).map_or("", |(_, name)| name)
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(step, _)| *step)
    }
}

//! Service levels and classes.

/// What a sender asks for one message. All levels of one engine share one order unless its capability record says
/// that it delivers the first three earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Service {
    /// Delivered to all members that stay; rides as agreed where the engine says so.
    Reliable = 1,
    /// After the sender's earlier messages.
    Fifo = 2,
    /// After all messages the sender had delivered or sent before.
    Causal = 3,
    /// In one total order at all members.
    #[default]
    Agreed = 4,
    /// Agreed, and only once every member of the view is known to hold it.
    Safe = 5,
}

impl Service {
    /// All levels, weakest first.
    pub const ALL: [Self; 5] = [Self::Reliable, Self::Fifo, Self::Causal, Self::Agreed, Self::Safe];

    /// The level with this number on the wire.
    pub const fn from_wire(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Reliable),
            2 => Some(Self::Fifo),
            3 => Some(Self::Causal),
            4 => Some(Self::Agreed),
            5 => Some(Self::Safe),
            _ => None,
        }
    }

    /// The level's name as the command line and the documents write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reliable => "reliable",
            Self::Fifo => "fifo",
            Self::Causal => "causal",
            Self::Agreed => "agreed",
            Self::Safe => "safe",
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|service| service.name() == text);
        found.ok_or_else(|| format!("unknown service `{text}`; choose reliable, fifo, causal, agreed or safe"))
    }
}

/// Who a submitted message is for. Control messages (group state exchange) pass the gate that follows a new view;
/// client messages wait behind it until the node says `resume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The group layer's own.
    Control,
    /// A client's.
    Client,
}

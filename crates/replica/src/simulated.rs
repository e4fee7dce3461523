//! The engines of replicas without their drivers, for the simulator. No program needs them.

/// On an order that lasts.
pub mod lasting {
    #[cfg(any(test, feature = "mutants"))]
    pub use crate::lasting::broken::Mutant;
    pub use crate::lasting::engine::{Effect, Engine, Progress};
    pub use crate::lasting::identity::Identity;
    pub use crate::lasting::keeping::Kept;
    pub use crate::lasting::origins::Origins;
    pub use crate::lasting::seat::{Choice, Wanted, address_of, any_of, choose, donors, known_epoch};
}

/// The log that durable copies keep.
pub mod durable {
    #[cfg(any(test, feature = "mutants"))]
    pub use crate::durable::Mutant;
    pub use crate::durable::{Disk, Effect, Engine, Settings};
}

/// On an order that forgets.
pub mod forgetting {
    pub use crate::engine::{Base, Effect, Engine, Gift, Membership, Settings};
    pub use crate::gift::{Incoming, Parts, Private, encode};
    pub use crate::line::{Entry, Line, Others, Point, ReplicaId, Seen};
}

pub use crate::frame::{Frame, Peer};
pub use crate::line::Origin;

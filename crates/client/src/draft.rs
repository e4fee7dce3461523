//! A message that is to be sent.
use crate::outbox::Outgoing;
use crate::session::targets;
use crate::{Addressee, Bytes, Error, Service, Target};

/// A message that is to be sent: what a `Sink` takes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use consort::{Draft, GroupName, Service};
///
/// let draft = Draft::new(Service::Agreed, &[GroupName::new("orders")?], "a pound of tea")?;
/// assert_eq!(draft.payload(), b"a pound of tea");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    service: Service,
    to: Vec<Target>,
    payload: Bytes,
}

impl Draft {
    /// A message to all members of the groups and to the clients that are named.
    ///
    /// # Errors
    /// [`Error::Targets`] where none are named, too many, or one that nobody can be called.
    pub fn new<T: Addressee>(service: Service, to: &[T], payload: impl Into<Bytes>) -> Result<Self, Error> {
        Ok(Self { service, to: targets(to)?, payload: payload.into() })
    }

    /// What is sent.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn outgoing(&self) -> Outgoing<'_, Target> {
        Outgoing::Multicast(self.service, &self.to, &self.payload)
    }

    pub(crate) fn into_parts(self) -> (Service, Vec<Target>, Bytes) {
        (self.service, self.to, self.payload)
    }
}

//! How a client connects and sends.
use crate::{Address, ClientName, ClientNameError, Undo};
use bytes::BytesMut;
use consort_session::Hello;
use std::time::Duration;

/// How a client connects and sends.
///
/// ```
/// # fn main() -> Result<(), consort::ClientNameError> {
/// use consort::ConnectOptions;
/// use std::time::Duration;
///
/// let options = ConnectOptions::default().called("ann")?.with_views().send_within(Duration::from_secs(1));
/// assert!(options.wants_views);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// What the client is called; the daemon finds a name where there is none.
    pub name: Option<ClientName>,
    /// Whether it receives network views.
    pub wants_views: bool,
    /// Whether it is offered messages before their place is final, and which offers it can undo.
    pub optimistic: Option<Undo>,
    /// Whether each message tells its position in the order and its sender's incarnation, for eight bytes a message. Means
    /// nothing to optimistic clients: what is offered has no position yet. Daemons of earlier releases refuse the session.
    pub wants_positions: bool,
    /// How long connecting may take, the daemon's welcome included.
    pub connect_within: Duration,
    /// How long a send may wait for credit; for as long as it takes where nothing is said.
    pub send_within: Option<Duration>,
    /// Writes each send at once instead of collecting them. Costs several times the CPU for small messages.
    pub unbatched: bool,
    /// How long the machine of a daemon at a TCP address may answer nothing before the connection is given up, as
    /// [`Error::ConnectionLost`](crate::Error::ConnectionLost); 3 s to 6 h. A daemon that takes nothing from this client
    /// for so long, though bytes wait for it, is given up as well: TCP does not tell the two apart.
    pub host_timeout: Duration,
    /// Offers a daemon on this machine to exchange bytes through shared memory. A daemon that declines, or knows nothing
    /// of it, is spoken to through its socket, as every daemon is where this is off.
    pub shares_memory: bool,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            name: None,
            wants_views: false,
            optimistic: None,
            wants_positions: false,
            connect_within: Duration::from_secs(5),
            send_within: None,
            unbatched: false,
            host_timeout: Duration::from_secs(60),
            shares_memory: true,
        }
    }
}

impl ConnectOptions {
    /// Gives the client a name, which no other client of the daemon may have.
    ///
    /// # Errors
    /// [`ClientNameError`] where no client can be called so.
    pub fn called(self, name: &str) -> Result<Self, ClientNameError> {
        let name = ClientName::new(name.as_bytes()).ok_or_else(|| ClientNameError { name: name.to_owned() })?;
        Ok(Self { name: Some(name), ..self })
    }

    /// Wants network views, too.
    #[must_use]
    pub fn with_views(self) -> Self {
        Self { wants_views: true, ..self }
    }

    /// Has each message tell its position and its sender's incarnation; see [`Self::wants_positions`].
    #[must_use]
    pub fn with_positions(self) -> Self {
        Self { wants_positions: true, ..self }
    }

    /// Wants to be offered messages before their place is final: [`Event::Offer`](crate::Event::Offer),
    /// [`Event::Revoke`](crate::Event::Revoke) and [`Event::Confirm`](crate::Event::Confirm) come instead of
    /// [`Event::Message`](crate::Event::Message). Where the daemon's protocol offers nothing, both come at once.
    #[must_use]
    pub fn optimistic(self, undo: Undo) -> Self {
        Self { optimistic: Some(undo), ..self }
    }

    /// Sets how long connecting may take, the daemon's welcome included.
    #[must_use]
    pub fn connect_within(self, within: Duration) -> Self {
        Self { connect_within: within, ..self }
    }

    /// Sets how long a send may wait for credit.
    #[must_use]
    pub fn send_within(self, within: impl Into<Option<Duration>>) -> Self {
        Self { send_within: within.into(), ..self }
    }

    /// Writes each send at once. Costs several times the CPU for small messages.
    #[must_use]
    pub fn unbatched(self) -> Self {
        Self { unbatched: true, ..self }
    }

    /// Sets how long the machine of a daemon may answer nothing; see [`Self::host_timeout`].
    #[must_use]
    pub fn host_timeout(self, silence: Duration) -> Self {
        Self { host_timeout: silence, ..self }
    }

    /// Uses the socket alone, even with a daemon on this machine.
    #[must_use]
    pub fn without_shared_memory(self) -> Self {
        Self { shares_memory: false, ..self }
    }

    /// Whether it offers memory to a daemon there.
    pub(crate) const fn shares_memory_at(&self, address: &Address) -> bool {
        self.shares_memory && matches!(address, Address::Unix(_))
    }

    /// What such a client says first.
    pub(crate) fn hello(&self) -> BytesMut {
        let mut hello = BytesMut::new();
        let Self { name, wants_views, optimistic, .. } = self.clone();
        let wants_positions = self.wants_positions && optimistic.is_none();
        Hello { name, wants_views, optimistic, wants_positions, ..Hello::default() }.put(&mut hello);
        hello
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setter_sets_its_own_and_nothing_else() {
        let (long, short) = (Duration::from_secs(9), Duration::from_millis(9));
        let built = ConnectOptions::default().called("ann").unwrap().with_views();
        let built = built
            .connect_within(long)
            .send_within(short)
            .host_timeout(long)
            .unbatched()
            .optimistic(Undo::Latest)
            .with_positions()
            .without_shared_memory();
        let name = ClientName::new(b"ann");
        assert!(name.is_some());
        let meant = ConnectOptions {
            name,
            wants_views: true,
            optimistic: Some(Undo::Latest),
            wants_positions: true,
            connect_within: long,
            send_within: Some(short),
            unbatched: true,
            host_timeout: long,
            shares_memory: false,
        };
        assert_eq!(built, meant);
        assert_eq!(ConnectOptions::default().send_within(short).send_within(None), ConnectOptions::default());
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_rule() {
        let longest = "x".repeat(ClientName::MAX);
        assert!(ConnectOptions::default().called(&longest).is_ok());
        for name in ["", "a b", "a#b", "t\u{e9}", "line\n", &format!("{longest}x")] {
            let error = ConnectOptions::default().called(name).unwrap_err();
            let rule = "no name for a client: use 1 to 23 printable ASCII characters, no space, no `#`";
            assert_eq!(error.to_string(), format!("{name:?} is {rule}"));
        }
    }
}

//! How a client connects and sends.
use crate::silence::Silence;
use crate::{Address, ClientName, ClientNameError, OptionError, SlowRequest, Undo};
use bytes::BytesMut;
use consort_session::Hello;
use std::time::Duration;

/// The shortest silence that may end a session, and the longest.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(6 * 60 * 60);

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
#[non_exhaustive]
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
    /// How long a daemon at a TCP address may be silent before the connection is given up, as
    /// [`Error::ConnectionLost`](crate::Error::ConnectionLost); 1 s to 6 h, 2 s by default. Its machine has vanished then, or
    /// the daemon is stopped for that long: where bytes wait for it, TCP does not tell the two apart. The daemon says
    /// something four times in that time, so that a stop of half of it is never too long.
    ///
    /// A daemon of an earlier release promises to say nothing. There the kernel alone finds a vanished machine: in a minute,
    /// or in this time if it is longer.
    pub host_timeout: Duration,
    /// The same for a daemon of this machine, at a Unix socket; 1 s to 6 h, 10 s by default, and for ever with `None`. It is
    /// stopped then, or hangs: a daemon that ends is noticed at once.
    pub daemon_timeout: Option<Duration>,
    /// What the daemon does if this client does not read; what its configuration says where nothing is said. A daemon that
    /// does not allow it refuses the session (`not_allowed`); a daemon of an earlier release refuses it as malformed.
    pub slow: Option<SlowRequest>,
    /// What proves who the client is, where the daemon asks for it; `consort token` makes it. 1 to 160 bytes. At a Unix socket
    /// it is shown to no other user's daemon ([`Error::Untrusted`](crate::Error::Untrusted)). Whoever reads
    /// it on its way can show it, too: over an open network it is to travel in a tunnel. Daemons of earlier releases refuse
    /// the session.
    pub token: Option<String>,
    /// With a daemon at a TCP address TLS 1.3 is spoken: whom this client believes, and what it shows. A Unix socket has no
    /// TLS, and this says nothing there: so a session may have addresses of both kinds.
    #[cfg(feature = "tls")]
    pub tls: Option<consort_tls::ClientTls>,
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
            host_timeout: Duration::from_secs(2),
            daemon_timeout: Some(Duration::from_secs(10)),
            slow: None,
            token: None,
            #[cfg(feature = "tls")]
            tls: None,
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
        Ok(self.named(name.parse::<ClientName>()?))
    }

    /// Gives the client a name, or lets the daemon find one.
    #[must_use]
    pub fn named(self, name: impl Into<Option<ClientName>>) -> Self {
        Self { name: name.into(), ..self }
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

    /// Sets how long a daemon at a TCP address may be silent; see [`Self::host_timeout`].
    #[must_use]
    pub fn host_timeout(self, silence: Duration) -> Self {
        Self { host_timeout: silence, ..self }
    }

    /// Sets how long a daemon of this machine may be silent; see [`Self::daemon_timeout`].
    #[must_use]
    pub fn daemon_timeout(self, silence: impl Into<Option<Duration>>) -> Self {
        Self { daemon_timeout: silence.into(), ..self }
    }

    /// Says what the daemon does if this client does not read; see [`Self::slow`]. With budgets of the client's own, which
    /// the daemon's bound, give a [`SlowRequest`].
    ///
    /// ```
    /// use consort::{ConnectOptions, SlowPolicy};
    ///
    /// let options = ConnectOptions::default().slow(SlowPolicy::Spool);
    /// assert!(options.slow.is_some_and(|asked| asked.policy == SlowPolicy::Spool));
    /// ```
    #[must_use]
    pub fn slow(self, asked: impl Into<SlowRequest>) -> Self {
        Self { slow: Some(asked.into()), ..self }
    }

    /// Shows this token; see [`Self::token`].
    #[must_use]
    pub fn showing(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Speaks TLS with daemons at TCP addresses; with those at Unix sockets none is spoken.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, tls: consort_tls::ClientTls) -> Self {
        Self { tls: Some(tls), ..self }
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

    /// Whether all is in range.
    pub(crate) fn check(&self) -> Result<(), OptionError> {
        let times = [("host_timeout", Some(self.host_timeout)), ("daemon_timeout", self.daemon_timeout)];
        let bad = times.into_iter().find_map(|(option, given)| {
            given.filter(|given| !(LEAST..=MOST).contains(given)).map(|given| (option, given))
        });
        bad.map_or(Ok(()), |(option, given)| Err(OptionError { option, given, least: LEAST, most: MOST }))
    }

    /// How long a daemon there may be silent.
    pub(crate) const fn silence_at(&self, address: &Address) -> Option<Duration> {
        match address {
            Address::Unix(_) => self.daemon_timeout,
            Address::Tcp { .. } => Some(self.host_timeout),
        }
    }

    /// What such a client says first; with the `silence` that it bears, if that is to be said.
    pub(crate) fn hello(&self, silence: Option<Duration>) -> BytesMut {
        let mut hello = BytesMut::new();
        let heartbeats = silence.map(Silence::interval);
        let Self { name, wants_views, optimistic, token, .. } = self.clone();
        let (slow, wants_positions) = (self.slow, self.wants_positions && optimistic.is_none());
        let others = Hello::default();
        Hello { name, wants_views, optimistic, wants_positions, heartbeats, slow, token, ..others }.put(&mut hello);
        hello
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlowPolicy;

    #[test]
    fn every_setter_sets_its_own_and_nothing_else() {
        let (long, short) = (Duration::from_secs(9), Duration::from_millis(9));
        let built = ConnectOptions::default().called("ann").unwrap().with_views();
        let built = built
            .connect_within(long)
            .send_within(short)
            .host_timeout(long)
            .daemon_timeout(short)
            .unbatched()
            .optimistic(Undo::Latest)
            .with_positions()
            .slow(SlowPolicy::Block)
            .showing("s1.ann.00")
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
            daemon_timeout: Some(short),
            slow: Some(SlowRequest::new(SlowPolicy::Block)),
            token: Some("s1.ann.00".into()),
            #[cfg(feature = "tls")]
            tls: None,
            shares_memory: false,
        };
        assert_eq!(built, meant);
        assert_eq!(ConnectOptions::default().send_within(short).send_within(None), ConnectOptions::default());
    }

    #[test]
    fn times_out_of_range_are_refused_by_name() {
        let (short, long) = (Duration::from_millis(999), Duration::from_secs(21_601));
        let plain = ConnectOptions::default;
        assert_eq!(plain().check(), Ok(()));
        assert_eq!(plain().host_timeout(LEAST).daemon_timeout(MOST).check(), Ok(()));
        assert_eq!(plain().daemon_timeout(None).check(), Ok(()));
        for bad in [plain().host_timeout(short), plain().daemon_timeout(long), plain().host_timeout(Duration::ZERO)] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        let told = plain().daemon_timeout(short).check().unwrap_err().to_string();
        assert_eq!(told, "daemon_timeout is 999ms; give a time from 1s to 21600s");
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

//! What the library tells `tracing`, with the feature of that name; nothing without it.
use crate::{Address, Error};

/// As long as it lives, a daemon is connected to.
pub(crate) struct Connecting {
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}

#[cfg(feature = "tracing")]
fn span(address: &Address) -> tracing::Span {
    tracing::debug_span!("connect", %address)
}

/// Begins to connect to a daemon.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(crate) fn connecting(address: &Address) -> Connecting {
    Connecting {
        #[cfg(feature = "tracing")]
        _span: span(address).entered(),
    }
}

/// The same for one who does not wait.
#[cfg(feature = "tokio")]
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(crate) fn while_connecting<T>(address: &Address, connect: impl Future<Output = T>) -> impl Future<Output = T> {
    #[cfg(feature = "tracing")]
    let connect = tracing::Instrument::instrument(connect, span(address));
    connect
}

/// How that ended.
pub(crate) fn connected<T>(outcome: Result<T, Error>) -> Result<T, Error> {
    #[cfg(feature = "tracing")]
    match &outcome {
        Ok(_) => tracing::debug!("connected"),
        Err(error) => tracing::debug!(%error, "not connected"),
    }
    outcome
}

/// A session's way from daemon to daemon: one span from a loss until the next daemon is of use.
#[derive(Debug, Default)]
pub(crate) struct Roams {
    #[cfg(feature = "tracing")]
    failover: Option<tracing::Span>,
}

#[cfg(feature = "tracing")]
impl Roams {
    /// A daemon is lost or left.
    pub(crate) fn lost(&mut self, address: &Address, why: &Error) {
        let failover = self.failover.get_or_insert_with(|| tracing::info_span!("failover", from = %address));
        failover.in_scope(|| tracing::info!(%address, %why, "a daemon is lost or left"));
    }

    /// A daemon cannot be reached.
    pub(crate) fn failed(&self, address: &Address, why: &Error) {
        self.inside(|| tracing::debug!(%address, %why, "a daemon cannot be reached"));
    }

    /// A daemon is connected to.
    pub(crate) fn connected(&self, address: &Address) {
        self.inside(|| tracing::info!(%address, "connected"));
    }

    /// It is of use: the producer is open, with so many sends that have no fate yet.
    pub(crate) fn opened(&mut self, unsettled: usize) {
        self.inside(|| tracing::info!(unsettled, "the producer is open"));
        self.failover = None;
    }

    /// A reading goes on, or where it does not.
    pub(crate) fn reads(&self, what: &'static str) {
        self.inside(|| tracing::info!("{what}"));
    }

    fn inside(&self, tell: impl FnOnce()) {
        match &self.failover {
            Some(failover) => failover.in_scope(tell),
            None => tell(),
        }
    }
}

#[cfg(not(feature = "tracing"))]
impl Roams {
    pub(crate) const fn lost(&self, _: &Address, _: &Error) {}

    pub(crate) const fn failed(&self, _: &Address, _: &Error) {}

    pub(crate) const fn connected(&self, _: &Address) {}

    pub(crate) const fn opened(&self, _: usize) {}

    pub(crate) const fn reads(&self, _: &'static str) {}
}

#[cfg(feature = "tracing")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Writes down what it is told.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<String>>);

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            write!(self.0, " {field}={value:?}").unwrap();
        }
    }

    impl Subscriber for Notes {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut notes = self.0.lock().unwrap();
            write!(notes, "[{}", span.metadata().name()).unwrap();
            span.record(&mut Fields(&mut notes));
            notes.push_str("]\n");
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut notes = self.0.lock().unwrap();
            event.record(&mut Fields(&mut notes));
            notes.push('\n');
        }

        fn enter(&self, _: &Id) {
            self.0.lock().unwrap().push('>');
        }

        fn exit(&self, _: &Id) {
            self.0.lock().unwrap().push('<');
        }
    }

    #[test]
    fn a_failover_is_one_span_until_the_next_daemon_is_of_use() {
        let notes = Notes::default();
        tracing::subscriber::with_default(notes.clone(), || {
            let (one, two) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap());
            let mut roams = Roams::default();
            roams.lost(&one, &Error::OtherHistory);
            roams.failed(&two, &Error::NobodyReceives);
            roams.lost(&two, &Error::OtherHistory);
            roams.opened(3);
            roams.reads("a gap");
        });
        let told = notes.0.lock().unwrap().clone();
        assert_eq!(told.matches("[failover from=10.0.0.1:1]").count(), 1, "{told}");
        assert_eq!(told.matches('>').count(), 4, "{told}");
        assert!(told.ends_with("message=the producer is open unsettled=3\n< message=a gap\n"), "{told}");
    }

    #[test]
    fn connecting_is_a_span_that_tells_how_it_ended() {
        let notes = Notes::default();
        tracing::subscriber::with_default(notes.clone(), || {
            let nowhere = "/nonexistent/socket".parse().unwrap();
            crate::Client::connect(&nowhere, &crate::ConnectOptions::default()).unwrap_err();
        });
        let told = notes.0.lock().unwrap().clone();
        assert!(told.starts_with("[connect address=unix:/nonexistent/socket]\n>"), "{told}");
        assert!(told.contains("message=not connected error=cannot connect to unix:/nonexistent/socket"), "{told}");
    }
}

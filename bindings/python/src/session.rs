//! Sessions, whole or half.
use crate::event;
use crate::failure::Failure;
use crate::waiting::{in_slices, span};
use consort::{
    Address, Client, ConnectOptions, Error, GroupName, PrivateName, Receiver, Sender, Service, Target, Welcome,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// A session with a daemon, or one half of it. Serves one thread at a time.
#[pyclass(frozen, module = "consort._consort")]
pub(crate) struct Session {
    half: Mutex<Half>,
    welcome: Welcome,
    send_within: Option<Duration>,
}

enum Half {
    Whole(Box<Client>),
    Sends(Box<Sender>),
    Receives(Box<Receiver>),
    Closed,
}

/// Does something with whatever sends.
macro_rules! sending {
    ($half:expr, |$way:ident| $act:expr) => {
        match $half {
            Half::Whole($way) => Ok($act?),
            Half::Sends($way) => Ok($act?),
            other => Err(other.does_not("send")),
        }
    };
}

impl Half {
    fn does_not(&self, what: &str) -> Failure {
        match self {
            Self::Closed => Failure::new("Closed", format!("this client was closed and does not {what}; connect anew")),
            _ => Failure::invalid(format!("this half of a client does not {what}; the other one does")),
        }
    }
}

impl Session {
    /// Does something with it, unless another thread does.
    fn using<T>(&self, act: impl FnOnce(&mut Half) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.half.try_lock() {
            Ok(mut half) => act(&mut half),
            Err(TryLockError::WouldBlock) => {
                Err(Failure::new("Busy", "another thread uses this client; split() makes halves for two threads"))
            }
            Err(TryLockError::Poisoned(_)) => {
                Err(Failure::new("Error", "a fault of this library broke this client; connect anew"))
            }
        }
    }
}

#[pymethods]
impl Session {
    /// Connects to a daemon.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "named, in Python")]
    fn connect(
        py: Python<'_>,
        address: &str,
        name: Option<&str>,
        views: bool,
        positions: bool,
        unbatched: bool,
        shared_memory: bool,
        connect_within: f64,
        send_within: Option<f64>,
        host_timeout: f64,
        token: Option<&str>,
    ) -> PyResult<Self> {
        let address: Address = address.parse().map_err(Failure::invalid)?;
        let bounded = |seconds| span(Some(seconds)).map(|span| span.unwrap_or(Duration::MAX));
        let mut options = ConnectOptions::default()
            .connect_within(bounded(connect_within)?)
            .send_within(span(send_within)?)
            .host_timeout(bounded(host_timeout)?);
        (options.wants_views, options.wants_positions) = (views, positions);
        (options.unbatched, options.shares_memory) = (unbatched, shared_memory);
        options.token = token.map(str::to_owned);
        if let Some(name) = name {
            options = options.called(name).map_err(Failure::invalid)?;
        }
        let client = py.detach(|| Client::connect(&address, &options)).map_err(Failure::from)?;
        let (welcome, send_within) = (client.welcome().clone(), options.send_within);
        Ok(Self { half: Mutex::new(Half::Whole(Box::new(client))), welcome, send_within })
    }

    #[getter]
    fn name(&self) -> &str {
        self.welcome.name.as_str()
    }

    #[getter]
    fn private_name(&self) -> String {
        PrivateName::new(&self.welcome.name, self.welcome.daemon.node).to_string()
    }

    #[getter]
    fn node(&self) -> u16 {
        self.welcome.daemon.node.0
    }

    #[getter]
    fn number(&self) -> u32 {
        self.welcome.client.0
    }

    #[getter]
    fn message_max(&self) -> u32 {
        self.welcome.message_max
    }

    /// Makes this the half that sends, and returns the one that receives.
    fn split(&self) -> PyResult<Self> {
        let receives = self.using(|half| match std::mem::replace(half, Half::Closed) {
            Half::Whole(client) => {
                let (sender, receiver) = client.split();
                *half = Half::Sends(Box::new(sender));
                Ok(Half::Receives(Box::new(receiver)))
            }
            other => {
                *half = other;
                Err(half.does_not("split"))
            }
        })?;
        Ok(Self { half: Mutex::new(receives), welcome: self.welcome.clone(), send_within: self.send_within })
    }

    fn join(&self, py: Python<'_>, group: &str, closed: bool) -> PyResult<u64> {
        let group = named(group)?;
        let join = |half: &mut Half| match closed {
            true => sending!(half, |way| way.join_closed(&group)),
            false => sending!(half, |way| way.join(&group)),
        };
        Ok(py.detach(|| self.using(join))?)
    }

    fn leave(&self, py: Python<'_>, group: &str) -> PyResult<u64> {
        let group = named(group)?;
        Ok(py.detach(|| self.using(|half| sending!(half, |way| way.leave(&group))))?)
    }

    /// Sends; where it is to wait for no credit it says so instead.
    fn multicast(
        &self,
        py: Python<'_>,
        service: i32,
        to: Vec<String>,
        payload: PyBackedBytes,
        waits: bool,
    ) -> PyResult<u64> {
        let known = u8::try_from(service).ok().and_then(Service::from_wire);
        let service =
            known.ok_or_else(|| Failure::invalid(format!("{service} is no service; give a consort.Service")))?;
        let to: Vec<Target> = to.iter().map(|name| target(name)).collect::<Result<_, _>>()?;
        let payload = &payload[..];
        if !waits {
            return Ok(py.detach(|| self.using(|half| sending!(half, |way| way.try_multicast(service, &to, payload))))?);
        }
        let mut late = None;
        let sent = in_slices(py, self.send_within, |slice| {
            let sent = self.using(|half| sending!(half, |way| way.multicast_within(service, &to, payload, slice)));
            unless_late(sent, &mut late)
        })?;
        sent.ok_or_else(|| still_late(late))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.using(|half| sending!(half, |way| way.flush())))?)
    }

    fn wait_ordered(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let mut late = None;
        let done = in_slices(py, span(timeout)?, |slice| {
            unless_late(self.using(|half| sending!(half, |way| way.wait_ordered(slice))), &mut late)
        })?;
        done.ok_or_else(|| still_late(late))
    }

    /// The numbers of the last send, and of the last that is ordered or refused with all before it.
    fn progress(&self) -> PyResult<(u64, u64)> {
        let progress = |half: &mut Half| sending!(half, |way| Ok::<_, Error>((way.sent(), way.progress().ordered)));
        Ok(self.using(progress)?)
    }

    /// The next event; none if none came in time.
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let event = in_slices(py, span(timeout)?, |slice| {
            self.using(|half| match half {
                Half::Whole(way) => Ok(way.receive(slice)?),
                Half::Receives(way) => Ok(way.receive(slice)?),
                other => Err(other.does_not("receive")),
            })
        })?;
        event.map(|event| event::to_python(py, event)).transpose()
    }

    /// Says good-bye. A whole client waits until the daemon has taken all.
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let within = span(timeout)?;
        let close = |half: &mut Half| match std::mem::replace(half, Half::Closed) {
            Half::Whole(client) => Ok(client.close(within)?),
            Half::Sends(sender) => Ok(sender.goodbye()?),
            Half::Receives(_) | Half::Closed => Ok(()),
        };
        Ok(py.detach(|| self.using(close))?)
    }
}

/// A try that was late comes to nothing; why it was late is kept.
fn unless_late<T>(tried: Result<T, Failure>, late: &mut Option<Failure>) -> Result<Option<T>, Failure> {
    match tried {
        Err(failure) if failure.is_late() => {
            *late = Some(failure);
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn still_late(late: Option<Failure>) -> PyErr {
    late.unwrap_or_else(|| Failure::new("TimedOut", "the time allowed was not enough")).into()
}

fn named(group: &str) -> Result<GroupName, Failure> {
    GroupName::new(group).map_err(Failure::invalid)
}

/// A group, or a client where it begins as a private name does.
fn target(name: &str) -> Result<Target, Failure> {
    if !name.starts_with('#') {
        return named(name).map(Target::Group);
    }
    let client = PrivateName::parse(name);
    client.map(Target::Client).ok_or_else(|| Failure::invalid(format!("{name:?} names no client; write #name#nNODE")))
}

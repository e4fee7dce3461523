//! Connections to one daemon, whole or half.
use crate::event;
use crate::failure::Failure;
use crate::names::{groups, named, service_of, targets};
use crate::options::Options;
use crate::reading::read_from;
use crate::waiting::{Owned, in_slices, span, still_late, unless_late};
use consort::{Client, Error, PrivateName, Receiver, Sender, Welcome};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::time::Duration;

/// What a second thread is told to do.
const REMEDY: &str = "another thread uses this client; split() makes halves for two threads";

/// A session with a daemon, or one half of it. Serves one thread at a time.
#[pyclass(frozen, module = "consort._consort")]
pub(crate) struct Connection {
    half: Owned<Half>,
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

/// Does something with whatever receives.
macro_rules! receiving {
    ($half:expr, |$way:ident| $act:expr) => {
        match $half {
            Half::Whole($way) => Ok($act),
            Half::Receives($way) => Ok($act),
            other => Err(other.does_not("receive")),
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

impl Connection {
    /// Does something with it, unless another thread does, or it is another process's.
    fn using<T>(&self, act: impl FnOnce(&mut Half) -> Result<T, Failure>) -> Result<T, Failure> {
        self.half.exclusively(REMEDY, act)
    }
}

#[pymethods]
impl Connection {
    /// Connects to a daemon.
    #[staticmethod]
    fn connect(py: Python<'_>, address: &str, options: &Options) -> PyResult<Self> {
        let address = address.parse().map_err(Failure::invalid)?;
        let options = &options.0;
        let client = py.detach(|| Client::connect(&address, options)).map_err(Failure::from)?;
        let (welcome, send_within) = (client.welcome().clone(), options.send_within);
        Ok(Self { half: Owned::new(Half::Whole(Box::new(client))), welcome, send_within })
    }

    /// Fails in a child of `fork()`.
    fn check_process(&self) -> PyResult<()> {
        Ok(self.half.check()?)
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
        Ok(Self { half: Owned::new(receives), welcome: self.welcome.clone(), send_within: self.send_within })
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
        let (service, to, payload) = (service_of(service)?, targets(&to)?, &payload[..]);
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
            self.using(|half| receiving!(half, |way| event::next_told(|| way.receive(slice))?))
        })?;
        event.map(|event| event::to_python(py, event)).transpose()
    }

    /// Begins to read groups by position.
    fn read(&self, py: Python<'_>, names: Vec<String>, from_: &str) -> PyResult<()> {
        let (names, from) = (groups(&names)?, read_from(from_)?);
        Ok(py.detach(|| self.using(|half| sending!(half, |way| way.read(&names, from))))?)
    }

    fn stop_reading(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.using(|half| sending!(half, |way| way.stop_reading())))?)
    }

    /// How far the reading has come.
    #[getter]
    fn bookmark(&self) -> PyResult<Option<String>> {
        let bookmark = |half: &mut Half| receiving!(half, |way| way.bookmark());
        Ok(self.using(bookmark)?.map(|bookmark| bookmark.to_string()))
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

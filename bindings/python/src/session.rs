//! Sessions over several daemons.
use crate::failure::Failure;
use crate::names::{groups, named, service_of, targets};
use crate::options::{Options, bounded};
use crate::reading::read_from;
use crate::session_event::{self, Sent, is_told};
use crate::waiting::{Owned, in_slices, span, still_late, unless_late};
use consort::{Address, Bookmark, PrivateName, ProducerId, SessionEvent, SessionOptions, Welcome};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What a second thread is told to do.
const REMEDY: &str = "another thread uses this session; give each thread one of its own";

/// A session over several daemons. Serves one thread at a time.
#[pyclass(frozen, module = "consort._consort")]
pub(crate) struct Session {
    state: Owned<State>,
    producer: ProducerId,
}

struct State {
    /// None once it was closed.
    session: Option<Box<consort::Session>>,
    /// What came while it connected or closed.
    kept: VecDeque<SessionEvent>,
    /// How far the reading had come when it was closed.
    bookmark: Option<Bookmark>,
}

impl State {
    fn open(&mut self, what: &str) -> Result<&mut consort::Session, Failure> {
        let closed = || Failure::new("Closed", format!("this session was closed and does not {what}; connect anew"));
        self.session.as_deref_mut().ok_or_else(closed)
    }

    /// The next event that Python is told.
    fn next(&mut self, slice: Duration) -> Result<Option<SessionEvent>, Failure> {
        if let Some(event) = self.kept.pop_front() {
            return Ok(Some(event));
        }
        let session = self.open("receive")?;
        loop {
            match session.receive(slice)? {
                Some(event) if !is_told(&event) => {}
                other => return Ok(other),
            }
        }
    }

    /// Ends the session; every send has its fate.
    fn finish(&mut self) -> Result<(), Failure> {
        if let Some(session) = self.session.take() {
            self.bookmark = session.bookmark();
            self.kept.extend(session.finish(Duration::ZERO)?.into_iter().filter(is_told));
        }
        Ok(())
    }
}

impl Session {
    /// Does something with it, unless another thread does, or it is another process's.
    fn using<T>(&self, act: impl FnOnce(&mut State) -> Result<T, Failure>) -> Result<T, Failure> {
        self.state.exclusively(REMEDY, act)
    }

    /// What the present daemon said of this client.
    fn of_welcome<T>(&self, what: impl FnOnce(&Welcome) -> T) -> PyResult<Option<T>> {
        Ok(self.using(|state| Ok(state.session.as_deref().and_then(consort::Session::welcome).map(what)))?)
    }
}

#[pymethods]
impl Session {
    /// Connects to the first of several daemons that can be reached.
    #[staticmethod]
    fn connect(
        py: Python<'_>,
        daemons: Vec<String>,
        options: &Options,
        unsettled_max: usize,
        reconnect_within: f64,
        producer: Option<&str>,
    ) -> PyResult<Self> {
        let addresses: Vec<Address> =
            daemons.iter().map(|daemon| daemon.parse().map_err(Failure::invalid)).collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err(Failure::invalid("no daemon is named; give the address of at least one").into());
        }
        let mut options = SessionOptions::default()
            .connect(options.0.clone())
            .unsettled_max(unsettled_max)
            .reconnect_within(bounded(reconnect_within)?);
        options.producer = producer.map(producer_of).transpose()?;
        let mut session = consort::Session::new(&addresses, options);
        let mut kept = VecDeque::new();
        in_slices(py, None, |slice| {
            kept.extend(session.receive(slice)?);
            Ok(session.is_connected().then_some(()))
        })?;
        let producer = session.producer();
        let state = State { session: Some(Box::new(session)), kept, bookmark: None };
        Ok(Self { state: Owned::new(state), producer })
    }

    /// Fails in a child of `fork()`.
    fn check_process(&self) -> PyResult<()> {
        Ok(self.state.check()?)
    }

    /// Whose sends these are: for another session that goes on with them.
    #[getter]
    fn producer(&self) -> String {
        self.producer.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[getter]
    fn name(&self) -> PyResult<Option<String>> {
        self.of_welcome(|welcome| welcome.name.as_str().to_owned())
    }

    #[getter]
    fn private_name(&self) -> PyResult<Option<String>> {
        self.of_welcome(|welcome| PrivateName::new(&welcome.name, welcome.daemon.node).to_string())
    }

    #[getter]
    fn node(&self) -> PyResult<Option<u16>> {
        self.of_welcome(|welcome| welcome.daemon.node.0)
    }

    #[getter]
    fn message_max(&self) -> PyResult<Option<u32>> {
        self.of_welcome(|welcome| welcome.message_max)
    }

    /// How many sends have no fate yet.
    #[getter]
    fn unsettled(&self) -> PyResult<usize> {
        Ok(self.using(|state| Ok(state.session.as_ref().map_or(0, |session| session.unsettled())))?)
    }

    /// How far the reading has come.
    #[getter]
    fn bookmark(&self) -> PyResult<Option<String>> {
        let bookmark = self.using(|state| {
            Ok(state.session.as_deref().map_or_else(|| state.bookmark.clone(), consort::Session::bookmark))
        })?;
        Ok(bookmark.map(|bookmark| bookmark.to_string()))
    }

    /// The descriptor of the connection that there is.
    fn descriptor(&self) -> PyResult<Option<i32>> {
        let descriptor = |session: &mut consort::Session| session.descriptor().map(|descriptor| descriptor.as_raw_fd());
        Ok(self.using(|state| Ok(descriptor(state.open("receive")?)))?)
    }

    fn join(&self, py: Python<'_>, group: &str, closed: bool) -> PyResult<()> {
        let group = named(group)?;
        let join = |state: &mut State| {
            let session = state.open("join")?;
            Ok(if closed { session.join_closed(&group) } else { session.join(&group) }?)
        };
        Ok(py.detach(|| self.using(join))?)
    }

    fn leave(&self, py: Python<'_>, group: &str) -> PyResult<()> {
        let group = named(group)?;
        Ok(py.detach(|| self.using(|state| Ok(state.open("leave")?.leave(&group)?)))?)
    }

    /// Sends; returns the number under which the fate is told.
    fn send(
        &self,
        py: Python<'_>,
        service: i32,
        to: Vec<String>,
        payload: PyBackedBytes,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let (service, to, payload) = (service_of(service)?, targets(&to)?, &payload[..]);
        let mut late = None;
        let sent = in_slices(py, span(timeout)?, |slice| {
            let sent = self.using(|state| Ok(state.open("send")?.send_within(service, &to, payload, slice)?));
            unless_late(sent, &mut late)
        })?;
        sent.ok_or_else(|| still_late(late))
    }

    /// Waits for the fate of a send.
    fn outcome(&self, py: Python<'_>, send: u64, timeout: Option<f64>) -> PyResult<Sent> {
        let mut late = None;
        let fate = in_slices(py, span(timeout)?, |slice| {
            unless_late(self.using(|state| Ok(state.open("tell fates")?.outcome(send, slice)?)), &mut late)
        })?;
        let untold = "no fate of this send is left to tell: it was told, or there is no such send";
        let fate = fate.ok_or_else(|| still_late(late))?;
        Ok(fate.map(|fate| Sent::new(send, fate)).ok_or_else(|| Failure::invalid(format!("send {send}: {untold}")))?)
    }

    /// Waits until every send has its fate.
    fn settle(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let mut late = None;
        let settled = in_slices(py, span(timeout)?, |slice| {
            unless_late(self.using(|state| Ok(state.open("settle")?.settle(slice)?)), &mut late)
        })?;
        settled.ok_or_else(|| still_late(late))
    }

    /// Begins to read groups by position.
    fn read(&self, py: Python<'_>, names: Vec<String>, from_: &str) -> PyResult<()> {
        let (names, from) = (groups(&names)?, read_from(from_)?);
        Ok(py.detach(|| self.using(|state| Ok(state.open("read")?.read(&names, from)?)))?)
    }

    /// The next event; none if none came in time.
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let event = in_slices(py, span(timeout)?, |slice| self.using(|state| state.next(slice)))?;
        event.map(|event| session_event::to_python(py, event)).transpose()
    }

    /// Waits until every send has its fate, and ends the session. What came is received still.
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let mut late = None;
        let settled = in_slices(py, span(timeout)?, |slice| {
            let settle = |state: &mut State| match &mut state.session {
                Some(session) => Ok(session.settle(slice)?),
                None => Ok(()),
            };
            unless_late(self.using(settle), &mut late)
        });
        match settled {
            Ok(Some(())) => Ok(py.detach(|| self.using(State::finish))?),
            Ok(None) => Err(self.give_up(py, still_late(late))),
            Err(error) => Err(self.give_up(py, error)),
        }
    }
}

impl Session {
    /// Ends the session without the fates that are missing.
    fn give_up(&self, py: Python<'_>, why: PyErr) -> PyErr {
        // Where another thread uses it, that one has it still. It writes a last time, which may take a while.
        let _ = py.detach(|| {
            self.using(|state| {
                state.bookmark = state.session.take().and_then(|session| session.bookmark());
                Ok(())
            })
        });
        why
    }
}

/// A producer as it is written.
fn producer_of(text: &str) -> Result<ProducerId, Failure> {
    let wrong = || {
        Failure::invalid(format!("{text:?} is no producer; give what another session says, 32 digits of 0-9 and a-f"))
    };
    let mut id = [0; ProducerId::LEN];
    if text.len() != 2 * id.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    for (byte, at) in id.iter_mut().zip((0..).step_by(2)) {
        *byte = text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?;
    }
    Ok(ProducerId(id))
}

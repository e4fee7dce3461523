//! Events, as Python sees them.
use crate::place::{ViewId, view_id};
use crate::reading;
use consort::{Error, Event, GroupViewId, MemberId, PrivateName, ReadingStatus, ViewKind};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The next message of the order for a group this client is in, or that it reads.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Message {
    /// What its sender asked for: a number of `Service`.
    service: u8,
    /// The sender's private name: a target for an answer.
    sender: String,
    /// The node of the sender's daemon.
    sender_node: u16,
    /// The sender's number there.
    sender_number: u32,
    /// The groups and private names it was sent to.
    to: Vec<String>,
    /// The sender's bytes.
    payload: Py<PyBytes>,
    /// Where it stands in the order, where that was asked for, or it was read.
    position: Option<u64>,
    /// Which of those that stand there, likewise.
    index: Option<u16>,
    /// Which incarnation of its node the sender is connected to, likewise.
    incarnation: Option<u64>,
    /// Whether it was read by position, and not received by a member.
    was_read: bool,
}

/// A client in a group, or a daemon in a view.
#[pyclass(frozen, get_all, eq, hash, module = "consort")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    /// The name by which a client is sent to alone; empty for a daemon.
    private_name: String,
    /// What a client is called; empty for a daemon.
    name: String,
    /// The node of its daemon.
    node: u16,
    /// Which incarnation of its daemon.
    incarnation: u64,
    /// A client's number at its daemon; 0 for a daemon.
    number: u32,
    /// Members with the same number moved together.
    set: u16,
}

/// A group this client is in changed, here in the order.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct GroupView {
    group: String,
    id: Py<ViewId>,
    /// Whether only members may send to it.
    closed: bool,
    /// A number of `Primary`.
    primary: u8,
    /// A number of `Cause`.
    cause: u8,
    /// Who came or went.
    changed: Vec<Py<Member>>,
    /// Who is in the group now.
    members: Vec<Py<Member>>,
}

/// Some members of a group do not move along into the next view.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct GroupSignal {
    group: String,
    id: Py<ViewId>,
}

/// The network changed, here in the order.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct View {
    id: Py<ViewId>,
    transitional: bool,
    /// A number of `Primary`.
    primary: u8,
    members: Vec<Py<Member>>,
    moved_together: Vec<Py<Member>>,
    text: String,
}

/// One send was not taken, or changed nothing.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Refused {
    /// Its number.
    send: u64,
    /// A number of `Refusal`.
    cause: u8,
    text: String,
}

#[pymethods]
impl Message {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Message(sender={:?}, to={:?}, {} bytes)", self.sender, self.to, self.payload.bind(py).as_bytes().len())
    }
}

#[pymethods]
impl Member {
    fn __repr__(&self) -> String {
        let of = if self.name.is_empty() { format!("n{}", self.node) } else { self.private_name.clone() };
        format!("Member({of:?})")
    }
}

#[pymethods]
impl GroupView {
    fn __repr__(&self) -> String {
        format!("GroupView(group={:?}, {} members)", self.group, self.members.len())
    }
}

#[pymethods]
impl GroupSignal {
    fn __repr__(&self) -> String {
        format!("GroupSignal(group={:?})", self.group)
    }
}

#[pymethods]
impl View {
    fn __repr__(&self) -> String {
        format!("View({} members, transitional={})", self.members.len(), self.transitional)
    }
}

#[pymethods]
impl Refused {
    fn __repr__(&self) -> String {
        format!("Refused(send={}, {:?})", self.send, self.text)
    }
}

/// The next event that Python is told.
pub(crate) fn next_told(mut next: impl FnMut() -> Result<Option<Event>, Error>) -> Result<Option<Event>, Error> {
    loop {
        match next()? {
            Some(Event::Reading(ReadingStatus::InView { .. })) => {}
            other => return Ok(other),
        }
    }
}

/// An event for Python. What this version does not know comes as `None` would: it is never asked for.
pub(crate) fn to_python(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyAny>> {
    match event {
        Event::Message(message) | Event::Read(message) => of_message(py, &message),
        Event::Reading(status) => reading::to_python(py, status),
        Event::GroupView(view) => of_group_view(py, &view),
        Event::GroupSignal(signal) => {
            GroupSignal { group: signal.group.as_str().into(), id: Py::new(py, view_id(signal.id))? }
                .into_bound_py_any(py)
        }
        Event::View(view) => of_view(py, view),
        Event::Refused { send, refusal } => {
            Refused { send, cause: refusal.cause as u8, text: refusal.text }.into_bound_py_any(py)
        }
        _ => py.None().into_bound_py_any(py),
    }
}

fn of_message<'py>(py: Python<'py>, message: &consort::Message) -> PyResult<Bound<'py, PyAny>> {
    Message {
        service: message.service() as u8,
        sender: message.sender_private().map(|name| name.to_string()).unwrap_or_default(),
        sender_node: message.sender().0.0,
        sender_number: message.sender().1.0,
        to: message.groups().map(str::to_owned).collect(),
        payload: PyBytes::new(py, message.payload()).unbind(),
        position: message.position(),
        index: message.placement().map(|placement| placement.place.index),
        incarnation: message.sender_daemon().map(|daemon| daemon.incarnation.0),
        was_read: message.is_read(),
    }
    .into_bound_py_any(py)
}

fn of_group_view<'py>(py: Python<'py>, view: &consort::GroupView) -> PyResult<Bound<'py, PyAny>> {
    let sets = view.sets.iter().copied().chain(std::iter::repeat(0));
    let changed = view.who.iter().map(|member| Py::new(py, client(member, 0))).collect::<PyResult<_>>()?;
    let members = view.members.iter().zip(sets).map(|(member, set)| Py::new(py, client(member, set)));
    GroupView {
        group: view.group.as_str().into(),
        id: Py::new(py, view_id(view.id))?,
        closed: view.closed,
        primary: view.primary.to_wire(),
        cause: view.cause as u8,
        changed,
        members: members.collect::<PyResult<_>>()?,
    }
    .into_bound_py_any(py)
}

fn of_view(py: Python<'_>, view: consort::NetworkView) -> PyResult<Bound<'_, PyAny>> {
    let listed = |members: &[MemberId]| -> PyResult<Vec<Py<Member>>> {
        members.iter().map(|member| Py::new(py, daemon(*member))).collect()
    };
    View {
        id: Py::new(py, view_id(GroupViewId { view: view.id, change: 0 }))?,
        transitional: view.kind == ViewKind::Transitional,
        primary: view.primary.to_wire(),
        members: listed(&view.members)?,
        moved_together: listed(&view.moved_together)?,
        text: view.cause,
    }
    .into_bound_py_any(py)
}

fn client(member: &consort::Member, set: u16) -> Member {
    Member {
        private_name: PrivateName::new(&member.name, member.daemon.node).to_string(),
        name: member.name.as_str().into(),
        node: member.daemon.node.0,
        incarnation: member.daemon.incarnation.0,
        number: member.client.0,
        set,
    }
}

const fn daemon(member: MemberId) -> Member {
    let (node, incarnation) = (member.node.0, member.incarnation.0);
    Member { private_name: String::new(), name: String::new(), node, incarnation, number: 0, set: 0 }
}

//! What the Python package `consort` is made of: connections, sessions and events. The package wraps them
//! (`consort/__init__.py`).
//!
//! Every call that may wait releases the interpreter meanwhile, and looks for Ctrl-C ten times a second.
#![allow(clippy::disallowed_methods, reason = "waits are cut into slices by the clock")]

mod connection;
mod event;
mod failure;
mod names;
mod options;
mod place;
mod reading;
mod session;
mod session_event;
mod tls;
mod waiting;

use pyo3::prelude::*;

#[pymodule]
fn _consort(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<tls::Tls>()?;
    module.add_class::<options::Options>()?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<event::Message>()?;
    module.add_class::<event::Member>()?;
    module.add_class::<place::ViewId>()?;
    module.add_class::<event::GroupView>()?;
    module.add_class::<event::GroupSignal>()?;
    module.add_class::<event::View>()?;
    module.add_class::<event::Refused>()?;
    module.add_class::<place::Place>()?;
    module.add_class::<reading::ReadingBegan>()?;
    module.add_class::<reading::CaughtUp>()?;
    module.add_class::<reading::Gap>()?;
    module.add_class::<reading::ReadingEnded>()?;
    module.add_class::<session_event::Sent>()?;
    module.add_class::<session_event::JoinRefused>()?;
    module.add_class::<session_event::Connected>()?;
    module.add_class::<session_event::Lost>()?;
    module.add_class::<session_event::Parted>()?;
    module.add_class::<session_event::Waits>()?;
    module.add_class::<session_event::Resumed>()
}

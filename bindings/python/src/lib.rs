//! What the Python package `consort` is made of: sessions and events. The package wraps them (`consort/__init__.py`).
//!
//! Every call that may wait releases the interpreter meanwhile, and looks for Ctrl-C ten times a second.
#![allow(clippy::disallowed_methods, reason = "waits are cut into slices by the clock")]

mod event;
mod failure;
mod session;
mod waiting;

use pyo3::prelude::*;

#[pymodule]
fn _consort(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<event::Message>()?;
    module.add_class::<event::Member>()?;
    module.add_class::<event::ViewId>()?;
    module.add_class::<event::GroupView>()?;
    module.add_class::<event::GroupSignal>()?;
    module.add_class::<event::View>()?;
    module.add_class::<event::Refused>()
}

//! How clients connect and send.
use crate::failure::Failure;
use crate::tls::Tls;
use crate::waiting::span;
use consort::{ConnectOptions, SlowPolicy, SlowRequest};
use pyo3::prelude::*;
use std::time::Duration;

/// How a client connects and sends; made anew for each.
#[pyclass(frozen, module = "consort._consort")]
pub(crate) struct Options(pub(crate) ConnectOptions);

#[pymethods]
impl Options {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "named, in Python")]
    fn new(
        name: Option<&str>,
        views: bool,
        positions: bool,
        unbatched: bool,
        shared_memory: bool,
        connect_within: f64,
        send_within: Option<f64>,
        host_timeout: f64,
        token: Option<&str>,
        slow: Option<i32>,
        slow_bytes: u64,
        slow_time: Option<f64>,
        tls: Option<&Tls>,
    ) -> PyResult<Self> {
        let mut options = ConnectOptions::default()
            .connect_within(bounded(connect_within)?)
            .send_within(span(send_within)?)
            .host_timeout(bounded(host_timeout)?);
        (options.wants_views, options.wants_positions) = (views, positions);
        (options.unbatched, options.shares_memory) = (unbatched, shared_memory);
        options.token = token.map(str::to_owned);
        options.tls = tls.map(|given| given.tls.clone());
        options.slow = slow_request(slow, slow_bytes, slow_time)?;
        if let Some(name) = name {
            options = options.called(name).map_err(Failure::invalid)?;
        }
        Ok(Self(options))
    }
}

/// A time that has an end, if a late one.
pub(crate) fn bounded(seconds: f64) -> Result<Duration, Failure> {
    span(Some(seconds)).map(|span| span.unwrap_or(Duration::MAX))
}

/// What the daemon is asked to do if the client does not read. Budgets mean nothing without a policy.
fn slow_request(policy: Option<i32>, bytes: u64, time: Option<f64>) -> Result<Option<SlowRequest>, Failure> {
    let time = span(time)?;
    let Some(number) = policy else {
        let budgets = bytes > 0 || time.is_some();
        let none = || Failure::invalid("slow_bytes and slow_time are budgets of a policy; give slow, too");
        return if budgets { Err(none()) } else { Ok(None) };
    };
    let known = u8::try_from(number).ok().and_then(SlowPolicy::from_wire);
    let unknown = || Failure::invalid(format!("{number} is no policy; give a consort.SlowPolicy"));
    Ok(Some(SlowRequest { policy: known.ok_or_else(unknown)?, bytes, time }))
}

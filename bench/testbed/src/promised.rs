//! What clients of real daemons may demand, for the checkers of the simulator.
use consort_daemon::config::Protocol;
use consort_sim::checkers::PromisedOrder;

/// What daemons promise of the order: groups ride on agreed messages only.
pub fn promised(protocol: Protocol) -> PromisedOrder {
    let per_component = matches!(protocol, Protocol::Toto | Protocol::Plato);
    PromisedOrder { per_component, ..PromisedOrder::default() }
}

//! Clients whose requests wait for long are told what for.
//!
//! It is looked a few times a second, and only while something waits: what is ordered at once, or after a moment, costs
//! no word.
use crate::{Node, Notice};
use consort_order::Engine;
use consort_session::Waits;
use consort_types::{Duration, Instant, OrderWait};

/// How often it is looked. What has waited from one look to the next waits for long.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// When to look next, and what was seen.
#[derive(Debug, Default)]
pub(crate) struct WaitMonitor {
    /// `None` while nothing waits.
    at: Option<Instant>,
    /// What native clients' requests waited for at the last look, if some waited for long.
    held: Option<OrderWait>,
}

impl WaitMonitor {
    pub(crate) const fn at(&self) -> Option<Instant> {
        self.at
    }

    pub(crate) const fn held(&self) -> Option<OrderWait> {
        self.held
    }
}

impl<E: Engine> Node<E> {
    /// A request was taken, or waits for room.
    pub(crate) fn watch_waits(&mut self) {
        let next = self.now + CHECK_INTERVAL;
        self.wait_monitor.at.get_or_insert(next);
    }

    /// Looks, if it is time.
    pub(crate) fn check_waits(&mut self) {
        if self.wait_monitor.at.is_none_or(|at| at > self.now) {
            return;
        }
        //= G73
        let obstacle = self.engine.obstacle(self.now).map(|obstacle| obstacle.wait());
        let cause = obstacle.or_else(|| self.engine.wait_cause());
        let waits = self.clients.tell_waiting(cause);
        let cause = cause.or_else(|| self.clients.first_cause());
        self.wait_monitor.at = (waits > Waits::No).then(|| self.now + CHECK_INTERVAL);
        let held = cause.filter(|_| waits == Waits::Long);
        //= G72
        if self.clients.held_by() == Some(OrderWait::Retention) {
            self.clients.release_held();
        }
        if held != std::mem::replace(&mut self.wait_monitor.held, held) {
            self.clients.notices.push(held.map_or(Notice::Flowing, |cause| Notice::Waiting { cause }));
        }
    }
}

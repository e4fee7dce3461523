//! Whether a client's requests wait for long, and what it was told of that.
use crate::event::WaitNotice;
use consort_types::OrderWait;

/// How long a client's requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waits {
    /// None waits.
    No,
    /// Some wait, but none did when it was last looked.
    Briefly,
    /// Some waited already when it was last looked.
    Long,
}

/// What was seen when it was last looked.
#[derive(Debug, Default)]
pub(crate) struct WaitWatch {
    read: u64,
    told: Option<WaitNotice>,
}

impl WaitWatch {
    /// Looks once more. All requests up to `read` were read, all up to `ordered` are settled.
    pub(crate) fn look(&mut self, read: u64, ordered: u64) -> Waits {
        let before = std::mem::replace(&mut self.read, read);
        match ordered {
            _ if ordered >= read => Waits::No,
            _ if ordered >= before => Waits::Briefly,
            _ => Waits::Long,
        }
    }

    /// What is to be told of requests that wait for this, unless it was told and still holds.
    pub(crate) fn tell(&mut self, ordered: u64, cause: OrderWait) -> Option<WaitNotice> {
        if self.told.is_some_and(|told| told.cause == cause && ordered < told.up_to) {
            return None;
        }
        self.told = Some(WaitNotice { up_to: self.read, cause });
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    #[test]
    fn only_what_waited_at_the_last_look_too_waits_for_long() {
        let mut watch = WaitWatch::default();
        assert_eq!(watch.look(0, 0), Waits::No);
        assert_eq!(watch.look(5, 0), Waits::Briefly);
        assert_eq!(watch.look(9, 4), Waits::Long);
        assert_eq!(watch.look(20, 9), Waits::Briefly, "all that waited then is settled");
        assert_eq!(watch.look(20, 19), Waits::Long);
        assert_eq!(watch.look(20, 20), Waits::No);
    }

    #[test]
    fn a_cause_is_told_once_until_another_comes_or_all_it_was_told_of_is_settled() {
        let mut watch = WaitWatch::default();
        watch.look(5, 0);
        let slow = OrderWait::Slow(NodeId(3));
        assert_eq!(watch.tell(0, OrderWait::Window), Some(WaitNotice { up_to: 5, cause: OrderWait::Window }));
        assert_eq!(watch.tell(4, OrderWait::Window), None);
        assert_eq!(watch.tell(4, slow), Some(WaitNotice { up_to: 5, cause: slow }));
        assert_eq!(watch.tell(4, slow), None);
        watch.look(9, 5);
        assert_eq!(watch.tell(5, slow), Some(WaitNotice { up_to: 9, cause: slow }));
    }
}

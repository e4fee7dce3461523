//! What happens a second: differences between two looks.
use crate::look::Told;
use serde::Serialize;

/// What one daemon did, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Messages of all clients of all daemons that got their place.
    pub ordered_messages_per_s: f64,
    /// Their bytes, those of their targets and senders among them.
    pub ordered_bytes_per_s: f64,
    /// Joins, leaves and messages taken from clients of this daemon.
    pub taken_requests_per_s: f64,
    /// Messages handed to clients of this daemon, once for each.
    pub delivered_messages_per_s: f64,
    /// Their bytes.
    pub delivered_bytes_per_s: f64,
    /// Packets sent again.
    pub resent_packets_per_s: f64,
}

impl Rates {
    /// Between two answers of one incarnation, so many seconds apart; `None` where there are no such two.
    pub fn between(before: &Told, now: &Told, seconds: f64) -> Option<Self> {
        if seconds <= 0.0 || before.status.get("incarnation") != now.status.get("incarnation") {
            return None;
        }
        let counter = |told: &Told, key: &str| told.status.get(key).and_then(|value| value.parse::<u64>().ok());
        let rate = |key: &str| match (counter(before, key), counter(now, key)) {
            (Some(before), Some(now)) => now.saturating_sub(before) as f64 / seconds,
            _ => 0.0,
        };
        Some(Self {
            ordered_messages_per_s: rate("messages_ordered"),
            ordered_bytes_per_s: rate("message_bytes_ordered"),
            taken_requests_per_s: rate("requests_accepted"),
            delivered_messages_per_s: rate("messages_delivered"),
            delivered_bytes_per_s: rate("message_bytes_delivered"),
            resent_packets_per_s: rate("retransmissions_sent"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)]) -> Told {
        let status = pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        Told { status, ..Told::default() }
    }

    #[test]
    fn a_rate_is_what_was_added_by_the_time_it_took() {
        let before = told(&[("incarnation", "7"), ("messages_ordered", "100"), ("requests_accepted", "9")]);
        let now = told(&[("incarnation", "7"), ("messages_ordered", "1100"), ("requests_accepted", "9")]);
        let rates = Rates::between(&before, &now, 2.0).unwrap();
        assert_eq!(rates, Rates { ordered_messages_per_s: 500.0, ..Rates::default() });
    }

    #[test]
    fn there_is_none_across_a_restart_or_within_no_time() {
        let (before, now) = (told(&[("incarnation", "7")]), told(&[("incarnation", "8")]));
        assert_eq!(Rates::between(&before, &now, 1.0), None);
        assert_eq!(Rates::between(&before, &before, 0.0), None);
    }

    #[test]
    fn counters_that_are_missing_or_no_numbers_count_nothing() {
        let odd = told(&[("messages_ordered", "many")]);
        assert_eq!(Rates::between(&odd, &odd, 1.0), Some(Rates::default()));
    }
}

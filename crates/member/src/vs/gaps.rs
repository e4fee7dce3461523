//! What is missing of a stream of packets numbered from 1.

/// The runs of packets up to `last` that are missing, lowest first, at most `most`: `held` came without a gap, and beyond
/// them these, ascending. Any numbers will do, for others tell them.
pub fn missing(held: u64, beyond: impl IntoIterator<Item = u64>, last: u64, most: usize) -> Vec<(u64, u64)> {
    let (mut runs, mut from) = (Vec::new(), held.saturating_add(1));
    for seq in beyond.into_iter().chain([last.saturating_add(1)]) {
        if from > last || runs.len() == most {
            break;
        }
        if seq > from {
            runs.push((from, (seq - 1).min(last)));
        }
        from = from.max(seq.saturating_add(1));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_something_is_held_and_at_the_last() {
        assert_eq!(missing(2, [4, 5, 9], 12, 9), [(3, 3), (6, 8), (10, 12)]);
        assert_eq!(missing(2, [4, 5, 9], 7, 9), [(3, 3), (6, 7)]);
        assert_eq!(missing(2, [4, 5, 9], 12, 2), [(3, 3), (6, 8)]);
        assert_eq!(missing(2, [3, 4], 4, 9), []);
        assert_eq!(missing(4, [], 2, 9), []);
    }

    #[test]
    fn the_largest_numbers_are_numbers_too() {
        assert_eq!(missing(1, [u64::MAX], u64::MAX, 9), [(2, u64::MAX - 1)]);
        assert_eq!(missing(u64::MAX, [], u64::MAX, 9), []);
        assert_eq!(missing(0, [], u64::MAX, 0), []);
    }
}

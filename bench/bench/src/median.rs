//! The middle of several runs.
use consort_testbed::Quantiles;

/// The medians of each quantile.
pub fn quantiles(all: impl Iterator<Item = Quantiles> + Clone) -> Quantiles {
    let of = |pick: fn(Quantiles) -> f64| median(all.clone().map(pick));
    Quantiles {
        p50: of(|one| one.p50),
        p90: of(|one| one.p90),
        p99: of(|one| one.p99),
        p999: of(|one| one.p999),
        max: of(|one| one.max),
    }
}

/// The one in the middle, the mean of the two in the middle; 0 of none.
pub fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.into_iter().collect();
    all.sort_by(f64::total_cmp);
    match (all.get(all.len() / 2), all.get(all.len().wrapping_sub(1) / 2)) {
        (Some(high), Some(low)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median([4.0, 1.0, 9.0, 2.0]), 3.0);
        assert_eq!(median([]), 0.0);
    }
}

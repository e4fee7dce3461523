//! What figures make of many numbers: a straight line through points, and how many lie below which.

/// A straight line through points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// By how much it rises to the next place.
    pub slope: f64,
    /// How much of what values differ by it tells: 1 where all points lie on it.
    pub r2: f64,
}

impl Line {
    /// Through these; NaN where they are fewer than two places.
    pub fn through(points: &[(f64, f64)]) -> Self {
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        Self { slope: xy / xx, r2: xy * xy / (xx * yy) }
    }
}

/// Values, the least first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// These.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Them.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.0.iter().copied()
    }

    /// Their mean; NaN where there are none.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// So many of a hundred are not above this; NaN where there are none.
    pub fn percentile(&self, percent: usize) -> f64 {
        let at = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }

    /// How many of a hundred are below each of these.
    pub fn shares(&self, bounds: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
        let share = |bound: f64| 100.0 * self.0.partition_point(|value| *value <= bound) as f64 / self.0.len() as f64;
        bounds.map(|bound| (bound, share(bound))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_points_that_lie_on_one() {
        let line = Line::through(&[(1.0, 5.0), (2.0, 8.0), (4.0, 14.0)]);
        assert!((line.slope - 3.0).abs() < 1e-9 && (line.r2 - 1.0).abs() < 1e-9, "{line:?}");
        let bent = Line::through(&[(1.0, 5.0), (2.0, -8.0), (4.0, 14.0)]);
        assert!(bent.r2 < 0.6, "{bent:?}");
        assert!(Line::through(&[(1.0, 5.0)]).slope.is_nan());
    }

    #[test]
    fn shares_and_percentiles_are_of_values_that_are_there() {
        let sorted = Sorted::of([3.0, 1.0, 2.0, 4.0].into_iter());
        assert_eq!((sorted.percentile(50), sorted.percentile(90), sorted.len()), (2.0, 4.0, 4));
        assert_eq!(sorted.shares([0.5, 2.0, 9.0].into_iter()), [(0.5, 0.0), (2.0, 50.0), (9.0, 100.0)]);
        assert!(Sorted::default().percentile(50).is_nan());
    }
}

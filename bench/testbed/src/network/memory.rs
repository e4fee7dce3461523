//! Whether a process's memory stays flat.

/// How much more than the plateau a process may hold, in bytes.
const SLACK: u64 = 64 << 20;

/// What a process held in the course of a run, at equal distances of time.
#[derive(Clone, Debug, Default)]
pub struct Course(Vec<u64>);

/// It held more and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory grew from {} MiB in the first third of the run to {} MiB later; {} MiB more are allowed", mib(*plateau), mib(*peak), mib(SLACK))]
pub struct Growing {
    /// The most in the first third of the run.
    pub plateau: u64,
    /// The most afterwards.
    pub peak: u64,
}

impl Course {
    /// Adds a sample, in bytes.
    pub fn push(&mut self, bytes: u64) {
        self.0.push(bytes);
    }

    /// First, last, and most.
    pub fn summary(&self) -> Option<(u64, u64, u64)> {
        Some((*self.0.first()?, *self.0.last()?, *self.0.iter().max()?))
    }

    /// The most in the first third of the run, and in the last.
    pub fn thirds(&self) -> Option<(u64, u64)> {
        let third = self.0.len().div_ceil(3);
        let (early, late) = (self.0.iter().take(third), self.0.iter().rev().take(third));
        early.max().copied().zip(late.max().copied())
    }

    /// A working process fills its buffers in the first third of the run; what it holds then is the plateau.
    ///
    /// # Errors
    /// [`Growing`], if it held much more later.
    pub fn is_flat(&self) -> Result<(), Growing> {
        let (early, late) = self.0.split_at(self.0.len().div_ceil(3));
        let (Some(&plateau), Some(&peak)) = (early.iter().max(), late.iter().max()) else { return Ok(()) };
        if peak > plateau + SLACK { Err(Growing { plateau, peak }) } else { Ok(()) }
    }
}

/// Whole mebibytes.
pub const fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(samples: impl IntoIterator<Item = u64>) -> Course {
        Course(samples.into_iter().map(|mib| mib << 20).collect())
    }

    #[test]
    fn a_leak_is_told_from_buffers_that_fill() {
        assert_eq!(
            course((0..100).map(|i| 10 + i * 5)).is_flat(),
            Err(Growing { plateau: 175 << 20, peak: 505 << 20 })
        );
        assert_eq!(course((0..100).map(|i| (10 + i * 20).min(300))).is_flat(), Ok(()));
        assert_eq!(course([5, 5, 69]).is_flat(), Ok(()));
        assert!(course([5, 5, 70]).is_flat().is_err());
        assert_eq!((course([]).is_flat(), course([7]).is_flat()), (Ok(()), Ok(())));
        assert_eq!(course([3, 9, 4]).summary(), Some((3 << 20, 4 << 20, 9 << 20)));
        assert_eq!(course([3, 2, 9, 4, 5, 4]).thirds(), Some((3 << 20, 5 << 20)));
        assert_eq!((course([7]).thirds(), course([]).thirds()), (Some((7 << 20, 7 << 20)), None));
    }
}

//! Which counters of one kind of datagram came already.

/// So many counters below the highest that came may still come. Wider than what sockets hold: a datagram that waited in
/// one while others were read from another is not taken for an old one.
pub const WIDTH: u64 = 1 << 16;
const WORD: u64 = u64::BITS as u64;
/// One word more than the width has, so that whole words can be cleared.
const WORDS: u64 = WIDTH / WORD + 1;

/// Why a counter is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed;

/// A window over counters.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Below that nothing is taken.
    floor: u64,
    /// One above the highest that came.
    next: u64,
    /// Empty until something came.
    words: Vec<u64>,
}

impl Window {
    /// A window that takes nothing below `floor`.
    pub const fn from(floor: u64) -> Self {
        Self { floor, next: floor, words: Vec::new() }
    }

    /// Whether a counter may be taken.
    ///
    /// # Errors
    /// It was taken, or lies below the window.
    pub fn check(&self, counter: u64) -> Result<(), Replayed> {
        if counter >= self.next {
            return Ok(());
        }
        let is_old = counter < self.floor || self.next - counter > WIDTH;
        let (word, bit) = locate(counter);
        let came = self.words.get(word).is_some_and(|word| word & bit != 0);
        if is_old || came { Err(Replayed) } else { Ok(()) }
    }

    /// Takes a counter that [`Self::check`] allows.
    pub fn take(&mut self, counter: u64) {
        if self.words.is_empty() {
            self.words = vec![0; WORDS as usize];
        }
        if counter >= self.next {
            self.advance(counter);
        }
        let (word, bit) = locate(counter);
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// Forgets the words that the window now reaches into.
    fn advance(&mut self, counter: u64) {
        // The word of the highest that came is in use; before anything came, none is.
        let first = if self.next == self.floor { self.next / WORD } else { (self.next - 1) / WORD + 1 };
        let last = counter / WORD;
        for word in first..=last.min(first.saturating_add(WORDS)) {
            if let Some(word) = self.words.get_mut((word % WORDS) as usize) {
                *word = 0;
            }
        }
        self.next = counter + 1;
    }
}

fn locate(counter: u64) -> (usize, u64) {
    ((counter / WORD % WORDS) as usize, 1 << (counter % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_is_taken_once_in_any_order() {
        let mut window = Window::default();
        for counter in [5, 3, 4, 0, 9, 70_000, 69_999, 4_466] {
            assert_eq!(window.check(counter), Ok(()), "{counter}");
            window.take(counter);
            assert_eq!(window.check(counter), Err(Replayed), "{counter}");
        }
        assert_eq!(window.check(70_001 - WIDTH - 1), Err(Replayed), "it lies below the window");
        assert_eq!(window.check(70_001 - WIDTH), Ok(()));
    }

    #[test]
    fn nothing_below_the_floor_is_taken() {
        let mut window = Window::from(100);
        assert_eq!((window.check(99), window.check(100)), (Err(Replayed), Ok(())));
        window.take(150);
        assert_eq!((window.check(99), window.check(100), window.check(150)), (Err(Replayed), Ok(()), Err(Replayed)));
    }

    #[test]
    fn jumps_of_every_size_forget_what_they_pass_and_keep_what_they_do_not() {
        let mut rng = Rng::new(52);
        for _ in 0..200 {
            let mut window = Window::from(rng.below(1_000));
            let floor = window.floor;
            let (mut taken, mut top) = (BTreeSet::new(), floor);
            for _ in 0..300 {
                let jump = [3, 64, 1_000, WIDTH - 1, WIDTH, WIDTH + 64, 3 * WIDTH][rng.below(7) as usize];
                let counter = (top + rng.below(jump + 1)).saturating_sub(rng.below(jump + 1));
                let legal = counter >= floor && counter + WIDTH >= top && !taken.contains(&counter);
                assert_eq!(window.check(counter).is_ok(), legal, "{counter} below {top}");
                if legal {
                    window.take(counter);
                    taken.insert(counter);
                    top = top.max(counter + 1);
                }
            }
        }
    }

    #[test]
    fn the_last_counters_of_all_do_not_overflow() {
        let mut window = Window::from(crate::COUNTER_LAST - 2);
        for counter in [crate::COUNTER_LAST, crate::COUNTER_LAST - 1] {
            assert_eq!(window.check(counter), Ok(()));
            window.take(counter);
            assert_eq!(window.check(counter), Err(Replayed));
        }
    }
}

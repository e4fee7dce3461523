//! Patterns for names.
use std::fmt;

/// A pattern for names: `*` stands for any bytes, none included; everything else for itself.
///
/// Names that begin with `#`, private names, are matched by patterns that begin with `#` alone: `*` is all groups and no
/// client, `#*` all clients and no group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glob(Box<str>);

impl Glob {
    /// A pattern.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name fits. The time grows with the product of both lengths at most.
    pub fn fits(&self, name: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        if name.first() == Some(&b'#') && pattern.first() != Some(&b'#') {
            return false;
        }
        // Nearly all names differ from a pattern before its first star or behind its last one.
        let stars = pattern.iter().position(|byte| *byte == b'*').zip(pattern.iter().rposition(|byte| *byte == b'*'));
        let Some((first, last)) = stars else { return pattern == name };
        let (head, tail) = (&pattern[..first], &pattern[last + 1..]);
        if name.len() < head.len() + tail.len() || !name.starts_with(head) || !name.ends_with(tail) {
            return false;
        }
        Self::fits_between(&pattern[first..=last], &name[head.len()..name.len() - tail.len()])
    }

    /// Whether what is left of a name fits what is left of a pattern, which begins and ends with a star.
    fn fits_between(pattern: &[u8], name: &[u8]) -> bool {
        let (mut at, mut of, mut retry) = (0, 0, None);
        while at < name.len() {
            match pattern.get(of) {
                Some(b'*') => {
                    retry = Some((of, at));
                    of += 1;
                }
                Some(byte) if *byte == name[at] => (at, of) = (at + 1, of + 1),
                // The last star takes one byte more.
                _ => match retry {
                    Some((star, from)) => {
                        (of, at) = (star + 1, from + 1);
                        retry = Some((star, from + 1));
                    }
                    None => return false,
                },
            }
        }
        pattern[of..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    #[test]
    fn a_star_stands_for_any_bytes_and_all_else_for_itself() {
        for (pattern, name, fits) in [
            ("*", "orders", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("orders", "order", false),
            ("orders.*", "orders.eu", true),
            ("orders.*", "orders", false),
            ("*.eu", "orders.eu", true),
            ("*.eu", "orders.eu.west", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("**", "x", true),
            ("a**", "a", true),
            ("?", "a", false),
            ("[a]", "a", false),
            ("Orders", "orders", false),
        ] {
            assert_eq!(Glob::new(pattern).fits(name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn private_names_are_matched_by_patterns_of_their_own() {
        let fits = |pattern: &str, name: &str| Glob::new(pattern).fits(name.as_bytes());
        assert!(!fits("*", "#bob#n1") && !fits("*bob*", "#bob#n1"));
        assert!(fits("#*", "#bob#n1") && fits("#bob#*", "#bob#n2") && !fits("#bob#*", "#bobby#n2"));
        assert!(!fits("#*", "bob"));
    }

    /// Says the same by trying every place for every star.
    fn plainly(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|taken| plainly(rest, &name[taken..])),
            Some((byte, rest)) => name.split_first().is_some_and(|(first, left)| first == byte && plainly(rest, left)),
        }
    }

    #[test]
    fn it_says_what_trying_everything_says() {
        let mut rng = Rng::new(7);
        let mut text = |letters: &[u8], most: u64| -> Vec<u8> {
            let len = rng.below(most + 1);
            (0..len).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect()
        };
        for _ in 0..50_000 {
            let (pattern, name) = (text(b"ab*", 6), text(b"ab", 8));
            let glob = Glob::new(std::str::from_utf8(&pattern).unwrap());
            assert_eq!(glob.fits(&name), plainly(&pattern, &name), "{glob} {name:?}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let glob = Glob::new(&format!("{}b", "a*".repeat(60)));
        assert!(!glob.fits("a".repeat(20_000).as_bytes()));
    }
}

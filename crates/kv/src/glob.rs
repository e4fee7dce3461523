//! Patterns of keys: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a byte that means itself.

/// Whether a key fits a pattern. Takes at most as many steps as the product of their lengths.
pub fn fits(pattern: &[u8], key: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Brackets behind the last closing one are open: nobody looks for their ends again and again.
    let last_end = pattern.iter().rposition(|byte| *byte == b']').unwrap_or(0);
    // Behind the last star, and how much of the key it has taken.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(at), key.get(seen)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                star = Some((at + 1, seen));
                Some((at + 1, seen))
            }
            (Some(_), Some(byte)) => one(&pattern[at..], *byte, at < last_end).map(|len| (at + len, seen + 1)),
            _ => None,
        };
        (at, seen) = match (step, star) {
            (Some(step), _) => step,
            (None, Some((behind, taken))) if taken < key.len() => {
                star = Some((behind, taken + 1));
                (behind, taken + 1)
            }
            _ => return false,
        };
    }
}

/// How long the pattern's first element is, if a byte fits it. An open bracket without its end means itself.
fn one(pattern: &[u8], byte: u8, closes: bool) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => match closes.then(|| rest.iter().skip(1).position(|byte| *byte == b']')).flatten() {
            Some(end) => in_class(&rest[..=end], byte).then_some(end + 3),
            None => (byte == b'[').then_some(1),
        },
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

fn in_class(class: &[u8], byte: u8) -> bool {
    let (mut class, wanted) = match class {
        [b'^', class @ ..] => (class, false),
        class => (class, true),
    };
    while let [first, rest @ ..] = class {
        let (found, left) = match rest {
            [b'-', last, left @ ..] => ((*first.min(last)..=*first.max(last)).contains(&byte), left),
            left => (*first == byte, left),
        };
        if found {
            return wanted;
        }
        class = left;
    }
    !wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_those_of_redis() {
        for (pattern, key, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("tea", "tea", true),
            ("tea", "teas", false),
            ("t?a", "tea", true),
            ("t?a", "ta", false),
            ("*:*", "user:7", true),
            ("*:*", "user7", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("k[0-9]", "k7", true),
            ("k[0-9]", "kx", false),
            ("k[^0-9]", "kx", true),
            ("k[^0-9]", "k7", false),
            ("k[abc]*", "kbz", true),
            ("k[9-0]", "k5", true),
            ("k[", "k[", true),
            ("k[a", "ka", false),
            ("k[]]", "k]", true),
            ("*[[[[x", "a[[[[x", true),
            ("*[a][[x", "ba[[x", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("\\", "\\", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), key.as_bytes()), expected, "{pattern:?} {key:?}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_they_may() {
        let (pattern, key) = ("a*".repeat(128) + "b", "a".repeat(4_096));
        assert!(!fits(pattern.as_bytes(), key.as_bytes()));
    }
}

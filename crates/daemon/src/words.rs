//! "Did you mean": the valid word that is nearest to a mistyped one.

/// The candidate nearest to `word`, if it is near enough to be a slip of the fingers or the start of a longer name.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slip = (word.chars().count() / 3).max(1);
    let near = |candidate: &'a str| {
        let far = distance(word, candidate);
        let starts = word.len() >= 2 && candidate.starts_with(word);
        (far <= slip || starts).then_some((far, candidate))
    };
    candidates.into_iter().filter_map(near).min_by_key(|(far, _)| *far).map(|(_, candidate)| candidate)
}

/// A choice in words: `a, b or c`.
pub fn either(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// How many letters must be inserted, removed, replaced, or swapped with their neighbour to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let mut least = (above[j] + usize::from(a[i] != b[j])).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        assert_eq!(distance("nodes", "nodes"), 0);
        assert_eq!(distance("noeds", "nodes"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("--grop", "--group"), 1);
    }

    #[test]
    fn choices_read_well() {
        assert_eq!([either(&["a"]), either(&["a", "b"]), either(&["a", "b", "c"])], ["a", "a or b", "a, b or c"]);
    }

    #[test]
    fn a_slip_finds_its_word_and_nonsense_finds_none() {
        let words = ["--group", "--count", "--node"];
        assert_eq!(nearest("--grup", words), Some("--group"));
        assert_eq!(nearest("--nodes", words), Some("--node"));
        assert_eq!(nearest("--cou", words), Some("--count"));
        assert_eq!(nearest("--elephant", words), None);
    }
}

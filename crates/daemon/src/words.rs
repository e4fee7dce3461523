//! Words for people: the valid word that is nearest to a mistyped one, choices, names without what only programs need.
use consort_node::Obstacle;

/// The candidate nearest to `word`, if it is near enough to be a slip of the fingers or the start of a longer name.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slip = (word.chars().count() / 3).max(1);
    let near = |candidate: &'a str| {
        let far = strsim::osa_distance(word, candidate);
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

/// Leaves the incarnations of nodes out, which are for programs: `5@n1.1795258177034462` becomes `5@n1`.
pub fn without_incarnations(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((front, back)) = rest.split_once('.') {
        let digits = back.len() - back.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let node = front.trim_end_matches(|c: char| c.is_ascii_digit());
        out.push_str(front);
        let is_incarnation = digits > 0 && node.len() < front.len() && node.ends_with('n');
        if !is_incarnation {
            out.push('.');
        }
        rest = if is_incarnation { &back[digits..] } else { back };
    }
    out + rest
}

/// What a daemon tells of its state, without the name of the ring that works: that is told beside it.
pub fn state(told: &str) -> String {
    let told = without_incarnations(told);
    told.split_once(": ring ").map_or(told.clone(), |(state, _)| state.to_owned())
}

/// What a daemon is doing, for people: its state where it is ready, else why it is not. While the daemons agree on who is
/// there its state says more: which nodes it waits for.
pub fn standing(ready: &str, told: &str) -> String {
    let agrees = ready == Obstacle::Membership.to_string();
    if matches!(ready, "yes" | "") || agrees && !told.is_empty() { state(told) } else { without_incarnations(ready) }
}

/// Nodes in ascending order: `n2 n4-n8`.
pub fn nodes(numbers: impl Iterator<Item = u16>) -> String {
    let mut found: Vec<(u16, u16)> = Vec::new();
    for node in numbers {
        match found.last_mut() {
            Some((_, last)) if u32::from(*last) + 1 == u32::from(node) => *last = node,
            _ => found.push((node, node)),
        }
    }
    let show = |(first, last): &(u16, u16)| match last - first {
        0 => format!("n{first}"),
        1 => format!("n{first} n{last}"),
        _ => format!("n{first}-n{last}"),
    };
    found.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn nodes_in_a_row_are_told_by_the_first_and_the_last() {
        let told = |numbers: &[u16]| nodes(numbers.iter().copied());
        assert_eq!([told(&[]), told(&[7]), told(&[1, 2]), told(&[1, 2, 3, 5])], ["", "n7", "n1 n2", "n1-n3 n5"]);
        assert_eq!(told(&[3, 65_534, 65_535]), "n3 n65534 n65535");
    }

    #[test]
    fn incarnations_of_nodes_are_left_out_and_nothing_else() {
        assert_eq!(
            without_incarnations("ring 5@n1.17 of n1.17 n22.18, 0.5 ms. on.2"),
            "ring 5@n1 of n1 n22, 0.5 ms. on.2"
        );
    }

    #[test]
    fn what_a_daemon_does_is_told_by_what_keeps_it_from_being_ready() {
        let (working, waiting) =
            ("operational: ring 13@n1.5 of 2, rotation 80µs", "gathering: waiting for n2 to agree");
        assert_eq!(standing("yes", working), "operational");
        assert_eq!(standing("", working), "operational", "one of another version");
        assert_eq!(standing("the view is not primary", working), "the view is not primary");
        assert_eq!(standing("the daemons are agreeing on who is there", waiting), waiting);
    }

    #[test]
    fn a_state_is_told_without_the_ring_that_works() {
        assert_eq!(state("operational: ring 13@n1.5 of 2, rotation 80µs"), "operational");
        let waiting = "gathering (token lost after 151 ms): waiting for n2 to agree";
        assert_eq!(state(waiting), waiting);
        let twin =
            "another process runs as n1 (n1.77), stop one of the two; operational: ring 9@n1.5 of 2, rotation 1ms";
        assert_eq!(state(twin), "another process runs as n1 (n1), stop one of the two; operational");
    }
}

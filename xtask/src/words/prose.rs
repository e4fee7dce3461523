//! The words that people read: those of a page, and those in the comments and string literals of a source.

/// A word in small letters, and the number of its line.
pub type Place = (String, usize);

/// The words of a page.
pub fn of_page(text: &str) -> Vec<Place> {
    text.lines().zip(1..).flat_map(|(line, number)| words(line, number)).collect()
}

/// The words of the comments and of the string literals of a source; the `r` of a raw literal counts as a word.
pub fn of_source(text: &str) -> Vec<Place> {
    let (mut found, mut rest, mut line) = (Vec::new(), text, 1);
    while !rest.is_empty() {
        let (piece, is_prose) = piece(rest);
        if is_prose {
            let lines = piece.split('\n').zip(line..);
            found.extend(
                lines.flat_map(|(text, number)| text.split(ESCAPED_END).flat_map(move |text| words(text, number))),
            );
        }
        line += piece.matches('\n').count();
        rest = &rest[piece.len()..];
    }
    found
}

/// In a literal this is the end of a line, not a letter of the next word.
const ESCAPED_END: &str = "\\n";

fn words(line: &str, number: usize) -> impl Iterator<Item = Place> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.map(move |word| (word.to_lowercase(), number))
}

/// The first piece of a source, and whether people read it: a comment, a literal, or a bit of code.
fn piece(text: &str) -> (&str, bool) {
    if text.starts_with("//") {
        return (text.split_inclusive('\n').next().unwrap_or(text), true);
    }
    if text.starts_with("/*") {
        return (up_to(text, 2, "*/"), true);
    }
    if text.starts_with('"') {
        return (literal(text), true);
    }
    if let Some(hashes) = raw_hashes(text) {
        return (up_to(text, hashes + 2, &format!("\"{}", "#".repeat(hashes))), true);
    }
    // The characters that would begin a literal, as characters.
    if let Some(quote) = ["'\"'", "'\\\"'"].iter().find(|quote| text.starts_with(**quote)) {
        return (&text[..quote.len()], false);
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let name = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let one = text.chars().next().map_or(0, char::len_utf8);
    (&text[..name.max(one)], false)
}

/// How many signs `#` the raw literal has that begins here, if one does.
fn raw_hashes(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let opening = rest.trim_start_matches('#');
    opening.starts_with('"').then_some(rest.len() - opening.len())
}

fn literal(text: &str) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return &text[..=at],
            _ => escaped = c == '\\' && !escaped,
        }
    }
    text
}

fn up_to<'a>(text: &'a str, begin: usize, end: &str) -> &'a str {
    text.get(begin..).and_then(|rest| rest.find(end)).map_or(text, |at| &text[..begin + at + end.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(String, usize)> {
        of_source(source)
    }

    fn texts(source: &str) -> String {
        found(source).into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_prose_and_code_is_not() {
        assert_eq!(
            texts("fn told() { // It is.\n    say(\"a\\nb \\\" c\", '\"', 'x'); /* d\ne */ f::<'a>() }"),
            "it is a b c d e"
        );
        assert_eq!(texts("let x = r#\"one \"two\"\"#; let r = b\"three\"; for_r(y);"), "r one two three");
        assert_eq!(texts("/// A `told_gap` of *told*."), "a told_gap of told");
    }

    #[test]
    fn words_know_their_lines() {
        assert_eq!(
            found("let a;\n// b\nlet c = \"d\n  e\";\n// f"),
            [("b", 2), ("d", 3), ("e", 4), ("f", 5)].map(|(w, l)| (w.to_owned(), l))
        );
        assert_eq!(of_page("A b\nc").len(), 3);
    }

    #[test]
    fn sources_that_end_within_a_literal_are_read_to_the_end() {
        assert_eq!(texts("\"a b"), "a b");
        assert_eq!(texts("/* a"), "a");
        assert_eq!(texts("r#\"a"), "r a");
    }
}

//! What a program answers: a word, and fields.

/// A line that a program answered: `group_view group=tea cause=join members=#ann#n1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    line: String,
}

impl Reply {
    /// A line as it came.
    pub fn new(line: impl Into<String>) -> Self {
        Self { line: line.into() }
    }

    /// The whole line.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The line without the text for people behind ` : `.
    fn front(&self) -> &str {
        self.line.split(" : ").next().unwrap_or_default()
    }

    /// The first word: what it is.
    pub fn kind(&self) -> &str {
        self.front().split(' ').next().unwrap_or_default()
    }

    /// The text for people, if there is one.
    pub fn text(&self) -> &str {
        self.line.split_once(" : ").map_or("", |(_, text)| text)
    }

    /// The value of a field, if it has that.
    pub fn field(&self, key: &str) -> Option<&str> {
        let words = self.front().split(' ').skip(1);
        words.filter_map(|word| word.split_once('=')).find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// A field that is a number.
    ///
    /// # Errors
    /// If there is none, or it is no number.
    pub fn number(&self, key: &str) -> Result<u64, String> {
        let value = self.field(key).ok_or_else(|| format!("`{}` has no field `{key}`", self.line))?;
        value.parse().map_err(|_| format!("`{}`: `{key}` is no number", self.line))
    }

    /// Whether it is of this kind and has these fields, given as they are written.
    ///
    /// # Errors
    /// What is missing or different.
    pub fn is(&self, expected: &str) -> Result<(), String> {
        let wanted = Self::new(expected);
        let same = |word: &str| word.split_once('=').is_none_or(|(key, value)| self.field(key) == Some(value));
        if self.kind() == wanted.kind() && expected.split(' ').all(same) {
            return Ok(());
        }
        Err(format!("`{}` came instead of `{expected}`", shortened(&self.line)))
    }
}

/// As much of a line as one wants to read.
pub(crate) fn shortened(line: &str) -> String {
    if line.chars().count() <= 300 { line.to_owned() } else { line.chars().take(300).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_the_text_is_none_of_them() {
        let reply = Reply::new("error kind=disconnected reason=slow : the daemon said kind=other : bye");
        assert_eq!((reply.kind(), reply.field("kind"), reply.field("bye")), ("error", Some("disconnected"), None));
        assert_eq!(reply.text(), "the daemon said kind=other : bye");
        assert_eq!(reply.is("error reason=slow kind=disconnected"), Ok(()));
        assert!(reply.is("error reason=stopping").unwrap_err().contains("instead of `error reason=stopping`"));
        assert!(reply.is("ok").is_err() && reply.is("error missing=1").is_err());
        assert_eq!(Reply::new("ok send=7").number("send"), Ok(7));
        assert!(Reply::new("ok send=x").number("send").unwrap_err().contains("no number"));
        assert!(Reply::new("ok").number("send").unwrap_err().contains("no field"));
        assert_eq!(Reply::new("message to= length=0").field("to"), Some(""));
    }
}

//! What a message says, on a terminal: it must not move the cursor, change a title, or pass for other lines.
use std::borrow::Cow;
use std::fmt::Write;

/// A text in which control characters are named: `\n`, `\t`, `\x1b`, `\u{9b}`.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        let written = match character {
            '\n' | '\t' | '\r' => write!(shown, "{}", character.escape_default()),
            control if control.is_ascii_control() => write!(shown, "\\x{:02x}", u32::from(control)),
            control if control.is_control() => write!(shown, "{}", control.escape_unicode()),
            plain => write!(shown, "{plain}"),
        };
        debug_assert!(written.is_ok(), "a string takes all");
    }
    Cow::Owned(shown)
}

/// The same in JSON, which names only some of them itself.
pub fn json_without_controls(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        let written = match character.is_control() {
            true => write!(shown, "\\u{:04x}", u32::from(character)),
            false => write!(shown, "{character}"),
        };
        debug_assert!(written.is_ok(), "a string takes all");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_named_and_all_else_stays() {
        let escape = "a\u{1b}[2J\u{7}b\nc\td\u{9b}31m\u{7f}é";
        assert_eq!(without_controls(escape), "a\\x1b[2J\\x07b\\nc\\td\\u{9b}31m\\x7fé");
        assert!(matches!(without_controls("plain é \\n"), Cow::Borrowed(_)));
        let json = json_without_controls(&serde_json::json!({ "text": escape }).to_string());
        assert!(!json.chars().any(char::is_control));
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["text"], escape);
    }
}

//! What a message says, on a terminal: it must not move the cursor, change a title, or pass for other lines.
use std::borrow::Cow;

/// A text in which control characters are named: `\n`, `\t`, `\x1b`, `\u{9b}`.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii_control() => shown.extend(std::ascii::escape_default(byte).map(char::from)),
            Ok(_) if character.is_control() => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// The same in JSON, which names only some of them itself.
pub fn json_without_controls(json: &str) -> String {
    let named = |character: char| format!("\\u{:04x}", u32::from(character));
    json.chars().map(|it| if it.is_control() { named(it) } else { it.to_string() }).collect()
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

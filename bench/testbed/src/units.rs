//! Numbers and times as the command lines of experiments take them.
use std::time::Duration;

/// Reads `1000`, `1_000`, `100k`, `1.5M`, `1G`, or a hexadecimal number such as `0x1f`.
pub fn number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let (digits, factor) = match text.char_indices().next_back()? {
        (end, 'k') => (&text[..end], 1e3),
        (end, 'M') => (&text[..end], 1e6),
        (end, 'G') => (&text[..end], 1e9),
        _ => return text.parse().ok(),
    };
    digits.parse::<f64>().ok().filter(|number| *number >= 0.0).map(|number| (number * factor) as u64)
}

/// Reads a time with its unit, such as `250us`, `5ms`, `2s` or `1m`.
pub fn span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

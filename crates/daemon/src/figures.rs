//! Numbers for people.

/// Microseconds, in the unit that reads best.
pub fn micros(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1_000.0),
        us => format!("{:.1} s", us / 1_000_000.0),
    }
}

/// A whole number with thousands set apart: `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes, in the unit that reads best.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([thousands(7), thousands(1_234), thousands(1_234_567)], ["7", "1,234", "1,234,567"]);
        assert_eq!([micros(12.3), micros(2_345.0), micros(3e6)], ["12 us", "2.3 ms", "3.0 s"]);
        assert_eq!([bytes(12), bytes(2_048), bytes(12 << 20)], ["12 B", "2.0 KiB", "12.0 MiB"]);
    }
}

//! How a value is written as text, and read again.
//!
//! It decides the form alone. A value that it reads, it writes as text that reads as the same value.

use std::time::Duration;

/// A value of a setting.
pub(super) trait Value: Sized {
    /// The form that is expected, for the error.
    const EXPECTED: &str;

    fn read(text: &str) -> Option<Self>;

    fn write(&self) -> String;
}

/// Each unit in microseconds, from the longest to the shortest.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

impl Value for Duration {
    const EXPECTED: &str = "a whole number and a unit (us, ms, s, m, h or d), as in `10s`";

    fn read(text: &str) -> Option<Self> {
        let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = text.split_at(unit_at);
        let (_, micros) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        Some(Self::from_micros(number.parse::<u64>().ok()?.checked_mul(micros)?))
    }

    fn write(&self) -> String {
        // Every duration that was read fits.
        let whole = u64::try_from(self.as_micros()).unwrap_or(u64::MAX);
        if whole == 0 {
            return "0s".to_owned();
        }
        let unit = UNITS.into_iter().find(|(_, micros)| whole.is_multiple_of(*micros));
        let (name, micros) = unit.unwrap_or(("us", 1));
        format!("{}{name}", whole / micros)
    }
}

impl Value for String {
    const EXPECTED: &str = "text without blanks";

    fn read(text: &str) -> Option<Self> {
        let blank = |c: char| c.is_whitespace() || c.is_control();
        (!text.is_empty() && !text.contains(blank)).then(|| text.to_owned())
    }

    fn write(&self) -> String {
        self.clone()
    }
}

impl Value for bool {
    const EXPECTED: &str = "`true` or `false`";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        for (text, expected) in [
            ("10s", Duration::from_secs(10)),
            ("0ms", Duration::ZERO),
            ("1500ms", Duration::from_millis(1500)),
            ("250us", Duration::from_micros(250)),
            ("2m", Duration::from_secs(120)),
            ("1h", Duration::from_secs(3600)),
            ("30d", Duration::from_secs(30 * 86_400)),
        ] {
            assert_eq!(Duration::read(text), Some(expected), "{text}");
        }
        for text in
            ["", "10", "s", "1.5s", "-1s", "+1s", "1 s", "1S", "1s2", "1ns", "99999999999999d"]
        {
            assert_eq!(Duration::read(text), None, "{text}");
        }
        let written = ["10s", "0s", "1500ms", "250us", "2m", "1h", "30d", "90s"];
        for text in written {
            assert_eq!(Duration::read(text).unwrap().write(), text);
        }
        assert_eq!(Duration::read("3600s").unwrap().write(), "1h");
    }
}

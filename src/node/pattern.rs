//! The patterns by which a server names its keys.
//!
//! It decides what matches one, as Redis does: `*`, `?`, `[a-c]`, `[^a]`, and a backslash before a literal byte.

/// Whether the name matches the pattern as a whole.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    match first {
        b'*' => (0..=name.len()).any(|skip| matches(rest, name.get(skip..).unwrap_or_default())),
        b'?' => name.split_first().is_some_and(|(_, name)| matches(rest, name)),
        b'[' => name.split_first().is_some_and(|(byte, name)| {
            let (is_in, rest) = class(rest, *byte);
            is_in && matches(rest, name)
        }),
        _ => {
            let (meant, rest) = literal(*first, rest);
            name.split_first().is_some_and(|(byte, name)| *byte == meant && matches(rest, name))
        }
    }
}

fn literal(first: u8, rest: &[u8]) -> (u8, &[u8]) {
    match rest.split_first() {
        Some((next, rest)) if first == b'\\' => (*next, rest),
        _ => (first, rest),
    }
}

/// Whether the byte is in the class between the brackets, and what follows it.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            // An unclosed class ends with the pattern.
            [] => return (is_in != negated, rest),
            [b'\\', meant, after @ ..] => {
                is_in |= *meant == byte;
                after
            }
            [b']', after @ ..] => return (is_in != negated, after),
            // A range may also end in a bracket.
            [one, b'-', other, after @ ..] => {
                is_in |= (one.min(other)..=one.max(other)).contains(&&byte);
                after
            }
            [one, after @ ..] => {
                is_in |= *one == byte;
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "a:b", true),
            ("a:*", "a:b", true),
            ("a:*", "b:a:", false),
            ("*:1", "a:1:1", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[ab]x", "bx", true),
            ("[^ab]x", "bx", false),
            ("[a-c]", "b", true),
            ("[a-c]", "d", false),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("", "a", false),
            ("[a", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}

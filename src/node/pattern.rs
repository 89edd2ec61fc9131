//! The patterns by which a server names its keys.
//!
//! It decides what matches one, as Redis does: `*`, `?`, `[a-c]`, `[^a]`, and a backslash before a literal byte.

/// Whether the name matches the pattern as a whole. Where something does not match, the last `*` takes a byte more: names may be
/// long, and those of others.
pub(super) fn matches(mut pattern: &[u8], mut name: &[u8]) -> bool {
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', behind)) = pattern.split_first() {
            if behind.is_empty() {
                return true;
            }
            (pattern, star) = (behind, Some((behind, name)));
            continue;
        }
        if pattern.is_empty() && name.is_empty() {
            return true;
        }
        if let Some(left) = one(pattern, name) {
            (pattern, name) = left;
            continue;
        }
        let Some((behind, from)) = star else { return false };
        let Some((_, from)) = from.split_first() else { return false };
        (pattern, name, star) = (behind, from, Some((behind, from)));
    }
}

/// What is left behind a byte that matches.
fn one<'p, 'n>(pattern: &'p [u8], name: &'n [u8]) -> Option<(&'p [u8], &'n [u8])> {
    let ((first, rest), (byte, others)) = (pattern.split_first()?, name.split_first()?);
    let (matches, rest) = match first {
        b'?' => (true, rest),
        b'[' => class(rest, *byte),
        _ => {
            let (meant, rest) = literal(*first, rest);
            (meant == *byte, rest)
        }
    };
    matches.then_some((rest, others))
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
            ("*b*c*", "abxbc", true),
            ("*bc", "abbc", true),
            ("a*b*c", "acb", false),
            ("*?b", "b", false),
            ("***", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    /// Backtracking over each `*` would not end.
    #[test]
    fn many_stars_and_long_names_take_no_time() {
        let name = vec![b'a'; 65_536];
        assert!(!matches(b"*a*a*a*a*a*a*a*ab", &name));
        assert!(matches(b"*a*a*a*a*a*a*a*a", &name));
    }
}

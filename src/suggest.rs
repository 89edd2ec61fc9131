//! The known word that a mistyped one may mean.
//!
//! It decides which known word is near enough to be offered. It must never be used to accept one.

/// The known word with the smallest edit distance, if that is at most two and at most half of its own length.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (distance, nearest) = distances.min()?;
    (distance <= 2 && 2 * distance <= nearest.len()).then_some(nearest)
}

/// How many letters must be changed, inserted or removed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        // The cell to the upper left, of the previous row.
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let replaced = diagonal + usize::from(x != y);
            diagonal = *cell;
            *cell = replaced.min(left + 1).min(diagonal + 1);
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_differ_are_counted() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("redis", "redis", 0),
            ("reds", "redis", 1),
            ("redsi", "redis", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_what_is_near_is_offered() {
        let known = ["redis", "rediss", "ttl"];
        assert_eq!(nearest("reds", known), Some("redis"));
        assert_eq!(nearest("redisss", known), Some("rediss"));
        assert_eq!(nearest("tll", known), Some("ttl"));
        assert_eq!(nearest("http", known), None);
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest("reds", []), None);
    }
}

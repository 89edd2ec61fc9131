//! How times and lists read in a message. It decides nothing.
//!
//! It must never leave out a node, nor group nodes that said different things.

use std::{fmt, sync::Arc, time::Duration};

/// A measured time, rounded to three digits.
pub(crate) fn rounded(duration: Duration) -> Duration {
    let nanos = duration.as_nanos();
    let unit = nanos.checked_ilog10().map_or(1, |digits| 10u128.pow(digits.saturating_sub(2)));
    let nanos = (nanos + unit / 2) / unit * unit;
    // A time beyond `u64` nanoseconds is not rounded.
    u64::try_from(nanos).map_or(duration, Duration::from_nanos)
}

/// A time of which only the largest unit matters: `3 h`, `40 s`.
pub(crate) fn coarse(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2 * length).unwrap_or((1, "s"));
    format!("{} {}", seconds / unit.0, unit.1)
}

/// A count with its noun: `1 node`, `3 nodes`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// What one node said, and how long that lasts, if it has a duration.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) lasts: Option<Duration>,
}

impl Said {
    pub(crate) fn plain(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), lasts: None }
    }

    pub(crate) fn lasting(text: impl fmt::Display, lasts: Duration) -> Self {
        Self { text: text.to_string(), lasts: Some(lasts) }
    }

    /// Whether both say the same, with durations less than a second apart.
    fn is_like(&self, other: &Self) -> bool {
        let alike = match (self.lasts, other.lasts) {
            (None, None) => true,
            (Some(one), Some(other)) => one.abs_diff(other) < Duration::from_secs(1),
            _ => false,
        };
        alike && self.text == other.text
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.lasts.map_or(Ok(()), |lasts| write!(f, " {:?}", rounded(lasts)))
    }
}

/// Nodes that said the same, by index and address.
struct Group<'a> {
    nodes: Vec<(usize, &'a str)>,
    said: Said,
}

/// Writes what each node said, in the order of the nodes: `node 0 (a): x; nodes 1, 2 (b, c): y`. Nodes that said the
/// same share one entry, with their longest duration.
pub(crate) fn write_said<'a>(
    f: &mut fmt::Formatter<'_>,
    nodes: impl Iterator<Item = (usize, &'a Arc<str>, Said)>,
) -> fmt::Result {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (index, address, said) in nodes {
        match groups.iter_mut().find(|group| group.said.is_like(&said)) {
            Some(group) => {
                group.nodes.push((index, address));
                group.said.lasts = group.said.lasts.max(said.lasts);
            }
            None => groups.push(Group { nodes: vec![(index, address)], said }),
        }
    }
    for (at, Group { nodes, said }) in groups.iter().enumerate() {
        f.write_str(if at == 0 { "node" } else { "; node" })?;
        f.write_str(if nodes.len() == 1 { " " } else { "s " })?;
        listed(f, nodes.iter().map(|(index, _)| index))?;
        f.write_str(" (")?;
        listed(f, nodes.iter().map(|(_, address)| address))?;
        write!(f, "): {said}")?;
    }
    Ok(())
}

fn listed<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    for (at, item) in items.enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nodes(Vec<(&'static str, Option<u64>)>);

    impl fmt::Display for Nodes {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let address: Vec<Arc<str>> =
                (0..self.0.len()).map(|at| format!("h{at}").into()).collect();
            let said = |(at, (text, lasts)): (usize, &(&str, Option<u64>))| {
                let lasts = lasts.map(Duration::from_millis);
                (at, Said { text: (*text).to_owned(), lasts })
            };
            let nodes = self.0.iter().enumerate().map(said);
            write_said(f, nodes.map(|(at, said)| (at, &address[at], said)))
        }
    }

    #[test]
    fn nodes_that_said_the_same_are_one_group_and_none_is_left_out() {
        let nodes = Nodes(vec![("x", None), ("y", None), ("x", None), ("x", Some(1))]);
        assert_eq!(nodes.to_string(), "nodes 0, 2 (h0, h2): x; node 1 (h1): y; node 3 (h3): x 1ms");
        assert_eq!(Nodes(vec![]).to_string(), "");
    }

    #[test]
    fn times_that_are_less_than_a_second_apart_are_one_and_the_longest_is_told() {
        let nodes = Nodes(vec![("for", Some(9_000)), ("for", Some(9_999)), ("for", Some(8_000))]);
        assert_eq!(nodes.to_string(), "nodes 0, 1 (h0, h1): for 10s; node 2 (h2): for 8s");
    }

    #[test]
    fn one_is_told_from_several() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "node")), ["0 nodes", "1 node", "2 nodes"]);
    }

    #[test]
    fn a_measured_time_has_three_digits() {
        let shown = |nanos| format!("{:?}", rounded(Duration::from_nanos(nanos)));
        assert_eq!([0, 7, 1_234, 999_600].map(shown), ["0ns", "7ns", "1.23µs", "1ms"]);
        assert_eq!([201_456_789, 11_199_999_999].map(shown), ["201ms", "11.2s"]);
        assert_eq!(rounded(Duration::MAX), Duration::MAX);
    }
}

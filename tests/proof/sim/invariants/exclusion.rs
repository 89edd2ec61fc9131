//! I1: at most one holder of a resource at any time, or readers alone.
//!
//! Source: redis.io, "Distributed Locks with Redis", safety property 1; `docs/safety.md`, "Exclusion"; S1 to S19 of the
//! scenarios are ways to break it. It holds under A1 to A9, and is not asked of a run that breaks one of them on purpose.

use super::{Hold, Violation};

/// No two holds overlap in time, but those of readers.
pub(crate) fn check(history: &[Hold]) -> Result<(), Violation> {
    let mut holds: Vec<&Hold> = history.iter().filter(|hold| hold.from < hold.until).collect();
    holds.sort_by_key(|hold| (&hold.resource, hold.from, hold.until));
    // Of the holds before, the one that ends last is the one to overlap with: of writers, and of readers.
    let mut last: [Option<&Hold>; 2] = [None; 2];
    for hold in holds {
        last = last.map(|last| last.filter(|last| last.resource == hold.resource));
        let others = if hold.reads { &last[..1] } else { &last };
        if let Some(first) = others.iter().flatten().find(|last| hold.from < last.until) {
            return Err(Violation::Overlap {
                first: Box::new((*first).clone()),
                second: Box::new(hold.clone()),
            });
        }
        let last = &mut last[usize::from(hold.reads)];
        *last = last.filter(|last| last.until > hold.until).or(Some(hold));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::by_hand::hold, *};

    #[test]
    fn a_planted_overlap_is_found_in_whatever_order_it_is_written() {
        let (first, second) = (hold(0, "a", 10, 20), hold(1, "a", 19, 30));
        let expected =
            Violation::Overlap { first: Box::new(first.clone()), second: Box::new(second.clone()) };
        assert_eq!(check(&[first.clone(), second.clone()]), Err(expected.clone()));
        assert_eq!(check(&[second, hold(2, "b", 0, 100), first]), Err(expected));
    }

    #[test]
    fn an_overlap_with_a_long_one_is_found_behind_short_ones() {
        let history = [hold(0, "a", 0, 100), hold(1, "a", 99, 100)];
        assert!(matches!(check(&history), Err(Violation::Overlap { .. })));
    }

    #[test]
    fn one_client_overlapping_with_itself_is_an_overlap() {
        let history = [hold(0, "a", 0, 10), hold(0, "a", 5, 6)];
        assert!(matches!(check(&history), Err(Violation::Overlap { .. })));
    }

    #[test]
    fn one_after_another_and_side_by_side_are_fine() {
        let history = [
            hold(0, "a", 10, 20),
            hold(1, "a", 20, 30),
            hold(1, "b", 15, 25),
            hold(2, "a", 25, 25),
        ];
        assert_eq!(check(&history), Ok(()));
        assert_eq!(check(&[]), Ok(()));
    }

    #[test]
    fn readers_overlap_with_writers_alone() {
        let reader = |client, from, until| Hold { reads: true, ..hold(client, "a", from, until) };
        let readers = [reader(0, 0, 50), reader(1, 10, 20), reader(2, 15, 18)];
        assert_eq!(check(&readers), Ok(()));
        for writer in [hold(3, "a", 19, 21), hold(3, "a", 49, 60)] {
            let with = [readers.as_slice(), &[writer]].concat();
            assert!(matches!(check(&with), Err(Violation::Overlap { .. })));
        }
        let early = [hold(0, "a", 0, 10), reader(1, 9, 20)];
        assert!(matches!(check(&early), Err(Violation::Overlap { .. })));
    }
}

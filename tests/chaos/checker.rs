//! Searches a history of leases for two holders at once.
//!
//! A holder may act from its start up to, and not including, its end. The checker knows nothing of how
//! the leases were made, and is itself tested with planted histories.

use std::time::Duration;

/// One lease, as its holder saw it, on one clock for all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Held {
    pub(crate) owner: String,
    pub(crate) worker: usize,
    /// Just after the acquire returned.
    pub(crate) start: Duration,
    /// Just before the release was asked for, or when the validity was over, whichever came first.
    pub(crate) end: Duration,
}

/// Every lease that began while another was still held, with that other one, which began before it.
pub(crate) fn overlaps(history: &[Held]) -> Vec<(Held, Held)> {
    let mut sorted: Vec<&Held> = history.iter().filter(|held| held.start < held.end).collect();
    sorted.sort_by_key(|held| (held.start, held.end));
    let mut found = Vec::new();
    let mut longest: Option<&Held> = None;
    for held in sorted {
        if let Some(earlier) = longest.filter(|earlier| held.start < earlier.end) {
            found.push((earlier.clone(), held.clone()));
        }
        if longest.is_none_or(|earlier| earlier.end < held.end) {
            longest = Some(held);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: &str, start: u64, end: u64) -> Held {
        let (start, end) = (Duration::from_millis(start), Duration::from_millis(end));
        Held { owner: owner.to_owned(), worker: 0, start, end }
    }

    fn names(history: &[Held]) -> Vec<(String, String)> {
        overlaps(history).into_iter().map(|(a, b)| (a.owner, b.owner)).collect()
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    #[test]
    fn nothing_and_one_do_not_overlap() {
        assert_eq!(overlaps(&[]), []);
        assert_eq!(overlaps(&[held("a", 0, 10)]), []);
    }

    #[test]
    fn one_after_the_other_in_any_order_of_recording_is_fine() {
        assert_eq!(overlaps(&[held("c", 30, 40), held("a", 0, 10), held("b", 15, 20)]), []);
    }

    #[test]
    fn touching_is_not_overlapping() {
        assert_eq!(overlaps(&[held("a", 0, 10), held("b", 10, 20)]), []);
    }

    #[test]
    fn a_planted_overlap_is_found_in_any_order_of_recording() {
        let history = [held("a", 0, 10), held("b", 9, 20), held("c", 20, 30)];
        assert_eq!(names(&history), [pair("a", "b")]);
        let reversed: Vec<_> = history.into_iter().rev().collect();
        assert_eq!(names(&reversed), [pair("a", "b")]);
    }

    #[test]
    fn one_that_is_held_over_several_overlaps_all_of_them() {
        let history = [held("long", 0, 100), held("b", 10, 20), held("c", 50, 60)];
        assert_eq!(names(&history), [pair("long", "b"), pair("long", "c")]);
    }

    #[test]
    fn the_same_instant_twice_is_an_overlap() {
        assert_eq!(names(&[held("a", 5, 10), held("b", 5, 10)]).len(), 1);
    }

    #[test]
    fn a_lease_that_was_over_before_it_was_used_cannot_overlap() {
        assert_eq!(overlaps(&[held("a", 0, 10), held("late", 5, 5), held("later", 6, 4)]), []);
    }
}

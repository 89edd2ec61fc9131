//! Searches a history for two holders at once, for fencing tokens that repeat or fall, and for effects that
//! the fenced register should have refused, or should have accepted.
//!
//! A holder may act from its start up to, and not including, its end. The checker knows nothing of how
//! the leases were made, and is itself tested with planted histories.

use std::{collections::BTreeMap, time::Duration};

/// One lease, as its holder saw it, on one clock for all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Held {
    pub(crate) owner: String,
    pub(crate) worker: usize,
    pub(crate) resource: usize,
    /// None in classic mode.
    pub(crate) token: Option<u64>,
    /// Just before the acquire was called: no round began earlier.
    pub(crate) asked: Duration,
    /// Just after the acquire returned.
    pub(crate) start: Duration,
    /// Just before the release was asked for, or when the validity was over, whichever came first.
    pub(crate) end: Duration,
}

/// One write to the fenced register, as its worker saw it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Effect {
    pub(crate) worker: usize,
    pub(crate) resource: usize,
    pub(crate) token: u64,
    /// Just before it was sent, and just after it was answered.
    pub(crate) before: Duration,
    pub(crate) after: Duration,
    pub(crate) accepted: bool,
    /// Whether `check` still said so after it had been answered.
    pub(crate) held: bool,
}

/// Searches the history of each resource for itself.
fn each_resource<T: Clone, F>(
    history: &[T],
    resource: impl Fn(&T) -> usize,
    find: impl Fn(&[T]) -> Vec<F>,
) -> Vec<F> {
    let mut resources: BTreeMap<usize, Vec<T>> = BTreeMap::new();
    for one in history {
        resources.entry(resource(one)).or_default().push(one.clone());
    }
    resources.values().flat_map(|history| find(history)).collect()
}

/// Every lease that began while another on the same resource was still held, with that other one, which began before
/// it.
pub(crate) fn overlaps(history: &[Held]) -> Vec<(Held, Held)> {
    each_resource(history, |held| held.resource, overlaps_of_one)
}

fn overlaps_of_one(history: &[Held]) -> Vec<(Held, Held)> {
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

/// Pairs of leases on one resource with one token, and pairs of which the first had been granted before the second was asked
/// for, and has the larger one.
pub(crate) fn wrong_tokens(history: &[Held]) -> Vec<(Held, Held)> {
    each_resource(history, |held| held.resource, wrong_tokens_of_one)
}

fn wrong_tokens_of_one(history: &[Held]) -> Vec<(Held, Held)> {
    let mut fenced: Vec<(u64, &Held)> =
        history.iter().filter_map(|held| Some((held.token?, held))).collect();
    let mut found = Vec::new();
    // Looking at the leases by their tokens, none may have been granted before one that stands earlier was
    // asked for.
    fenced.sort_by_key(|(token, held)| (*token, held.start));
    let mut latest: Option<&Held> = None;
    for (index, (token, held)) in fenced.iter().enumerate() {
        if let Some((next, other)) = fenced.get(index + 1)
            && next == token
        {
            found.push(((*held).clone(), (*other).clone()));
        }
        if let Some(asked_latest) = latest.filter(|earlier| held.start < earlier.asked) {
            found.push(((*held).clone(), asked_latest.clone()));
        }
        if latest.is_none_or(|earlier| earlier.asked < held.asked) {
            latest = Some(held);
        }
    }
    found
}

/// Accepted effects that were sent after one with a larger token had been answered, with that other one.
pub(crate) fn stale(effects: &[Effect]) -> Vec<(Effect, Effect)> {
    each_resource(effects, |effect| effect.resource, stale_of_one)
}

fn stale_of_one(effects: &[Effect]) -> Vec<(Effect, Effect)> {
    let mut accepted: Vec<&Effect> = effects.iter().filter(|effect| effect.accepted).collect();
    // Looking at them from the largest token down, none may have been sent after one that stands earlier had been
    // answered. Of one token, all are compared before any is remembered.
    accepted.sort_by_key(|effect| std::cmp::Reverse(effect.token));
    let mut found = Vec::new();
    let mut first: Option<&Effect> = None;
    for same in accepted.chunk_by(|a, b| a.token == b.token) {
        if let Some(first) = first {
            let late = same.iter().filter(|effect| first.after < effect.before);
            found.extend(late.map(|effect| (first.clone(), (*effect).clone())));
        }
        first = first.into_iter().chain(same.iter().copied()).min_by_key(|effect| effect.after);
    }
    found
}

/// Effects that were refused though their lease held before and after: somebody with a larger token had been there.
pub(crate) fn refused_though_held(effects: &[Effect]) -> Vec<Effect> {
    effects.iter().filter(|effect| effect.held && !effect.accepted).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: &str, start: u64, end: u64) -> Held {
        let (start, end) = (Duration::from_millis(start), Duration::from_millis(end));
        Held {
            owner: owner.to_owned(),
            worker: 0,
            resource: 0,
            token: None,
            asked: start,
            start,
            end,
        }
    }

    /// One that was asked for at the first time, and granted at the second.
    fn fenced(owner: &str, asked: u64, start: u64, token: u64) -> Held {
        let asked = Duration::from_millis(asked);
        Held { token: Some(token), asked, ..held(owner, start, start + 1) }
    }

    fn wrong(history: &[Held]) -> Vec<(String, String)> {
        wrong_tokens(history).into_iter().map(|(a, b)| (a.owner, b.owner)).collect()
    }

    #[test]
    fn tokens_that_rise_with_gaps_are_fine_in_any_order_of_recording() {
        assert_eq!(wrong(&[]), []);
        assert_eq!(wrong(&[fenced("c", 6, 7, 50), fenced("a", 0, 1, 7), fenced("b", 2, 5, 8)]), []);
        assert_eq!(wrong(&[held("classic", 0, 1), held("too", 2, 3)]), []);
    }

    #[test]
    fn a_token_that_repeats_is_found() {
        let history = [fenced("a", 0, 1, 7), fenced("b", 2, 3, 8), fenced("c", 4, 5, 8)];
        assert_eq!(wrong(&history), [pair("b", "c")]);
        // At the same time, too: being unique needs no order.
        assert_eq!(wrong(&[fenced("a", 0, 5, 7), fenced("b", 0, 5, 7)]).len(), 1);
    }

    #[test]
    fn a_token_that_falls_is_found_however_much_lies_between() {
        let history = [fenced("a", 0, 1, 9), fenced("b", 2, 3, 10), fenced("c", 4, 5, 8)];
        assert_eq!(wrong(&history), [pair("a", "c"), pair("b", "c")]);
        let reversed: Vec<_> = history.into_iter().rev().collect();
        assert_eq!(wrong(&reversed), [pair("a", "c"), pair("b", "c")]);
    }

    #[test]
    fn acquires_that_ran_side_by_side_may_get_tokens_in_any_order() {
        assert_eq!(wrong(&[fenced("a", 0, 4, 9), fenced("b", 3, 5, 8)]), []);
        assert_eq!(wrong(&[fenced("a", 0, 4, 9), fenced("b", 4, 5, 8)]), []);
    }

    fn names(history: &[Held]) -> Vec<(String, String)> {
        overlaps(history).into_iter().map(|(a, b)| (a.owner, b.owner)).collect()
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    /// One that was accepted while its lease held.
    fn effect(worker: usize, token: u64, before: u64, after: u64) -> Effect {
        let (before, after) = (Duration::from_millis(before), Duration::from_millis(after));
        Effect { worker, resource: 0, token, before, after, accepted: true, held: true }
    }

    fn workers(effects: &[Effect]) -> Vec<(usize, usize)> {
        stale(effects).into_iter().map(|(a, b)| (a.worker, b.worker)).collect()
    }

    #[test]
    fn effects_in_the_order_of_their_tokens_are_fine_in_any_order_of_recording() {
        assert_eq!(workers(&[]), []);
        let history =
            [effect(2, 8, 6, 7), effect(0, 7, 0, 1), effect(1, 7, 2, 3), effect(3, 9, 8, 9)];
        assert_eq!(workers(&history), []);
    }

    #[test]
    fn effects_that_ran_side_by_side_may_land_in_any_order() {
        assert_eq!(workers(&[effect(0, 9, 0, 4), effect(1, 8, 3, 5)]), []);
        assert_eq!(workers(&[effect(0, 9, 0, 4), effect(1, 8, 4, 5)]), []);
    }

    #[test]
    fn a_stale_effect_that_was_accepted_is_found_however_much_lies_between() {
        let history =
            [effect(0, 9, 0, 1), effect(1, 10, 2, 3), effect(2, 8, 4, 5), effect(3, 9, 5, 6)];
        assert_eq!(workers(&history), [(1, 3), (0, 2)]);
        let reversed: Vec<_> = history.into_iter().rev().collect();
        assert_eq!(workers(&reversed), [(1, 3), (0, 2)]);
    }

    #[test]
    fn a_stale_effect_that_was_refused_is_as_it_should_be() {
        let refused = Effect { accepted: false, held: false, ..effect(1, 8, 4, 5) };
        assert_eq!(workers(&[effect(0, 9, 0, 1), refused.clone()]), []);
        assert_eq!(refused_though_held(&[effect(0, 9, 0, 1), refused.clone()]), []);
        let held = Effect { held: true, ..refused };
        assert_eq!(refused_though_held(&[effect(0, 9, 0, 1), held.clone()]), [held]);
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
    fn resources_have_nothing_to_do_with_each_other() {
        let other = |held: Held| Held { resource: 1, ..held };
        assert_eq!(names(&[held("a", 0, 10), other(held("b", 5, 15))]), []);
        assert_eq!(wrong(&[fenced("a", 0, 1, 9), other(fenced("b", 2, 3, 8))]), []);
        let late = Effect { resource: 1, ..effect(1, 8, 4, 5) };
        assert_eq!(workers(&[effect(0, 9, 0, 1), late]), []);
        // And each of them is searched.
        let history = [held("a", 0, 10), held("b", 5, 15)].map(other);
        assert_eq!(names(&history), [pair("a", "b")]);
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

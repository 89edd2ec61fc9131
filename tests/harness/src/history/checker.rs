//! Searches a history for two holders at once, for fencing tokens that repeat or fall, and for effects that
//! the fenced register should have refused, or should have accepted. Readers may hold together, and have one token.
//! A lease lost with a lock-delay keeps others out for that long. Observers see only elected leaders, and never an
//! earlier one again.
//!
//! `overlaps` and `wrong_tokens` take the leases in any order, and sort them. `turns` is for long histories of one resource:
//! each worker wrote its leases down one after the other, so that one merge and one pass are enough.
//!
//! A holder may act from its start up to, and not including, its end. The checker knows nothing of how
//! the leases were made, and is itself tested with planted histories.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    ops::Bound,
    time::Duration,
};

use super::record::{Passed, process_of};

/// One lease, as its holder saw it, on one clock for all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    /// Who held it, by the crate's name for it.
    pub owner: String,
    /// The worker's number.
    pub worker: usize,
    /// The resource's number.
    pub resource: usize,
    /// Whether it was shared with other readers.
    pub reads: bool,
    /// None in classic mode.
    pub token: Option<u64>,
    /// Just before the acquire was called: no round began earlier.
    pub asked: Duration,
    /// Just after the acquire returned.
    pub start: Duration,
    /// Just before the release was asked for, or when the validity was over, whichever came first.
    pub end: Duration,
    /// How long after its end nobody else was to hold the resource. Zero where the lease was over before its start: its
    /// end does not say when that time began.
    pub kept: Duration,
}

/// A leader, as an observer saw it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// Who saw it.
    pub observer: u32,
    /// Who it says it is.
    pub worker: usize,
    /// Its term.
    pub term: u64,
    /// Just before the nodes were asked, or some time earlier.
    pub asked: Duration,
}

/// One write to the fenced register, as its worker saw it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Effect {
    /// The worker's number.
    pub worker: usize,
    /// The resource's number.
    pub resource: usize,
    /// Whether it only looked.
    pub reads: bool,
    /// The token that it bore.
    pub token: u64,
    /// Just before it was sent.
    pub before: Duration,
    /// Just after it was answered.
    pub after: Duration,
    /// Whether the register took it.
    pub accepted: bool,
    /// Whether `check` still said so after it had been answered.
    pub held: bool,
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
pub fn overlaps(history: &[Held]) -> Vec<(Held, Held)> {
    each_resource(history, |held| held.resource, overlaps_of_one)
}

fn overlaps_of_one(history: &[Held]) -> Vec<(Held, Held)> {
    let mut sorted: Vec<&Held> = history.iter().filter(|held| held.start < held.end).collect();
    sorted.sort_by_key(|held| (held.start, held.end));
    let mut found = Vec::new();
    // Of writers, and of readers.
    let mut longest: [Option<&Held>; 2] = [None; 2];
    for held in sorted {
        let others = if held.reads { &longest[..1] } else { &longest };
        let earlier = others.iter().flatten().filter(|earlier| held.start < earlier.end);
        found.extend(earlier.map(|earlier| ((*earlier).clone(), held.clone())));
        let longest = &mut longest[usize::from(held.reads)];
        if longest.is_none_or(|earlier| earlier.end < held.end) {
            *longest = Some(held);
        }
    }
    found
}

/// Every lease that began while the resource was still kept free behind an earlier one, with that earlier lease.
pub fn too_soon(history: &[Held]) -> Vec<(Held, Held)> {
    let kept = |held: &Held| Held { end: held.end + held.kept, ..held.clone() };
    let found = overlaps(&history.iter().map(kept).collect::<Vec<_>>());
    // As they were written down: without the added time.
    let held = |kept: Held| Held { end: kept.end - kept.kept, ..kept };
    found.into_iter().map(|(earlier, later)| (held(earlier), held(later))).collect()
}

/// What observers should not have seen: a leader that nobody elected; a leader whose successor had been elected before
/// the nodes were asked; a leader earlier than one they had seen. A worker may have been elected and killed before it
/// said so: `killed` says how often that may be, for the workers of one process.
pub fn wrong_leaders(
    leases: &[Held],
    seen: &[Seen],
    killed: impl Fn(usize) -> usize,
) -> Vec<(&'static str, Seen)> {
    let elected: BTreeMap<u64, &Held> =
        leases.iter().filter_map(|held| Some((held.token?, held))).collect();
    // By term: when the first of the later leaders had certainly been elected.
    let mut later: BTreeMap<u64, Duration> = BTreeMap::new();
    let mut first = Duration::MAX;
    for (term, held) in elected.iter().rev() {
        later.insert(*term, first);
        first = first.min(held.start);
    }
    let (mut found, mut last) = (Vec::new(), BTreeMap::new());
    let mut unsaid: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for one in seen {
        match elected.get(&one.term) {
            Some(held) if held.worker != one.worker => found.push(("another's term", one.clone())),
            Some(_) => {}
            None => {
                let terms = unsaid.entry(process_of(one.worker)).or_default();
                terms.insert(one.term);
                if terms.len() > killed(process_of(one.worker)) {
                    found.push(("nobody's term", one.clone()));
                }
            }
        }
        let behind = (Bound::Excluded(one.term), Bound::Unbounded);
        let next = elected.range(behind).next();
        let elected_next = next.map_or(Duration::MAX, |(term, held)| held.start.min(later[term]));
        if elected_next < one.asked {
            found.push(("not the latest", one.clone()));
        }
        if last.insert(one.observer, one.term).is_some_and(|before| before > one.term) {
            found.push(("a smaller term than before", one.clone()));
        }
    }
    found
}

/// The most of these leases that were held at once, on whatever resources.
pub fn most_at_once(history: &[Held]) -> usize {
    let held = || history.iter().filter(|held| held.start < held.end);
    let ends = held().map(|held| (held.end, -1_isize));
    // An end comes before a start at the same time.
    let mut edges: Vec<_> = ends.chain(held().map(|held| (held.start, 1))).collect();
    edges.sort_unstable();
    let mut now = 0_isize;
    let counts = edges.into_iter().map(|(_, edge)| {
        now += edge;
        now
    });
    counts.max().unwrap_or_default().unsigned_abs()
}

/// Pairs of leases on one resource with one token, and pairs of which the first was granted before the second was asked
/// for, and has the larger token.
pub fn wrong_tokens(history: &[Held]) -> Vec<(Held, Held)> {
    each_resource(history, |held| held.resource, wrong_tokens_of_one)
}

fn wrong_tokens_of_one(history: &[Held]) -> Vec<(Held, Held)> {
    let mut fenced: Vec<(u64, &Held)> =
        history.iter().filter_map(|held| Some((held.token?, held))).collect();
    let mut found = Vec::new();
    // In the order of tokens, no lease may have been granted before an earlier one in this order was asked for. A
    // reader with the token of a writer comes behind it.
    fenced.sort_by_key(|(token, held)| (*token, held.reads, held.start));
    let mut latest: Option<&Held> = None;
    for (index, (token, held)) in fenced.iter().enumerate() {
        if let Some((next, other)) = fenced.get(index + 1)
            && next == token
            && !other.reads
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

/// What is wrong in a history in which every lease must begin after all before have ended, with a token above theirs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Turns {
    /// Leases that were held at all.
    pub leases: usize,
    /// Leases with the owner of the lease before: handed over inside a process.
    pub handed_over: usize,
    /// Each with the lease before, which was still held.
    pub overlaps: Vec<(Held, Held)>,
    /// Each with the lease before, which has the same token.
    pub duplicates: Vec<(Held, Held)>,
    /// Each with the lease before, which has a larger token.
    pub falls: Vec<(Held, Held)>,
}

/// Checks the leases of one resource in order of their beginning. It is stricter than `wrong_tokens`, which accepts any
/// order of tokens for acquires that ran side by side: a lease that begins after another has ended was granted later,
/// whenever it was asked for. A lease that was over before its holder saw it is left out: others may have come
/// meanwhile.
pub fn turns(history: &[Held]) -> Turns {
    let mut workers: BTreeMap<usize, Vec<&Held>> = BTreeMap::new();
    for held in history.iter().filter(|held| held.start < held.end) {
        assert_eq!(held.resource, 0, "one resource");
        let of_worker = workers.entry(held.worker).or_default();
        assert!(of_worker.last().is_none_or(|last| last.start <= held.start), "in order: {held:?}");
        of_worker.push(held);
    }
    let mut queues: Vec<_> = workers.into_values().map(Vec::into_iter).collect();
    // As many entries as there are workers, however long the history is.
    let mut heads: BinaryHeap<Reverse<(Duration, usize)>> = BinaryHeap::new();
    let mut next: Vec<Option<&Held>> = queues.iter_mut().map(Iterator::next).collect();
    let start = |held: &&Held| held.start;
    heads.extend(
        next.iter().enumerate().filter_map(|(i, held)| Some(Reverse((start(held.as_ref()?), i)))),
    );
    let mut found = Turns::default();
    let (mut before, mut longest, mut highest): (Option<&Held>, Option<&Held>, Option<&Held>) =
        Default::default();
    while let Some(Reverse((_, index))) = heads.pop() {
        let Some(held) = next[index].take() else { continue };
        next[index] = queues[index].next();
        heads.extend(next[index].as_ref().map(|held| Reverse((held.start, index))));

        found.leases += 1;
        found.handed_over += usize::from(before.is_some_and(|before| before.owner == held.owner));
        before = Some(held);
        let pair = |other: &Held| (other.clone(), held.clone());
        found.overlaps.extend(longest.filter(|other| held.start < other.end).map(pair));
        found.duplicates.extend(highest.filter(|other| held.token == other.token).map(pair));
        found.falls.extend(highest.filter(|other| held.token < other.token).map(pair));
        if longest.is_none_or(|other| other.end < held.end) {
            longest = Some(held);
        }
        if highest.is_none_or(|other| other.token < held.token) {
            highest = Some(held);
        }
    }
    found
}

/// Accepted effects that were sent after one with a larger token had been answered, with that other one.
pub fn stale(effects: &[Effect]) -> Vec<(Effect, Effect)> {
    each_resource(effects, |effect| effect.resource, stale_of_one)
}

fn stale_of_one(effects: &[Effect]) -> Vec<(Effect, Effect)> {
    let mut accepted: Vec<&Effect> = effects.iter().filter(|effect| effect.accepted).collect();
    // From the largest token down, no effect may have been sent after an earlier one in this order was answered.
    // Effects with one token are all compared before any is remembered.
    accepted.sort_by_key(|effect| Reverse(effect.token));
    let mut found = Vec::new();
    // Of all effects, and of writes alone: a reader may look behind another reader.
    let mut first: [Option<&Effect>; 2] = [None; 2];
    for same in accepted.chunk_by(|a, b| a.token == b.token) {
        for effect in same {
            let late = first[usize::from(effect.reads)].filter(|it| it.after < effect.before);
            found.extend(late.map(|first| (first.clone(), (*effect).clone())));
        }
        for (of_writes, first) in first.iter_mut().enumerate() {
            let counts = same.iter().copied().filter(|it| of_writes == 0 || !it.reads);
            *first = first.take().into_iter().chain(counts).min_by_key(|effect| effect.after);
        }
    }
    found
}

/// Leases that should not have been passed along: to a smaller token, past another holder, or to two.
pub fn wrongly_passed(leases: &[Held], passed: &[Passed]) -> Vec<Passed> {
    let mut held: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for lease in leases {
        held.entry(lease.resource).or_default().extend(lease.token);
    }
    let mut from = BTreeSet::new();
    let mut is_wrong = |one: &Passed| {
        let between = (Bound::Excluded(one.before), Bound::Excluded(one.token));
        one.token <= one.before
            || held.get(&one.resource).is_some_and(|held| held.range(between).next().is_some())
            || !from.insert((one.resource, one.before))
    };
    passed.iter().filter(|one| is_wrong(one)).cloned().collect()
}

/// The longest time in which nobody held a resource that somebody held before and somebody held after.
pub fn longest_free(history: &[Held]) -> Duration {
    let gaps = each_resource(
        history,
        |held| held.resource,
        |history| {
            let mut sorted: Vec<&Held> =
                history.iter().filter(|held| held.start < held.end).collect();
            sorted.sort_by_key(|held| held.start);
            let mut end: Option<Duration> = None;
            let mut longest = Duration::ZERO;
            for held in sorted {
                longest = longest.max(end.map_or(longest, |end| held.start.saturating_sub(end)));
                end = end.max(Some(held.end));
            }
            vec![longest]
        },
    );
    gaps.into_iter().max().unwrap_or_default()
}

/// Effects that were refused though their lease held before and after: a larger token had been there.
pub fn refused_though_held(effects: &[Effect]) -> Vec<Effect> {
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
            reads: false,
            token: None,
            asked: start,
            start,
            end,
            kept: Duration::ZERO,
        }
    }

    #[test]
    fn a_lease_is_passed_to_one_past_nobody_and_to_a_larger_token() {
        let lease = |resource, token| Held { resource, ..fenced("a", 0, 1, token) };
        let leases: Vec<Held> = [1, 2, 3, 5].map(|token| lease(0, token)).into();
        let passed = |before, token| Passed { worker: 0, resource: 0, before, token };
        let right = [passed(1, 2), passed(2, 3), passed(3, 5)];
        assert_eq!(wrongly_passed(&leases, &right), []);
        for wrong in [passed(1, 3), passed(2, 5), passed(5, 3), passed(3, 3), passed(2, 3)] {
            let all = [&right[..], std::slice::from_ref(&wrong)].concat();
            assert_eq!(wrongly_passed(&leases, &all), [wrong]);
        }
        let elsewhere = [lease(1, 4)];
        assert_eq!(wrongly_passed(&[&leases[..], &elsewhere].concat(), &right), []);
        let between = [lease(0, 4)];
        assert_eq!(wrongly_passed(&[&leases[..], &between].concat(), &right), [passed(3, 5)]);
    }

    #[test]
    fn a_resource_is_free_from_one_end_to_the_next_start() {
        let one = [held("a", 0, 10), held("b", 12, 13), held("c", 20, 21)];
        let other = [held("d", 0, 5), held("e", 11, 12)].map(|held| Held { resource: 1, ..held });
        assert_eq!(longest_free(&one), Duration::from_millis(7));
        assert_eq!(longest_free(&other), Duration::from_millis(6));
        assert_eq!(longest_free(&[&one[..], &other].concat()), Duration::from_millis(7));
        assert_eq!(longest_free(&one[..1]), Duration::ZERO);
        let within = [held("a", 0, 10), held("b", 2, 3), held("c", 11, 12)];
        assert_eq!(longest_free(&within), Duration::from_millis(1));
    }

    /// A lease that was asked for at `asked` and granted at `start`.
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

    /// A lease of its own worker.
    fn turn(worker: usize, start: u64, end: u64, token: u64) -> Held {
        let owner = format!("{worker}@{start}");
        // All have asked at the beginning: they wait in line.
        let asked = Duration::ZERO;
        Held { worker, token: Some(token), asked, ..held(&owner, start, end) }
    }

    #[test]
    fn what_is_nobodys_for_a_while_is_not_to_be_had_before() {
        let lost = Held { kept: Duration::from_millis(5), ..held("lost", 0, 10) };
        assert_eq!(too_soon(&[lost.clone(), held("next", 15, 20)]), []);
        assert_eq!(too_soon(&[held("before", 0, 10), held("next", 10, 20)]), []);
        let found = too_soon(&[lost.clone(), held("next", 14, 20)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, held("next", 14, 20));
        let elsewhere = Held { resource: 1, ..held("next", 14, 20) };
        assert_eq!(too_soon(&[lost, elsewhere]), []);
    }

    #[test]
    fn observers_that_see_what_they_should_not_are_found() {
        let history = [turn(0, 1, 10, 7), turn(100, 20, 30, 9), turn(1, 40, 50, 12)];
        let seen = |worker, term, asked| Seen {
            observer: 1,
            worker,
            term,
            asked: Duration::from_millis(asked),
        };
        let wrong = |seen: &[Seen], kills: usize| -> Vec<&'static str> {
            let found = wrong_leaders(&history, seen, |_| kills);
            found.into_iter().map(|(what, _)| what).collect()
        };
        let fine = [seen(0, 7, 5), seen(0, 7, 20), seen(100, 9, 25), seen(1, 12, 60)];
        assert_eq!(wrong(&fine, 0), [""; 0]);
        assert_eq!(wrong(&[seen(100, 7, 5)], 9), ["another's term"]);
        assert_eq!(wrong(&[seen(0, 8, 15)], 0), ["nobody's term"]);
        // Each kill excuses one leader that was killed before it said so.
        assert_eq!(wrong(&[seen(0, 8, 15), seen(0, 8, 16)], 1), [""; 0]);
        assert_eq!(wrong(&[seen(0, 8, 15), seen(1, 10, 15)], 1), ["nobody's term"]);
        assert_eq!(wrong(&[seen(0, 7, 21)], 0), ["not the latest"]);
        assert_eq!(wrong(&[seen(0, 8, 41)], 1), ["not the latest"]);
        let back = [seen(100, 9, 15), seen(0, 7, 16)];
        assert_eq!(wrong(&back, 0), ["a smaller term than before"]);
        let two = [back[0].clone(), Seen { observer: 2, ..back[1].clone() }];
        assert_eq!(wrong(&two, 0), [""; 0]);
    }

    #[test]
    fn turns_in_order_are_fine_however_the_workers_are_recorded() {
        assert_eq!(turns(&[]), Turns::default());
        let history =
            [turn(1, 20, 30, 8), turn(0, 0, 10, 5), turn(1, 40, 50, 12), turn(0, 10, 20, 7)];
        let mut sorted = history.clone();
        sorted.sort_by_key(|held| held.worker);
        for history in [&history, &sorted] {
            assert_eq!(turns(history), Turns { leases: 4, ..Turns::default() });
        }
    }

    #[test]
    fn a_planted_fall_is_found_where_all_of_them_waited() {
        let history =
            [turn(0, 0, 10, 5), turn(1, 10, 20, 7), turn(2, 20, 30, 6), turn(0, 30, 40, 8)];
        let found = turns(&history);
        assert_eq!(found.falls, [(history[1].clone(), history[2].clone())]);
        assert!(found.overlaps.is_empty() && found.duplicates.is_empty());
        // They had asked before the others were granted, so that the other search says nothing.
        assert_eq!(wrong(&history), []);
    }

    #[test]
    fn a_planted_duplicate_and_a_planted_overlap_are_found() {
        let history = [turn(0, 0, 10, 5), turn(1, 10, 20, 5), turn(2, 19, 30, 6)];
        let found = turns(&history);
        assert_eq!(found.duplicates, [(history[0].clone(), history[1].clone())]);
        assert_eq!(found.overlaps, [(history[1].clone(), history[2].clone())]);
        assert!(found.falls.is_empty());
    }

    #[test]
    fn one_that_is_held_over_several_turns_overlaps_all_of_them() {
        let history = [turn(0, 0, 100, 5), turn(1, 10, 20, 6), turn(2, 30, 40, 7)];
        let found = turns(&history);
        let pair = |index: usize| (history[0].clone(), history[index].clone());
        assert_eq!(found.overlaps, [pair(1), pair(2)]);
    }

    #[test]
    fn what_a_holder_saw_too_late_counts_for_nothing() {
        // Granted before the other, and seen after it.
        let late = turn(0, 20, 20, 5);
        let found = turns(&[turn(1, 10, 15, 6), late]);
        assert_eq!(found, Turns { leases: 1, ..Turns::default() });
    }

    #[test]
    fn leases_of_one_owner_in_a_row_were_handed_over() {
        let one = |held: Held| Held { owner: "one".to_owned(), ..held };
        let history = [
            one(turn(0, 0, 10, 5)),
            one(turn(1, 10, 20, 6)),
            turn(2, 20, 30, 7),
            one(turn(3, 30, 40, 8)),
        ];
        assert_eq!(turns(&history).handed_over, 1);
    }

    #[test]
    fn one_pass_is_enough_for_a_hundred_thousand() {
        let history: Vec<Held> =
            (0..100_000).map(|n| turn((n % 32) as usize, n * 10, n * 10 + 9, n + 1)).collect();
        let mut planted = history.clone();
        planted[70_000].token = Some(69_990);
        planted[80_000].end += Duration::from_millis(2);
        assert_eq!(turns(&history).leases, 100_000);
        let found = turns(&planted);
        assert_eq!((found.falls.len(), found.overlaps.len(), found.duplicates.len()), (1, 1, 0));
    }

    fn names(history: &[Held]) -> Vec<(String, String)> {
        overlaps(history).into_iter().map(|(a, b)| (a.owner, b.owner)).collect()
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    /// An effect that was accepted while its lease held.
    fn effect(worker: usize, token: u64, before: u64, after: u64) -> Effect {
        let (before, after) = (Duration::from_millis(before), Duration::from_millis(after));
        Effect {
            worker,
            resource: 0,
            reads: false,
            token,
            before,
            after,
            accepted: true,
            held: true,
        }
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

    fn reads(held: Held) -> Held {
        Held { reads: true, ..held }
    }

    #[test]
    fn readers_overlap_with_writers_alone() {
        let readers = [reads(held("a", 0, 50)), reads(held("b", 5, 10)), reads(held("c", 6, 7))];
        assert_eq!(names(&readers), []);
        let with = |one: Held| names(&[readers.as_slice(), &[one]].concat());
        assert_eq!(with(held("w", 8, 9)), [pair("a", "w")]);
        assert_eq!(with(held("w", 49, 60)), [pair("a", "w")]);
        assert_eq!(with(held("w", 50, 60)), []);
        let early = [held("w", 0, 20), reads(held("a", 19, 30)), held("x", 29, 40)];
        assert_eq!(names(&early), [pair("w", "a"), pair("a", "x")]);
    }

    /// A writer that reads on is two lines of the history: one up to then, and one of a reader from then on.
    #[test]
    fn a_writer_that_reads_on_shares_it_from_then_on_and_with_nobody_who_writes() {
        let on = |since, until| {
            let writes = held("a", 0, since);
            [writes, reads(held("a", since, until))]
        };
        let beside = |other: Held| names(&[on(10, 50).as_slice(), &[other]].concat());
        assert_eq!(beside(reads(held("r", 10, 30))), []);
        assert_eq!(beside(reads(held("r", 9, 30))), [pair("a", "r")]);
        assert_eq!(beside(held("w", 40, 60)), [pair("a", "w")]);
        assert_eq!(beside(held("w", 50, 60)), []);
        // Its number is that of its fencing token: above those before it, and below those behind it.
        let fenced_on = |token| {
            let writes = fenced("a", 0, 1, token);
            [writes.clone(), reads(Held { asked: writes.end, start: writes.end, ..writes })]
        };
        let beside = |other: Held| wrong(&[fenced_on(7).as_slice(), &[other]].concat());
        assert_eq!(beside(reads(fenced("r", 1, 3, 7))), []);
        assert_eq!(beside(fenced("w", 3, 4, 8)), []);
        assert!(!beside(fenced("w", 3, 4, 7)).is_empty());
        assert!(!beside(reads(fenced("r", 3, 4, 6))).is_empty());
    }

    #[test]
    fn a_reader_has_the_token_of_the_writer_before_it_and_a_smaller_one_than_that_after_it() {
        let writer = |name: &str, at, token| fenced(name, at, at + 1, token);
        let reader = |name: &str, at, token| reads(writer(name, at, token));
        let fine = [writer("a", 0, 7), reader("b", 2, 7), reader("c", 4, 7), writer("d", 6, 8)];
        assert_eq!(wrong(&fine), []);
        assert_eq!(wrong(&[writer("a", 0, 7), reader("b", 2, 6)]), [pair("a", "b")]);
        assert_eq!(wrong(&[reader("a", 0, 7), writer("b", 2, 7)]), [pair("a", "b")]);
        assert_eq!(wrong(&[reader("a", 0, 7), reader("b", 2, 6)]), [pair("a", "b")]);
    }

    #[test]
    fn a_look_at_what_a_later_writer_left_is_stale_and_one_behind_a_later_reader_is_not() {
        let look = |effect: Effect| Effect { reads: true, ..effect };
        assert_eq!(workers(&[effect(0, 9, 0, 1), look(effect(1, 8, 2, 3))]), [(0, 1)]);
        assert_eq!(workers(&[look(effect(0, 9, 0, 1)), look(effect(1, 8, 2, 3))]), []);
        assert_eq!(workers(&[look(effect(0, 9, 0, 1)), effect(1, 8, 2, 3)]), [(0, 1)]);
        assert_eq!(workers(&[effect(0, 9, 0, 1), look(effect(1, 9, 2, 3))]), []);
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

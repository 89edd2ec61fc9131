//! Goal: sets are taken whole or not at all, with one number for all of their counters; each slot has one holder, and a
//! waiter for any slot is let in first.
//!
//! Method: tables, by both kinds of node.

use super::{
    super::steps::{MANY, Near, On, On::*, Step, Taken},
    LONG, deletes, extends, held, keeps, kept, picks, releases, sets, takes, waits,
};

/// Sets go by the bytes of the names: those here are in the order 1, 0, 3.
fn set() -> On {
    Set(vec![3, 0, 1, 0])
}

#[test]
fn all_keys_of_a_set_are_taken_or_none() {
    kept(&[
        takes(0, set(), "granted 101"),
        held(0, "o0 for 60005 ms, counter 101"),
        held(1, "o0 for 60005 ms, counter 101"),
        held(3, "o0 for 60005 ms, counter 101"),
        takes(1, One(0), "o0 for 60005 ms"),
        takes(1, One(1), "o0 for 60005 ms"),
        takes(1, One(3), "o0 for 60005 ms"),
        takes(1, Set(vec![4, 3, 5]), "1: o0 for 60005 ms"),
        held(4, "free"),
        held(5, "free"),
        releases(0, set(), "done"),
        held(0, "free"),
        held(1, "free"),
        held(3, "free"),
    ]);
}

#[test]
fn of_several_in_the_way_the_one_that_lives_for_longest_is_named() {
    kept(&[
        sets(1, 1, Some(20_005)),
        sets(3, 0, Some(80_005)),
        takes(0, set(), "2: `` for 80005 ms"),
        sets(0, 1, None),
        takes(0, set(), "1: `theirs` for ever"),
        takes(0, Set(vec![1]), "`theirs` for 20005 ms"),
    ]);
}

#[test]
fn the_counters_of_a_set_become_one_number_above_each_of_them() {
    kept(&[
        takes(0, One(0), "granted 101"),
        releases(0, One(0), "done"),
        takes(0, One(0), "granted 102"),
        releases(0, One(0), "done"),
        takes(0, Set(vec![0, 1]), "granted 103"),
        held(0, "o0 for 60005 ms, counter 103"),
        held(1, "o0 for 60005 ms, counter 103"),
        releases(0, Set(vec![0, 1]), "done"),
        takes(0, One(1), "granted 104"),
        releases(0, One(1), "done"),
        takes(0, Set(vec![1, 3]), "granted 105"),
        takes(0, One(0), "granted 104"),
        releases(0, One(0), "done"),
        releases(0, Set(vec![1, 3]), "done"),
        takes(0, set(), "granted 106"),
    ]);
}

#[test]
fn a_set_is_extended_where_all_of_its_keys_stand_and_keeps_others_out_of_all() {
    kept(&[
        takes(0, set(), "granted 101"),
        extends(0, set(), LONG, "done"),
        deletes(0),
        extends(0, set(), LONG, "gone"),
        held(0, "free"),
        held(3, "o0 for 60005 ms, counter 101"),
        releases(0, set(), "gone"),
        held(3, "free"),
        takes(0, set(), "granted 102"),
        sets(3, 1, Some(50_005)),
        extends(0, set(), LONG, "denied"),
        releases(0, set(), "denied"),
        held(0, "free"),
        held(3, "`theirs` for 50005 ms"),
        deletes(3),
        takes(0, set(), "granted 103"),
        keeps(0, set(), 20_005, "done"),
        takes(1, Set(vec![1, 4]), "0: o0 for 20005 ms"),
        held(3, "o0 for 20005 ms, counter 103"),
    ]);
}

/// The name 4 is that of a slot.
#[test]
fn each_slot_is_had_by_one_until_none_is_left_and_a_lock_at_its_name_has_it_too() {
    kept(&[
        picks(0, 0, 0, None, "granted 101 in slot 0"),
        takes(1, One(4), "granted 101"),
        picks(2, 0, 0, None, "granted 101 in slot 2"),
        picks(5, 0, 3, None, "granted 101 in slot 3"),
        takes(1, Slot(0, 2), "o2 for 60005 ms"),
        held(4, "o1 for 60005 ms, counter 101"),
        extends(2, Slot(0, 2), 100_005, "done"),
        keeps(1, One(4), 20_005, "done"),
        picks(1, 0, 2, None, "o1 for 20005 ms"),
        sets(4, 1, Some(10_005)),
        picks(1, 0, 2, None, "`theirs` for 10005 ms"),
        releases(2, Slot(0, 2), "done"),
        picks(1, 0, 0, None, "granted 102 in slot 2"),
    ]);
}

#[test]
fn each_slot_has_a_counter_of_its_own_that_rises() {
    kept(&[
        picks(0, 0, 1, None, "granted 101 in slot 1"),
        picks(1, 0, 1, None, "granted 101 in slot 2"),
        releases(0, Slot(0, 1), "done"),
        releases(1, Slot(0, 2), "done"),
        takes(0, One(4), "granted 102"),
        releases(0, One(4), "done"),
        picks(0, 0, 1, None, "granted 103 in slot 1"),
        picks(1, 0, 1, None, "granted 102 in slot 2"),
    ]);
}

#[test]
fn whoever_waits_for_any_slot_is_let_in_when_one_is_free_and_lets_the_next_one_in() {
    kept(&[
        picks(0, 0, 0, None, "granted 101 in slot 0"),
        picks(4, 0, 0, None, "granted 101 in slot 1"),
        picks(5, 0, 0, None, "granted 101 in slot 2"),
        picks(3, 0, 0, None, "granted 101 in slot 3"),
        picks(1, 0, 0, Some(2), "o0 for 60005 ms, 0 before"),
        picks(2, 0, 0, Some(1), "o0 for 60005 ms, 1 before"),
        releases(0, Slot(0, 0), "done; 1 hears Next of s0; 2 hears StandBy 1 of s0"),
        picks(0, 0, 0, None, "behind 1"),
        // No other one is free, so that the next is not let in yet.
        picks(1, 0, 0, Some(2), "granted 102 in slot 0; 1 hears Wanted of s0"),
        picks(0, 0, 0, Some(0), "o1 for 60005 ms, 1 before"),
        releases(4, Slot(0, 1), "done; 0 hears StandBy 2 of s0; 2 hears Next of s0"),
        releases(5, Slot(0, 2), "done; 0 hears StandBy 2 of s0; 2 hears Next of s0"),
        picks(2, 0, 0, Some(1), "granted 102 in slot 1; 0 hears Next of s0; 2 hears Wanted of s0"),
        picks(0, 0, 0, Some(0), "granted 102 in slot 2; 0 hears Alone of s0"),
    ]);
}

#[test]
fn the_first_sixteen_of_a_line_are_looked_at_for_one_who_hears() {
    for (deaf, says) in [(15, "done; 1 hears Next of a"), (16, "done")] {
        let mut rows = vec![takes(0, One(0), "granted 101")];
        let wait = || waits(5, One(0), 9, "");
        rows.extend((1..=deaf).map(|number| Taken { client: MANY - number, ..wait() }));
        rows.push(waits(1, One(0), 2, ""));
        rows.push(releases(0, One(0), says));
        kept(&rows);
    }
}

/// Even before a client whose pick is answered at once, because it knows the counters and hints above them.
#[test]
fn whoever_waits_for_a_slot_by_its_name_is_let_in_before_one_who_asks_for_any() {
    let knows = |first, says| {
        let mut pick = picks(2, 0, first, None, says);
        if let Step::Pick { hint, .. } = &mut pick.step {
            *hint = Near::Ahead(0);
        }
        pick
    };
    kept(&[
        takes(0, One(4), "granted 101"),
        waits(1, One(4), 2, "o0 for 60005 ms, 0 before"),
        knows(3, "granted 4102444800000000 in slot 3"),
        releases(0, One(4), "done; 1 hears Next of s0/1"),
        knows(1, "granted 4102444800000000 in slot 2"),
        picks(5, 0, 1, None, "granted 101 in slot 0"),
        picks(5, 0, 1, None, "behind 1"),
        waits(1, One(4), 2, "granted 102; 1 hears Alone of s0/1"),
    ]);
}

#[test]
fn a_semaphore_of_many_is_looked_through_at_once() {
    let mut rows: Vec<_> = (0..255).map(|owner| picks(owner % 6, 2, 0, None, "")).collect();
    rows.push(picks(0, 2, 0, None, "granted 101 in slot 255"));
    rows.push(picks(1, 2, 0, None, "o0 for 60005 ms"));
    kept(&rows);
}

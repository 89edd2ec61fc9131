//! Goal: who is let in beside whom, what a node keeps for readers, and which token they have, is what is written here.
//!
//! Method: tables, by both kinds of node.

use super::{
    super::steps::On::*, LONG, deletes, extends, held, keeps, kept, passes, releases, restores,
    sets, takes, takes_for, waits,
};

#[test]
fn readers_are_let_in_beside_each_other_and_no_writer_beside_them() {
    kept(&[
        takes(0, Shared(0), "granted 100"),
        held(0, "readers for 60005 ms"),
        takes(1, Shared(0), "granted 100"),
        takes(2, One(0), "readers for 60005 ms"),
        takes(2, Set(vec![0, 1]), "1: readers for 60005 ms"),
        releases(0, Shared(0), "done"),
        takes(2, One(0), "readers for 60005 ms"),
        releases(1, Shared(0), "done"),
        held(0, "free"),
        takes(2, One(0), "granted 101"),
        takes(0, Shared(0), "o2 for 60005 ms"),
        releases(2, One(0), "done"),
        takes(0, Shared(0), "granted 101"),
    ]);
}

#[test]
fn a_key_of_readers_outlives_all_of_them_and_no_more() {
    kept(&[
        takes_for(0, Shared(0), 20_005, "granted 100"),
        takes_for(1, Shared(0), 100_005, "granted 100"),
        held(0, "readers for 100005 ms"),
        releases(1, Shared(0), "done"),
        held(0, "readers for 20005 ms"),
        releases(0, Shared(0), "done"),
        takes_for(1, Shared(0), 100_005, "granted 100"),
        takes_for(0, Shared(0), 20_005, "granted 100"),
        releases(0, Shared(0), "done"),
        held(0, "readers for 100005 ms"),
        passes(100_020),
        held(0, "free"),
        extends(1, Shared(0), LONG, "gone"),
    ]);
}

#[test]
fn entries_are_void_once_their_key_is_gone_or_somebody_elses() {
    kept(&[
        takes(0, Shared(0), "granted 100"),
        extends(0, Shared(0), LONG, "done"),
        deletes(0),
        takes(1, One(0), "granted 101"),
        releases(1, One(0), "done"),
        takes(1, Shared(0), "granted 101"),
        extends(0, Shared(0), LONG, "gone"),
        extends(1, Shared(0), LONG, "done"),
        releases(0, Shared(0), "gone"),
        held(0, "readers for 60005 ms"),
        releases(1, Shared(0), "done"),
        held(0, "free"),
        takes(0, Shared(0), "granted 101"),
        sets(0, 1, Some(50_005)),
        extends(0, Shared(0), LONG, "denied"),
        releases(0, Shared(0), "denied"),
        held(0, "`theirs` for 50005 ms"),
    ]);
}

#[test]
fn entries_of_before_are_void_behind_a_restore_and_behind_one_who_reads_on() {
    kept(&[
        takes(0, Shared(0), "granted 100"),
        deletes(0),
        restores(1, Shared(0), "done"),
        extends(0, Shared(0), LONG, "gone"),
        releases(1, Shared(0), "done"),
        held(0, "free"),
        takes(0, Shared(0), "granted 100"),
        deletes(0),
        takes(1, One(0), "granted 101"),
        extends(1, Downgraded(0), LONG, "done"),
        extends(0, Shared(0), LONG, "gone"),
    ]);
}

#[test]
fn a_reader_has_the_number_of_the_writer_before_it() {
    kept(&[
        takes(1, One(0), "granted 101"),
        releases(1, One(0), "done"),
        takes(0, Shared(0), "granted 101"),
        takes(2, Shared(0), "granted 101"),
        releases(0, Shared(0), "done"),
        releases(2, Shared(0), "done"),
        takes(1, One(0), "granted 102"),
        releases(1, One(0), "done"),
        takes(0, Shared(0), "granted 102"),
    ]);
}

#[test]
fn a_writer_that_waits_is_not_overtaken_by_readers() {
    kept(&[
        takes(0, Shared(0), "granted 100"),
        waits(1, One(0), 2, "readers for 60005 ms, 0 before"),
        takes(2, Shared(0), "readers for 60005 ms; 1 hears KeepsOut -2 of a"),
        waits(2, Shared(0), 1, "readers for 60005 ms, 1 before; 1 hears KeepsOut -2 of a"),
        releases(0, Shared(0), "done; 1 hears Next of a; 2 hears StandBy 1 of a"),
        waits(2, Shared(0), 1, "behind 1, 1 before; 1 hears Next of a"),
        waits(1, One(0), 2, "granted 101; 1 hears Wanted of a"),
        waits(2, Shared(0), 1, "o1 for 60005 ms, 0 before"),
        releases(1, One(0), "done; 2 hears Next of a"),
        waits(2, Shared(0), 1, "granted 101"),
    ]);
}

#[test]
fn a_writer_that_goes_on_as_a_reader_is_one_of_them_and_entries_of_before_stay_void() {
    kept(&[
        takes(0, Shared(0), "granted 100"),
        deletes(0),
        takes(1, One(0), "granted 101"),
        extends(1, Downgraded(0), LONG, "done"),
        held(0, "readers for 60005 ms"),
        extends(0, Shared(0), LONG, "gone"),
        takes(2, Shared(0), "granted 101"),
        releases(1, Downgraded(0), "done"),
        held(0, "readers for 60005 ms"),
        takes(1, One(0), "readers for 60005 ms"),
        releases(2, Shared(0), "done"),
        held(0, "free"),
        takes(1, One(0), "granted 102"),
        // A release right after a downgrade that the node has not followed.
        releases(1, Downgraded(0), "done"),
        held(0, "free"),
        // A release that keeps others out does so for as long as it said.
        takes(1, One(0), "granted 103"),
        keeps(1, Downgraded(0), 50_005, "done"),
        held(0, "o1 for 50005 ms, counter 103"),
        takes(0, Shared(0), "o1 for 50005 ms"),
        deletes(0),
        takes(1, One(0), "granted 104"),
        extends(1, Downgraded(0), LONG, "done"),
        sets(0, 1, Some(50_005)),
        extends(1, Downgraded(0), LONG, "denied"),
        releases(1, Downgraded(0), "denied"),
        held(0, "`theirs` for 50005 ms"),
    ]);
}

/// Another program may have removed its end. Otherwise writers would wait for ever once its readers have crashed.
#[test]
fn a_key_of_readers_without_an_end_gets_one_from_whoever_wants_to_write() {
    for writes in [One(0), Set(vec![0])] {
        kept(&[
            sets(0, 5, None),
            held(0, "readers for ever"),
            takes(1, writes.clone(), "readers for 200000 ms"),
            passes(200_010),
            takes(1, writes, "granted 101"),
        ]);
    }
    // A reader keeps it for no less.
    kept(&[
        sets(0, 5, None),
        takes_for(0, Shared(0), 100_005, "granted 100"),
        passes(60_000),
        takes(1, One(0), "readers for 140000 ms"),
        releases(0, Shared(0), "done"),
        held(0, "free"),
    ]);
}

//! Goal: whose a key is, for how long, with which token, label and record, is what is written here, and a key of
//! another program is left alone.
//!
//! Method: tables, by both kinds of node.

use super::{
    super::steps::{Near, On::*, Step},
    LONG, acquires, adopts, deletes, done, extends, hands_back, held, in_both_modes, keeps, kept,
    passes, releases, row, sets, takes, takes_for,
};

#[test]
fn a_key_is_its_owners_until_that_gives_it_back() {
    in_both_modes(&[
        takes(0, One(0), "granted 101"),
        held(0, "o0 for 60005 ms, counter 101"),
        takes(1, One(0), "o0 for 60005 ms"),
        takes(1, One(1), "granted 101"),
        releases(1, One(0), "denied"),
        releases(0, One(0), "done"),
        held(0, "free"),
        releases(0, One(0), "gone"),
        takes(1, One(0), "granted 102"),
    ]);
}

#[test]
fn a_release_that_keeps_others_out_cuts_the_life_of_its_owners_key_and_of_no_other() {
    in_both_modes(&[
        takes(0, One(0), "granted 101"),
        keeps(0, One(0), 20_005, "done"),
        held(0, "o0 for 20005 ms, counter 101"),
        takes(1, One(0), "o0 for 20005 ms"),
        deletes(0),
        keeps(0, One(0), 20_005, "gone"),
        held(0, "free"),
        sets(0, 1, Some(50_005)),
        keeps(0, One(0), 20_005, "denied"),
        held(0, "`theirs` for 50005 ms"),
    ]);
}

#[test]
fn a_key_ends_in_time_and_the_release_after_it_leaves_the_next_holders() {
    in_both_modes(&[
        takes_for(0, One(0), 205, "granted 101"),
        passes(180),
        takes(1, One(0), "o0 for 25 ms"),
        passes(30),
        held(0, "free"),
        takes(1, One(0), "granted 102"),
        releases(0, One(0), "denied"),
        held(0, "o1 for 60005 ms, counter 102"),
        releases(1, One(0), "done"),
    ]);
}

#[test]
fn an_extension_gives_the_key_its_whole_life_again_and_never_makes_one_anew() {
    in_both_modes(&[
        takes_for(0, One(0), 30_005, "granted 101"),
        passes(15_000),
        extends(0, One(0), LONG, "done"),
        held(0, "o0 for 60005 ms, counter 101"),
        extends(0, One(0), 5_005, "done"),
        held(0, "o0 for 60005 ms, counter 101"),
        extends(1, One(0), LONG, "denied"),
        deletes(0),
        extends(0, One(0), LONG, "gone"),
        held(0, "free"),
        extends(0, One(0), LONG, "gone"),
        sets(0, 1, Some(25_005)),
        extends(0, One(0), LONG, "denied"),
        held(0, "`theirs` for 25005 ms"),
    ]);
}

#[test]
fn what_is_given_back_ends_when_it_would_have() {
    kept(&[
        takes_for(0, One(0), 30_005, "granted 101"),
        adopts(1, 0, LONG, "granted 102"),
        held(0, "o1 for 60005 ms, counter 102"),
        passes(5_000),
        hands_back(2, 0, "denied"),
        hands_back(1, 0, "done"),
        held(0, "o0 for 25005 ms"),
        // Once more, and by one who asks for less.
        adopts(1, 0, LONG, "granted 103"),
        hands_back(1, 0, "done"),
        adopts(2, 0, 10_005, "granted 104"),
        held(0, "o2 for 25005 ms, counter 104"),
        hands_back(2, 0, "done"),
        held(0, "o0 for 25005 ms"),
        adopts(1, 0, LONG, "granted 105"),
        passes(30_000),
        held(0, "o1 for 30005 ms, counter 105"),
        // It would have ended.
        hands_back(1, 0, "done"),
        held(0, "free"),
        hands_back(1, 0, "gone"),
        // Somebody has taken away its end.
        sets(0, 3, None),
        adopts(1, 0, LONG, "granted 106"),
        hands_back(1, 0, "done"),
        held(0, "o0 for 60005 ms"),
    ]);
}

/// A clock that went back prolongs a lease like this. Nodes were told of 200 s here.
#[test]
fn what_lives_for_longer_than_leases_do_is_cut_for_who_asks_for_less() {
    kept(&[
        takes_for(0, One(0), 250_005, "granted 101"),
        takes_for(1, One(0), 250_005, "o0 for 250005 ms"),
        held(0, "o0 for 250005 ms, counter 101"),
        takes(1, One(0), "o0 for 200000 ms"),
        held(0, "o0 for 200000 ms, counter 101"),
        sets(0, 1, Some(250_005)),
        takes(1, One(0), "`theirs` for 250005 ms"),
    ]);
    // Also where somebody had adopted it in vain.
    kept(&[
        takes_for(0, One(0), 250_005, "granted 101"),
        adopts(1, 0, LONG, "granted 102"),
        hands_back(1, 0, "done"),
        held(0, "o0 for 250005 ms"),
        takes(1, One(0), "o0 for 200000 ms"),
        held(0, "o0 for 200000 ms"),
    ]);
}

#[test]
fn a_value_that_begins_with_the_owner_is_somebody_elses() {
    for (value, says) in [
        (6, "o2 and 1 more for ever"),
        (8, "o2 and 1 more for ever"),
        (9, "o2 and 32 more for ever"),
    ] {
        in_both_modes(&[
            takes(2, One(0), "granted 101"),
            sets(0, value, None),
            extends(2, One(0), LONG, "denied"),
            releases(2, One(0), "denied"),
            held(0, says),
        ]);
    }
}

#[test]
fn what_others_have_set_is_theirs_under_any_name() {
    for name in 0..6 {
        in_both_modes(&[
            takes(0, One(name), "granted 101"),
            releases(0, One(name), "done"),
            sets(name, 1, Some(45_005)),
            takes(0, One(name), "`theirs` for 45005 ms"),
            held(name, "`theirs` for 45005 ms"),
            sets(name, 0, None),
            takes(0, One(name), "`` for ever"),
            held(name, "`` for ever"),
        ]);
    }
}

#[test]
fn tokens_rise_with_every_grant_and_outlive_the_lease() {
    let many = Step::Acquire {
        on: One(0),
        owner: 0,
        ttl: LONG,
        hint: Near::At(1),
        count: 64,
        note: None,
        place: None,
    };
    kept(&[
        takes(0, One(0), "granted 101"),
        extends(0, One(0), LONG, "done"),
        held(0, "o0 for 60005 ms, counter 101"),
        releases(0, One(0), "done"),
        takes(0, One(0), "granted 102"),
        passes(600_000),
        takes(1, One(0), "granted 103"),
        releases(1, One(0), "done"),
        row(0, many, "granted 167"),
        held(0, "o0 for 60005 ms, counter 167"),
        releases(0, One(0), "done"),
        takes(1, One(0), "granted 168"),
        takes(1, One(1), "granted 101"),
    ]);
}

fn labelled(on: u8, says: &'static str) -> super::Taken {
    let mut taken = acquires(0, One(on), LONG, None, says);
    if let Step::Acquire { note, .. } = &mut taken.step {
        *note = Some(0);
    }
    taken
}

#[test]
fn a_holder_is_called_by_its_label_whoever_asks_and_nobody_else_is() {
    kept(&[
        labelled(0, "granted 101"),
        held(0, r"o0 for 60005 ms, counter 101, host\x00 7\xff"),
        takes(1, One(0), r"o0 for 60005 ms, host\x00 7\xff"),
        takes(1, Set(vec![1, 0]), r"1: o0 for 60005 ms, host\x00 7\xff"),
        takes(1, Shared(0), r"o0 for 60005 ms, host\x00 7\xff"),
        sets(0, 1, Some(50_005)),
        held(0, "`theirs` for 50005 ms"),
        takes(1, One(0), "`theirs` for 50005 ms"),
        takes(1, Set(vec![1, 0]), "1: `theirs` for 50005 ms"),
        takes(1, Shared(0), "`theirs` for 50005 ms"),
        deletes(0),
        takes(1, One(0), "granted 102"),
        takes(0, One(0), "o1 for 60005 ms"),
    ]);
}

fn proclaims(owner: u8, record: u8, says: &'static str) -> super::Taken {
    row(owner, Step::Proclaim { on: One(0), owner, record, note: true }, says)
}

#[test]
fn a_leader_is_told_with_its_last_text_and_its_label_while_the_key_is_its_own() {
    let restore = Step::Restore { on: One(0), owner: 0, ttl: LONG, note: Some(0) };
    kept(&[
        labelled(0, "granted 101"),
        proclaims(0, 0, "done"),
        held(0, r"o0 for 60005 ms, counter 101, host\x00 7\xff, leads 101 with 0, 0 bytes"),
        proclaims(0, 2, "done"),
        held(0, r"o0 for 60005 ms, counter 101, host\x00 7\xff, leads 101 with 2, 600 bytes"),
        takes(1, One(0), r"o0 for 60005 ms, host\x00 7\xff"),
        proclaims(0, 0, "denied"),
        proclaims(1, 2, "denied"),
        sets(0, 1, Some(LONG)),
        proclaims(0, 2, "denied"),
        held(0, "`theirs` for 60005 ms"),
        // Its earlier record stands beside it again.
        sets(0, 3, Some(LONG)),
        held(0, r"o0 for 60005 ms, counter 101, host\x00 7\xff, leads 101 with 2, 600 bytes"),
        // So it does beside a restored key, which this node has not granted anew.
        deletes(0),
        row(0, restore, "done"),
        held(0, r"o0 for 60005 ms, counter 101, host\x00 7\xff, leads 101 with 2, 600 bytes"),
        releases(0, One(0), "done"),
        held(0, "free"),
        proclaims(0, 2, "denied"),
        takes(1, One(0), "granted 102"),
        held(0, "o1 for 60005 ms, counter 102"),
    ]);
}

#[test]
fn what_is_done_stands_until_its_time_is_over_and_what_reaches_further_replaces_it() {
    kept(&[
        done(0, None, "nothing"),
        done(0, Some((3, 0, 5_000)), "5000 ms"),
        done(0, None, "5000 ms"),
        // Of the same moment, and of an earlier one.
        done(0, Some((3, 1, 9_000)), "5000 ms"),
        done(0, Some((2, 1, 9_000)), "5000 ms"),
        passes(1_000),
        done(0, None, "4000 ms"),
        done(1, None, "nothing"),
        // It is no lock.
        takes(0, One(0), "granted 101"),
        done(0, Some((4, 1, 7_000)), "7000 ms"),
        passes(6_999),
        done(0, None, "1 ms"),
        passes(1),
        done(0, None, "nothing"),
        done(0, Some((1, 1, 0)), "1 ms"),
    ]);
}

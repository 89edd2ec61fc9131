//! Goal: what once differed does not differ again. Each test plays the steps that showed it, and was red then.

use std::time::Duration;

use super::{
    play,
    steps::{CLASSIC, Near, On, Place, Step, Taken},
};

/// A lease of this ttl stands until something ends it.
const LONG: u64 = 100_005;

const END: u64 = 1 << 53;

#[track_caller]
fn alike(steps: impl IntoIterator<Item = (usize, Step)>) {
    let steps: Vec<Taken> =
        steps.into_iter().map(|(client, step)| Taken { client, step, says: "" }).collect();
    if let Err((at, difference)) = play(&steps) {
        panic!("step {at}, {:?}: {difference}", steps[at]);
    }
}

/// The counters go on from here.
fn from(above: Near) -> (usize, Step) {
    (0, Step::Admit { above, wall: false, stale: false })
}

/// The node loses its vote, and with `lost` its data too.
fn joins_again(lost: bool) -> (usize, Step) {
    let (max_ttl, force, all) = (200_005, true, true);
    let (orphaned, seal, after, waited) = (false, false, false, None);
    (0, Step::Join { max_ttl, force, lost, orphaned, seal, after, waited, all })
}

/// By the client with the owner's number.
fn acquires(client: u8, on: On, count: u64, hint: Near, place: Option<Place>) -> (usize, Step) {
    let step = Step::Acquire { on, owner: client, ttl: LONG, hint, count, note: None, place };
    (client.into(), step)
}

fn picks(client: u8, first: u8, hint: Near, place: Option<Place>) -> (usize, Step) {
    let (semaphore, owner, ttl) = (0, client, LONG);
    (client.into(), Step::Pick { semaphore, first, owner, ttl, hint, note: None, place })
}

fn picks_of(semaphore: u8, client: u8, place: Option<Place>) -> (usize, Step) {
    let (owner, ttl, hint) = (client, LONG, NOW);
    (client.into(), Step::Pick { semaphore, first: 0, owner, ttl, hint, note: None, place })
}

/// A waiter that came so long ago.
fn since(us: u64) -> Option<Place> {
    Some(Place { since: Some(us), skip: None })
}

/// A client with a name that does not wait.
const ASKS: Option<Place> = Some(Place { since: None, skip: None });

const NOW: Near = Near::Ahead(0);

#[test]
fn a_key_of_others_is_not_gone_because_it_is_empty() {
    let all = [On::One(0), On::Set(vec![0, 1]), On::Shared(0), On::Downgraded(0)];
    for on in all {
        let release = |keep| Step::Release { on: on.clone(), owner: 0, keep };
        let extend = Step::Extend { on: on.clone(), owner: 0, ttl: LONG };
        alike([
            from(NOW),
            acquires(0, on.clone(), 1, NOW, None),
            (0, Step::Set { on: 0, value: 0, ttl: Some(LONG) }),
            (0, extend),
            (0, Step::Restore { on: on.clone(), owner: 0, ttl: LONG, note: None }),
            (0, release(Some(1_005))),
            (0, release(None)),
            (0, Step::Holder { on: 0, fenced: true }),
        ]);
    }
}

#[test]
fn who_is_refused_at_the_end_of_the_counters_is_no_holder_and_stands_where_it_stood() {
    let floor = from(Near::At(END - 3));
    let held = Step::Set { on: 0, value: 1, ttl: Some(1_005) };
    // A client that has nothing is not told that others come.
    alike([
        floor.clone(),
        acquires(0, On::One(0), 1 << 40, NOW, since(2)),
        (0, held.clone()),
        acquires(1, On::One(0), 1, NOW, since(1)),
    ]);
    // A client that waited is still first.
    alike([
        floor.clone(),
        (0, held),
        acquires(0, On::One(0), 1, NOW, since(2)),
        (0, Step::Del { on: 0 }),
        acquires(0, On::One(0), 1 << 40, NOW, since(2)),
        acquires(1, On::One(0), 1, NOW, ASKS),
        acquires(0, On::One(0), 1, NOW, since(2)),
    ]);
    // The same for a slot, which has a line of its own: all are taken, and one of them ends.
    let taken = (0..4).map(|slot| acquires(slot.min(3), On::Slot(0, slot), 1, NOW, None));
    let waits = picks(0, 0, NOW, since(2));
    let end = [
        (0, Step::Release { on: On::Slot(0, 3), owner: 3, keep: None }),
        waits.clone(),
        picks(1, 0, NOW, ASKS),
    ];
    alike([floor].into_iter().chain(taken).chain([waits]).chain(end));
}

#[test]
fn a_hint_too_far_ahead_is_cut_although_other_counters_are_ahead_of_it() {
    let ahead = from(Near::Ahead(600_000_000));
    let counted = acquires(0, On::One(1), 1_000, NOW, None);
    for on in [On::One(0), On::Set(vec![0, 2]), On::Shared(0)] {
        alike([ahead.clone(), counted.clone(), acquires(0, on, 1, Near::Last(-500), None)]);
    }
    alike([ahead, counted, picks(0, 0, Near::Last(-500), None)]);
}

#[test]
fn a_node_that_joins_again_goes_on_with_what_it_has_not_lost() {
    let floor = from(Near::Ahead(5_000_000));
    for lost in [false, true] {
        let again = joins_again(lost);
        let (client, read) = acquires(1, On::Shared(1), 1, NOW, None);
        alike([
            from(NOW),
            acquires(0, On::One(0), 1, NOW, None),
            (client, read.clone()),
            again,
            floor.clone(),
            (0, Step::Confirm { on: On::One(0), owner: 0, token: Near::Ahead(9_000_000) }),
            (0, Step::Holder { on: 0, fenced: true }),
            (2, read),
            (0, Step::Proclaim { on: On::One(0), owner: 0, record: 1, note: true }),
            (0, Step::Release { on: On::One(0), owner: 0, keep: None }),
            acquires(3, On::One(0), 1, Near::At(0), None),
            acquires(3, On::Set(vec![2, 3]), 1, Near::At(0), None),
        ]);
    }
}

#[test]
fn readers_have_no_key_without_an_end_whoever_has_taken_that_and_whichever_command_finds_it() {
    let endless = Step::Set { on: 0, value: 5, ttl: None };
    let release = |keep| Step::Release { on: On::Shared(0), owner: 0, keep };
    let extend = Step::Extend { on: On::Shared(0), owner: 0, ttl: 1_005 };
    // The second ttl is longer than the node knows that leases are.
    for ttl in [1_005, 250_005] {
        let restore = Step::Restore { on: On::Shared(0), owner: 0, ttl, note: None };
        alike([from(NOW), (0, endless.clone()), (0, restore)]);
    }
    let read = [acquires(0, On::Shared(0), 1, NOW, None), acquires(1, On::Shared(0), 1, NOW, None)];
    for step in [extend, release(None), release(Some(1_005))] {
        let read = read.clone();
        alike([from(NOW)].into_iter().chain(read).chain([(0, endless.clone()), (0, step)]));
    }
}

#[test]
fn whoever_waits_for_a_slot_with_a_later_ticket_stands_where_that_says() {
    alike([
        from(NOW),
        picks_of(1, 0, None),
        picks_of(1, 2, since(5_000_000)),
        picks_of(1, 3, since(5_000_000)),
        picks_of(1, 2, since(2)),
        picks_of(1, 3, since(5_000_000)),
    ]);
}

/// A holder of several tokens whose key is gone holds nothing from the next grant on, even if that is a reader's
/// without a line.
#[test]
fn whoever_held_several_tokens_hears_of_nobody_once_a_reader_has_it() {
    alike([
        from(NOW),
        acquires(0, On::One(0), 7, NOW, ASKS),
        (0, Step::Del { on: 0 }),
        acquires(1, On::Shared(0), 1, NOW, None),
        acquires(2, On::One(0), 1, NOW, since(1)),
    ]);
}

/// A client that asks for it is told the end of the longest lease that there can be.
#[test]
fn what_a_clock_that_went_back_prolongs_is_cut_also_where_the_node_has_joined_again_since() {
    let back = Step::SetBack(Duration::from_hours(1));
    let later = Step::Pass(Duration::from_millis(200_010));
    let slots: Vec<_> = (0..4).map(|owner| picks(owner, 0, NOW, None)).collect();
    let ways = [
        vec![acquires(0, On::One(0), 1, NOW, None)],
        vec![acquires(0, On::Set(vec![0, 1]), 1, NOW, None)],
        vec![acquires(0, On::Shared(0), 1, NOW, None)],
        slots,
    ];
    for held in ways {
        for joins in [vec![], vec![joins_again(false)], vec![joins_again(true), joins_again(false)]]
        {
            let mut steps = vec![from(NOW)];
            steps.extend(held.clone());
            steps.push((0, back.clone()));
            for join in &joins {
                steps.extend([join.clone(), from(NOW)]);
            }
            for asks in [
                acquires(1, On::Set(vec![0, 1]), 1, NOW, None),
                acquires(1, On::Shared(0), 1, NOW, None),
                picks(1, 0, NOW, None),
            ] {
                alike(steps.iter().cloned().chain([asks.clone(), (0, later.clone()), asks]));
            }
        }
    }
}

/// Other clients may have told the node how long leases are.
#[test]
fn an_extension_in_classic_mode_gives_a_key_without_an_end_the_end_that_it_asks_for() {
    let set = Step::Set { on: 0, value: 4, ttl: None };
    alike([(CLASSIC, set), (CLASSIC, Step::Extend { on: On::One(0), owner: 1, ttl: 1_005 })]);
}

/// The next holder of several tokens has a line of its own, which lives no longer than its own lease and four seconds.
#[test]
fn a_line_that_is_empty_for_a_moment_begins_anew() {
    let (client, held) = acquires(1, On::One(0), 7, NOW, ASKS);
    let Step::Acquire { on, owner, hint, count, note, place, .. } = held else { unreachable!() };
    let shortly = Step::Acquire { on, owner, ttl: 1_005, hint, count, note, place };
    alike([
        from(NOW),
        acquires(0, On::One(0), 7, NOW, ASKS),
        (0, Step::Del { on: 0 }),
        (client, shortly),
        (client, Step::Extend { on: On::One(0), owner: 1, ttl: LONG }),
        (0, Step::Pass(Duration::from_millis(10_020))),
        // So nobody is told of this one.
        acquires(2, On::One(0), 1, NOW, since(1)),
    ]);
}

/// The owner picked one slot here, won another one, and restored that.
#[test]
fn a_release_of_two_slots_of_one_owner_wakes_their_line_once() {
    let restore = Step::Restore { on: On::Slot(0, 0), owner: 3, ttl: LONG, note: None };
    alike([
        from(NOW),
        picks(3, 2, NOW, None),
        (3, restore),
        picks(0, 1, NOW, None),
        picks(1, 3, NOW, None),
        picks(2, 0, NOW, since(2)),
        (3, Step::Release { on: On::AnyOf(0), owner: 3, keep: None }),
    ]);
}

#[test]
fn of_slots_that_end_at_once_the_first_in_the_order_of_the_client_is_told() {
    let taken = (0..4).map(|slot| acquires(slot.min(2), On::Slot(0, slot), 1, NOW, None));
    for first in 0..4 {
        alike([from(NOW)].into_iter().chain(taken.clone()).chain([picks(3, first, NOW, ASKS)]));
    }
}

#[test]
fn whoever_leaves_a_line_wakes_nobody_where_the_value_of_another_program_begins_as_that_of_readers()
{
    alike([
        from(NOW),
        (0, Step::Set { on: 0, value: 7, ttl: None }),
        acquires(0, On::One(0), 1, NOW, since(2)),
        acquires(1, On::One(0), 1, NOW, since(1)),
        acquires(2, On::One(0), 1, NOW, since(0)),
        (0, Step::Leave { line: 0, of_slots: false, name: 0, since: 2 }),
    ]);
}

/// A deaf client waited to write and to read with one ticket: the next is woken once for each place that it left.
#[test]
fn whoever_leaves_two_places_of_which_one_is_gone_by_then_wakes_the_next_once() {
    let deaf = |on| acquires(3, on, 1, NOW, since(2));
    alike([
        from(NOW),
        acquires(0, On::One(0), 1, NOW, None),
        deaf(On::One(0)),
        deaf(On::Shared(0)),
        acquires(1, On::One(0), 1, NOW, since(1)),
        acquires(2, On::One(0), 1, NOW, since(0)),
        (0, Step::Del { on: 0 }),
        (0, Step::Leave { line: 0, of_slots: false, name: 3, since: 2 }),
    ]);
}

/// The holder of several tokens stands before the waiters that are looked at, and counts as one of them.
#[test]
fn as_many_are_looked_at_whether_a_holder_stands_before_them_or_not() {
    let deaf =
        (8..23).map(|client| acquires(client, On::One(0), 1, NOW, since(100 - u64::from(client))));
    alike(
        [from(NOW), acquires(0, On::One(0), 7, NOW, ASKS)]
            .into_iter()
            .chain(deaf)
            .chain([acquires(1, On::One(0), 1, NOW, since(1))])
            .chain([(0, Step::Release { on: On::One(0), owner: 0, keep: None })]),
    );
}

/// Readers hold one key and a writer the other, for as long: the first by name is in the way.
#[test]
fn of_a_set_whose_keys_end_at_once_the_same_one_is_in_the_way_whoever_has_it() {
    let asks = acquires(3, On::Shared(2), 1, NOW, None);
    for (written, read) in [(0, 1), (1, 0)] {
        alike([
            from(NOW),
            acquires(0, On::Shared(read), 1, NOW, None),
            (0, Step::Extend { on: On::Shared(read), owner: 0, ttl: LONG }),
            acquires(1, On::One(written), 1, NOW, None),
            acquires(2, On::Set(vec![0, 1, 2]), 1, NOW, since(1)),
            (1, Step::Release { on: On::One(written), owner: 1, keep: None }),
            asks.clone(),
        ]);
    }
}

/// The ttl is longer than the node knows that leases are.
#[test]
fn a_key_of_readers_is_not_cut_for_one_who_asks_for_as_long() {
    let long = |client, on| {
        let (hint, count, note, place) = (NOW, 1, None, None);
        (client, Step::Acquire { on, owner: 0, ttl: 250_005, hint, count, note, place })
    };
    alike([from(NOW), long(0, On::Shared(0)), long(1, On::One(0)), long(1, On::Set(vec![0, 1]))]);
}

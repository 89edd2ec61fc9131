//! What a client has the nodes do: rounds and what undoes them, extensions and restores. Each test ends with nothing under way,
//! nothing to be sent, and no timers but those of leases.

use std::time::Duration;

use quorlock_core::{
    Cause, Command, Denial, End, Event, ExtendOutcome, Failure, FencingToken, GiveUp, Granted,
    Lane, Owner, Reply, RoundLoss, Sending, Slots, Target, Transmit,
};

use super::{
    Decided, Held, MS, TTL, asks,
    driven::{Answered, COUNTED, GRANTED, LATE, Mine, denied, moment, won},
    first_due, for_ms, gives_back, held, next_asker, one, runs, stands, told,
    turns::turns_out,
    waits,
};

pub(super) type Named = (&'static str, usize, Option<Owner>);

pub(super) fn gone() -> Answered {
    Ok(Reply::Denied(Denial::gone()))
}

/// All that is open is answered, and time goes by until nothing is to be sent again. Nothing is left but so many leases.
pub(super) fn ends(client: &mut Mine, from: u64, leases: usize) {
    for ms in (from..from + 9_000).step_by(50) {
        client.handle_timeout(&moment(ms));
        client.settles(ms);
        runs(client, ms);
    }
    assert!(!client.has_unconfirmed());
    assert_eq!((client.under_way(), client.poll_transmit()), (0, None));
    assert_eq!((client.timers(), client.held_count()), (leases, leases));
    assert_eq!([Lane::Acquires, Lane::Releases].map(|lane| client.crowd(lane)), [0, 0]);
    // Nothing is known of where keys may stand but for the grants in use.
    let all = format!("{:?}", &**client);
    assert_eq!(all.matches("Traced {").count(), all.matches("Grant {").count());
}

pub(super) fn on(name: &'static str, nodes: &[usize], of: Owner) -> Vec<Named> {
    nodes.iter().map(|node| (name, *node, Some(of))).collect()
}

#[test]
fn a_lost_round_is_undone_before_the_next_leader_asks() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, for_ms("leader", 20), 1);
    let next = stands(&mut client, queue, waits("next"));
    let round = leader.begins(&mut client, 1);
    client.takes();
    // One has granted it, and one has not answered.
    round.is_told(&mut client, &[(0, COUNTED)], 2);
    round.is_told(&mut client, &[(1, Err(Failure::NOT_SENT))], 2);
    let failed = Err(Failure::new(true, Cause::Broken));
    let lost = round.is_told(&mut client, &[(2, failed)], 30).unwrap();
    assert_eq!(lost.loss, RoundLoss::NoQuorum);
    let events = runs(&mut client, 30);
    assert_eq!(told(&events), [("leader", GiveUp::LastRound)]);
    // It goes on with the pause of the one before.
    let due = first_due(&client).unwrap().max(30);
    client.handle_timeout(&moment(due));
    let next = next_asker(&mut client, queue, next, due);
    let second = next.begins(&mut client, due);
    let undone = on("release", &[0, 2], round.owner);
    let asked = on("acquire", &[0, 1, 2], second.owner);
    assert_eq!(client.takes_named(), [undone, asked].concat());
    let (id, _) = second.wins(&mut client, COUNTED, due);
    gives_back(&mut client, id, End::GivenBack(0), due);
    ends(&mut client, due, 0);
}

/// The release waits for a turn, behind 64 that are under way: without it the acquire would be denied by its own process.
#[test]
fn a_caller_that_leaves_while_its_round_is_under_way_has_its_keys_released_and_the_next_one_asks() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let round = leader.begins(&mut client, 1);
    let next = stands(&mut client, queue, waits("next"));
    round.is_told(&mut client, &[(0, COUNTED)], 2);
    client.takes();
    assert_eq!(client.leave(queue, leader.place).map(|ask| ask.name), Some("leader"));
    assert!(client.leave(queue, leader.place).is_none(), "once");
    let next = next_asker(&mut client, queue, next, 2);
    let second = next.begins(&mut client, 2);
    let undone = on("release", &[0, 1, 2], round.owner);
    let asked = on("acquire", &[0, 1, 2], second.owner);
    assert_eq!(client.takes_named(), [undone, asked].concat());
    // Whatever the others say by then, nobody has won it.
    round.is_told(&mut client, &[(1, COUNTED), (2, denied())], 3);
    assert!(runs(&mut client, 3).is_empty());
    assert_eq!(client.takes_named(), on("release", &[1], round.owner));
    let (id, _) = second.wins(&mut client, COUNTED, 3);
    gives_back(&mut client, id, End::GivenBack(0), 3);
    ends(&mut client, 3, 0);
}

#[test]
fn a_late_grant_behind_a_lost_round_is_released() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let asker = asks(&mut client, queue, waits("r"), 1);
    let round = asker.begins(&mut client, 1);
    client.takes();
    let lost = round.is_told(&mut client, &[(0, denied()), (1, denied())], 2).unwrap();
    assert_eq!(lost.loss, RoundLoss::Contended);
    assert_eq!(client.takes_named(), on("release", &[2], round.owner), "right behind the acquire");
    // As where the node had to be sent the script first: the release comes before what it undoes.
    client.answer(("release", round.owner), &[(2, gone())], &moment(3));
    round.is_told(&mut client, &[(2, COUNTED)], 3);
    assert_eq!(client.takes_named(), on("release", &[2], round.owner));
    assert!(client.leave(queue, asker.place).is_some());
    ends(&mut client, 4, 0);
}

#[test]
fn a_round_that_is_heard_out_is_undone_before_the_next_one_of_the_same_request() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let asker = asks(&mut client, queue, waits("r"), 0);
    let place = asker.place;
    let in_line = || Denial::new(Some(b"other".as_slice().into()), Some(TTL)).in_line(9, Some(0));
    let denials = [0, 2].map(|node| (node, Ok(Reply::Denied(in_line()))));
    let first = asker.begins(&mut client, 0);
    first.is_told(&mut client, &denials, 0).unwrap();
    // The next one only takes its place in the line.
    let second = next_asker(&mut client, queue, place, 0).begins(&mut client, 0);
    let asked = |round: super::driven::Round| on("acquire", &[0, 1, 2], round.owner);
    assert_eq!(client.takes_named(), [asked(first), asked(second)].concat(), "neither is undone");
    let next = second.is_told(&mut client, &denials, 0).unwrap().in_line.unwrap();
    runs(&mut client, 0);
    assert_eq!(client.takes_named(), []);
    let due = u64::try_from(next.saturating_since(super::super::at(0)).as_millis()).unwrap() + 1;
    client.handle_timeout(&moment(due));
    let third = next_asker(&mut client, queue, place, due).begins(&mut client, due);
    let undone = [first, second].map(|round| on("release", &[1], round.owner)).concat();
    assert_eq!(client.takes_named(), [undone, asked(third)].concat());
    // An acquire that is answered by then needs no release.
    assert!(third.is_told(&mut client, &denials, due).is_some());
    third.is_told(&mut client, &[(1, denied())], due);
    assert_eq!(client.takes_named(), []);
    assert!(client.leave(queue, place).is_some());
    ends(&mut client, due, 0);
}

#[test]
fn a_key_that_a_node_has_lost_is_restored_once_a_quorum_has_confirmed_and_all_have_answered() {
    for confirmed_first in [false, true] {
        let Held { mut client, id, .. } = held(Duration::ZERO);
        let of = client.keys(id).unwrap().1;
        client.extend(id, &moment(5));
        let (first, last) = if confirmed_first { (1, 0) } else { (0, 1) };
        let says = |node| (node, if node == 0 { gone() } else { GRANTED });
        client.answer(("extend", of), &[says(first)], &moment(6));
        client.answer(("extend", of), &[says(2)], &moment(6));
        client.takes();
        let outcome = ExtendOutcome::Extended(super::super::at(5).saturating_add(9_898 * MS));
        let is_extended =
            |it: &Decided| matches!(it, Event::Extended { outcome: it, .. } if *it == outcome);
        let events = runs(&mut client, 6);
        assert_eq!(events.iter().any(is_extended), confirmed_first);
        assert_eq!(client.takes_named(), [], "one has not answered");
        let mut other = client.clone();
        client.answer(("extend", of), &[says(last)], &moment(7));
        assert_eq!(client.takes_named(), on("restore", &[0], of));
        // What lands after the end is released.
        let mut ended = client.clone();
        client.answer(("restore", of), &[(0, GRANTED)], &moment(8));
        gives_back(&mut client, id, End::GivenBack(0), 8);
        assert_eq!(client.takes_named(), on("release", &[0, 1, 2], of));
        ends(&mut client, 8, 0);
        gives_back(&mut ended, id, End::GivenBack(0), 8);
        assert_eq!(ended.takes_named(), on("release", &[0, 1, 2], of));
        ended.answer(("restore", of), &[(0, GRANTED)], &moment(9));
        assert_eq!(ended.takes_named(), on("release", &[0], of));
        ends(&mut ended, 9, 0);
        // Where no quorum confirms it, nothing is set.
        if !confirmed_first {
            other.answer(("extend", of), &[(1, LATE)], &moment(7));
            assert_eq!(other.takes_named(), []);
            ends(&mut other, 8, 1);
        }
    }
}

/// What a node is sent of a slot.
fn slots(sent: &[Transmit]) -> Vec<(&'static str, usize, Target)> {
    let of_slot = |transmit: &Transmit| match &transmit.sending {
        Sending::One(Command::Release { target, .. }) => ("release", target.clone()),
        Sending::One(Command::Restore { target, .. }) => ("restore", target.clone()),
        other => panic!("{other:?}"),
    };
    sent.iter().map(|it| (of_slot(it), it.node.index())).map(|((a, t), n)| (a, n, t)).collect()
}

#[test]
fn a_permit_that_a_node_picked_elsewhere_is_released_there_and_filled_in() {
    let all = Slots::new(b"", "s", 3).unwrap();
    let slot = |number| Target::Slot(all.slot(number).unwrap());
    let picks = |number: u8| Ok(Reply::Granted(Granted::at(FencingToken::new(1)).in_slot(number)));
    for late in [false, true] {
        let mut client = Mine::new();
        let queue = client.open_queue(&Target::AnyOf(all.clone()));
        let round = asks(&mut client, queue, waits("permit"), 1).begins(&mut client, 1);
        client.takes();
        let (mut first, last) = (vec![(0, picks(0))], (1, picks(0)));
        if late {
            first.push(last.clone())
        } else {
            first.push((2, picks(1)))
        }
        assert!(round.is_told(&mut client, &first, 2).is_none());
        let last = if late { (2, picks(1)) } else { last };
        assert!(round.is_told(&mut client, &[last], 3).is_none());
        let (id, _) = won(runs(&mut client, 3));
        assert_eq!(client.keys(id).unwrap().0, &slot(0));
        let sent = client.takes();
        assert_eq!(slots(&sent), [("release", 2, slot(1)), ("restore", 2, slot(0))]);
        client.settles(4);
        gives_back(&mut client, id, End::GivenBack(0), 5);
        let released: Vec<_> = (0..3).map(|node| ("release", node, slot(0))).collect();
        assert_eq!(slots(&client.takes()), released, "as on the others");
        ends(&mut client, 5, 0);
    }
}

#[test]
fn closing_refuses_a_round_that_was_about_to_begin_and_gives_its_turn_back() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let asker = asks(&mut client, queue, waits("r"), 1);
    client.close();
    assert!(runs(&mut client, 1).is_empty(), "it has its turn");
    asker.begins(&mut client, 1);
    assert_eq!(told(&runs(&mut client, 1)), [("r", GiveUp::Closed)]);
    assert_eq!(client.takes_named(), []);
    assert_eq!(turns_out(&client), 0);
    ends(&mut client, 2, 0);
}

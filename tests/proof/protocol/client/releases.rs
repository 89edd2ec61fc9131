//! Releases: what goes out before what, and what is sent again until each node has confirmed it. Each test ends with nothing
//! under way, nothing to be sent, and no timers.

use std::time::Duration;

use quorlock_core::{
    End, Event, Failure, FencingToken, Granted, Lane, Owner, Reply, Slots, Target,
};

use super::{
    Decided, Held, asks,
    driven::{COUNTED, GRANTED, LATE, Mine, Round, denied, moment, node, won},
    gives_back, held, one,
    rounds::{ends, on},
    runs, waits,
};

#[test]
fn a_release_goes_out_before_an_acquire_of_the_same_process_for_the_same_resource() {
    let mut client = Mine::new();
    let name = |number: usize| one(&format!("r{number}"));
    let grants: Vec<_> = (0..66)
        .map(|number| {
            let queue = client.open_queue(&name(number));
            asks(&mut client, queue, waits("holds"), 0).wins(&mut client, 0).0
        })
        .collect();
    grants.iter().for_each(|id| {
        gives_back(&mut client, *id, End::GivenBack(0), 1);
    });
    assert_eq!(client.takes_nodes("release", client.keys(grants[64]).unwrap().1), []);
    assert_eq!(client.crowd(Lane::Releases), 2);
    // Of the last one, which is not the first to wait.
    let queue = client.open_queue(&name(65));
    let asker = asks(&mut client, queue, waits("again"), 2);
    let round = asker.begins(&mut client, 2);
    let before = client.keys(grants[65]).unwrap().1;
    let released = on("release", &[0, 1, 2], before);
    let asked = on("acquire", &[0, 1, 2], round.owner);
    assert_eq!(client.takes_named(), [released, asked].concat());
    assert_eq!(client.crowd(Lane::Releases), 1, "the other one waits on");
    let (id, _) = round.wins(&mut client, COUNTED, 2);
    client.settles(3);
    let events = runs(&mut client, 3);
    let released =
        |event: &&Decided| matches!(event, Event::Released(_, it) if it.result == Ok(()));
    assert_eq!(events.iter().filter(released).count(), 66);
    gives_back(&mut client, id, End::GivenBack(0), 3);
    ends(&mut client, 4, 0);
}

#[test]
fn a_release_that_is_not_confirmed_is_sent_again_until_it_is() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let of = client.keys(id).unwrap().1;
    gives_back(&mut client, id, End::GivenBack(0), 10);
    assert_eq!(client.takes_named(), on("release", &[0, 1, 2], of));
    client.answer(("release", of), &[(0, GRANTED), (1, GRANTED), (2, LATE)], &moment(10));
    let events = runs(&mut client, 10);
    let is_queued = |it: &Decided| matches!(it, Event::ReleaseQueued(at, _, owner) if (*at, *owner) == (node(2), of));
    let is_released = |it: &Decided| matches!(it, Event::Released("given back", it) if it.result == Ok(()) && it.released.len() == 2);
    assert!(events.iter().any(is_queued) && events.iter().any(is_released), "{events:?}");
    assert_eq!((client.unconfirmed(node(2)), client.under_way()), (1, 1));
    // The pauses double.
    let mut ms = 10;
    for pause in [20, 20, 40, 80] {
        client.handle_timeout(&moment(ms + pause - 3));
        assert_eq!(client.takes_named(), [], "no sooner");
        ms += pause;
        client.handle_timeout(&moment(ms));
        assert_eq!(client.takes_named(), on("release", &[2], of), "at {ms}");
        assert!(client.has_unconfirmed());
        client.answer(("release", of), &[(2, LATE)], &moment(ms));
    }
    client.handle_timeout(&moment(1_000));
    client.answer(("release", of), &[(2, GRANTED)], &moment(1_000));
    assert!(!client.has_unconfirmed() && client.under_way() == 0);
    assert_eq!(client.unconfirmed(node(2)), 0);
    client.takes();
    ends(&mut client, 1_000, 0);
}

/// A release that its third node has not confirmed.
fn unconfirmed() -> (Mine, Owner) {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let of = client.keys(id).unwrap().1;
    gives_back(&mut client, id, End::GivenBack(0), 10);
    client.answer(("release", of), &[(0, GRANTED), (1, GRANTED), (2, LATE)], &moment(10));
    runs(&mut client, 10);
    client.takes();
    (client, of)
}

#[test]
fn where_a_node_has_changed_what_it_has_not_confirmed_is_sent_at_once() {
    let (mut client, of) = unconfirmed();
    client.handle_change(&moment(11));
    assert_eq!(client.takes_named(), on("release", &[2], of), "before its pause is over");
    client.handle_change(&moment(12));
    assert_eq!(client.takes_named(), [], "it is under way");
    client.answer(("release", of), &[(2, GRANTED)], &moment(12));
    ends(&mut client, 13, 0);
}

#[test]
fn a_release_that_is_never_confirmed_is_given_up_a_minute_behind_its_key() {
    let (mut client, of) = unconfirmed();
    let is_given_up = |it: &Decided| matches!(it, Event::ReleaseGivenUp(at, target, owner) if (*at, &**target, *owner) == (node(2), &one("r"), of));
    let mut given_up = None;
    for ms in (11..100_000).step_by(50) {
        client.handle_timeout(&moment(ms));
        let again = client.takes_nodes("release", of);
        again
            .iter()
            .for_each(|on| drop(client.answer(("release", of), &[(*on, LATE)], &moment(ms))));
        if runs(&mut client, ms).iter().any(is_given_up) {
            assert_eq!(given_up.replace(ms), None, "once");
        }
    }
    let given_up = given_up.unwrap();
    assert!((70_010..70_600).contains(&given_up), "at {given_up}");
    ends(&mut client, 100_000, 0);
}

/// A lease that is released before its third node has answered the acquire.
fn released_early() -> (Mine, Round) {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let round = asks(&mut client, queue, waits("r"), 1).begins(&mut client, 1);
    round.is_told(&mut client, &[(0, COUNTED), (1, COUNTED)], 2);
    let (id, _) = won(runs(&mut client, 2));
    client.takes();
    gives_back(&mut client, id, End::GivenBack(0), 3);
    assert_eq!(client.takes_named(), on("release", &[0, 1, 2], round.owner));
    (client, round)
}

#[test]
fn a_release_that_is_not_confirmed_stops_where_the_acquire_turns_out_denied() {
    let (mut client, round) = released_early();
    let replies = [(0, GRANTED), (1, GRANTED), (2, LATE)];
    client.answer(("release", round.owner), &replies, &moment(3));
    client.handle_timeout(&moment(23));
    assert_eq!(client.takes_named(), on("release", &[2], round.owner));
    client.answer(("release", round.owner), &[(2, LATE)], &moment(23));
    round.is_told(&mut client, &[(2, denied())], 24);
    client.handle_timeout(&moment(43));
    runs(&mut client, 43);
    assert_eq!((client.takes_named(), client.under_way()), (vec![], 0));
    ends(&mut client, 44, 0);
}

#[test]
fn a_release_is_not_sent_again_where_the_acquire_was_denied_meanwhile() {
    let (mut client, round) = released_early();
    round.is_told(&mut client, &[(2, denied())], 4);
    let replies = [(0, GRANTED), (1, GRANTED), (2, LATE)];
    client.answer(("release", round.owner), &replies, &moment(5));
    assert!(!client.has_unconfirmed());
    ends(&mut client, 6, 0);
}

/// Releases of one semaphore wait for their turns. One is sent when it has its own; the others are sent before a new
/// acquire.
#[test]
fn all_releases_that_wait_go_out_before_an_acquire_of_the_same() {
    let mut client = Mine::new();
    let queue = client.open_queue(&Target::AnyOf(Slots::new(b"", "s", 4).unwrap()));
    let permit = |client: &mut Mine, number: u8| {
        let slot = Ok(Reply::Granted(Granted::at(FencingToken::new(1)).in_slot(number)));
        asks(client, queue, waits("permit"), 0).begins(client, 0).wins(client, slot, 0).0
    };
    let permits = [0, 1, 2].map(|number| permit(&mut client, number));
    let others: Vec<_> = (0..64)
        .map(|number| {
            let queue = client.open_queue(&one(&format!("r{number}")));
            asks(&mut client, queue, waits("holds"), 0).wins(&mut client, 0).0
        })
        .collect();
    client.settles(0);
    for id in others.iter().chain(&permits) {
        gives_back(&mut client, *id, End::GivenBack(0), 1);
    }
    runs(&mut client, 1);
    client.takes();
    assert_eq!(client.crowd(Lane::Releases), 3);
    let owners = permits.map(|id| client.keys(id).unwrap().1);
    let first = client.keys(others[0]).unwrap().1;
    // A failure is no sign that more may be under way.
    let failed = [0, 1].map(|node| (node, Err(Failure::NOT_SENT)));
    client.answer(("release", first), &failed, &moment(2));
    let released = |client: &mut Mine| {
        let sent = client.takes_named();
        let of = |owner: &Owner| sent.iter().any(|it| it.0 == "release" && it.2 == Some(*owner));
        owners.iter().map(of).collect::<Vec<_>>()
    };
    runs(&mut client, 2);
    assert_eq!(released(&mut client), [true, false, false], "it has its turn");
    let again = asks(&mut client, queue, waits("again"), 2);
    let round = again.begins(&mut client, 2);
    let before = [1, 2].map(|number| on("release", &[0, 1, 2], owners[number])).concat();
    let asked = on("acquire", &[0, 1, 2], round.owner);
    assert_eq!(client.takes_named(), [before, asked].concat());
    assert!(client.leave(queue, again.place).is_some());
    client.settles(3);
    runs(&mut client, 3);
    ends(&mut client, 4, 0);
}

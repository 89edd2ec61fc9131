//! Requests that wait for their turn, among all rounds or all releases of a process. K6, and who is told that its time
//! is up.

use quorlock_core::{
    AskId, Came, Cause, End, Event, Failure, GiveUp, GrantId, Lane, Late, RoundLoss,
};

use super::{
    super::at,
    asker, asks, begin_now,
    driven::{Answered, COUNTED, LATE, Mine, denied, moment, of},
    for_ms, gives_back, next_asker, one, runs, stands, told, waits,
};

/// So many have their turn at first; a sign of overload halves that.
const FIRST: usize = 64;

/// So many have their turn that nobody else gets one.
fn crowd(client: &mut Mine) -> Vec<AskId> {
    let mut turns = Vec::new();
    loop {
        let queue = client.open_queue(&one(&format!("crowd {}", turns.len())));
        match client.join(queue, None, waits("crowd"), at(1)) {
            Came::Begins(_, id) => turns.push(id),
            Came::Waits(place) => {
                client.leave(queue, place);
                assert!(turns.len() >= FIRST);
                return turns;
            }
            came => panic!("{came:?}"),
        }
    }
}

/// Its caller has gone when its round is about to begin: its turn goes to the next request.
fn leaves_turn(client: &mut Mine, id: AskId, ms: u64) {
    client.handle_gone_away(id);
    client.begins(id, &of(one("gone")), 1, ms);
}

/// So many grants, each of another resource.
fn grants(client: &mut Mine, count: usize) -> Vec<GrantId> {
    let all = (0..count).map(|number| {
        let queue = client.open_queue(&one(&format!("held {number}")));
        asks(client, queue, waits("holds"), 0).wins(client, 0).0
    });
    let all = all.collect();
    client.settles(0);
    client.takes();
    all
}

/// Of whom releases have been sent since this was asked last.
fn released(client: &mut Mine, of: &[GrantId]) -> Vec<usize> {
    let sent = client.takes_named();
    let mut all: Vec<usize> = Vec::new();
    for (name, _, owner) in sent {
        assert_eq!(name, "release");
        let is_it = |id: &GrantId| client.keys(*id).map(|(_, owner)| owner) == owner;
        all.extend(of.iter().position(is_it));
    }
    all.dedup();
    all
}

#[test]
fn k6_whoever_goes_away_makes_room_for_the_next_from_wherever_it_is() {
    let mut client = Mine::new();
    let (queue, other) = (client.open_queue(&one("r")), client.open_queue(&one("other")));
    let mut turns = crowd(&mut client);
    // It waits for its turn.
    let first = stands(&mut client, queue, waits("first"));
    let second = stands(&mut client, queue, waits("second"));
    let elsewhere = stands(&mut client, other, waits("elsewhere"));
    assert!(begin_now(&mut client, 1).is_empty());
    assert_eq!(client.crowd(Lane::Acquires), 2);
    assert_eq!(client.leave(queue, first).map(|ask| ask.name), Some("first"));
    assert_eq!(client.leave(queue, first), None, "once");
    runs(&mut client, 1);
    assert_eq!(client.crowd(Lane::Acquires), 2, "the next one is behind the one elsewhere");
    leaves_turn(&mut client, turns.pop().unwrap(), 2);
    let mut events = runs(&mut client, 2);
    for (name, place, queue) in [("elsewhere", elsewhere, other), ("second", second, queue)] {
        let next = asker(&mut client, queue, place, events);
        assert_eq!(client.request(next.id).unwrap().name, name);
        // It has waited for its turn, as is known once its round is lost.
        let lost = next.loses(&mut client.clone(), RoundLoss::Contended, 2);
        assert!(lost.waited_for_turn);
        // Its turn is that of the next one then.
        client.handle_gone_away(next.id);
        events = runs(&mut client, 2);
        assert!(matches!(&events[0], Event::Gone(ask) if ask.name == name), "{events:?}");
    }
    assert_eq!(events.len(), 1);
    leaves_turn(&mut client, turns.pop().unwrap(), 2);
    runs(&mut client, 2);
    // In a round it goes away at once as well.
    let in_round = asks(&mut client, queue, waits("in a round"), 2);
    in_round.begins(&mut client, 2);
    let behind = stands(&mut client, queue, waits("behind"));
    let left = client.leave(queue, in_round.place);
    assert_eq!(left.map(|ask| ask.name), Some("in a round"));
    let behind = next_asker(&mut client, queue, behind, 2);
    client.handle_gone_away(behind.id);
    client.settles(2);
    runs(&mut client, 2);
    // It pauses.
    let pauses = asks(&mut client, queue, waits("pauses"), 3);
    let place = pauses.place;
    pauses.loses(&mut client, RoundLoss::Contended, 3);
    let behind = stands(&mut client, queue, waits("behind"));
    assert_eq!(client.leave(queue, place).map(|ask| ask.name), Some("pauses"));
    runs(&mut client, 3);
    assert_eq!(client.leave(queue, behind).map(|ask| ask.name), Some("behind"));
    assert_eq!((runs(&mut client, 3).len(), client.timers()), (0, 0));
}

#[test]
fn one_that_waits_for_its_turn_in_vain_is_in_a_crowd_and_so_are_those_behind_it() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    crowd(&mut client);
    stands(&mut client, queue, for_ms("leader", 30));
    let behind = stands(&mut client, queue, for_ms("short", 20));
    runs(&mut client, 1);
    let late = client.handle_waiter_due(queue, behind, at(20), |_, _, _| None::<()>);
    assert!(matches!(late, Late::InVain(_, GiveUp::Crowded, None)), "{late:?}");
    client.handle_timeout(&moment(29));
    assert!(told(&runs(&mut client, 29)).is_empty(), "not before its time");
    client.handle_timeout(&moment(30));
    assert_eq!(told(&runs(&mut client, 30)), [("leader", GiveUp::Crowded)]);
    assert_eq!((client.crowd(Lane::Acquires), client.timers()), (0, 0));
}

#[test]
fn a_release_that_waits_for_its_turn_is_told_when_its_time_is_up_and_waits_behind_no_acquire() {
    let mut client = Mine::new();
    let grants = grants(&mut client, 67);
    crowd(&mut client);
    let gives = |client: &mut Mine, number: usize, ms| {
        let name = ["short", "long", "last"].get(number).copied().unwrap_or("now");
        client.give_back(grants[number], End::GivenBack(0), |_, _| name, &moment(ms)).unwrap();
    };
    (3..67).for_each(|number| gives(&mut client, number, 1));
    assert_eq!(released(&mut client, &grants), (3..67).collect::<Vec<_>>(), "at once");
    gives(&mut client, 0, 1);
    gives(&mut client, 1, 11);
    assert_eq!(client.crowd(Lane::Releases), 2);
    assert!(released(&mut client, &grants).is_empty());
    runs(&mut client, 11);
    client.handle_timeout(&moment(498));
    assert!(runs(&mut client, 498).is_empty(), "not before its time");
    // It is told once, and goes on waiting, behind later releases.
    client.handle_timeout(&moment(501));
    let events = runs(&mut client, 501);
    let [Event::ReleaseLate(late)] = events[..] else { panic!("{events:?}") };
    assert_eq!(client.release_data(late), Some(&mut "short"));
    let target = client.keys(grants[0]).unwrap().0.clone();
    assert_eq!(client.release_target(late), Some(&target));
    gives(&mut client, 2, 502);
    assert_eq!(client.crowd(Lane::Releases), 3);
    for (turn, next) in [(66, 1), (65, 0), (64, 2)] {
        let owner = client.keys(grants[turn]).unwrap().1;
        let failed = [0, 1].map(|node| (node, Err(Failure::NOT_SENT)));
        client.answer(("release", owner), &failed, &moment(503));
        assert_eq!(released(&mut client, &grants), [next], "one for each turn");
        let events = runs(&mut client, 503);
        let decided = |event: &&super::Decided| matches!(event, Event::Released("now", _));
        assert_eq!(events.iter().filter(decided).count(), 1);
    }
    assert_eq!(client.crowd(Lane::Releases), 0);
}

/// As where a clock has panicked while a turn was given back.
#[test]
fn where_nobody_is_let_in_the_next_one_who_comes_makes_that_good() {
    let mut client = Mine::new();
    let (queue, other) = (client.open_queue(&one("r")), client.open_queue(&one("other")));
    let turns = crowd(&mut client);
    stands(&mut client, queue, waits("first"));
    // None of their rounds begins.
    turns.into_iter().for_each(|id| client.handle_gone_away(id));
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert!(events.iter().any(|event| matches!(event, Event::LetIn)), "it is called for");
    let second = asks(&mut client, other, waits("second"), 3);
    assert_eq!(client.request(second.id).unwrap().name, "second");
    assert_eq!(begin_now(&mut client, 3), ["first"]);
}

/// Several releases that wait are let in together, in their order, where several turns have come back together.
#[test]
fn where_many_releases_end_at_once_those_who_wait_are_let_in_in_their_order() {
    let mut client = Mine::new();
    let grants = grants(&mut client, 66);
    for id in &grants {
        assert_eq!(gives_back(&mut client, *id, End::GivenBack(0), 1), Some(true));
    }
    assert_eq!(client.crowd(Lane::Releases), 2);
    assert_eq!(released(&mut client, &grants), (0..64).collect::<Vec<_>>());
    client.settles(2);
    assert_eq!(released(&mut client, &grants), [64, 65]);
    runs(&mut client, 2);
    assert_eq!((client.under_way(), client.crowd(Lane::Releases)), (0, 0));
}

/// All who have a turn go away before anything of their rounds is sent, so that no answer lets anybody in.
#[test]
fn a_turn_that_comes_back_with_nothing_sent_is_given_to_whoever_waits_for_it() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let turns = crowd(&mut client);
    stands(&mut client, queue, waits("first"));
    for id in turns {
        client.begins_unsent(id, &of(one("gone")), 1, 2);
        client.handle_gone_away(id);
    }
    assert!(client.takes().is_empty(), "what has not been handed out is taken back");
    assert_eq!(begin_now(&mut client, 2), ["first"]);
}

/// How many rounds, and releases that are waited for, count as under way.
pub(super) fn turns_out(client: &Mine) -> usize {
    let all = format!("{:?}", &**client);
    let lanes = all.split("under_way: ").skip(1);
    let lanes: Vec<&str> = lanes.filter_map(|lane| lane.split(',').next()).collect();
    assert_eq!(lanes.len(), 2, "{lanes:?}");
    lanes.iter().map(|lane| lane.parse::<usize>().unwrap()).sum()
}

/// Nobody is told how it ends: its answers alone say when it is no load any more.
#[test]
fn a_round_whose_caller_has_gone_counts_until_its_nodes_have_answered_or_are_too_slow() {
    const FAILED: Answered = Err(Failure::NOT_SENT);
    for (says, out) in [
        ([COUNTED, COUNTED, LATE], [1, 0, 0]),
        ([COUNTED, LATE, COUNTED], [1, 0, 0]),
        ([LATE, COUNTED, COUNTED], [0, 0, 0]),
        ([FAILED, LATE, COUNTED], [1, 0, 0]),
        ([FAILED, FAILED, LATE], [1, 1, 0]),
    ] {
        let mut client = Mine::new();
        let queue = client.open_queue(&one("r"));
        let asker = asks(&mut client, queue, waits("r"), 1);
        let round = asker.begins(&mut client, 1);
        assert!(client.leave(queue, asker.place).is_some());
        assert_eq!(turns_out(&client), 1);
        for (node, (says, out)) in says.iter().cloned().zip(out).enumerate() {
            assert!(round.is_told(&mut client, &[(node, says.clone())], 2).is_none());
            assert_eq!(turns_out(&client), out, "{says:?} of {node}");
        }
    }
}

#[test]
fn rounds_that_nodes_are_too_slow_for_lessen_how_many_may_ask_and_others_do_not() {
    let most = |says: Answered| {
        let mut client = Mine::new();
        let queue = client.open_queue(&one("r"));
        let asker = asks(&mut client, queue, waits("r"), 1);
        asker.begins(&mut client, 1).hears(&mut client, says, &moment(2));
        assert!(client.leave(queue, asker.place).is_some());
        let one_more = |number: &u32| {
            let queue = client.open_queue(&one(&format!("crowd {number}")));
            matches!(client.join(queue, None, waits("crowd"), at(2)), Came::Begins(..))
        };
        (0..).take_while(one_more).count()
    };
    let slow = Err(Failure::new(false, Cause::Slow));
    assert_eq!([denied(), Err(Failure::NOT_SENT)].map(most), [FIRST, FIRST]);
    assert_eq!([LATE, slow].map(most), [FIRST / 2, FIRST / 2]);
}

/// Behind a release that comes too late nodes have too much to do. Of one that was not sent nothing is known.
#[test]
fn releases_that_nodes_are_too_slow_for_lessen_how_many_are_sent_at_once() {
    let most = |says: Answered| {
        let mut client = Mine::new();
        let grants = grants(&mut client, 70);
        gives_back(&mut client, grants[0], End::GivenBack(0), 1);
        let owner = client.keys(grants[0]).unwrap().1;
        let all = [0, 1, 2].map(|node| (node, says.clone()));
        client.answer(("release", owner), &all, &moment(2));
        client.takes();
        for id in &grants[1..] {
            gives_back(&mut client, *id, End::GivenBack(0), 3);
        }
        released(&mut client, &grants).len()
    };
    assert_eq!(most(Err(Failure::NOT_SENT)), FIRST);
    assert_eq!(most(LATE), FIRST / 2);
}

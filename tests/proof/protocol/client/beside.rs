//! Overlapping requests of one process: for readers, sets, permits; and requests that ask beside a queue.

use quorlock_core::{
    Came, Cause, Command, End, Event, Failure, FencingToken, GiveUp, Granted, Moment, Reply,
    RoundLoss, Sending, Slots, Target,
};

use super::{
    super::at,
    MS, asks, begin_now,
    driven::{Answered, GRANTED, Mine, denied, moment},
    first_due, gives_back, next_asker, once, one, permits,
    places::denial,
    reads, runs, set, stands, waits,
};

/// By nodes that have lines.
fn in_line() -> Answered {
    Ok(Reply::Denied(denial(1, 9_000 * MS)))
}

#[test]
fn what_has_been_closed_is_in_nobodys_way_and_all_else_is_as_before() {
    let mut client = Mine::new();
    let in_the_way_of = |client: &Mine, id| client.in_the_way_of(id).len() - 1;
    let (plain, both) = (client.open_queue(&one("r")), client.open_queue(&set(&["r", "other"])));
    let reader = client.open_queue(&reads("r"));
    assert_eq!(in_the_way_of(&client, reader), 2);
    client.close_queue(plain);
    assert_eq!(in_the_way_of(&client, reader), 1);
    let plain = client.open_queue(&one("r"));
    client.close_queue(reader);
    assert_eq!(in_the_way_of(&client, plain), 1, "the set");
    client.close_queue(both);
    assert_eq!(in_the_way_of(&client, plain), 0);
}

#[test]
fn a_queue_is_gone_when_nobody_has_it_and_its_last_release_is_decided() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let (id, _) = asks(&mut client, queue, waits("r"), 0).wins(&mut client, 0);
    let of = client.keys(id).unwrap().1;
    gives_back(&mut client, id, End::GivenBack(0), 1);
    client.close_queue(queue);
    runs(&mut client, 1);
    assert_eq!(client.queues(), 1, "who comes now finds the release");
    client.answer(("release", of), &[0, 1, 2].map(|node| (node, GRANTED)), &moment(2));
    runs(&mut client, 2);
    assert_eq!(client.queues(), 0);
}

#[test]
fn who_pauses_until_it_may_read_asks_when_the_writer_reads_on() {
    let mut client = Mine::new();
    let (writes, reader) = (client.open_queue(&one("r")), client.open_queue(&reads("r")));
    let other = client.open_queue(&reads("other"));
    asks(&mut client, writes, waits("writer"), 0).wins(&mut client, 0);
    for (queue, name) in [(reader, "reader"), (other, "other")] {
        asks(&mut client, queue, waits(name), 1).loses(&mut client, RoundLoss::Contended, 1);
    }
    assert!(begin_now(&mut client, 1).is_empty());
    client.handle_shared(writes);
    assert_eq!(begin_now(&mut client, 1), ["reader"]);
}

#[test]
fn a_resource_is_wanted_beside_where_something_else_with_it_is_asked_for() {
    let mut client = Mine::new();
    let (plain, both) = (client.open_queue(&one("r")), client.open_queue(&set(&["r", "other"])));
    let all = client.open_queue(&permits());
    let slot = client.open_queue(&one("s/1"));
    asks(&mut client, plain, waits("r"), 1);
    asks(&mut client, slot, waits("slot"), 1);
    assert!(!client.is_wanted_beside(plain), "nobody asks but for itself");
    assert!(client.is_wanted_beside(both));
    assert!(!client.is_wanted_beside(all), "permits are handed on to nobody");
    asks(&mut client, both, waits("both"), 1);
    assert!(client.is_wanted_beside(plain));
    let reader = client.open_queue(&reads("r"));
    assert!(!client.is_wanted_beside(reader));
}

/// It has asked for both, and was denied by nodes or not heard by them, for as long as a turn.
fn set_that_waits(says: Answered) -> Mine {
    let mut client = Mine::new();
    let both = client.open_queue(&set(&["a", "b"]));
    let round = asks(&mut client, both, waits("both"), 0).begins(&mut client, 0);
    round.hears(&mut client, says, &Moment { turn: 10 * MS, ..moment(0) });
    runs(&mut client, 0);
    client
}

#[test]
fn a_set_keeps_back_those_who_want_one_of_it_and_no_reader_and_nobody_while_nodes_are_down() {
    let comes = |mut client: Mine, target: Target| {
        let queue = client.open_queue(&target);
        let came = client.join(queue, None, waits("comes"), at(10));
        matches!(came, Came::Begins(..))
    };
    assert!(!comes(set_that_waits(denied()), one("a")));
    assert!(comes(set_that_waits(denied()), one("c")));
    assert!(comes(set_that_waits(denied()), reads("a")), "the lines on the nodes see to readers");
    assert!(comes(set_that_waits(Err(Failure::NOT_SENT)), one("a")), "it was in nobody's way");
}

#[test]
fn several_tokens_are_asked_for_where_leases_may_follow() {
    let wanted = |target: &Target, alone| {
        let mut client = Mine::new();
        let queue = client.open_queue(target);
        let mut asker = asks(&mut client, queue, waits("r"), 1);
        (asker.asked.linger, asker.asked.alone) = (MS, alone);
        client.tokens_wanted(asker.id, &asker.asked, at(1))
    };
    assert_eq!(wanted(&one("r"), false), 64);
    assert_eq!(wanted(&one("r"), true), 1, "it is handed on to nobody");
    assert_eq!(wanted(&permits(), false), 1);
}

#[test]
fn who_asks_once_while_a_round_is_under_way_shares_what_it_finds() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let round = leader.begins(&mut client, 1);
    let came = client.join(queue, None, once("once"), at(2));
    assert!(matches!(came, Came::Waits(_)), "{came:?}");
    round.hears(&mut client, denied(), &moment(3));
    let told = super::told(&runs(&mut client, 3));
    assert_eq!(told.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["once"]);
    // Between two rounds there is none to share, and what was found counts; the next one finds anew.
    let came = client.join(queue, None, once("later"), at(4));
    assert!(matches!(came, Came::Told(..)), "{came:?}");
    let next = first_due(&client).unwrap();
    client.handle_timeout(&moment(next));
    next_asker(&mut client, queue, leader.place, next).begins(&mut client, next);
    let came = client.join(queue, None, once("last"), at(next));
    assert!(matches!(came, Came::Waits(_)), "{came:?}");
}

/// What it has met is nothing to others: it asked for any permit, beside them.
#[test]
fn a_round_beside_the_queue_that_too_few_nodes_have_heard_is_told_to_nobody_else() {
    let mut client = Mine::new();
    let queue = client.open_queue(&permits());
    let asker = asks(&mut client, queue, waits("permit"), 1);
    asker.begins(&mut client, 1).hears(&mut client, Err(Failure::NOT_SENT), &moment(2));
    runs(&mut client, 2);
    let told = client.ahead(queue, asker.place);
    assert!(matches!(told, Some((0, None))), "{told:?}");
}

#[test]
fn who_asks_beside_the_queue_is_told_of_a_close_when_its_round_is_lost() {
    let mut client = Mine::new();
    let queue = client.open_queue(&permits());
    let [leader, beside] =
        ["leader", "beside"].map(|name| asks(&mut client, queue, waits(name), 1));
    let round = beside.begins(&mut client, 1);
    leader.loses(&mut client, RoundLoss::Contended, 1);
    runs(&mut client, 1);
    client.close();
    assert_eq!(super::told(&runs(&mut client, 1)), [("leader", GiveUp::Closed)]);
    round.hears(&mut client, denied(), &moment(2));
    assert_eq!(super::told(&runs(&mut client, 2)), [("beside", GiveUp::Closed)]);
}

/// As where its driver has not looked since.
#[test]
fn one_who_is_kept_back_does_not_begin_in_anothers_place() {
    let mut client = set_that_waits(denied());
    let other = client.open_queue(&one("other"));
    let leader = asks(&mut client, other, waits("leader"), 1);
    let next = stands(&mut client, other, waits("next"));
    runs(&mut client, 1);
    assert!(client.leave(other, leader.place).is_some());
    while let Some(event) = client.poll_event() {
        if let Event::GoOn(id) = event {
            client.go_on(id, at(1));
            break;
        }
    }
    let queue = client.open_queue(&one("a"));
    let came = client.join(queue, None, waits("comes"), at(10));
    assert!(matches!(came, Came::Waits(_)), "{came:?}");
    let begun = next_asker(&mut client, other, next, 10);
    assert_eq!(client.request(begun.id).map(|ask| ask.name), Some("next"));
}

#[test]
fn who_asks_for_all_permits_that_are_waited_for_stands_in_their_line() {
    let mut client = Mine::new();
    let queue = client.open_queue(&permits());
    let first = asks(&mut client, queue, waits("permit"), 0);
    let place = first.place;
    let round = first.begins(&mut client, 0);
    assert_eq!(round.stand, None, "it asks beside the waiters");
    let lost = round.hears(&mut client, in_line(), &moment(0));
    assert_eq!(lost.loss, RoundLoss::Contended);
    let again = next_asker(&mut client, queue, place, 0);
    let round = again.begins(&mut client, 0);
    assert!(round.stand.unwrap().ticket.is_some());
}

#[test]
fn who_asks_once_takes_no_place_in_a_line() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let asker = asks(&mut client, queue, once("once"), 0);
    let stays = client.open_queue(&one("r"));
    asker.begins(&mut client, 0).hears(&mut client, in_line(), &moment(0));
    runs(&mut client, 0);
    assert_eq!((stays, client.rank(queue)), (queue, None));
    assert!(
        client.takes().iter().all(|it| !matches!(&it.sending, Sending::One(Command::Leave { .. })))
    );
}

/// Nothing is known of the line then.
#[test]
fn a_round_that_nodes_have_not_heard_moves_nobody_in_a_line() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let first = asks(&mut client, queue, waits("r"), 0);
    let place = first.place;
    first.begins(&mut client, 0).hears(&mut client, in_line(), &moment(0));
    let again = next_asker(&mut client, queue, place, 0);
    let round = again.begins(&mut client, 0);
    let lost = round.hears(&mut client, Err(Failure::NOT_SENT), &moment(1));
    assert_eq!((lost.loss, lost.in_line), (RoundLoss::NoQuorum, None));
}

/// Which slot each node took is known of those that have said so.
#[test]
fn a_lost_round_for_any_permit_is_undone_slot_by_slot() {
    let mut client = Mine::new();
    let queue = client.open_queue(&permits());
    let round = asks(&mut client, queue, waits("permit"), 1).begins(&mut client, 1);
    client.takes();
    let slot = Ok(Reply::Granted(Granted::at(FencingToken::new(1)).in_slot(2)));
    round.is_told(&mut client, &[(0, slot), (1, denied()), (2, denied())], 2).unwrap();
    let all = Slots::new(b"", "s", 3).unwrap();
    let sent = client.takes();
    let released: Vec<_> = sent
        .iter()
        .filter_map(|it| match &it.sending {
            Sending::One(Command::Release { target, .. }) => Some((it.node.index(), target)),
            _ => None,
        })
        .collect();
    assert_eq!(released, [(0, &Target::Slot(all.slot(2).unwrap()))]);
}

/// A lease that is to keep others out until a second is over.
#[test]
fn a_release_says_for_how_long_a_key_is_kept_yet() {
    let keep = |ms| {
        let mut client = Mine::new();
        let queue = client.open_queue(&one("r"));
        let asker = asks(&mut client, queue, waits("r"), 0);
        let (id, _) = asker.wins(&mut client, 0);
        client.change(id, |leases| leases.handle_taken(0)).unwrap();
        client.change(id, |leases| leases.hold(0, at(1_000))).unwrap();
        client.takes();
        gives_back(&mut client, id, End::GivenBack(0), ms);
        let sent = client.takes();
        let keeps = sent.iter().filter_map(|it| match &it.sending {
            Sending::One(Command::Release { keep, .. }) => Some(*keep),
            _ => None,
        });
        keeps.collect::<Vec<_>>()
    };
    let long = keep(10);
    assert_eq!(long.len(), 3);
    assert!(
        long.iter().all(|keep| keep.is_some_and(|keep| (990 * MS..1_100 * MS).contains(&keep)))
    );
    assert!(
        keep(900).iter().all(|keep| keep.is_some_and(|keep| (100 * MS..110 * MS).contains(&keep)))
    );
    assert_eq!(keep(1_000), [None; 3], "it is deleted");
}

/// Its round says nothing of the permits: it is repeated, and still asks once.
#[test]
fn who_asks_once_beside_the_queue_does_not_stand_there_when_its_round_is_repeated() {
    let mut client = Mine::new();
    let queue = client.open_queue(&permits());
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let beside = asks(&mut client, queue, once("once"), 1);
    leader.loses(&mut client, RoundLoss::Contended, 1);
    runs(&mut client, 1);
    let outdated = Err(Failure::new(false, Cause::Outdated));
    beside.begins(&mut client, 1).hears(&mut client, outdated, &moment(2));
    let events = runs(&mut client, 2);
    assert!(matches!(events[..], [Event::Look(id, _)] if id == beside.id), "{events:?}");
    assert!(client.ahead(queue, leader.place).is_some());
    assert!(client.request(beside.id).is_some(), "it asks by itself");
}

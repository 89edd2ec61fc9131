//! What one handle holds and who waits for it: K1 to K5, each by name, and what those are told who wait in vain.
//!
//! Goal: grants, queues, footprints and timers change together, in one step. Method: a client is driven by hand, as its driver
//! does; the model's `handles` look at every order of such steps.

use std::time::Duration;

use quorlock_core::{
    Acquisition, Asks, Backoff, Came, Client, Cohort, Comer, Drift, End, ExtendOutcome,
    FencingToken, Footprint, GiveUp, GrantId, HandOn, Late, LeaseAction, Leases, Lifecycle,
    LossReason, NewGrant, NextLease, NodeId, OthersWait, Passed, Pause, Place, QueueId,
    RenewalPolicy, Reply, Situation, Timestamp, TokenRange, WaitPolicy, WaitSettings, Wakeup,
    Wanted,
};

use super::at;

const TTL: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

/// A request: its name, and what it knows.
#[derive(Clone, Debug, PartialEq)]
struct Ask {
    name: &'static str,
    acquisition: Acquisition,
    says_at: Option<Timestamp>,
    linger: Duration,
    renewal: RenewalPolicy,
    met: Option<&'static str>,
}

impl Asks<&'static str> for Ask {
    fn acquisition(&mut self) -> &mut Acquisition {
        &mut self.acquisition
    }

    fn turn_deadline(&self) -> Option<Timestamp> {
        self.acquisition.turn_deadline()
    }

    fn says_at(&self) -> Option<Timestamp> {
        self.says_at
    }

    fn next(&self, _: Timestamp) -> NextLease {
        let lock_delay = Duration::ZERO;
        let wanted = Wanted { ttl: TTL, lock_delay, min_validity: Duration::ZERO, alone: false };
        let renewal = self.renewal;
        NextLease { wanted, renewal, keeps_until: None, linger: self.linger }
    }

    fn handle_known(&mut self, met: &&'static str) {
        self.met = Some(met);
    }
}

fn ask(name: &'static str, wait: WaitPolicy) -> Ask {
    let backoff = Backoff { min: MS, max: MS };
    let settings =
        WaitSettings { node_timeout: 500 * MS, wait: TTL, backoff, through_outages: false };
    let acquisition = Acquisition::new(settings, wait, at(0));
    let renewal = RenewalPolicy::default();
    Ask { name, acquisition, says_at: None, linger: Duration::ZERO, renewal, met: None }
}

fn waits(name: &'static str) -> Ask {
    ask(name, WaitPolicy::Unlimited)
}

type Mine = Client<&'static str, Ask, &'static str>;

const STANDS: Comer = Comer { asks_once: false, is_any: false };
const ONCE: Comer = Comer { asks_once: true, is_any: false };

fn joins(client: &mut Mine, queue: QueueId, comer: Comer, ask: Ask) -> Came<Ask, &'static str> {
    client.join(queue, comer, (false, None), ask, at(1))
}

fn stands(client: &mut Mine, queue: QueueId, ask: Ask) -> Place {
    let came = joins(client, queue, STANDS, ask);
    let Came::Waits(place, _) = came else { panic!("{came:?}") };
    place
}

/// A client that holds a grant, with the queue of it.
struct Held {
    client: Mine,
    queue: QueueId,
    id: GrantId,
    footprint: quorlock_core::FootprintId,
}

/// It was granted at zero, and its leases keep it as long behind them.
fn held(linger: Duration) -> Held {
    let mut client = Mine::default();
    let queue = client.open_queue();
    let came = joins(&mut client, queue, STANDS, waits("first"));
    let Came::Asks(place, ask, Pause::None) = came else { panic!("{came:?}") };
    assert_eq!(ask.name, "first");
    assert!(!client.begin_round(queue, at(0)), "nobody waits behind it");
    let footprint = client.add_footprint(Footprint::new(3));
    let lifecycle =
        Lifecycle::new(at(0), at(9_898), TTL, Drift::default(), RenewalPolicy::default());
    let tokens = Some(TokenRange::ending_at(FencingToken::new(64), 64));
    let (cohort, token) = Cohort::begin(tokens, at(0));
    let leases = Leases::new(lifecycle, cohort, token, (linger, Duration::ZERO, false), None);
    let station = Some((queue, place));
    let id = client.begin(NewGrant { leases, footprint, station, data: "grant" });
    assert_eq!(client.schedule(id), Wakeup::Start);
    assert!(client.count(id));
    assert!(client.handle_won(queue, place, id, at(1)).is_empty());
    client.change(id, |leases| leases.handle_taken(0)).unwrap();
    Held { client, queue, id, footprint }
}

fn now(ms: u64) -> HandOn {
    let situation =
        Situation { others: OthersWait::Nobody, turn: TTL, now: at(ms), steady: at(ms) };
    HandOn { situation, heard_until: None, closed: false }
}

/// When the first of its timers is due.
fn first_due(client: &Mine) -> Option<u64> {
    (0..40_000).find(|ms| {
        let due = client.clone().handle_timeout(at(*ms));
        !due.extend.is_empty()
            || !due.tell.is_empty()
            || !due.give_back.is_empty()
            || !due.waiting.is_empty()
    })
}

#[test]
fn k1_a_grant_is_among_the_timers_until_it_ends() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!(client.timers(), 1);
    let first = first_due(&client).unwrap();
    let look = client.clone().next_look(at(first - 100)).unwrap();
    assert!(look > at(first - 100) && look <= at(first + 2), "{look:?}, {first}");
    assert_eq!(client.clone().next_look(at(0)), Some(at(500)), "it never sleeps for long");
    let due = client.handle_timeout(at(first));
    assert_eq!((due.extend, due.tell, due.give_back), (vec![id], vec![], vec![]));
    assert!(client.are_scheduled() && client.timers() == 1, "for when the extension is late");
    // It is extended, and is to be again.
    let extended = ExtendOutcome::Extended(at(first + 9_898));
    assert_eq!(client.handle_extension(id, extended, at(first + 2)).0, None);
    assert!(client.are_scheduled());
    assert!(first_due(&client).is_some_and(|next| next > first && next < first + 9_898));
    // Where nobody extends it, that is told, and nothing is told twice.
    let mut told = Vec::new();
    for ms in (0..40_000).step_by(10) {
        let due = client.handle_timeout(at(ms));
        due.extend.iter().for_each(|id| {
            let _ = client.handle_extension(*id, ExtendOutcome::InDoubt, at(ms));
        });
        told.extend(due.tell);
        assert!(client.are_scheduled(), "at {ms}");
    }
    let lost = |(of, action): &(GrantId, LeaseAction)| {
        *of == id && *action == LeaseAction::Lose(LossReason::RenewalFailed)
    };
    assert_eq!(told.iter().filter(|told| lost(told)).count(), 1, "{told:?}");
    assert_eq!(client.timers(), 0, "it is over");
    // What ends is looked at no more.
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert!(client.end(id, End::GivenBack(0)).is_some_and(|ended| ended.lease.was_held));
    assert_eq!((client.timers(), first_due(&client), client.held_count()), (0, None, 0));
    assert_eq!(client.next_look(at(1)), None);
    // One that nobody has put there yet is not.
    let Held { mut client, queue, footprint, .. } = held(Duration::ZERO);
    let leases = held(Duration::ZERO).client.leases(id).unwrap().clone();
    let other = NewGrant { leases, footprint, station: None, data: "other" };
    let other = client.begin(other);
    assert!(!client.are_scheduled());
    assert_ne!(client.schedule(other), Wakeup::Start, "somebody sees to the timers");
    assert!(client.are_scheduled());
    // Whoever saw to them has come to a bad end.
    client.abandon_timers();
    let came = joins(&mut client, queue, STANDS, ask("next", WaitPolicy::For(TTL)));
    assert!(matches!(came, Came::Waits(_, Wakeup::Start)), "{came:?}");
    assert_eq!(client.schedule(id), Wakeup::Silent);
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!((client.forget(id), client.forget(id)), (Some("grant"), None));
    assert_eq!((client.timers(), client.held_count()), (0, 0));
}

/// A lease that is watched is never asked early: it might be told that its heartbeat is late, which is not.
#[test]
fn k1_a_watched_lease_that_is_handed_on_is_taken_along_no_more_than_one_that_is_won() {
    let mut watched = waits("watched");
    watched.renewal.heartbeat_within = Some(5_000 * MS);
    for kept in [false, true] {
        let Held { mut client, queue, id, .. } = held(if kept { 300 * MS } else { Duration::ZERO });
        let first = first_due(&client).unwrap();
        if kept {
            assert!(matches!(client.hand_on(id, 0, now(1)), Some((Passed::Kept(_), ..))));
            let next = watched.next(at(1));
            let _ = client.resume(id, &next, now(1).situation).unwrap();
        } else {
            stands(&mut client, queue, watched.clone());
            let passed = client.hand_on(id, 0, now(1));
            assert!(matches!(passed, Some((Passed::To(..), ..))), "{passed:?}");
        }
        assert!(client.are_scheduled());
        // Another grant of the same client is due a little before.
        let footprint = client.add_footprint(Footprint::new(3));
        let lifecycle =
            Lifecycle::new(at(0), at(9_898 - 300), TTL, Drift::default(), RenewalPolicy::default());
        let (cohort, token) = Cohort::begin(None, at(0));
        let asked = (Duration::ZERO, Duration::ZERO, false);
        let leases = Leases::new(lifecycle, cohort, token, asked, None);
        let other = client.begin(NewGrant { leases, footprint, station: None, data: "other" });
        let _ = client.schedule(other);
        let next = first_due(&client).unwrap();
        assert!(next < first, "{next}, {first}");
        assert_eq!(client.handle_timeout(at(next)).extend, [other], "kept: {kept}");
    }
}

#[test]
fn k1_a_request_is_among_the_timers_until_it_leaves() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    client.end(id, End::GivenBack(0));
    let patient = ask("patient", WaitPolicy::For(100 * MS));
    let says = Ask { says_at: Some(at(50)), ..patient.clone() };
    let (one, two) =
        (stands(&mut client, queue, patient.clone()), stands(&mut client, queue, says));
    let third = stands(&mut client, queue, waits("third"));
    assert_eq!((client.timers(), first_due(&client)), (2, Some(48)), "one waits without an end");
    assert_eq!(client.leave(queue, one).request.map(|ask| ask.name), Some("patient"));
    assert_eq!((client.timers(), client.leave(queue, one).request), (1, None));
    // It says for whom it waits, once, and waits on.
    assert_eq!(client.handle_timeout(at(50)).waiting, [(queue, two)]);
    let late = client.handle_waiter_due(queue, two, (at(50), 500 * MS), |ask, held, here| {
        ask.says_at = None;
        Some((held.copied(), here))
    });
    assert!(matches!(late, Late::Waits(Some((Some("grant"), 0)), _)), "{late:?}");
    assert_eq!(first_due(&client), Some(98), "up to its end");
    assert_eq!(client.handle_timeout(at(100)).waiting, [(queue, two)]);
    let late = client.handle_waiter_due(queue, two, (at(100), 500 * MS), |_, _, _| None::<()>);
    let Late::InVain(it, GiveUp::Crowded, Some(holder)) = late else { panic!("{late:?}") };
    assert_eq!((it.name, holder, client.timers()), ("patient", id, 0));
    let nothing = client.handle_waiter_due(queue, two, (at(100), 500 * MS), |_, _, _| None::<()>);
    assert!(matches!(nothing, Late::Nothing), "it has gone");
    // All who wait are turned away at once.
    stands(&mut client, queue, patient);
    let all: Vec<_> = client.take_all_waiting().into_iter().map(|ask| ask.name).collect();
    assert_eq!((all, client.timers()), (vec!["third", "patient"], 0));
    assert!(client.leave(queue, third).request.is_none());
    stands(&mut client, queue, ask("last", WaitPolicy::For(TTL)));
    assert_eq!((client.close_queue(queue).len(), client.timers()), (1, 0));
}

#[test]
fn one_whose_time_is_up_while_a_round_is_under_way_is_told_what_that_finds() {
    let mut client = Mine::default();
    let queue = client.open_queue();
    let Came::Asks(leader, ..) = joins(&mut client, queue, STANDS, waits("leader")) else {
        panic!("nobody is before it")
    };
    client.begin_round(queue, at(0));
    let place = stands(&mut client, queue, ask("short", WaitPolicy::For(20 * MS)));
    let times = (at(20), 500 * MS);
    assert_eq!(client.handle_timeout(at(20)).waiting, [(queue, place)]);
    let late = client.handle_waiter_due(queue, place, times, |_, _, _| None::<()>);
    assert!(matches!(late, Late::Waits(None, _)), "{late:?}");
    assert_eq!(first_due(&client), Some(518), "for no longer than a round takes");
    let out = client.handle_lost(queue, "held", (true, true), at(40), |ask| {
        (ask.name == "short").then_some(GiveUp::LastRound)
    });
    let [(ask, GiveUp::LastRound)] = &out[..] else { panic!("{out:?}") };
    assert_eq!((ask.name, client.timers()), ("short", 0));
    // Whoever comes now knows, and asks once in vain; a leader begins where the one before would go on.
    let came = joins(&mut client, queue, ONCE, waits("once"));
    assert!(matches!(&came, Came::Told("held", ask) if ask.name == "once"), "{came:?}");
    let place = stands(&mut client, queue, waits("next"));
    assert!(client.handle_over(queue, leader) && !client.handle_over(queue, leader));
    assert!(!client.is_idle(queue));
    let next = client.next_leader(queue, true);
    let Some((at_place, ask, Pause::UntilFree(until))) = next else { panic!("{next:?}") };
    assert_eq!((at_place, ask.name, ask.met, until), (place, "next", Some("held"), at(40)));
    assert!(client.next_leader(queue, true).is_none(), "somebody is at it");
    assert!(client.next_leader(queue, false).is_none(), "nobody is left");
    assert!(client.handle_over(queue, place) && client.is_idle(queue));
    // What was found by then is of no use to whoever comes next.
    let came = joins(&mut client, queue, ONCE, waits("later"));
    assert!(matches!(&came, Came::Asks(_, ask, _) if ask.met.is_none()), "{came:?}");
}

#[test]
fn whoever_waits_here_or_has_lately_has_more_tokens_asked_for() {
    let mut client = Mine::default();
    let queue = client.open_queue();
    let Came::Asks(leader, ..) = joins(&mut client, queue, STANDS, waits("leader")) else {
        panic!("nobody is before it")
    };
    assert!(!client.begin_round(queue, at(1)), "nobody has come");
    let place = stands(&mut client, queue, waits("first"));
    assert!(client.begin_round(queue, at(1)));
    assert!(client.begin_round(queue, at(60_000)), "it has stood there for long");
    client.leave(queue, place);
    assert!(client.begin_round(queue, at(1_000)), "it was there a moment ago");
    assert!(!client.begin_round(queue, at(1_001)));
    // How many come before whom.
    let place = stands(&mut client, queue, waits("second"));
    let ahead = |client: &Mine, place| client.ahead(queue, place).map(|(ahead, _)| ahead);
    assert_eq!((ahead(&client, leader), ahead(&client, place)), (Some(0), Some(1)));
    let other = stands(&mut client, queue, waits("third"));
    assert_eq!(ahead(&client, other), Some(2));
    client.handle_over(queue, leader);
    assert_eq!((ahead(&client, leader), ahead(&client, place)), (None, Some(0)));
}

#[test]
fn a_leader_that_waits_for_its_turn_takes_that_along() {
    let mut client = Mine::default();
    let queue = client.open_queue();
    let Came::Asks(place, ..) = joins(&mut client, queue, STANDS, waits("leader")) else {
        panic!("nobody is before it")
    };
    client.handle_turn_waited_for(queue, place, 7);
    let behind = stands(&mut client, queue, ask("short", WaitPolicy::For(20 * MS)));
    assert_eq!(client.leave(queue, behind).turn, None);
    assert_eq!(client.leave(queue, place).turn, Some(7));
    assert_eq!(client.leave(queue, place).turn, None, "once");
    client.handle_turn_waited_for(queue, place, 8);
    client.handle_turn(queue);
    assert_eq!(client.leave(queue, place).turn, None, "it has had it");
    client.handle_turn_waited_for(queue, place, 9);
    client.begin_round(queue, at(0));
    client.handle_turn_waited_for(queue, place, 9);
    assert_eq!(client.leave(queue, place).turn, None, "its round has begun");
    // One that waits for a turn in vain is in a crowd.
    client.handle_over(queue, place);
    let Came::Asks(place, ..) = joins(&mut client, queue, STANDS, waits("leader")) else {
        panic!("nobody is before it")
    };
    client.handle_turn_waited_for(queue, place, 10);
    let behind = stands(&mut client, queue, ask("short", WaitPolicy::For(20 * MS)));
    let late = client.handle_waiter_due(queue, behind, (at(20), MS), |_, _, _| None::<()>);
    assert!(matches!(late, Late::InVain(_, GiveUp::Crowded, None)), "{late:?}");
}

#[test]
fn k2_what_is_kept_is_kept_by_one_queue_until_it_is_taken_or_given_back() {
    let Held { mut client, queue, id, .. } = held(300 * MS);
    let Some((Passed::Kept(_), before, late)) = client.hand_on(id, 0, now(5)) else {
        panic!("nobody is in line")
    };
    assert_eq!((before.map(FencingToken::get), late.len()), (Some(1), 0));
    assert!(client.are_scheduled() && client.leases(id).unwrap().is_kept());
    let taken = client.clone();
    // Who comes takes it.
    let mut client = taken.clone();
    let came = joins(&mut client, queue, STANDS, waits("next"));
    let Came::Takes(kept, ask) = came else { panic!("{came:?}") };
    assert_eq!((kept, client.take_kept(queue)), (id, None));
    let (begun, _) = client.resume(kept, &ask.next(at(6)), now(6).situation).unwrap();
    assert_eq!((begun.number, begun.token.map(FencingToken::get)), (2, Some(2)));
    assert!(client.end(id, End::Kept).is_none(), "it is not kept");
    assert!(client.resume(kept, &ask.next(at(6)), now(6).situation).is_none());
    // Its time is up.
    let mut client = taken.clone();
    let due = client.handle_timeout(at(305));
    assert_eq!((due.give_back, due.tell), (vec![(id, false)], vec![]));
    assert!(client.end(id, End::Kept).is_some_and(|ended| !ended.lease.was_held));
    assert_eq!((client.take_kept(queue), client.end(id, End::Kept)), (None, None));
    // Somebody else wants it.
    let mut client = taken.clone();
    assert_eq!((client.take_kept(queue), client.take_kept(queue)), (Some(id), None));
    // Everything that is kept is given back at once.
    let mut client = taken;
    assert_eq!((client.take_all_kept(), client.take_all_kept()), (vec![id], vec![]));
    // Nothing is kept of a client that is closed.
    let Held { mut client, id, .. } = held(300 * MS);
    let closed = HandOn { closed: true, ..now(5) };
    assert!(matches!(client.hand_on(id, 0, closed), Some((Passed::ToNobody(None), ..))));
}

#[test]
fn k3_nothing_is_set_for_a_grant_that_is_over() {
    let node = NodeId::new(0);
    type Over = fn(&mut Mine, GrantId);
    let all: [Over; 5] = [
        |client, id| {
            let _ = client.end(id, End::GivenBack(0));
        },
        |client, id| {
            let _ = client.end(id, End::Over(0, LossReason::LeftToExpire));
        },
        |client, id| {
            let _ = client.change(id, |leases| leases.handle_check(at(20_000)));
        },
        |client, id| {
            let _ = client.handle_extension(id, ExtendOutcome::Lost, at(5));
        },
        |client, id| {
            let _ = client.change(id, Leases::shut_down);
        },
    ];
    for over in all {
        let Held { mut client, id, footprint, .. } = held(Duration::ZERO);
        assert!(client.clone().begin_restore(id, node));
        over(&mut client, id);
        assert!(!client.begin_restore(id, node));
        assert!(!client.footprint(footprint).unwrap().handle_restore_sent(node));
        client.forget_footprint(footprint);
        assert!(client.footprint(footprint).is_none());
    }
}

/// The answer to a restore may come at the same time, and would take the orders of others.
#[test]
fn k3_whoever_ends_a_grant_has_all_orders() {
    let Held { mut client, id, footprint, .. } = held(Duration::ZERO);
    let of_it = client.footprint(footprint).unwrap();
    (0..3).for_each(|node| of_it.handle_acquire_sent(NodeId::new(node)));
    assert!(client.begin_restore(id, NodeId::new(0)));
    let orders = client.end(id, End::GivenBack(0)).unwrap().orders;
    assert_eq!(orders.iter().map(|order| order.node.index()).collect::<Vec<_>>(), [0, 1, 2]);
    let of_it = client.footprint(footprint).unwrap();
    assert_eq!(of_it.poll_release(), None);
    of_it.handle_restore(NodeId::new(0), &Ok(Reply::Granted(None.into())));
    assert_eq!(of_it.poll_release().map(|order| order.node.index()), Some(0), "what it has set");
    // What is left for its lock-delay, or left to expire, is ordered nowhere.
    for end in [End::Left(0), End::Over(0, LossReason::LeftToExpire)] {
        let Held { mut client, id, footprint, .. } = held(Duration::ZERO);
        let of_it = client.footprint(footprint).unwrap();
        of_it.handle_acquire_sent(NodeId::new(0));
        assert_eq!(client.end(id, end).map(|ended| ended.orders), Some(vec![]));
        assert_eq!(client.footprint(footprint).unwrap().poll_release(), None);
    }
}

/// As where a panic has ended whoever was about to have it.
#[test]
fn k5_a_grant_that_nobody_has_any_more_holds_no_queue() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    stands(&mut client, queue, waits("first"));
    assert_eq!(client.forget(id), Some("grant"));
    assert_eq!(client.next_leader(queue, true).map(|(_, ask, _)| ask.name), Some("first"));
    // Who still asks says so itself.
    let mut client = Mine::default();
    let queue = client.open_queue();
    let Came::Asks(place, ..) = joins(&mut client, queue, STANDS, waits("leader")) else {
        panic!("nobody is before it")
    };
    let footprint = client.add_footprint(Footprint::new(3));
    let leases = held(Duration::ZERO).client.leases(id).unwrap().clone();
    let station = Some((queue, place));
    let won = client.begin(NewGrant { leases, footprint, station, data: "grant" });
    client.forget(won);
    assert!(client.next_leader(queue, true).is_none() && client.handle_over(queue, place));
}

#[test]
fn k4_a_grant_goes_to_the_first_that_is_in_time_or_to_nobody() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    assert!(!client.may_pass(id), "nobody wants it");
    stands(&mut client, queue, ask("late", WaitPolicy::For(20 * MS)));
    stands(&mut client, queue, waits("first"));
    stands(&mut client, queue, waits("second"));
    assert!(client.may_pass(id));
    let Some((Passed::To(ask, begun, _), before, late)) = client.hand_on(id, 0, now(20)) else {
        panic!("somebody is in line")
    };
    let late: Vec<_> = late.into_iter().map(|ask| ask.name).collect();
    assert_eq!((ask.name, late), ("first", vec!["late"]));
    assert_eq!((before.map(FencingToken::get), begun.number), (Some(1), 1));
    assert_eq!(client.timers(), 1, "that of the grant");
    assert!(client.are_scheduled());
    assert!(client.hand_on(id, 0, now(20)).is_none(), "the lease before gives nothing back");
    // It is over: the next asks.
    assert!(client.end(id, End::GivenBack(1)).is_some());
    assert!(client.handle_grant_over(id) && !client.handle_grant_over(id));
    let next = client.next_leader(queue, true).map(|(_, ask, _)| ask.name);
    assert_eq!(next, Some("second"));
    // One that does not pass: its holder shares it.
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    stands(&mut client, queue, waits("first"));
    client.change(id, |leases| leases.lower(0)).unwrap().unwrap();
    assert!(client.hand_on(id, 1, now(20)).is_none());
}

#[test]
fn k5_whoever_comes_while_a_grant_passes_finds_it_held_or_kept() {
    let Held { mut client, queue, id, .. } = held(300 * MS);
    stands(&mut client, queue, waits("first"));
    let finds = |client: &mut Mine| match joins(client, queue, ONCE, waits("once")) {
        Came::Held(grant, _) => grant == id,
        came => panic!("{came:?}"),
    };
    assert!(finds(&mut client) && client.holder(queue) == Some(id));
    assert!(matches!(client.hand_on(id, 0, now(5)), Some((Passed::To(..), ..))));
    assert!(finds(&mut client));
    assert!(client.change(id, |leases| leases.handle_taken(1)).is_some());
    // The one that has it now asked for no more than its time.
    assert!(matches!(client.hand_on(id, 1, now(6)), Some((Passed::ToNobody(_), ..))));
    assert!(finds(&mut client), "until it has ended");
    client.end(id, End::GivenBack(1)).unwrap();
    assert!(client.handle_grant_over(id));
    assert!(matches!(joins(&mut client, queue, ONCE, waits("once")), Came::Asks(..)));
    // One who knows that it is over is not told of it again.
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    let came = client.join(queue, ONCE, (false, Some(id)), waits("once"), at(1));
    assert!(matches!(came, Came::Waits(..)), "{came:?}");
    let came = client.join(queue, ONCE, (true, None), waits("once"), at(1));
    assert!(matches!(came, Came::Closed(_)), "{came:?}");
}

#[test]
fn what_is_held_counts_until_it_ends_and_nothing_counts_behind_a_shutdown() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!((client.held_count(), client.held().count()), (1, 1));
    assert!(client.count(id), "once");
    assert_eq!(client.held_count(), 1);
    client.shut_down();
    assert!(!client.count(id));
    client.end(id, End::GivenBack(0));
    assert_eq!((client.held_count(), client.held().count()), (0, 0));
    assert_eq!(client.data_mut(id).map(|data| *data = "other"), Some(()));
    assert_eq!(client.data(id), Some(&"other"));
}

#[test]
fn who_asks_beside_the_queue_comes_to_stand_where_it_came() {
    let mut client = Mine::default();
    let queue = client.open_queue();
    let any = Comer { asks_once: false, is_any: true };
    let Came::Beside(one, first) = joins(&mut client, queue, any, waits("one")) else {
        panic!("nobody stands there")
    };
    let Came::Beside(two, second) = joins(&mut client, queue, any, waits("two")) else {
        panic!("nobody stands there")
    };
    assert!(client.ask_at(queue, one) && !client.ask_at(queue, two));
    let _ = client.stand_at(queue, two, second).unwrap();
    assert!(matches!(client.ahead(queue, two), Some((1, None))));
    // What the leader has won is one of several: there may be more, whatever was met before.
    client.begin_round(queue, at(1));
    assert!(client.handle_lost(queue, "held", (true, true), at(2), |_| None).is_empty());
    let told = |client: &mut Mine| joins(client, queue, ONCE, waits("once"));
    assert!(matches!(told(&mut client), Came::Told("held", _)));
    client.begin_round(queue, at(2));
    client.handle_won_permit(queue);
    let came = told(&mut client);
    let Came::Waits(once, _) = came else { panic!("{came:?}") };
    client.leave(queue, once);
    assert!(client.handle_over(queue, one));
    assert_eq!(client.next_leader(queue, true).map(|(_, ask, _)| ask.name), Some("two"));
    // A leader whose rounds take too long stands behind those who wait.
    let first = client.stand_back(queue, two, first).unwrap_err();
    let place = stands(&mut client, queue, waits("three"));
    let _ = client.stand_back(queue, two, first).unwrap();
    assert!(client.next_leader(queue, false).is_some_and(|(next, ..)| next == place));
    client.rest_until(queue, at(9));
    client.handle_over(queue, place);
    let next = client.next_leader(queue, false);
    assert!(matches!(&next, Some((_, ask, Pause::Rest(_))) if ask.name == "one"), "{next:?}");
    client.handle_not_started(queue);
    assert!(client.next_leader(queue, true).is_none());
}
